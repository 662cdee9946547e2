"""The licences of everything that a binary of giusto contains, as one text."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

# A file of a crate with one of these beginnings is part of its licence.
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def crates(root: Path, package: str, target: str) -> list[dict[str, Any]]:
    """The crates of others that `package` contains on `target`."""

    def cargo(*words: str) -> str:
        return subprocess.run(["cargo", *words], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout

    tree = ["tree", "--locked", "--package", package, "--target", target, "--edges", "normal", "--prefix", "none"]
    # What packages are built with.
    tree = cargo(*tree, *(["--features", "monitor"] if package == "giusto-cli" else []))
    contained = {tuple(line.split()[:2]) for line in tree.splitlines()}
    known = json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]
    others = [crate for crate in known if crate["source"] and (crate["name"], f"v{crate['version']}") in contained]
    return sorted(others, key=lambda crate: (crate["name"], crate["version"]))


def notices(folder: Path) -> list[str]:
    """The licence files of a crate, also those of C code inside it."""
    files = [file for file in sorted(folder.rglob("*")) if file.name.upper().startswith(NAMES) and file.suffix != ".rs"]
    return [file.read_text(errors="replace").strip() for file in files if file.is_file()]


def plain(file: Path) -> str:
    """The text of a file, also of an HTML page."""
    text = file.read_text(errors="replace")
    if file.suffix == ".html":
        text = html.unescape(re.sub(r"<style.*?</style>|<[^>]+>", "", text, flags=re.DOTALL))
        text = re.sub(r"\n\s*\n\s*\n+", "\n\n", text)
    return text.strip()


def text(root: Path, package: str, target: str, system: dict[str, Path]) -> str:
    """One text; a licence that several crates have word for word is printed once."""
    holders: dict[str, list[str]] = {}
    table = []
    for crate in crates(root, package, target):
        name = f"{crate['name']} {crate['version']}"
        table.append(f"{name}: {crate['license']}")
        found = notices(Path(crate["manifest_path"]).parent)
        if not found:
            raise SystemExit(f"{name}: no licence file: name its licence in packaging/licences.py")
        for notice in found:
            names = holders.setdefault(notice, [])
            names.extend([] if name in names else [name])
    more = {"Plotly.js, in pages": root / "crates/giusto/assets/plotly/LICENSE", **system}
    for name, file in more.items():
        table.append(f"{name}: see below")
        holders.setdefault(plain(file), []).append(name)
    parts = ["giusto contains the following software of others.", "\n".join(table)]
    rule = "=" * 100
    parts += [f"{rule}\n{', '.join(names)}\n{rule}\n\n{notice}" for notice, names in holders.items()]
    return "\n\n".join(parts) + "\n"
