"""The scenarios in which controllers are judged, and their runs."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, TypeAlias, cast

from giusto import _giusto
from giusto._arguments import _is_bool
from giusto._engines import Engine
from giusto._progress import Report
from giusto._scenario import Scenario, scenario_of

Scenarios: TypeAlias = "int | Scenario | str | os.PathLike[str] | Sequence[Scenario | str | os.PathLike[str]]"
# A scenario of a benchmark, by its seed and its number; or an own one, by its place in the list and its random seed.
_Place: TypeAlias = "tuple[str, int] | tuple[int, int]"
_Row: TypeAlias = "dict[str, Any]"
_Document: TypeAlias = "tuple[str, str, dict[str, str], list[tuple[str, str]]]"
# Number of a task, its scenario, and the controller.
_Task: TypeAlias = "tuple[int, _Place, str]"
# Values of a metric in a scenario: of the default, and of what was found.
_Values: TypeAlias = "tuple[float | None, float | None]"

# Seeds of an own scenario for development, and the first one for validation.
_SEEDS = 4
_FIRST_FRESH = 1_000_001


def scenarios_of(argument: str, given: Any) -> Scenarios:
    """Return what was given as scenarios, numbers as those of Python; raise a `TypeError` if it is neither a number nor scenarios."""
    if isinstance(given, (str, os.PathLike, Scenario, Iterable)):
        return cast("Scenarios", given)
    if isinstance(given, SupportsIndex) and not _is_bool(given):
        return operator.index(given)
    raise TypeError(f"{argument}: expected a number of scenarios such as 92, or scenarios of your own, found {given!r:.60}")


@dataclass(frozen=True)
class _Set:
    """Scenarios in which controllers are judged: `name` is ``development`` or ``validation``."""

    name: str
    places: tuple[_Place, ...]
    documents: tuple[_Document, ...]
    flow: str | None
    about: str
    # Whether each document counts once, as the mean over its seeds, since documents rather than seeds are fresh.
    by_document: bool = False

    @classmethod
    def of(cls, name: str, given: Scenarios, seed: str | None, flow: str | None, seeds: Sequence[int] = range(1, _SEEDS + 1)) -> _Set:
        argument = "scenarios" if name == "development" else "validation"
        if isinstance(given, int):
            if not 1 <= given <= 1_000_000:
                raise ValueError(f"the number of scenarios must be from 1 to 1000000, found {given}")
            seed = name if seed is None else seed
            if not seed.strip():
                raise ValueError('the seed is empty: give any text, such as "2026-11"')
            if flow is not None:
                raise ValueError("flow is of scenarios of your own: leave it out, random scenarios name theirs")
            about = f'{given} random scenarios of seed "{seed}"'
            return cls(name, tuple((seed, number) for number in range(given)), (), None, about)
        if seed is not None:
            which = "seed" if name == "development" else "validation_seed"
            raise ValueError(f"{which} is of random scenarios: leave it out, scenarios of your own are run with fixed seeds")
        every = [given] if isinstance(given, (str, os.PathLike, Scenario)) else list(given)
        if not every:
            raise ValueError(f"{argument}: the list is empty: name at least one")
        documents: list[_Document] = []
        names = []
        for one in every:
            planned = scenario_of(one)
            if planned._controllers:
                raise ValueError(f"{argument}: a controller of your own has no constants: name a built-in one")
            documents.append(planned._document.pickled(planned._settings))
            names.append(documents[-1][1])
            if documents[-1] in documents[:-1]:
                raise ValueError(f'{argument}: "{names[-1]}" is given twice: leave one out')
        # All scenarios with one seed come before the next seed, so that the first ones are of every kind.
        places = tuple((index, number) for number in seeds for index in range(len(documents)))
        about = f"{', '.join(names)} with the seeds {seeds[0]} to {seeds[-1]}"
        return cls(name, places, tuple(documents), flow, about)

    def fresh(self, given: Scenarios, validation: Scenarios | None, seed: str | None, flow: str | None) -> _Set:
        """Return the scenarios for validation."""
        if validation is None:
            validation = 2 * given if isinstance(given, int) else given
            seeds = range(_FIRST_FRESH, _FIRST_FRESH + 3 * _SEEDS)
        else:
            seeds = range(_FIRST_FRESH, _FIRST_FRESH + _SEEDS)
        fresh = _Set.of("validation", validation, seed, None if isinstance(validation, int) else flow, seeds)
        if not fresh.documents and fresh.places[0][0] == self.places[0][0]:
            raise ValueError(f'validation_seed must differ from seed, found "{fresh.places[0][0]}" twice: what is tuned is judged in others')
        others = len(fresh.documents) > 1 and not set(map(repr, fresh.documents)) & set(map(repr, self.documents))
        return replace(fresh, by_document=others)

    @property
    def rungs(self) -> list[int]:
        """Numbers of scenarios after which a trial may end."""
        whole = len(self.places)
        return sorted({math.ceil(whole / 4), math.ceil(whole / 2), whole})

    def compared(self, rows: Sequence[tuple[_Row, _Row]], values: Sequence[_Values], known: Collection[str]) -> _Compared:
        """Return the pairs of values that are compared: of each scenario, or the means of each document.

        Documents whose runs are those of one before, whatever its text, are left out. One that another seed does not change counts
        once, and not at all if its run is among the `known` ones of development.
        """
        if not self.documents:
            return _Compared(_there(values), [])
        by_document: dict[int | str, list[tuple[str, _Values]]] = {}
        for place, own, pair in zip(self.places, rows, values):
            by_document.setdefault(place[0], []).append((same_run(own), pair))
        counted: list[tuple[float, float]] = []
        still: list[str] = []
        before: set[tuple[str, ...]] = set()
        for (_, name, _, _), runs in zip(self.documents, by_document.values()):
            made = tuple(run for run, _ in runs)
            pairs = _there([pair for _, pair in runs])
            if made in before or not pairs:
                continue
            before.add(made)
            if len(set(made)) > 1 and not self.by_document:
                counted += pairs
            elif len(set(made)) == 1 and made[0] in known:
                still.append(name)
            else:
                counted.append(_means(pairs))
        return _Compared(counted, still)


@dataclass(frozen=True)
class _Compared:
    """The pairs of values that are compared, and the names of documents whose runs are those of development."""

    pairs: list[tuple[float, float]]
    still: list[str]


def same_run(rows: tuple[_Row, _Row]) -> str:
    """Return what two runs of one scenario, of the default and of what was found, have in common with their repetitions."""
    return json.dumps(rows, sort_keys=True)


def _there(values: Sequence[_Values]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in values if a is not None and b is not None]


def _means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    count = max(len(pairs), 1)
    return sum(a for a, _ in pairs) / count, sum(b for _, b in pairs) / count


class _Runs:
    """The runs that were made: rows of figures. Trials with the same values are run once."""

    def __init__(self, runner: Engine, report: Report | None, total: int) -> None:
        self._runner = runner
        self._report = report
        self._total = total
        self._done = 0
        self._rows: dict[tuple[str, _Place, str], _Row] = {}

    def make(self, scenarios: _Set, first: int, count: int, names: Sequence[str]) -> None:
        """Run the scenarios from the first on up to a number under these controllers, those that have not been."""
        places = scenarios.places[first:count]
        keys = [(scenarios.name, place, name) for place in places for name in dict.fromkeys(names)]
        missing = [key for key in keys if key not in self._rows]
        tasks: list[_Task] = [(number, place, name) for number, (_, place, name) in enumerate(missing)]
        common = (scenarios.documents, scenarios.flow)
        with closing(self._runner.completed(_judge_task, common, tasks)) as results:
            for number, text in results:
                self._rows[missing[number]] = _row(text)
                self.done(1)
        self.done(len(places) * len(names) - len(missing))

    def done(self, count: int) -> None:
        """Note that runs were made or left out."""
        self._done += count
        if count and self._report is not None:
            self._report(self._done, self._total)

    def rows(self, scenarios: _Set, count: int, name: str) -> list[_Row]:
        """Return the rows of the first scenarios."""
        return [self._rows[scenarios.name, place, name] for place in scenarios.places[:count]]


def _judge_task(documents: Sequence[_Document], flow: str | None, task: _Task) -> tuple[int, str]:
    """Make one run, on a worker."""
    number, (where, which), name = task
    scenario = (where, which) if isinstance(where, str) else (documents[where], which, flow)
    return number, _giusto.judge(scenario, [name])[0]


def _row(text: str) -> _Row:
    """Return the figures of a run with the names of `Benchmark.runs`."""
    figures: _Row = json.loads(text)
    utility = figures.pop("utility")
    figures.pop("flows")
    parts = {f"utility_{name}": value for name, value in utility.items() if name != "total"}
    return {"utility": utility["total"], **parts, **figures}
