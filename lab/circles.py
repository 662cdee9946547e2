#!/usr/bin/env python3
"""Says which modules use each other in a circle, and ends with 1 if any do.

    circles.py [FOLDER …]

FOLDER holds crates (with `src`) and Python packages; without one, `crates`, `lab` and `python` are read. Two modules that stand side by side
in one folder make a circle if each uses the other, straight or through others, by `use`, by a path in the code, or by `import`.
What a parent module declares may use the parent, and a test may use anything.
"""

import pathlib
import re
import sys

PATH = re.compile(r"\b(crate|self|super)((?:::(?:\w+|\{[^;]*?\}(?=;)))+)", re.DOTALL)
IMPORT = re.compile(r"^ *from ([\w.]+) import ([^\n(]+|\([^)]*\))", re.MULTILINE)


def rust(source: pathlib.Path):
    """Modules of a crate, by path: file and text without comments and tests."""
    modules = {}
    for file in sorted(source.rglob("*.rs")):
        text = re.sub(r"//[^\n]*", "", file.read_text())
        text = re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]
        name = file.relative_to(source).with_suffix("").parts
        modules[tuple(name[:-1] if name[-1] in ("mod", "lib", "main") else name)] = text
    tests = {
        (*path, module)
        for path, text in modules.items()
        for module in re.findall(r"#\[cfg\((?:all\()?test[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*mod (\w+);", text)
    }
    return {path: text for path, text in modules.items() if not any(path[: len(test)] == test for test in tests)}


def leaves(tree: str):
    """The paths of a `use` tree: `::a::{b, c::d}` is a::b and a::c::d."""
    tree = tree.strip().removeprefix("::")
    group = re.search(r"\{(.*)\}$", tree, re.DOTALL)
    if not group:
        yield [part for part in re.split(r"::", tree.split(" as ")[0]) if part]
        return
    head = [part for part in tree[: group.start()].split("::") if part]
    depth, item = 0, ""
    for letter in group[1] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if item.strip():
                yield from (head + leaf for leaf in leaves(item))
            item = ""
        else:
            item += letter


def uses_of(modules):
    """For each module of a crate the modules that it uses; what a module hands on counts as that of the one that defines it."""
    handed = {}
    for path, text in modules.items():
        for tree in re.findall(r"\buse ([^;]+);", text):
            for leaf in leaves(tree):
                if len(leaf) > 1 and leaf[0] not in ("crate", "super") and (*path, leaf[leaf[0] == "self"]) in modules:
                    handed[(*path, leaf[-1])] = (*path, *leaf[leaf[0] == "self" :])
    for path, text in modules.items():
        for start, tree in PATH.findall(text):
            for leaf in leaves(tree):
                base = {"crate": (), "self": path, "super": path[:-1]}[start]
                while leaf and leaf[0] == "super":
                    base, leaf = base[:-1], leaf[1:]
                target = (*base, *leaf)
                for _ in range(9):
                    target = next((handed[target[:n]] + target[n:] for n in range(len(target), 0, -1) if target[:n] in handed), target)
                while target and target not in modules:
                    target = target[:-1]
                yield path, target


def python(package: pathlib.Path):
    """The uses of the modules of a Python package."""
    for file in sorted(package.rglob("*.py")):
        path = file.relative_to(package).with_suffix("").parts
        for source, names in IMPORT.findall(file.read_text()):
            dots = len(source) - len(source.lstrip("."))
            head, *parts = source.lstrip(".").split(".")
            if dots:
                target = (*path[: len(path) - dots], *([head, *parts] if head else []))
            elif head == package.name:
                target = tuple(parts)
            else:
                continue
            for name in re.findall(r"\w+", names):
                is_module = (package.joinpath(*target, name).with_suffix(".py")).exists()
                yield path, (*target, name) if is_module else target


def circles(uses):
    """Circles between modules side by side."""
    arrows = {}
    for one, other in uses:
        same = next((n for n, pair in enumerate(zip(one, other)) if pair[0] != pair[1]), None)
        if same is not None:
            arrows.setdefault(one[: same + 1], {}).setdefault(other[: same + 1], set()).add(one)

    def reach(start):
        seen, ahead = set(), [start]
        while ahead:
            for to in arrows.get(ahead.pop(), {}):
                if to not in seen:
                    seen.add(to)
                    ahead.append(to)
        return seen

    reached = {module: reach(module) for module in arrows}
    rings = {frozenset(other for other in seen if module in reached.get(other, ())) for module, seen in reached.items() if module in seen}
    for ring in sorted(map(sorted, rings)):
        yield ring, [(one, to, files) for one in ring for to, files in sorted(arrows[one].items()) if to in ring]


def main(folders):
    found = 0
    for folder in map(pathlib.Path, folders or ["crates", "lab", "python"]):
        for source in sorted({folder, *folder.rglob("src"), *(init.parent for init in folder.rglob("__init__.py"))}):
            uses = uses_of(rust(source)) if source.name == "src" else python(source) if (source / "__init__.py").exists() else ()
            for ring, arrows in circles(uses):
                found += 1
                print(f"{source}: " + ", ".join(map("/".join, ring)) + " use each other in a circle:")
                for one, other, files in arrows:
                    print(f"    {'/'.join(one)} uses {'/'.join(other)} in " + ", ".join(sorted(map("/".join, files))))
    print(f"{found} circles of modules")
    return found > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
