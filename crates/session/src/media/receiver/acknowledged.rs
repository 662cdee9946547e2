//! Feedback of draft-johansson-rmcat-scream-cc-00: which of the latest packets of each source arrived.
//!
//! # When a message is sent
//!
//! In the draft there is a message for each packet. A newer one replaces those that the RTCP bandwidth did
//! not permit to send (§9.2.1), and in effect there is one per frame (§10, AVPF early mode). Here a message
//! about a source is due
//!
//! 1. at once after a marker, or when 16 packets are not reported: half of what a message covers, so that one
//!    message may be lost;
//! 2. otherwise 40 ms after the first unreported packet.
//!
//! All due messages are sent in one datagram, with the state at that time. If they exceed 75 kbit/s (Table 1,
//! "RTCP BW"), they are delayed, but only until another packet could leave the 33 that a message covers. With
//! 30 frames per second this takes 12 kbit/s including IP and UDP, as in §10.

use std::collections::VecDeque;

use giusto_rtp::rtcp::{ReceptionTime, ScreamFeedback};
use giusto_units::{DataRate, DataSize, Ecn, NANOS_PER_SECOND, TimeDelta, Timestamp};

use super::sources::MAX_SOURCES;

/// Chosen by us: half of the packets that a message covers.
const MAX_UNREPORTED: u32 = 16;
/// Chosen by us: slightly more than the frame interval at 30 frames per second.
const MAX_DELAY: TimeDelta = TimeDelta::from_millis(40);
/// draft-johansson-rmcat-scream-cc-00 §10, Table 1.
const MAX_RATE: DataRate = DataRate::from_bps(75_000);
/// Maximum silence that compensates for messages above that rate. Chosen by us.
const MAX_DEBT: TimeDelta = TimeDelta::from_millis(100);
/// UDP over IPv4.
const OVERHEAD: DataSize = DataSize::from_bytes(28);
/// Number of consecutive packets too old to report after which the sender is assumed to have restarted its
/// numbering.
const MAX_TOO_OLD: u32 = 64;
/// The packets that a message covers.
const PACKETS: i32 = ScreamFeedback::PACKETS as i32;
/// Number of parts into which the last second is divided.
const PARTS: u64 = 100;

/// Collects arrivals and writes feedback.
#[derive(Debug)]
pub(super) struct AcknowledgementReporter {
    sender_ssrc: u32,
    quench_above: Option<DataRate>,
    received: LastSecond,
    sources: Vec<Source>,
    /// Earliest time of the next datagram, unless a message must be sent.
    earliest: Timestamp,
}

/// The state of one source, in a fixed amount of memory.
#[derive(Debug, Clone, Copy)]
struct Source {
    ssrc: u32,
    last_packet_at: Timestamp,
    latest: Latest,
    /// Number of marked packets, modulo 256.
    marks: u8,
    unreported: Unreported,
    /// The latest packets that were too old to report, and their number in a row.
    too_old: Option<(Latest, u32)>,
}

/// The packets that a message covers.
#[derive(Debug, Clone, Copy)]
struct Latest {
    /// The highest number, and the arrival time of its packet.
    highest: u16,
    highest_at: Timestamp,
    /// Bitmap of the 32 packets before it: the highest bit is the packet directly before it.
    received: u32,
}

/// Position of a number relative to the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Above the highest by this distance; becomes the highest.
    Above(i16),
    /// The highest or one of the 32 before it, for the first time or not.
    Among { is_new: bool },
    /// Too old to report.
    TooOld,
}

/// Unreported arrivals of a source.
#[derive(Debug, Clone, Copy, Default)]
struct Unreported {
    packets: u32,
    /// Time at which a message is due.
    due: Option<Timestamp>,
    /// Time at which it must be sent.
    must: Option<Timestamp>,
    /// Increase of the numbers since the last message; the first one counts as one.
    span: i32,
}

impl AcknowledgementReporter {
    /// It requests a lower rate while more than `quench_above` is received.
    pub(super) fn new(sender_ssrc: u32, quench_above: Option<DataRate>) -> Self {
        Self {
            sender_ssrc,
            quench_above,
            received: LastSecond::default(),
            sources: Vec::new(),
            earliest: Timestamp::ZERO,
        }
    }

    /// Handles a packet of a source.
    pub(super) fn on_packet(&mut self, now: Timestamp, ssrc: u32, sequence: u16, marker: bool, ecn: Ecn) {
        if let Some(source) = self.source(now, ssrc, sequence) {
            source.last_packet_at = now;
            source.on_packet(now, sequence, marker, ecn);
        }
    }

    /// Handles received bytes.
    pub(super) fn on_received(&mut self, now: Timestamp, size: DataSize) {
        self.received.add(now, size);
    }

    /// Time at which a message is due, if there is anything to report.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let due = self.sources.iter().filter_map(|source| source.unreported.deadline(self.earliest));
        due.min()
    }

    /// Writes the messages that are due.
    pub(super) fn write(&mut self, now: Timestamp, datagrams: &mut VecDeque<Vec<u8>>) {
        let received = self.received.size(now).as_bits();
        let source_quench = self.quench_above.is_some_and(|max| received > max.as_bps());
        let mut datagram = Vec::with_capacity(32);
        for source in &mut self.sources {
            if source.unreported.due.is_none_or(|due| due > now) {
                continue;
            }
            source.unreported = Unreported::default();
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
        let time = MAX_RATE.time_for(size).unwrap_or(MAX_DEBT);
        self.earliest = (self.earliest.max(now) + time).min(now + MAX_DEBT);
        datagrams.push_back(datagram);
    }

    /// No sender is active: nothing is reported. The counts are kept in case a sender returns.
    pub(super) fn discard_unreported(&mut self) {
        for source in &mut self.sources {
            source.unreported = Unreported::default();
        }
    }

    /// The source, created if necessary, with the state before the packet that has just arrived.
    fn source(&mut self, now: Timestamp, ssrc: u32, sequence: u16) -> Option<&mut Source> {
        let known = self.sources.iter().position(|source| source.ssrc == ssrc);
        let place = known.unwrap_or_else(|| {
            // Beyond the maximum, the source that has been silent for longest is removed.
            let longest = self.sources.iter().enumerate().min_by_key(|(_, source)| source.last_packet_at);
            if let Some((longest, _)) = longest.filter(|_| self.sources.len() >= MAX_SOURCES) {
                self.sources.remove(longest);
            }
            self.sources.push(Source::before(now, ssrc, sequence));
            self.sources.len() - 1
        });
        self.sources.get_mut(place)
    }
}

impl Source {
    /// The state before the first packet, which will be the next and the highest.
    const fn before(now: Timestamp, ssrc: u32, first: u16) -> Self {
        Self {
            ssrc,
            last_packet_at: now,
            latest: Latest::of(now, first.wrapping_sub(ScreamFeedback::PACKETS)),
            marks: 0,
            unreported: Unreported { packets: 0, due: None, must: None, span: 1 - PACKETS },
            too_old: None,
        }
    }

    fn on_packet(&mut self, now: Timestamp, sequence: u16, marker: bool, ecn: Ecn) {
        let marked = ecn == Ecn::Ce;
        self.marks = self.marks.wrapping_add(u8::from(marked));
        let is_new = match self.latest.note(now, sequence) {
            Place::Above(step) => {
                self.unreported.span = self.unreported.span.saturating_add(i32::from(step));
                true
            }
            Place::Among { is_new } => is_new,
            Place::TooOld => {
                self.on_too_old(now, sequence, marker);
                return;
            }
        };
        self.too_old = None;
        if is_new || marked {
            self.unreported.on_packet(now, marker);
        }
    }

    /// Handles a packet that is too old to report. After many of them the sender is assumed to have
    /// restarted, and they are reported.
    fn on_too_old(&mut self, now: Timestamp, sequence: u16, marker: bool) {
        let (mut latest, count) = self.too_old.unwrap_or((Latest::of(now, sequence), 0));
        if latest.note(now, sequence) == Place::TooOld {
            latest = Latest::of(now, sequence);
        }
        self.too_old = Some((latest, count + 1));
        if count + 1 >= MAX_TOO_OLD {
            (self.latest, self.too_old, self.unreported) = (latest, None, Unreported::default());
            self.unreported.on_packet(now, marker);
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
            // The previous highest and the 32 before it, shifted by the distance.
            let before = 1 << 32 | u64::from(self.received);
            let received = before.checked_shr(distance).map_or(0, |bits| bits as u32);
            *self = Self { highest: sequence, highest_at: now, received };
            return Place::Above(ahead);
        }
        if ahead <= -(PACKETS as i16) {
            return Place::TooOld;
        }
        let bit = (1_u64 << (32 - distance)) as u32;
        let is_new = distance > 0 && self.received & bit == 0;
        self.received |= bit;
        Place::Among { is_new }
    }
}

impl Unreported {
    fn on_packet(&mut self, now: Timestamp, marker: bool) {
        self.packets += 1;
        let at_once = marker || self.packets >= MAX_UNREPORTED;
        let due = if at_once { now } else { now + MAX_DELAY };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        // One more packet would be covered by the message; if that message were lost, perhaps none of these
        // would be reported.
        if self.packets > 1 && self.span >= PACKETS - 1 {
            (self.due, self.must) = (Some(now), self.must.or(Some(now)));
        }
    }

    fn deadline(&self, earliest: Timestamp) -> Option<Timestamp> {
        self.must.or_else(|| self.due.map(|due| due.max(earliest)))
    }
}

/// The bytes received in the last second, with a resolution of 10 ms.
#[derive(Debug, Clone, Default)]
struct LastSecond {
    /// Index of each part, and the bytes received in it.
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

    /// Removes old parts. Returns the current index.
    fn forget(parts: &mut VecDeque<(u64, DataSize)>, now: Timestamp) -> u64 {
        let part = now.as_nanos() / (NANOS_PER_SECOND / PARTS);
        while parts.front().is_some_and(|(first, _)| part.saturating_sub(*first) >= PARTS) {
            parts.pop_front();
        }
        part
    }
}
