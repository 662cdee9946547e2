//! The repair packets of a sender, and when they are sent.

use std::collections::VecDeque;

use giusto_congestion::{FeedbackKind, RtpId};
use giusto_rtp::{RTX_HEADER_BYTES, RtxHeader};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    meter::Meter,
    sent::{SentPacket, SentPackets},
};
use crate::media::{
    payload::Payload,
    queue::QueuedPacket,
    stream::{MediaStream, PacketFields, RtpStream},
};

/// Minimum interval between two transmissions of a packet before the RTT is known (libwebrtc, `nack_requester.cc`,
/// `kDefaultRtt`).
const DEFAULT_RTT: TimeDelta = TimeDelta::from_millis(100);
/// Maximum number of queued repair packets of all streams; further requests are dropped (libwebrtc,
/// `nack_requester.cc`, `kMaxNackPackets`).
const MAX_QUEUED: usize = 1000;

/// A repair packet that is due.
#[derive(Debug, Clone, Copy)]
pub(in crate::media) struct Wanted {
    /// Index of its stream.
    pub(in crate::media) stream: usize,
    /// The number of the packet to retransmit.
    number: u64,
    /// Its size for the pacer, headers included.
    pub(in crate::media) size: DataSize,
}

/// Counts of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::media) struct RepairCounts {
    pub(in crate::media) retransmitted_packets: u64,
    pub(in crate::media) size: DataSize,
    pub(in crate::media) requested_packets: u64,
    pub(in crate::media) late_packets: u64,
}

/// The repair of all streams. Its indices are those of the streams.
#[derive(Debug)]
pub(in crate::media) struct Repairs {
    lines: Vec<Option<Line>>,
    queue: VecDeque<Wanted>,
    /// The latest RTT.
    rtt: Option<TimeDelta>,
    headers: DataSize,
}

#[derive(Debug)]
struct Line {
    rtx: RtpStream,
    deadline: TimeDelta,
    sent: SentPackets,
    meter: Meter,
    counts: RepairCounts,
}

impl Repairs {
    /// `headers`: header bytes of each packet.
    pub(in crate::media) fn new(streams: &[MediaStream], headers: DataSize) -> Self {
        let line = |stream: &MediaStream| {
            let (ssrc, payload_type) = stream.repair.rtx?;
            Some(Line {
                rtx: RtpStream::new(ssrc, payload_type, stream.timestamp_offset),
                deadline: stream.repair.deadline.max(TimeDelta::ZERO),
                sent: SentPackets::default(),
                meter: Meter::default(),
                counts: RepairCounts::default(),
            })
        };
        Self { lines: streams.iter().map(line).collect(), queue: VecDeque::new(), rtt: None, headers }
    }

    /// Whether any stream is repaired.
    pub(in crate::media) fn is_on(&self) -> bool {
        self.lines.iter().any(Option::is_some)
    }

    pub(in crate::media) fn on_round_trip(&mut self, rtt: TimeDelta) {
        self.rtt = Some(rtt);
    }

    pub(in crate::media) fn counts(&self, stream: usize) -> RepairCounts {
        self.line(stream).map_or_else(RepairCounts::default, |line| line.counts)
    }

    /// The rate of the repair packets of a stream over the last second.
    pub(in crate::media) fn rate(&mut self, now: Timestamp, stream: usize) -> DataRate {
        self.line_mut(stream).map_or(DataRate::ZERO, |line| line.meter.rate(now))
    }

    /// The sources of the streams that have sent repair packets.
    pub(in crate::media) fn sources(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().flatten().filter(|line| line.rtx.has_sent()).map(|line| line.rtx.ssrc)
    }

    /// Handles a sent packet with this number.
    pub(in crate::media) fn on_sent(&mut self, now: Timestamp, number: u64, packet: &QueuedPacket) {
        let Some(line) = self.line_mut(packet.stream) else { return };
        let &QueuedPacket { media_timestamp, marker, since, .. } = packet;
        let payload = packet.payload.clone();
        let sent = SentPacket { media_timestamp, marker, payload, since, sent_at: now, queued: false };
        line.sent.push(now, number, sent, line.deadline);
    }

    /// Handles a request for packets of `stream`. A packet is queued if it would come in time and was not sent within
    /// the last RTT.
    pub(in crate::media) fn on_nack(&mut self, now: Timestamp, stream: usize, numbers: impl Iterator<Item = u16>) {
        let (headers, rtt) = (self.headers, self.rtt);
        let Some(line) = self.lines.get_mut(stream).and_then(Option::as_mut) else { return };
        for sequence in numbers {
            line.counts.requested_packets += 1;
            let Some((number, packet)) = line.sent.find(sequence) else { continue };
            let is_recent = now.saturating_since(packet.sent_at) < rtt.unwrap_or(DEFAULT_RTT);
            if packet.queued || is_recent || self.queue.len() >= MAX_QUEUED {
                continue;
            }
            if is_late(now, packet, (line.deadline, rtt)) {
                line.counts.late_packets += 1;
                continue;
            }
            packet.queued = true;
            let size = headers + DataSize::from_bytes(RTX_HEADER_BYTES as u64) + packet.payload.size();
            self.queue.push_back(Wanted { stream, number, size });
        }
    }

    /// The next repair packet. Those that would come too late are removed by [`drop_late`](Self::drop_late).
    pub(in crate::media) fn next(&self) -> Option<&Wanted> {
        self.queue.front()
    }

    /// Removes the packets at the front of the queue that would come too late, or that are no longer stored.
    pub(in crate::media) fn drop_late(&mut self, now: Timestamp) {
        while let Some(&Wanted { stream, number, .. }) = self.queue.front() {
            let rtt = self.rtt;
            if let Some(line) = self.line_mut(stream)
                && let Some(packet) = line.sent.packet(number)
            {
                if !is_late(now, packet, (line.deadline, rtt)) {
                    return;
                }
                packet.queued = false;
                line.counts.late_packets += 1;
            }
            self.queue.pop_front();
        }
    }

    /// Removes all queued packets.
    pub(in crate::media) fn clear(&mut self) {
        self.queue.clear();
    }

    /// Takes the next repair packet. Returns it, and the identity of the packet to be sent.
    pub(in crate::media) fn pop(&mut self) -> Option<(Wanted, RtpId)> {
        let wanted = self.queue.pop_front()?;
        let line = self.line_mut(wanted.stream)?;
        let media_timestamp = line.sent.packet(wanted.number)?.media_timestamp;
        Some((wanted, line.rtx.id(media_timestamp)))
    }

    /// Writes a packet with this transport-wide number: header and payload.
    pub(in crate::media) fn write(
        &mut self,
        now: Timestamp,
        wanted: Wanted,
        (feedback, transport_sequence): (FeedbackKind, u16),
    ) -> Option<(Vec<u8>, Payload)> {
        let line = self.line_mut(wanted.stream)?;
        let packet = line.sent.packet(wanted.number)?;
        (packet.sent_at, packet.queued) = (now, false);
        let (media_timestamp, marker, payload) = (packet.media_timestamp, packet.marker, packet.payload.clone());
        let size = DataSize::from_bytes(RTX_HEADER_BYTES as u64) + payload.size();
        let fields = PacketFields { marker, media_timestamp, transport_sequence, payload: size };
        let mut head = line.rtx.write(now, feedback, fields);
        head.extend(RtxHeader { original_sequence: wanted.number as u16 }.to_bytes());
        line.counts.retransmitted_packets += 1;
        line.counts.size += DataSize::from_bytes(head.len() as u64) + payload.size();
        line.meter.on_packet(now, wanted.size);
        Some((head, payload))
    }

    fn line(&self, stream: usize) -> Option<&Line> {
        self.lines.get(stream)?.as_ref()
    }

    fn line_mut(&mut self, stream: usize) -> Option<&mut Line> {
        self.lines.get_mut(stream)?.as_mut()
    }
}

/// Whether a packet that is sent now would arrive later than its deadline. The delay to the receiver is taken as half
/// of the RTT.
fn is_late(now: Timestamp, packet: &SentPacket, (deadline, rtt): (TimeDelta, Option<TimeDelta>)) -> bool {
    now.saturating_since(packet.since) + rtt.unwrap_or_default() / 2 > deadline
}
