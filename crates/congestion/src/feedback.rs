//! What a controller hears.

use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

/// A packet that left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentPacket {
    /// Its number on the path, over all streams, unwrapped.
    pub sequence: u64,
    /// When it left.
    pub at: Timestamp,
    /// Its size as the controller counts it, headers included.
    pub size: DataSize,
    /// The probe cluster that it belongs to, if any.
    pub probe: Option<u32>,
    /// What was sent and neither acknowledged nor given up, this packet included.
    pub in_flight: DataSize,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketReport {
    /// Which.
    pub sent: SentPacket,
    /// When it arrived, by the far end's clock; `None`: it is reported as not received. With
    /// [`FeedbackKind::ScreamDraft`](super::FeedbackKind) that of the highest packet of a source is exact; the others have arrived by the same time.
    pub arrival: Option<PeerTimestamp>,
    /// The codepoint that it arrived with, where the feedback says.
    pub ecn: Ecn,
}

/// One feedback message, whatever its format on the wire.
#[derive(Debug, Clone, Copy, Default)]
pub struct Feedback<'a> {
    /// The packets that it reports for the first time, by sequence, and those that were reported as lost before and have arrived
    /// after all. A format that reports none leaves it empty.
    pub packets: &'a [PacketReport],
    /// The round trip that its arrival implies, if it can be told.
    pub round_trip: Option<TimeDelta>,
    /// The receiver's own estimate of what it may be sent (REMB).
    pub receiver_estimate: Option<DataRate>,
    /// What a receiver report says of losses.
    pub loss: Option<LossReport>,
    /// The receiver asks for less (the source quench bit of draft-johansson-rmcat-scream-cc-00 §3).
    pub quench: bool,
    /// What is still in flight after it.
    pub in_flight: DataSize,
}

/// What a receiver report says of losses since the one before (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossReport {
    /// Packets lost over packets expected, 0 to 1.
    pub ratio: f64,
    /// Packets expected.
    pub expected_packets: u64,
}

/// What waits at the sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueState {
    /// How much waits.
    pub size: DataSize,
    /// How long the oldest has waited.
    pub oldest: TimeDelta,
}

/// One of the sender's sources of media.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamState {
    /// Its share of what the streams that adapt get, against theirs; above 0.
    pub priority: f64,
    /// The least and the most that it can use, headers included. The same where it does not adapt.
    pub usable: (DataRate, DataRate),
    /// Whether it makes frames at present.
    pub paused: bool,
    /// What of it waits.
    pub queue: QueueState,
}
