//! Sent packets, feedback and queues: the input of a controller.

use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use crate::nada::NadaReport;

/// A packet that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentPacket {
    /// Number in sending order, over all streams.
    pub sequence: u64,
    /// Time of departure.
    pub at: Timestamp,
    /// Size that counts towards the rates, headers included.
    pub size: DataSize,
    /// Probe cluster that it belongs to, if any.
    pub probe: Option<u32>,
    /// Bytes in flight, this packet included.
    pub in_flight: DataSize,
}

/// A report of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketReport {
    /// The packet.
    pub sent: SentPacket,
    /// Time of arrival on the receiver's clock; `None`: reported as not received. With
    /// [`FeedbackKind::ScreamDraft`](crate::requirements::FeedbackKind) only the time of the highest packet of a source is exact:
    /// the others have arrived by then.
    pub arrival: Option<PeerTimestamp>,
    /// ECN codepoint on arrival, if the feedback contains it; otherwise Not-ECT.
    pub ecn: Ecn,
}

/// One feedback message, whatever its format on the wire.
#[derive(Debug, Clone, Copy, Default)]
pub struct Feedback<'a> {
    /// Packets that are reported for the first time, and packets that were reported as lost before but have
    /// arrived. In order of their sequence numbers. Empty for messages without packet reports.
    pub packets: &'a [PacketReport],
    /// Round-trip time, if the message gives one.
    pub round_trip: Option<TimeDelta>,
    /// The receiver's estimate of the available rate (REMB).
    pub receiver_estimate: Option<DataRate>,
    /// The receiver's report of NADA.
    pub nada: Option<NadaReport>,
    /// Losses from receiver reports.
    pub loss: Option<LossReport>,
    /// The receiver requests a lower rate (source quench bit of draft-johansson-rmcat-scream-cc-00 §3).
    pub quench: bool,
    /// Bytes in flight after this message.
    pub in_flight: DataSize,
}

/// Losses since the previous receiver report (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossReport {
    /// Packets lost over packets expected, 0 to 1.
    pub ratio: f64,
    /// Packets expected.
    pub expected_packets: u64,
}

/// The sender's queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Size of all queued packets.
    pub size: DataSize,
    /// Age of the oldest queued packet.
    pub oldest: TimeDelta,
}

/// State of one media stream of the sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamState {
    /// Weight among the adaptive streams. Above 0.
    pub priority: f64,
    /// Lowest and highest rate that it can use, headers included. Equal if it does not adapt.
    pub usable: (DataRate, DataRate),
    /// Whether it is paused and produces no frames.
    pub paused: bool,
    /// Its queued packets.
    pub queue: QueueState,
}
