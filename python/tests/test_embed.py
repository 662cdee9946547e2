"""The controllers for senders in Python."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import giusto

SSRC = 0x1234_5678
LIMITS = {"min_bps": 100e3, "start_bps": 300e3, "max_bps": 2e6}
# Transport-wide feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1): packets 10 to 19 arrived, but for packet 14.
TWCC = bytes.fromhex("8fcd0007 00000001 00000002 000a000a 00000100 bdf06414 14142814 14141400")


def congestion_feedback(first: int, offsets: list[int | None], report_s: float) -> bytes:
    """Return a message of RFC 8888 §3.1: for each packet from `first` on how long before the report it arrived, in 1/1024 s."""
    metrics = [0 if offset is None else 0x8000 | offset for offset in offsets]
    blocks = struct.pack(f"!IHH{len(metrics)}H", SSRC, first, len(metrics), *metrics)
    blocks += b"\0" * (-len(blocks) % 4) + struct.pack("!I", round(report_s * 65536))
    return struct.pack("!BBHI", 0x80 | 11, 205, (4 + 4 + len(blocks)) // 4 - 1, 1) + blocks


def test_feedback_on_arrivals_reaches_the_controller() -> None:
    control = giusto.RateControl("gcc:libwebrtc", **LIMITS)
    assert control.name == "gcc:libwebrtc"
    assert control.accepted_feedback == ["transport-wide", "rfc8888", "remb", "reports"]
    assert (control.target.media_bps, control.target.pacing_bps) == (300e3, 750e3)
    assert control.next_timeout() == 0
    control.on_timeout(0.0)
    # Probes at three and six times the start rate (ProbeController of libwebrtc).
    probes = []
    while (probe := control.next_probe()) is not None:
        probes.append(probe.rate_bps)
    assert probes == [900e3, 1800e3]
    for number in range(20):
        sent = control.on_sent(0.005 * number, 1200, transport_sequence=number)
        assert (sent.sequence, sent.size_bytes, sent.in_flight_bytes) == (number, 1200, 1200 * (number + 1))
    feedback = control.on_rtcp(0.13, TWCC)
    assert feedback is not None
    arrivals = [report.arrival_s for report in feedback.packets]
    assert len(arrivals) == 10 and [place for place, arrival in enumerate(arrivals) if arrival is None] == [4]
    gaps = [round((later - earlier) * 1e3, 6) for earlier, later in zip(arrivals[5:], arrivals[6:])]
    assert gaps == [5.0] * 4
    # Those before packet 10 are passed over, so nothing is in flight.
    assert control.in_flight_bytes == feedback.in_flight_bytes == 0
    # A message again is no news.
    assert control.on_rtcp(0.14, TWCC) is None
    assert control.decision["to_bps"] == control.target.media_bps


@pytest.mark.parametrize("name", ["gcc:libwebrtc", "scream:v2", "nada"])
def test_controllers_follow_a_bottleneck(name: str) -> None:
    """A sender of 1 ms steps in front of a queue of 1 Mbit/s, with feedback of RFC 8888 every 50 ms after 20 ms."""
    control = giusto.RateControl(name, **LIMITS)
    assert "rfc8888" in control.accepted_feedback
    free_at, budget, number, reported = 0.0, 0.0, 0, 0
    arrivals: list[float] = []
    delays: list[float] = []
    targets: list[float] = []
    for step in range(30_000):
        now_s = step / 1e3
        due_s = control.next_timeout()
        while due_s is not None and due_s <= now_s:
            control.on_timeout(now_s)
            later_s = control.next_timeout()
            if later_s == due_s:
                break
            due_s = later_s
        budget = min(budget + control.target.media_bps / 8e3, 2400)
        window = control.target.window_bytes
        while budget >= 1200 and (window is None or control.in_flight_bytes < window):
            budget -= 1200
            control.on_sent(now_s, 1200, ssrc=SSRC, sequence=number & 0xFFFF)
            free_at = max(free_at, now_s) + 1200 * 8 / 1e6
            arrivals.append(free_at + 0.02)
            delays.append(arrivals[-1] - now_s)
            number += 1
        if step % 50 == 0 and reported < number:
            came = [arrival for arrival in arrivals[reported:] if arrival <= now_s - 0.02]
            if came:
                offsets: list[int | None] = [int((now_s - 0.02 - arrival) * 1024) for arrival in came]
                control.on_rtcp(now_s, congestion_feedback(reported & 0xFFFF, offsets, now_s - 0.02))
                reported += len(came)
        targets.append(control.target.media_bps)
    late = targets[15_000:]
    assert 0.6e6 < sum(late) / len(late) < 1.05e6
    # An empty queue at first, less than half a second of it in the end.
    assert min(delays) == pytest.approx(0.0296) and max(delays[-500:]) < 0.5


def test_limits_and_routes_can_change() -> None:
    assert "scream-draft" in giusto.RateControl("scream:d00", **LIMITS).accepted_feedback
    control = giusto.RateControl("gcc:libwebrtc", **LIMITS)
    control.on_timeout(0.0)
    control.set_limits(1.0, max_bps=200e3)
    assert control.target.media_bps == 200e3
    control.set_limits(2.0, max_bps=2e6, start_bps=800e3)
    control.on_sent(2.0, 1200, transport_sequence=1)
    control.on_route_change(3.0)
    assert control.target.media_bps == 800e3 and control.in_flight_bytes == 0
    assert control.decision["cause"] == "route-change" and control.decision["at_s"] == 3.0


def test_reports_of_aiortc_are_understood() -> None:
    rtp = pytest.importorskip("aiortc.rtp")
    ntp = 0xE000_0000 << 32
    control = giusto.RateControl("gcc:remb", **LIMITS, ntp_at_zero=ntp)
    control.on_timeout(0.0)
    for number in range(100):
        control.on_sent(number / 100, 1000, ssrc=SSRC, sequence=number)
    remb = rtp.RtcpPsfbPacket(fmt=rtp.RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=rtp.pack_remb_fci(700_000, [SSRC]))
    # Received 0.25 s before by the receiver, which had the sender report of 0.6 s.
    block = rtp.RtcpReceiverInfo(
        ssrc=SSRC,
        fraction_lost=64,
        packets_lost=20,
        highest_sequence=79,
        jitter=0,
        lsr=(ntp >> 16 & 0xFFFFFFFF) + round(0.6 * 65536),
        dlsr=round(0.3 * 65536),
    )
    feedback = control.on_rtcp(1.0, bytes(rtp.RtcpRrPacket(ssrc=1, reports=[block])) + bytes(remb))
    assert feedback is not None
    assert feedback.receiver_estimate_bps == pytest.approx(700_000, rel=1e-5)
    assert feedback.loss_ratio == pytest.approx(0.25)
    assert feedback.round_trip_s == pytest.approx(0.1, abs=1e-3)
    # REMB of another stream is not ours.
    other = rtp.RtcpPsfbPacket(fmt=rtp.RTCP_PSFB_APP, ssrc=1, media_ssrc=0, fci=rtp.pack_remb_fci(900_000, [SSRC + 1]))
    assert control.on_rtcp(1.1, bytes(other)) is None


@pytest.mark.parametrize("kind", [bytearray, memoryview, lambda message: numpy.frombuffer(message, numpy.uint8)])
def test_a_datagram_is_anything_with_bytes(kind: Callable[[bytes], bytes]) -> None:
    control = giusto.RateControl("gcc:libwebrtc", **LIMITS)
    for number in range(20):
        control.on_sent(0.005 * number, 1200, transport_sequence=number)
    feedback = control.on_rtcp(0.13, kind(TWCC))
    assert feedback is not None and len(feedback.packets) == 10
    # A part of a buffer, as a socket fills it.
    assert control.on_rtcp(0.14, memoryview(bytearray(b"\0" + TWCC + b"\0"))[1:-1]) is None


def test_a_garbage_collection_does_not_lock_threads_out() -> None:
    # One that lets another thread run, as the end of a socket does.
    program = (
        "import gc, threading, time, giusto\n"
        f"control = giusto.RateControl('nada', **{LIMITS})\n"
        "for number in range(20):\n"
        "    control.on_sent(0.005 * number, 1200, transport_sequence=number)\n"
        "reading = threading.Event()\n"
        "def read():\n"
        "    while not reading.is_set():\n"
        "        control.target\n"
        "reader = threading.Thread(target=read)\n"
        "reader.start()\n"
        "gc.callbacks.append(lambda phase, info: time.sleep(0.05))\n"
        "gc.set_threshold(1)\n"
        f"print(len(control.on_rtcp(0.13, {TWCC!r}).packets))\n"
        "reading.set()\n"
        "reader.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr


@pytest.mark.parametrize("wrong", [True, numpy.bool_(True)])
def test_a_boolean_is_no_number(wrong: Any) -> None:
    control = giusto.RateControl("nada", **LIMITS)
    for call in (
        lambda: giusto.RateControl("nada", **{**LIMITS, "min_bps": wrong}),
        lambda: control.set_limits(1.0, max_bps=wrong),
        lambda: control.on_timeout(wrong),
        lambda: control.on_sent(wrong, 1200),
        lambda: giusto.Target(wrong),
        lambda: giusto.Target(1e6, pacing_bps=wrong),
        lambda: giusto.Probe(1, wrong),
    ):
        with pytest.raises(TypeError, match="must be a number, not (np.)?True"):
            call()
    assert giusto.Target(numpy.float32(1e6), padding_bps=numpy.int64(5)).padding_bps == 5


def test_wrong_input_is_refused_with_the_fix() -> None:
    with pytest.raises(ValueError, match='unknown controller "gcc": expected one of fixed, gcc:libwebrtc'):
        giusto.RateControl("gcc", **LIMITS)
    with pytest.raises(ValueError, match="start_bps above max_bps: found 1, 3000000 and 2000000"):
        giusto.RateControl("nada", min_bps=1, start_bps=3e6, max_bps=2e6)
    control = giusto.RateControl("nada", **LIMITS)
    with pytest.raises(ValueError, match="min_bps must not be above max_bps: found 3000000 and 2000000"):
        control.set_limits(1.0, min_bps=3e6)
    with pytest.raises(ValueError, match="does not fit"):
        control.on_rtcp(1.0, b"\x80\xc8\0\6")
    with pytest.raises(ValueError, match="give both or neither"):
        control.on_sent(1.0, 100, ssrc=1)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="now_s must be a time in s of at least 0"):
            control.on_timeout(wrong)
    with pytest.raises(TypeError, match="a bytes-like object is required, not 'str'"):
        control.on_rtcp(1.0, "message")  # type: ignore[arg-type]
    # Time that runs backwards is taken as the latest.
    control.on_sent(5.0, 100, ssrc=1, sequence=1)
    assert control.on_sent(4.0, 100, ssrc=1, sequence=2).at_s == 5.0
