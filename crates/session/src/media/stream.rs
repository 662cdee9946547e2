//! One source of media, and its RTP packets.

use giusto_congestion::{FeedbackKind, RtpId};
use giusto_rtp::{
    AbsSendTime, ExtensionForm, ExtensionWriter, NtpTimestamp, RTP_HEADER_BYTES, RtpHeader,
    TransportSequence, rtcp::SenderReport,
};
use giusto_units::{DataSize, NANOS_PER_SECOND, TimeDelta, Timestamp};

use super::{ABS_SEND_TIME_ID, TRANSPORT_SEQUENCE_ID};
use crate::{
    packetizer::Packetizer,
    source::{Frame, MediaSource},
};

/// One source of media, with what an RTP packet of it says.
#[derive(Debug)]
pub struct MediaStream {
    /// Its synchronisation source.
    pub ssrc: u32,
    /// Its payload type, 7 bits, and not one that RTCP takes for itself (64 to 95, RFC 5761 §4).
    pub payload_type: u8,
    /// The ticks of its RTP timestamp in a second.
    pub clock_rate: u32,
    /// The first sequence number and the first RTP timestamp, both of which should be random (RFC 3550 §5.1).
    pub first: (u16, u32),
    /// What makes its frames.
    pub source: Box<dyn MediaSource>,
    /// How they are cut.
    pub packetizer: Packetizer,
    /// Whether its packets wait for the pacer: pictures do, sound does not.
    pub paced: bool,
    /// Its share of what the streams that adapt get, against theirs; above 0.
    pub priority: f64,
    /// No frame is encoded while the oldest packet that waits is older than this (draft-johansson-rmcat-scream-cc-00 §3, arrow 3
    /// of Figure 2); `None`: each is.
    pub skip_after: Option<TimeDelta>,
    /// What has waited for longer than this is too old to be of use, and is discarded with all of its stream that waits; `None`:
    /// as late as [`MediaSenderConfig::discard_after`](super::MediaSenderConfig::discard_after) says.
    pub discard_after: Option<TimeDelta>,
}

/// What a packet says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Says {
    pub(super) marker: bool,
    pub(super) media_timestamp: u32,
    /// Its number on the transport.
    pub(super) transport_sequence: u16,
    pub(super) payload: DataSize,
}

/// The RTP side of a stream: numbers, counts, header bytes.
#[derive(Debug, Clone)]
pub(super) struct RtpStream {
    pub(super) ssrc: u32,
    payload_type: u8,
    first: (u16, u32),
    sent_packets: u32,
    sent_payload: u32,
    next: u64,
    /// When its latest frame was captured, and its RTP timestamp.
    latest: Option<(Timestamp, u32)>,
    /// Header extensions of one packet, kept for its memory.
    elements: Vec<u8>,
}

impl RtpStream {
    pub(super) fn new(ssrc: u32, payload_type: u8, first: (u16, u32)) -> Self {
        Self {
            ssrc,
            payload_type,
            first,
            sent_packets: 0,
            sent_payload: 0,
            next: u64::from(first.0),
            latest: None,
            elements: Vec::with_capacity(4),
        }
    }

    /// The bytes of header that each packet has.
    pub(super) const fn head_bytes(feedback: FeedbackKind) -> u64 {
        // An extension is a word of its own head, and a word or two of content (RFC 8285 §4.2).
        match feedback {
            FeedbackKind::TransportWide | FeedbackKind::ReceiverEstimate => RTP_HEADER_BYTES as u64 + 8,
            _ => RTP_HEADER_BYTES as u64,
        }
    }

    /// The header of the next packet.
    pub(super) fn write(&mut self, now: Timestamp, feedback: FeedbackKind, says: Says) -> Vec<u8> {
        let header = RtpHeader {
            marker: says.marker,
            payload_type: self.payload_type,
            sequence: self.next as u16,
            timestamp: self.first.1.wrapping_add(says.media_timestamp),
            ssrc: self.ssrc,
            extension: None,
        };
        self.next += 1;
        self.sent_packets = self.sent_packets.wrapping_add(1);
        self.sent_payload = self.sent_payload.wrapping_add(says.payload.as_bytes() as u32);
        let mut head = vec![0; Self::head_bytes(feedback) as usize];
        self.elements.clear();
        let mut writer = ExtensionWriter::new(ExtensionForm::OneByte, &mut self.elements);
        let pushed = match feedback {
            FeedbackKind::TransportWide => {
                let number = TransportSequence::new(says.transport_sequence);
                number.push(TRANSPORT_SEQUENCE_ID, &mut writer)
            }
            FeedbackKind::ReceiverEstimate => {
                writer.push(ABS_SEND_TIME_ID, &AbsSendTime::from_timestamp(now).to_bytes())
            }
            _ => Ok(()),
        };
        let written = if self.elements.is_empty() || pushed.is_err() {
            header.write(&mut head)
        } else {
            header.write_with_extension(&mut head, ExtensionForm::OneByte.profile(), &self.elements)
        };
        // Only a payload type that is none can make it fail; then it is what it is, and nobody can read it.
        head.truncate(written.unwrap_or(RTP_HEADER_BYTES));
        head
    }

    /// What identifies its next packet.
    pub(super) fn id(&self) -> RtpId {
        RtpId { ssrc: self.ssrc, sequence: self.next as u16 }
    }

    pub(super) fn has_sent(&self) -> bool {
        self.sent_packets > 0
    }

    /// A frame was captured.
    pub(super) fn on_frame(&mut self, frame: &Frame) {
        self.latest = Some((frame.captured, frame.media_timestamp));
    }

    /// What it has sent, as of `now`; `None` before the first packet.
    pub(super) fn report(&self, now: Timestamp, clock_rate: u32) -> Option<SenderReport> {
        let (captured, media_timestamp) = self.latest.filter(|_| self.has_sent())?;
        let since = now.saturating_since(captured).as_nanos().max(0).unsigned_abs();
        let ticks = u128::from(since) * u128::from(clock_rate) / u128::from(NANOS_PER_SECOND);
        Some(SenderReport {
            ssrc: self.ssrc,
            time: NtpTimestamp::from_timestamp(now),
            rtp_timestamp: self.first.1.wrapping_add(media_timestamp).wrapping_add(ticks as u32),
            packets: self.sent_packets,
            payload_bytes: self.sent_payload,
            blocks: Vec::new(),
        })
    }
}
