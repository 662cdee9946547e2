#!/bin/sh
# Installs libgiusto: install.sh PREFIX [FOLDER]. FOLDER has what `cargo build --release -p giusto-capi` built. DESTDIR is put before PREFIX.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:?usage: install.sh PREFIX [FOLDER]}
from=${2:-${CARGO_TARGET_DIR:-$here/../../target}/release}
to=${DESTDIR:-}$prefix
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" "$here/../../Cargo.toml" 2>/dev/null | head -n 1)
mkdir -p "$to/lib/pkgconfig" "$to/include"
if [ -e "$from/libgiusto_capi.so" ]; then
    # Another file than before: programs that run have that one in memory.
    cp "$from/libgiusto_capi.so" "$to/lib/libgiusto.so.1.new"
    mv -f "$to/lib/libgiusto.so.1.new" "$to/lib/libgiusto.so.1"
    ln -sf libgiusto.so.1 "$to/lib/libgiusto.so"
fi
if [ -e "$from/libgiusto_capi.a" ]; then
    cp "$from/libgiusto_capi.a" "$to/lib/libgiusto.a"
fi
cp "$here"/include/giusto*.h "$to/include"
sed "s|@VERSION@|$version|" "$here/giusto.pc.in" >"$to/lib/pkgconfig/giusto.pc"
