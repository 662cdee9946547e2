//! The repair packets of a sender, and when they are sent.

use std::collections::VecDeque;

use giusto_congestion::{FeedbackKind, RtpId};
use giusto_rtp::{RTX_HEADER_BYTES, RtpHeader, RtxHeader};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    meter::Meter,
    parity::{ParityEncoder, ParityPacket},
    sent::{SentPacket, SentPackets},
};
use crate::media::{
    datagram::DatagramHead,
    extensions::ExtensionIds,
    payload::Payload,
    queue::QueuedPacket,
    repair_settings::RepairKind,
    stream::{MediaStream, PacketFields, RtpStream},
};

/// Minimum interval between two retransmissions of a packet before the RTT is known. Chosen by us: half of the interval at which receivers
/// then repeat a request (libwebrtc, `nack_requester.cc`, `kDefaultRtt`), so that a retransmission that had to wait does not stop the next.
const DEFAULT_RTT: TimeDelta = TimeDelta::from_millis(50);
/// Maximum number of queued repair packets of all streams; further requests are dropped (libwebrtc,
/// `nack_requester.cc`, `kMaxNackPackets`).
const MAX_QUEUED: usize = 1000;

/// A repair packet that is due.
#[derive(Debug, Clone)]
pub(in crate::media) struct Wanted {
    /// Index of its stream.
    pub(in crate::media) stream: usize,
    item: Item,
    /// Its size for the pacer, headers included.
    pub(in crate::media) size: DataSize,
}

#[derive(Debug, Clone)]
enum Item {
    /// The packet with this number, again.
    Retransmission(u64),
    Parity(ParityPacket),
}

impl Wanted {
    pub(in crate::media) const fn kind(&self) -> RepairKind {
        match self.item {
            Item::Retransmission(_) => RepairKind::Retransmission,
            Item::Parity(_) => RepairKind::Parity,
        }
    }
}

/// Header bytes of a parity packet above those of other packets: one contributing source (RFC 3550 §5.1).
const SOURCE_BYTES: u64 = 4;

/// Counts of the packets of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::media) struct RepairCounts {
    pub(in crate::media) retransmitted: u64,
    pub(in crate::media) parity: u64,
    pub(in crate::media) requested: u64,
    pub(in crate::media) late: u64,
}

/// The repair of all streams. Its indices are those of the streams.
#[derive(Debug)]
pub(in crate::media) struct Repairs {
    lines: Vec<Option<Line>>,
    queue: VecDeque<Wanted>,
    /// The RTT without the queueing delay of single reports.
    rtt: Option<TimeDelta>,
    headers: DataSize,
}

#[derive(Debug)]
struct Line {
    /// The source of the repaired stream.
    ssrc: u32,
    rtx: Option<RtpStream>,
    parity: Option<(RtpStream, ParityEncoder)>,
    deadline: TimeDelta,
    sent: SentPackets,
    meter: Meter,
    counts: RepairCounts,
}

impl Repairs {
    /// `headers`: header bytes of each packet.
    pub(in crate::media) fn new(streams: &[MediaStream], headers: DataSize) -> Self {
        let line = |stream: &MediaStream| {
            let rtp = |ssrc, payload_type| RtpStream::new(ssrc, payload_type, stream.timestamp_offset);
            let rtx = stream.repair.rtx.map(|(ssrc, payload_type)| rtp(ssrc, payload_type));
            let parity = stream
                .repair
                .parity
                .map(|parity| (rtp(parity.ssrc, parity.payload_type), ParityEncoder::new(parity.ratio)));
            (rtx.is_some() || parity.is_some()).then(|| Line {
                ssrc: stream.ssrc,
                rtx,
                parity,
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

    /// Handles a measured RTT. The value falls at once and rises slowly: a repetition that is asked for after the RTT must not be taken for
    /// one that is too soon.
    pub(in crate::media) fn on_rtt(&mut self, rtt: TimeDelta) {
        let raised = |before: TimeDelta| before + (rtt - before) / 8;
        self.rtt = Some(self.rtt.map_or(rtt, |before| raised(before).min(rtt)));
    }

    /// Handles the loss ratio of a receiver report.
    pub(in crate::media) fn on_loss(&mut self, ratio: f64) {
        let encoders = self.lines.iter_mut().flatten().filter_map(|line| line.parity.as_mut());
        encoders.for_each(|(_, encoder)| encoder.on_loss(ratio));
    }

    pub(in crate::media) fn counts(&self, stream: usize) -> RepairCounts {
        self.line(stream).map_or_else(RepairCounts::default, |line| line.counts)
    }

    /// The rate of the repair packets of a stream over the last second.
    pub(in crate::media) fn rate(&mut self, now: Timestamp, stream: usize) -> DataRate {
        self.line_mut(stream).map_or(DataRate::ZERO, |line| line.meter.rate(now))
    }

    /// The retransmission stream with this source.
    pub(in crate::media) fn retransmissions(&mut self, ssrc: u32) -> Option<&mut RtpStream> {
        let lines = self.lines.iter_mut().flatten();
        lines.filter_map(|line| line.rtx.as_mut()).find(|rtx| rtx.ssrc == ssrc)
    }

    pub(in crate::media) fn set_extension_ids(&mut self, ids: ExtensionIds) {
        for line in self.lines.iter_mut().flatten() {
            let parity = line.parity.as_mut().map(|(rtp, _)| rtp);
            for rtp in line.rtx.as_mut().into_iter().chain(parity) {
                *rtp = rtp.clone().with_extension_ids(ids);
            }
        }
    }

    /// The sources of the streams that have sent repair packets.
    pub(in crate::media) fn sources(&self) -> impl Iterator<Item = u32> {
        let lines = self.lines.iter().flatten();
        let all = lines.flat_map(|line| [line.rtx.as_ref(), line.parity.as_ref().map(|(rtp, _)| rtp)]);
        all.flatten().filter(|rtp| rtp.has_sent()).map(|rtp| rtp.ssrc)
    }

    /// Handles a sent packet with this number and header. `ends`: it is the last of its frame.
    pub(in crate::media) fn on_sent(
        &mut self,
        now: Timestamp,
        number: u64,
        head: &[u8],
        ends: bool,
        packet: &QueuedPacket,
    ) {
        let headers = self.headers;
        let Some(line) = self.lines.get_mut(packet.stream).and_then(Option::as_mut) else { return };
        let &QueuedPacket { stream, media_timestamp, marker, since, .. } = packet;
        if line.rtx.is_some() {
            let payload = packet.payload.clone();
            let sent =
                SentPacket { media_timestamp, marker, payload, since, repeated_at: None, queued: false };
            line.sent.push(now, number, sent, line.deadline);
        }
        if let Some((_, encoder)) = &mut line.parity {
            let content = (head, &packet.payload);
            for parity in encoder.on_sent(now, (number, since, ends), content, line.deadline) {
                if self.queue.len() >= MAX_QUEUED {
                    return;
                }
                let content = DataSize::from_bytes(parity.begin.len() as u64 + SOURCE_BYTES) + parity.zeros;
                let item = Item::Parity(parity);
                self.queue.push_back(Wanted { stream, item, size: headers + content });
            }
        }
    }

    /// Handles a request for packets of `stream`. A packet is queued if it would come in time and was not sent
    /// again within the last RTT, as in libwebrtc (`rtp_packet_history.cc`, `VerifyRtt`).
    pub(in crate::media) fn on_nack(
        &mut self,
        now: Timestamp,
        stream: usize,
        numbers: impl Iterator<Item = u16>,
    ) {
        let (headers, rtt) = (self.headers, self.rtt);
        let line = self.lines.get_mut(stream).and_then(Option::as_mut);
        let Some(line) = line.filter(|line| line.rtx.is_some()) else { return };
        for sequence in numbers {
            line.counts.requested += 1;
            let Some((number, packet)) = line.sent.find(sequence) else { continue };
            let again = packet.repeated_at.map(|last| now.saturating_since(last));
            let is_recent = again.is_some_and(|passed| passed < rtt.unwrap_or(DEFAULT_RTT));
            if packet.queued || is_recent || self.queue.len() >= MAX_QUEUED {
                continue;
            }
            if is_late(now, packet.since, line.deadline) {
                line.counts.late += 1;
                continue;
            }
            packet.queued = true;
            let size = headers + DataSize::from_bytes(RTX_HEADER_BYTES as u64) + packet.payload.size();
            self.queue.push_back(Wanted { stream, item: Item::Retransmission(number), size });
        }
    }

    /// The next repair packet. Those that would come too late are removed by [`drop_late`](Self::drop_late).
    pub(in crate::media) fn next(&self) -> Option<&Wanted> {
        self.queue.front()
    }

    /// Removes the packets at the front of the queue that would come too late, or that are no longer stored.
    pub(in crate::media) fn drop_late(&mut self, now: Timestamp) {
        while let Some(Wanted { stream, item, .. }) = self.queue.front() {
            if let Some(line) = self.lines.get_mut(*stream).and_then(Option::as_mut) {
                let (stored, since) = match item {
                    Item::Parity(parity) => (None, Some(parity.since)),
                    Item::Retransmission(number) => {
                        let stored = line.sent.packet(*number);
                        let since = stored.as_ref().map(|packet| packet.since);
                        (stored, since)
                    }
                };
                if since.is_some_and(|since| !is_late(now, since, line.deadline)) {
                    return;
                }
                if let Some(packet) = stored {
                    packet.queued = false;
                }
                line.counts.late += 1;
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
        let id = match &wanted.item {
            Item::Retransmission(number) => line.rtx.as_ref()?.id(line.sent.packet(*number)?.media_timestamp),
            Item::Parity(_) => line.parity.as_ref()?.0.id(0),
        };
        Some((wanted, id))
    }

    /// Writes a packet with this transport-wide number: header and payload.
    pub(in crate::media) fn write(
        &mut self,
        now: Timestamp,
        wanted: Wanted,
        feedback: FeedbackKind,
        transport_sequence: u16,
    ) -> Option<(DatagramHead, Payload)> {
        let line = self.line_mut(wanted.stream)?;
        let (head, payload) = match wanted.item {
            Item::Retransmission(number) => {
                let packet = line.sent.packet(number)?;
                (packet.repeated_at, packet.queued) = (Some(now), false);
                let &mut SentPacket { media_timestamp, marker, .. } = packet;
                let payload = packet.payload.clone();
                let size = DataSize::from_bytes(RTX_HEADER_BYTES as u64) + payload.size();
                let fields = PacketFields {
                    marker,
                    media_timestamp,
                    transport_sequence,
                    captured: None,
                    payload: size,
                };
                let mut head = line.rtx.as_mut()?.write(now, feedback, fields);
                head.extend(RtxHeader { original_sequence: number as u16 }.to_bytes());
                line.counts.retransmitted += 1;
                (head, payload)
            }
            Item::Parity(ParityPacket { begin, zeros, .. }) => {
                let size = DataSize::from_bytes(begin.len() as u64) + zeros;
                let fields = PacketFields {
                    marker: false,
                    media_timestamp: 0,
                    transport_sequence,
                    captured: None,
                    payload: size,
                };
                let mut head = line.parity.as_mut()?.0.write(now, feedback, fields).into_vec();
                RtpHeader::insert_sources(&mut head, &[line.ssrc]);
                head.extend(begin);
                line.counts.parity += 1;
                (head.into(), Payload::zeros(zeros))
            }
        };
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

/// Whether a packet of a frame that was pushed at `since` would come too late if it were sent now. The delay of the path is part of
/// both: of the time at which it would arrive, and of the time at which the frame is due.
fn is_late(now: Timestamp, since: Timestamp, deadline: TimeDelta) -> bool {
    now.saturating_since(since) > deadline
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::{RateRange, StreamRepair};

    #[test]
    fn a_queue_before_a_report_delays_no_repetition() {
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        let limits = RateRange::fixed(DataRate::from_bps(1_000_000));
        let repair = StreamRepair { rtx: Some((2, 98)), ..StreamRepair::default() };
        let stream = MediaStream { repair, ..MediaStream::video(1, 96, limits) };
        let mut repairs = Repairs::new(&[stream], DataSize::from_bytes(40));
        let packet = QueuedPacket {
            stream: 0,
            media_timestamp: 0,
            marker: true,
            payload: vec![0; 100].into(),
            captured: None,
            since: at(0),
            size: DataSize::from_bytes(140),
        };
        repairs.on_sent(at(0), 7, &[0; 12], true, &packet);
        let repeats = |repairs: &mut Repairs, ms: u64| {
            repairs.on_nack(at(ms), 0, [7].into_iter());
            let wanted = repairs.pop().map(|(wanted, _)| wanted);
            wanted
                .and_then(|wanted| repairs.write(at(ms), wanted, FeedbackKind::ReceiverReports, 0))
                .is_some()
        };
        // Before the RTT is known, requests come every 100 ms; the first retransmission waited for 2 ms.
        assert_eq!([32, 40, 130].map(|ms| repeats(&mut repairs, ms)), [true, false, true]);
        // The RTT is 60 ms, and some reports wait for 8 ms.
        for rtt in [60, 68] {
            repairs.on_rtt(TimeDelta::from_millis(rtt));
        }
        assert_eq!([180, 195, 250].map(|ms| repeats(&mut repairs, ms)), [false, true, false]);
        // After a change of the route it rises.
        (0..40).for_each(|_| repairs.on_rtt(TimeDelta::from_millis(200)));
        assert!(repairs.rtt > Some(TimeDelta::from_millis(195)));
    }
}
