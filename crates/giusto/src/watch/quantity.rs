//! The quantities that a live page shows.

use serde::Serialize;

/// A quantity of a stream, in the order of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The rate at the sender in the interval, in bit/s.
    SentRateBps,
    /// The rate at the receiver in the interval, in bit/s.
    ReceivedRateBps,
    /// The target of the congestion controller at the end of the interval, in bit/s.
    TargetRateBps,
    /// Lost over lost and received packets of the interval.
    LossRatio,
    /// Of these, those that the receiver's socket buffer dropped, over lost and received packets of the interval; from the first such
    /// packet on.
    BufferLossRatio,
    /// The mean one-way delay of the packets of the interval, in ms; at a sender of datagrams, the median of all so far.
    DelayMs,
    /// The mean delay of the frames of the interval, in ms.
    FrameDelayMs,
    /// What the mean one-way delay exceeds the minimum of the stream by, in ms.
    QueueDelayMs,
    /// The age of the oldest packet in the sender's queue at the end of the interval, in ms.
    SenderQueueMs,
    /// Interarrival jitter at the end of the interval, in ms (RFC 3550 §6.4.1).
    JitterMs,
    /// The round-trip time, in ms: of a call the latest, else the median of all so far.
    RttMs,
}

impl Quantity {
    /// All, in the order of a sample.
    pub const ALL: [Self; 11] = [
        Self::SentRateBps,
        Self::ReceivedRateBps,
        Self::TargetRateBps,
        Self::LossRatio,
        Self::BufferLossRatio,
        Self::DelayMs,
        Self::FrameDelayMs,
        Self::QueueDelayMs,
        Self::SenderQueueMs,
        Self::JitterMs,
        Self::RttMs,
    ];

    /// The value as the page shows it: rates in whole bit/s, times to a microsecond, ratios to a millionth.
    pub(super) fn rounded(self, value: f64) -> Option<f64> {
        let step = match self {
            Self::SentRateBps | Self::ReceivedRateBps | Self::TargetRateBps => 1.0,
            Self::LossRatio | Self::BufferLossRatio => 1e6,
            _ => 1e3,
        };
        value.is_finite().then(|| (value * step).round() / step)
    }
}
