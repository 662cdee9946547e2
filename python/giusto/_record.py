"""The record of a simulated run."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from giusto import _giusto, _html
from giusto._statistics import (
    Distribution,
    FlowStatistics,
    LinkStatistics,
    RepairRecord,
    StreamStatistics,
)

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True)
class StreamRecord(StreamStatistics):
    """One stream of a media flow, over the window of its flow: the statistics of `StreamStatistics`.

    Attributes
    ----------
    id : str
        Name of a video, or ``"audio"``.
    ssrc : int
        RTP synchronisation source.
    kind : str
        ``"video"`` or ``"audio"``.
    priority : float or None
        Of a video: its weight relative to the others.
    repair : RepairRecord or None
        Repair of lost packets, if there is any.
    """

    id: str
    ssrc: int
    kind: str
    priority: float | None = None
    repair: RepairRecord | None = None


@dataclass(frozen=True, kw_only=True)
class FlowRecord(FlowStatistics):
    """One flow: the statistics of `FlowStatistics`.

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
    feedback: str | None = None
    streams: list[StreamRecord] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LinkRecord(LinkStatistics):
    """One link: the statistics of `LinkStatistics`, from the warm-up to the end of the run.

    Attributes
    ----------
    id : str
        Name.
    from_, to : str
        Nodes at its ends.
    rate, wire, queue : str
        Rate, impairments and queue as text.
    """

    id: str
    from_: str
    to: str
    rate: str
    wire: str
    queue: str


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
    notes : list of str
        What the figures do not explain by themselves, such as a queue shorter than a packet.
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
    notes: list[str]

    def __init__(self) -> None:
        raise TypeError("giusto.run makes records")

    def __reduce__(self) -> Any:
        what = "take its `to_dict()`, or its flows"
        raise TypeError(f"giusto.{type(self).__name__} cannot be pickled or copied: {what}")

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
        record.notes = values.get("notes", [])
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

        Counts are of the window alone: ``8 * received_bytes`` over the length of the window is the rate in it. `sent_rate_bps`,
        `received_rate_bps`, `goodput_bps` and `loss_ratio` are smoothed: each is that of several windows with the window itself in the
        middle, and of fewer at both ends of the run, so that a rate begins to change some windows before its cause. There are as many
        windows as hold about 25 received packets, at least 3 and at most a 60th of the run; for the goodput of media, which comes in
        frames, at least 0.5 s and at most half of the run.
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
        return copy.deepcopy(self._values)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write ``result.json`` and the page ``report.html`` to a folder, as `giusto sim --out` does."""
        os.makedirs(folder, exist_ok=True)
        self._result.write(os.fspath(folder), f"giusto.run, scenario {self.scenario}, seed {self.seed}")

    def __str__(self) -> str:
        return self._result.tables().rstrip()

    def __repr__(self) -> str:
        return f"<giusto.RunRecord {self.scenario!r}, seed {self.seed}, {self.duration_s:g} s>"

    def _repr_html_(self) -> str:
        def cells(flow: FlowRecord) -> list[str]:
            delays = (flow.queue_delay_ms, flow.frame_delay_ms)
            return [
                flow.id,
                flow.controller or flow.kind,
                _html.bit_rate(flow.received_rate_bps),
                _html.share(flow.loss_ratio),
                *(_html.number(delay.p95 if delay else None, "ms") for delay in delays),
            ]

        head = ("flow", "kind", "received rate", "loss", "queueing delay p95", "frame delay p95")
        marks = "".join(
            f"<li>{'✓' if check.passed else '✗'} {escape(check.name)}: {_html.number(check.value, check.unit)}, "
            f"expected {escape(check.bound)}</li>"
            for check in self.checks
        )
        return (
            f"<p><b>{escape(self.scenario)}</b>, seed {self.seed}, {self.duration_s:g} s</p>"
            + _html.table(head, map(cells, self.flows))
            + _html.lines("received rate", self._received_over_time())
            + (f"<ul style='list-style:none'>{marks}</ul>" if marks else "")
        )

    def _received_over_time(self) -> dict[str, list[tuple[float, float]]]:
        """Return the received rate of each flow over time; nothing where it is unknown, or no timeline was recorded."""
        series: dict[str, list[tuple[float, float]]] = {}
        try:
            rows = self.flows_over_time
        except (ImportError, ValueError):
            return series
        columns = (rows.column(name).to_pylist() for name in ("flow", "t_s", "received_rate_bps"))
        for flow, at, bps in zip(*columns):
            # The sender of a call does not know it.
            if bps is not None:
                series.setdefault(flow, []).append((at, bps))
        return series


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
        if name in fields:
            fields[name] = Distribution(**(fields[name] or {}))
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
