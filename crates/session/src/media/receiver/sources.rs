//! Statistics of each source, for receiver reports (RFC 3550 §6.4.1, Appendix A).

use giusto_measure::{SequenceConfig, SequenceTracker};
use giusto_rtp::{
    RtpHeader,
    rtcp::{ReportBlock, SenderReport},
};
use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    clock::{MediaJitter, SenderClock},
    frames::{FramePacket, Frames, WholeFrame},
    window::{FIRST_CYCLE, widened},
};
use crate::media::{
    event::FrameArrival,
    format::{Framing, PayloadFormat},
};

/// The most sources that are known at once: as many as a report has blocks for (RFC 3550 §6.4.1).
const MOST_SOURCES: usize = 31;
/// A source that was silent for so many report intervals has left (RFC 3550 §6.3.5).
const SILENT_INTERVALS: i64 = 5;
/// A source is reported if it was heard within so many report intervals.
const REPORTED_INTERVALS: i64 = 2;
/// A number further ahead than this is bad, unless the one after it follows (RFC 3550 A.1, `MAX_DROPOUT`).
const MOST_AHEAD: i16 = 3000;
/// And so is one further behind. RFC 3550 A.1 has 100 (`MAX_MISORDER`), two seconds at its 50 packets/s; pictures come with
/// thousands of packets a second.
const MOST_BEHIND: i16 = 3000;

/// Figures of one source, for display.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceFigures {
    /// Its synchronisation source.
    pub ssrc: u32,
    /// Packets received, each counted once.
    pub packets: u64,
    /// The UDP payload of these packets, RTP headers included.
    pub size: DataSize,
    /// Packets that have not arrived.
    pub lost: u64,
    /// Further copies of packets received.
    pub duplicates: u64,
    /// Interarrival jitter (RFC 3550 §6.4.1); `None` before two packets with a known clock rate.
    pub jitter: Option<TimeDelta>,
    /// Frames that arrived whole.
    pub frames: u64,
    /// Frames that arrived in part and were dropped.
    pub dropped_frames: u64,
}

/// The sources that were heard.
#[derive(Debug)]
pub(super) struct Sources {
    list: Vec<Source>,
    interval: TimeDelta,
}

impl Sources {
    /// Nobody was heard. Reports are made at this interval.
    pub(super) const fn new(interval: TimeDelta) -> Self {
        Self { list: Vec::new(), interval }
    }

    /// Whether anybody is there who was heard and has not left.
    pub(super) fn any_live(&self) -> bool {
        self.list.iter().any(|source| source.presence == Presence::Live)
    }

    /// The source of a packet of media that has just come; `None` where it has said goodbye, or where there are too many.
    pub(super) fn heard(&mut self, now: Timestamp, ssrc: u32) -> Option<&mut Source> {
        let stragglers = self.interval * SILENT_INTERVALS;
        let source = self.entry(now, ssrc)?;
        if let Presence::Ended(at) = source.presence {
            // Packets that a goodbye has overtaken do not bring its source back (RFC 3550 §6.2.1).
            if now.saturating_since(at) < stragglers {
                return None;
            }
            *source = Source::new(ssrc, now);
        }
        source.presence = Presence::Live;
        source.heard_at = now;
        Some(source)
    }

    pub(super) fn on_sender_report(&mut self, now: Timestamp, report: &SenderReport) {
        if let Some(source) = self.entry(now, report.ssrc) {
            source.clock.on_report(now, report);
        }
    }

    /// The source says goodbye; true if it had been heard, and had not said so before.
    pub(super) fn on_bye(&mut self, now: Timestamp, ssrc: u32) -> bool {
        let known = self.list.iter_mut().find(|source| source.ssrc == ssrc && source.highest.is_some());
        let Some(source) = known.filter(|source| !matches!(source.presence, Presence::Ended(_))) else {
            return false;
        };
        source.presence = Presence::Ended(now);
        source.frames.end();
        true
    }

    /// Those that have been silent for too long have left (RFC 3550 §6.3.5).
    pub(super) fn expire(&mut self, now: Timestamp) {
        let longest = self.interval * SILENT_INTERVALS;
        for source in self.list.iter_mut().filter(|source| source.presence == Presence::Live) {
            if now.saturating_since(source.heard_at) >= longest {
                source.presence = Presence::Silent;
            }
        }
    }

    /// Those that are there.
    pub(super) fn live(&self) -> impl Iterator<Item = u32> {
        self.list.iter().filter(|source| source.presence == Presence::Live).map(|source| source.ssrc)
    }

    /// A block for each source that was heard within the last two intervals.
    pub(super) fn blocks(&mut self, now: Timestamp) -> Vec<ReportBlock> {
        let longest = self.interval * REPORTED_INTERVALS;
        let heard = self.list.iter_mut().filter(|source| {
            source.presence == Presence::Live && now.saturating_since(source.heard_at) <= longest
        });
        heard.filter_map(|source| source.block(now)).collect()
    }

    pub(super) fn figures(&self) -> impl Iterator<Item = SourceFigures> {
        self.list.iter().filter(|source| source.highest.is_some()).map(Source::figures)
    }

    /// The source, made if need be. Of those that are not there, the one silent for longest gives way.
    fn entry(&mut self, now: Timestamp, ssrc: u32) -> Option<&mut Source> {
        let known = self.list.iter().position(|source| source.ssrc == ssrc);
        let place = match known {
            Some(place) => place,
            None if self.list.len() < MOST_SOURCES => {
                self.list.push(Source::new(ssrc, now));
                self.list.len() - 1
            }
            None => {
                let absent =
                    self.list.iter().enumerate().filter(|(_, source)| source.presence != Presence::Live);
                let (place, _) = absent.min_by_key(|(_, source)| source.heard_at)?;
                *self.list.get_mut(place)? = Source::new(ssrc, now);
                place
            }
        };
        self.list.get_mut(place)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It sends media.
    Live,
    /// It has sent none, or none for long.
    Silent,
    /// It has said goodbye.
    Ended(Timestamp),
}

/// The state of one source.
#[derive(Debug)]
pub(super) struct Source {
    ssrc: u32,
    presence: Presence,
    heard_at: Timestamp,
    /// The highest sequence number, made wide.
    highest: Option<u64>,
    /// The number that would confirm the bad number just before (RFC 3550 A.1, `bad_seq`).
    awaited: Option<u16>,
    tracker: SequenceTracker,
    /// The counts of earlier trackers, whose sequence was broken off.
    settled: SourceFigures,
    /// Packets expected and received at the last report.
    reported: (u64, u64),
    jitter: MediaJitter,
    frames: Frames,
    pub(super) clock: SenderClock,
}

impl Source {
    fn new(ssrc: u32, now: Timestamp) -> Self {
        Self {
            ssrc,
            presence: Presence::Silent,
            heard_at: now,
            highest: None,
            awaited: None,
            tracker: tracker(),
            settled: SourceFigures { ssrc, ..SourceFigures::default() },
            reported: (0, 0),
            jitter: MediaJitter::default(),
            frames: Frames::default(),
            clock: SenderClock::default(),
        }
    }

    /// A packet came, of media whose clock has this rate. Gives its sequence number made wide, if it came for the first time.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        header: &RtpHeader,
        size: DataSize,
        rate: Option<u32>,
    ) -> Option<u64> {
        self.check_number(header.sequence)?;
        let number = widened(self.highest, header.sequence);
        self.highest = self.highest.max(Some(number));
        let verdict = self.tracker.on_packet(number);
        if let Some(rate) = rate.or(self.clock.learnt_rate()) {
            self.jitter.on_packet(now, header.timestamp, rate);
        }
        if !verdict.is_new() {
            return None;
        }
        self.settled.size += size;
        Some(number)
    }

    /// A packet that came for the first time is put into its frame; gives those that are whole by it, with the time from capture.
    pub(super) fn on_frame_packet(
        &mut self,
        now: Timestamp,
        packet: FramePacket,
        format: PayloadFormat,
    ) -> [Option<FrameArrival>; 2] {
        let whole = match format.framing {
            Framing::Marker => self.frames.on_packet(now, packet),
            Framing::Packet => [Some(self.frames.on_single(now, packet)), None],
            Framing::Nothing => [None, None],
        };
        whole.map(|frame| {
            let WholeFrame { number: sequence, timestamp: rtp_timestamp, at, packets, payload } = frame?;
            let rate = format.clock_rate.or(self.clock.learnt_rate());
            let captured = rate.and_then(|rate| self.clock.capture(rtp_timestamp, rate));
            let delay = captured.map(|captured| captured.apparent_delay(at));
            Some(FrameArrival { ssrc: self.ssrc, sequence, rtp_timestamp, at, delay, packets, payload })
        })
    }

    /// Whether the number is near the others (RFC 3550 A.1). Two in a row that are not, but follow each other, are a sequence
    /// that began anew.
    fn check_number(&mut self, sequence: u16) -> Option<()> {
        let awaited = self.awaited.take();
        let Some(highest) = self.highest else { return Some(()) };
        let step = sequence.wrapping_sub(highest as u16) as i16;
        if (-MOST_BEHIND..=MOST_AHEAD).contains(&step) {
            return Some(());
        }
        if awaited != Some(sequence) {
            self.awaited = Some(sequence.wrapping_add(1));
            return None;
        }
        self.settled = self.figures();
        self.frames.end();
        self.tracker = tracker();
        (self.highest, self.reported, self.jitter) = (None, (0, 0), MediaJitter::default());
        Some(())
    }

    /// Its block of a receiver report (RFC 3550 A.3); this begins the next interval.
    fn block(&mut self, now: Timestamp) -> Option<ReportBlock> {
        let highest = self.highest?;
        let expected = self.tracker.losses().expected;
        let received = self.tracker.received() + self.tracker.duplicates();
        let (expected_before, received_before) = std::mem::replace(&mut self.reported, (expected, received));
        let expected_since = expected.saturating_sub(expected_before);
        let lost_since = expected_since.saturating_sub(received.saturating_sub(received_before));
        let fraction = (lost_since << 8).checked_div(expected_since).unwrap_or(0);
        let lost = i128::from(expected) - i128::from(received);
        let (last_sender_report, delay_since_last) = self.clock.last_report(now);
        Some(ReportBlock {
            ssrc: self.ssrc,
            fraction_lost: u8::try_from(fraction).unwrap_or(u8::MAX),
            cumulative_lost: lost.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32,
            highest_sequence: (highest - FIRST_CYCLE) as u32,
            jitter: self.jitter.ticks(),
            last_sender_report,
            delay_since_last,
        })
    }

    fn figures(&self) -> SourceFigures {
        SourceFigures {
            packets: self.settled.packets + self.tracker.received(),
            lost: self.settled.lost + self.tracker.losses().lost,
            duplicates: self.settled.duplicates + self.tracker.duplicates(),
            jitter: self.jitter.jitter(),
            frames: self.frames.whole(),
            dropped_frames: self.frames.dropped(),
            ..self.settled
        }
    }
}

/// Sources begin anywhere; how far a number may jump is judged before.
fn tracker() -> SequenceTracker {
    SequenceTracker::new(SequenceConfig { first: None, ..SequenceConfig::default() })
}
