"""Checks of the types of arguments."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, SupportsFloat, SupportsIndex, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_TEXT = (str, bytes, bytearray)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "None": lambda value: value is None,
    "str": lambda value: isinstance(value, str),
    "bool": _is_bool,
    "int": lambda value: isinstance(value, SupportsIndex) and not _is_bool(value),
    "float": lambda value: isinstance(value, SupportsFloat) and not _is_bool(value),
    "os.PathLike": lambda value: isinstance(value, os.PathLike),
    "Mapping": lambda value: isinstance(value, Mapping),
    # A string is no list of its letters.
    "Iterable": lambda value: isinstance(value, Iterable) and not isinstance(value, (*_TEXT, Mapping)),
    "Sequence": lambda value: isinstance(value, Iterable) and not isinstance(value, (*_TEXT, Mapping)),
    "Callable": callable,
    "type": lambda value: isinstance(value, type),
    "Literal": lambda value: isinstance(value, str),
    "Scenario": lambda value: any(kind.__name__ == "Scenario" for kind in type(value).__mro__),
}


def _kinds(annotation: str) -> list[str]:
    """The alternatives of an annotation, without what is in brackets."""
    while (shorter := re.sub(r"\[[^\[\]]*\]", "", annotation)) != annotation:
        annotation = shorter
    return [kind.strip() for kind in annotation.split("|")]


def _is_beyond(value: Any) -> bool:
    """Whether an argument is an integer that no native function takes, or holds one."""
    if isinstance(value, (list, tuple, range)):
        return any(map(_is_beyond, (*value[:1000], *value[-1:])))
    try:
        return not 0 <= operator.index(value) < 2**64
    except TypeError:
        return False


def _is_own(error: BaseException) -> bool:
    """Whether an exception comes from this package, and not from what it called."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and str(place.tb_frame.f_globals.get("__name__")).split(".")[0] == "giusto"


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let wrong types be named: the function, the argument, what is expected and what was found.

    Types that are not known here are left to the function.
    """
    # As users call it: without the private module, and a class for its constructor.
    called = f"{function.__module__.split('._')[0]}.{function.__qualname__.removesuffix('.__init__')}"
    signature = inspect.signature(function)
    known: dict[str, tuple[str, list[Callable[[Any], bool]]]] = {}
    for name, parameter in signature.parameters.items():
        kinds = _kinds(str(parameter.annotation))
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if not variable and all(kind in _CHECKS for kind in kinds):
            known[name] = (str(parameter.annotation).replace(" | ", " or "), [_CHECKS[kind] for kind in kinds])

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{called}: {error}") from None
        for name, value in given.items():
            expected, checks = known.get(name, ("", []))
            if checks and not any(check(value) for check in checks):
                found = f"{value!r:.60} ({type(value).__name__})"
                raise TypeError(f"{called}: {name}: expected {expected}, found {found}")
            if isinstance(value, Mapping) and (other := [key for key in value if not isinstance(key, str)]):
                raise TypeError(f"{called}: {name}: expected strings as keys, found {other[0]!r:.60}")
        try:
            return function(*args, **kwargs)
        except OverflowError as error:
            numbers = [f"{name}={value!r:.60}" for name, value in given.items() if _is_beyond(value)]
            # What a controller, a metric or another function of the user raised is theirs.
            if not numbers or not _is_own(error):
                raise
            raise ValueError(f"{called}: a number is out of range: {', '.join(numbers)}") from None

    return call
