//! Congestion-control feedback (RFC 8888): the arrival time and ECN mark of each packet of each stream.
//!
//! A report covers each stream with new information, from its first unreported packet on. Two rules make
//! reports overlap, which RFC 8888 §3.1 allows. A late packet, or a mark on a duplicate, makes the next
//! report start at its number. Numbers that were missing in their first report are reported once more, so
//! that the loss of one report does not hide their fate.

use std::collections::VecDeque;

use giusto_rtp::{
    NtpShort,
    rtcp::{ArrivalOffset, CongestionFeedback, PacketReception, StreamFeedback},
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{
    sources::MAX_SOURCES,
    window::{ArrivalWindow, Noted},
};

/// Maximum size of a report: below 1200 bytes, in whole words.
const MAX_BYTES: usize = 1196;
/// Size of a stream without packets (RFC 8888 §3.1).
const STREAM_BYTES: usize = 8;
/// Size of a packet of a stream (RFC 8888 §3.1).
const PACKET_BYTES: usize = 2;
/// UDP over IPv4.
const OVERHEAD: DataSize = DataSize::from_bytes(28);
/// libwebrtc, `congestion_control_feedback_generator.cc`.
const MAX_INTERVAL: TimeDelta = TimeDelta::from_millis(500);
/// Time after the first packet at which a report is sent, unless there is a marker before
/// (draft-ietf-ccwg-rfc8298bis-screamv2-01 §"Receiver Requirements on Feedback Intensity").
const MARKER_WAIT: TimeDelta = TimeDelta::from_millis(40);
/// Number of packets after which a report is sent (same section).
const MAX_PACKETS: u32 = 16;
/// Maximum rate of reports (libwebrtc, `congestion_control_feedback_generator.cc`).
const MAX_RATE: DataRate = DataRate::from_bps(500_000);
/// Time for which reported arrivals are stored, to be reported again.
const REMEMBERED: TimeDelta = TimeDelta::from_millis(500);
/// A quarter of the sequence numbers: a report cannot cover a longer gap (RFC 8888 §3.1).
const MAX_GAP: u64 = 16_384;

/// Collects arrivals and writes reports.
#[derive(Debug, Default)]
pub(super) struct CongestionReporter {
    sender_ssrc: u32,
    streams: Vec<Stream>,
    /// Whether a report is due as soon as permitted: there was a marker, or there are enough packets.
    marked: bool,
    packets: u32,
    /// The first arrival since the last report.
    since: Option<Timestamp>,
    /// Earliest time of the next report.
    earliest: Timestamp,
    /// Report bytes above [`MAX_RATE`], and the time of that balance.
    debt: (DataSize, Timestamp),
}

#[derive(Debug)]
struct Stream {
    ssrc: u32,
    last_packet_at: Timestamp,
    window: ArrivalWindow<(Timestamp, Ecn)>,
    /// The first number that was missing in its first report.
    missing: Option<u64>,
    /// All numbers below this have been reported once.
    reported_below: u64,
}

impl CongestionReporter {
    pub(super) fn new(sender_ssrc: u32) -> Self {
        Self { sender_ssrc, debt: (DataSize::ZERO, Timestamp::ZERO), ..Self::default() }
    }

    /// Handles a packet of a stream.
    pub(super) fn on_packet(&mut self, now: Timestamp, ssrc: u32, sequence: u16, marker: bool, ecn: Ecn) {
        let Some(stream) = self.stream(now, ssrc) else { return };
        stream.last_packet_at = now;
        match stream.window.note(sequence, (now, ecn)) {
            Noted::New => {}
            Noted::Again(number, (_, known)) if ecn == Ecn::Ce && *known != Ecn::Ce => {
                *known = Ecn::Ce;
                stream.window.report_again(number);
            }
            Noted::Again(..) | Noted::TooOld => return,
        }
        self.packets = self.packets.saturating_add(1);
        self.marked |= marker || self.packets >= MAX_PACKETS;
        self.since.get_or_insert(now);
    }

    /// Time at which a report is due, if there is anything to report.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let since = self.since?;
        Some(if self.marked { self.earliest } else { self.earliest.max(since + MARKER_WAIT) })
    }

    /// Reports all unreported arrivals, in as many datagrams as necessary.
    pub(super) fn write(&mut self, now: Timestamp, datagrams: &mut VecDeque<Vec<u8>>) {
        let mut reports = vec![self.empty(now)];
        for stream in self.streams.iter_mut().filter(|stream| stream.window.has_unreported()) {
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
        let debt = debt.saturating_sub(MAX_RATE.size_in(now - before)) + size;
        self.debt = (debt, now);
        let time = MAX_RATE.time_for(debt).unwrap_or(MAX_INTERVAL);
        // The excess over the longest interval is a debt that must be paid first, whatever is reported.
        self.earliest = now + time;
    }

    fn empty(&self, now: Timestamp) -> CongestionFeedback {
        let time = NtpShort::from_timestamp(now);
        CongestionFeedback { sender_ssrc: self.sender_ssrc, streams: Vec::new(), time }
    }

    fn stream(&mut self, now: Timestamp, ssrc: u32) -> Option<&mut Stream> {
        let known = self.streams.iter().position(|stream| stream.ssrc == ssrc);
        let place = known.unwrap_or_else(|| {
            // Beyond the maximum, the stream that has been silent for longest is removed.
            let longest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.last_packet_at);
            if let Some((longest, _)) = longest.filter(|_| self.streams.len() >= MAX_SOURCES) {
                self.streams.remove(longest);
            }
            let window = ArrivalWindow::new();
            self.streams.push(Stream { ssrc, last_packet_at: now, window, missing: None, reported_below: 0 });
            self.streams.len() - 1
        });
        self.streams.get_mut(place)
    }
}

impl Stream {
    /// The arrivals to report, divided at long gaps. They count as reported afterwards.
    fn take(&mut self, now: Timestamp) -> Vec<StreamFeedback> {
        if let Some(missing) = self.missing.take() {
            self.window.report_again(missing);
        }
        if self.window.highest().is_some_and(|highest| highest + 1 < self.reported_below) {
            // The sender has restarted its numbering.
            self.reported_below = 0;
        }
        let (ssrc, mut next) = (self.ssrc, self.window.next());
        let begin = |number: u64| StreamFeedback { ssrc, begin_sequence: number as u16, packets: Vec::new() };
        let mut piece = begin(next);
        let mut pieces = Vec::new();
        for (number, &(at, ecn)) in self.window.from(next) {
            let gap = number - next;
            if gap >= MAX_GAP {
                pieces.push(std::mem::replace(&mut piece, begin(number)));
            } else {
                piece.packets.extend(std::iter::repeat_n(None, gap as usize));
                let first = next.max(self.reported_below);
                if first < number && self.missing.is_none() {
                    self.missing = Some(first);
                }
            }
            let offset = ArrivalOffset::from_delta(now - at);
            piece.packets.push(Some(PacketReception { ecn, offset }));
            next = number + 1;
        }
        pieces.push(piece);
        self.reported_below = self.reported_below.max(next);
        self.window.on_reported(|(at, _)| now.saturating_since(*at) >= REMEMBERED);
        pieces.retain(|piece| !piece.packets.is_empty());
        pieces
    }
}

/// Adds a stream to the last report, and to further reports if it does not fit.
fn spread(piece: StreamFeedback, reports: &mut Vec<CongestionFeedback>) {
    let StreamFeedback { ssrc, mut begin_sequence, mut packets } = piece;
    while let Some(report) = reports.last_mut() {
        // In whole words.
        let left = MAX_BYTES.saturating_sub(report.byte_len() + STREAM_BYTES);
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
