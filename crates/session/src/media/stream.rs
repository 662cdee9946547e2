//! One source of media, and its RTP packets.

use std::collections::VecDeque;

use giusto_congestion::FeedbackKind;
use giusto_rtp::{
    AbsSendTime, ExtensionForm, ExtensionWriter, NtpShort, NtpTimestamp, RTP_HEADER_BYTES, RtpHeader,
    TransportSequence,
    rtcp::{ReportBlock, SenderReport},
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
    pub(super) transport_sequence: u64,
    pub(super) payload: DataSize,
}

/// What a report said last.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    /// Packets sent up to the highest that was received.
    count: u64,
    lost: i32,
    /// Which sender report it answers, and after how long.
    stamp: Option<(Option<u32>, u32)>,
}

/// What is new in a report.
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
    first: (u16, u32),
    sent_packets: u32,
    sent_payload: u32,
    next: u64,
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
    pub(super) fn new(ssrc: u32, payload_type: u8, first: (u16, u32)) -> Self {
        Self {
            ssrc,
            payload_type,
            first,
            sent_packets: 0,
            sent_payload: 0,
            next: u64::from(first.0),
            numbers: VecDeque::new(),
            first_number: u64::from(first.0),
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
        self.numbers.push_back(says.transport_sequence);
        self.sent_packets = self.sent_packets.wrapping_add(1);
        self.sent_payload = self.sent_payload.wrapping_add(says.payload.as_bytes() as u32);
        let mut head = vec![0; Self::head_bytes(feedback) as usize];
        self.elements.clear();
        let mut writer = ExtensionWriter::new(ExtensionForm::OneByte, &mut self.elements);
        let pushed = match feedback {
            FeedbackKind::TransportWide => {
                let number = TransportSequence::new(says.transport_sequence as u16);
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

    /// What a report says that is new; `None` for one that was overtaken, or that is of packets that were never sent.
    pub(super) fn on_block(&mut self, now: NtpShort, block: &ReportBlock) -> Option<Told> {
        // The upper bits are the receiver's own count of wraps, and begin wherever it began: only the lower say which packet.
        let latest = self.next.checked_sub(1)?;
        let behind = u64::from((latest as u16).wrapping_sub(block.highest_sequence as u16));
        let count = (latest.checked_sub(behind)? + 1)
            .checked_sub(u64::from(self.first.0))
            .filter(|&count| count > 0)?;
        let before = self.reported.unwrap_or_default();
        let expected = count.checked_sub(before.count)?;
        let lost = i64::from(block.cumulative_lost) - i64::from(before.lost);
        // A receiver that has begun to count anew has lost what its fraction says.
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
        let mut rtp = RtpStream::new(1, 96, (first, 0));
        for transport_sequence in 0..count {
            let says =
                Says { marker: false, media_timestamp: 0, transport_sequence, payload: DataSize::ZERO };
            rtp.write(Timestamp::ZERO, FeedbackKind::ReceiverReports, says);
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
