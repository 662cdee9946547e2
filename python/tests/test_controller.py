"""Controllers written in Python."""

from __future__ import annotations

import copy
import pickle
import traceback
from types import MappingProxyType
from typing import Any

import numpy
import pyarrow
import pytest

import giusto


class Aimd(giusto.Controller):
    """The rules of crates/giusto/examples/custom_controller.rs."""

    def __init__(self, limits: giusto.Limits) -> None:
        self.rate_bps = float(limits.start_bps)
        self.changed_s = 0.0
        self.loss_ratio = 0.0

    def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
        if not feedback.packets or now_s - self.changed_s < 0.2:
            return
        lost = sum(report.arrival_s is None for report in feedback.packets)
        self.rate_bps = self.rate_bps * 0.85 if lost else self.rate_bps + 50_000
        self.loss_ratio = lost / len(feedback.packets)
        self.changed_s = now_s

    def target(self) -> giusto.Target:
        return giusto.Target(self.rate_bps, pacing_bps=2 * self.rate_bps)

    def cause(self) -> dict[str, str | float]:
        return {"cause": "loss", "ratio": self.loss_ratio}


def run(media: str, controller: type[giusto.Controller] | str, **options: Any) -> giusto.RunRecord:
    return giusto.run(media, set={"call.controller": controller}, **options)


def test_a_controller_in_python_fills_the_link_and_backs_off(media: str) -> None:
    record = run(media, Aimd)
    assert record.flow("call").controller == "Aimd"
    utilisation = record.link("bottleneck").utilisation_ratio
    assert utilisation is not None
    assert 0.7 < utilisation <= 1.0
    decisions = record.decisions.to_pandas()
    assert set(decisions.cause) == {"start", "loss"}
    lower = decisions[decisions.to_bps < decisions.from_bps]
    assert (lower.ratio > 0).all() and len(lower) > 3
    assert (lower.to_bps / lower.from_bps).to_numpy() == pytest.approx(0.85, abs=1e-5)


def test_a_constant_rate_in_python_is_the_built_in_one(media: str) -> None:
    class Constant(giusto.Controller):
        feedback = "reports"

        def __init__(self, limits: giusto.Limits) -> None:
            self.rate_bps = limits.start_bps

        def target(self) -> float:
            return self.rate_bps

    def trace(controller: type[giusto.Controller] | str) -> pyarrow.Table:
        return run(media + 'start-rate = "1.5 Mbit/s"\n', controller, trace=True).trace

    own, built_in = trace(Constant), trace("fixed")
    assert own.equals(built_in)
    assert len(own) > 10_000


def test_each_method_is_called_with_its_arguments(media: str) -> None:
    calls: dict[str, list[Any]] = {}

    class Watch(giusto.Controller):
        name = "watch"
        feedback = "rfc8888"

        def __init__(self, limits: giusto.Limits) -> None:
            calls["limits"] = [(limits.min_bps, limits.start_bps, limits.max_bps)]
            self.next_s = 0.5
            self.probed = False

        def target(self) -> giusto.Target:
            return giusto.Target(1e6, pacing_bps=3e6, window_bytes=100_000)

        def on_sent(self, now_s: float, packet: giusto.SentPacket) -> None:
            assert packet.at_s <= now_s
            calls.setdefault("sent", []).append((packet.sequence, packet.size_bytes, packet.in_flight_bytes, packet.probe))

        def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
            calls.setdefault("feedback", []).extend(
                (report.sent.sequence, report.sent.at_s, report.arrival_s, report.ecn) for report in feedback.packets
            )

        def on_timeout(self, now_s: float, queue: giusto.QueueState) -> None:
            calls.setdefault("timeout", []).append((now_s, queue.size_bytes, queue.oldest_s))
            if now_s >= self.next_s:
                self.next_s = now_s + 0.5

        def next_timeout(self) -> float:
            return self.next_s

        def on_route_change(self, now_s: float) -> None:
            calls.setdefault("route", []).append(now_s)

        def next_probe(self) -> giusto.Probe | None:
            if self.probed or not calls.get("feedback"):
                return None
            self.probed = True
            return giusto.Probe(7, 1.8e6, packets=6)

    record = run(media + 'route-changes = ["3 s"]\n', Watch)
    assert record.flow("call").feedback == "rfc8888"
    assert calls["limits"] == [(30_000, 300_000, 5_000_000)]
    sequences = [sequence for sequence, *_ in calls["sent"]]
    assert sequences == sorted(set(sequences))
    # The flow also counts sender reports, one a second.
    assert 1000 < len(sequences) < record.flow("call").sent_packets <= len(sequences) + 25
    assert sum(probe == 7 for *_, probe in calls["sent"]) >= 6
    assert all(0 < size <= in_flight <= 150_000 for _, size, in_flight, _ in calls["sent"])
    reported = {sequence: arrival - at for sequence, at, arrival, _ in calls["feedback"] if arrival is not None}
    assert set(reported) <= set(sequences) and len(reported) > 0.98 * len(sequences) - 50
    # The receiver's clock has an offset; the delay varies by the queue alone, and by the steps of RFC 8888.
    assert max(reported.values()) - min(reported.values()) < 0.35
    assert calls["route"] == [3.0]
    times = [now for now, *_ in calls["timeout"]]
    assert len(times) >= 38 and max(b - a for a, b in zip(times, times[1:])) <= 0.51


def test_values_are_equal_by_their_fields_and_can_be_pickled(media: str) -> None:
    seen: dict[str, list[Any]] = {"limits": [], "feedback": [], "queue": [], "streams": []}

    class Noting(Aimd):
        def __init__(self, limits: giusto.Limits) -> None:
            super().__init__(limits)
            seen["limits"].append(limits)

        def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
            seen["feedback"].append(feedback)

        def on_streams(self, now_s: float, streams: Any) -> None:
            seen["streams"] += streams

        def on_timeout(self, now_s: float, queue: giusto.QueueState) -> None:
            seen["queue"].append(queue)

    for _ in range(2):
        run(media.replace('"20 s"', '"1 s"'), Noting)
    first, second = seen["feedback"][:2]
    values = [
        (giusto.Target(1e6), giusto.Target(1e6, window_bytes=3)),
        (giusto.Probe(1, 1e6), giusto.Probe(1, 1e6, packets=6)),
        (seen["limits"][0], giusto.Target(1e6)),
        (seen["streams"][0], seen["queue"][0]),
        (seen["queue"][0], None),
        (first, second),
        (first.packets[0], first.packets[1]),
        (first.packets[0].sent, first.packets[1].sent),
    ]
    for value, other in values:
        again = [pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)]
        assert all(own == value and type(own) is type(value) for own in again), value
        assert value != other and not value == other
        assert repr(again[0]) == repr(value) != repr(other)
        if value is not first:
            assert len({value, *again}) == 1
    # Those of two runs.
    assert seen["limits"][0] == seen["limits"][1] is not seen["limits"][0]
    assert repr(values[0][1]) == "Target(media_bps=1000000.0, pacing_bps=2500000.0, padding_bps=0.0, window_bytes=3)"
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(first)


def test_the_target_is_kept_within_the_limits(media: str) -> None:
    class Greedy(giusto.Controller):
        def target(self) -> float:
            return 1e12

    assert run(media, Greedy).flow("call").target_rate_bps == pytest.approx(5e6)


def test_an_exception_ends_the_run_with_its_traceback(media: str) -> None:
    class Broken(giusto.Controller):
        def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
            if now_s > 1:
                calls.append(now_s)
                raise ZeroDivisionError("a mistake of the user")

        def target(self) -> float:
            return 500_000

    calls: list[float] = []
    with pytest.raises(ZeroDivisionError, match="a mistake of the user") as caught:
        run(media.replace('"20 s"', '"3000 s"'), Broken)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "on_feedback" and frames[-1].filename == __file__
    assert len(calls) == 1
    with pytest.raises(ZeroDivisionError):
        giusto.sweep(media, {"call.controller": ["fixed", Broken]}, seeds=[1, 2])
    with pytest.raises(ZeroDivisionError):
        giusto.benchmark([Broken], scenarios=2)


def test_wrong_output_is_an_error_that_names_it(media: str) -> None:
    def controller(**members: Any) -> type[giusto.Controller]:
        return type("Wrong", (giusto.Controller,), {"target": lambda self: 1e6, **members})

    for members, error, text in [
        ({"target": lambda self: -1.0}, ValueError, r'"Wrong": target\(\) at 0 s: the rate must be a rate in bit/s of at least 0, found -1'),
        ({"target": lambda self: float("nan")}, ValueError, "must be a rate"),
        ({"target": lambda self: "fast"}, TypeError, "Target"),
        ({"next_timeout": lambda self: -2.0}, ValueError, "next_timeout.* must be a time in s"),
        ({"target": giusto.Controller.target}, NotImplementedError, "Wrong must define target"),
        ({"feedback": "morse"}, ValueError, 'controller "Wrong": feedback "morse" is unknown: use one of transport-wide'),
        ({"name": "scream:v2"}, ValueError, 'controller "scream:v2" has the name of a built-in one'),
        ({"burst_s": -1.0}, ValueError, 'controller "Wrong": burst_s must be a time'),
    ]:
        with pytest.raises(error, match=text):
            run(media, controller(**members))

    class Rising(giusto.Controller):
        def __init__(self, limits: giusto.Limits) -> None:
            self.rate_bps = 1e6

        def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
            self.rate_bps += 1000

        def target(self) -> float:
            return self.rate_bps

        def cause(self) -> str:
            return "boredom"

    with pytest.raises(ValueError, match="returned boredom: unknown variant `boredom`, expected one of"):
        run(media, Rising)
    with pytest.raises(TypeError, match="int is no controller: derive it from giusto.Controller"):
        run(media, int)  # type: ignore[arg-type]


@pytest.mark.parametrize("ahead_s", [-1.0, 0.0, 1e-9])
def test_a_timeout_that_does_not_come_later_is_an_error(media: str, ahead_s: float) -> None:
    class Stuck(giusto.Controller):
        def __init__(self, limits: giusto.Limits) -> None:
            self.next_s = 0.1

        def on_timeout(self, now_s: float, queue: giusto.QueueState) -> None:
            self.next_s = now_s + (0.1 if now_s < 2 else ahead_s)

        def next_timeout(self) -> float:
            return max(self.next_s, 0.0)

        def target(self) -> float:
            return 500_000

    with pytest.raises(ValueError, match=r'controller "Stuck": next_timeout\(\) at 2\.[01]\d* s: 100 times in a row'):
        run(media, Stuck)

    class Once(Stuck):
        def on_timeout(self, now_s: float, queue: giusto.QueueState) -> None:
            # Rounding may bring it a nanosecond too early.
            if now_s > self.next_s:
                self.next_s += 0.1

    assert run(media, Once).flow("call").sent_packets > 400


def test_probes_without_an_end_are_an_error(media: str) -> None:
    class Eager(giusto.Controller):
        def target(self) -> float:
            return 500_000

        def next_probe(self) -> giusto.Probe:
            return giusto.Probe(1, 1e6)

    with pytest.raises(ValueError, match=r'"Eager": next_probe\(\) at 0\S* s: 100 probes in a row: return each once, then None'):
        run(media, Eager)


@pytest.mark.parametrize(
    ("name", "member", "meant"),
    [
        ("on_feedbak", lambda self, now_s, feedback: None, "did you mean on_feedback"),
        ("on_ack", lambda self: None, "such as _on_ack"),
        ("taget", lambda self: 1e6, "did you mean target"),
        ("discard_after", 0.4, "did you mean discard_after_s"),
    ],
)
def test_a_member_that_nothing_would_use_is_refused(name: str, member: object, meant: str) -> None:
    with pytest.raises(TypeError, match=f'"Own": {name} is no member of giusto.Controller.*{meant}'):
        type("Own", (giusto.Controller,), {name: member})
    own = {"update": lambda self: None, "gain": 0.5, "pause": lambda self: None, f"_{name}": member}
    assert issubclass(type("Own", (giusto.Controller,), own), giusto.Controller)


def test_a_scenario_may_name_a_controller_in_its_text(media: str) -> None:
    text = media + 'controller = "Aimd"\n'
    named = giusto.run(giusto.Scenario.parse(text, controllers=[Aimd]))
    given = run(media, Aimd)
    assert {**named.to_dict(), "wall_s": 0} == {**given.to_dict(), "wall_s": 0}
    with pytest.raises(giusto.ScenarioError, match='unknown name "Aimd"'):
        giusto.run(text)
    flow = giusto.Flow("call", "media", controller=Aimd)
    built = giusto.Scenario(duration="2 s", link=giusto.Link("a", "b", "c", duplex=True, rate="1 Mbit/s"), flow=flow)
    assert giusto.run(built).flow("call").controller == "Aimd"


def test_reports_of_nada_and_of_the_scream_draft_arrive(media: str) -> None:
    seen: dict[str, list[giusto.Feedback]] = {"nada": [], "scream-draft": []}

    class Nada(giusto.Controller):
        feedback = "nada"

        def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
            seen[self.feedback].append(feedback)

        def target(self) -> float:
            return 1_500_000

    class Draft(Nada):
        feedback = "scream-draft"
        receiver_limit = True

    assert run(media, Nada).flow("call").feedback == "nada"
    reports = [feedback.nada for feedback in seen["nada"] if feedback.nada is not None]
    # One each 100 ms (RFC 8698, DELTA), on a path without a queue.
    assert 150 < len(reports) < 210
    rates = [report.received_bps for report in reports[20:]]
    assert 1_350_000 < sum(rates) / len(rates) < 1_650_000
    assert all(report.ramp_up and report.signal_ms < 20 for report in reports[20:])

    run(media, Draft)
    assert sum(len(feedback.packets) for feedback in seen["scream-draft"]) > 2000
    assert not any(feedback.nada or feedback.quench for feedback in seen["scream-draft"])
    seen["scream-draft"].clear()
    # The receiver asks for less than 1.5 Mbit/s.
    giusto.run(media, set={"call.controller": Draft, "call.receiver-limit": "1 Mbit/s"})
    assert sum(feedback.quench for feedback in seen["scream-draft"]) > 100


def test_a_controller_divides_the_target_among_the_streams(media: str) -> None:
    video = '{ model = "perfect", min = "100 kbit/s", max = "5 Mbit/s", frame-rate = 30 }'
    two = media.replace(f"video = {video}", f'video = [{video}, {{ id = "slides", priority = 3, {video[2:]}]')
    assert two != media
    asked: list[tuple[float, int, int, bool]] = []

    class Even(giusto.Controller):
        def __init__(self, limits: giusto.Limits) -> None:
            self.streams = 0

        def next_timeout(self) -> float:
            return 0.0 if not self.streams else 1e6

        def on_streams(self, now_s: float, streams: list[giusto.StreamState]) -> None:  # type: ignore[override]
            self.streams = len(streams)
            asked.extend((own.priority, own.min_bps, own.max_bps, own.paused) for own in streams)
            assert all(isinstance(own.queue, giusto.QueueState) for own in streams)

        def target(self) -> float:
            return 1_200_000

    class Uneven(Even):
        def stream_targets(self) -> list[float]:
            return [900_000, 300_000][: self.streams]

    def rates(controller: type[giusto.Controller]) -> list[float]:
        streams = run(two, controller).flow("call").streams
        return [stream.goodput_bps for stream in streams]

    by_priority, own = rates(Even), rates(Uneven)
    assert [(priority, paused) for priority, _, _, paused in asked[:2]] == [(1, False), (3, False)]
    assert all(100_000 <= low < high for _, low, high, _ in asked)
    # Payloads are about 0.95 of the target.
    assert by_priority[1] / by_priority[0] == pytest.approx(3, rel=0.15)
    assert own[0] / own[1] == pytest.approx(3, rel=0.15)


def test_a_controller_drops_frames(media: str) -> None:
    class Third(giusto.Controller):
        def target(self) -> float:
            return 1_000_000

        def frame_drop_interval(self) -> int | None:
            return 3

    record = run(media, Third)
    # Of 600 frames.
    assert 380 <= record.flow("call").streams[0].frames <= 410

    class Never(Third):
        def frame_drop_interval(self) -> int | None:
            return 0

    with pytest.raises(ValueError, match="at least 1, or None, found 0"):
        run(media, Never)


@pytest.mark.parametrize(
    ("method", "value", "text"),
    [
        ("target", "fast", r"target\(\) at 0 s: must return a rate in bit/s, or a giusto.Target, found 'fast'"),
        ("target", None, r"target\(\) .*found None"),
        ("target", True, r"target\(\) .*found True"),
        ("target", numpy.bool_(True), r"target\(\) .*found (np.)?True"),
        ("stream_targets", [True], r"stream_targets\(\) .*a list of rates in bit/s, found \[True\]"),
        ("next_timeout", "soon", r"next_timeout\(\) .*must return a time in s, or None, found 'soon'"),
        ("stream_targets", 5.0, r"stream_targets\(\) .*a list of rates in bit/s, found 5.0"),
        ("frame_drop_interval", "all", r"frame_drop_interval\(\) .*integer of at least 1, or None, found 'all'"),
        ("next_probe", 3, r"next_probe\(\) .*a giusto.Probe, or None, found 3"),
        ("cause", None, r'cause\(\) .*must return a string, or a mapping with "cause", found None'),
    ],
)
def test_a_value_of_the_wrong_type_is_named(method: str, value: object, text: str, media: str) -> None:
    members = {"target": lambda self: 1e6, method: lambda self: value}
    with pytest.raises(TypeError, match=r'controller "Slip": ' + text):
        giusto.run(media, set={"call.controller": type("Slip", (giusto.Controller,), members)})


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("name", 1, "a string that is not empty, or None"),
        ("name", "", "a string that is not empty, or None"),
        ("feedback", None, 'a string, such as "transport-wide"'),
        ("burst_s", "40 ms", "a time in s, or None"),
        ("discard_after_s", True, "a time in s, or None"),
        ("marks", 1, "True or False"),
        ("receiver_limit", None, "True or False"),
    ],
)
def test_attributes_of_another_type_are_named(attribute: str, value: object, expected: str) -> None:
    with pytest.raises(TypeError) as raised:
        type("Mine", (giusto.Controller,), {"target": lambda self: 1e6, attribute: value})
    assert str(raised.value) == f'controller "Mine": {attribute}: expected {expected}, found {value!r}'


def test_a_cause_is_any_mapping(media: str) -> None:
    class Lossy(giusto.Controller):
        given: Any = MappingProxyType({"cause": "loss", "ratio": 0.25})

        def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
            self.rate_bps = 1e6

        def target(self) -> float:
            return getattr(self, "rate_bps", 3e5)

        def cause(self) -> Any:
            return self.given

    decision = run(media, Lossy).decisions.to_pylist()[-1]
    assert (decision["cause"], decision["ratio"], decision["to_bps"]) == ("loss", 0.25, 1_000_000)
    with pytest.raises(ValueError, match=r'^controller "Bare": cause\(\) at 0 s: returned loss: missing field `ratio`$'):
        run(media, type("Bare", (Lossy,), {"given": "loss"}))


def test_a_method_may_be_set_on_the_object() -> None:
    class Set(giusto.Controller):
        def __init__(self, limits: giusto.Limits) -> None:
            self.rate_bps = limits.start_bps
            self.on_feedback = self.slow

        def slow(self, now_s: float, feedback: giusto.Feedback) -> None:
            self.rate_bps = 100e3

        def target(self) -> giusto.Target:
            return giusto.Target(self.rate_bps)

    record = giusto.run("media", set={"call.controller": Set})
    assert record.flow("call").target_rate_bps == pytest.approx(100e3, rel=0.05)


def test_a_probe_that_would_send_millions_of_packets_at_once_is_refused() -> None:
    class Fast(giusto.Controller):
        def target(self) -> float:
            return 1e6

        def next_probe(self) -> giusto.Probe:
            return giusto.Probe(1, 1e12)

    with pytest.raises(ValueError, match=r"next_probe\(\) .*a probe of 1 Tbit/s: ask for at most 100 Gbit/s"):
        giusto.run("media", set={"call.controller": Fast})
