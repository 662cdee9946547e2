"""Bandwidth estimators with AlphaRTC's interface."""

from __future__ import annotations

import doctest
import traceback
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy
import pytest

import giusto
import giusto.gym

CALL = giusto.Scenario(
    duration="20 s",
    link=giusto.Link("bottleneck", "camera", "viewer", rate="2 Mbit/s", delay_ms=25, duplex=True),
    flow=giusto.Flow("call", "media", max_rate="5 Mbit/s", video={"model": "perfect", "max": "5 Mbit/s"}),
)


class Constant:
    """Always the same estimate."""

    def __init__(self, estimate: Any = 700_000) -> None:
        self.estimate = estimate
        self.told = 0

    def report_states(self, stats: dict[str, int]) -> None:
        self.told += 1

    def get_estimated_bandwidth(self) -> Any:
        assert self.told > 0
        return self.estimate


class Waiting:
    """Less while packets wait, more while they do not."""

    def __init__(self) -> None:
        self.estimate_bps = 300_000.0
        self.shortest_ms = 10_000
        self.delay_ms = 0

    def report_states(self, stats: dict[str, int]) -> None:
        self.delay_ms = stats["arrival_time_ms"] - stats["send_time_ms"]
        self.shortest_ms = min(self.shortest_ms, self.delay_ms)

    def get_estimated_bandwidth(self) -> float:
        self.estimate_bps *= 0.85 if self.delay_ms > self.shortest_ms + 20 else 1.05
        return self.estimate_bps


def run(estimator: Any, settings: dict[str, Any] | None = None) -> giusto.RunRecord:
    own = giusto.gym.EstimatorController(estimator)
    return giusto.run(CALL, 1, set={"call.controller": own, **(settings or {})})


def test_a_constant_estimate_is_the_target() -> None:
    for estimate in (700_000, 700_000.0, numpy.float32(700_000), numpy.int64(700_000)):
        decisions = run(Constant(estimate)).decisions.to_pylist()
        assert [(round(row["at_s"], 6), row["to_bps"]) for row in decisions] == [(0.0, 300_000), (0.2, 700_000)]
    # The limits of the call hold.
    assert run(Constant(90_000_000)).decisions.to_pylist()[-1]["to_bps"] == 5_000_000


def test_estimates_are_taken_every_200_ms() -> None:
    decisions = run(Waiting).decisions.to_pylist()
    times = [row["at_s"] for row in decisions[1:]]
    assert len(times) == 99
    assert times == pytest.approx([0.2 * number for number in range(1, 100)], abs=1e-6)


def test_an_estimator_of_delays_finds_the_rate() -> None:
    for rate in (1_000_000, 2_500_000):
        flow = run(Waiting, {"bottleneck.rate": f"{rate} bit/s"}).flow("call")
        assert 0.5 * rate < flow.received_rate_bps <= rate
        assert flow.queue_delay_ms is not None and flow.queue_delay_ms.p50 < 60


def test_the_packets_are_those_of_the_trace() -> None:
    seen: list[dict[str, int]] = []

    class Recorder(Constant):
        def report_states(self, stats: dict[str, int]) -> None:
            super().report_states(stats)
            seen.append(stats)

    # Only the way there loses packets: those of a lost feedback message would not be reported.
    there = giusto.Link("bottleneck", "camera", "viewer", rate="2 Mbit/s", delay_ms=25, loss=0.05)
    back = giusto.Link("back", "viewer", "camera", rate="2 Mbit/s", delay_ms=25)
    flow = giusto.Flow("call", "media", from_="camera", to="viewer", controller=giusto.gym.EstimatorController(Recorder))
    scenario = giusto.Scenario(duration="20 s", link=[there, back], flow=flow)
    rows = giusto.run(scenario, 1, trace=True).trace.to_pylist()
    own = [row for row in rows if row["flow"] == "call"]
    sent = {row["sequence"]: row for row in own if row["event"] == "sent"}
    delivered = [(sent[row["sequence"]], row) for row in own if row["event"] == "delivered"]
    skipped, place = [], 0
    for stats in seen:
        left, came = delivered[place]
        # Sender reports have sequence numbers of the trace, but none of the feedback.
        while 28 + stats["header_length"] + stats["payload_size"] != left["size_bytes"]:
            skipped.append(left["size_bytes"])
            place += 1
            left, came = delivered[place]
        assert abs(stats["send_time_ms"] - left["time_ns"] // 1_000_000) <= 1
        assert abs(stats["arrival_time_ms"] - came["time_ns"] // 1_000_000) <= 1
        place += 1
    assert len(seen) > 1500 and len(skipped) < 40 and max(skipped) < 150
    # Feedback on the last packets is still on its way at the end.
    assert len(delivered) - place < 20
    numbers = [stats["sequence_number"] for stats in seen]
    assert numbers == sorted(set(numbers)) and 0.92 < len(numbers) / (numbers[-1] + 1) < 0.98
    arrivals = [stats["arrival_time_ms"] for stats in seen]
    assert arrivals == sorted(arrivals)


def test_each_call_has_an_estimator_of_its_own() -> None:
    own = Waiting()
    wanted = run(Waiting).decisions
    assert run(own).decisions == wanted and run(own).decisions == wanted
    assert own.estimate_bps == 300_000


def test_sweeps_and_the_benchmark_take_it() -> None:
    own = giusto.gym.EstimatorController(Waiting, name="waiting")
    swept = giusto.sweep(CALL, {"call.controller": [own, "fixed"]}, seeds=[1, 2])
    assert swept.flows.num_rows == 4
    summary = giusto.benchmark([own, "fixed"], scenarios=1, progress=False).summary
    utility = {row["name"]: row["all"]["utility_mean"] for row in summary["controllers"]}
    assert utility.keys() == {"waiting", "fixed"}
    assert 0.1 < utility["waiting"] <= 1


def test_estimators_are_sent_to_other_processes() -> None:
    controllers = [giusto.gym.EstimatorController(own, name=name) for name, own in (("a", Waiting), ("b", Constant(500_000)))]

    def rates(**engine: Any) -> list[Any]:
        swept = giusto.sweep(CALL, {"call.controller": controllers}, seeds=[1], progress=False, **engine)
        return list(swept.flows["received_rate_bps"].to_pylist())

    with ProcessPoolExecutor(1) as pool:
        assert rates(engine=pool) == rates()


def test_an_exception_of_the_estimator_comes_back_whole() -> None:
    class Broken(Constant):
        def report_states(self, stats: dict[str, int]) -> None:
            raise ZeroDivisionError("a mistake of the user")

    with pytest.raises(ZeroDivisionError, match="a mistake of the user") as caught:
        run(Broken)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert frame.name == "report_states" and frame.filename == __file__


@pytest.mark.parametrize(
    ("estimate", "error", "text"),
    [
        (None, TypeError, r"get_estimated_bandwidth\(\) must return a number in bit/s, found None \(NoneType\)"),
        ("1 Mbit/s", TypeError, r"found '1 Mbit/s' \(str\)"),
        (True, TypeError, r"found True \(bool\)"),
        ((1e6, "state"), TypeError, r"\(tuple\)"),
        (float("nan"), ValueError, "a finite number of at least 0 bit/s, found nan"),
        (float("inf"), ValueError, "found inf"),
        (-1, ValueError, "estimator 'estimator': .* found -1"),
    ],
)
def test_a_wrong_estimate_is_named(estimate: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run(Constant(estimate))


def test_what_is_no_estimator_is_named() -> None:
    class Half:
        def report_states(self, stats: dict[str, int]) -> None:
            """Note a packet."""

    with pytest.raises(TypeError, match=r"the method get_estimated_bandwidth\(\), found .*Half"):
        giusto.gym.EstimatorController(Half)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the method report_states\(\), found 7"):
        giusto.gym.EstimatorController(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("owner", [giusto, giusto.gym, giusto.gym.EstimatorController, giusto.gym.PolicyController, giusto.gym.Environment])
def test_the_examples_of_the_documentation_run(owner: Any) -> None:
    (example,) = (own for own in doctest.DocTestFinder(recurse=False).find(owner, globs={"giusto": giusto}) if own.examples)
    results = doctest.DocTestRunner().run(example)
    assert results.attempted > 1 and results.failed == 0
