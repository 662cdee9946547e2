"""Calls over UDP, on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import giusto

LOOPBACK = "127.0.0.1"


class Aimd(giusto.Controller):
    """Additive increase up to a ceiling, multiplicative decrease."""

    made: list[Aimd] = []

    def __init__(self, limits: giusto.Limits) -> None:
        self.limits = limits
        self.rate_bps = float(limits.start_bps)
        self.feedback_s: list[float] = []
        self.arrived = self.sent = 0
        type(self).made.append(self)

    def on_sent(self, now_s: float, packet: giusto.SentPacket) -> None:
        self.sent += 1

    def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
        self.feedback_s.append(now_s)
        self.arrived += sum(report.arrival_s is not None for report in feedback.packets)
        lost = any(report.arrival_s is None for report in feedback.packets)
        self.rate_bps = self.rate_bps * 0.85 if lost else min(self.rate_bps + 20_000, 800_000)

    def target(self) -> float:
        return self.rate_bps

    def cause(self) -> str:
        return "silence"


@pytest.fixture(autouse=True)
def fresh() -> None:
    Aimd.made = []


def serving(listener: giusto.Listener) -> Future[giusto.CallRecord]:
    """Serve one call on a thread that does not outlive the tests."""
    future: Future[giusto.CallRecord] = Future()

    def serve() -> None:
        try:
            future.set_result(listener.serve())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=serve, daemon=True).start()
    return future


def both_ends(listening: dict[str, Any] | None = None, **options: Any) -> tuple[giusto.CallRecord, giusto.CallRecord]:
    """Make a call between two threads; return the records of the caller and of the listener."""
    listener = giusto.listen(LOOPBACK, 0, **(listening or {}))
    served = serving(listener)
    called = giusto.call(listener.host, listener.port, **options)
    return called, served.result(timeout=30)


def test_a_controller_in_python_makes_a_call() -> None:
    called, served = both_ends(controller=Aimd, duration="4 s", encoder="perfect")
    (own,) = Aimd.made
    assert (own.limits.min_bps, own.limits.start_bps, own.limits.max_bps) == (30_000, 300_000, 2_500_000)
    assert own.feedback_s == sorted(own.feedback_s)
    assert 10 < len(own.feedback_s) < 400 and 0.0 < own.feedback_s[0] < own.feedback_s[-1] < 6.0
    for record in (called, served):
        flow = record.flow("call")
        assert flow.controller == "Aimd" and flow.feedback == "transport-wide"
        assert record.call.error is None
        assert record.duration_s == pytest.approx(4.0, abs=0.5)
        assert 200_000 < flow.received_rate_bps < 900_000
        assert 200_000 < flow.sent_rate_bps < 900_000
        assert flow.frames is not None and 60 < flow.frames <= 121
    flow = called.flow("call")
    # Sender reports are packets of the flow too.
    assert own.arrived <= own.sent <= flow.sent_packets <= own.sent + 10
    assert flow.target_rate_bps is not None and 300_000 < flow.target_rate_bps <= 800_000
    assert set(called.decisions.column("cause").to_pylist()) == {"start", "silence"}
    assert (called.call.role, served.call.role) == ("caller", "listener")
    assert called.call.far_end.startswith(LOOPBACK)
    assert 0 < called.call.round_trip_ms.p50 < 1000
    assert called.flows_over_time.num_rows > 100


def test_the_listener_sends_by_a_controller_in_python() -> None:
    called, served = both_ends(
        {"controllers": [Aimd], "max_rate": "600 kbit/s"}, controller=Aimd, duration="3 s", direction="reverse"
    )
    (own,) = Aimd.made
    assert own.limits.max_bps == 600_000 and len(own.feedback_s) > 5
    flow = called.flow("call:reverse")
    assert flow.controller == "Aimd" and 150_000 < flow.received_rate_bps < 900_000
    decisions = served.flow("call:reverse").decisions
    assert flow.decisions is None and decisions is not None and 5 < decisions < 400


def test_a_listener_refuses_to_send_by_a_controller_that_it_does_not_know() -> None:
    listener = giusto.listen(LOOPBACK, 0)
    serving(listener)
    with pytest.raises(ConnectionError, match='unknown controller "Aimd"'):
        giusto.call(listener.host, listener.port, controller=Aimd, direction="reverse")
    assert Aimd.made == []


def test_a_listener_serves_one_call_after_the_other() -> None:
    listener = giusto.listen(LOOPBACK, 0)
    for number in range(2):
        served = serving(listener)
        called = giusto.call(LOOPBACK, listener.port, duration=f"{number + 1} s", controller="fixed")
        assert called.duration_s == pytest.approx(number + 1, abs=0.4)
        assert served.result(timeout=30).flow("call").controller == "fixed"


def test_the_command_is_the_far_end(tmp_path: Path) -> None:
    listening = subprocess.Popen(
        [sys.executable, "-m", "giusto", "call", "--listen", f"{LOOPBACK}:0", "--once", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert listening.stderr is not None
    port = int(listening.stderr.readline().split(":", 1)[1].split(maxsplit=1)[0])
    called = giusto.call(LOOPBACK, port, controller=Aimd, duration="2 s")
    out, _ = listening.communicate(timeout=30)
    served = json.loads(out)
    assert served["flows"][0]["controller"] == "Aimd"
    assert served["flows"][0]["frames"] == called.flow("call").frames
    assert set(served) == set(called.to_dict())
    assert set(served["call"]) | {"doubts"} == set(called.to_dict()["call"]) | {"doubts"}
    called.write(tmp_path)
    written = json.loads((tmp_path / "result.json").read_text())
    assert written["call"] == called.to_dict()["call"] and written["flows"] == called.to_dict()["flows"]
    assert "giusto call: caller" in (tmp_path / "report.html").read_text()
    assert "Aimd" in str(called) and "utilisation" not in str(called)


def test_charts_of_a_call_draw_what_its_end_knows() -> None:
    listener = giusto.listen(LOOPBACK, 0)
    served = serving(listener)
    called = giusto.call(listener.host, listener.port, controller=Aimd, duration="2 s")
    listened = served.result(timeout=30)
    # The caller does not know what arrives when: a flat line would be a rate of 0.
    assert "<polyline" not in called._repr_html_() and listened._repr_html_().count("<polyline") == 1
    rates, delays = giusto.plot.compare({"sent": called, "received": listened}, "call").axes
    for line in rates.get_lines():
        mean_bps = float(line.get_ydata().mean()) * 1e6
        assert mean_bps == pytest.approx(called.flow("call").sent_rate_bps, rel=0.3), line.get_label()
    sent, received = (line.get_ydata() for line in delays.get_lines())
    assert (sent != sent).all() and (received == received).any()
    assert delays.get_ylabel() == "frame delay (ms)"
    mixed = giusto.plot.compare({"simulated": giusto.run("media"), "received": listened}, "call")
    assert mixed.axes[1].get_ylabel() == "queueing or frame delay (ms)"


def test_an_exception_ends_the_call_with_its_traceback() -> None:
    class Broken(Aimd):
        def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
            if now_s > 1.0:
                raise ArithmeticError("no rate")

    began = time.monotonic()
    listener = giusto.listen(LOOPBACK, 0)
    served = serving(listener)
    with pytest.raises(ArithmeticError, match="no rate") as raised:
        giusto.call(listener.host, listener.port, controller=Broken, duration="60 s")
    assert "on_feedback" in "".join(traceback.format_tb(raised.value.__traceback__))
    record = served.result(timeout=30)
    # The far end was told.
    assert record.call.error is None and 0.8 < record.duration_s < 20
    assert time.monotonic() - began < 30


def test_an_exception_of_the_constructor_ends_the_call() -> None:
    class Unmade(giusto.Controller):
        def __init__(self, limits: giusto.Limits) -> None:
            raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        both_ends(controller=Unmade, duration="60 s")


INTERRUPTED = """
import giusto, sys
try:
    giusto.call("127.0.0.1", int(sys.argv[1]), duration="60 s")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_the_call_in_good_order() -> None:
    listener = giusto.listen(LOOPBACK, 0)
    served = serving(listener)
    caller = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(listener.port)], stdout=subprocess.PIPE, text=True)
    time.sleep(3)
    os.kill(caller.pid, signal.SIGINT)
    out, _ = caller.communicate(timeout=30)
    assert (out, caller.returncode) == ("interrupted\n", 0)
    record = served.result(timeout=30)
    assert record.call.error is None and 0 < record.duration_s < 30


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"controller": "vegas"}, "controller: .*vegas"),
        ({"duration": "10"}, "duration: .*10"),
        ({"max_rate": "fast"}, "max_rate: .*fast"),
        ({"min_rate": "3 Mbit/s"}, "rate"),
        ({"encoder": "av2"}, 'encoder: unknown encoder "av2"'),
        ({"repair": "glue"}, 'repair: unknown repair "glue"'),
        ({"direction": "up"}, 'direction: unknown direction "up"'),
        ({"video": 0}, "."),
    ],
)
def test_wrong_arguments_are_errors(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        giusto.call(LOOPBACK, 9, **options)


def test_addresses_that_cannot_be_used_are_errors() -> None:
    with pytest.raises(OSError, match="unknown host"):
        giusto.call("no.such.host.invalid")
    listener = giusto.listen(LOOPBACK, 0)
    with pytest.raises(OSError, match=str(listener.port)):
        giusto.listen(LOOPBACK, listener.port)
