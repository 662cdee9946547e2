//! Sent packets, feedback and queues: the input of a controller.

use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use crate::nada_report::Report;

/// A packet that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SentPacket {
    /// Number in sending order, over all streams.
    pub sequence: u64,
    /// Time of departure.
    pub at: Timestamp,
    /// Size that counts towards the rates, headers included.
    pub size: DataSize,
    /// [`Probe::cluster`](crate::Probe::cluster) of the probe that it belongs to, if any.
    pub probe: Option<u32>,
    /// Bytes in flight, this packet included.
    pub in_flight: DataSize,
}

impl SentPacket {
    /// Packet number `sequence` of all streams, which left at `at`; no part of a probe, and alone in flight.
    pub const fn new(sequence: u64, at: Timestamp, size: DataSize) -> Self {
        Self { sequence, at, size, probe: None, in_flight: size }
    }
}

giusto_units::setters!(SentPacket {
    /// Sets the probe that it belongs to: [`Probe::cluster`](crate::Probe::cluster).
    with_probe(probe: Option<u32>);
    /// Sets the bytes in flight, this packet included.
    with_in_flight(in_flight: DataSize);
});

/// A report of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PacketReport {
    /// The packet.
    pub sent: SentPacket,
    /// Time of arrival on the receiver's clock; `None`: reported as not received. With
    /// [`FeedbackKind::ScreamDraft`](crate::FeedbackKind) only the time of the highest packet of a source is exact:
    /// the others have arrived by then.
    pub arrival: Option<PeerTimestamp>,
    /// ECN codepoint on arrival, if the feedback contains it; otherwise Not-ECT.
    pub ecn: Ecn,
}

impl PacketReport {
    /// The report of a packet that arrived at `arrival` on the receiver's clock, without ECN codepoint; `None`: it was not received.
    pub const fn new(sent: SentPacket, arrival: Option<PeerTimestamp>) -> Self {
        Self { sent, arrival, ecn: Ecn::NotEct }
    }

    /// Sets the ECN codepoint on arrival.
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }
}

/// One feedback message, whatever its format on the wire.
///
/// [`History`](crate::History) makes it of RTCP. A sender with acknowledgements of its own makes it itself: one for each
/// acknowledgement that arrives, with each packet that it reports for the first time.
///
/// With the feature `serde` it can be written, but not read, because it borrows its packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Feedback<'a> {
    /// Packets that are reported for the first time, and packets that were reported as lost before but have
    /// arrived. In order of their sequence numbers. Empty for messages without packet reports.
    pub packets: &'a [PacketReport],
    /// Round-trip time, if the message gives one.
    pub rtt: Option<TimeDelta>,
    /// The receiver's estimate of the available rate (REMB).
    pub receiver_estimate: Option<DataRate>,
    /// Losses from receiver reports.
    pub loss: Option<LossReport>,
    /// What the format carries that the others do not.
    pub extension: Option<Extension>,
    /// Bytes in flight after this message.
    pub in_flight: DataSize,
}

impl<'a> Feedback<'a> {
    /// Feedback with reports of packets, in order of their sequence numbers, after which `in_flight` bytes are neither reported nor
    /// given up.
    pub const fn new(packets: &'a [PacketReport], in_flight: DataSize) -> Self {
        Self { packets, rtt: None, receiver_estimate: None, loss: None, extension: None, in_flight }
    }
}

giusto_units::setters!(Feedback<'a> {
    /// Sets the round-trip time that the message gives. Controllers that use packet reports compute it from those; leave it out if you
    /// do not measure it otherwise.
    with_rtt(rtt: Option<TimeDelta>);
    /// Sets the receiver's estimate of the available rate.
    with_receiver_estimate(receiver_estimate: Option<DataRate>);
    /// Sets the losses since the previous report, where packets are not reported one by one.
    with_loss(loss: Option<LossReport>);
    /// Sets what the format carries that the others do not.
    with_extension(extension: Option<Extension>);
});

/// What one format of feedback carries and the others do not: input of the algorithm that the format was made for.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Extension {
    /// The receiver's report of NADA (RFC 8698 §5.3).
    Nada(Report),
    /// The receiver requests a lower rate (source quench bit of draft-johansson-rmcat-scream-cc-00 §3).
    SourceQuench,
}

/// Losses since the previous receiver report (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LossReport {
    /// Packets lost over packets expected, 0 to 1.
    pub ratio: f64,
    /// Packets expected.
    pub expected_packets: u64,
}

impl LossReport {
    /// A share `ratio`, 0 to 1, of `expected_packets` was lost.
    pub const fn new(ratio: f64, expected_packets: u64) -> Self {
        Self { ratio, expected_packets }
    }
}

/// The sender's queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct QueueState {
    /// Size of all queued packets.
    pub size: DataSize,
    /// Age of the oldest queued packet.
    pub oldest: TimeDelta,
}

impl QueueState {
    /// A queue of this size, whose oldest packet has this age. The default is an empty queue.
    pub const fn new(size: DataSize, oldest: TimeDelta) -> Self {
        Self { size, oldest }
    }
}

/// State of one media stream of the sender.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
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

impl StreamState {
    /// A stream that runs, can use rates from the first to the second of `usable`, headers included, and has these packets queued. Its
    /// priority is 1.
    pub const fn new(usable: (DataRate, DataRate), queue: QueueState) -> Self {
        Self { priority: 1.0, usable, paused: false, queue }
    }
}

giusto_units::setters!(StreamState {
    /// Sets the weight among the adaptive streams. Above 0.
    with_priority(priority: f64);
    /// Sets whether it is paused and produces no frames.
    with_paused(paused: bool);
});
