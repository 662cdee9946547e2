"""The paper kit."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
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
    # The recorded link is the same with each seed.
    assert latex.count("\\pm") == 8 and latex.count(r"\\") == 5 and re.search(r"own & gcc:libwebrtc & call & \$1\.\d+ \\pm", latex)
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


class Own(giusto.Controller):
    """A constant rate."""

    def target(self) -> float:
        return 1e6


def call(name: str, **keys: Any) -> giusto.Scenario:
    """Return a scenario of one call."""
    link = giusto.Link("bottleneck", "camera", "viewer", rate="1 Mbit/s", delay_ms=20, duplex=True)
    video = {"model": "statistical", "max_mbps": 3}
    return giusto.Scenario(name=name, duration="4 s", link=link, flow=giusto.Flow("call", "media", video=video, **keys))


def redo(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, folder / "redo.py"], capture_output=True, text=True)


def test_runs_without_chance_have_no_interval(tmp_path: Path) -> None:
    rows = giusto.paper(["media-step", call("drawn")], ["gcc:libwebrtc"], [1, 2], out=tmp_path, progress=False)
    assert [row.is_same for row in rows] == [True, False]
    same, drawn = (row.intervals["received_rate_bps"] for row in rows)
    assert same is not None and same[1:] == (None, None) and drawn is not None and drawn[1] is not None
    lines = (tmp_path / "table.tex").read_text().splitlines()
    assert ["pm" in line for line in lines if "gcc:libwebrtc &" in line] == [False, True]
    note = "media-step: all seeds give the same run, since nothing in the scenario is random: there are no intervals."
    assert [line for line in lines if note in line] == [f"\\par{{\\footnotesize {note}\\par}}"]
    assert json.loads((tmp_path / "paper.json").read_text())["notes"] == [note] and "drawn: all" not in "\n".join(lines)


def test_copies_of_a_flow_are_one_row(tmp_path: Path) -> None:
    scenario = call("two", count=2)
    rows = giusto.paper(scenario, (name for name in ("tempo", "nada")), [1, 2], out=tmp_path, progress=False)
    assert [(row.controller, row.flow, row.runs) for row in rows] == [("tempo", "call", 2), ("nada", "call", 2)]
    runs = [giusto.run(scenario, seed, set={"call.controller": "nada"}).flows for seed in (1, 2)]
    assert all(own.controller == "nada" for flows in runs for own in flows)
    mean, low, high = rows[1].intervals["received_rate_bps"] or (0, 0, 0)
    # The copies of a run are one sample: Student's t with one degree of freedom.
    rates = [sum(own.received_rate_bps for own in flows) / 2 for flows in runs]
    assert mean == pytest.approx(sum(rates) / 2) and low is not None
    assert mean - low == pytest.approx(12.706 * abs(rates[0] - rates[1]) / 2, rel=1e-3)
    assert (tmp_path / "figures" / "two-call-1.pdf").exists() and redo(tmp_path).returncode == 0
    with pytest.raises(ValueError, match="no media flow called 'call-1': use one of call"):
        giusto.paper(scenario, ["tempo"], [1], out=tmp_path, flow="call-1", progress=False)


def test_seeds_may_be_those_of_numpy(tmp_path: Path, media: str) -> None:
    short = media.replace('"20 s"', '"1 s"')
    giusto.paper(giusto.Scenario.parse(short), ["fixed"], seeds=numpy.arange(1, 3), out=tmp_path, progress=False)
    record = json.loads((tmp_path / "paper.json").read_text())
    assert record["seeds"] == [1, 2] and (tmp_path / "redo.py").exists()
    # Before any run.
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        giusto.paper(giusto.Scenario.parse(short), ["fixed"], seeds=[1.5], out=tmp_path / "none")  # type: ignore[list-item]
    assert not (tmp_path / "none").exists()


def test_controllers_of_your_own_are_named_by_redo(tmp_path: Path) -> None:
    rows = giusto.paper(call("mine", controller=Own), ["tempo"], [1], out=tmp_path / "one", progress=False)
    assert [(row.scenario, row.controller) for row in rows] == [("mine", "tempo")]
    assert redo(tmp_path / "one").stderr == "class Own: a controller of its author, which this folder does not hold\n"
    rows = giusto.paper(call("given"), [Own, "tempo"], [1], out=tmp_path / "two", progress=False)
    assert [row.controller for row in rows] == ["Own", "tempo"] and "class Own: a con" in redo(tmp_path / "two").stderr


def test_settings_of_several_lines_stay_comments(tmp_path: Path) -> None:
    text = "it's 'quoted'\nnew = \"line\""
    scenario = call("set").with_settings({"description": text, "bottleneck.rate": giusto.rate_steps([0, 2], [1e6, 5e5])})
    giusto.paper(scenario, ["tempo"], [1], out=tmp_path, progress=False)
    written = (tmp_path / "scenarios" / "set.toml").read_text()
    first, second = written.splitlines()[:2]
    assert first == "# --set " + json.dumps(f"description={text}") and second.startswith("# --set 'bottleneck.rate={ ")
    assert giusto.Scenario.load(tmp_path / "scenarios" / "set.toml").name == "set"
    done = redo(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "again" / "scenarios" / "set.toml").read_text() == written


def test_keys_that_a_controller_lacks_are_left_out(tmp_path: Path) -> None:
    rows = giusto.paper("scream-fifo", ["scream:v2", "tempo"], [1], out=tmp_path, progress=False)
    assert [row.controller for row in rows] == ["scream:v2", "tempo"]
    notes = ["scream-fifo: The delay-target of call in the scenario is left out, since they aim at no delay: tempo."]
    assert json.loads((tmp_path / "paper.json").read_text())["notes"] == notes
    # SCReAM still has it, and what has no fix is an error.
    delay = rows[0].intervals["queue_delay_p95_ms"]
    assert delay is not None and delay[0] == giusto.run("scream-fifo").flow("call").queue_delay_ms.p95
    with pytest.raises(ValueError, match='unknown controller "temp": did you mean "tempo"'):
        giusto.paper("scream-fifo", ["temp"], [1], out=tmp_path, progress=False)


INLINE = """
duration = "4 s"
link = [{ id = "bottleneck", from = "a", to = "b", rate = "1 Mbit/s", delay = "20 ms", duplex = true }]
flow = [{ id = "call", kind = "media", controller = "scream:d00", feedback = "scream-draft", receiver-limit = "1 Mbit/s",
          delay-target = "40 ms" }]
"""


@pytest.mark.parametrize("by_setting", [False, True])
def test_keys_are_left_out_wherever_they_are(tmp_path: Path, by_setting: bool) -> None:
    scenario = giusto.Scenario.parse(INLINE, "own.toml")
    if by_setting:
        plain = INLINE.replace(', receiver-limit = "1 Mbit/s"', "").replace('delay-target = "40 ms"', 'start-rate = "300 kbit/s"')
        settings = {"call.receiver-limit": "1 Mbit/s", "flow.call.delay-target": "40 ms", "bottleneck.loss": 0.01}
        scenario = giusto.Scenario.parse(plain, "own.toml").with_settings(settings)
    rows = giusto.paper(scenario, ["scream:d00", Own, "tempo"], [1, 2], out=tmp_path, progress=False)
    assert [row.controller for row in rows] == ["scream:d00", "Own", "tempo"]
    assert json.loads((tmp_path / "paper.json").read_text())["notes"] == [
        "own: Own cannot use scream-draft, the feedback of call in the scenario: it gets transport-wide.",
        "own: tempo cannot use scream-draft, the feedback of call in the scenario: it gets rfc8888.",
        "own: The delay-target of call in the scenario is left out, since they aim at no delay: Own, tempo.",
        "own: The receiver-limit of call in the scenario is left out, since only scream:d00 and scream:d00+giusto with "
        "scream-draft support it: Own, tempo.",
    ]
    # The others are as in `giusto compare`, with every other setting.
    runs = list(csv.DictReader((tmp_path / "flows.csv").open()))
    assert len(runs) == 6 and {run.get("bottleneck.loss") for run in runs} == ({"0.01"} if by_setting else {None})


def test_the_command_makes_one(tmp_path: Path) -> None:
    folder = tmp_path / "paper"
    text = command("paper", "media", "--controller", "nada,tempo", "--seeds", "1..2", "--out", folder)
    assert text.count("\n") == 2 and "nada" in text and "±" not in text and (folder / "paper.pdf").exists()
    command("paper", "media", "--seeds", "first", "--out", folder, status=2)
    command("paper", "one-cubic", "--out", folder, status=2)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"scenarios": []}, "no scenario"),
        ({"controllers": []}, "no controller"),
        ({"seeds": []}, "no seed"),
        ({"controllers": ["tempo", "fixed", "tempo"]}, "controller 'tempo' is given twice"),
        ({"controllers": [Own, type("Other", (Own,), {"name": "Own"})]}, "controller 'Own' is given twice"),
        ({"scenarios": ["media", "media"]}, "two scenarios are called 'media'"),
        ({"scenarios": "one-cubic"}, "no media flow"),
        ({"flow": "cal"}, "no media flow called 'cal': use one of call"),
    ],
)
def test_slips_are_named(keys: dict[str, object], text: str, tmp_path: Path) -> None:
    given = {"scenarios": "media", "controllers": ["fixed"], "seeds": [1], "out": tmp_path} | keys
    with pytest.raises(ValueError, match=text):
        giusto.paper(**given, progress=False)  # type: ignore[arg-type]
