#!/usr/bin/env python3
"""Count the words of the documents that are written by hand; the last line is the sum.

What stands between `<!-- Generated …` and `<!-- end of the generated …`, or the end of the file, does not count. The mark of a `page.md` is
that of the page that is made of it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

GENERATED = re.compile(r"<!-- generated.*?(<!-- end of the generated|\Z)", re.DOTALL | re.IGNORECASE)


def words(path: Path) -> int:
    text = path.read_text(encoding="utf-8")
    if path.name != "page.md":
        text = GENERATED.sub("", text)
    return sum(1 for word in text.split() if re.search(r"\w", word))


def main() -> None:
    listed = subprocess.run(["git", "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout.split("\n")
    # Crates link to the changelog.
    counts = {name: words(Path(name)) for name in listed if name and Path(name).is_file() and not Path(name).is_symlink()}
    for name, count in sorted(counts.items(), key=lambda known: -known[1]):
        print(f"{count:7} {name}")
    print(sum(counts.values()))


if __name__ == "__main__":
    main()
