#!/usr/bin/env python3
"""Fit the links of the documents to the site: a preprocessor of mdBook, which `book.toml` names.

README.md and CONTRIBUTING.md are included from the folder above the pages. What a page links to outside that folder is not part of
the site, so that its text stays without a link. Two pages begin with a link to the page of `giusto explore`, where `make web` has made it.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from typing import Any

EXPLORE = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "web/explore.html")
EXPLORED_FROM = {"index.md": "explore.html", "how-to/explore.md": "../explore.html"}
INCLUDED = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md"}
PAGES = {original: page for page, original in INCLUDED.items()}


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
        if not path.startswith("docs/") and path not in PAGES:
            return label.removeprefix("!")[1:-1]
        path = posixpath.relpath(PAGES.get(path, path.removeprefix("docs/")), here or ".")
        return f"{label}({path}{'#' if anchor else ''}{anchor})"

    return re.sub(r"(!?\[[^\[\]]*\])\(([^()\s]+)\)", link, text)


def fit(items: list[Any]) -> None:
    for item in items:
        if isinstance(item, dict) and (chapter := item.get("Chapter")):
            chapter["content"] = fitted(chapter["content"], chapter["path"])
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
