"""The search of Optuna: trials, and those that end early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from giusto import _giusto
from giusto._tune_constants import _Range
from giusto._tune_scenarios import _Runs, _Set
from giusto._tune_verdict import _Metric

if TYPE_CHECKING:
    import optuna

# Trials that are asked for at a time. It is a part of what is computed: it must not depend on the machine.
_BATCH = 8


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
                    _tell(study, trial, values=value)
                elif trial.number > 0 and trial.should_prune():
                    _tell(study, trial, state=optuna.trial.TrialState.PRUNED)
                    runs.done(len(developed.places) - rung)
                else:
                    going.append(trial)
            alive, before = going, rung
        made += len(batch)


def _tell(study: optuna.Study, trial: optuna.Trial, **result: Any) -> None:
    """End a trial."""
    try:
        study.tell(trial, **result)
    except RuntimeError:
        # A sampler of a finite grid stops a study at its end, which only `optimize` allows. The trial has ended then.
        if not study.trials[trial.number].state.is_finished():
            raise


def _best(study: optuna.Study) -> optuna.trial.FrozenTrial:
    """Return the best trial of those that ran in all scenarios; of equal ones the first, so that the default stays."""
    complete = [trial for trial in study.trials if trial.state.name == "COMPLETE" and trial.value is not None]
    sign = -1 if study.direction.name == "MAXIMIZE" else 1
    return min(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


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
