//! What a controller says, and why.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// How much may be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// What the media may take, headers included.
    pub media: DataRate,
    /// How fast packets may leave while there are some.
    pub pacing: DataRate,
    /// How fast the sender should send at least: where the media has less, padding fills it. Zero: none is wanted.
    pub padding: DataRate,
    /// How much may be in flight, where the algorithm bounds it.
    pub window: Option<DataSize>,
}

/// Packets sent faster than the target, to learn what the path can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Which cluster: its packets carry this number.
    pub cluster: u32,
    /// How fast.
    pub rate: DataRate,
    /// At least for so long,
    pub duration: TimeDelta,
    /// and at least so many packets.
    pub packets: u32,
    /// Its packets leave in batches of so much time at its rate.
    pub batch: TimeDelta,
}

/// What the delay says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Signal {
    /// Queues neither grow nor shrink.
    #[default]
    Normal,
    /// A queue grows.
    OverUse,
    /// A queue drains.
    UnderUse,
}

/// Why a target is what it is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", tag = "cause"))]
#[non_exhaustive]
pub enum Cause {
    /// It is where it began.
    #[default]
    Start,
    /// The delay: its trend against the threshold that held then, both in milliseconds.
    Delay {
        /// What it said.
        signal: Signal,
        /// The trend.
        trend_ms: f64,
        /// The threshold.
        threshold_ms: f64,
    },
    /// The share of packets that were lost.
    Loss {
        /// 0 to 1.
        ratio: f64,
    },
    /// The share of packets that were marked.
    Marks {
        /// 0 to 1.
        ratio: f64,
    },
    /// The target may not exceed this multiple of what arrives.
    AcknowledgedRate {
        /// What arrives, in bit/s.
        rate_bps: f64,
    },
    /// The receiver's own estimate.
    ReceiverEstimate,
    /// A probe found room.
    Probe {
        /// What it measured, in bit/s.
        rate_bps: f64,
    },
    /// A probe was due, but the delay, the round trip or losses forbade it.
    ProbeSuppressed,
    /// Packets wait at the sender, or frames are larger than they should be.
    SenderQueue {
        /// How long the oldest has waited, in milliseconds.
        waited_ms: f64,
    },
    /// The receiver asks for less.
    SourceQuench,
    /// The sender does not use what it has: nothing can be learned.
    ApplicationLimited,
    /// The round trip is too long to go on like this.
    RoundTrip,
    /// Nothing was heard for too long.
    Silence,
    /// The lowest or highest configured rate.
    Limit,
    /// The route has changed: the estimates were reset.
    RouteChange,
}

/// A change of the target, and its cause.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Decision {
    /// When.
    pub at: Timestamp,
    /// What the media rate was before.
    pub from: DataRate,
    /// What it is since.
    pub to: DataRate,
    /// Why.
    pub cause: Cause,
}
