//! What messages contain.

use std::fmt;

use giusto_measure::{ClockEstimate, Quantiles, StreamSummary, mos::VoiceQuality, playout::PlayoutSummary};
use giusto_pace::{HeaderLayer, LateCycles, Strategy};
use giusto_rtp::voice::VoiceProfile;
use giusto_units::{DataRate, DataSize, TimeDelta};
use serde::{Deserialize, Serialize};

/// Format of a stream's datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamFormat {
    /// With a [`DataHeader`](super::DataHeader).
    Giusto,
    /// RTP, RFC 3550.
    Rtp {
        /// Units of the RTP timestamp per second.
        clock_rate_hz: u32,
        /// The voice codec, if it is a known one.
        voice: Option<VoiceProfile>,
    },
    /// Any datagrams: only counted and timed.
    Raw,
}

/// Proves to a program on the same machine that it is the same machine, and gives it the sender's time zero on the common
/// monotonic clock. To others it is a random number, and another one in each session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineProof {
    pub(in crate::probe) proof: [u8; 16],
    /// The time zero, plus a number that only programs on the machine can compute.
    pub(in crate::probe) masked_origin_ns: u64,
}

/// Facts about a side's clock, with which the other side interprets a difference of times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockIdentity {
    /// Shows programs on the same machine that they share one monotonic clock; reveals nothing to others.
    pub machine: Option<MachineProof>,
    /// Unix time at the time zero of this side.
    pub origin_unix_ns: u64,
    /// Error bound that the system reports for its clock, if the clock is synchronised.
    pub synchronised_within_ns: Option<u64>,
}

impl ClockIdentity {
    /// Converts an estimate of the other side's clock to the offset of the two *calendar* clocks, which does
    /// not depend on when each side started.
    #[must_use]
    pub fn calendar(&self, theirs: &Self, mut estimate: ClockEstimate) -> ClockEstimate {
        let origins = i128::from(theirs.origin_unix_ns) - i128::from(self.origin_unix_ns);
        let origins = i64::try_from(origins).unwrap_or(if origins < 0 { i64::MIN } else { i64::MAX });
        estimate.offset += TimeDelta::from_nanos(origins);
        estimate
    }
}

/// How a sender schedules its datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeKeeping {
    /// By a pacing strategy at a rate.
    Strategy(Strategy),
    /// Not at all: as fast as possible.
    Max,
    /// By recorded times.
    Recorded,
}

impl Default for TimeKeeping {
    fn default() -> Self {
        Self::Strategy(Strategy::default())
    }
}

impl fmt::Display for TimeKeeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strategy(strategy) => strategy.fmt(f),
            Self::Max => f.pad("max"),
            Self::Recorded => f.pad("recorded"),
        }
    }
}

/// Pacing of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacingNote {
    /// How it schedules its datagrams.
    pub keeping: TimeKeeping,
    /// Datagrams that are sent together.
    pub packets_per_cycle: u32,
    /// The time from one cycle to the next; `None` without a rate.
    pub period: Option<TimeDelta>,
}

giusto_units::defaults! {
    /// The stream that a sender announces.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct StreamRequest {
        /// Format of the datagrams.
        pub format: StreamFormat = StreamFormat::Giusto,
        /// The rate at `layer`; `None`: as fast as possible.
        pub rate_bps: Option<u64> = None,
        /// Which headers the rate counts.
        pub layer: HeaderLayer = HeaderLayer::default(),
        /// The payload size, if it is constant.
        pub size: Option<DataSize> = None,
        /// The time between datagrams, if it does not follow from rate and size.
        pub gap: Option<TimeDelta> = None,
        /// The maximum number of datagrams; `None`: no limit.
        pub packets: Option<u64> = None,
        /// The synchronisation source of RTP datagrams (RFC 3550 §5.1): those of another one are not of this stream.
        pub ssrc: Option<u32> = None,
        /// How they are paced; it does not affect the measurement.
        pub pacing: PacingNote = PacingNote::default(),
        /// The receiver of the request is to send the stream, and the sender of the request measures it.
        pub reverse: Option<ReverseLimits> = None,
        /// The sender's clock.
        pub clock: ClockIdentity = ClockIdentity::default(),
    }
    /// The request of a sender that only asks whether there is a receiver: it is not sent.
    pub fn nothing();
}

/// When a stream in the reverse direction ends, beside its number of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReverseLimits {
    /// After this time.
    pub duration: Option<TimeDelta>,
    /// After this much payload.
    pub payload: Option<DataSize>,
}

/// A sender's statistics of its own sending.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderFigures {
    /// Datagrams handed to the system.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
    /// Deviation of actual from scheduled send times.
    pub schedule_error: Option<Quantiles>,
    /// Rate at the layer of the request, by the (N−1) rule.
    pub rate_bps: Option<f64>,
    /// CPU time of the sending thread divided by the duration of sending.
    pub cpu_ratio: Option<f32>,
    /// Datagrams that the system did not take. The fields from here on are `None` from a sender that does not know them.
    pub unsent_packets: Option<u64>,
    /// What became of late datagrams, such as those that were never sent.
    pub late_cycles: Option<LateCycles>,
    /// How late the system woke the sending thread, if it slept.
    pub wake_latency: Option<WakeLatency>,
}

/// How late a system woke a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeLatency {
    /// Half of all wake-ups were at most this late.
    pub p50: TimeDelta,
    /// 99 % of all wake-ups were at most this late.
    pub p99: TimeDelta,
    /// The latest one.
    pub max: TimeDelta,
}

/// A receiver's report of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Increases by one with each report.
    pub number: u32,
    /// Set in the last report.
    pub last: Option<LastReport>,
    /// The measurements so far.
    pub summary: StreamSummary,
    /// For voice.
    pub voice: Option<VoiceReport>,
    /// CPU time of the receiving thread divided by the time since the stream began; the thread serves all
    /// streams.
    pub cpu_ratio: Option<f32>,
    /// What timed the arrivals. From here on a receiver may not know the fields.
    pub stamps: ArrivalStamps,
}

/// What timed the arrivals at a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrivalStamps {
    /// The receiver does not say.
    #[default]
    Unknown,
    /// The program, when it read them.
    Program,
    /// The kernel.
    Kernel,
    /// The network card, and the kernel where it did not.
    Card {
        /// Messages of the socket so far.
        messages: u64,
        /// Those of them that the kernel stamped.
        by_kernel: u64,
    },
}

impl fmt::Display for ArrivalStamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.pad("unknown"),
            Self::Program => f.pad("program"),
            Self::Kernel => f.pad("kernel"),
            Self::Card { by_kernel: 0, .. } => f.pad("card"),
            Self::Card { messages, by_kernel } => write!(f, "card, {by_kernel} of {messages} by the kernel"),
        }
    }
}

/// Why a report is the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LastReport {
    /// The sender finished.
    Finished,
    /// The receiver was stopped.
    ReceiverStopped,
    /// The receiver ended the stream because of a limit.
    Limit(StreamLimit),
}

/// A limit of the receiver that ends a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum StreamLimit {
    /// It came faster than allowed.
    #[error("its rate was above the receiver's maximum (--max-rate)")]
    Rate,
    /// It carried more than allowed.
    #[error("it carried more than the receiver's maximum of bytes (--max-bytes)")]
    Size,
    /// It lasted longer than allowed.
    #[error("it lasted for the receiver's maximum time (--max-lifetime)")]
    Lifetime,
    /// Another sender needed its slot.
    #[error("it sent far less than announced, and another sender needed its slot (--max-streams)")]
    Slot,
    /// Its host held the most slots, and another host needed one.
    #[error("its host had the most streams, and another host needed a slot (--max-streams)")]
    HostShare,
}

/// Estimated voice quality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VoiceReport {
    /// The modelled jitter buffer.
    pub playout: PlayoutSummary,
    /// The rating of the E-model.
    pub quality: VoiceQuality,
}

/// A sender's result of its clock requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathEstimate {
    /// The other clock relative to the sender's.
    pub clock: ClockEstimate,
    /// The median round-trip time.
    pub rtt: TimeDelta,
}

/// Why a stream was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The receiver has its maximum number of streams.
    #[error("it has reached its maximum number of streams (--max-streams)")]
    Full,
    /// The receiver has its maximum number of streams from this host.
    #[error("it has reached its maximum number of streams per host (--max-streams-per-host)")]
    HostFull,
    /// The rate is above the receiver's limit.
    #[error("the rate is above its maximum (--max-rate)")]
    Rate,
    /// The cookie is invalid or has expired.
    #[error("the proof of address was not valid: try again")]
    Cookie,
    /// The receiver has keys, and the sender used none.
    #[error("it accepts only authenticated senders: give both ends the same keys (--key-file)")]
    KeyRequired,
    /// The receiver has no keys, and the sender used one.
    #[error("it has no keys: give both ends the same keys (--key-file)")]
    NoKeys,
    /// The receiver has another key of this id, or none.
    #[error(
        "it does not have this key, or another one under its id: give both ends the same keys (--key-file)"
    )]
    Key,
    /// It sends no streams, or has its maximum number of them.
    #[error("it sends no stream now (--max-reverse)")]
    Reverse,
    /// It sends no stream as fast as that.
    #[error("it sends at most {0}: ask for a lower rate, or start it with a higher --max-rate")]
    ReverseRate(DataRate),
    /// The format of the stream has no room for authentication.
    #[error(
        "RTP and raw datagrams carry no authentication: it accepts them only with --accept-unauthenticated"
    )]
    Format,
}
