#!/usr/bin/env python3
"""Builds the packages of giusto, `make dist`: archive with a static binary, Debian package, wheel and sdist."""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from email.utils import formatdate
from pathlib import Path

import licences
import toolchain
from toolchain import Toolchain, Unavailable, output

ROOT = Path(__file__).resolve().parent.parent
HOST = platform.machine()
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
SHELLS = {"bash": "giusto.bash", "zsh": "_giusto", "fish": "giusto.fish"}


class Builder:
    """Builds for one architecture, into `target/packages`."""

    def __init__(self, arch: str, profile: str, binary: Path | None) -> None:
        self.arch, self.profile, self.given = arch, profile, binary
        found = json.loads(output("cargo", "metadata", "--locked", "--no-deps", "--format-version", "1", cwd=ROOT))
        self.target_folder = Path(found["target_directory"])
        self.version = next(entry["version"] for entry in found["packages"] if entry["name"] == "giusto-cli")
        self.out = self.target_folder / "packages"
        self.scratch = self.target_folder / "packaging"
        self.out.mkdir(parents=True, exist_ok=True)
        # Equal binaries give equal packages: files have the time of the last commit.
        self.time = int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct", cwd=ROOT))
        self.made: list[Path] = []

    @functools.cached_property
    def tools(self) -> Path:
        """The folder of the tools' programs."""
        return toolchain.tools(self.scratch / "tools")

    def run(self, command: Sequence[str | Path], made: Toolchain, folder: Path) -> None:
        """Runs a command of the tools with a toolchain."""
        ours = {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "CARGO_TARGET_DIR": str(self.target_folder),
            "SOURCE_DATE_EPOCH": str(self.time),
        }
        subprocess.run([*command, *made.arguments], cwd=folder, env=os.environ | made.environment | ours, check=True)

    def binary(self) -> Path:
        """The binary that was given, or else a static one."""
        if self.given:
            return self.given
        target = f"{self.arch}-unknown-linux-musl"
        made = toolchain.for_target(target, self.scratch)
        build = ["cargo", "zigbuild", "--locked", "-p", "giusto-cli", "--features", "monitor", "--target", target, "--profile", self.profile]
        self.run(build, made, ROOT)
        return self.target_folder / target / {"dev": "debug"}.get(self.profile, self.profile) / "giusto"

    def licences(self, package: str, target: str) -> str:
        """The licences of all that a binary for `target` contains."""
        system = toolchain.for_target(target, self.scratch).licences
        if target.endswith("musl"):
            system = system | toolchain.c_library_licences(self.tools.parent)
        return licences.text(ROOT, package, target, system)

    def staged(self) -> Path:
        """The folder that the archive has: the binary and what belongs to it."""
        binary = self.binary()
        libc = "musl" if is_musl(binary) else "gnu"
        if libc == "gnu" and not self.given:
            raise SystemExit(f"{binary}: is not a static binary of musl")
        folder = self.scratch / f"giusto-{self.version}-{self.arch}-linux-{libc}"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "completions").mkdir(parents=True)
        shutil.copy2(binary, folder / "giusto")
        if self.given:
            subprocess.run(["strip", folder / "giusto"], check=True)
        program = binary
        if self.arch != HOST:
            self.run(["cargo", "build", "--locked", "-p", "giusto-cli", "--features", "monitor"], Toolchain(), ROOT)
            program = self.target_folder / "debug/giusto"
        for shell, name in SHELLS.items():
            (folder / "completions" / name).write_text(output(program, "completions", shell) + "\n")
        subprocess.run([program, "man", folder / "man/man1"], check=True)
        for name in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"]:
            shutil.copy(ROOT / name, folder)
        for name in ["Containerfile", "giusto-recv.service", "giusto-monitor.service", "giusto-monitor.json"]:
            shutil.copy(ROOT / "packaging" / name, folder)
        # For `giusto explore --out`.
        engine = self.target_folder / "web/giusto.wasm.gz"
        if engine.exists():
            shutil.copy(engine, folder)
        else:
            print(f"NOTE: the package lacks the simulator for browsers, {engine}: make web builds it")
        # The help of the command names pages of it.
        shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("notebooks"))
        if not self.given:
            self.library(folder)
        text = self.licences("giusto-cli", f"{self.arch}-unknown-linux-{libc}")
        (folder / "THIRD-PARTY-LICENSES.txt").write_text(text)
        return folder

    def library(self, folder: Path) -> None:
        """`lib` and `include` of libgiusto, for programs that use glibc 2.17 or later. Its crates are among those of the binary."""
        target = f"{self.arch}-unknown-linux-gnu"
        made = toolchain.for_target(target, self.scratch)
        build = ["cargo", "zigbuild", "--locked", "-p", "giusto-capi", "--target", f"{target}.2.17"]
        self.run([*build, "--profile", self.profile], made, ROOT)
        built = self.target_folder / target / {"dev": "debug"}.get(self.profile, self.profile)
        # The static library has the standard library of Rust, a hundred times as large: it is for those who build it.
        shared = self.scratch / "libgiusto"
        shared.mkdir(exist_ok=True)
        shutil.copy(built / "libgiusto_capi.so", shared)
        subprocess.run([ROOT / "crates/capi/install.sh", folder, shared], check=True)

    def archive(self, staged: Path) -> None:
        """`giusto-VERSION-ARCH-linux-musl.tar.gz`."""
        self.made.append(self.out / f"{staged.name}.tar.gz")

        def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = self.time
            entry.mode = 0o755 if entry.isdir() or entry.name.endswith("/giusto") else 0o644
            return entry

        unpacked = self.made[-1].with_suffix("")
        with tarfile.open(unpacked, "w") as tar:
            tar.add(staged, staged.name, filter=plain)
        subprocess.run(["gzip", "-9nf", unpacked], check=True)

    def deb(self, staged: Path) -> None:
        """`giusto_VERSION_ARCH.deb`, by debhelper in a folder of its own."""
        if not toolchain.works("dh", "--version") and not (
            os.geteuid() == 0 and toolchain.works("apt-get", "install", "-y", "--no-install-recommends", "debhelper")
        ):
            raise Unavailable("debhelper is missing, and apt-get cannot install it")
        folder = self.scratch / "deb"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(staged, folder)
        shutil.copytree(ROOT / "packaging/debian", folder / "debian")
        for name in ["giusto-recv", "giusto-monitor"]:
            unit = (ROOT / f"packaging/{name}.service").read_text()
            unit = unit.replace("/usr/local/bin/", "/usr/bin/").replace("DynamicUser=yes", "User=giusto")
            (folder / f"debian/giusto.{name}.service").write_text(unit)
        licence = (ROOT / "LICENSE-MIT").read_text().splitlines()
        copyright = folder / "debian/copyright"
        texts = {"@MIT@": "\n".join(f" {line}" if line else " ." for line in licence[2:])}
        for word, text in texts.items():
            copyright.write_text(copyright.read_text().replace(word, text))
        date = formatdate(self.time)
        entry = f"giusto ({self.version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n"
        entry += f" -- giusto <giusto@example.org>  {date}\n"
        (folder / "debian/changelog").write_text(entry)
        environment = os.environ | {"DEB_HOST_ARCH": DEBIAN[self.arch], "SOURCE_DATE_EPOCH": str(self.time)}
        subprocess.run(
            ["dpkg-architecture", "-a", DEBIAN[self.arch], "-c", "debian/rules", "binary"],
            cwd=folder,
            env=environment,
            check=True,
        )
        built = self.scratch / f"giusto_{self.version}_{DEBIAN[self.arch]}.deb"
        self.made.append(Path(shutil.move(built, self.out / built.name)))

    def wheel(self) -> None:
        """The Python package, whose extension module has the command too, from the sdist."""
        self.sdist()
        sources = self.scratch / "sources"
        shutil.rmtree(sources, ignore_errors=True)
        with tarfile.open(self.out / f"giusto-{self.version}.tar.gz") as tar:
            tar.extractall(sources, filter="data")
        (unpacked,) = sources.iterdir()
        target = f"{self.arch}-unknown-linux-gnu"
        text = self.licences("giusto-python", target)
        (unpacked / "python/giusto/THIRD-PARTY-LICENSES.txt").write_text(text)
        out = self.scratch / "wheel"
        shutil.rmtree(out, ignore_errors=True)
        build = ["maturin", "build", "--zig", "--compatibility", "manylinux2014", "--target", target]
        self.run(
            [*build, "--profile", self.profile, "--out", out], toolchain.for_target(target, self.scratch), unpacked
        )
        self.take(out)

    def sdist(self) -> None:
        """The sources of the Python package."""
        out = self.scratch / "sdist"
        shutil.rmtree(out, ignore_errors=True)
        self.run(["maturin", "sdist", "--out", out], Toolchain(), ROOT)
        self.take(out)

    def take(self, folder: Path) -> None:
        moved = [Path(shutil.move(file, self.out / file.name)) for file in sorted(folder.iterdir())]
        self.made += [file for file in moved if file not in self.made]

    def sums(self) -> None:
        """SHA256SUMS of all packages that are there."""
        kinds = (".tar.gz", ".deb", ".whl")
        files = [file for file in sorted(self.out.iterdir()) if file.name.endswith(kinds)]
        lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
        (self.out / "SHA256SUMS").write_text("".join(lines))


def is_musl(binary: Path) -> bool:
    """Whether a binary is static, without the dynamic linker and the note that glibc puts into its programs."""
    parts = output("readelf", "--program-headers", "--notes", "--wide", binary, env=os.environ | {"LC_ALL": "C"})
    return "INTERP" not in parts and "NT_GNU_ABI_TAG" not in parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = ["archive", "deb", "wheel", "sdist"]
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(kinds)}; all without one")
    parser.add_argument("--arch", default=HOST, choices=DEBIAN)
    parser.add_argument("--profile", default="dist", help="cargo profile")
    parser.add_argument(
        "--binary", type=Path, help="package this binary, which need not be static, instead of building one"
    )
    args = parser.parse_args()
    wanted = args.packages or kinds
    if unknown := set(wanted) - set(kinds):
        parser.error(f"no package {', '.join(sorted(unknown))}: use one of {', '.join(kinds)}")

    builder = Builder(args.arch, args.profile, args.binary)
    staged: Path | None = None
    for kind in wanted:
        try:
            if kind in ("archive", "deb"):
                staged = staged or builder.staged()
                getattr(builder, kind)(staged)
            else:
                getattr(builder, kind)()
        except Unavailable as why:
            print(f"SKIPPED package {kind}: {why}")
    builder.sums()
    for file in builder.made:
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {file}")


if __name__ == "__main__":
    main()
