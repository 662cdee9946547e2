//! The receiving end of a connection.

use std::collections::VecDeque;

use giusto_units::{DataSize, Ecn, Timestamp};
use serde::Serialize;

use super::{
    ranges::{Range, insert},
    settings::{Settings, SettingsError},
};
use crate::{
    packet::{FlowId, Packet},
    trace::Note,
    traffic::{
        agent::{Agent, Body, Transmit},
        segment::{Flags, SackBlocks, Segment},
    },
};

/// Receives the data of a [`Sender`](super::Sender) and acknowledges it on a separate flow.
///
/// - Acknowledgements are delayed (RFC 5681 §4.2). They are sent immediately for every second in-order segment, an
///   out-of-order segment, a segment that fills a gap or part of one, a duplicate, and the last segment; otherwise when a
///   timer expires.
/// - The first SACK block has the last received segment (RFC 2018 §4). With RACK, duplicates are reported (RFC
///   2883).
/// - A CE mark is echoed until the sender announces a window reduction (RFC 3168 §6.1.3).
/// - Every SYN is answered. The sender retransmits the SYN if the answer is lost.
/// - The application reads data immediately, so the receive window is constant.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct Receiver {
    flow: FlowId,
    settings: Settings,
    now: Timestamp,
    connection: u32,
    /// The negotiated options.
    uses: Flags,
    /// Next expected byte.
    expected: u64,
    /// Ranges received above it.
    ahead: VecDeque<Range>,
    /// One byte of each of the last extended ranges, latest first; `latest_count` entries.
    latest: [u64; SackBlocks::MAX],
    latest_count: usize,
    /// Number of in-order segments without acknowledgement.
    unacknowledged: u32,
    delayed_until: Option<Timestamp>,
    acknowledge_now: bool,
    /// Whether the next acknowledgement reports a duplicate (RFC 2883).
    report_duplicate: bool,
    answer_syn: bool,
    echo_mark: bool,
    /// Segments with a CE mark in this connection, and whether the last one had one.
    marked: u16,
    was_marked: bool,
    /// `TS.Recent` and `Last.ACK.sent` (RFC 7323 §4.3).
    recent_stamp: Timestamp,
    last_acknowledged: u64,
    /// Data delivered to the application that has not been reported by a note, and its flow.
    handed_over: Option<(FlowId, u64)>,
    stats: ReceiverStats,
}

/// Counters of a [`Receiver`] over all connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ReceiverStats {
    /// Bytes delivered to the application, in order.
    pub delivered: u64,
    /// Data segments received.
    pub segments: u64,
    /// Data segments received without new data.
    pub duplicates: u64,
    /// Data segments received with a CE mark.
    pub marked: u64,
    /// Acknowledgements sent, without those of a SYN.
    pub acknowledgements: u64,
    /// Connections opened.
    pub connections: u64,
}

impl Receiver {
    /// Creates a receiver that sends acknowledgements on `flow`.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a setting is out of range.
    pub fn new(flow: FlowId, settings: Settings) -> Result<Self, SettingsError> {
        settings.validate()?;
        Ok(Self {
            flow,
            settings,
            now: Timestamp::ZERO,
            connection: 0,
            uses: Flags::NONE,
            expected: 0,
            ahead: VecDeque::new(),
            latest: [0; SackBlocks::MAX],
            latest_count: 0,
            unacknowledged: 0,
            delayed_until: None,
            acknowledge_now: false,
            report_duplicate: false,
            answer_syn: false,
            echo_mark: false,
            marked: 0,
            was_marked: false,
            recent_stamp: Timestamp::ZERO,
            last_acknowledged: 0,
            handed_over: None,
            stats: ReceiverStats::default(),
        })
    }

    /// Returns the counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    fn on_syn(&mut self, syn: &Segment) {
        if syn.connection > self.connection {
            self.connection = syn.connection;
            self.stats.connections += 1;
            self.expected = 0;
            self.ahead.clear();
            self.latest_count = 0;
            self.unacknowledged = 0;
            self.delayed_until = None;
            self.acknowledge_now = false;
            self.report_duplicate = false;
            self.echo_mark = false;
            self.last_acknowledged = 0;
            self.marked = 0;
            let (offered, settings) = (syn.flags, &self.settings);
            let ecn = Flags::ECE.with(Flags::CWR);
            self.uses = Flags::NONE
                .with_if(settings.sack && offered.contains(Flags::SACK_PERMITTED), Flags::SACK_PERMITTED)
                .with_if(settings.timestamps && offered.contains(Flags::TIMESTAMPS), Flags::TIMESTAMPS)
                .with_if(settings.uses_ecn() && offered.contains(ecn), Flags::ECE);
        }
        self.recent_stamp = syn.stamp;
        self.answer_syn = true;
    }

    fn on_data(&mut self, segment: &Segment, flow: FlowId, ecn: Ecn) {
        self.stats.segments += 1;
        if self.uses.contains(Flags::ECE) {
            self.echo_mark &= !segment.flags.contains(Flags::CWR);
            self.echo_mark |= ecn == Ecn::Ce;
            self.marked = self.marked.wrapping_add(u16::from(ecn == Ecn::Ce));
            if self.settings.uses_accurate_ecn() {
                // The first mark after unmarked segments is reported immediately (RFC 9768 §3.2.2.5.1).
                self.acknowledge_now |= ecn == Ecn::Ce && !self.was_marked;
                self.was_marked = ecn == Ecn::Ce;
                self.echo_mark = false;
            }
            self.stats.marked += u64::from(ecn == Ecn::Ce);
        }
        if segment.sequence <= self.last_acknowledged && segment.stamp >= self.recent_stamp {
            self.recent_stamp = segment.stamp;
        }
        let range = (segment.sequence, segment.end());
        if range.1 <= self.expected {
            self.stats.duplicates += 1;
            self.acknowledge_now = true;
            self.report_duplicate = true;
        } else if range.0 > self.expected {
            let new = insert(&mut self.ahead, range, |_| ());
            self.stats.duplicates += u64::from(new == 0);
            self.report_duplicate |= new == 0;
            self.note_latest(range.0);
            self.acknowledge_now = true;
        } else {
            let before = self.stats.delivered;
            self.on_in_order(segment);
            let earlier = self.handed_over.map_or(0, |(_, bytes)| bytes);
            self.handed_over = Some((flow, earlier + self.stats.delivered - before));
        }
    }

    fn on_in_order(&mut self, segment: &Segment) {
        let had_gap = !self.ahead.is_empty();
        let before = self.expected;
        self.expected = segment.end();
        while let Some(&(from, to)) = self.ahead.front() {
            if from > self.expected {
                break;
            }
            self.expected = self.expected.max(to);
            self.ahead.pop_front();
        }
        self.stats.delivered += self.expected - before;
        self.unacknowledged += 1;
        if had_gap
            || segment.flags.contains(Flags::FIN)
            || self.unacknowledged >= self.settings.segments_per_ack
        {
            self.acknowledge_now = true;
        } else if self.delayed_until.is_none() {
            self.delayed_until = Some(self.now + self.settings.delayed_ack);
        }
    }

    /// Records that the range with `byte` was extended last.
    fn note_latest(&mut self, byte: u64) {
        let Some(extended) = self.range_of(byte) else { return };
        // The others keep their order. Entries that are now in the same range are removed.
        let before = self.latest;
        let known = self.latest_count;
        self.latest_count = 0;
        let others =
            before.into_iter().take(known).filter(|&other| other < extended.0 || other >= extended.1);
        for (slot, byte) in self.latest.iter_mut().zip(std::iter::once(byte).chain(others)) {
            *slot = byte;
            self.latest_count += 1;
        }
    }

    fn range_of(&self, byte: u64) -> Option<Range> {
        let at = self.ahead.partition_point(|range| range.1 <= byte);
        self.ahead.get(at).copied().filter(|range| range.0 <= byte)
    }

    fn acknowledgement(&mut self) -> Segment {
        let mut sack = SackBlocks::default();
        let has_sack = self.uses.contains(Flags::SACK_PERMITTED);
        let duplicate = std::mem::take(&mut self.report_duplicate) && has_sack && self.settings.rack;
        let blocks = self.settings.sack_blocks().saturating_sub(usize::from(duplicate));
        if has_sack && !self.ahead.is_empty() {
            let latest = self.latest.iter().take(self.latest_count);
            for (from, to) in latest.filter_map(|&byte| self.range_of(byte)).take(blocks) {
                sack.push(self.expected, from, to);
            }
        }
        self.last_acknowledged = self.expected;
        Segment {
            acknowledgment: self.expected,
            stamp: self.now,
            echo: self.recent_stamp,
            sack,
            marked: self.marked,
            connection: self.connection,
            flags: Flags::ACK
                .with_if(self.uses.contains(Flags::TIMESTAMPS), Flags::TIMESTAMPS)
                .with_if(duplicate, Flags::DSACK)
                .with_if(self.echo_mark, Flags::ECE),
            ..Segment::default()
        }
    }

    fn run_timers(&mut self) {
        if self.delayed_until.is_some_and(|due| due <= self.now) {
            self.delayed_until = None;
            self.acknowledge_now = true;
        }
    }
}

impl Agent for Receiver {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, body: &Body) {
        self.now = self.now.max(now);
        let Body::Tcp(segment) = body else { return };
        if segment.flags.contains(Flags::SYN) {
            if segment.connection >= self.connection {
                self.on_syn(segment);
            }
        } else if segment.connection == self.connection && segment.length > 0 {
            self.on_data(segment, packet.flow, packet.ecn);
        }
        self.run_timers();
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.run_timers();
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        self.now = self.now.max(now);
        self.run_timers();
        let segment = if std::mem::take(&mut self.answer_syn) {
            let ack = self.acknowledgement();
            Segment { flags: Flags::SYN.with(Flags::ACK).with(self.uses), sack: SackBlocks::default(), ..ack }
        } else if std::mem::take(&mut self.acknowledge_now) {
            self.stats.acknowledgements += 1;
            self.unacknowledged = 0;
            self.delayed_until = None;
            self.acknowledgement()
        } else {
            return None;
        };
        // A pure acknowledgement is not ECN-capable (RFC 3168 §6.1.4).
        let bytes = segment.wire_bytes();
        Some(Transmit { flow: self.flow, bytes, ecn: Ecn::NotEct, body: Body::Tcp(segment) })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.delayed_until
    }

    /// `delivered_bytes`: bytes delivered to the application, in order, since the start.
    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        report(self.flow, "delivered_bytes", self.stats.delivered as f64);
    }

    #[inline]
    fn poll_note(&mut self) -> Option<Note> {
        let (flow, bytes) = self.handed_over.take()?;
        Some(Note::Received { flow, size: DataSize::from_bytes(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;

    /// A receiver with an open connection. Segments have 1000 bytes, times are in ms.
    struct Bench(Receiver);

    impl Bench {
        fn new() -> Self {
            let mut bench = Self(Receiver::new(FlowId(1), Settings::default()).unwrap());
            let flags = Flags::SYN.with(Flags::SACK_PERMITTED).with(Flags::TIMESTAMPS);
            assert_eq!(bench.give(0, Segment { flags, connection: 1, ..Segment::default() }).len(), 1);
            bench
        }

        fn give(&mut self, at: i64, segment: Segment) -> Vec<Segment> {
            let packet = Packet { bytes: segment.wire_bytes(), ..Packet::default() };
            self.0.handle_packet(time(at), &packet, &Body::Tcp(segment));
            self.answers(at)
        }

        fn data(&mut self, at: i64, number: u64) -> Vec<Segment> {
            let (sequence, flags) = (1000 * number, Flags::ACK.with(Flags::TIMESTAMPS));
            let segment = Segment { sequence, length: 1000, connection: 1, flags, ..Segment::default() };
            self.give(at, Segment { stamp: time(at - 10), ..segment })
        }

        fn answers(&mut self, at: i64) -> Vec<Segment> {
            let segment = |transmit: Transmit| match transmit.body {
                Body::Tcp(segment) => segment,
                _ => panic!("no segment"),
            };
            std::iter::from_fn(|| self.0.poll_transmit(time(at)).map(segment)).collect()
        }
    }

    fn time(ms: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_millis(ms)
    }

    #[test]
    fn delays_the_acknowledgement_of_one_segment_by_40_ms() {
        let mut bench = Bench::new();
        assert!(bench.data(10, 0).is_empty());
        assert_eq!(bench.0.poll_timeout(), Some(time(50)));
        bench.0.handle_timeout(time(49));
        assert!(bench.answers(49).is_empty());
        bench.0.handle_timeout(time(50));
        assert_eq!(bench.answers(50)[0].acknowledgment, 1000);
        assert_eq!(bench.0.poll_timeout(), None);
        assert!(bench.data(60, 1).is_empty());
        assert_eq!(bench.data(61, 2)[0].acknowledgment, 3000);
        assert_eq!(bench.0.poll_timeout(), None);
    }

    #[test]
    fn acknowledges_gaps_and_duplicates_immediately() {
        let mut bench = Bench::new();
        let of = |acks: Vec<Segment>| {
            assert_eq!(acks.len(), 1);
            (acks[0].acknowledgment, acks[0].sack.ranges(acks[0].acknowledgment).collect::<Vec<_>>())
        };
        assert_eq!(of(bench.data(10, 2)), (0, vec![(2000, 3000)]));
        assert_eq!(of(bench.data(11, 4)), (0, vec![(4000, 5000), (2000, 3000)]));
        assert_eq!(of(bench.data(12, 0)), (1000, vec![(4000, 5000), (2000, 3000)]));
        assert_eq!(of(bench.data(13, 3)), (1000, vec![(2000, 5000)]));
        assert_eq!(of(bench.data(14, 1)), (5000, vec![]));
        assert_eq!(of(bench.data(15, 1)), (5000, vec![]));
        assert_eq!((bench.0.stats().duplicates, bench.0.stats().delivered), (1, 5000));
    }

    #[test]
    fn sack_blocks_report_the_last_extended_ranges_first() {
        // RFC 2018 §4: the first block has the segment that triggered the acknowledgement, the others repeat the last
        // reported.
        let mut bench = Bench::new();
        let of = |acks: Vec<Segment>| acks[0].sack.ranges(0).map(|range| range.0 / 1000).collect::<Vec<_>>();
        assert_eq!(of(bench.data(10, 2)), [2]);
        assert_eq!(of(bench.data(11, 4)), [4, 2]);
        assert_eq!(of(bench.data(12, 6)), [6, 4, 2]);
        assert_eq!(of(bench.data(13, 8)), [8, 6, 4]);
        assert_eq!(of(bench.data(14, 3)), [2, 8, 6]);
        assert_eq!(of(bench.data(15, 7)), [6, 2]);
    }

    #[test]
    fn delayed_acks_echo_the_first_timestamp() {
        // RFC 7323 §4.3, case (A): the RTT sample includes the delay of the acknowledgement.
        let mut bench = Bench::new();
        assert!(bench.data(20, 0).is_empty());
        assert_eq!(bench.data(25, 1)[0].echo, time(10));
        // Case (B): an out-of-order segment does not change the echo. Case (C): the one that fills the gap does.
        assert_eq!(bench.data(30, 3)[0].echo, time(10));
        assert_eq!(bench.data(40, 2)[0].echo, time(30));
    }

    #[test]
    fn a_new_connection_resets_state_and_ignores_the_old() {
        let mut bench = Bench::new();
        bench.data(10, 0);
        bench.data(11, 1);
        let syn = Segment { flags: Flags::SYN, connection: 2, ..Segment::default() };
        let answer = bench.give(20, syn)[0];
        assert!(answer.flags.contains(Flags::SYN.with(Flags::ACK)) && answer.acknowledgment == 0);
        assert!(bench.data(30, 2).is_empty(), "segment of the first connection");
        assert_eq!((bench.0.stats().delivered, bench.0.stats().connections), (2000, 2));
        assert!(bench.give(40, Segment { connection: 1, ..syn }).is_empty());
        assert_eq!(bench.give(41, syn).len(), 1, "a repeated SYN is answered again");
    }
}
