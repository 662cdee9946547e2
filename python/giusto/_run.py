"""Simulated runs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from giusto import _giusto
from giusto._arguments import checked
from giusto._controller import Controller
from giusto._record import RunRecord
from giusto._scenario import Scenario, Value, scenario_of


@checked
def run(
    scenario: Scenario | str | os.PathLike[str],
    seed: int | None = None,
    *,
    set: Mapping[str, Value | type[Controller]] | None = None,
    timeline: bool = True,
    trace: bool = False,
) -> RunRecord:
    """Simulate a scenario.

    The same scenario and seed give the same record. Ctrl-C ends the run with `KeyboardInterrupt`. Other threads continue: the run
    holds the GIL only while it calls a controller of your own.

    Parameters
    ----------
    scenario
        A `Scenario`, the path of a scenario file, its text (a string of several lines), or the name of a built-in scenario.
    seed
        Random seed, 0 to 2^64 - 1. Default: that of the scenario.
    set
        Other values of the scenario by their paths: ``{"bottleneck.rate": "5 Mbit/s"}``.
    timeline
        Whether to record flows and links over time, which plots and decisions need.
    trace
        Whether to record every event: about 70 bytes each.

    Returns
    -------
    RunRecord

    Raises
    ------
    ScenarioError
        The scenario cannot be run.
    Exception
        What a controller of your own raised.
    """
    planned = scenario_of(scenario)
    if set:
        planned = planned.with_settings(set)
    result = _giusto.run(
        planned._document,
        planned._settings,
        planned._controllers,
        seed,
        timeline=timeline,
        trace=trace,
    )
    return RunRecord._of(result)


def controllers() -> dict[str, str]:
    """Return the built-in congestion controllers: a description of each by its name."""
    return dict(_giusto.controllers())
