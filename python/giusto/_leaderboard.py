"""A leaderboard: rows of several benchmarks on the same scenarios."""

from __future__ import annotations

import copy
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giusto import _html
from giusto._arguments import checked
from giusto._experiments import Benchmark

if TYPE_CHECKING:
    import pyarrow

_FORMAT = "giusto leaderboard 1"
# What must agree for rows to be comparable.
_CONDITIONS = ("version", "seeds", "scenarios", "recordings")
# Figures of a row.
_FIGURES = ("utility_mean", "utilisation_ratio", "frame_delay_p95_ms", "missed_frames_ratio")


class Leaderboard:
    """Controllers of several benchmarks on the same scenarios, in a file of JSON.

    Built-in controllers, those in Python, policies and estimators have rows alike. The file is made when the first benchmark is added.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ValueError
        The file is no leaderboard.

    Examples
    --------
    >>> board = giusto.Leaderboard("board.json")
    >>> board.add(giusto.benchmark(["gcc:libwebrtc", "tempo"], seed=["held-out-1", "held-out-2"], scenarios=46))
    >>> board.add(giusto.benchmark([Mine], seed=["held-out-1", "held-out-2"], scenarios=46))
    >>> print(board)
    """

    @checked
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._values = _read(self._path)

    def add(self, judged: Benchmark, *, replace: bool = False) -> None:
        """Add the controllers of a benchmark, and write the file.

        The file is read again before, so that rows that others have added stay. Several processes may add at the same time.

        Parameters
        ----------
        judged
            A whole benchmark, not a shard, with the version, seeds and scenarios of the rows that are there.
        replace
            Whether a controller takes the place of another of its name.

        Raises
        ------
        ValueError
            The benchmark is not comparable, or a name is taken by other figures. Nothing is added then.
        OSError
            The file cannot be written.
        """
        if not isinstance(judged, Benchmark):
            raise TypeError(f"expected a benchmark, as giusto.benchmark or giusto.merge returns it, found {judged!r:.60}")
        summary = judged.summary
        if summary["missing_runs"]:
            raise ValueError(f"{summary['missing_runs']} runs are missing: merge all shards first")
        conditions = {name: summary.get(name) for name in _CONDITIONS}
        references = {own["name"]: own["all"]["utility_mean"] for own in summary["references"]}
        new = {own["name"]: {"all": own["all"], "families": own["families"]} for own in summary["controllers"]}
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"{self._path}: there is no folder {self._path.parent}: make it first")
        with _locked(self._path):
            self._values = _read(self._path)
            if self._values:
                self._check(conditions, references)
                known = self._values["controllers"]
                taken = [name for name, row in new.items() if known.get(name, row) != row]
                if taken and not replace:
                    raise ValueError(f"{self._path} has other figures of {taken[0]!r}: give it another name, or replace=True")
                new = known | new
            made = {"format": _FORMAT, **conditions, "references": references, "controllers": new}
            part = self._path.with_name(f"{self._path.name}.{os.getpid()}.part")
            part.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
            part.replace(self._path)
        self._values = made

    def _check(self, conditions: dict[str, Any], references: dict[str, float]) -> None:
        for name, value in conditions.items():
            known = self._values.get(name)
            if value != known:
                raise ValueError(f"{self._path} has {name} {known!r}, the benchmark {value!r}: use another file, or those of the file")
        for name, figure in references.items():
            known = self._values["references"].get(name)
            if figure != known:
                raise ValueError(
                    f"{self._path} has a utility of {known} for {name}, the benchmark {figure}: "
                    "the simulator has changed, judge all controllers again"
                )

    @property
    def summary(self) -> dict[str, Any]:
        """What the file held when it was opened or last added to: `version`, `seeds`, `scenarios`, `references`, and `controllers` with their figures as in `Benchmark.summary`."""
        return copy.deepcopy(self._values)

    @property
    def rows(self) -> pyarrow.Table:
        """One row for each controller and family, ``all`` first, the best controller first.

        `utility_mean` and `missed_frames_ratio` are means over the runs; `utilisation_ratio` and `frame_delay_p95_ms` are medians, the
        lower one of an even number. With several seeds, ``_low`` and ``_high`` are the 95 % confidence interval over them.
        """
        import pyarrow

        return pyarrow.Table.from_pylist(list(self._rows()))

    def _rows(self) -> Iterator[dict[str, Any]]:
        for name, own in self._ranked():
            for family, figures in (("all", own["all"]), *own["families"].items()):
                over = figures.get("over_seeds") or {}
                row: dict[str, Any] = {"controller": name, "family": family, "runs": figures["runs"]}
                for figure in _FIGURES:
                    low, high = over.get(figure) or (None, None)
                    row |= {figure: figures[figure], f"{figure}_low": low, f"{figure}_high": high}
                yield row

    def _ranked(self) -> Sequence[tuple[str, dict[str, Any]]]:
        controllers = self._values.get("controllers", {})
        return sorted(controllers.items(), key=lambda item: -(item[1]["all"]["utility_mean"] or 0.0))

    def _cells(self) -> tuple[Sequence[str], list[list[str]]]:
        """Return the head and the cells of the table of all runs, and of the utility in each family."""
        families = list(dict.fromkeys(family for _, own in self._ranked() for family in own["families"]))
        rows = [
            [
                name,
                _interval(own["all"]),
                _html.share(own["all"]["utilisation_ratio"]),
                _html.number(own["all"]["frame_delay_p95_ms"], "ms"),
                _html.share(own["all"]["missed_frames_ratio"]),
                *(_interval(own["families"][family]) if family in own["families"] else "–" for family in families),
            ]
            for name, own in self._ranked()
        ]
        return ["controller", "utility, mean", "use", "frame delay p95", "missed frames", *families], rows

    def _about(self) -> str:
        if not self._values:
            return f"{self._path}: no controllers yet"
        seeds = self._values["seeds"]
        made_of = f"seeds {', '.join(seeds)}" if seeds else f"recordings {self._values['recordings']}"
        interval = ", ± half of the 95 % confidence interval over the seeds" if len(seeds) > 1 else ""
        return f"benchmark version {self._values['version']}, {self._values['scenarios']} scenarios, {made_of}{interval}"

    def __str__(self) -> str:
        head, rows = self._cells()
        # Families go below each other, as text is narrow.
        widths = [max(len(row[at]) for row in [head, *rows]) for at in range(5)]
        lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in [head, *rows]]
        return "\n".join([self._about(), *(lines if rows else [])])

    def _repr_html_(self) -> str:
        head, rows = self._cells()
        means = {name: own["all"]["utility_mean"] or 0.0 for name, own in self._ranked()}
        if not rows:
            return f"<p>{escape(self._about())}</p>"
        return f"<p>{escape(self._about())}</p>{_html.table(head, rows)}{_html.bars('utility, mean', means)}"


def _read(path: Path) -> dict[str, Any]:
    """Return what the file holds; nothing where there is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path} is no leaderboard: {error}") from None
    if not isinstance(values, dict) or values.get("format") != _FORMAT:
        raise ValueError(f'{path} is no leaderboard: it has no "format": "{_FORMAT}"')
    return values


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other threads and processes from changing the file, by a file beside it, since the file itself is replaced."""
    beside = path.with_name(f"{path.name}.lock")
    while True:
        with beside.open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Who had it before has deleted it: another may hold a new one.
            try:
                is_current = os.path.samestat(os.fstat(lock.fileno()), beside.stat())
            except FileNotFoundError:
                is_current = False
            if not is_current:
                continue
            try:
                yield
            finally:
                beside.unlink()
            return


def _interval(figures: dict[str, Any]) -> str:
    """Return the mean utility, with half of its interval if there is one."""
    low, high = (figures.get("over_seeds") or {}).get("utility_mean") or (None, None)
    mean = figures["utility_mean"]
    if mean is None or low is None or high is None:
        return "–" if mean is None else f"{mean:.3f}"
    return f"{mean:.3f} ± {(high - low) / 2:.3f}"
