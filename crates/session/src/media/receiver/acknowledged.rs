//! The feedback of draft-johansson-rmcat-scream-cc-00: which of the latest packets of each source arrived.
//!
//! # When a message leaves
//!
//! The draft has a message for each packet, of which the newest replaces those that RTCP's bandwidth has not let leave (§9.2.1), and
//! which leave for each picture in effect (§10, AVPF early mode). Here a message on a source is due
//!
//! 1. at once after a marker, or when 16 packets are untold: half of what a message tells of, so that one may be lost;
//! 2. otherwise 40 ms after the first untold packet.
//!
//! Those that are due leave in one datagram, each as new as can be, unless 75 kbit/s are used up (Table 1, "RTCP BW"): then they
//! wait, but no longer than until a further packet could fall out of the 33 that a message tells of. With 30 pictures a second that
//! is 12 kbit/s, IP and UDP included, as in §10.

use std::collections::VecDeque;

use giusto_rtp::rtcp::{ReceptionTime, ScreamFeedback};
use giusto_units::{DataRate, DataSize, Ecn, NANOS_PER_SECOND, TimeDelta, Timestamp};

/// Ours: half of the packets that a message tells of.
const MOST_UNTOLD: u32 = 16;
/// Ours: a little more than a picture of 30 in a second.
const LONGEST_WAIT: TimeDelta = TimeDelta::from_millis(40);
/// draft-johansson-rmcat-scream-cc-00 §10, Table 1.
const MOST_RATE: DataRate = DataRate::from_bps(75_000);
/// The longest silence that makes up for messages in excess of that rate. Ours.
const LONGEST_DEBT: TimeDelta = TimeDelta::from_millis(100);
/// UDP over IPv4.
const OVERHEAD: DataSize = DataSize::from_bytes(28);
/// As many sources as a receiver report has blocks for; where there are more, the one silent for longest is forgotten.
const MOST_SOURCES: usize = 31;
/// So many in a row that are too late to be told of, and the sender has begun to count anew.
const MOST_STRAYS: u32 = 64;
/// The packets that a message covers.
const PACKETS: i32 = ScreamFeedback::PACKETS as i32;
/// The number of parts in which the last second is counted.
const PARTS: u64 = 100;

/// Collects arrivals and tells of them.
#[derive(Debug)]
pub(super) struct AcknowledgementReporter {
    sender_ssrc: u32,
    quench_above: Option<DataRate>,
    received: LastSecond,
    sources: Vec<Source>,
    /// The next datagram leaves then at the earliest, unless it must.
    earliest: Timestamp,
}

/// The state of one source, in a fixed amount of memory.
#[derive(Debug, Clone, Copy)]
struct Source {
    ssrc: u32,
    heard_at: Timestamp,
    latest: Latest,
    /// Packets marked, modulo 256.
    marks: u8,
    untold: Untold,
    /// The latest of those that were too late to be told of, and how many in a row there were.
    strays: Option<(Latest, u32)>,
}

/// The packets that a message covers.
#[derive(Debug, Clone, Copy)]
struct Latest {
    /// The highest number, and when its packet came.
    highest: u16,
    highest_at: Timestamp,
    /// Of the 32 before it: the highest bit is the one before it.
    received: u32,
}

/// The place of a number relative to the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// So far above the highest, which it is from now on.
    Above(i16),
    /// Among the 32 before it or itself, and there for the first time or not.
    Among { is_new: bool },
    /// Too far back to be told of.
    Stray,
}

/// What is not reported yet of a source.
#[derive(Debug, Clone, Copy, Default)]
struct Untold {
    packets: u32,
    /// When a message is due.
    due: Option<Timestamp>,
    /// Since when it must leave.
    must: Option<Timestamp>,
    /// How far the numbers have come since the last message; the first one counts as one.
    span: i32,
}

impl AcknowledgementReporter {
    /// It asks for less while more than `quench_above` is received.
    pub(super) fn new(sender_ssrc: u32, quench_above: Option<DataRate>) -> Self {
        Self {
            sender_ssrc,
            quench_above,
            received: LastSecond::default(),
            sources: Vec::new(),
            earliest: Timestamp::ZERO,
        }
    }

    /// A packet of a source came.
    pub(super) fn on_packet(&mut self, now: Timestamp, (ssrc, sequence): (u32, u16), marker: bool, ecn: Ecn) {
        if let Some(source) = self.source(now, (ssrc, sequence)) {
            source.heard_at = now;
            source.on_packet(now, sequence, marker, ecn);
        }
    }

    /// So much came.
    pub(super) fn on_received(&mut self, now: Timestamp, size: DataSize) {
        self.received.add(now, size);
    }

    /// When a message is due, if there is something to tell.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let due = self.sources.iter().filter_map(|source| source.untold.deadline(self.earliest));
        due.min()
    }

    /// Tells what is due.
    pub(super) fn write(&mut self, now: Timestamp, datagrams: &mut VecDeque<Vec<u8>>) {
        let received = self.received.size(now).as_bits();
        let source_quench = self.quench_above.is_some_and(|most| received > most.as_bps());
        let mut datagram = Vec::new();
        for source in &mut self.sources {
            if source.untold.due.is_none_or(|due| due > now) {
                continue;
            }
            source.untold = Untold::default();
            let message = ScreamFeedback {
                sender_ssrc: self.sender_ssrc,
                media_ssrc: source.ssrc,
                time: ReceptionTime::from_timestamp(source.latest.highest_at),
                highest_sequence: source.latest.highest,
                ecn_echo: source.marks,
                source_quench,
                received: source.latest.received,
            };
            // It always fits.
            let _ = message.write(&mut datagram);
        }
        if datagram.is_empty() {
            return;
        }
        let size = OVERHEAD + DataSize::from_bytes(datagram.len() as u64);
        let time = MOST_RATE.time_for(size).unwrap_or(LONGEST_DEBT);
        self.earliest = (self.earliest.max(now) + time).min(now + LONGEST_DEBT);
        datagrams.push_back(datagram);
    }

    /// Nobody is there: nothing is told. What was counted stays, for whoever comes back.
    pub(super) fn forget_untold(&mut self) {
        for source in &mut self.sources {
            source.untold = Untold::default();
        }
    }

    /// The source, made if need be: with one packet before the one that has just come, which has not.
    fn source(&mut self, now: Timestamp, (ssrc, sequence): (u32, u16)) -> Option<&mut Source> {
        let known = self.sources.iter().position(|source| source.ssrc == ssrc);
        let place = known.unwrap_or_else(|| {
            let longest = self.sources.iter().enumerate().min_by_key(|(_, source)| source.heard_at);
            if let Some((longest, _)) = longest.filter(|_| self.sources.len() >= MOST_SOURCES) {
                self.sources.remove(longest);
            }
            self.sources.push(Source::before(now, ssrc, sequence));
            self.sources.len() - 1
        });
        self.sources.get_mut(place)
    }
}

impl Source {
    /// Before the first packet, which will be the next and the highest.
    const fn before(now: Timestamp, ssrc: u32, first: u16) -> Self {
        Self {
            ssrc,
            heard_at: now,
            latest: Latest::of(now, first.wrapping_sub(ScreamFeedback::PACKETS)),
            marks: 0,
            untold: Untold { packets: 0, due: None, must: None, span: 1 - PACKETS },
            strays: None,
        }
    }

    fn on_packet(&mut self, now: Timestamp, sequence: u16, marker: bool, ecn: Ecn) {
        let marked = ecn == Ecn::Ce;
        self.marks = self.marks.wrapping_add(u8::from(marked));
        let is_new = match self.latest.note(now, sequence) {
            Place::Above(step) => {
                self.untold.span = self.untold.span.saturating_add(i32::from(step));
                true
            }
            Place::Among { is_new } => is_new,
            Place::Stray => {
                self.on_stray(now, sequence, marker);
                return;
            }
        };
        self.strays = None;
        if is_new || marked {
            self.untold.on_packet(now, marker);
        }
    }

    /// It came too late to be told of; after many of them the sender has begun to count anew, and they are what is told of.
    fn on_stray(&mut self, now: Timestamp, sequence: u16, marker: bool) {
        let (mut latest, count) = self.strays.unwrap_or((Latest::of(now, sequence), 0));
        if latest.note(now, sequence) == Place::Stray {
            latest = Latest::of(now, sequence);
        }
        self.strays = Some((latest, count + 1));
        if count + 1 >= MOST_STRAYS {
            (self.latest, self.strays, self.untold) = (latest, None, Untold::default());
            self.untold.on_packet(now, marker);
        }
    }
}

impl Latest {
    /// One packet, and none before it.
    const fn of(now: Timestamp, highest: u16) -> Self {
        Self { highest, highest_at: now, received: 0 }
    }

    fn note(&mut self, now: Timestamp, sequence: u16) -> Place {
        let ahead = sequence.wrapping_sub(self.highest) as i16;
        let distance = u32::from(ahead.unsigned_abs());
        if ahead > 0 {
            // The highest of before and the 32 before it, as many places further back.
            let before = 1 << 32 | u64::from(self.received);
            let received = before.checked_shr(distance).map_or(0, |bits| bits as u32);
            *self = Self { highest: sequence, highest_at: now, received };
            return Place::Above(ahead);
        }
        if ahead <= -(PACKETS as i16) {
            return Place::Stray;
        }
        let bit = (1_u64 << (32 - distance)) as u32;
        let is_new = distance > 0 && self.received & bit == 0;
        self.received |= bit;
        Place::Among { is_new }
    }
}

impl Untold {
    fn on_packet(&mut self, now: Timestamp, marker: bool) {
        self.packets += 1;
        let at_once = marker || self.packets >= MOST_UNTOLD;
        let due = if at_once { now } else { now + LONGEST_WAIT };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        // One packet more is told of as well, and where that is lost perhaps none of these.
        if self.packets > 1 && self.span >= PACKETS - 1 {
            (self.due, self.must) = (Some(now), self.must.or(Some(now)));
        }
    }

    fn deadline(&self, earliest: Timestamp) -> Option<Timestamp> {
        self.must.or_else(|| self.due.map(|due| due.max(earliest)))
    }
}

/// The bytes received in the last second, to a hundredth of it.
#[derive(Debug, Clone, Default)]
struct LastSecond {
    /// Which hundredth, and what came in it.
    parts: VecDeque<(u64, DataSize)>,
}

impl LastSecond {
    fn add(&mut self, now: Timestamp, size: DataSize) {
        let part = Self::forget(&mut self.parts, now);
        match self.parts.back_mut() {
            Some((last, sum)) if *last >= part => *sum += size,
            _ => self.parts.push_back((part, size)),
        }
    }

    fn size(&mut self, now: Timestamp) -> DataSize {
        Self::forget(&mut self.parts, now);
        self.parts.iter().map(|(_, size)| *size).sum()
    }

    /// Gives the hundredth that it is.
    fn forget(parts: &mut VecDeque<(u64, DataSize)>, now: Timestamp) -> u64 {
        let part = now.as_nanos() / (NANOS_PER_SECOND / PARTS);
        while parts.front().is_some_and(|(first, _)| part.saturating_sub(*first) >= PARTS) {
            parts.pop_front();
        }
        part
    }
}
