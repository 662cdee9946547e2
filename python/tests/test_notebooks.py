"""The notebooks of the documentation run, and show what a run shows today."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def outputs(notebook: Any) -> list[Any]:
    """Return the output of each cell: its texts, and which kinds of data it has besides."""
    shown = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.output_type != "error", output
            if output.output_type == "stream" and output.name == "stdout":
                # A busy machine sends a line in several parts.
                if shown and shown[-1][:-1] == (cell.id,):
                    shown[-1] = (cell.id, shown[-1][1] + output.text)
                else:
                    shown.append((cell.id, output.text))
            elif output.output_type != "stream":
                shown.append((cell.id, output.data["text/plain"], sorted(output.data)))
    return shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_the_output_of_today(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "lab" / "notebooks.py")
    assert spec is not None and spec.loader is not None
    notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebooks)
    committed = nbformat.read(path, as_version=4)
    nbformat.validate(committed)
    expected = outputs(committed)
    assert outputs(notebooks.executed(path)) == expected, f"run `python lab/notebooks.py {path.name}` and look at it"
    kinds = [kind for output in expected for kind in output[2:]]
    assert sum("image/png" in kind for kind in kinds) >= 1
    assert path.stat().st_size < 300_000


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["cells", "rrtcc", "shaper"]
