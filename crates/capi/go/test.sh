#!/bin/sh
# Tests the adapter for pion across `giusto link`: test.sh GIUSTO FOLDER. GIUSTO is the command; FOLDER has libgiusto_capi as cargo built it.
# Go and its modules are needed: without them this says so and succeeds.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
giusto=$(realpath "${1:?usage: test.sh GIUSTO FOLDER}")
from=$(realpath "${2:?usage: test.sh GIUSTO FOLDER}")
PATH=$PATH:/usr/local/go/bin
for program in go cc pkg-config; do
    command -v "$program" >/dev/null 2>&1 || { echo "SKIPPED the adapter for pion: $program is missing"; exit 0; }
done
cd "$here"
timeout 300 go mod download >/dev/null 2>&1 || { echo "SKIPPED the adapter for pion: its Go modules cannot be had"; exit 0; }
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
"$here/../install.sh" "$prefix" "$from"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" LD_LIBRARY_PATH="$prefix/lib" GIUSTO="$giusto"
# Go keeps what it has built with the answer of pkg-config of an earlier run, whose folder is gone; this is part of its key.
export CGO_LDFLAGS="-L$prefix/lib"
[ -z "$(gofmt -l .)" ] || { echo "gofmt -w is needed: $(gofmt -l .)"; exit 1; }
go vet ./...
go test -count=1 ./...
