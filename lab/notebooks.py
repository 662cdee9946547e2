"""Run the notebooks of the documentation and write their output into them: `python lab/notebooks.py [FILE …]`.

Needs `pip install '.[notebook]'`. Without names all of docs/notebooks are run. What differs from run to run, such as times of
execution, is not written.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the output of a run in its folder, by a kernel of this interpreter."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main() -> None:
    """Run the notebooks that the command line names."""
    for path in map(Path, sys.argv[1:]) if len(sys.argv) > 1 else sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(path.resolve()), path)
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
