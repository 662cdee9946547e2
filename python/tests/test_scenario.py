"""Scenarios from Python are those of files."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy
import pytest
from conftest import command

import giusto


class Steady(giusto.Controller):
    def target(self) -> float:
        return 500_000.0


def results(scenario: giusto.Scenario | str) -> object:
    return {**giusto.run(scenario).to_dict(), "wall_s": 0}


def test_a_scenario_built_in_python_is_that_of_its_text(media: str, tmp_path: Path) -> None:
    built = giusto.Scenario(
        duration_s=20,
        link=giusto.Link(
            "bottleneck", "camera", "viewer", rate_mbps=2, delay_ms=25, reverse={"rate": "unlimited", "delay_ms": 25}
        ),
        flow=giusto.Flow(
            "call",
            "media",
            from_="camera",
            to="viewer",
            max_rate_bps=5e6,
            video={"model": "perfect", "min_kbps": 100, "max": "5 Mbit/s", "frame_rate": 30},
        ),
    )
    assert results(built) == results(media)
    # The command runs it too.
    path = tmp_path / "built.toml"
    path.write_text(built.toml)
    assert "call" in command("sim", path)
    # A copy needs no files, and has the settings and controllers of your own.
    (tmp_path / "trace.csv").write_text("time_s,rate_kbps\n0,900\n5,700\n")
    traced = giusto.Scenario.load(path).with_settings({"bottleneck.rate": {"trace": "trace.csv"}, "call.controller": Steady})
    expected, pickled = results(traced), pickle.dumps(traced)
    (tmp_path / "trace.csv").unlink()
    assert results(pickle.loads(pickled)) == expected != results(built)


def test_numbers_with_named_units_are_strings_with_units() -> None:
    link = giusto.Link(
        "a", "b", "c", rate_bps=2.5e6, delay_us=0.5, queue={"kind": "codel", "interval_ms": 1e-05, "max_packet_bytes": 300}
    )
    assert link == {
        "id": "a",
        "from": "b",
        "to": "c",
        "rate": "2500000 bit/s",
        "delay": "0.5 us",
        "queue": {"kind": "codel", "interval": "0.00001 ms", "max-packet": "300 B"},
    }
    flow = giusto.Flow("d", "media", route_changes_s=numpy.array([1, 2.5]), pauses_s=[[1, 2]], audio=None)
    assert flow["route-changes"] == ["1 s", "2.5 s"]
    assert flow["pauses"] == [["1 s", "2 s"]]
    assert "audio" not in flow
    with pytest.raises(TypeError, match="expected a number in ms, found 'slow'"):
        giusto.Link("a", "b", "c", delay_ms="slow")


def test_arrays_become_rate_traces_delays_and_losses() -> None:
    times = numpy.arange(4) * 2.5
    rates = numpy.array([1e6, 0.5e6, 0, 2e6])
    scenario = giusto.Scenario(
        duration="10 s",
        link=giusto.Link(
            "wire",
            "here",
            "there",
            rate=giusto.rate_steps(times, rates),
            delay=giusto.delay_steps([0, 5], numpy.array([20, 40.5])),
            loss=giusto.loss_packets(numpy.arange(100) % 10 == 3),
        ),
        flow=giusto.Flow("voice", "cbr", rate=giusto.rate_steps([0, 5], [64e3, 32e3], period_s=7), size_bytes=200),
    )
    record = giusto.run(scenario, trace=True)
    capacity = record.links_over_time.to_pandas().set_index("t_s").capacity_bps
    for time, rate in zip(times, rates):
        assert capacity[(capacity.index > time) & (capacity.index < time + 2.5)].unique().tolist() == [rate]
    # One packet in ten, of the first hundred.
    assert record.link("wire").lost_packets == 10
    dropped = record.trace.to_pandas().query("event == 'dropped' and reason == 'loss'")
    assert dropped.sequence.tolist() == list(range(3, 100, 10))
    # 40 packets a second at 64 kbit/s, 20 at 32 kbit/s: 5 s, 2 s, 3 s.
    assert record.flow("voice").sent_packets == pytest.approx(5 * 40 + 2 * 20 + 3 * 40, abs=2)
    assert giusto.loss_packets([3, 17]) == {"packets": [3, 17]}
    assert giusto.loss_packets([lost > 0.5 for lost in numpy.array([0.9, 0.1, 0.7])]) == {"packets": [0, 2]}
    assert giusto.loss_steps([0, 1], numpy.array([0, 0.5]))["steps"] == [["0 ns", 0.0], ["1000000000 ns", 0.5]]


def test_arrays_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="times_s has 2 elements and the values 3"):
        giusto.rate_steps([0, 1], [1, 2, 3])
    with pytest.raises(ValueError, match="rates_bps must have one dimension"):
        giusto.rate_steps([0, 1], numpy.ones((2, 2)))


def test_settings_change_values(media: str) -> None:
    scenario = giusto.Scenario.parse(media)
    changed = scenario.with_settings({"bottleneck.rate": "1 Mbit/s", "call.video.frame-rate": 15})
    assert results(changed) == results(media.replace("2 Mbit/s", "1 Mbit/s").replace("= 30", "= 15"))
    assert results(scenario) == results(media)
    assert giusto.run(media, set={"duration": "5 s"}).duration_s == 5.0


def test_errors_name_place_value_and_fix(media: str) -> None:
    with pytest.raises(giusto.ScenarioError) as caught:
        giusto.Scenario(
            duration="10 s",
            link={"id": "wire", "from": "here", "to": "there", "rat": "1 Mbit/s"},
            flow=giusto.Flow("voice", "cbr", rate="64 kbit", size="200 B"),
        )
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("scenario:") for line in lines)
    assert any('link "wire"' in line and "rat" in line and "rate" in line for line in lines)
    assert any('flow "voice"' in line and "64 kbit" in line for line in lines)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(TypeError, match="^rate is given twice, as '1 Mbit/s' and as '2 Mbit/s'"):
        giusto.Link("wire", "here", "there", rate="1 Mbit/s", rate_mbps=2)
    with pytest.raises(giusto.ScenarioError, match="missing.toml: cannot be read"):
        giusto.run("missing.toml")
    with pytest.raises(giusto.ScenarioError, match="city is no network of links"):
        giusto.run('[city]\nspeed = "3 km/h"\n')
    with pytest.raises(giusto.ScenarioError, match="--set link.wire.rate=1M: no link is called"):
        giusto.run(media, set={"link.wire.rate": "1M"})
    with pytest.raises(TypeError, match="^bottleneck.queue: expected a string, a number, a list or a table, found None"):
        giusto.run(media, set={"bottleneck.queue": None})  # type: ignore[dict-item]
    with pytest.raises(giusto.ScenarioError, match="bottleneck.queue={ \"kind\" = \"pies\" }"):
        giusto.run(media, set={"bottleneck.queue": {"kind": "pies"}})


def test_tables_and_lists_are_values(media: str) -> None:
    steps = giusto.rate_steps(numpy.array([0, 5.5]), numpy.array([2e6, 5e5]), period_s=8)
    text = '{ steps = [["0 s", "2 Mbit/s"], ["5.5 s", "500 kbit/s"]], period = "8 s" }'
    by_table = giusto.run(media, set={"bottleneck.rate": steps})
    assert by_table.flow("call") == giusto.run(media, set={"bottleneck.rate": text}).flow("call")
    assert by_table.flow("call") != giusto.run(media).flow("call")
    in_scenario = giusto.Scenario.parse(media.replace('rate = "2 Mbit/s"', f"rate = {text}"))
    assert giusto.run(in_scenario).flow("call") == by_table.flow("call")
    lost = giusto.run(media, set={"bottleneck.loss": giusto.loss_packets([3, 5])})
    assert lost.flow("call").lost_packets == 2
    pauses = giusto.run(media, set={"call.video.pauses": [("2 s", "15 s")]})
    assert pauses.flow("call").sent_packets < by_table.flow("call").sent_packets


def test_recorded_frame_sizes_are_played() -> None:
    sizes = numpy.array([30_000, 2_000, 1_000, 7_000])

    def frames(**keys: object) -> list[int]:
        flow = giusto.Flow(
            "call", "media", controller="fixed", start_rate="4 Mbit/s", max_rate="4 Mbit/s", video=giusto.frame_sizes(sizes, **keys)
        )
        link = giusto.Link("wire", "here", "there", rate="50 Mbit/s", delay_ms=5, duplex=True)
        scenario = giusto.Scenario(duration="4 s", link=link, flow=flow)
        trace = giusto.run(scenario, trace=True).trace.to_pandas()
        sent = trace[(trace.event == "sent") & (trace.flow == "call") & (trace.size_bytes > 200)]
        # A packet has 40 B of headers; the frames are 40 ms apart.
        payload = (sent.size_bytes - 40).groupby(sent.time_ns // 40_000_000).sum()
        return [int(size) for size in payload]

    played = frames(frame_rate=25, adapts=False)
    assert len(played) == 100
    assert played[:8] == pytest.approx([*sizes, *sizes], abs=1)
    # At most 1 Mbit/s at 25 Hz: a mean of 5 kB instead of 10 kB.
    scaled = frames(frame_rate=25, min_kbps=100, max_mbps=1)
    assert scaled[20:28] == pytest.approx([*(sizes / 2), *(sizes / 2)], abs=1)
    assert giusto.frame_sizes([9000.0, numpy.int64(10)])["sizes"] == [9000, 10]
    for wrong in (1000.5, float("nan"), float("inf"), "1000", None):
        with pytest.raises(ValueError, match=r"sizes_bytes\[1\]: must be an integer, found"):
            giusto.frame_sizes([1000, wrong])
    with pytest.raises(giusto.ScenarioError, match="10 to 1000000, found 5"):
        sizes[0] = 5
        frames()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: giusto.rate_steps([0, 1], [1e6, -1]), r"rates_bps\[1\] must be at least 0, found -1"),
        (lambda: giusto.rate_steps([0, 1], [math.nan, 1]), r"rates_bps\[0\] .*found nan"),
        (lambda: giusto.rate_steps([0, 2, 1], [1e6] * 3), r"times_s must ascend: times_s\[2\] is 1, after 2"),
        (lambda: giusto.rate_steps([1, 2], [1e6] * 2), r"times_s\[0\] must be 0, found 1"),
        (lambda: giusto.rate_steps([0, 2], [1e6] * 2, period_s=2), "period_s must be a time in s after .* 2, found 2"),
        (lambda: giusto.rate_steps([], []), "times_s is empty"),
        (lambda: giusto.loss_steps([0], [1.5]), r"ratios\[0\] must be from 0 to 1, found 1.5"),
        (lambda: giusto.loss_steps([0], [math.inf]), r"ratios\[0\] .*found inf"),
        (lambda: giusto.delay_steps([0], [-3]), r"delays_ms\[0\] must be at least 0, found -3"),
        (lambda: giusto.rate_steps([0], ["fast"]), r"rates_bps\[0\]: must be a number, found 'fast'"),
        (lambda: giusto.Link("wire", "a", "b", rat="1 Mbit/s"), r"Link\('wire'\) has no key rat: did you mean rate"),
        (lambda: giusto.Flow("call", "media", controler="nada"), "no key controler: did you mean controller"),
        # As Python writes them.
        (lambda: giusto.Flow("call", "media", qqq=1), r"no key qqq: use one of audio, authors_laws, [a-z0-9_, ]+, video$"),
        (lambda: giusto.Expect("queue-delay-p95", flw="call"), "no key flw: did you mean flow"),
        (lambda: giusto.Change("1 s", "wire", rates="1 Mbit/s"), "no key rates: did you mean rate"),
        (lambda: giusto.listen("127.0.0.1", 65536), "port must be from 0 to 65535, found 65536"),
        (lambda: giusto.listen("127.0.0.1", 0, max_rate="0"), "max_rate must be above 0 bit/s"),
        (lambda: giusto.call("127.0.0.1", 0), "port must be from 1 to 65535, found 0"),
        (lambda: giusto.call("127.0.0.1:5006"), "host must have no port, found '127.0.0.1:5006': give it as port"),
        (lambda: giusto.listen("localhost:70000"), "host must have no port, found 'localhost:70000'"),
    ],
)
def test_slips_are_named_at_once(make: Callable[[], object], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        make()
    # What is right beside it is accepted.
    giusto.rate_steps([0, 1], [1e6, 0], period_s=1.5)
    giusto.loss_steps([0, 1], [0, 1])
    giusto.Link("wire", "a", "b", rate_mbps=1, delay_ms=1, queue={"kind": "codel"}, loss=giusto.loss_steps([0], [1]))


def test_numbers_that_no_file_can_hold_are_named() -> None:
    nan = float("nan")
    for key, value in (
        ("loss", nan),
        ("loss", numpy.float32("nan")),
        ("rate_bps", float("inf")),
        ("rate_bps", numpy.float64("inf")),
        ("queue", {"kind": "codel", "target_ms": nan}),
        ("loss", {"steps": [["0 s", nan]]}),
    ):
        with pytest.raises(ValueError, match=r"^(loss|rate_bps|target_ms|steps): expected a finite number, found (nan|inf)$"):
            giusto.Link("wire", "here", "there", **{key: value})


def test_values_that_no_file_can_hold_are_named() -> None:
    for key, value, found in (
        ("rate", Decimal("2.5"), r"Decimal\('2.5'\)"),
        ("rate", b"5 Mbit/s", "b'5 Mbit/s'"),
        ("loss", {0.1}, r"\{0.1\}"),
        ("queue", {"kind": "codel", "target": Fraction(1, 3)}, r"Fraction\(1, 3\)"),
        ("loss", [None], "None"),
    ):
        with pytest.raises(TypeError, match=f"^(rate|loss|target): expected a string, a number, a list or a table, found {found}$"):
            giusto.Link("wire", "here", "there", **{key: value})
    with pytest.raises(TypeError, match="^link: expected a string, a number, a list or a table, found <generator"):
        giusto.Scenario(duration="1 s", link=(giusto.Link(name, "a", "b") for name in ("one", "two")))
    with pytest.raises(TypeError, match="^rate_mbps: expected a number in Mbit/s, found True$"):
        giusto.Link("wire", "here", "there", rate_mbps=numpy.bool_(True))


@pytest.mark.parametrize("seed", [2**63, 2**64 - 1, numpy.uint64(2**64 - 1)])
def test_a_scenario_has_every_seed_that_a_run_has(seed: int) -> None:
    link = giusto.Link("wire", "here", "there", rate="1 Mbit/s")
    flow = giusto.Flow("voice", "cbr", rate="64 kbit/s", size="200 B")
    assert giusto.run(giusto.Scenario(duration="1 s", seed=seed, link=link, flow=flow)).seed == seed
    with pytest.raises(giusto.ScenarioError, match=f'link "wire": loss: expected a number .*found "{seed}"'):
        giusto.Scenario(duration="1 s", link=giusto.Link("wire", "here", "there", loss=seed), flow=flow)


def test_a_trace_may_be_a_path(tmp_path: Path) -> None:
    trace = tmp_path / "train.csv"
    assert giusto.Link("wire", "here", "there", rate={"trace": trace})["rate"] == {"trace": str(trace)}
