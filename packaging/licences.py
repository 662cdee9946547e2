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
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    found = json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)
    packages = {entry["id"]: entry for entry in found["packages"]}
    nodes = {entry["id"]: entry for entry in found["resolve"]["nodes"]}
    left, seen = [entry["id"] for entry in found["packages"] if entry["name"] == package], set()
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            # The kind of a normal dependency is null.
            left += [one["pkg"] for one in nodes[name]["deps"] if any(k["kind"] is None for k in one["dep_kinds"])]
    others = [packages[name] for name in seen if packages[name]["source"]]
    return sorted(others, key=lambda crate: (crate["name"], crate["version"]))


def notices(folder: Path) -> list[str]:
    """The licence files of a crate, also those of C code inside it."""
    files = [file for file in sorted(folder.rglob("*")) if file.name.upper().startswith(NAMES) and file.suffix != ".rs"]
    return [file.read_text(errors="replace").strip() for file in files if file.is_file()]


def of_system(files: list[Path]) -> list[tuple[str, str]]:
    """Names and texts of the licences of standard library and C library."""
    texts = []
    for file in files:
        text = file.read_text(errors="replace")
        if file.suffix == ".html":
            text = html.unescape(re.sub(r"<style.*?</style>|<[^>]+>", "", text, flags=re.DOTALL))
            text = re.sub(r"\n\s*\n\s*\n+", "\n\n", text)
        texts.append((file.name, text.strip()))
    return texts


def text(root: Path, package: str, target: str, system: list[Path]) -> str:
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
    charts = root / "crates/giusto/assets/plotly/LICENSE"
    table.append("Plotly.js, in pages: MIT")
    holders.setdefault(charts.read_text().strip(), []).append("Plotly.js")
    parts = ["giusto contains the following software of others.", "\n".join(table)]
    for name, notice in of_system(system):
        holders.setdefault(notice, []).append(name)
    rule = "=" * 100
    parts += [f"{rule}\n{', '.join(names)}\n{rule}\n\n{notice}" for notice, names in holders.items()]
    return "\n\n".join(parts) + "\n"
