"""Wrong types are named: the function, the argument, what is expected and what was found."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import operator
import pickle
from pathlib import Path
from typing import Any

import giusto
import numpy as np
import pytest


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run", {"scenario": "first", "seed": 1.5}, "giusto.run: seed: expected int or None, found 1.5 (float)"),
        ("run", {"scenario": 7}, "giusto.run: scenario: expected Scenario or str or os.PathLike[str], found 7 (int)"),
        ("run", {"scenario": "first", "timeline": 1}, "giusto.run: timeline: expected bool, found 1 (int)"),
        ("run", {"scenario": "first", "set": "a=1"}, "giusto.run: set: expected Mapping"),
        ("run", {"scenario": "first", "set": {1: 2}}, "giusto.run: set: expected strings as keys, found 1"),
        ("run", {"scenario": "first", "sed": 1}, "giusto.run: got an unexpected keyword argument 'sed'"),
        ("sweep", {"scenario": "first", "seeds": 3}, "giusto.sweep: seeds: expected Iterable[int], found 3 (int)"),
        ("sweep", {"scenario": "first", "set": {"seed": 1}}, "seed: expected a list of values, found 1: put it into a list"),
        ("merge", {"parts": "whole"}, "giusto.merge: parts: expected Iterable[str or os.PathLike[str]], found 'whole' (str)"),
        ("constants", {"controller": None}, "giusto.constants: controller: expected str or os.PathLike[str], found None (NoneType)"),
        ("rate_steps", {"times_s": 1, "rates_bps": [1]}, "giusto.rate_steps: times_s: expected Iterable[float], found 1 (int)"),
        ("frame_sizes", {"sizes_bytes": "12"}, "giusto.frame_sizes: sizes_bytes: expected Iterable[int], found '12' (str)"),
        ("call", {"host": "127.0.0.1", "encoder": 1}, "giusto.call: encoder: expected"),
        ("Leaderboard", {"path": 3}, "giusto.Leaderboard: path: expected str or os.PathLike[str], found 3 (int)"),
        ("Scenario.load", {"path": 3}, "giusto.Scenario.load: path: expected str or os.PathLike[str], found 3 (int)"),
        ("Scenario.load", {"path": "first", "controllers": [int]}, "int is no controller: derive it from giusto.Controller"),
        ("Scenario.parse", {"text": b""}, "giusto.Scenario.parse: text: expected str, found b'' (bytes)"),
        ("Scenario.parse", {"text": "", "controllers": 3}, "giusto.Scenario.parse: controllers: expected Iterable[type[Controller]], found 3"),
    ],
)
def test_a_wrong_type_is_named(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        operator.attrgetter(name)(giusto)(**arguments)
    assert str(raised.value).startswith(message), raised.value


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("Environment", {"scenarios": "3"}, "Environment: scenarios: expected int or None, found '3' (str)"),
        ("Environment", {"families": "static"}, "Environment: families: expected Sequence[str] or None, found 'static' (str)"),
        ("Environment", {"scenario": "media", "set": 3}, "Environment: set: expected Mapping[str, Value] or None, found 3 (int)"),
        ("Environment", {"step": 0.2}, "Environment: got an unexpected keyword argument 'step'"),
        ("VectorEnvironment", {"num_envs": 2.5}, "VectorEnvironment: num_envs: expected int, found 2.5 (float)"),
        ("VectorEnvironment", {"threads": None}, "VectorEnvironment: threads: expected int, found None (NoneType)"),
        ("PolicyController", {"policy": float, "stack": "2"}, "PolicyController: stack: expected int, found '2' (str)"),
        ("EstimatorController", {"estimator": 3, "name": 3}, "EstimatorController: name: expected str, found 3 (int)"),
        ("action", {"target_bps": "1M"}, "action: target_bps: expected float, found '1M' (str)"),
        ("record", {"environment": None, "episodes": 1.0}, "record: episodes: expected int, found 1.0 (float)"),
    ],
)
def test_a_wrong_type_of_an_environment_is_named(name: str, arguments: dict[str, Any], message: str) -> None:
    gym = pytest.importorskip("giusto.gym")
    with pytest.raises(TypeError) as raised:
        getattr(gym, name)(**arguments)
    assert str(raised.value).startswith(f"giusto.gym.{message}"), raised.value
    assert gym.Environment(scenarios=np.int64(3), step_s=np.float32(0.5)).action_space == gym.VectorEnvironment(np.int64(1)).single_action_space


def test_a_number_that_is_too_large_is_named() -> None:
    with pytest.raises(ValueError, match=r"^giusto.benchmark: a number is out of range: scenarios=-1$"):
        giusto.benchmark(["fixed"], scenarios=-1)
    with pytest.raises(ValueError, match=r"^giusto.benchmark: a number is out of range: scenarios=18446744073709551616$"):
        giusto.benchmark(["fixed"], scenarios=2**64)


class Overflowing(giusto.Controller):
    """A controller with an error of its own."""

    name = "overflowing"

    def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
        math.exp(1e5)

    def target(self) -> float:
        return 1e6


def test_an_overflow_of_the_user_is_passed_on() -> None:
    for call in (
        lambda: giusto.run("media", 1, set={"call.controller": Overflowing}),
        lambda: giusto.sweep("media", {"call.controller": [Overflowing]}, seeds=[1], jobs=1),
        lambda: giusto.benchmark([Overflowing], 1),
        lambda: giusto.sweep("media", seeds=[1], progress=lambda done, total: math.exp(1e5)),
    ):
        with pytest.raises(OverflowError, match="math range error") as raised:
            call()
        assert raised.traceback[-1].path == Path(__file__)


def test_classes_that_are_no_controllers_are_named() -> None:
    for call in (lambda: giusto.call("127.0.0.1", controller=dict), lambda: giusto.listen("127.0.0.1", 0, controllers=[dict])):
        with pytest.raises(TypeError, match="^dict is no controller: derive it from giusto.Controller$"):
            call()
    with pytest.raises(TypeError, match="^expected a class derived from giusto.Controller, found 'tempo'$"):
        giusto.listen("127.0.0.1", 0, controllers=["tempo"])  # type: ignore[list-item]
    for video in (-1, 17, 300):
        with pytest.raises(ValueError, match=f"^video must be from 0 to 16, found {video}$"):
            giusto.call("127.0.0.1", video=video)


def test_settings_and_names_of_constants_of_a_wrong_type_are_named() -> None:
    with pytest.raises(TypeError, match="^giusto.Scenario.with_settings: settings: expected Mapping"):
        giusto.Scenario.load("first").with_settings("seed=1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='nada has no constant "3": known are '):
        giusto.tune("nada", [3], 1)  # type: ignore[list-item]


def test_types_that_stand_for_others_are_accepted() -> None:
    assert giusto.run("first", seed=np.int64(2), timeline=np.bool_(False)).seed == 2
    assert len(giusto.sweep("first", seeds=np.arange(1, 3), progress=np.bool_(False)).flows) == 2
    assert giusto.rate_steps(np.array([0.0, 1.0]), (rate for rate in (1e6, 2e6)), period_s=np.float32(3))
    assert list(inspect.signature(giusto.run).parameters)[:2] == ["scenario", "seed"]


def test_results_that_cannot_be_pickled_say_what_to_take() -> None:
    record = giusto.run("first")
    with pytest.raises(TypeError, match=r"giusto.RunRecord cannot be pickled or copied: take its `to_dict\(\)`"):
        pickle.dumps(record)
    with pytest.raises(TypeError, match="giusto.Sweep cannot be pickled or copied"):
        copy.deepcopy(giusto.sweep("first", seeds=[1]))
    # It has no frames, whose delays are NaN.
    for flow in (record.flow("voice"), giusto.run("media").flow("call")):
        again = pickle.loads(pickle.dumps(flow))
        assert again == copy.deepcopy(flow) == flow and hash(again.delay_ms) == hash(flow.delay_ms)
        assert repr(again) == repr(flow) != repr(dataclasses.replace(flow, frame_delay_ms=giusto.Distribution(1.0)))
    assert pickle.loads(pickle.dumps(record.to_dict())) == record.to_dict()
