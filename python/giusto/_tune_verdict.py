"""Whether what was found is better than the default."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from giusto import _giusto
from giusto._tune_scenarios import _means, _Row, _Runs, _Set, same_run

Metric: TypeAlias = "str | Callable[[Mapping[str, Any]], float]"

# Where more is better. Of all other figures less is.
_MORE = ("utility", "utilisation_ratio", "jain")
# What depends on the scenario rather than on the controller: neither more nor less is better.
_NEITHER = ("frames",)


class _Metric:
    """What is made largest or smallest."""

    def __init__(self, metric: Metric) -> None:
        if metric in _NEITHER:
            raise ValueError(f'metric "{metric}" counts the frames that were due, of which neither more nor less is better: use another')
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
            # Rows are kept for the verdict.
            found = self._function(dict(row))
        if found is None:
            return None
        try:
            value = float(found)
        except OverflowError:
            raise ValueError(f"metric {self.name}: expected a finite number, found {found!r:.60}") from None
        if not math.isfinite(value):
            raise ValueError(f"metric {self.name}: expected a finite number, found {value}")
        return value


def _judge(base: str, name: str, developed: _Set, fresh: _Set, sought: _Metric, runs: _Runs) -> _Judgement:
    """Compare what was found with the default, scenario by scenario."""
    whole = len(developed.places)
    count = len(fresh.places)
    if name == base:
        runs.done(2 * count)
        mean = sought.mean(runs.rows(developed, whole, base))
        return _Judgement((mean, mean), (math.nan, math.nan), (0.0, None, None), sought, 0, True)
    runs.make(fresh, 0, count, [base, name])
    of_development, of_fresh = (
        list(zip(*(runs.rows(own, size, controller) for controller in (base, name))))
        for own, size in ((developed, whole), (fresh, count))
    )
    default, tuned = (sought.values(rows) for rows in zip(*of_development))
    before, after = (sought.values(rows) for rows in zip(*of_fresh))
    known = set(map(same_run, of_development)) if developed.documents else set()
    compared = fresh.compared(of_fresh, list(zip(before, after)), known)
    means = _means([(a, b) for a, b in zip(default, tuned) if a is not None and b is not None])
    # Nothing but runs of development: their difference is known, and says nothing of others.
    pairs = compared.pairs or [(a, b) for a, b in zip(before, after) if a is not None and b is not None]
    difference = _giusto.interval([b - a for a, b in pairs])
    if difference is None:
        raise ValueError(f"metric {sought.name}: no scenario for validation has it: choose another, or other scenarios")
    if not compared.pairs:
        return _Judgement(means, _means(pairs), (difference[0], None, None), sought, len(pairs), False)
    # The seeds of scenarios that are sought in too are fresh.
    same = set(map(repr, fresh.documents)) & set(map(repr, developed.documents))
    what = "fresh scenarios"
    if fresh.documents and not fresh.by_document:
        what = "fresh runs of the same scenarios" if same else "fresh runs of one scenario"
    return _Judgement(means, _means(pairs), difference, sought, len(pairs), True, what, tuple(compared.still))


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
    # Scenarios for validation that are left out, since their runs are those of development.
    still: tuple[str, ...] = ()

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
        largest = max(abs(mean), abs(low or 0), abs(high or 0), abs(after - before))
        # Of a small share, such as that of lost packets, three digits.
        digits = 1 if largest >= 10 else max(4, 2 - math.floor(math.log10(largest or 1)))

        def signed(value: float) -> str:
            return ("−" if value < 0 else "+") + f"{abs(value):.{digits}f}"

        found = f"{self.sought.name} {signed(mean)}"
        if not self.is_fresh:
            return (
                f"not validated: {found} in the runs of development again, since another seed changes nothing in these scenarios: "
                "give others for validation"
            )
        where = f"on {self.count} {self.what}; {signed(after - before)} on those of development"
        if self.still:
            where += f"; without {', '.join(self.still)}, where another seed changes nothing"
        if low is None or high is None:
            return f"one scenario says nothing of noise: {found} {where}"
        interval = f"(95 % interval {signed(low)} to {signed(high)})"
        worse = high < 0 if self.sought.more else low > 0
        if self.is_better:
            return f"better than the default: {found} {interval} {where}"
        if worse:
            return f"worse than the default: {found} {interval} {where}"
        return f"no better than the default beyond noise: {found} {interval} {where}"
