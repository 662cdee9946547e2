"""Tuning: the constants with which a controller does best, and whether they are better than chance."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from giusto import _giusto
from giusto._arguments import checked
from giusto._engines import Engine, engine_of
from giusto._experiments import _jobs
from giusto._progress import Report, reporter
from giusto._scenario import Scenario, scenario_of

if TYPE_CHECKING:
    import optuna
    import pyarrow

Scenarios: TypeAlias = "int | Scenario | str | os.PathLike[str] | Sequence[Scenario | str | os.PathLike[str]]"
Metric: TypeAlias = "str | Callable[[Mapping[str, Any]], float]"
# A scenario of a benchmark, by its seed and its number; or an own one, by its place in the list and its random seed.
_Place: TypeAlias = "tuple[str, int] | tuple[int, int]"
_Row: TypeAlias = "dict[str, Any]"
_Document: TypeAlias = "tuple[str, str, dict[str, str], list[tuple[str, str]]]"
# Number of a task, its scenario, and the controller.
_Task: TypeAlias = "tuple[int, _Place, str]"

# Trials that are asked for at a time. It is a part of what is computed: it must not depend on the machine.
_BATCH = 8
# Seeds of an own scenario for development, and the first one for validation.
_SEEDS = 4
_FIRST_FRESH = 1_000_001
# Digits of a value: more would not be read, and change nothing.
_DIGITS = 4
# Where more is better. Of all other figures less is.
_MORE = ("utility", "utilisation_ratio", "jain")


@dataclass(frozen=True)
class Constant:
    """A constant of a controller that can be set, as `giusto.constants` returns it.

    Parameters
    ----------
    name : str
        Its name, such as ``"kappa"``.
    summary : str
        Description in one phrase.
    unit : str
        Unit of its numbers: ``"ms"`` or ``"kbit/s"``; empty if it has none.
    low, high : float
        Smallest and largest value.
    is_whole : bool
        Whether it is a whole number.
    value : float
        Its value in the controller.
    """

    name: str
    summary: str
    unit: str
    low: float
    high: float
    is_whole: bool
    value: float


@checked
def constants(controller: str) -> dict[str, Constant]:
    """Return the constants of a controller that can be set, by their names.

    Parameters
    ----------
    controller
        The name of a built-in controller, the same with constants, such as ``"nada+kappa=0.4"``, or a file of constants.

    Raises
    ------
    ValueError
        There is no such controller.
    """
    rows = _giusto.constants(os.fspath(controller))[1]
    return {
        name: Constant(name, summary, unit, low, high, is_whole, value)
        for name, summary, unit, (low, high), is_whole, value in rows
    }


class Tuning:
    """The result of `giusto.tune`."""

    def __init__(self, study: optuna.Study, names: tuple[str, str], judged: _Judgement, about: Sequence[str]) -> None:
        self._study = study
        self._names = names
        self._judged = judged
        self._about = about

    @property
    def study(self) -> optuna.Study:
        """The study of Optuna, for its own plots and analyses."""
        return self._study

    @property
    def default(self) -> str:
        """The name of the controller that was tuned."""
        return self._names[0]

    @property
    def controller(self) -> str:
        """The controller with the constants that were found, such as ``"nada+kappa=0.4"``: a name that is accepted wherever one is."""
        return self._names[1]

    @property
    def constants(self) -> dict[str, float]:
        """The constants that were found, by name and in their units; empty if no trial was better than the default."""
        before, after = constants(self.default), constants(self.controller)
        return {name: own.value for name, own in after.items() if own.value != before[name].value}

    @property
    def development(self) -> tuple[float, float]:
        """Mean of the metric in the scenarios of development: of the default, and of what was found."""
        return self._judged.development

    @property
    def validation(self) -> tuple[float, float]:
        """The same in the fresh scenarios."""
        return self._judged.validation

    @property
    def difference(self) -> tuple[float, float | None, float | None]:
        """Mean of what was found minus the default, scenario by scenario, in the fresh scenarios, and its 95 % confidence interval."""
        return self._judged.difference

    @property
    def is_better(self) -> bool:
        """Whether what was found is better in fresh scenarios beyond noise: the whole interval lies on the better side of 0."""
        return self._judged.is_better

    @property
    def verdict(self) -> str:
        """What the validation shows, in a sentence."""
        return self._judged.verdict

    @property
    def trials(self) -> pyarrow.Table:
        """One row for each trial: `number`, `state` (``complete`` or ``pruned``), `scenarios` that were run, `value`, and constants."""
        import pyarrow

        rows = []
        for trial in self.study.trials:
            steps = trial.intermediate_values
            found = {"number": trial.number, "state": trial.state.name.lower(), "scenarios": max(steps, default=0)}
            found["value"] = steps[max(steps)] if steps else None
            rows.append(found | {name: float(value) for name, value in trial.user_attrs["constants"].items()})
        return pyarrow.Table.from_pylist(rows)

    def toml(self) -> str:
        """Return the controller as a file that ``--controller`` of `sim`, `call`, `compare` and `benchmark` takes, and `giusto` in Python.

        Comments say how it was found.
        """
        lines = [f"# giusto tune {self.default}: {self.verdict}.", *(f"# {line}" for line in self._about)]
        parts = self.controller.split("+")
        lines.append(f'algorithm = "{"+".join(part for part in parts if "=" not in part)}"')
        known, before = constants(self.controller), constants(self.default)
        for name in (part.split("=")[0] for part in parts if "=" in part):
            own = known[name]
            text = f'"{_number(own.value)} {own.unit}"' if own.unit else _number(own.value)
            default = f"{_number(before[name].value)} {own.unit}".rstrip()
            lines.append(f"{name} = {text} # before {default}; {own.summary}")
        return "\n".join(lines) + "\n"

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write ``tuned.toml`` and ``trials.csv`` to a folder."""
        from pyarrow import csv

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / "tuned.toml").write_text(self.toml(), encoding="utf-8")
        csv.write_csv(self.trials, path / "trials.csv")


@checked
def tune(
    controller: str,
    constants: Iterable[str] | Mapping[str, tuple[float, float] | None] | None = None,
    scenarios: Scenarios = 92,
    *,
    seed: str = "development",
    validation: Scenarios | None = None,
    validation_seed: str = "validation",
    metric: Metric = "utility",
    flow: str | None = None,
    trials: int = 64,
    sampler: str | optuna.samplers.BaseSampler = "tpe",
    pruner: str | optuna.pruners.BasePruner | None = "median",
    random_seed: int = 1,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool | Report | None = None,
    engine: object = None,
) -> Tuning:
    """Find the constants with which a controller does best, and say whether they are better than chance.

    Trials are judged in the scenarios of development, a quarter of them first; those that do badly end there. The best one and the
    default are then judged in fresh scenarios, which the search has not seen. The result depends neither on the number of threads nor
    on the engine. Needs Optuna: ``pip install 'giusto[tune]'``.

    Parameters
    ----------
    controller
        The name of a built-in controller, the same with constants, such as ``"nada+kappa=0.4"``, or a file of constants.
    constants
        Names of the constants that are sought, or their ranges: ``{"kappa": (0.1, 1), "tau": None}``, where None is the whole range.
        Default: all of `giusto.constants`; a dozen is much for 64 trials.
    scenarios
        Number of random scenarios of `giusto.benchmark`; or scenarios of your own, such as paths, each of which is run with the seeds
        1 to 4. Their media flows that lead to the end of the link ``"bottleneck"`` are judged. A recording is a scenario whose link
        has it as its rate.
    seed
        Seed of the random scenarios for development.
    validation
        The same as `scenarios` for validation. Default: twice as many random scenarios; or those of your own with other seeds, three
        times as many. Give recordings of their own: another seed does not change the network of a recording.
    validation_seed
        Seed of the random scenarios for validation.
    metric
        A figure of `Benchmark.runs`, the mean of which is made largest (`utility` and its parts, `utilisation_ratio`, `jain`) or
        smallest (all others); or a function of these figures whose mean is made largest.
    flow
        Only this media flow has the controller and is judged, in scenarios of your own. Default: all.
    trials
        Number of trials. The first is the default.
    sampler
        ``"tpe"``, ``"cma-es"`` (needs the package `cmaes`), ``"random"``, or one of Optuna.
    pruner
        ``"median"``, ``"hyperband"``, None for no pruning, or one of Optuna.
    random_seed
        Random seed of the sampler.
    jobs, engine
        As in `sweep`.
    out
        Folder for ``tuned.toml`` and ``trials.csv``.
    progress
        Called with the number of finished runs and that of all. True shows a bar on standard error, False nothing. Default: a bar if
        standard error is a terminal.

    Raises
    ------
    ValueError
        A controller, a constant, a range or a metric is unknown or not valid; or scenarios cannot be judged.
    ScenarioError
        A scenario of your own is not valid.
    ImportError
        Optuna, or the package of the engine or the sampler, is missing.
    Exception
        What `metric` or `progress` raised.

    Examples
    --------
    >>> tuned = giusto.tune("nada", ["kappa", "tau"], trials=40, out="tuned")
    >>> print(tuned.verdict)
    >>> giusto.benchmark(["nada", "tuned/tuned.toml"], seed="another")
    """
    optuna = _optuna()
    base = _giusto.constants(os.fspath(controller))[0]
    ranges = _ranges(base, constants)
    if not 2 <= trials <= 100_000:
        raise ValueError(f"trials must be from 2 to 100000, found {trials}")
    sought = _Metric(metric)
    developed = _Set.of("development", scenarios, seed, flow)
    fresh = developed.fresh(scenarios, validation, validation_seed, seed, flow)
    threads, report = _jobs(jobs, engine), reporter(progress)
    study = optuna.create_study(
        direction="maximize" if sought.more else "minimize",
        sampler=_sampler(optuna, sampler, random_seed),
        pruner=_pruner(optuna, pruner, developed.rungs),
    )
    with _engine(engine, threads) as runner:
        runs = _Runs(runner, report, trials * len(developed.places) + 2 * len(fresh.places))
        _search(optuna, study, base, ranges, developed, sought, trials, runs)
        best = _best(study)
        name = str(best.user_attrs["controller"])
        judged = _judge(base, name, developed, fresh, sought, runs)
    how = f"{sampler if isinstance(sampler, str) else type(sampler).__name__}, random seed {random_seed}"
    result = Tuning(study, (base, name), judged, _about(study, how, developed, fresh, judged))
    if out is not None:
        result.write(out)
    return result


def _search(
    optuna: Any,
    study: optuna.Study,
    base: str,
    ranges: Mapping[str, _Range],
    developed: _Set,
    sought: _Metric,
    trials: int,
    runs: _Runs,
) -> None:
    """Make the trials of a study, in batches whose runs are made side by side."""
    study.enqueue_trial({name: own.within(own.constant.value) for name, own in ranges.items()})
    distributions = {name: own.distribution(optuna) for name, own in ranges.items()}
    made = 0
    while made < trials:
        # The first of all is the default, and nothing is known before it.
        batch = [study.ask(distributions) for _ in range(min(_BATCH, trials - made))]
        names = {}
        for trial in batch:
            values = {name: own.rounded(trial.params[name]) for name, own in ranges.items()}
            is_default = trial.number == 0
            names[trial.number] = base if is_default else _giusto.with_constants(base, list(values.items()))
            if is_default:
                values = {name: own.constant.value for name, own in ranges.items()}
            trial.set_user_attr("constants", values)
            trial.set_user_attr("controller", names[trial.number])
        alive, before = list(batch), 0
        for rung in developed.rungs:
            last = rung == developed.rungs[-1]
            runs.make(developed, before, rung, [names[trial.number] for trial in alive])
            going = []
            for trial in alive:
                value = sought.mean(runs.rows(developed, rung, names[trial.number]))
                trial.report(value, rung)
                if last:
                    study.tell(trial, value)
                elif trial.number > 0 and trial.should_prune():
                    study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                    runs.done(len(developed.places) - rung)
                else:
                    going.append(trial)
            alive, before = going, rung
        made += len(batch)


def _best(study: optuna.Study) -> optuna.trial.FrozenTrial:
    """Return the best trial of those that ran in all scenarios; of equal ones the first, so that the default stays."""
    complete = [trial for trial in study.trials if trial.state.name == "COMPLETE" and trial.value is not None]
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    return min(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def _judge(base: str, name: str, developed: _Set, fresh: _Set, sought: _Metric, runs: _Runs) -> _Judgement:
    """Compare what was found with the default, scenario by scenario."""
    whole = len(developed.places)
    default, tuned = (sought.values(runs.rows(developed, whole, own)) for own in (base, name))
    count = len(fresh.places)
    if name == base:
        runs.done(2 * count)
        mean = sought.mean(runs.rows(developed, whole, base))
        return _Judgement((mean, mean), (math.nan, math.nan), (0.0, None, None), sought, 0, True)
    runs.make(fresh, 0, count, [base, name])
    before, after = (sought.values(runs.rows(fresh, count, own)) for own in (base, name))
    pairs = fresh.pairs(list(zip(before, after)))
    difference = _giusto.interval([b - a for a, b in pairs])
    if difference is None:
        raise ValueError(f"metric {sought.name}: no scenario for validation has it: choose another, or other scenarios")
    of_development = [(a, b) for a, b in zip(default, tuned) if a is not None and b is not None]
    is_fresh = fresh.is_fresh(runs.rows(fresh, count, base))
    # The seeds of scenarios that are sought in too are fresh, but not what is the same whatever the seed is.
    same = set(map(repr, fresh.documents)) & set(map(repr, developed.documents))
    what = "fresh runs of the same scenarios" if same else "fresh scenarios"
    return _Judgement(_means(of_development), _means(pairs), difference, sought, len(pairs), is_fresh, what)


def _means(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    count = max(len(pairs), 1)
    return sum(a for a, _ in pairs) / count, sum(b for _, b in pairs) / count


@dataclass(frozen=True)
class _Judgement:
    """The comparison of what was found with the default."""

    development: tuple[float, float]
    validation: tuple[float, float]
    difference: tuple[float, float | None, float | None]
    sought: _Metric
    count: int
    is_fresh: bool
    what: str = "fresh scenarios"

    @property
    def is_better(self) -> bool:
        _, low, high = self.difference
        if low is None or high is None or not self.is_fresh:
            return False
        return low > 0 if self.sought.more else high < 0

    @property
    def verdict(self) -> str:
        mean, low, high = self.difference
        if self.count == 0:
            return "no trial was better than the default"
        before, after = self.development
        digits = 1 if max(abs(mean), abs(low or 0), abs(high or 0), abs(after - before)) >= 10 else 4

        def signed(value: float) -> str:
            return ("−" if value < 0 else "+") + f"{abs(value):.{digits}f}"

        found = f"{self.sought.name} {signed(mean)}"
        where = f"on {self.count} {self.what}; {signed(after - before)} on those of development"
        if low is None or high is None:
            return f"one scenario says nothing of noise: {found} {where}"
        if not self.is_fresh:
            return (
                f"not validated: {found} {where}, but another seed changes nothing in these scenarios: "
                "give others for validation"
            )
        interval = f"(95 % interval {signed(low)} to {signed(high)})"
        worse = high < 0 if self.sought.more else low > 0
        if self.is_better:
            return f"better than the default: {found} {interval} {where}"
        if worse:
            return f"worse than the default: {found} {interval} {where}"
        return f"no better than the default beyond noise: {found} {interval} {where}"


def _about(study: optuna.Study, how: str, developed: _Set, fresh: _Set, judged: _Judgement) -> list[str]:
    """Return how the constants were found, for the file."""
    states = [trial.state.name for trial in study.trials]
    default, tuned = judged.development
    return [
        f"Development: {developed.about}; {len(states)} trials, {states.count('PRUNED')} of them pruned; {how}: mean "
        f"{judged.sought.name} {default:.4g}, found {tuned:.4g}.",
        f"Validation: {fresh.about}.",
    ]


class _Metric:
    """What is made largest or smallest."""

    def __init__(self, metric: Metric) -> None:
        self._function = None if isinstance(metric, str) else metric
        self.name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
        self.more = not isinstance(metric, str) or metric.startswith(_MORE)

    def values(self, rows: Sequence[_Row]) -> list[float | None]:
        return [self._value(row) for row in rows]

    def mean(self, rows: Sequence[_Row]) -> float:
        found = [value for value in self.values(rows) if value is not None]
        if not found:
            raise ValueError(f"metric {self.name}: none of the first {len(rows)} scenarios has it: choose another, or more")
        return sum(found) / len(found)

    def _value(self, row: _Row) -> float | None:
        if self._function is None:
            if self.name not in row:
                raise ValueError(f'metric "{self.name}" is unknown: use one of {", ".join(row)}, or a function')
            found = row[self.name]
        else:
            found = self._function(row)
        if found is None:
            return None
        value = float(found)
        if not math.isfinite(value):
            raise ValueError(f"metric {self.name}: expected a finite number, found {value}")
        return value


@dataclass(frozen=True)
class _Range:
    """The range in which a constant is sought."""

    constant: Constant
    low: float
    high: float

    def distribution(self, optuna: Any) -> Any:
        """Return what Optuna draws from."""
        if self.constant.is_whole:
            return optuna.distributions.IntDistribution(int(self.low), int(self.high))
        # A constant that may change tenfold is sought by its order of magnitude.
        return optuna.distributions.FloatDistribution(self.low, self.high, log=self.low > 0 and self.high >= 10 * self.low)

    def within(self, value: float) -> float | int:
        inside = min(max(value, self.low), self.high)
        return int(inside) if self.constant.is_whole else inside

    def rounded(self, value: float) -> float:
        return self.within(float(f"{value:.{_DIGITS}g}"))


def _ranges(base: str, given: Iterable[str] | Mapping[str, tuple[float, float] | None] | None) -> dict[str, _Range]:
    """Return the ranges in which constants are sought."""
    known = constants(base)
    if not known:
        raise ValueError(f"{base} has no constants that can be set: use another controller")
    if isinstance(given, str):
        raise TypeError(f"constants: expected a list of names or a table of ranges, found {given!r}: put it into a list")
    asked = given if isinstance(given, Mapping) else dict.fromkeys(known if given is None else given)
    ranges: dict[str, _Range] = {}
    for key, limits in asked.items():
        name = key.replace("_", "-")
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            fix = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(known)}"
            raise ValueError(f'{base} has no constant "{name}": {fix}')
        own = known[name]
        low, high = (own.low, own.high) if limits is None else (float(limits[0]), float(limits[1]))
        if not own.low <= low < high <= own.high:
            unit = f" {own.unit}" if own.unit else ""
            raise ValueError(
                f"{name}: the range must be within {_number(own.low)} to {_number(own.high)}{unit}, the first below the second, "
                f"found {_number(low)} to {_number(high)}"
            )
        if own.is_whole and (low != int(low) or high != int(high)):
            raise ValueError(f"{name}: expected whole numbers, found {_number(low)} to {_number(high)}")
        if name in ranges:
            raise ValueError(f"{name} is given twice: leave one out")
        ranges[name] = _Range(own, low, high)
    if not ranges:
        raise ValueError("constants: the list is empty: name at least one")
    return ranges


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
    def of(cls, name: str, given: Scenarios, seed: str, flow: str | None, seeds: Sequence[int] = range(1, _SEEDS + 1)) -> _Set:
        if isinstance(given, int):
            if not 1 <= given <= 1_000_000:
                raise ValueError(f"the number of scenarios must be from 1 to 1000000, found {given}")
            if not seed.strip():
                raise ValueError('the seed is empty: give any text, such as "2026-11"')
            if flow is not None:
                raise ValueError("flow is of scenarios of your own: leave it out, random scenarios name theirs")
            about = f'{given} random scenarios of seed "{seed}"'
            return cls(name, tuple((seed, number) for number in range(given)), (), None, about)
        every = [given] if isinstance(given, (str, os.PathLike, Scenario)) else list(given)
        if not every:
            raise ValueError("scenarios: the list is empty: name at least one")
        documents, names = [], []
        for one in every:
            planned = scenario_of(one)
            if planned._controllers:
                raise ValueError("scenarios: a controller of your own has no constants: name a built-in one")
            documents.append(planned._document.pickled(planned._settings))
            names.append(documents[-1][1])
        # All scenarios with one seed come before the next seed, so that the first ones are of every kind.
        places = tuple((index, number) for number in seeds for index in range(len(documents)))
        about = f"{', '.join(names)} with the seeds {seeds[0]} to {seeds[-1]}"
        return cls(name, places, tuple(documents), flow, about)

    def fresh(self, given: Scenarios, validation: Scenarios | None, seed: str, own_seed: str, flow: str | None) -> _Set:
        """Return the scenarios for validation."""
        if isinstance(given if validation is None else validation, int) and seed == own_seed:
            raise ValueError(f'validation_seed must differ from seed, found "{seed}" twice: what is tuned is judged in others')
        if validation is None:
            validation = 2 * given if isinstance(given, int) else given
            seeds = range(_FIRST_FRESH, _FIRST_FRESH + 3 * _SEEDS)
        else:
            seeds = range(_FIRST_FRESH, _FIRST_FRESH + _SEEDS)
        fresh = _Set.of("validation", validation, seed, None if isinstance(validation, int) else flow, seeds)
        others = len(fresh.documents) > 1 and not set(map(repr, fresh.documents)) & set(map(repr, self.documents))
        return replace(fresh, by_document=others)

    @property
    def rungs(self) -> list[int]:
        """Numbers of scenarios after which a trial may end."""
        whole = len(self.places)
        return sorted({math.ceil(whole / 4), math.ceil(whole / 2), whole})

    def pairs(self, values: Sequence[tuple[float | None, float | None]]) -> list[tuple[float, float]]:
        """Return the pairs of values that are compared: of each scenario, or the means of each document."""
        whole = [(place, a, b) for place, (a, b) in zip(self.places, values) if a is not None and b is not None]
        if not self.by_document:
            return [(a, b) for _, a, b in whole]
        groups: dict[int | str, list[tuple[float, float]]] = {}
        for place, a, b in whole:
            groups.setdefault(place[0], []).append((a, b))
        return [_means(group) for group in groups.values()]

    def is_fresh(self, rows: Sequence[_Row]) -> bool:
        """Whether other seeds change what the default does, or the scenarios themselves are others."""
        if not self.documents or self.by_document:
            return True
        by_document: dict[int | str, set[str]] = {}
        for place, row in zip(self.places, rows):
            by_document.setdefault(place[0], set()).add(json.dumps(row, sort_keys=True))
        return any(len(own) > 1 for own in by_document.values())


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


@contextmanager
def _engine(given: object, threads: int) -> Iterator[Engine]:
    """Return what makes the runs: the engine of the user, or threads, which release the GIL."""
    if given is not None:
        yield engine_of(given)
        return
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    try:
        yield engine_of(pool)
    finally:
        pool.shutdown(cancel_futures=True)


def _sampler(optuna: Any, given: object, seed: int) -> Any:
    if not isinstance(given, str):
        return given
    if given == "tpe":
        # The sampler must not propose the same constants for trials that run at the same time.
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    if given == "cma-es":
        try:
            import cmaes  # noqa: F401
        except ImportError as error:
            raise ImportError("this sampler needs cmaes: pip install 'giusto[tune]'") from error
        return optuna.samplers.CmaEsSampler(seed=seed)
    if given == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    raise ValueError(f'sampler "{given}" is unknown: use tpe, cma-es, random or one of optuna.samplers')


def _pruner(optuna: Any, given: object, rungs: Sequence[int]) -> Any:
    if given is None:
        return optuna.pruners.NopPruner()
    if not isinstance(given, str):
        return given
    if given == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=_BATCH)
    if given == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=rungs[0], max_resource=rungs[-1], reduction_factor=2)
    raise ValueError(f'pruner "{given}" is unknown: use median, hyperband, None or one of optuna.pruners')


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError("giusto.tune needs optuna: pip install 'giusto[tune]'") from error
    # Each trial would be a line; the verdict says what they found.
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _number(value: float) -> str:
    return f"{value:.10g}"

