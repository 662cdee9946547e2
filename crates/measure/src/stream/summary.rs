//! The measurements of a stream.

use giusto_units::{DataSize, TimeDelta, Timestamp};

#[cfg(doc)]
use crate::RateMeter;
use crate::{delay::DelaySummary, histogram::Quantiles, loss::LossSummary};

/// Packets by their ECN field (RFC 3168 §5), if the socket provides it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct EcnCounts {
    /// Not ECN-capable: `00`.
    pub not_ect: u64,
    /// ECT(0): `10`.
    pub ect0: u64,
    /// ECT(1): `01`.
    pub ect1: u64,
    /// Congestion experienced: `11`.
    pub ce: u64,
}

/// Measurements of a stream, in a few hundred bytes: small enough for a control message.
///
/// Times are in nanoseconds and sizes in bytes when serialised.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StreamSummary {
    /// Datagrams received, without duplicates.
    pub received_packets: u64,
    /// Their UDP payload.
    pub received_bytes: DataSize,
    /// Datagrams lost.
    pub lost_packets: u64,
    /// Duplicates.
    pub duplicate_packets: u64,
    /// Datagrams overtaken by a later one: RFC 4737 §3.3.
    pub reordered_packets: u64,
    /// Maximum reordering extent in datagrams: RFC 4737 §4.2.
    pub max_reorder_extent: u64,
    /// Datagrams too late to be distinguished from duplicates; they count neither as received nor as
    /// duplicates.
    pub too_old_packets: u64,
    /// Datagrams ignored for an implausible sequence number.
    pub implausible_packets: u64,
    /// Pattern of loss.
    pub loss: LossSummary,
    /// Of the lost datagrams: those that the receiving socket dropped because its buffer was full. At most so many where the
    /// socket receives other datagrams too.
    pub kernel_dropped_packets: u64,
    /// The rate in bit/s, header bytes included as configured, over N − 1 intervals: [`RateMeter::rate`].
    pub rate_bps: Option<f64>,
    /// All bits divided by the time from first to last: [`RateMeter::fencepost_rate`].
    pub fencepost_rate_bps: Option<f64>,
    /// Interarrival jitter, RFC 3550 §6.4.1, at the end.
    pub jitter: Option<TimeDelta>,
    /// One-way delay.
    pub delay: Option<DelaySummary>,
    /// Arrival gap minus the gap of an ideal constant-bit-rate stream.
    pub gap_error: Option<Quantiles>,
    /// Arrival gap minus the gap of the sender's schedule.
    pub schedule_gap_error: Option<Quantiles>,
    /// The sender's schedule error: actual minus scheduled send time.
    pub schedule_error: Option<Quantiles>,
    /// ECN marks.
    pub ecn: EcnCounts,
    /// The DSCP (RFC 2474 §3) of the latest datagram.
    pub dscp: Option<u8>,
    /// Whether the DSCP changed during the stream.
    pub dscp_changed: bool,
    /// Arrival time of the first datagram.
    pub first_arrival: Option<Timestamp>,
    /// Arrival time of the last datagram.
    pub last_arrival: Option<Timestamp>,
    /// Number of arrival timestamps that ran backwards and were replaced by the latest one.
    pub backward_stamps: u64,
}
