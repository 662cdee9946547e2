//! Congestion-control feedback (RFC 8888): the arrival time and ECN mark of each packet of each stream.
//!
//! A report tells of each stream that something new is known of, from the first packet that has not been told. Two things make
//! reports overlap, which RFC 8888 §3.1 allows: a packet that comes late, or a mark on a further copy, begins the next one
//! at its number; and numbers that were missing when they were first told of are told once more, so that one lost report does not
//! hide how they ended.

use std::collections::VecDeque;

use giusto_rtp::{
    NtpShort,
    rtcp::{ArrivalOffset, CongestionFeedback, PacketReception, StreamFeedback},
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::window::{ArrivalWindow, Noted};

/// The largest report: below 1200 bytes, in whole words.
const MOST_BYTES: usize = 1196;
/// A stream without packets (RFC 8888 §3.1).
const STREAM_BYTES: usize = 8;
/// A packet of a stream (RFC 8888 §3.1).
const PACKET_BYTES: usize = 2;
/// UDP over IPv4.
const OVERHEAD: DataSize = DataSize::from_bytes(28);
/// libwebrtc, `congestion_control_feedback_generator.cc`.
const MOST_INTERVAL: TimeDelta = TimeDelta::from_millis(500);
/// So long after the first packet a report leaves, unless a marker comes before
/// (draft-ietf-ccwg-rfc8298bis-screamv2-01 §"Receiver Requirements on Feedback Intensity").
const MARKER_WAIT: TimeDelta = TimeDelta::from_millis(40);
/// Or so many packets (same section).
const MOST_PACKETS: u32 = 16;
/// The most that reports take (libwebrtc, `congestion_control_feedback_generator.cc`).
const MOST_RATE: DataRate = DataRate::from_bps(500_000);
/// Reported arrivals are remembered for so long, to be reported again.
const REMEMBERED: TimeDelta = TimeDelta::from_millis(500);
/// As many streams as a receiver report has blocks for; where there are more, the one silent for longest is forgotten.
const MOST_STREAMS: usize = 31;
/// A quarter of the sequence numbers: across a longer gap a report does not reach (RFC 8888 §3.1).
const LONGEST_GAP: u64 = 16_384;

/// Collects arrivals and tells of them.
#[derive(Debug)]
pub(super) struct CongestionReporter {
    sender_ssrc: u32,
    streams: Vec<Stream>,
    /// A report is due as soon as it may leave: a marker came, or enough packets.
    marked: bool,
    packets: u32,
    /// The first arrival since the last report.
    since: Option<Timestamp>,
    /// The next report leaves then at the earliest.
    earliest: Timestamp,
    /// Report bytes in excess of [`MOST_RATE`], and the time of that balance.
    debt: (DataSize, Timestamp),
}

#[derive(Debug)]
struct Stream {
    ssrc: u32,
    heard_at: Timestamp,
    window: ArrivalWindow<(Timestamp, Ecn)>,
    /// The first number that was missing when it was first told of.
    missing: Option<u64>,
    /// All below it has been told of once.
    told: u64,
}

impl CongestionReporter {
    pub(super) const fn new(sender_ssrc: u32) -> Self {
        Self {
            sender_ssrc,
            streams: Vec::new(),
            marked: false,
            packets: 0,
            since: None,
            earliest: Timestamp::ZERO,
            debt: (DataSize::ZERO, Timestamp::ZERO),
        }
    }

    /// A packet of a stream came.
    pub(super) fn on_packet(&mut self, now: Timestamp, (ssrc, sequence): (u32, u16), marker: bool, ecn: Ecn) {
        let Some(stream) = self.stream(now, ssrc) else { return };
        stream.heard_at = now;
        match stream.window.note(sequence, (now, ecn)) {
            Noted::New => {}
            Noted::Again(number, (_, known)) if ecn == Ecn::Ce && *known != Ecn::Ce => {
                *known = Ecn::Ce;
                stream.window.tell_again(number);
            }
            Noted::Again(..) | Noted::Forgotten => return,
        }
        self.packets = self.packets.saturating_add(1);
        self.marked |= marker || self.packets >= MOST_PACKETS;
        self.since.get_or_insert(now);
    }

    /// When a report is due, if there is something to tell.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let since = self.since?;
        Some(if self.marked { self.earliest } else { self.earliest.max(since + MARKER_WAIT) })
    }

    /// Tells all that has not been told, in as many datagrams as that takes.
    pub(super) fn write(&mut self, now: Timestamp, datagrams: &mut VecDeque<Vec<u8>>) {
        let mut reports = vec![self.empty(now)];
        for stream in self.streams.iter_mut().filter(|stream| stream.window.has_untold()) {
            let pieces = stream.take(now);
            for piece in pieces {
                spread(piece, &mut reports);
            }
        }
        let mut size = DataSize::ZERO;
        for report in reports.iter().filter(|report| !report.streams.is_empty()) {
            let mut datagram = Vec::new();
            if report.write(&mut datagram).is_ok() {
                size = size + OVERHEAD + DataSize::from_bytes(datagram.len() as u64);
                datagrams.push_back(datagram);
            }
        }
        self.pay(now, size);
        (self.marked, self.packets, self.since) = (false, 0, None);
    }

    fn pay(&mut self, now: Timestamp, size: DataSize) {
        let (debt, before) = self.debt;
        let debt = debt.saturating_sub(MOST_RATE.size_in(now - before)) + size;
        self.debt = (debt, now);
        let time = MOST_RATE.time_for(debt).unwrap_or(MOST_INTERVAL);
        // What is beyond the longest interval is a debt that has to be paid first, whatever was told.
        self.earliest = now + time;
    }

    fn empty(&self, now: Timestamp) -> CongestionFeedback {
        let time = NtpShort::from_timestamp(now);
        CongestionFeedback { sender_ssrc: self.sender_ssrc, streams: Vec::new(), time }
    }

    fn stream(&mut self, now: Timestamp, ssrc: u32) -> Option<&mut Stream> {
        let known = self.streams.iter().position(|stream| stream.ssrc == ssrc);
        let place = known.unwrap_or_else(|| {
            let longest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.heard_at);
            if let Some((longest, _)) = longest.filter(|_| self.streams.len() >= MOST_STREAMS) {
                self.streams.remove(longest);
            }
            let window = ArrivalWindow::new();
            self.streams.push(Stream { ssrc, heard_at: now, window, missing: None, told: 0 });
            self.streams.len() - 1
        });
        self.streams.get_mut(place)
    }
}

impl Stream {
    /// The arrivals to be reported, in pieces without long gaps; from now on they count as reported.
    fn take(&mut self, now: Timestamp) -> Vec<StreamFeedback> {
        if let Some(missing) = self.missing.take() {
            self.window.tell_again(missing);
        }
        if self.window.highest().is_some_and(|highest| highest + 1 < self.told) {
            // The sender has begun to count anew.
            self.told = 0;
        }
        let (ssrc, mut next) = (self.ssrc, self.window.next());
        let begin = |number: u64| StreamFeedback { ssrc, begin_sequence: number as u16, packets: Vec::new() };
        let mut piece = begin(next);
        let mut pieces = Vec::new();
        for (number, &(at, ecn)) in self.window.from(next) {
            let gap = number - next;
            if gap >= LONGEST_GAP {
                pieces.push(std::mem::replace(&mut piece, begin(number)));
            } else {
                piece.packets.extend(std::iter::repeat_n(None, gap as usize));
                let first = next.max(self.told);
                if first < number && self.missing.is_none() {
                    self.missing = Some(first);
                }
            }
            let offset = ArrivalOffset::from_delta(now - at);
            piece.packets.push(Some(PacketReception { ecn, offset }));
            next = number + 1;
        }
        pieces.push(piece);
        self.told = self.told.max(next);
        self.window.told(|(at, _)| now.saturating_since(*at) >= REMEMBERED);
        pieces.retain(|piece| !piece.packets.is_empty());
        pieces
    }
}

/// Puts a stream into the last of the reports, and into further ones where it does not fit.
fn spread(piece: StreamFeedback, reports: &mut Vec<CongestionFeedback>) {
    let StreamFeedback { ssrc, mut begin_sequence, mut packets } = piece;
    while let Some(report) = reports.last_mut() {
        // In whole words.
        let left = MOST_BYTES.saturating_sub(report.byte_len() + STREAM_BYTES);
        let fitting = left / (2 * PACKET_BYTES) * 2;
        if fitting < packets.len() && !report.streams.is_empty() {
            let empty = CongestionFeedback {
                sender_ssrc: report.sender_ssrc,
                streams: Vec::new(),
                time: report.time,
            };
            reports.push(empty);
            continue;
        }
        let rest = packets.split_off(fitting.min(packets.len()));
        let count = packets.len() as u16;
        report.streams.push(StreamFeedback { ssrc, begin_sequence, packets });
        if rest.is_empty() {
            return;
        }
        (begin_sequence, packets) = (begin_sequence.wrapping_add(count), rest);
    }
}
