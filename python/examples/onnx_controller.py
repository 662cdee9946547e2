"""Run a bandwidth estimator in ONNX, with the observations of the bandwidth estimation challenge at ACM MMSys 2024.

    pip install onnxruntime
    python onnx_controller.py Offline_RL_baseline_bandwidth_estimator_model.onnx

The baseline of the challenge is in https://github.com/microsoft/RL4BandwidthEstimationChallenge, folder onnx_models (150 kB; code under
the MIT licence, other content under CC BY 4.0). Models of its participants have the same inputs and outputs.

A model gets 15 features over 10 intervals, the latest 5 of 60 ms and the latest 5 of 600 ms, the most recent first, each 60 ms, and
returns the bandwidth in bit/s. Feature ``f`` of short interval ``i`` is element ``10 f + i`` and that of long interval ``i`` is
``10 f + 5 + i``, from 0 (https://www.microsoft.com/en-us/research/academic-program/bandwidth-estimation-challenge/data/). The
means by which the baseline normalises its input agree with this order and these units.

The challenge's estimators run in the receiver of Teams calls with audio and video. Here the sender runs them on transport-wide
feedback, which does not say what a packet contains: packets below 250 B count as audio.
"""

from __future__ import annotations

import argparse
import statistics
from collections import deque
from pathlib import Path
from typing import Any, ClassVar

import numpy

import giusto

STEP_S = 0.06
LONG = 10
"""Short intervals in a long one."""

COUNT = 5
"""Intervals of each length."""

AUDIO_BYTES = 250
"""Larger packets are video."""

BASE_DELAY_MS = 200.0
"""Fixed delay that feature 5 subtracts."""

FEATURES = (
    "receiving rate (bit/s)",
    "received packets",
    "received bytes",
    "queueing delay (ms): mean delay less the lowest delay so far",
    "delay (ms): mean delay less 200 ms",
    "lowest delay so far (ms)",
    "mean delay over lowest delay",
    "mean delay less lowest delay (ms), within the interval",
    "mean inter-arrival time (ms)",
    "jitter (ms): deviation of the inter-arrival times",
    "share of lost packets",
    "mean number of packets in a gap of lost packets",
    "share of video packets",
    "share of audio packets",
    "share of probing packets",
)

Packet = tuple[float, float, int, int, bool]
"""Arrival and delay in ms, size in bytes, number, whether of a probe."""


class Onnx(giusto.Controller):
    """Runs a model; a subclass names its file."""

    model: ClassVar[str]

    def __init__(self, limits: giusto.Limits) -> None:
        import onnxruntime  # type: ignore[import-untyped]

        options = onnxruntime.SessionOptions()
        # One thread gives the same result in each run, and a model this small gains nothing from more.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])
        # Hidden state and cell state, which a model without memory passes on.
        shapes = [[size if isinstance(size, int) else 1 for size in own.shape] for own in self.session.get_inputs()[1:]]
        self.states = [numpy.zeros(shape, dtype=numpy.float32) for shape in shapes]
        self.intervals: deque[list[Packet]] = deque([[] for _ in range(LONG * COUNT)], maxlen=LONG * COUNT)
        self.new: list[Packet] = []
        self.lowest_ms = float("inf")
        self.target_bps = float(limits.start_bps)
        self.next_s = STEP_S

    def on_feedback(self, now_s: float, feedback: giusto.Feedback) -> None:
        """Note the packets that have arrived."""
        for report in feedback.packets:
            if report.arrival_s is not None:
                delay_ms = (report.arrival_s - report.sent.at_s) * 1e3
                self.lowest_ms = min(self.lowest_ms, delay_ms)
                is_probe = report.sent.probe is not None
                self.new.append((report.arrival_s * 1e3, delay_ms, report.sent.size_bytes, report.sent.sequence, is_probe))

    def on_timeout(self, now_s: float, queue: giusto.QueueState) -> None:
        """Close an interval, and ask the model."""
        if now_s < self.next_s:
            return
        # A process that was stopped has missed some.
        self.next_s = max(self.next_s + STEP_S, now_s)
        self.intervals.appendleft(self.new)
        self.new = []
        if self.lowest_ms < float("inf"):
            names = [own.name for own in self.session.get_inputs()]
            output, *self.states = self.session.run(None, dict(zip(names, [self.observation(), *self.states])))
            self.target_bps = max(float(output.flat[0]), 0.0)

    def observation(self) -> Any:
        """Return the observation, shape (1, 1, 150)."""
        intervals = list(self.intervals)
        short = [(own, 1) for own in intervals[:COUNT]]
        long = [(sum(intervals[place * LONG : (place + 1) * LONG][::-1], []), LONG) for place in range(COUNT)]
        rows = [self.features(packets, steps * STEP_S) for packets, steps in short + long]
        return numpy.array(rows, dtype=numpy.float32).T.reshape(1, 1, -1)

    def features(self, packets: list[Packet], duration_s: float) -> list[float]:
        """Return the features of an interval, in the order of `FEATURES`."""
        if not packets:
            return [0.0] * 5 + [self.lowest_ms] + [0.0] * 9
        arrivals, delays, sizes, numbers, probes = zip(*packets)
        mean_ms = statistics.fmean(delays)
        between = [later - earlier for earlier, later in zip(arrivals, arrivals[1:])]
        ordered = sorted(numbers)
        gaps = [later - earlier - 1 for earlier, later in zip(ordered, ordered[1:]) if later - earlier > 1]
        return [
            sum(sizes) * 8 / duration_s,
            len(packets),
            sum(sizes),
            mean_ms - self.lowest_ms,
            mean_ms - BASE_DELAY_MS,
            self.lowest_ms,
            mean_ms / self.lowest_ms,
            mean_ms - min(delays),
            statistics.fmean(between) if between else 0.0,
            statistics.pstdev(between) if between else 0.0,
            sum(gaps) / (sum(gaps) + len(packets)),
            statistics.fmean(gaps) if gaps else 0.0,
            sum(size >= AUDIO_BYTES for size in sizes) / len(packets),
            sum(size < AUDIO_BYTES for size in sizes) / len(packets),
            sum(probes) / len(packets),
        ]

    def next_timeout(self) -> float:
        """Return the end of the interval."""
        return self.next_s

    def target(self) -> float:
        """Return the last estimate."""
        return self.target_bps


def controller(path: Path, label: str = "onnx") -> type[Onnx]:
    """Return the controller for a model."""

    class Loaded(Onnx):
        model = str(path)

    Loaded.name = label
    return Loaded


def scenario(judged: str | type[giusto.Controller]) -> giusto.Scenario:
    """Return a call over a link whose rate falls and recovers."""
    rate = giusto.rate_steps([0, 20, 40], [2e6, 1e6, 2e6])
    link = giusto.Link("bottleneck", "camera", "viewer", rate=rate, delay_ms=40, reverse={"rate": "unlimited", "delay_ms": 40})
    video = {"model": "perfect", "min_kbps": 80, "max_kbps": 2500, "frame_rate": 30}
    audio = {"rate_kbps": 32, "packet_time_ms": 20}
    rates = {"min_rate_kbps": 80, "start_rate_kbps": 300, "max_rate_kbps": 2500}
    flow = giusto.Flow("call", "media", controller=judged, video=video, audio=audio, **rates)
    return giusto.Scenario(duration_s=60, link=link, flow=flow)


def main() -> None:
    """Compare a model with libwebrtc's GCC."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="file of the model")
    parser.add_argument("--plot", type=Path, help="file for a figure")
    given = parser.parse_args()
    runs = {
        given.model.stem: giusto.run(scenario(controller(given.model))),
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
