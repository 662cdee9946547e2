"""Calls in the cells of a city."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from giusto import _giusto
from giusto._arguments import checked
from giusto._record import Check
from giusto._scenario import Value, _setting

if TYPE_CHECKING:
    import pyarrow


class CityRun:
    """The result of a run of a city.

    Attributes
    ----------
    calls : pyarrow.Table
        The first calls, at most 300: `call`, `start_s`, `end_s`, `handovers`.
    calls_over_time : pyarrow.Table
        The first calls of the evaluation, at most 60, each 0.1 s: `call`, `t_s`, `sinr_db`, `target_bps`, `received_bps`,
        `backlog_bytes`, `frame_delay_ms`.
    """

    def __init__(self, run: _giusto.City) -> None:
        self._run = run
        self._values: dict[str, Any] = json.loads(run.json())

    def __reduce__(self) -> Any:
        what = "take its `to_dict()`"
        raise TypeError(f"giusto.{type(self).__name__} cannot be pickled or copied: {what}")

    @property
    def figures(self) -> dict[str, Any]:
        """Figures of calls, radio and file transfers by their names in JSON: `frame_tail_ms`, `received_video_bps`, …."""
        figures: dict[str, Any] = self._values["city"]
        return figures

    @property
    def checks(self) -> list[Check]:
        """Expectations and whether they are met."""
        return [Check(**check) for check in self._values["checks"]]

    @property
    def passed(self) -> bool:
        """Whether all expectations are met."""
        return self._run.passed

    @property
    def seed(self) -> int:
        """Random seed."""
        return int(self._values["seed"])

    @property
    def calls(self) -> pyarrow.Table:
        """The first calls."""
        import pyarrow

        return pyarrow.table(self._run.calls())

    @property
    def calls_over_time(self) -> pyarrow.Table:
        """The first calls of the evaluation over time."""
        import pyarrow

        return pyarrow.table(self._run.calls_over_time())

    def to_dict(self) -> dict[str, Any]:
        """Return what ``giusto sim --json`` prints."""
        values: dict[str, Any] = json.loads(self._run.json())
        return values

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write `result.json` and `report.html` to a folder."""
        os.makedirs(folder, exist_ok=True)
        self._run.write(os.fspath(folder), f"giusto.city, scenario {self._values['scenario']}, seed {self.seed}")

    def __str__(self) -> str:
        return self._run.tables()

    def __repr__(self) -> str:
        return f"<giusto.CityRun {self._values['scenario']!r}, seed {self.seed}>"


@checked
def city(
    scenario: str | os.PathLike[str], seed: int | None = None, *, set: Mapping[str, Value] | None = None
) -> CityRun:
    """Simulate calls in the cells of a city.

    The same scenario and seed give the same result. Ctrl-C ends the run with `KeyboardInterrupt`.

    Parameters
    ----------
    scenario
        Path of a scenario file with a table ``[city]``, or its text (a string of several lines).
    seed
        Random seed. Default: that of the scenario.
    set
        Other values by their paths: ``{"city.users-per-cell": 7}``.

    Raises
    ------
    ScenarioError
        The scenario is not that of a city, or cannot be run.
    """
    if isinstance(scenario, str) and "\n" in scenario:
        document = _giusto.Document(scenario, "scenario")
    else:
        document = _giusto.Document.load(os.fspath(scenario))
    settings = [(path, _setting(path, value, [])) for path, value in (set or {}).items()]
    return CityRun(_giusto.run_city(document, settings, seed))
