//! A stream of media, and its RTP packets.

use std::collections::VecDeque;

use giusto_congestion::FeedbackKind;
use giusto_rtp::{
    AbsSendTime, ExtensionForm, ExtensionWriter, NtpShort, NtpTimestamp, RTP_HEADER_BYTES, RtpHeader,
    TransportSequence,
    rtcp::{ReportBlock, SenderReport},
};
use giusto_units::{DataRate, DataSize, NANOS_PER_SECOND, TimeDelta, Timestamp};

use super::{
    extensions::{ABS_SEND_TIME_ID, TRANSPORT_SEQUENCE_ID},
    format::Framing,
    packetizer::Packetizer,
    rate_range::RateRange,
};

/// A stream of media that a sender sends.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaStream {
    /// Its synchronisation source.
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
    /// How its frames are cut.
    pub packetizer: Packetizer,
    /// How its packets make frames, as the far end knows it from the payload type.
    pub framing: Framing,
    /// Whether its packets wait for the pacer: video does, audio does not.
    pub paced: bool,
    /// Its weight against the other streams that adapt; above 0.
    pub priority: f64,
    /// No frame is wanted while the oldest packet in its queue is older than this (draft-johansson-rmcat-scream-cc-00 §3, arrow 3
    /// of Figure 2); `None`: every frame is wanted.
    pub skip_after: Option<TimeDelta>,
    /// When a packet has waited for longer than this, the whole queue of the stream is discarded; `None`: after
    /// [`MediaSenderConfig::discard_after`](super::MediaSenderConfig::discard_after).
    pub discard_after: Option<TimeDelta>,
}

impl MediaStream {
    /// A video stream with the 90 kHz clock of RFC 3551 §5, whose encoder starts at its lowest rate: paced, of priority 1, without
    /// skipping or early discarding, cut by the default packetizer.
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
        }
    }

    /// An audio stream of one rate with one packet per frame: not paced.
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
    /// Its number on the transport.
    pub(super) transport_sequence: u64,
    pub(super) payload: DataSize,
}

/// The state after the last report.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    /// Packets sent up to the highest that was received.
    count: u64,
    lost: i32,
    /// Which sender report it answers, and after how long.
    stamp: Option<(Option<u32>, u32)>,
}

/// The news of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    /// Packets lost since the report before; below zero where there were duplicates.
    pub(super) lost: i64,
    /// Packets expected since then.
    pub(super) expected: u64,
    pub(super) round_trip: Option<TimeDelta>,
}

/// The RTP side of a stream: numbers, counts, header bytes.
#[derive(Debug, Clone)]
pub(super) struct RtpStream {
    pub(super) ssrc: u32,
    payload_type: u8,
    timestamp_offset: u32,
    /// The first sequence number.
    first: u16,
    sent_packets: u32,
    sent_payload: u32,
    next: u64,
    begun: bool,
    /// The transport's number of each of its packets that are remembered, and the number of the first.
    numbers: VecDeque<u64>,
    first_number: u64,
    /// When its latest frame was captured, and its RTP timestamp.
    latest: Option<(Timestamp, u32)>,
    /// As of its latest report.
    reported: Option<Reported>,
    /// Header extensions of one packet, kept for its memory.
    elements: Vec<u8>,
}

impl RtpStream {
    pub(super) fn new(ssrc: u32, payload_type: u8, timestamp_offset: u32) -> Self {
        Self {
            ssrc,
            payload_type,
            timestamp_offset,
            first: 0,
            sent_packets: 0,
            sent_payload: 0,
            next: 0,
            numbers: VecDeque::new(),
            first_number: 0,
            begun: false,
            latest: None,
            reported: None,
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
    pub(super) fn write(&mut self, now: Timestamp, feedback: FeedbackKind, fields: PacketFields) -> Vec<u8> {
        let timestamp = self.timestamp_offset.wrapping_add(fields.media_timestamp);
        if !self.begun {
            self.begun = true;
            // The receiver knows the first packet of a stream by this.
            self.first = timestamp as u16;
            (self.next, self.first_number) = (self.first.into(), self.first.into());
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
        self.numbers.push_back(fields.transport_sequence);
        self.sent_packets = self.sent_packets.wrapping_add(1);
        self.sent_payload = self.sent_payload.wrapping_add(fields.payload.as_bytes() as u32);
        let mut head = vec![0; Self::head_bytes(feedback) as usize];
        self.elements.clear();
        let mut writer = ExtensionWriter::new(ExtensionForm::OneByte, &mut self.elements);
        let pushed = match feedback {
            FeedbackKind::TransportWide => {
                let number = TransportSequence::new(fields.transport_sequence as u16);
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

    /// Forgets its packets whose number on the transport is below `first`.
    pub(super) fn forget_before(&mut self, first: u64) {
        while self.numbers.front().is_some_and(|&number| number < first) {
            self.numbers.pop_front();
            self.first_number += 1;
        }
    }

    /// The number on the transport of the packet with this sequence number, if it is remembered.
    pub(super) fn transport_sequence(&self, sequence: u16) -> Option<u64> {
        // Nearest to what was sent last, so that nothing that is fed back can lead astray.
        let latest = self.next.saturating_sub(1);
        let behind = u64::from((latest as u16).wrapping_sub(sequence));
        let number = latest.checked_sub(behind)?;
        let place = usize::try_from(number.checked_sub(self.first_number)?).ok()?;
        self.numbers.get(place).copied()
    }

    pub(super) fn has_sent(&self) -> bool {
        self.begun
    }

    /// A frame captured then, with this media timestamp, is to be sent.
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

    /// The news of a report; `None` for one that was overtaken, or that covers packets that were never sent.
    pub(super) fn on_block(&mut self, now: NtpShort, block: &ReportBlock) -> Option<Told> {
        // The upper bits are the receiver's own count of wraps, and begin wherever it began: only the lower say which packet.
        let latest = self.next.checked_sub(1)?;
        let behind = u64::from((latest as u16).wrapping_sub(block.highest_sequence as u16));
        let count = (latest.checked_sub(behind)? + 1)
            .checked_sub(u64::from(self.first))
            .filter(|&count| count > 0)?;
        let before = self.reported.unwrap_or_default();
        let expected = count.checked_sub(before.count)?;
        let lost = i64::from(block.cumulative_lost) - i64::from(before.lost);
        // A receiver that has begun to count anew has lost what its fraction fields.
        let most = i64::try_from(expected).unwrap_or(i64::MAX);
        let lost = if lost.abs() <= most { lost } else { most * i64::from(block.fraction_lost) / 256 };
        // The same report again would tell of a round trip that has grown since.
        let stamp = (block.last_sender_report.map(NtpShort::to_bits), block.delay_since_last.to_bits());
        let is_new = before.stamp != Some(stamp);
        let round_trip = block.round_trip(now).filter(|&time| is_new && time >= TimeDelta::ZERO);
        self.reported = Some(Reported { count, lost: block.cumulative_lost, stamp: Some(stamp) });
        Some(Told { lost, expected, round_trip })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that has sent `count` packets, the first of them with number `first`.
    fn sent(first: u16, count: u64) -> RtpStream {
        let mut rtp = RtpStream::new(1, 96, first.into());
        for transport_sequence in 0..count {
            let fields = PacketFields {
                marker: false,
                media_timestamp: 0,
                transport_sequence,
                payload: DataSize::ZERO,
            };
            rtp.write(Timestamp::ZERO, FeedbackKind::ReceiverReports, fields);
        }
        rtp
    }

    fn told(
        rtp: &mut RtpStream,
        highest_sequence: u32,
        cumulative_lost: i32,
        fraction_lost: u8,
    ) -> Option<(i64, u64)> {
        let block = ReportBlock {
            ssrc: 1,
            fraction_lost,
            cumulative_lost,
            highest_sequence,
            ..ReportBlock::default()
        };
        rtp.on_block(NtpShort::default(), &block).map(|told| (told.lost, told.expected))
    }

    #[test]
    fn a_receiver_that_missed_the_packets_before_a_wrap_is_heard() {
        // It has not seen 65533 to 65535, and so counts no wrap (RFC 3550 A.1): numbers 0 to 9 of the 13 that were sent.
        let mut rtp = sent(65_533, 13);
        assert_eq!(told(&mut rtp, 9, 5, 128), Some((5, 13)));
    }

    #[test]
    fn a_receiver_that_begins_anew_has_lost_what_its_fraction_says() {
        let mut rtp = sent(0, 70_000);
        assert_eq!(told(&mut rtp, 69_899, 200, 0), Some((200, 69_900)));
        // The last hundred, in a cycle and with a count of its own: a quarter is lost.
        assert_eq!(told(&mut rtp, 69_999 - 65_536, 0, 64), Some((25, 100)));
    }

    #[test]
    fn what_was_never_sent_or_was_told_before_is_not_told() {
        let mut rtp = sent(0, 100);
        assert_eq!(told(&mut rtp, 0x7fff_fffe, 0, 0), None);
        assert_eq!(told(&mut rtp, 49, 5, 26), Some((5, 50)));
        assert_eq!(told(&mut rtp, 29, 3, 26), None, "overtaken");
        assert_eq!(told(&mut rtp, 49, 5, 26), Some((0, 0)), "the same again");
    }
}
