"""What the packages are built with: a compiler, a C library and a linker for a target."""

from __future__ import annotations

import functools
import glob
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

# zig links for every target and brings the C libraries. Versions are pinned for equal results.
TOOLS = ["cargo-zigbuild==0.24.*", "ziglang==0.17.*", "maturin>=1.9,<2"]


class Unavailable(Exception):
    """A package cannot be built here, and why."""


@dataclass
class Toolchain:
    """How cargo builds for a target."""

    environment: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    # Files with the licences of what is not a crate.
    licences: dict[str, Path] = field(default_factory=dict)


def output(*command: str | Path, **more: object) -> str:
    """What a command prints, without its last line break."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **more)  # type: ignore[call-overload]
    return str(done.stdout).rstrip("\n")


def works(*command: str) -> bool:
    """Whether a command can be run and succeeds."""
    try:
        return (
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300).returncode == 0
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


def tools(folder: Path) -> Path:
    """The folder of the tools' programs, which pip installs to `folder` the first time."""
    if not works(str(folder / "bin/python"), "-m", "ziglang", "version"):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", *TOOLS], check=True)
    return folder / "bin"


def c_library_licences(folder: Path) -> dict[str, Path]:
    """Licences of the parts that zig links into a static binary."""
    zig = Path(glob.glob(str(folder / "lib/python3*/site-packages/ziglang"))[0])
    return {"musl, the C library": zig / "lib/libc/musl/COPYRIGHT", "compiler runtime of zig": zig / "LICENSE"}


@functools.cache
def for_target(target: str, scratch: Path) -> Toolchain:
    """The toolchain for `target`: cargo's own with the standard library of the target, or else Debian's source of it."""
    own = Path(output("rustc", "--print", "sysroot"))
    has_target = (own / "lib/rustlib" / target / "lib").is_dir()
    if has_target or works("rustup", "target", "add", target):
        return Toolchain(licences=library_licence(own / "share/doc/rust/COPYRIGHT-library.html"))
    return debian(target, scratch / "debian")


def debian(target: str, folder: Path) -> Toolchain:
    """Debian's compiler, for Debian's source of the standard library. Both lie in `folder` and are not installed."""
    compiler = folder / "usr/bin/rustc"
    if not compiler.exists():
        why = f"rustup cannot add {target}, and Debian's source of the standard library cannot be had"
        if os.geteuid() != 0 or not works("apt-get", "update"):
            raise Unavailable(f"{why}: root and apt-get are needed")
        depends = ["apt-cache", "depends", "--no-suggests", "--no-recommends"]
        listed = output(*depends, "--recurse", "rustc-web", "rust-web-src").splitlines()
        names = sorted({line for line in listed if line.startswith(("rustc-web", "rust-web-src", "libstd-rust-web-"))})
        words = output(*depends, *names).split() if names else []
        libllvm = sorted({word for word in words if word.startswith("libllvm")})
        folder.mkdir(parents=True, exist_ok=True)
        if not works("apt-get", "install", "-y", *libllvm) or not works(
            "sh", "-c", 'cd "$0" && apt-get download "$@"', str(folder), *names
        ):
            raise Unavailable(f"{why}: apt-get has no rustc-web")
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            package.unlink()
    environment = {
        "RUSTC": str(compiler),
        "LD_LIBRARY_PATH": str(folder / f"usr/lib/{platform.machine()}-linux-gnu"),
        # Lets a stable compiler compile its standard library, whose start files and C library zig has.
        "RUSTC_BOOTSTRAP": "1",
        "RUSTFLAGS": "-Clink-self-contained=no",
    }
    licences = library_licence(*folder.glob("usr/share/doc/libstd-rust-web-*/copyright"))
    return Toolchain(environment, ["-Zbuild-std=std,panic_abort"], licences)


def library_licence(*files: Path) -> dict[str, Path]:
    """The licences of Rust's standard library, where the toolchain has them."""
    return {"standard library of Rust": file for file in files if file.is_file()}
