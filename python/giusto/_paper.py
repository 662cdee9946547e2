"""The paper kit: figures, a table with intervals, and all that it takes to make them again."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import platform
import shlex
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giusto import _giusto, plot
from giusto._arguments import checked
from giusto._controller import Controller
from giusto._experiments import sweep
from giusto._run import run
from giusto._scenario import Scenario, _name, _restored, scenario_of

if TYPE_CHECKING:
    import pyarrow

STATISTICS: dict[str, tuple[str, float, str]] = {
    "received_rate_bps": ("received rate", 1e-6, "Mbit/s"),
    "loss_ratio": ("loss", 1e2, "%"),
    "queue_delay_p95_ms": ("queueing delay, 95th percentile", 1.0, "ms"),
    "frame_delay_p95_ms": ("frame delay, 95th percentile", 1.0, "ms"),
}
"""The columns of the table: title, factor and unit of statistics of flows."""


@dataclass(frozen=True)
class Row:
    """A row of the table: a flow of a scenario, or the mean of a flow and its copies (`count`), under a controller.

    Attributes
    ----------
    scenario, controller, flow : str
        Names.
    runs : int
        Number of seeds.
    intervals : dict
        Mean, and lowest and highest value of its 95 % confidence interval (Student's t), by the names of `flows.csv`; None where nothing
        was measured, bounds of None with one seed and where all seeds gave the same run.
    is_same : bool
        Whether all of several seeds gave the same run, so that there is no interval.
    """

    scenario: str
    controller: str
    flow: str
    runs: int
    intervals: dict[str, tuple[float, float | None, float | None] | None]
    is_same: bool = False


@dataclass(frozen=True)
class _Group:
    """A media flow of a scenario file: its name there, and the names of the flow or of its copies in results."""

    name: str
    flows: tuple[str, ...]


@checked
def paper(
    scenarios: Scenario | str | os.PathLike[str] | Sequence[Scenario | str | os.PathLike[str]],
    controllers: Iterable[str | type[Controller]] = ("gcc:libwebrtc", "scream:v2", "tempo"),
    seeds: Iterable[int] = range(1, 11),
    *,
    out: str | os.PathLike[str],
    flow: str | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> list[Row]:
    """Compare controllers for a publication: figures, a table with intervals, and what it takes to make them again.

    `out` then holds ``paper.pdf`` with the table and all figures, each figure as SVG and PDF, ``table.tex`` for LaTeX with booktabs,
    ``flows.csv`` with every run, the scenario files with their traces, ``paper.json`` with versions, seeds and SHA-256 of each file, and
    ``redo.py``, which makes all again and compares. Of a flow with copies (`count`), a row has the mean over the copies of each run,
    and a figure the first copy. Where all seeds give the same run, as nothing in the scenario is random, the table has no interval and
    says so. Keys of the scenario that a controller does not support are left out for it, with a note.

    Parameters
    ----------
    scenarios
        Scenarios, paths of scenario files, or names of built-in scenarios.
    controllers
        Congestion controllers of all media flows, by name. Classes of your own, here or in a scenario, cannot be made again from the
        folder alone: ``redo.py`` says so.
    seeds
        Random seeds. Figures over time are of the first.
    out
        A folder, which is made.
    flow
        Only this media flow of the scenario files, with its copies, changes its controller. Default: all.
    jobs
        Number of runs at a time. Default: one on each core.
    progress
        Whether to show a bar for each sweep. Default: if standard error is a terminal.

    Returns
    -------
    list of Row
        The table.

    Raises
    ------
    ScenarioError
        A scenario cannot be run.
    ValueError
        There is no scenario, controller or seed, two scenarios have the same name, a controller or a seed is given twice, or a scenario
        has no media flow.
    ImportError
        matplotlib is missing: ``pip install 'giusto[plot]'``.

    Examples
    --------
    >>> rows = giusto.paper("rfc8867/5.1-variable-capacity", ["gcc:libwebrtc", "tempo"], seeds=range(1, 6), out="paper")
    """
    single = isinstance(scenarios, (Scenario, str, os.PathLike))
    given: Sequence[Any] = [scenarios] if single else list(scenarios)  # type: ignore[arg-type]
    planned = [scenario_of(scenario) for scenario in given]
    # `paper.json` holds them.
    numbers = [operator.index(seed) for seed in seeds]
    listed = list(controllers)
    labels = [controller if isinstance(controller, str) else _name(controller, []) for controller in listed]
    for name, values in (("scenario", planned), ("controller", labels), ("seed", numbers)):
        if not values:
            raise ValueError(f"no {name}: give at least one")
    for name, values in (("controller", labels), ("seed", numbers)):
        if twice := [value for place, value in enumerate(values) if value in values[:place]]:
            raise ValueError(f"{name} {twice[0]!r} is given twice: leave one out, or give it another name")
    files = [_file_name(scenario) for scenario in planned]
    if twice := [name for place, name in enumerate(files) if name in files[:place]]:
        raise ValueError(f"two scenarios are called {twice[0]!r}: give one another name")
    plot._axes()  # before the runs: without matplotlib nothing is drawn
    groups = [_media_flows(scenario, flow) for scenario in planned]
    folder = Path(out)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    notes: list[str] = []
    tables: list[pyarrow.Table] = []
    figures: list[tuple[str, Any]] = []
    for name, scenario, flows in zip(files, planned, groups):
        _write_scenario(folder / "scenarios", name, scenario)
        records = {}
        for label, own in zip(labels, _with_controllers(scenario, listed, labels, flows, flow, notes)):
            table = sweep(own, seeds=numbers, jobs=jobs, progress=progress).flows
            tables.append(_labelled(table, name, label))
            rows += _rows_of(table, name, label, flows)
            records[label] = run(own, numbers[0])
        for group in flows:
            title = f"{name}, {group.flows[0]}" if len(flows) > 1 or len(group.flows) > 1 else name
            figures.append((title, plot.compare(records, group.flows[0])))
    notes += _without_chance(rows)
    for title, figure in figures:
        for kind in ("svg", "pdf"):
            figure.savefig(folder / "figures" / f"{title.replace(', ', '-')}.{kind}", metadata=_undated(kind))
    _write_pdf(folder / "paper.pdf", rows, figures, notes)
    (folder / "table.tex").write_text(latex(rows, notes), encoding="utf-8")
    _write_csv(folder / "flows.csv", tables)
    _write_record(
        folder,
        {
            "scenarios": files,
            "settings": {name: scenario._settings for name, scenario in zip(files, planned)},
            "controllers": [
                label if isinstance(controller, str) else f"class {label}" for controller, label in zip(listed, labels)
            ],
            "own": {name: [_name(own, []) for own in scenario._controllers] for name, scenario in zip(files, planned)},
            "seeds": numbers,
            "flow": flow,
            "notes": notes,
        },
    )
    return rows


def latex(rows: Sequence[Row], notes: Sequence[str] = ()) -> str:
    """Return the table in LaTeX, for the package booktabs: means ± half of their 95 % confidence intervals, and the notes below."""
    titles = [f"{title} ({unit})" for title, _, unit in STATISTICS.values()]
    lines = [
        "% Mean over seeds, plus or minus half of its 95 % confidence interval (Student's t). Needs \\usepackage{booktabs}.",
        f"\\begin{{tabular}}{{lll{'r' * len(titles)}}}",
        "\\toprule",
        " & ".join(map(_escaped, ["scenario", "controller", "flow", *titles])) + " \\\\",
        "\\midrule",
    ]
    before = None
    for row in rows:
        if before not in (None, row.scenario):
            lines.append("\\addlinespace")
        cells = [_escaped(row.scenario if row.scenario != before else ""), _escaped(row.controller), _escaped(row.flow)]
        cells += [f"${text}$".replace("±", "\\pm") if text != "–" else "--" for text in _cells(row)]
        lines.append(" & ".join(cells) + " \\\\")
        before = row.scenario
    lines += ["\\bottomrule", "\\end{tabular}"]
    # Behind the table, so that it does not become wider.
    lines += [f"\\par{{\\footnotesize {_escaped(note)}\\par}}" for note in notes]
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)


def _cells(row: Row) -> list[str]:
    """Return the numbers of a row as text, with as many digits as the interval allows."""
    texts = []
    for name, (_, factor, _) in STATISTICS.items():
        interval = row.intervals[name]
        if interval is None:
            texts.append("–")
            continue
        mean, low, _ = interval
        half = None if low is None else (mean - low) * factor
        digits = 3 if not half else min(max(0, 2 - len(str(int(half))) if half >= 1 else 2), 3)
        texts.append(f"{mean * factor:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}"))
    return texts


def _file_name(scenario: Scenario) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in scenario.name)


def _media_flows(scenario: Scenario, flow: str | None) -> list[_Group]:
    """Return the media flows whose controller changes, each with its copies."""
    groups: dict[str, list[str]] = {}
    for own in run(scenario, timeline=False).flows:
        if own.kind == "media":
            groups.setdefault(own.group, []).append(own.id)
    known = [_Group(name, tuple(flows)) for name, flows in groups.items()]
    changed = [group for group in known if flow in (None, group.name)]
    if changed:
        return changed
    found = f"no media flow called {flow!r}: use one of {', '.join(groups)}" if known else "no media flow"
    raise ValueError(f"scenario {scenario.name!r} has {found}")


def _rows_of(table: pyarrow.Table, scenario: str, controller: str, groups: Sequence[_Group]) -> list[Row]:
    runs: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        runs.setdefault(row.pop("seed"), []).append(row)
    # Flows of other kinds are a part of the run.
    is_same = len(runs) > 1 and all(own == first for first in runs.values() for own in runs.values())
    rows = []
    for group in groups:
        intervals = {}
        for name in STATISTICS:
            means = []
            for run_rows in runs.values():
                values = [row[name] for row in run_rows if row["flow"] in group.flows and row.get(name) is not None]
                if values:
                    means.append(sum(values) / len(values))
            interval = _giusto.interval(means)
            intervals[name] = (interval[0], None, None) if interval and is_same else interval
        rows.append(Row(scenario, controller, group.name, len(runs), intervals, is_same))
    return rows


def _without_chance(rows: Sequence[Row]) -> list[str]:
    """Return notes on what has no interval although there are several seeds."""
    notes = []
    for scenario in dict.fromkeys(row.scenario for row in rows):
        same = {row.controller: row.is_same for row in rows if row.scenario == scenario}
        if all(same.values()):
            notes.append(f"{scenario}: all seeds give the same run, since nothing in the scenario is random: there are no intervals.")
        elif any(same.values()):
            names = ", ".join(name for name, is_same in same.items() if is_same)
            notes.append(f"{scenario}: all seeds give the same run with {names}: there are no intervals.")
    return notes


def _with_controllers(
    scenario: Scenario,
    controllers: Sequence[str | type[Controller]],
    labels: Sequence[str],
    groups: Sequence[_Group],
    flow: str | None,
    notes: list[str],
) -> list[Scenario]:
    """Return the scenario with each controller of these flows, without what that one does not support; note that."""
    classes = [controller for controller in controllers if isinstance(controller, type)]
    own = list(dict.fromkeys([*scenario._controllers, *classes]))
    plain, changed = scenario._document.contenders(scenario._settings, own, labels, flow)
    notes += [f"{scenario.name}: {note}" for note in changed]
    _, name, traces, _ = scenario._document.pickled(scenario._settings, scenario._controllers)
    made = []
    for controller, label, (text, settings) in zip(controllers, labels, plain):
        chosen = [(f"flow.{group.name}.controller", label) for group in groups]
        known = [*scenario._controllers, *([controller] if isinstance(controller, type) else [])]
        made.append(_restored(type(scenario), text, name, traces, [*settings, *chosen], known))
    return made


def _labelled(table: pyarrow.Table, scenario: str, controller: str) -> pyarrow.Table:
    """Return the runs with the names of file and controller as their first columns."""
    kept = [name for name in table.column_names if not name.endswith(".controller") and name not in ("scenario", "controller")]
    table = table.select(kept)
    for place, (name, value) in enumerate((("file", scenario), ("controller", controller))):
        table = table.add_column(place, name, [[value] * table.num_rows])
    return table


def _write_csv(path: Path, tables: Sequence[pyarrow.Table]) -> None:
    import pyarrow
    from pyarrow import csv

    csv.write_csv(pyarrow.concat_tables(tables, promote_options="default"), path)


def _write_scenario(folder: Path, name: str, scenario: Scenario) -> None:
    """Write the scenario file, and its traces where it looks for them."""
    folder.mkdir(exist_ok=True)
    text, _, traces, settings = scenario._document.pickled(scenario._settings, scenario._controllers)
    # For the reader: `paper.json` holds them for `redo.py`. A comment is one line of printable text.
    given = (f"{path}={value}" for path, value in settings)
    noted = "".join(f"# --set {shlex.quote(one) if one.isprintable() else json.dumps(one)}\n" for one in given)
    # What `redo.py` writes again has them already.
    (folder / f"{name}.toml").write_text(text if text.startswith(noted) else noted + text, encoding="utf-8")
    for trace, content in traces.items():
        own = (folder / trace).resolve()
        if not own.is_relative_to(folder.parent.resolve()):
            raise ValueError(f"scenario {name!r}: its trace {trace!r} is outside of the folder: copy it beside the scenario file")
        own.parent.mkdir(parents=True, exist_ok=True)
        own.write_text(content, encoding="utf-8")


def _undated(kind: str) -> dict[str, None]:
    """Return metadata without the date, so that the same runs give the same bytes."""
    return {"Date": None} if kind == "svg" else {"CreationDate": None}


# Rows of a table on a page, and lines of notes below it; more have a page of their own.
_ROWS = 36
_NOTES = 8


def _write_pdf(path: Path, rows: Sequence[Row], figures: Sequence[tuple[str, Any]], notes: Sequence[str]) -> None:
    """Write the table with its notes and all figures."""
    from matplotlib.backends.backend_pdf import PdfPages

    from giusto._figure import Figure

    titles = [f"{title}\n({unit})".replace(", ", ",\n") for title, _, unit in STATISTICS.values()]
    lines = [line for note in notes for line in textwrap.wrap(note, 180)]
    own_page = len(lines) > _NOTES
    below = ["Notes: see the page after the tables."] if own_page else lines
    size = _ROWS - (len(below) + 1 if below else 0)
    with PdfPages(path, metadata={"CreationDate": None}) as pages:
        for begin in range(0, len(rows), size):
            part = rows[begin : begin + size]
            page = Figure(figsize=(11.7, 8.3))
            axes = page.subplots()
            axes.set_axis_off()
            cells = [[row.scenario, row.controller, row.flow, *_cells(row)] for row in part]
            drawn = axes.table(cells, colLabels=["scenario", "controller", "flow", *titles], loc="upper center", cellLoc="left")
            drawn.auto_set_font_size(False)
            drawn.set_fontsize(7)
            drawn.auto_set_column_width(list(range(3 + len(titles))))
            for (line, _), cell in drawn.get_celld().items():
                cell.set_linewidth(0.3)
                if line == 0:
                    cell.set_height(cell.get_height() * 3)
            axes.set_title("Mean over seeds ± half of its 95 % confidence interval", fontsize=9)
            page.text(0.05, 0.05, "\n".join(below), fontsize=7)
            pages.savefig(page)
        if own_page:
            page = Figure(figsize=(11.7, 8.3))
            page.text(0.05, 0.95, "\n".join(lines), fontsize=7, verticalalignment="top")
            pages.savefig(page)
        for title, figure in figures:
            figure.suptitle(title, fontsize="medium")
            pages.savefig(figure)


def _write_record(folder: Path, about: Mapping[str, Any]) -> None:
    """Write `paper.json`, and `redo.py`, which makes the paper again."""
    from importlib.metadata import version

    hashed = [folder / "flows.csv", folder / "table.tex", *sorted((folder / "scenarios").rglob("*"))]
    record = {
        "giusto": version("giusto"),
        "python": platform.python_version(),
        **about,
        "sha256": {
            path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in hashed
            if path.is_file()
        },
    }
    (folder / "paper.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (folder / "redo.py").write_text(_REDO, encoding="utf-8")


_REDO = '''"""Make the figures and the table of this folder again, into the folder `again`, and compare them: `python redo.py`."""

import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

import giusto

here = Path(__file__).parent
paper = json.loads((here / "paper.json").read_text())
own = [name for name in paper["controllers"] if name.startswith("class ")]
own += [f"class {name}" for names in paper["own"].values() for name in names]
if own:
    sys.exit(f"{', '.join(dict.fromkeys(own))}: a controller of its author, which this folder does not hold")
if version("giusto") != paper["giusto"]:
    print(f"made by giusto {paper['giusto']}, this is {version('giusto')}: pip install giusto=={paper['giusto']}")
scenarios = []
for name in paper["scenarios"]:
    scenario = giusto.Scenario.load(here / "scenarios" / f"{name}.toml")
    scenarios.append(scenario.with_settings(dict(paper["settings"][name])))
giusto.paper(scenarios, paper["controllers"], paper["seeds"], flow=paper["flow"], out=here / "again")
wrong = [
    name
    for name in ("flows.csv", "table.tex")
    if hashlib.sha256((here / "again" / name).read_bytes()).hexdigest() != paper["sha256"][name]
]
sys.exit(f"differs: {', '.join(wrong)}" if wrong else 0)
'''


def main(words: Sequence[str]) -> int:
    """Run the command ``giusto paper`` with these words; return its exit status."""
    import argparse

    from giusto._printed import Parser, show

    parser = Parser(
        "giusto paper",
        description="Compare controllers for a publication: figures, a table with intervals, and what it takes to make them again.",
        epilog="Example:\n  giusto paper rfc8867/5.1-variable-capacity rfc8867/5.4-same-algorithm --seeds 1..5 --out paper\n\n"
        "--out holds paper.pdf, figures as SVG and PDF, table.tex, flows.csv, the scenario files, paper.json and redo.py.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("scenario", nargs="+", metavar="SCENARIO", help="scenario files, or names of built-in scenarios")
    add("--controller", default="gcc:libwebrtc,scream:v2,tempo", metavar="A,B", help="controllers [default: %(default)s]")
    add("--seeds", default="1..10", metavar="A..B", help="random seeds [default: 1..10]")
    add("--flow", metavar="ID", help="only this media flow [default: all]")
    add("--jobs", type=int, metavar="N", help="number of runs at a time [default: one on each core]")
    add("--out", required=True, metavar="DIR", help="folder of the results")
    given = parser.parse_args(words)
    try:
        first, dots, last = given.seeds.partition("..")
        try:
            seeds = range(int(first), int(last if dots else first) + 1)
        except ValueError:
            raise ValueError(f'--seeds: expected A..B, such as 1..10, found "{given.seeds}"') from None
        rows = paper(given.scenario, given.controller.split(","), seeds, out=given.out, flow=given.flow, jobs=given.jobs)
    except (ValueError, ImportError, OSError) as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    lines = ([row.scenario.ljust(24), row.controller.ljust(16), row.flow.ljust(8), *(cell.rjust(14) for cell in _cells(row))] for row in rows)
    show("\n".join("  ".join(cells) for cells in lines))
    notes = json.loads((Path(given.out) / "paper.json").read_text(encoding="utf-8"))["notes"]
    for line in [*notes, f"wrote {given.out}/paper.pdf"]:
        print(line, file=sys.stderr)
    return 0
