"""Tuning: the constants with which a controller does best, and whether they are better than chance."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from giusto import _giusto
from giusto._arguments import checked
from giusto._engines import Engine, engine_of
from giusto._experiments import _folder, _jobs
from giusto._progress import Report, reporter
from giusto._tune_constants import _number, _ranges, constants
from giusto._tune_scenarios import Scenarios, _Runs, _Set, scenarios_of
from giusto._tune_search import _best, _optuna, _pruner, _sampler, _search
from giusto._tune_verdict import Metric, _judge, _Judgement, _Metric

if TYPE_CHECKING:
    import optuna
    import pyarrow


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
    controller: str | os.PathLike[str],
    constants: Iterable[str] | Mapping[str, tuple[float, float] | None] | None = None,
    scenarios: Scenarios = 92,
    *,
    seed: str | None = None,
    validation: Scenarios | None = None,
    validation_seed: str | None = None,
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
        Seed of the random scenarios for development. Default: ``"development"``.
    validation
        The same as `scenarios` for validation. Default: twice as many random scenarios; or those of your own with other seeds, three
        times as many. Give recordings of their own: another seed does not change the network of a recording. A scenario in which
        another seed changes nothing counts once, and not at all if it is one of development.
    validation_seed
        Seed of the random scenarios for validation. Default: ``"validation"``.
    metric
        A figure of `Benchmark.runs`, the mean of which is made largest (`utility` and its parts, `utilisation_ratio`, `jain`) or
        smallest (all others but `frames`); or a function of these figures whose mean is made largest.
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
    scenarios = scenarios_of("scenarios", scenarios)
    validation = None if validation is None else scenarios_of("validation", validation)
    sought = _Metric(metric)
    developed = _Set.of("development", scenarios, seed, flow)
    fresh = developed.fresh(scenarios, validation, validation_seed, flow)
    threads, report, folder = _jobs(jobs, engine), reporter(progress), _folder(out, False)
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
    if folder is not None:
        result.write(folder)
    return result


def _about(study: optuna.Study, how: str, developed: _Set, fresh: _Set, judged: _Judgement) -> list[str]:
    """Return how the constants were found, for the file."""
    states = [trial.state.name for trial in study.trials]
    default, tuned = judged.development
    return [
        f"Development: {developed.about}; {len(states)} trials, {states.count('PRUNED')} of them pruned; {how}: mean "
        f"{judged.sought.name} {default:.4g}, found {tuned:.4g}.",
        f"Validation: {fresh.about}.",
    ]


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
