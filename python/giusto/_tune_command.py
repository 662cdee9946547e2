"""The command ``giusto tune``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from giusto._printed import Parser, show
from giusto._tune import Tuning, tune
from giusto._tune_constants import constants
from giusto._tune_scenarios import Scenarios

_EPILOG = """Examples:
  giusto tune nada --list
  giusto tune nada --constants kappa,tau=200..800 --out tuned
  giusto benchmark --seed another --controller nada,tuned/tuned.toml
  giusto tune scream:v2 --scenario office.toml,home.toml --validation train.toml,cafe.toml --metric frame_delay_p95_ms

Trials are judged in scenarios of development; the best one and the default are then compared in fresh ones, with a 95 % interval.
--out writes tuned.toml, which --controller of sim, call, compare and benchmark takes, and trials.csv."""


def main(words: Sequence[str]) -> int:
    """Run the command with these words; return its exit status."""
    try:
        return _run(_parser().parse_args(words))
    except (ValueError, ImportError, OSError) as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run(given: argparse.Namespace) -> int:
    if given.list:
        _print_constants(given.controller)
        return 0
    scenarios: Scenarios = _words(given.scenario) if given.scenario else given.scenarios
    found = tune(
        given.controller,
        None if given.constants is None else _ranges(given.constants),
        scenarios,
        seed=given.seed,
        validation=_words(given.validation) if given.validation else given.fresh,
        validation_seed=given.validation_seed,
        metric=given.metric,
        flow=given.flow,
        trials=given.trials,
        sampler=given.sampler,
        pruner=None if given.pruner == "none" else given.pruner,
        random_seed=given.random_seed,
        jobs=given.jobs,
        engine=given.engine,
        out=given.out,
    )
    if given.json:
        show(json.dumps(_result(found)))
    else:
        show(_text(found))
    if given.out is not None:
        print(f"wrote {given.out}/tuned.toml\nwrote {given.out}/trials.csv", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "giusto tune",
        description="Find the constants with which a controller does best, and say whether they are better than chance.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("controller", metavar="NAME", help="controller: a name, such as nada or nada+kappa=0.4, or a file of constants")
    add("--list", action="store_true", help="list its constants and their ranges, and end")
    add("--constants", metavar="A,B=LOW..HIGH", help="constants that are sought, with ranges if you like [default: all]")
    sought = parser.add_mutually_exclusive_group()
    sought.add_argument("--scenarios", type=int, default=92, metavar="N", help="number of random scenarios of development [default: 92]")
    sought.add_argument("--scenario", metavar="FILE,…", help="scenarios of your own instead")
    add("--seed", metavar="TEXT", help="seed of random scenarios [default: development]")
    fresh = parser.add_mutually_exclusive_group()
    fresh.add_argument("--fresh", type=int, metavar="N", help="number of random scenarios for validation [default: twice as many]")
    fresh.add_argument("--validation", metavar="FILE,…", help="scenarios of your own for validation [default: the same, other seeds]")
    add("--validation-seed", metavar="TEXT", help="seed of random scenarios for validation [default: validation]")
    add("--metric", default="utility", metavar="NAME", help="figure to improve, such as utilisation_ratio [default: utility]")
    add("--flow", metavar="ID", help="only this media flow, in scenarios of your own [default: all]")
    add("--trials", type=int, default=64, metavar="N", help="number of trials [default: 64]")
    add("--sampler", default="tpe", metavar="KIND", help="tpe, cma-es or random [default: tpe]")
    add("--pruner", default="median", metavar="KIND", help="median, hyperband or none [default: median]")
    add("--random-seed", type=int, default=1, metavar="N", help="random seed of the sampler [default: 1]")
    add("--jobs", type=int, metavar="N", help="number of runs at a time [default: one on each core]")
    add("--engine", choices=["dask", "ray"], help="make the runs on the running cluster of Dask or Ray instead")
    add("--out", metavar="DIR", help="write tuned.toml and trials.csv to this directory")
    add("--json", action="store_true", help="print one JSON object")
    return parser


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _ranges(text: str) -> dict[str, tuple[float, float] | None]:
    ranges: dict[str, tuple[float, float] | None] = {}
    for word in _words(text):
        name, has_range, limits = word.partition("=")
        low, dots, high = limits.partition("..")
        if name in ranges:
            raise ValueError(f"--constants: {name} is given twice: leave one out")
        try:
            ranges[name] = (float(low), float(high)) if has_range else None
        except ValueError:
            raise ValueError(f'--constants: expected NAME or NAME=LOW..HIGH, such as kappa=0.1..1, found "{word}"') from None
    return ranges


def _print_constants(controller: str) -> None:
    known = constants(controller).values()
    rows = [
        (own.name, f"{own.value:g}", f"{own.low:g} to {own.high:g} {own.unit}".rstrip(), own.summary.replace("`", "")) for own in known
    ]
    show(_table([("constant", "value", "range", "meaning"), *rows]))


def _text(found: Tuning) -> str:
    verdict = f"{found.default}: {found.verdict}."
    before, after = constants(found.default), constants(found.controller)
    rows = [
        (name, f"{before[name].value:g}", f"{after[name].value:g} {after[name].unit}".rstrip())
        for name in found.constants
    ]
    return "\n\n".join([verdict, *([_table([("constant", "before", "found"), *rows])] if rows else [])])


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip() for row in rows)


def _result(found: Tuning) -> dict[str, Any]:
    mean, low, high = found.difference
    default, tuned = found.validation
    known = constants(found.controller)
    return {
        "default": found.default,
        "controller": found.controller,
        "constants": {name: {"value": value, "unit": known[name].unit} for name, value in found.constants.items()},
        "is_better": found.is_better,
        "verdict": found.verdict,
        "difference": {"mean": mean, "low": low, "high": high},
        "development": dict(zip(("default", "tuned"), found.development)),
        "validation": {"default": _finite(default), "tuned": _finite(tuned)},
        "trials": found.trials.to_pylist(),
    }


def _finite(value: float) -> float | None:
    return value if value == value else None
