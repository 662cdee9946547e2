//! The packets of a datagram (RFC 3550 §6.1).

use super::{
    ccfb::{self, CongestionFeedback, ReportCount},
    description::{Bye, SourceDescription},
    error::RtcpError,
    frame::{Frame, packet_type},
    nada::{self, NadaFeedback},
    remb::{self, Remb},
    repair::{FIR_FORMAT, FullIntra, NACK_FORMAT, Nack, PLI_FORMAT, PictureLoss},
    reports::{ReceiverReport, SenderReport},
    scream_draft::{self, ScreamFeedback},
    twcc::{self, TransportFeedback},
    xr::ExtendedReport,
};
use alloc::vec::Vec;

/// A packet of a known type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Packet {
    /// Packets sent and received by one participant.
    SenderReport(SenderReport),
    /// Packets received by one participant.
    ReceiverReport(ReceiverReport),
    /// Names of sources.
    SourceDescription(SourceDescription),
    /// Sources that leave.
    Bye(Bye),
    /// Arrival times for the whole transport (TWCC).
    TransportFeedback(TransportFeedback),
    /// Arrival times and ECN marks for each stream (RFC 8888).
    CongestionFeedback(CongestionFeedback),
    /// Received packets of a stream, among the latest 33 (draft-johansson-rmcat-scream-cc-00).
    ScreamFeedback(ScreamFeedback),
    /// Congestion of a path, as its receiver sees it (RFC 8698).
    NadaFeedback(NadaFeedback),
    /// Packets that a receiver requests again (generic NACK).
    Nack(Nack),
    /// A request for a key frame (PLI).
    PictureLoss(PictureLoss),
    /// A command to send a key frame (FIR).
    FullIntra(FullIntra),
    /// A receiver's estimate of the bitrate (REMB).
    Remb(Remb),
    /// Metrics of voice streams (RFC 3611).
    ExtendedReport(ExtendedReport),
}

impl Packet {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// Those of the contained value; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        match self {
            Self::SenderReport(packet) => packet.write(buffer),
            Self::ReceiverReport(packet) => packet.write(buffer),
            Self::SourceDescription(packet) => packet.write(buffer),
            Self::Bye(packet) => packet.write(buffer),
            Self::TransportFeedback(packet) => packet.write(buffer),
            Self::CongestionFeedback(packet) => packet.write(buffer),
            Self::ScreamFeedback(packet) => packet.write(buffer),
            Self::NadaFeedback(packet) => packet.write(buffer),
            Self::Nack(packet) => packet.write(buffer),
            Self::PictureLoss(packet) => packet.write(buffer),
            Self::FullIntra(packet) => packet.write(buffer),
            Self::Remb(packet) => packet.write(buffer),
            Self::ExtendedReport(packet) => packet.write(buffer),
        }
    }
}

/// Iterates over the packets of a datagram.
///
/// The frames of all packets are checked before the first one is returned (RFC 3550 A.2): version 2 in each,
/// consistent lengths, padding only in the last one. A compound need not begin with a report (RFC 5506);
/// [`is_reduced_size`](Self::is_reduced_size) returns whether it does not. A packet with damaged content
/// gives an error, and the following ones are still read. Packets of unknown type or format are skipped and
/// counted.
///
/// # Example
///
/// ```
/// use giusto_rtp::rtcp::{Packet, Packets, ReceiverReport, Remb};
/// use giusto_units::DataRate;
///
/// let report = ReceiverReport { ssrc: 1, blocks: vec![] };
/// let remb = Remb { sender_ssrc: 1, bitrate: DataRate::from_bps(1_000_000), sources: vec![2] };
/// let mut datagram = Vec::new();
/// report.write(&mut datagram)?;
/// remb.write(&mut datagram)?;
/// let read = Packets::new(&datagram)?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(read, [Packet::ReceiverReport(report), Packet::Remb(remb)]);
/// # Ok::<(), giusto_rtp::rtcp::RtcpError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Packets<'a> {
    rest: &'a [u8],
    report_count: ReportCount,
    reduced_size: bool,
    skipped: usize,
    /// Packets reported so far.
    reported: usize,
}

/// The most packets that a datagram may report: as many as there are sequence numbers. A few bytes can repeat one status 8191 times.
const MAX_REPORTED: usize = 1 << 16;

impl<'a> Packets<'a> {
    /// Checks the frame of each packet in `datagram`.
    ///
    /// # Errors
    ///
    /// [`RtcpError`] if the datagram as a whole is not RTCP; then none of its packets may be used.
    pub fn new(datagram: &'a [u8]) -> Result<Self, RtcpError> {
        let (first, mut rest) = Frame::split(datagram)?;
        while !rest.is_empty() {
            rest = Frame::split(rest)?.1;
        }
        let reduced_size =
            !matches!(first.packet_type, packet_type::SENDER_REPORT | packet_type::RECEIVER_REPORT);
        Ok(Self { rest: datagram, report_count: ReportCount::Exact, reduced_size, skipped: 0, reported: 0 })
    }

    /// Reads RFC 8888 feedback of a sender that uses `num_reports` as `count` specifies.
    #[must_use]
    #[inline]
    pub const fn with_report_count(self, count: ReportCount) -> Self {
        Self { report_count: count, ..self }
    }

    /// Whether the first packet is not a report. This is valid if both ends agreed on it (RFC 5506 §4);
    /// otherwise the datagram is not RTCP (RFC 3550 A.2).
    #[inline]
    pub const fn is_reduced_size(&self) -> bool {
        self.reduced_size
    }

    /// Number of packets skipped so far because of an unknown type or format.
    #[inline]
    pub const fn skipped(&self) -> usize {
        self.skipped
    }

    /// `None` if the packet has an unknown type or format.
    fn read(&self, frame: &Frame<'_>) -> Result<Option<Packet>, RtcpError> {
        let packet = match (frame.packet_type, frame.count) {
            (packet_type::SENDER_REPORT, _) => Packet::SenderReport(SenderReport::read(frame)?),
            (packet_type::RECEIVER_REPORT, _) => Packet::ReceiverReport(ReceiverReport::read(frame)?),
            (packet_type::SOURCE_DESCRIPTION, _) => {
                Packet::SourceDescription(SourceDescription::read(frame)?)
            }
            (packet_type::BYE, _) => Packet::Bye(Bye::read(frame)?),
            (packet_type::APPLICATION, nada::SUBTYPE) => {
                return Ok(NadaFeedback::read(frame)?.map(Packet::NadaFeedback));
            }
            (packet_type::TRANSPORT_FEEDBACK, twcc::FORMAT) => {
                Packet::TransportFeedback(TransportFeedback::read(frame)?)
            }
            (packet_type::TRANSPORT_FEEDBACK, ccfb::FORMAT) => {
                Packet::CongestionFeedback(CongestionFeedback::read(frame, self.report_count)?)
            }
            (packet_type::TRANSPORT_FEEDBACK, scream_draft::FORMAT) => {
                Packet::ScreamFeedback(ScreamFeedback::read(frame)?)
            }
            (packet_type::TRANSPORT_FEEDBACK, NACK_FORMAT) => Packet::Nack(Nack::read(frame)?),
            (packet_type::PAYLOAD_FEEDBACK, PLI_FORMAT) => Packet::PictureLoss(PictureLoss::read(frame)?),
            (packet_type::PAYLOAD_FEEDBACK, FIR_FORMAT) => Packet::FullIntra(FullIntra::read(frame)?),
            (packet_type::EXTENDED_REPORT, _) => Packet::ExtendedReport(ExtendedReport::read(frame)?),
            (packet_type::PAYLOAD_FEEDBACK, remb::FORMAT) => return Ok(Remb::read(frame)?.map(Packet::Remb)),
            _ => return Ok(None),
        };
        Ok(Some(packet))
    }
}

impl Iterator for Packets<'_> {
    type Item = Result<Packet, RtcpError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let (frame, rest) = Frame::split(self.rest).expect("the frames were checked when this was made");
            self.rest = rest;
            match self.read(&frame) {
                Ok(None) => self.skipped += 1,
                Ok(Some(packet)) => {
                    self.reported += reported(&packet);
                    let found = self.reported;
                    if found <= MAX_REPORTED {
                        return Some(Ok(packet));
                    }
                    self.rest = &[];
                    return Some(Err(RtcpError::TooMany {
                        what: "packet reports",
                        found,
                        max: MAX_REPORTED,
                    }));
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}

/// Number of packets that `packet` reports one by one.
fn reported(packet: &Packet) -> usize {
    match packet {
        Packet::TransportFeedback(feedback) => feedback.packets.len(),
        Packet::CongestionFeedback(feedback) => {
            feedback.streams.iter().map(|stream| stream.packets.len()).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
#[path = "packets_tests.rs"]
mod tests;
