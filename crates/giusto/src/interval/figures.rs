//! The figures of one interval, as they are printed.

use serde::{Deserialize, Serialize};

use crate::quantiles::Quantiles;

/// The figures of one interval of any protocol.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Interval {
    /// Of streams.
    Streams(IntervalFigures),
    /// Of a STAMP session.
    Stamp(StampInterval),
    /// Of a STAMP reflector.
    Reflector(ReflectorInterval),
}

impl From<IntervalFigures> for Interval {
    fn from(figures: IntervalFigures) -> Self {
        Self::Streams(figures)
    }
}

/// The figures of one interval, of all streams together.
///
/// Counts are those of the interval alone. A quantity that is not known is `None`, in JSON `null`. The received figures are those of
/// the stream that is sent, as its receiver reports them; with iperf3 at the far end, which reports none, those of the stream that
/// this end receives, if there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalFigures {
    /// The interval begins here, in seconds since the first datagram.
    pub start_s: f64,
    /// The interval ends here, in seconds since the first datagram.
    pub end_s: f64,
    /// Streams in this interval.
    pub streams: usize,
    /// Datagrams handed to the network.
    pub sent_packets: Option<u64>,
    /// Their UDP payload, in bytes.
    pub sent_bytes: Option<u64>,
    /// The rate at the sender, in bit/s, at the layer that was asked for.
    pub tx_rate_bps: Option<f64>,
    /// The time that the received figures cover, in seconds: at the sender, the time between two reports.
    pub received_span_s: Option<f64>,
    /// Unique datagrams that arrived.
    pub received_packets: Option<u64>,
    /// Their UDP payload, in bytes.
    pub received_bytes: Option<u64>,
    /// The rate at the receiver, in bit/s, at the layer that was asked for.
    pub rx_rate_bps: Option<f64>,
    /// Datagrams newly missing less those that were missing and have arrived since: the sum over all intervals is the loss.
    pub lost_packets: Option<i64>,
    /// Lost over lost and received datagrams, 0 to 1; 0 where more were recovered than lost.
    pub loss_ratio: Option<f64>,
    /// Of the lost datagrams, those that the receiver's full socket buffer dropped: the sum over all intervals is that of the result.
    pub kernel_dropped_packets: Option<i64>,
    /// Inter-arrival jitter at the end of the interval, in ms (RFC 3550 §6.4.1); the largest of the streams.
    pub jitter_ms: Option<f64>,
}

impl IntervalFigures {
    /// The part of the loss ratio that the receiver's socket buffer dropped.
    pub(crate) fn buffer_loss_ratio(&self) -> Option<f64> {
        let (dropped, lost) = (self.kernel_dropped_packets?, self.lost_packets?);
        if lost <= 0 {
            self.loss_ratio
        } else {
            Some(self.loss_ratio? * (dropped.clamp(0, lost) as f64 / lost as f64))
        }
    }
}

/// The figures of one interval at a Session-Sender.
///
/// Counts are those of the interval alone. A quantity that is not known is `None`, in JSON `null`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct StampInterval {
    /// The interval begins here, in seconds since the first packet.
    pub start_s: f64,
    /// The interval ends here, in seconds since the first packet; the last one with the last packet.
    pub end_s: f64,
    /// Packets handed to the network.
    pub sent_packets: u64,
    /// First answers that arrived, also to packets of earlier intervals.
    pub answered_packets: u64,
    /// Packets newly without an answer less those whose answer came late: the sum over all intervals is the loss. What follows the
    /// last answer is counted at the end.
    pub lost_packets: i64,
    /// Lost over lost and answered packets, 0 to 1; 0 where more were recovered than lost.
    pub loss_ratio: Option<f64>,
    /// Round-trip time without the reflector's processing time, in ms: (T4 − T1) − (T3 − T2).
    pub round_trip_ms: Quantiles,
    /// Interarrival jitter on the way to the reflector at the end of the interval, in ms (RFC 3550 §6.4.1).
    pub forward_jitter_ms: Option<f64>,
    /// The same on the way back.
    pub backward_jitter_ms: Option<f64>,
}

/// The figures of one interval at a Session-Reflector, of all sessions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ReflectorInterval {
    /// The interval begins here, in seconds since the reflector began.
    pub start_s: f64,
    /// The interval ends here, in seconds since the reflector began.
    pub end_s: f64,
    /// Sessions that have not ended.
    pub sessions: usize,
    /// Packets that were answered.
    pub reflected_packets: u64,
    /// Packets that were not, for any reason.
    pub unanswered_packets: u64,
}
