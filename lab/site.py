#!/usr/bin/env python3
"""Fit the links of the documents to the site: a preprocessor of mdBook, which `book.toml` names.

README.md and CONTRIBUTING.md are included from the folder above the pages. What a page links to outside that folder is not part of
the site, so that its text stays without a link. Where `make web` has made the page of `giusto explore`, two pages begin with a link to it,
that of the gallery leads there, and a command that names a scenario of the gallery gets a link that opens the scenario in it.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

EXPLORE = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "web/explore.html")
EXPLORED_FROM = {"index.md": "explore.html", "how-to/explore.md": "../explore.html"}
INCLUDED = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md"}
PAGES = {original: page for page, original in INCLUDED.items()}
GALLERY = "scenarios/README.md"
COMMAND = re.compile(r"giusto (?:sim|compare|explore|sweep|link) [^\n]*")
BLOCK = re.compile(r"^( *)```[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
# A link as it is, or a command between backticks.
INLINE = re.compile(r"\[[^\[\]]*\]\([^()\s]+\)|`(giusto [^`]*)`")


def gallery() -> dict[str, str]:
    """Return the names of the scenarios in the gallery, with and without their folders."""
    folder = Path(__file__).parent.parent / "scenarios"
    paths = [path.relative_to(folder).with_suffix("").as_posix() for path in sorted(folder.rglob("*.toml"))]
    return {name: path for path in paths for name in (posixpath.basename(path), path)}


SCENARIOS = gallery()


def question(command: str) -> tuple[str, str] | None:
    """Return the scenario of a command and the fragment that opens it on the page of `giusto explore`."""
    try:
        words = shlex.split(command.rstrip("\\"), comments=True)[2:]
    except ValueError:  # A quotation that ends on a later line.
        words = command.split()[2:]
    name = SCENARIOS.get(words[0].removeprefix("scenarios/").removesuffix(".toml")) if words else None
    if name is None:
        return None
    settings, controllers = [], []
    for option, value in zip(words[1:], words[2:]):
        # A list of values is a sweep: the page begins with the file's own.
        if option == "--set" and "," not in value:
            settings.append(value.split("=", 1))
        elif option == "--seed":
            settings.append(["seed", value])
        elif option == "--controller":
            controllers = value.split(",")
    asked = {"sides": [{"scenario": name, "settings": settings}], "controllers": controllers, "seeds": 1}
    return name, "#q=" + quote(json.dumps(asked, separators=(",", ":")), safe="")


def live(text: str, explore: str) -> str:
    """Return the text of a page with links to the scenarios that its commands name; `explore` is the page that opens them."""

    def after(block: re.Match[str]) -> str:
        asked = dict(filter(None, map(question, COMMAND.findall(block[2]))))
        links = ", ".join(f"[{name}]({explore}{fragment})" for name, fragment in asked.items())
        return f"{block[0]}\n\n{block[1]}Live: {links}" if links else block[0]

    def inline(match: re.Match[str]) -> str:
        asked = question(match[1]) if match[1] and COMMAND.fullmatch(match[1]) else None
        return f"[{match[0]}]({explore}{asked[1]})" if asked else match[0]

    parts, end = [], 0
    for block in BLOCK.finditer(text):
        parts += [INLINE.sub(inline, text[end : block.start()]), after(block)]
        end = block.end()
    return "".join([*parts, INLINE.sub(inline, text[end:])])


def fitted(text: str, page: str) -> str:
    """Return the text of a page with the links of the site."""
    # Where its links start from, in the repository.
    folder = "" if page in INCLUDED else posixpath.dirname(f"docs/{page}")
    here = posixpath.dirname(page)

    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        if ":" in target or target.startswith("#"):
            return match[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(folder, path))
        if path == GALLERY and os.path.exists(EXPLORE):
            return f"{label}({posixpath.relpath('explore.html', here or '.')})"
        if not path.startswith("docs/") and path not in PAGES:
            return label.removeprefix("!")[1:-1]
        path = posixpath.relpath(PAGES.get(path, path.removeprefix("docs/")), here or ".")
        return f"{label}({path}{'#' if anchor else ''}{anchor})"

    return re.sub(r"(!?\[[^\[\]]*\])\(([^()\s]+)\)", link, text)


def fit(items: list[Any]) -> None:
    for item in items:
        if isinstance(item, dict) and (chapter := item.get("Chapter")):
            chapter["content"] = fitted(chapter["content"], chapter["path"])
            if os.path.exists(EXPLORE):
                explore = posixpath.relpath("explore.html", posixpath.dirname(chapter["path"]) or ".")
                chapter["content"] = live(chapter["content"], explore)
            if (link := EXPLORED_FROM.get(chapter["path"])) and os.path.exists(EXPLORE):
                offer = f"**[Lessons and scenarios to explore here, without installing]({link})**"
                title, _, rest = chapter["content"].partition("\n")
                chapter["content"] = f"{title}\n\n{offer}\n{rest}"
            fit(chapter["sub_items"])


if __name__ == "__main__":
    if sys.argv[1:2] != ["supports"]:
        _, book = json.load(sys.stdin)
        fit(book["items"])
        json.dump(book, sys.stdout)
