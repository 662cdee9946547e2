"""The paper kit."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import command

import giusto

pytest.importorskip("matplotlib")


def test_a_paper_can_be_made_again(tmp_path: Path, media: str) -> None:
    scenario = giusto.Scenario.parse('name = "own"\n' + media).with_settings({"bottleneck.loss": 0.01})
    folder = tmp_path / "paper"
    rows = giusto.paper([scenario, "lte-trace"], ["gcc:libwebrtc", "tempo"], seeds=[3, 4, 5], out=folder, progress=False)
    assert [(row.scenario, row.controller, row.runs) for row in rows] == [
        (name, controller, 3) for name in ("own", "lte-trace") for controller in ("gcc:libwebrtc", "tempo")
    ]
    # The table is that of single runs.
    rates = [
        giusto.run(scenario, seed, set={"call.controller": "tempo"}).flow("call").received_rate_bps for seed in (3, 4, 5)
    ]
    mean, low, high = rows[1].intervals["received_rate_bps"] or (0, 0, 0)
    assert mean == pytest.approx(sum(rates) / 3) and low is not None and high is not None and low < mean < high
    # Student's t with two degrees of freedom: 4.303 standard errors.
    deviation = (sum((rate - mean) ** 2 for rate in rates) / 2) ** 0.5
    assert high - mean == pytest.approx(4.3027 * deviation / 3**0.5, rel=1e-3)
    for name in ("own.svg", "own.pdf", "lte-trace.svg"):
        assert (folder / "figures" / name).stat().st_size > 2000
    assert (folder / "paper.pdf").read_bytes().startswith(b"%PDF")
    latex = (folder / "table.tex").read_text()
    assert latex.count("\\pm") == 16 and latex.count(r"\\") == 5 and re.search(r"own & gcc:libwebrtc & call & \$1\.\d+ \\pm", latex)
    assert len(list(csv.DictReader((folder / "flows.csv").open()))) >= 12
    record = json.loads((folder / "paper.json").read_text())
    assert record["seeds"] == [3, 4, 5] and "scenarios/own.toml" in record["sha256"]
    # The folder alone makes it again, elsewhere.
    moved = tmp_path / "elsewhere"
    folder.rename(moved)
    redone = subprocess.run([sys.executable, moved / "redo.py"], capture_output=True, text=True, cwd=tmp_path)
    assert redone.returncode == 0, redone.stderr
    (moved / "scenarios" / "own.toml").write_text((moved / "scenarios" / "own.toml").read_text().replace("2 Mbit/s", "3 Mbit/s"))
    redone = subprocess.run([sys.executable, moved / "redo.py"], capture_output=True, text=True, cwd=tmp_path)
    assert redone.returncode == 1 and "differs: flows.csv, table.tex" in redone.stderr


def test_the_command_makes_one(tmp_path: Path) -> None:
    folder = tmp_path / "paper"
    text = command("paper", "media", "--controller", "nada,tempo", "--seeds", "1..2", "--out", folder)
    assert text.count("\n") == 2 and "nada" in text and (folder / "paper.pdf").exists()
    command("paper", "media", "--seeds", "first", "--out", folder, status=2)
    command("paper", "one-cubic", "--out", folder, status=2)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"scenarios": []}, "no scenario"),
        ({"controllers": []}, "no controller"),
        ({"seeds": []}, "no seed"),
        ({"scenarios": ["media", "media"]}, "two scenarios are called 'media'"),
        ({"scenarios": "one-cubic"}, "no media flow"),
        ({"flow": "cal"}, "no media flow called 'cal': use one of call"),
    ],
)
def test_slips_are_named(keys: dict[str, object], text: str, tmp_path: Path) -> None:
    given = {"scenarios": "media", "controllers": ["fixed"], "seeds": [1], "out": tmp_path} | keys
    with pytest.raises(ValueError, match=text):
        giusto.paper(**given, progress=False)  # type: ignore[arg-type]
