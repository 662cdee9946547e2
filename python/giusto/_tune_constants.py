"""The constants of a controller, and the ranges in which they are sought."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from giusto import _giusto
from giusto._arguments import checked

# Digits of a value: more would not be read, and change nothing.
_DIGITS = 4


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
def constants(controller: str | os.PathLike[str]) -> dict[str, Constant]:
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
        name = str(key).replace("_", "-")
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            fix = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(known)}"
            raise ValueError(f'{base} has no constant "{name}": {fix}')
        own = known[name]
        low, high = (own.low, own.high) if limits is None else _limits(name, limits)
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


def _limits(name: str, given: Any) -> tuple[float, float]:
    try:
        low, high = given
        return float(low), float(high)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a range (low, high) of two numbers, or None for the whole, found {given!r:.60}") from None


def _number(value: float) -> str:
    return f"{value:.10g}"
