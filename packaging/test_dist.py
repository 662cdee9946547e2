#!/usr/bin/env python3
"""Installs each package of `make dist` in a place that has nothing else of giusto and uses it: `make test-dist`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import urllib.request
from collections.abc import Callable
from pathlib import Path

from dist import DEBIAN

ROOT = Path(__file__).resolve().parent.parent
# Runs a program in the folder $0 as its root, in namespaces of its own. `host` keeps the machine's network.
ENTER = """set -e
mount --make-rprivate /
mkdir -p "$0/proc" "$0/dev"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
[ "$1" = host ] || ip link set lo up
shift
exec chroot "$0" "$@"
"""


class Skipped(Exception):
    """A test cannot run here, and why."""


def install(program: str, *packages: str) -> None:
    """Installs a program of Debian that is missing."""
    if shutil.which(program) is None:
        command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
        if (
            os.geteuid() != 0
            or shutil.which("apt-get") is None
            or subprocess.run(command, capture_output=True).returncode
        ):
            raise Skipped(f"{program} is missing, and apt-get cannot install it")


def check(command: list[str | Path], folder: Path | None = None, statuses: tuple[int, ...] = (0,)) -> str:
    """Standard output of a command that must end with one of `statuses`, with nothing of this shell's Python."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV", "GIUSTO"))}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=3600)
    words = " ".join(str(word) for word in command)
    assert done.returncode in statuses, f"{words}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


class Place:
    """Where giusto is installed: `root`, or the machine itself for a Python environment."""

    def __init__(self, program: str | Path, work: Path, root: Path | None = None) -> None:
        self.program, self.work, self.root = program, work, root

    def command(self, *args: str, network: str = "own") -> list[str | Path]:
        if self.root is None:
            return [self.program, *args]
        space = ["unshare", "--mount", "--pid", "--fork", "--kill-child"] + ["--net"] * (network == "own")
        return [*space, "sh", "-c", ENTER, self.root, network, self.program, *args]

    def run(self, *args: str, statuses: tuple[int, ...] = (0,)) -> str:
        return check(self.command(*args), self.work, statuses)


def use(place: Place, version: str) -> None:
    """Uses an installed giusto, without a checkout."""
    assert place.run("--version") == f"giusto {version}\n"
    # Status 3 is that of a machine too busy for its figures to be trusted.
    place.run("demo", "--quick", statuses=(0, 3))
    page = (place.work / "giusto-demo.html").read_text()
    assert len(page) > 100_000 and page.rstrip().endswith("</html>")
    assert "voice" in place.run("sim", "first")
    place.run("sim", "rate-trace", "--out", "run")
    assert (place.work / "run/result.json").exists()
    place.run("sim", "no-such-name", statuses=(2,))
    for shell in ("bash", "zsh", "fish"):
        assert "giusto" in place.run("completions", shell)
    place.run("man", "pages")
    assert ".TH giusto-sim 1" in (place.work / "pages/giusto-sim.1").read_text()
    explore(place)


def explore(place: Place) -> None:
    """The page of `giusto explore` is served until Ctrl-C."""
    command = place.command("explore", "--no-open", network="host")
    with subprocess.Popen(
        command, cwd=place.work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            while (found := re.search(r"http://\S+", said)) is None:
                line = process.stdout.readline()
                assert line, f"explore ended: {said}"
                said += line
            with urllib.request.urlopen(found.group(), timeout=30) as answer:
                assert b"<html" in answer.read()
            program = process.pid if place.root is None else inside(process.pid)
            os.kill(program, signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()
    assert process.returncode == 0, process.returncode


def inside(parent: int) -> int:
    """The only child of `unshare`."""
    return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


class Tests:
    """The packages of a folder, each tested in a scratch folder."""

    def __init__(self, target: Path, version: str, profile: str) -> None:
        self.target, self.version, self.profile = target, version, profile
        self.packages = target / "packages"
        machine = platform.machine()
        self.names = {
            "archive": f"giusto-{version}-{machine}-linux-*.tar.gz",
            "container": f"giusto-{version}-{machine}-linux-musl.tar.gz",
            "deb": f"giusto_{version}_{DEBIAN[machine]}.deb",
            "wheel": f"giusto-{version}-*{machine}.whl",
            "sdist": f"giusto-{version}.tar.gz",
        }

    def package(self, kind: str) -> Path:
        found = sorted(self.packages.glob(self.names[kind]), key=lambda file: file.stat().st_mtime)
        if not found:
            raise Skipped(f"no {self.names[kind]} in {self.packages}: make dist")
        return found[-1]

    def root(self) -> None:
        if os.geteuid() != 0:
            raise Skipped("needs root")
        install("ip", "iproute2")

    def unpacked(self, kind: str, folder: Path) -> Path:
        with tarfile.open(self.package(kind)) as tar:
            tar.extractall(folder, filter="data")
        (unpacked,) = folder.iterdir()
        return unpacked

    def archive(self, scratch: Path) -> None:
        """The static binary alone in an empty root."""
        self.root()
        check(["sha256sum", "--check", "--ignore-missing", "SHA256SUMS"], self.packages)
        unpacked = self.unpacked("archive", scratch / "unpacked")
        for name in (
            "completions/giusto.bash",
            "man/man1/giusto.1",
            "LICENSE-MIT",
            "THIRD-PARTY-LICENSES.txt",
            "README.md",
        ):
            assert (unpacked / name).stat().st_size > 100, name
        if (unpacked / "lib").exists():
            self.library(unpacked, scratch / "sender")
        if not unpacked.name.endswith("-musl"):
            raise Skipped("the binary is not static: it is not run in an empty root")
        root = scratch / "root"
        root.mkdir()
        shutil.copy(unpacked / "giusto", root / "giusto")
        use(Place("/giusto", root, root), self.version)

    def library(self, unpacked: Path, program: Path) -> None:
        """A program in C, with libgiusto as it is unpacked."""
        assert (unpacked / "include/giusto_webrtc.h").stat().st_size > 1000
        if shutil.which("cc") is None:
            print("SKIPPED libgiusto: cc is missing")
            return
        source = ROOT / "crates/capi/examples/udp_sender.c"
        check(["cc", "-I", unpacked / "include", source, "-L", unpacked / "lib", "-lgiusto", "-o", program])
        printed = check(["env", f"LD_LIBRARY_PATH={unpacked / 'lib'}", program, "tempo", "2"])
        assert "packets arrived" in printed, printed

    def container(self, scratch: Path) -> None:
        """The image of the Containerfile, which buildah makes."""
        self.root()
        install("buildah", "buildah")
        unpacked = self.unpacked("container", scratch / "unpacked")
        buildah: list[str | Path] = [
            "buildah",
            "--root",
            scratch / "storage",
            "--runroot",
            scratch / "run",
            "--storage-driver",
            "vfs",
        ]
        check([*buildah, "build", "--isolation", "chroot", "--tag", "giusto", unpacked])
        config = json.loads(check([*buildah, "inspect", "--type", "image", "giusto"]))["OCIv1"]["config"]
        assert config["Entrypoint"] == ["/usr/bin/giusto"] and config["WorkingDir"] == "/data"
        name = check([*buildah, "from", "giusto"]).strip()
        root = Path(check([*buildah, "mount", name]).strip())
        held = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
        texts = {"LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt"}
        assert held == {"usr/bin/giusto"} | {f"usr/share/doc/giusto/{text}" for text in texts}, held
        use(Place("/usr/bin/giusto", root, root), self.version)

    def lintian(self, scratch: Path) -> None:
        """The Debian package has neither errors nor warnings."""
        package = self.package("deb")
        install("lintian", "lintian")
        check(["lintian", "--allow-root", "--fail-on", "error,warning", package])

    def deb(self, scratch: Path) -> None:
        """The Debian package in the smallest Debian."""
        self.root()
        package = self.package("deb")
        install("debootstrap", "debootstrap")
        kept = self.target / "packaging/minbase"
        if not (kept / "usr/bin/apt-get").exists():
            shutil.rmtree(kept, ignore_errors=True)
            try:
                check(["debootstrap", "--variant=minbase", platform.freedesktop_os_release()["VERSION_CODENAME"], kept])
            except AssertionError as why:
                raise Skipped(f"debootstrap: {why}") from why
        root = scratch / "root"
        check(["cp", "-a", kept, root])
        shutil.copy(package, root / "giusto.deb")
        place = Place("/usr/bin/giusto", root, root)
        apt = Place("/usr/bin/env", root, root).command("DEBIAN_FRONTEND=noninteractive", "apt-get", network="host")
        check([*apt, "install", "-y", "--no-install-recommends", "/giusto.deb"])
        installed = ["etc/giusto", "usr/share/man/man1/giusto.1.gz", "usr/share/bash-completion/completions/giusto"]
        installed += ["usr/share/zsh/vendor-completions/_giusto", "usr/share/fish/vendor_completions.d/giusto.fish"]
        for name in installed:
            assert (root / name).exists() or name.startswith("usr/share/man"), name
        for name in ["giusto-recv", "giusto-monitor"]:
            unit = (root / f"lib/systemd/system/{name}.service").read_text()
            (user,) = re.findall(r"^User=(.+)$", unit, re.MULTILINE)
            assert re.search(rf"^{user}:x:\d+:", (root / "etc/passwd").read_text(), re.MULTILINE)
            (program,) = re.findall(r"^ExecStart=(\S+)", unit, re.MULTILINE)
            assert (root / program.lstrip("/")).exists()
        use(place, self.version)
        # The package has the simulator for browsers if `make web` came first.
        if (root / "usr/share/giusto/giusto.wasm.gz").exists():
            place.run("explore", "media", "--out", "explore.html")
            assert (root / "explore.html").stat().st_size > 1_000_000
        check([*apt, "purge", "-y", "giusto"])
        assert not any((root / name).exists() for name in ["usr/bin/giusto", *installed])

    def environment(self, scratch: Path, *args: str | Path) -> Path:
        """A Python environment with only what pip installs there."""
        environment = scratch / "environment"
        check([sys.executable, "-m", "venv", environment])
        check([environment / "bin/pip", "install", "--quiet", *args])
        work = scratch / "work"
        work.mkdir()
        use(Place(environment / "bin/giusto", work), self.version)
        return environment

    def wheel(self, scratch: Path) -> None:
        """The wheel: the package and the command."""
        environment = self.environment(scratch, self.package("wheel"))
        program = "import giusto; print(giusto.run('first').flow('voice').delay_ms.p95)"
        assert float(check([environment / "bin/python", "-c", program], scratch)) > 0

    def sdist(self, scratch: Path) -> None:
        """The sdist, which pip builds."""
        package = self.package("sdist")
        os.environ["CARGO_TARGET_DIR"] = str(self.target)
        self.environment(scratch, "--no-deps", f"--config-settings=build-args=--profile {self.profile}", package)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = ["archive", "container", "deb", "lintian", "wheel", "sdist"]
    parser.add_argument("tests", nargs="*", metavar="TEST", help=f"of {', '.join(kinds)}; all without one")
    parser.add_argument("--profile", default="release", help="cargo profile that builds the sdist")
    args = parser.parse_args()
    if unknown := set(args.tests) - set(kinds):
        parser.error(f"no test {', '.join(sorted(unknown))}: use one of {', '.join(kinds)}")
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    version = next(entry["version"] for entry in found["packages"] if entry["name"] == "giusto-cli")
    tests = Tests(Path(found["target_directory"]), version, args.profile)

    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for kind in args.tests or kinds:
        test: Callable[[Path], None] = getattr(tests, kind)
        started = time.monotonic()
        outcome = "passed"
        with tempfile.TemporaryDirectory(prefix="giusto-") as scratch:
            try:
                test(Path(scratch))
            except Skipped as why:
                outcome = "skipped"
                print(f"SKIPPED package {kind}: {why}")
            except Exception:
                outcome = "failed"
                traceback.print_exc()
        counts[outcome] += 1
        print(f"package {kind}: {outcome} ({time.monotonic() - started:.0f} s)", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
