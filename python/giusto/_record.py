"""The record of a simulated run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from giusto import _giusto

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.figure import Figure
    from typing_extensions import Self


@dataclass(frozen=True)
class Distribution:
    """Mean, quantiles and maximum, in the unit of the field that holds it."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True)
class RepairRecord:
    """Repair of the lost packets of a stream.

    Attributes
    ----------
    repaired_frames : int
        Complete frames with at least one repaired packet.
    requested_packets : int
        Packets that the receiver requested, each time counted.
    retransmitted_packets : int
        Packets sent again.
    parity_packets : int
        Packets of parity sent.
    recovered_packets : int
        Packets recovered from parity.
    repair_rate_bps : float
        Rate of the repair packets, all headers included.
    key_frame_requests : int
        Key frames that the receiver requested.
    """

    repaired_frames: int
    requested_packets: int
    retransmitted_packets: int
    parity_packets: int
    recovered_packets: int
    repair_rate_bps: float
    key_frame_requests: int


@dataclass(frozen=True)
class StreamRecord:
    """One stream of a media flow, over the window of its flow.

    Attributes
    ----------
    id : str
        Name of a video, or ``"audio"``.
    ssrc : int
        RTP synchronisation source.
    kind : str
        ``"video"`` or ``"audio"``.
    goodput_bps : float
        Payload of the frames that arrived complete.
    frames : int
        Frames that arrived complete.
    frame_delay_ms : Distribution or None
        From the capture of a frame until it arrived complete; None if none did.
    priority : float or None
        Of a video: its weight relative to the others.
    skipped_frames, discarded_packets, late_frames : int or None
        Frames that were not encoded and packets that were discarded because the sender's queue was too old; frames that were
        complete after their playout deadline. None if unknown.
    repair : RepairRecord or None
        Repair of lost packets, if there is any.
    """

    id: str
    ssrc: int
    kind: str
    goodput_bps: float
    frames: int
    frame_delay_ms: Distribution | None
    priority: float | None = None
    skipped_frames: int | None = None
    discarded_packets: int | None = None
    late_frames: int | None = None
    repair: RepairRecord | None = None


@dataclass(frozen=True)
class FlowRecord:
    """One flow. Rates and delays are of its window, counts of packets of the whole run.

    Attributes
    ----------
    id, group : str
        Name; common name of the flow and its copies.
    kind : str
        ``"media"``, ``"tcp"``, ``"cbr"``, ….
    controller, feedback : str or None
        Congestion controller and feedback, of flows that have them.
    from_, to : str
        Source and destination node.
    path : list of str
        Links, in order.
    from_s, to_s : float
        Window of the statistics, in s since the start of the run.
    sent_rate_bps, received_rate_bps : float
        All headers included; received packets are unique.
    goodput_bps : float or None
        Payload delivered: in-order bytes of TCP, complete frames of media.
    sent_packets, received_packets, lost_packets, duplicate_packets : int
        Packets.
    loss_ratio, marked_ratio : float or None
        Shares of packets lost, and of received packets with a CE mark, 0 to 1.
    delay_ms, queue_delay_ms : Distribution or None
        One-way delay, and queueing delay along the path.
    target_rate_bps : float or None
        Of media: mean target rate.
    decisions, frames : int or None
        Of media: changes of the target; frames that arrived complete.
    frame_delay_ms : Distribution or None
        Of media: from the capture of a frame until it arrived complete.
    feedback_rate_bps : float or None
        Of media: rate of the feedback, headers included.
    streams : list of StreamRecord
        Of media: audio first, then the videos.
    """

    id: str
    group: str
    kind: str
    controller: str | None
    from_: str
    to: str
    path: list[str]
    from_s: float
    to_s: float
    sent_rate_bps: float
    received_rate_bps: float
    goodput_bps: float | None
    sent_packets: int
    received_packets: int
    lost_packets: int
    duplicate_packets: int
    loss_ratio: float | None
    marked_ratio: float | None
    delay_ms: Distribution | None
    queue_delay_ms: Distribution | None
    feedback: str | None = None
    target_rate_bps: float | None = None
    decisions: int | None = None
    frames: int | None = None
    frame_delay_ms: Distribution | None = None
    feedback_rate_bps: float | None = None
    streams: list[StreamRecord] = field(default_factory=list)


@dataclass(frozen=True)
class LinkRecord:
    """One link. Counts of packets are of the whole run.

    Attributes
    ----------
    id : str
        Name.
    from_, to : str
        Nodes at its ends.
    rate, wire, queue : str
        Rate, impairments and queue as text.
    utilisation_ratio : float or None
        Bytes transmitted over the capacity; None if the rate is unlimited.
    capacity_bps : float or None
        Mean rate over the whole run; None if unlimited.
    offered_packets, delivered_packets, dropped_packets : int
        Packets offered, delivered at its far end, dropped or lost.
    overflow_packets, aqm_packets, lost_packets : int
        Of the dropped ones: queue full, active queue management, lost on the wire.
    marked_packets, duplicated_packets, corrupted_packets, in_flight_packets : int
        Packets marked, copied, changed; inside at the end.
    queue_delay_ms : Distribution or None
        Queueing delay; None if nothing was transmitted.
    """

    id: str
    from_: str
    to: str
    rate: str
    wire: str
    queue: str
    utilisation_ratio: float | None
    capacity_bps: float | None
    offered_packets: int
    delivered_packets: int
    dropped_packets: int
    overflow_packets: int
    aqm_packets: int
    lost_packets: int
    marked_packets: int
    in_flight_packets: int
    duplicated_packets: int
    corrupted_packets: int
    queue_delay_ms: Distribution | None


@dataclass(frozen=True)
class Check:
    """An expectation and its outcome.

    Attributes
    ----------
    name : str
        What is expected.
    passed : bool
        Whether the value is within the bounds.
    value : float or None
        Measured value; None if it could not be measured, in which case the check fails.
    bound, unit : str
        Bounds as text, and the unit of value and bounds.
    """

    name: str
    passed: bool
    value: float | None
    bound: str
    unit: str


class RunRecord:
    """The result of a run: what `giusto.run` returns.

    Attributes
    ----------
    scenario, description : str
        Name and description of the scenario.
    seed : int
        Random seed.
    duration_s : float
        Simulated time.
    wall_s : float
        Real time that the run took.
    events : int
        Number of events of the engine.
    flows : list of FlowRecord
        In the order of the scenario.
    links : list of LinkRecord
        In the order of the scenario.
    checks : list of Check
        Expectations, in the order of the scenario.
    """

    scenario: str
    description: str
    seed: int
    duration_s: float
    wall_s: float
    events: int
    flows: list[FlowRecord]
    links: list[LinkRecord]
    checks: list[Check]

    def __init__(self) -> None:
        raise TypeError("giusto.run makes records")

    @classmethod
    def _of(cls, result: _giusto.Run) -> Self:
        record = cls.__new__(cls)
        values = json.loads(result.json())
        record._result = result
        record._values = values
        record.scenario = values["scenario"]
        record.description = values.get("description", "")
        record.seed = int(values["seed"])
        record.duration_s = values["duration_s"]
        record.wall_s = values["wall_s"]
        record.events = values["events"]
        record.flows = [_flow(flow) for flow in values["flows"]]
        record.links = [_link(link) for link in values["links"]]
        record.checks = [Check(**check) for check in values["checks"]]
        return record

    _result: _giusto.Run
    _values: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether all expectations are met."""
        return all(check.passed for check in self.checks)

    def flow(self, id: str) -> FlowRecord:
        """Return the flow of this name."""
        return _find("flow", self.flows, id)

    def link(self, id: str) -> LinkRecord:
        """Return the link of this name."""
        return _find("link", self.links, id)

    @cached_property
    def flows_over_time(self) -> pyarrow.Table:
        """Each flow over time: one row for each window and flow.

        Columns: `t_s`, the middle of the window; `flow`; counts of packets and bytes, rates in bit/s, delays in ms;
        of media `target_rate_bps`, `frames`, `frame_delay_max_ms`; what senders report, such as `cwnd_bytes`. The run has 500
        windows of at least 10 ms. More than 16 flows are combined by their group.
        """
        return _arrow(self._result.flows_over_time())

    @cached_property
    def links_over_time(self) -> pyarrow.Table:
        """Each link over time: one row for each window and link.

        Columns: `t_s`, `link`, `capacity_bps`, counts of packets and bytes, queued bytes, queueing delay in ms.
        """
        return _arrow(self._result.links_over_time())

    @cached_property
    def decisions(self) -> pyarrow.Table:
        """The decisions of all controllers, flow by flow.

        Columns: `flow`, `at_s`, `from_bps`, `to_bps`, `cause`, and the fields of causes: `signal`, `trend_ms`, `threshold_ms`,
        `ratio`, `rate_bps`, `waited_ms`.
        """
        return _arrow(self._result.decisions())

    @cached_property
    def trace(self) -> pyarrow.Table:
        """Every event, in order; the columns are those of trace files (`docs/reference/traces.md`).

        The table shares its memory with the record. The run must have been made with ``trace=True``.
        """
        return _arrow(self._result.trace())

    def to_dict(self) -> dict[str, Any]:
        """Return the summaries as `giusto sim --json` prints them."""
        return dict(self._values)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write ``result.json`` and the page ``report.html`` to a folder, as `giusto sim --out` does."""
        os.makedirs(folder, exist_ok=True)
        self._result.write(os.fspath(folder), f"giusto.run, scenario {self.scenario}, seed {self.seed}")

    def plot(self) -> Figure:
        """Draw rates and delays over time with matplotlib; see `giusto.plot.record`."""
        from giusto import plot

        return plot.record(self)

    def __str__(self) -> str:
        return self._result.tables().rstrip()

    def __repr__(self) -> str:
        return f"<giusto.RunRecord {self.scenario!r}, seed {self.seed}, {self.duration_s:g} s>"


_Part = TypeVar("_Part", FlowRecord, LinkRecord)


def _find(kind: str, parts: list[_Part], id: str) -> _Part:
    for part in parts:
        if part.id == id:
            return part
    known = ", ".join(part.id for part in parts)
    raise KeyError(f"no {kind} is called {id!r}: use one of {known}")


def _arrow(stream: _giusto.ArrowStream) -> pyarrow.Table:
    import pyarrow

    return pyarrow.table(stream)


def _distributions(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record, the distributions as such, and without names that are keywords of Python."""
    fields = dict(values)
    for name in ("delay_ms", "queue_delay_ms", "frame_delay_ms"):
        if fields.get(name) is not None:
            fields[name] = Distribution(**fields[name])
    if "from" in fields:
        fields["from_"] = fields.pop("from")
    return fields


def _flow(values: Mapping[str, Any]) -> FlowRecord:
    fields = _distributions(values)
    fields["streams"] = [_stream(stream) for stream in values.get("streams", [])]
    return FlowRecord(**fields)


def _link(values: Mapping[str, Any]) -> LinkRecord:
    return LinkRecord(**_distributions(values))


def _stream(values: Mapping[str, Any]) -> StreamRecord:
    fields = _distributions(values)
    if fields.get("repair") is not None:
        fields["repair"] = RepairRecord(**fields["repair"])
    return StreamRecord(**fields)
