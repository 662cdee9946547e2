"""Classes that functions make, and that other processes can make again."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any


class Made(type):
    """The class of controllers that a function made: they are pickled as the call of that function.

    A class of this kind has `_made_by`, the function and its arguments. Those that are derived from it are pickled by their names, as
    other classes are.
    """

    _made_by: tuple[Callable[..., type], tuple[Any, ...]]


def _reduced(made: Made) -> Any:
    return vars(made).get("_made_by", made.__qualname__)


# Of classes, `pickle` asks only this table.
copyreg.pickle(Made, _reduced)
