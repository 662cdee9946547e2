"""One flow of constant bit rate through one queue: the same model in giusto and in SimPy, and how long each takes.

    pip install simpy
    python simpy_cbr.py --duration 1000 --times 7

Both send the same packets at the same times into a drop-tail queue of the same size, and measure the delay of each. The script
fails if any figure differs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import giusto

SIZE_BYTES = 1000
RATE_BPS = 10_000_000  # of the link
SENT_BPS = 12_500_000  # of the flow: a fifth of the packets is dropped
DELAY_NS = 20_100_000  # so that no packet arrives at the end of a run to the nanosecond
QUEUE_BYTES = 100_000


@dataclass
class Figures:
    """What a model measures."""

    sent: int
    received: int
    dropped: int
    delay_mean_ms: float
    delay_max_ms: float


class Queue:
    """A link of constant rate behind a drop-tail queue, and what arrives at its far end. Times are in whole ns.

    A deque and an event are faster than `simpy.Store`, whose every `get` is one more event.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.packets: deque[int] = deque()
        self.wake = env.event()
        self.dropped = self.received = 0
        self.delay_sum_ns = self.delay_max_ns = 0
        env.process(self.transmit())

    def offer(self, sent_ns: int) -> None:
        """Queue a packet, or drop it."""
        if (len(self.packets) + 1) * SIZE_BYTES > QUEUE_BYTES:
            self.dropped += 1
            return
        self.packets.append(sent_ns)
        if not self.wake.triggered:
            self.wake.succeed()

    def transmit(self) -> Generator[Any, Any, None]:
        """Transmit one packet after the other."""
        while True:
            if not self.packets:
                self.wake = self.env.event()
                yield self.wake
            sent_ns = self.packets.popleft()
            yield self.env.timeout(SIZE_BYTES * 8 * 1_000_000_000 // RATE_BPS)
            # A packet under way is a timeout with a callback, which is cheaper than a process.
            self.env.timeout(DELAY_NS, sent_ns).callbacks.append(self.arrive)

    def arrive(self, event: Any) -> None:
        """Measure a packet."""
        delay_ns = self.env.now - event.value
        self.received += 1
        self.delay_sum_ns += delay_ns
        self.delay_max_ns = max(self.delay_max_ns, delay_ns)


def in_simpy(duration_s: int) -> Figures:
    """Run the model in SimPy."""
    import simpy

    env = simpy.Environment()
    queue = Queue(env)
    sent = 0

    def source() -> Generator[Any, Any, None]:
        nonlocal sent
        while True:
            sent += 1
            queue.offer(int(env.now))
            yield env.timeout(SIZE_BYTES * 8 * 1_000_000_000 // SENT_BPS)

    env.process(source())
    env.run(until=duration_s * 1_000_000_000)
    return Figures(
        sent=sent,
        received=queue.received,
        dropped=queue.dropped,
        delay_mean_ms=queue.delay_sum_ns / queue.received / 1e6,
        delay_max_ms=queue.delay_max_ns / 1e6,
    )


def in_giusto(scenario: giusto.Scenario) -> Figures:
    """Run the model in giusto."""
    record = giusto.run(scenario, timeline=False)
    flow, link = record.flow("stream"), record.link("wire")
    return Figures(
        sent=flow.sent_packets,
        received=flow.received_packets,
        dropped=link.dropped_packets,
        delay_mean_ms=flow.delay_ms.mean,
        delay_max_ms=flow.delay_ms.max,
    )


def scenario(duration_s: int) -> giusto.Scenario:
    """Return the model as a scenario."""
    return giusto.Scenario(
        duration_s=duration_s,
        link=giusto.Link(
            "wire", "here", "there", rate_bps=RATE_BPS, delay_ns=DELAY_NS, queue={"kind": "drop-tail", "limit_bytes": QUEUE_BYTES}
        ),
        flow=giusto.Flow("stream", "cbr", rate_bps=SENT_BPS, size_bytes=SIZE_BYTES),
    )


def check(ours: Figures, theirs: Figures) -> None:
    """Raise an `AssertionError` unless the figures are equal."""
    assert (ours.sent, ours.received, ours.dropped) == (theirs.sent, theirs.received, theirs.dropped), (ours, theirs)
    # A record has milliseconds to six decimal places.
    for name in ("delay_mean_ms", "delay_max_ms"):
        assert abs(getattr(ours, name) - getattr(theirs, name)) <= 1e-6, (name, ours, theirs)


def main() -> None:
    """Time both, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", type=int, default=1000, help="simulated time, s (default 1000)")
    parser.add_argument("--times", type=int, default=7, help="number of measurements, of which the median is shown (default 7)")
    given = parser.parse_args()
    planned = scenario(given.duration)
    ratios, ours_s, theirs_s = [], [], []
    for _ in range(given.times):
        began = time.process_time()
        ours = in_giusto(planned)
        between = time.process_time()
        theirs = in_simpy(given.duration)
        ended = time.process_time()
        check(ours, theirs)
        ours_s.append(between - began)
        theirs_s.append(ended - between)
        ratios.append(theirs_s[-1] / ours_s[-1])
    print(ours)
    print(f"giusto {statistics.median(ours_s):.3f} s, SimPy {statistics.median(theirs_s):.3f} s of processor time")
    print(f"giusto is {statistics.median(ratios):.0f} times as fast ({min(ratios):.0f} to {max(ratios):.0f})")


if __name__ == "__main__":
    main()
