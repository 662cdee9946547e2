"""Run a bandwidth estimator that was written for AlphaRTC as a controller of giusto.

    python alphartc_estimator.py BandwidthEstimator.py

AlphaRTC (https://github.com/OpenNetLab/AlphaRTC) imports a class ``Estimator`` from a file ``BandwidthEstimator.py``. Its receiver calls
``report_states(stats)`` for each packet that arrives and ``get_estimated_bandwidth()`` every 200 ms, and tells the sender the result. The
estimators of the bandwidth estimation challenge at ACM MMSys 2021 are written so, for example those of
https://github.com/OpenNetLab/gym and https://github.com/thegreatwb/HRCC.

Here the sender calls them, with the arrival times of transport-wide feedback. So an estimate is in effect half a round trip earlier than
in AlphaRTC, and the packets of a feedback message come together.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import Any, ClassVar, Protocol

import giusto

STEP_S = 0.2
"""Interval of ``get_estimated_bandwidth``, as in AlphaRTC's gym."""

RTP_HEADER_BYTES = 12
LOWER_HEADERS_BYTES = 28  # IPv4 and UDP
VIDEO = 126
"""Payload type of video. Estimators of the challenge of 2021 expect 126, some later ones 125; others do not look at it."""


class Estimator(Protocol):
    """The interface of AlphaRTC."""

    def report_states(self, stats: dict[str, int]) -> None:
        """Handle a packet that arrived: its times in ms, its RTP header, its sizes in bytes."""

    def get_estimated_bandwidth(self) -> float:
        """Return the estimate in bit/s."""


class AlphaRtc(giusto.Controller):
    """Runs an estimator; a subclass says how it is made."""

    payload_type: ClassVar[int] = VIDEO

    def __init__(self, limits: giusto.Limits) -> None:
        self.estimator = self.make()
        self.target_bps = float(limits.start_bps)
        self.next_s = STEP_S

    def make(self) -> Estimator:
        """Return a new estimator."""
        raise NotImplementedError

    def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
        """Report the packets that have arrived. Estimators see losses as gaps of the sequence numbers."""
        for report in feedback.packets:
            if report.arrival_s is not None:
                self.estimator.report_states(stats(report, self.payload_type))

    def on_timeout(self, now_s: float, queue: giusto.QueueState) -> None:
        """Ask for an estimate."""
        if now_s >= self.next_s:
            self.next_s += STEP_S
            self.target_bps = float(self.estimator.get_estimated_bandwidth())

    def next_timeout(self) -> float:
        """Return the time of the next estimate."""
        return self.next_s

    def target(self) -> float:
        """Return the last estimate."""
        return self.target_bps


def stats(report: giusto.PacketReport, payload_type: int) -> dict[str, int]:
    """Return a packet as AlphaRTC describes it."""
    assert report.arrival_s is not None
    return {
        "send_time_ms": round(report.sent.at_s * 1e3),
        "arrival_time_ms": round(report.arrival_s * 1e3),
        "payload_type": payload_type,
        "sequence_number": report.sent.sequence & 0xFFFF,
        "ssrc": 1,
        "padding_length": 0,
        "header_length": RTP_HEADER_BYTES,
        "payload_size": report.sent.size_bytes - LOWER_HEADERS_BYTES - RTP_HEADER_BYTES,
    }


def controller(path: Path, name: str = "Estimator", label: str = "alphartc") -> type[AlphaRtc]:
    """Return the controller for the class `name` of a file; it looks for its modules in the folder of the file."""
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file: name the file that has the class {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    made: Any = getattr(module, name)

    class Adapted(AlphaRtc):
        def make(self) -> Estimator:
            estimator: Estimator = made()
            return estimator

    Adapted.name = label
    return Adapted


def scenario(judged: str | type[giusto.Controller]) -> giusto.Scenario:
    """Return a call over a link whose rate falls and recovers."""
    rate = giusto.rate_steps([0, 20, 40], [2e6, 1e6, 2e6])
    link = giusto.Link("bottleneck", "camera", "viewer", rate=rate, delay_ms=40, reverse={"rate": "unlimited", "delay_ms": 40})
    video = {"model": "perfect", "min_kbps": 80, "max_kbps": 2500, "frame_rate": 30}
    rates = {"min_rate_kbps": 80, "start_rate_kbps": 300, "max_rate_kbps": 2500}
    return giusto.Scenario(duration_s=60, link=link, flow=giusto.Flow("call", "media", controller=judged, video=video, **rates))


def main() -> None:
    """Compare an estimator with libwebrtc's GCC."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="file with the class")
    parser.add_argument("--name", default="Estimator", help="name of the class (default Estimator)")
    parser.add_argument("--plot", type=Path, help="file for a figure")
    parser.add_argument("--payload-type", type=int, default=VIDEO, help=f"payload type of video (default {VIDEO})")
    given = parser.parse_args()
    judged = controller(given.file, given.name)
    judged.payload_type = given.payload_type
    runs = {
        given.name: giusto.run(scenario(judged)),
        "gcc:libwebrtc": giusto.run(scenario("gcc:libwebrtc")),
    }
    for name, record in runs.items():
        flow = record.flow("call")
        delay_ms = f"{flow.frame_delay_ms.p95:.0f}"
        print(f"{name}: {flow.received_rate_bps / 1e6:.2f} Mbit/s, frame delay {delay_ms} ms (p95), loss {flow.loss_ratio or 0:.1%}")
    if given.plot:
        giusto.plot.compare(runs, "call").savefig(given.plot)


if __name__ == "__main__":
    main()
