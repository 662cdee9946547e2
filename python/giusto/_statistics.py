"""Statistics of records."""

# Generated from crates/giusto/src/statistics: do not edit.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import isnan, nan


@dataclass(frozen=True)
class Distribution:
    """Mean, quantiles and maximum, in the unit of the field that holds it.

    Without a sample all are NaN, and the distribution is false.
    """

    mean: float = nan
    p50: float = nan
    p95: float = nan
    p99: float = nan
    max: float = nan

    def __bool__(self) -> bool:
        return not isnan(self.mean)

    def __reduce__(self) -> tuple[type[Distribution], tuple[float, ...]]:
        # A NaN that is pickled is another one, which would be unequal.
        return Distribution, astuple(self) if self else ()


@dataclass(frozen=True, kw_only=True)
class FlowStatistics:
    """Statistics of a flow.

    Attributes
    ----------
    sent_rate_bps : float
        Bytes sent in the window, over its length.
    received_rate_bps : float
        Bytes that arrive in the window, over its length.
    goodput_bps : float or None
        Payload delivered to the application in the window, over its length: of TCP the bytes in order, of media the complete frames.
    sent_packets : int
        Packets sent in the window.
    received_packets : int
        Of the packets sent in the window, those that arrive by the end of the run. In expectations: packets that arrive in the window.
    lost_packets : int
        Of the packets sent in the window, those of which no copy arrives.
    duplicate_packets : int
        Further copies of the packets sent in the window that arrive.
    loss_ratio : float or None
        Lost packets over lost and received ones; packets in flight at the end of the run do not count.
    marked_ratio : float or None
        Share of the packets that arrive in the window with a CE mark.
    delay_ms : Distribution
        From departure at the source to arrival at the destination, of the packets that arrive in the window.
    queue_delay_ms : Distribution
        From entering a link's queue to the start of transmission, summed over the path, of the same packets.
    target_rate_bps : float or None
        Mean over time of the controller's target rate, headers included.
    decisions : int or None
        Changes of the target rate.
    frames : int or None
        Frames of all streams that become complete in the window.
    frame_delay_ms : Distribution
        From the capture of a frame until it is complete, of these frames.
    feedback_rate_bps : float or None
        Bytes of the receiver's feedback sent in the window, over its length.
    """

    sent_rate_bps: float
    received_rate_bps: float
    goodput_bps: float | None = None
    sent_packets: int
    received_packets: int
    lost_packets: int
    duplicate_packets: int
    loss_ratio: float | None = None
    marked_ratio: float | None = None
    delay_ms: Distribution = Distribution()
    queue_delay_ms: Distribution = Distribution()
    target_rate_bps: float | None = None
    decisions: int | None = None
    frames: int | None = None
    frame_delay_ms: Distribution = Distribution()
    feedback_rate_bps: float | None = None


@dataclass(frozen=True, kw_only=True)
class StreamStatistics:
    """Statistics of a stream.

    Attributes
    ----------
    goodput_bps : float
        Payload of the frames that become complete in the window, over its length.
    frames : int
        Frames that become complete in the window.
    frame_delay_ms : Distribution
        From the capture of a frame until it is complete, of these frames.
    skipped_frames : int or None
        Frames that were not encoded because the sender's queue was too old.
    discarded_packets : int or None
        Packets that the sender discarded because they were queued for too long.
    late_frames : int or None
        Frames that become complete after their playout deadline.
    """

    goodput_bps: float
    frames: int
    frame_delay_ms: Distribution = Distribution()
    skipped_frames: int | None = None
    discarded_packets: int | None = None
    late_frames: int | None = None


@dataclass(frozen=True, kw_only=True)
class RepairRecord:
    """Repair of the lost packets of a stream.

    Attributes
    ----------
    repaired_frames : int or None
        Complete frames with at least one packet that was sent again or recovered from parity.
    requested_packets : int or None
        Packets in all NACKs of the receiver, each time counted.
    retransmitted_packets : int or None
        Packets sent again.
    parity_packets : int or None
        Packets of parity sent.
    recovered_packets : int or None
        Packets recovered from parity.
    repair_rate_bps : float or None
        Bytes of retransmissions and parity sent in the window, all headers included, over its length.
    key_frame_requests : int or None
        Key frames that the receiver requested.
    """

    repaired_frames: int | None = None
    requested_packets: int | None = None
    retransmitted_packets: int | None = None
    parity_packets: int | None = None
    recovered_packets: int | None = None
    repair_rate_bps: float | None = None
    key_frame_requests: int | None = None


@dataclass(frozen=True, kw_only=True)
class LinkStatistics:
    """Statistics of a link.

    Attributes
    ----------
    utilisation_ratio : float or None
        Bytes whose transmission begins in the window, over the capacity in it; unknown if the rate is unlimited.
    capacity_bps : float or None
        Mean of its rate over time.
    offered_packets : int
        Packets that come to it in the window, and those inside it at the window's start.
    delivered_packets : int
        Packets delivered at its far end.
    dropped_packets : int
        Packets dropped in its queue or lost on the wire.
    overflow_packets : int
        Of these, packets dropped by a full queue or a policer.
    aqm_packets : int
        Of these, packets dropped by active queue management.
    lost_packets : int
        Of these, packets lost on the wire.
    marked_packets : int
        Packets that its queue marked.
    in_flight_packets : int
        Packets inside it at the end: queued, in transmission, propagating.
    duplicated_packets : int
        Copies that it made.
    corrupted_packets : int
        Packets whose content it changed; it delivers them, and their receivers discard them.
    queue_delay_ms : Distribution
        From entering its queue to the start of transmission, of the packets transmitted in the window.
    """

    utilisation_ratio: float | None = None
    capacity_bps: float | None = None
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
    queue_delay_ms: Distribution = Distribution()
