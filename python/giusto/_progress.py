"""The progress of sweeps and benchmarks on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeAlias, cast

from giusto._arguments import _is_bool

Report: TypeAlias = "Callable[[int, int], object]"

_WIDTH = 30
# More often than this nobody reads it.
_INTERVAL_S = 0.1


class Bar:
    """A line on standard error that is written over: a bar, the number of runs, and the time left."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown = float("-inf")
        self._before: int | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` runs are done."""
        now = time.monotonic()
        if self._before is None:
            self._before = done - 1
        if now - self._shown < _INTERVAL_S and done < total:
            return
        self._shown = now
        bar = "#" * (_WIDTH * done // total)
        line = f"\r[{bar:{_WIDTH}}] {done} of {total} runs"
        made = done - self._before
        # The first run says little about the others, and results of an engine come in groups.
        if made > 1:
            line += f", {_time((now - self._began) / made * (total - done))} left"
        sys.stderr.write(f"{line:<78}" + ("\n" if done == total else ""))
        sys.stderr.flush()


def reporter(progress: bool | Report | None) -> Report | None:
    """Return what is called with the progress: a function of the user, the bar, or nothing."""
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    if _is_bool(progress):
        return Bar() if progress else None
    return cast("Report", progress)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
