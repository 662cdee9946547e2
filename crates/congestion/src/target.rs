//! Targets, probes and decisions: the output of a controller.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Rates and limits for the sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Target {
    /// Rate of the media, headers included.
    pub media: DataRate,
    /// Rate at which queued packets are sent.
    pub pacing: DataRate,
    /// Rate up to which the sender should add padding if the media rate is lower. Zero: no padding.
    pub padding: DataRate,
    /// Limit of the bytes in flight, if the algorithm has one.
    pub window: Option<DataSize>,
}

impl Target {
    /// Rates of the media and of the pacer, headers included; no padding and no window.
    pub const fn new(media: DataRate, pacing: DataRate) -> Self {
        Self { media, pacing, padding: DataRate::ZERO, window: None }
    }
}

giusto_units::setters!(Target {
    /// Sets the rate up to which the sender should add padding.
    with_padding(padding: DataRate);
    /// Sets the limit of the bytes in flight.
    with_window(window: Option<DataSize>);
});

/// A cluster of packets sent faster than the target, to measure what the path can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Probe {
    /// Number of the cluster, which its packets carry in the history.
    pub cluster: u32,
    /// Sending rate.
    pub rate: DataRate,
    /// Minimum duration.
    pub duration: TimeDelta,
    /// Minimum number of packets.
    pub packets: u32,
    /// Packets are sent in batches of this duration at the rate.
    pub batch: TimeDelta,
}

impl Probe {
    /// A probe at this rate of at least 5 packets and 15 ms, in batches of 2 ms, as in libwebrtc
    /// (`modules/congestion_controller/goog_cc/probe_controller.cc`).
    pub const fn new(cluster: u32, rate: DataRate) -> Self {
        let (duration, batch) = (TimeDelta::from_millis(15), TimeDelta::from_millis(2));
        Self { cluster, rate, duration, packets: 5, batch }
    }
}

giusto_units::setters!(Probe {
    /// Sets the minimum duration.
    with_duration(duration: TimeDelta);
    /// Sets the minimum number of packets.
    with_packets(packets: u32);
    /// Sets the duration of a batch.
    with_batch(batch: TimeDelta);
});

/// State of the queue according to the delay. There is no fourth.
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
        /// Signal of the detector.
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
    /// The received rate limits the target.
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
    /// The sender's queue is too long, or frames are larger than the target permits.
    SenderQueue {
        /// Age of the oldest queued packet, in ms.
        waited_ms: f64,
    },
    /// The receiver requests a lower rate.
    SourceQuench,
    /// The media uses less than the target, so nothing can be learned about the path.
    ApplicationLimited,
    /// RTT above limit: the rate is reduced.
    #[cfg_attr(feature = "serde", serde(rename = "round-trip"))]
    Rtt,
    /// No feedback for too long: the rate is reduced.
    Silence,
    /// The lowest or highest configured rate.
    Limit,
    /// The route has changed: the estimates were reset.
    RouteChange,
    /// The controller, one of the caller's own, does not state it.
    Unstated,
}

/// A change of the media rate, and its cause.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
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

impl Decision {
    /// The start, or a decision that left the rate at `to`.
    pub const fn new(at: Timestamp, to: DataRate, cause: Cause) -> Self {
        Self { at, from: to, to, cause }
    }

    /// Sets the media rate before.
    #[must_use]
    pub const fn with_from(self, from: DataRate) -> Self {
        Self { from, ..self }
    }
}
