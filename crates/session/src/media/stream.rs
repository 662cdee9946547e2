//! A stream of media, and its RTP packets.

use giusto_congestion::{FeedbackKind, RtpId};
use giusto_rtp::{
    AbsSendTime, ExtensionForm, ExtensionWriter, NtpTimestamp, RTP_HEADER_BYTES, RtpHeader,
    TransportSequence, rtcp::SenderReport,
};
use giusto_units::{DataRate, DataSize, NANOS_PER_SECOND, TimeDelta, Timestamp};

use super::{
    datagram::DatagramHead, extensions::ExtensionIds, format::Framing, packetizer::Packetizer,
    rate_range::RateRange, repair_settings::StreamRepair,
};

/// A stream of media that a sender sends.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaStream {
    /// Synchronisation source.
    pub ssrc: u32,
    /// Its payload type: 7 bits, and not 64 to 95, which RTCP uses (RFC 5761 §4).
    pub payload_type: u8,
    /// Ticks of its RTP timestamp per second.
    pub clock_rate: u32,
    /// Added to the media timestamps of its frames; should be random (RFC 3550 §5.1). Its first sequence number is the lower 16
    /// bits of its first RTP timestamp.
    pub timestamp_offset: u32,
    /// The rates that its encoder can produce, headers not included.
    pub limits: RateRange,
    /// The rate that its encoder produces until a [target](super::MediaEvent::Target) says otherwise.
    pub start_rate: DataRate,
    /// How its frames are divided into packets.
    pub packetizer: Packetizer,
    /// Its framing, which the remote end derives from the payload type.
    pub framing: Framing,
    /// Whether its packets are paced: video is, audio is not.
    pub paced: bool,
    /// Its weight among the adaptive streams; above 0.
    pub priority: f64,
    /// Frames are skipped while the oldest packet in its queue is older than this
    /// (draft-johansson-rmcat-scream-cc-00 §3, arrow 3 of Figure 2); `None`: no frame is skipped.
    pub skip_after: Option<TimeDelta>,
    /// If the queueing delay of a packet exceeds this, the whole queue of the stream is discarded; `None`:
    /// after [`MediaSenderConfig::discard_after`](super::MediaSenderConfig::discard_after).
    pub discard_after: Option<TimeDelta>,
    /// How its lost packets are repaired. Default: not at all.
    pub repair: StreamRepair,
}

impl MediaStream {
    /// A video stream with the 90 kHz clock of RFC 3551 §5, whose encoder starts at its lowest rate: paced,
    /// priority 1, without skipping or early discarding, divided by the default packetizer.
    pub fn video(ssrc: u32, payload_type: u8, limits: RateRange) -> Self {
        Self {
            ssrc,
            payload_type,
            clock_rate: 90_000,
            timestamp_offset: 0,
            limits,
            start_rate: limits.min(),
            packetizer: Packetizer::default(),
            framing: Framing::Marker,
            paced: true,
            priority: 1.0,
            skip_after: None,
            discard_after: None,
            repair: StreamRepair::default(),
        }
    }

    /// An audio stream with a fixed rate and one packet per frame: not paced.
    pub fn audio(ssrc: u32, payload_type: u8, clock_rate: u32, rate: DataRate) -> Self {
        Self {
            clock_rate,
            framing: Framing::Packet,
            paced: false,
            ..Self::video(ssrc, payload_type, RateRange::fixed(rate))
        }
    }
}

/// The fields of a packet that differ from packet to packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketFields {
    pub(super) marker: bool,
    pub(super) media_timestamp: u32,
    /// Its transport-wide sequence number.
    pub(super) transport_sequence: u16,
    /// The capture time of its frame, if the packet contains it.
    pub(super) captured: Option<Timestamp>,
    pub(super) payload: DataSize,
}

/// RTP state of a stream: numbers, counts, header bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct RtpStream {
    pub(super) ssrc: u32,
    payload_type: u8,
    timestamp_offset: u32,
    sent_packets: u32,
    sent_payload: u32,
    next: u64,
    begun: bool,
    /// Capture time of its latest frame, and its RTP timestamp.
    latest: Option<(Timestamp, u32)>,
    /// Header extensions of one packet. Kept to reuse the allocation.
    elements: Vec<u8>,
    extension_ids: ExtensionIds,
}

impl RtpStream {
    pub(super) fn new(ssrc: u32, payload_type: u8, timestamp_offset: u32) -> Self {
        Self { ssrc, payload_type, timestamp_offset, elements: Vec::with_capacity(4), ..Self::default() }
    }

    pub(super) fn with_extension_ids(self, extension_ids: ExtensionIds) -> Self {
        Self { extension_ids, ..self }
    }

    /// Number of header bytes per packet.
    pub(super) const fn head_bytes(feedback: FeedbackKind) -> u64 {
        // An extension has a header of one word, and one or two words of content (RFC 8285 §4.2).
        match feedback {
            FeedbackKind::TransportWide | FeedbackKind::ReceiverEstimate | FeedbackKind::Nada => {
                RTP_HEADER_BYTES as u64 + 8
            }
            _ => RTP_HEADER_BYTES as u64,
        }
    }

    /// Number of further header bytes of a packet with a capture time; `None` if it has no identifier.
    pub(super) fn capture_time_bytes(&self, feedback: FeedbackKind) -> Option<u64> {
        let others = match feedback {
            FeedbackKind::TransportWide => 3,
            FeedbackKind::ReceiverEstimate | FeedbackKind::Nada => 4,
            _ => 0,
        };
        // An element has one byte of header; an extension has four, and its content is padded to words (RFC 8285 §4.2).
        let whole = |elements: u64| if elements == 0 { 0 } else { 4 + elements.next_multiple_of(4) };
        let has_id = (1..=14).contains(&self.extension_ids.capture_time);
        has_id.then(|| whole(others + 9) - whole(others))
    }

    /// Writes the header of the next packet.
    pub(super) fn write(
        &mut self,
        now: Timestamp,
        feedback: FeedbackKind,
        fields: PacketFields,
    ) -> DatagramHead {
        let timestamp = self.timestamp_offset.wrapping_add(fields.media_timestamp);
        if !self.begun {
            self.begun = true;
            // By this the receiver recognises the first packet of a stream.
            self.next = u64::from(timestamp as u16);
        }
        let header = RtpHeader {
            marker: fields.marker,
            payload_type: self.payload_type,
            sequence: self.next as u16,
            timestamp,
            ssrc: self.ssrc,
            extension: None,
        };
        self.next += 1;
        self.sent_packets = self.sent_packets.wrapping_add(1);
        self.sent_payload = self.sent_payload.wrapping_add(fields.payload.as_bytes() as u32);
        let more = fields.captured.and_then(|_| self.capture_time_bytes(feedback)).unwrap_or(0);
        let mut head = DatagramHead::from_elem(0, (Self::head_bytes(feedback) + more) as usize);
        self.elements.clear();
        let mut writer = ExtensionWriter::new(ExtensionForm::OneByte, &mut self.elements);
        let pushed = match feedback {
            FeedbackKind::TransportWide => {
                let number = TransportSequence::new(fields.transport_sequence);
                number.push(self.extension_ids.transport_sequence, &mut writer)
            }
            FeedbackKind::ReceiverEstimate | FeedbackKind::Nada => {
                writer.push(self.extension_ids.abs_send_time, &AbsSendTime::from_timestamp(now).to_bytes())
            }
            _ => Ok(()),
        };
        let pushed = pushed.and_then(|()| match fields.captured {
            Some(captured) => {
                let time = NtpTimestamp::from_timestamp(captured).to_bits();
                writer.push(self.extension_ids.capture_time, &time.to_be_bytes())
            }
            None => Ok(()),
        });
        let written = if self.elements.is_empty() || pushed.is_err() {
            header.write(&mut head)
        } else {
            header.write_with_extension(&mut head, ExtensionForm::OneByte.profile(), &self.elements)
        };
        // This fails only for an invalid payload type; then the packet cannot be parsed.
        head.truncate(written.unwrap_or(RTP_HEADER_BYTES));
        head
    }

    /// Identifies its next packet, which has this media timestamp.
    pub(super) fn id(&self, media_timestamp: u32) -> RtpId {
        let first = self.timestamp_offset.wrapping_add(media_timestamp) as u16;
        RtpId { ssrc: self.ssrc, sequence: if self.begun { self.next as u16 } else { first } }
    }

    /// The number of its next packet, whose lower 16 bits are the sequence number.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    pub(super) fn has_sent(&self) -> bool {
        self.begun
    }

    /// Handles a frame with this capture time and media timestamp.
    pub(super) fn on_frame(&mut self, captured: Timestamp, media_timestamp: u32) {
        self.latest = Some((captured, media_timestamp));
    }

    /// Its sender report at `now`; `None` before the first packet.
    pub(super) fn report(&self, now: Timestamp, clock_rate: u32) -> Option<SenderReport> {
        let (captured, media_timestamp) = self.latest.filter(|_| self.has_sent())?;
        let since = now.saturating_since(captured).as_nanos().max(0).unsigned_abs();
        let ticks = u128::from(since) * u128::from(clock_rate) / u128::from(NANOS_PER_SECOND);
        Some(SenderReport {
            ssrc: self.ssrc,
            time: NtpTimestamp::from_timestamp(now),
            rtp_timestamp: self.timestamp_offset.wrapping_add(media_timestamp).wrapping_add(ticks as u32),
            packets: self.sent_packets,
            payload_bytes: self.sent_payload,
            blocks: Vec::new(),
        })
    }
}
