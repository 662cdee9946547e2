//! Targets, probes and decisions: the output of a controller.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// What a sender may send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// Rate of the media, headers included.
    pub media: DataRate,
    /// Rate at which waiting packets leave.
    pub pacing: DataRate,
    /// Rate up to which the sender should add padding where the media has less. Zero: no padding.
    pub padding: DataRate,
    /// Limit of the bytes in flight, if the algorithm has one.
    pub window: Option<DataSize>,
}

/// A cluster of packets sent faster than the target, to measure what the path can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Number of the cluster, which its packets carry in the history.
    pub cluster: u32,
    /// Sending rate.
    pub rate: DataRate,
    /// Least duration.
    pub duration: TimeDelta,
    /// Least number of packets.
    pub packets: u32,
    /// Packets leave in batches of this much time at the rate.
    pub batch: TimeDelta,
}

/// State of the queue, as the delay shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Signal {
    /// The queue neither grows nor drains.
    #[default]
    Normal,
    /// The queue grows.
    OverUse,
    /// The queue drains.
    UnderUse,
}

/// Cause of a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", tag = "cause"))]
#[non_exhaustive]
pub enum Cause {
    /// The start rate.
    #[default]
    Start,
    /// The delay: its trend compared with the threshold.
    Delay {
        /// Verdict of the detector.
        signal: Signal,
        /// Trend, in ms.
        trend_ms: f64,
        /// Threshold, in ms.
        threshold_ms: f64,
    },
    /// Lost packets.
    Loss {
        /// 0 to 1.
        ratio: f64,
    },
    /// Packets with a congestion mark (ECN-CE).
    Marks {
        /// 0 to 1.
        ratio: f64,
    },
    /// The received rate bounds the target.
    AcknowledgedRate {
        /// Received rate, in bit/s.
        rate_bps: f64,
    },
    /// The receiver's estimate (REMB).
    ReceiverEstimate,
    /// The result of a probe.
    Probe {
        /// Measured rate, in bit/s.
        rate_bps: f64,
    },
    /// A probe was due, but was suppressed because of the delay, the round-trip time or losses.
    ProbeSuppressed,
    /// Packets wait at the sender, or frames are larger than the target allows.
    SenderQueue {
        /// Age of the oldest waiting packet, in ms.
        waited_ms: f64,
    },
    /// The receiver requests a lower rate.
    SourceQuench,
    /// The media uses less than the target, so that nothing can be learned about the path.
    ApplicationLimited,
    /// The round-trip time is above its limit: the rate backs off.
    RoundTrip,
    /// No feedback has arrived for too long: the rate backs off.
    Silence,
    /// The lowest or highest configured rate.
    Limit,
    /// The route has changed: the estimates were reset.
    RouteChange,
}

/// A change of the media rate, and its cause.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Decision {
    /// Time of the decision.
    pub at: Timestamp,
    /// Media rate before.
    pub from: DataRate,
    /// Media rate after.
    pub to: DataRate,
    /// Cause.
    pub cause: Cause,
}
