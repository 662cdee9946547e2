//! Statistics of each source, for receiver reports (RFC 3550 §6.4.1, Appendix A).

use giusto_measure::{SequenceConfig, SequenceTracker};
use giusto_rtp::{
    RtpHeader,
    rtcp::{ReportBlock, SenderReport},
};
use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    clock::{MediaJitter, Playout, SenderClock},
    dependencies::{DecodeTarget, Dependencies},
    frames::{FramePacket, Frames, WholeFrame},
    key_frames::KeyFrames,
    losses::{Losses, MAX_BEFORE_FIRST, Requests},
    parity::ParityDecoder,
    window::{FIRST_CYCLE, widened},
};
use crate::media::{
    event::{Events, FrameArrival, MediaEvent},
    extensions::StreamId,
    format::{Framing, PayloadFormat},
    payload::Payload,
};

/// Maximum number of sources. Chosen by us: 16 videos and an audio stream, each with retransmissions and parity.
pub(super) const MAX_SOURCES: usize = 64;
/// A source that was silent for this many report intervals has left (RFC 3550 §6.3.5).
const SILENT_INTERVALS: i64 = 5;
/// A source is reported if it sent within this many report intervals.
const REPORTED_INTERVALS: i64 = 2;
/// A number further ahead than this is believed only if another packet follows it as closely. RFC 3550 A.1 believes 3000 at once
/// (`MAX_DROPOUT`); then one number with a wrong bit is thousands of lost packets. Chosen by us.
const MAX_STEP: i16 = 16;
/// Packets that may wait to be believed: where packets overtake each other by a hundred, some are near each other. Chosen by us.
const MAX_HELD: usize = 32;
const MAX_HELD_FOR: TimeDelta = TimeDelta::from_seconds(1);
/// A believed number further ahead than this belongs to a restarted sequence (RFC 3550 A.1, `MAX_DROPOUT`).
const MAX_AHEAD: i16 = 3000;
/// So does one further behind than this. RFC 3550 A.1 has 100 (`MAX_MISORDER`), two seconds at its 50 packets/s; video has
/// thousands of packets per second.
const MAX_BEHIND: i16 = 3000;
/// Packets of which it is known whether they have arrived: more than `MAX_BEHIND`.
const TRACKED: u64 = 4096;

/// Statistics of one source, for display.
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
    /// Duplicates of received packets.
    pub duplicates: u64,
    /// Interarrival jitter (RFC 3550 §6.4.1); `None` before two packets with a known clock rate.
    pub jitter: Option<TimeDelta>,
    /// Complete frames.
    pub frames: u64,
    /// Incomplete frames that were dropped.
    pub dropped_frames: u64,
    /// Complete frames with at least one repaired packet.
    pub repaired_frames: u64,
    /// Frames that became complete after their playout deadline.
    pub late_frames: u64,
    /// Lost packets that were repaired.
    pub repaired_packets: u64,
    /// Requests for packets, each time counted.
    pub requested_packets: u64,
    /// Lost packets that could not be repaired in time.
    pub unrepaired_packets: u64,
    /// Requests for a key frame.
    pub key_frame_requests: u64,
    /// The numbers of its spatial and of its temporal layers, if dependency descriptors say them.
    pub layers: Option<(u8, u8)>,
    /// Its name among the encodings of one video, if its packets say one.
    pub stream_id: Option<StreamId>,
}

/// The known sources.
#[derive(Debug)]
pub(super) struct Sources {
    list: Vec<Source>,
    interval: TimeDelta,
    rules: SourceRules,
}

/// What all sources have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceRules {
    /// Whether key frames are requested.
    pub(super) key_frames: bool,
    /// Whether the first packet is numbered by its timestamp.
    pub(super) numbers_from_timestamp: bool,
}

impl Sources {
    /// No sources. Reports are sent at this interval.
    pub(super) const fn new(interval: TimeDelta, rules: SourceRules) -> Self {
        Self { list: Vec::new(), interval, rules }
    }

    /// Whether any source is active.
    pub(super) fn any_live(&self) -> bool {
        self.list.iter().any(|source| source.presence == Presence::Live)
    }

    /// The source of a received media packet; `None` if it has sent a BYE, or if there are too many sources.
    pub(super) fn on_media(&mut self, now: Timestamp, ssrc: u32) -> Option<&mut Source> {
        let (stragglers, rules) = (self.interval * SILENT_INTERVALS, self.rules);
        let source = self.entry(now, ssrc)?;
        if let Presence::Ended(at) = source.presence {
            // Packets that were sent before the BYE and arrive after it do not restart the source (RFC 3550
            // §6.2.1).
            if now.saturating_since(at) < stragglers {
                return None;
            }
            *source = Source::new(ssrc, now, rules);
        }
        source.presence = Presence::Live;
        source.last_packet_at = now;
        Some(source)
    }

    pub(super) fn on_sender_report(&mut self, now: Timestamp, report: &SenderReport) {
        if let Some(source) = self.entry(now, report.ssrc) {
            source.clock.on_report(now, report);
        }
    }

    /// Handles a BYE. Returns whether the source was known and active.
    pub(super) fn on_bye(&mut self, now: Timestamp, ssrc: u32) -> bool {
        let known = self.list.iter_mut().find(|source| source.ssrc == ssrc && source.highest.is_some());
        let Some(source) = known.filter(|source| !matches!(source.presence, Presence::Ended(_))) else {
            return false;
        };
        source.presence = Presence::Ended(now);
        source.frames.end();
        source.losses.end();
        true
    }

    /// Removes sources that have been silent for too long (RFC 3550 §6.3.5).
    pub(super) fn expire(&mut self, now: Timestamp) {
        let longest = self.interval * SILENT_INTERVALS;
        for source in self.list.iter_mut().filter(|source| source.presence == Presence::Live) {
            if now.saturating_since(source.last_packet_at) >= longest {
                source.presence = Presence::Silent;
            }
        }
    }

    /// The active sources.
    pub(super) fn live(&self) -> impl Iterator<Item = u32> {
        self.list.iter().filter(|source| source.presence == Presence::Live).map(|source| source.ssrc)
    }

    /// A block for each source that sent within the last two intervals.
    pub(super) fn blocks(&mut self, now: Timestamp) -> Vec<ReportBlock> {
        let longest = self.interval * REPORTED_INTERVALS;
        let recent = self.list.iter_mut().filter(|source| {
            source.presence == Presence::Live && now.saturating_since(source.last_packet_at) <= longest
        });
        recent.filter_map(|source| source.block(now)).collect()
    }

    /// The source whose packet with this number the source `rtx` retransmits, and the number. It is the one with the name that `rtx` says
    /// (RFC 8852 §3.2). Without a name, before it is known, it is the only source that misses such a packet (RFC 4588 §5.3).
    pub(super) fn repaired(&mut self, rtx: u32, sequence: u16) -> Option<(&mut Source, u64)> {
        let of_rtx = self.list.iter().find(|source| source.ssrc == rtx);
        let named = of_rtx.and_then(|source| source.repairs_id).and_then(|name| {
            let sources = self.list.iter().filter(|source| source.presence == Presence::Live);
            let named = sources.filter(|source| source.stream_id == Some(name));
            Some(named.max_by_key(|source| source.last_packet_at)?.ssrc)
        });
        let known = named.or_else(|| of_rtx?.repairs);
        let ssrc = known.or_else(|| {
            let misses = |source: &&Source| source.losses.is_missing(widened(source.highest, sequence));
            let mut candidates = self.list.iter().filter(misses);
            let first = candidates.next()?.ssrc;
            candidates.next().is_none().then_some(first)
        })?;
        if known.is_none()
            && let Some(source) = self.list.iter_mut().find(|source| source.ssrc == rtx)
        {
            source.repairs = Some(ssrc);
        }
        let source = self.list.iter_mut().find(|source| source.ssrc == ssrc)?;
        let number = widened(source.highest, sequence);
        Some((source, number))
    }

    /// The source with this identifier, if it has sent media and has not ended.
    pub(super) fn find(&mut self, ssrc: u32) -> Option<&mut Source> {
        self.list.iter_mut().find(|source| source.ssrc == ssrc && source.presence == Presence::Live)
    }

    /// The source with this identifier, if it has sent media and has not ended.
    pub(super) fn get(&self, ssrc: u32) -> Option<&Source> {
        self.list.iter().find(|source| source.ssrc == ssrc && source.presence == Presence::Live)
    }

    /// The sources, to request what they miss.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Source> {
        self.list.iter_mut().filter(|source| source.presence == Presence::Live)
    }

    /// When the first source has something to request or to give up.
    pub(super) fn repair_due(&self) -> Option<Timestamp> {
        let mut first = None;
        for source in self.list.iter().filter(|source| source.presence == Presence::Live) {
            first = Timestamp::earliest([first, source.losses.due(), source.keys.due()]);
        }
        first
    }

    /// The decode targets of a source, if dependency descriptors say them.
    pub(super) fn decode_targets(&self, ssrc: u32) -> Vec<DecodeTarget> {
        let source = self.list.iter().find(|source| source.ssrc == ssrc);
        source.map(|source| source.dependencies.targets()).unwrap_or_default()
    }

    pub(super) fn figures(&self) -> impl Iterator<Item = SourceFigures> {
        self.list.iter().filter(|source| source.highest.is_some()).map(Source::figures)
    }

    /// The source, created if necessary. If there are too many, it replaces the inactive one that has been
    /// silent for longest.
    fn entry(&mut self, now: Timestamp, ssrc: u32) -> Option<&mut Source> {
        let known = self.list.iter().position(|source| source.ssrc == ssrc);
        let place = match known {
            Some(place) => place,
            None if self.list.len() < MAX_SOURCES => {
                self.list.push(Source::new(ssrc, now, self.rules));
                self.list.len() - 1
            }
            None => {
                let absent =
                    self.list.iter().enumerate().filter(|(_, source)| source.presence != Presence::Live);
                let (place, _) = absent.min_by_key(|(_, source)| source.last_packet_at)?;
                *self.list.get_mut(place)? = Source::new(ssrc, now, self.rules);
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
    /// It has sent no media, or none for a long time.
    Silent,
    /// It has sent a BYE.
    Ended(Timestamp),
}

/// A packet that waits for another to confirm its number.
#[derive(Debug)]
pub(super) struct HeldPacket {
    sequence: u16,
    /// When it arrived.
    pub(super) at: Timestamp,
    pub(super) head: Vec<u8>,
    pub(super) payload: Payload,
}

giusto_units::defaults! {
    /// The state of one source.
    #[derive(Debug)]
    pub(super) struct Source {
        ssrc: u32 = ssrc,
        presence: Presence = Presence::Silent,
        last_packet_at: Timestamp = now,
        /// The highest sequence number, unwrapped.
        highest: Option<u64> = None,
        /// The latest packet that is not near the others, until one that follows it confirms its number.
        held: Vec<HeldPacket> = Vec::new(),
        tracker: SequenceTracker = tracker(),
        /// The counts of earlier trackers, before restarts of the sequence.
        settled: SourceFigures = SourceFigures { ssrc, ..SourceFigures::default() },
        /// Packets expected and received at the last report.
        reported: (u64, u64) = (0, 0),
        jitter: MediaJitter = MediaJitter::default(),
        frames: Frames = Frames::default(),
        playout: Playout = Playout::default(),
        pub(super) losses: Losses = Losses::default(),
        pub(super) parity: ParityDecoder = ParityDecoder::default(),
        /// The timestamp of the first frame that was sent, if the first packet that arrived belongs to it.
        start: Option<u32> = None,
        /// Timestamp and marker of the packet with the highest number.
        latest: Option<(u32, bool)> = None,
        pub(super) keys: KeyFrames = KeyFrames::new(rules.key_frames),
        /// Whether the first packet is numbered by its timestamp.
        numbers_from_timestamp: bool = rules.numbers_from_timestamp,
        /// What may bring its missing packets.
        pub(super) requests: Requests = Requests::Useless,
        /// The source that it retransmits.
        repairs: Option<u32> = None,
        pub(super) clock: SenderClock = SenderClock::default(),
        dependencies: Dependencies = Dependencies::default(),
        /// Its name among the encodings of one video, and the name of the encoding that it retransmits.
        stream_id: Option<StreamId> = None,
        repairs_id: Option<StreamId> = None,
    }
    fn new(ssrc: u32, now: Timestamp, rules: SourceRules);
}

impl Source {
    /// Handles a packet of media with this clock rate. Returns its unwrapped sequence number if it is not a
    /// duplicate.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        header: &RtpHeader,
        size: DataSize,
        rate: Option<u32>,
    ) -> Option<u64> {
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

    pub(super) const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// A packet says its name, or of which encoding it is a retransmission; later ones need not (RFC 8852 §3).
    pub(super) fn set_names(&mut self, name: Option<StreamId>, repairs: Option<StreamId>) {
        (self.stream_id, self.repairs_id) = (name.or(self.stream_id), repairs.or(self.repairs_id));
    }

    pub(super) const fn stream_id(&self) -> Option<StreamId> {
        self.stream_id
    }

    /// Finds the packets that are missing before packet `number`, which has just arrived. Returns whether that one is new: it
    /// was not repaired before. A frame is too late `playout` after the time at which the fastest one would be complete.
    pub(super) fn find_losses(
        &mut self,
        now: Timestamp,
        number: u64,
        header: &RtpHeader,
        playout: TimeDelta,
        format: PayloadFormat,
        requests: Requests,
    ) -> bool {
        self.requests = requests;
        let (timestamp, latest) = (header.timestamp, self.latest);
        let deadline = self.deadlines(now, playout, format);
        if latest.is_none() && self.numbers_from_timestamp {
            // The first number of a stream is the lower half of its first timestamp: see the rules of the module.
            let before = header.sequence.wrapping_sub(timestamp as u16);
            self.start = Some(timestamp).filter(|_| u64::from(before) <= MAX_BEFORE_FIRST);
            self.losses.on_first(now, number, u64::from(before), deadline(timestamp));
        }
        // The packets after one without marker belong to its frame, or to a later one.
        let earliest = latest.filter(|(_, marker)| !marker).map_or(timestamp, |(before, _)| before);
        let is_new = self.losses.on_packet(now, number, || deadline(earliest), requests);
        if self.highest == Some(number) {
            self.latest = Some((timestamp, header.marker));
        }
        is_new
    }

    /// Handles packet `number`, which was recovered from parity. Returns whether it was missing.
    pub(super) fn on_recovered(
        &mut self,
        now: Timestamp,
        number: u64,
        header: &RtpHeader,
        playout: TimeDelta,
        format: PayloadFormat,
        requests: Requests,
    ) -> bool {
        let deadline = self.deadlines(now, playout, format);
        self.losses.on_recovered(now, number, || deadline(header.timestamp), requests)
    }

    /// The time after which a repair of media with a timestamp is too late.
    fn deadlines(
        &self,
        now: Timestamp,
        playout: TimeDelta,
        format: PayloadFormat,
    ) -> impl Fn(u32) -> Timestamp + use<> {
        let rate = format.clock_rate.or(self.clock.learnt_rate());
        let (clock, delays) = (self.clock, self.playout);
        move |timestamp| {
            let delay = rate.and_then(|rate| clock.delay(now, timestamp, rate));
            let excess = delay.map_or(TimeDelta::ZERO, |delay| delays.excess(delay));
            now + (playout - excess).max(TimeDelta::ZERO)
        }
    }

    /// The highest number so far.
    pub(super) const fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Whether a repair of the packet with this number is still of use. If not, it is counted.
    pub(super) fn wants_repair(&mut self, number: u64) -> bool {
        let is_past = self.frames.is_past(number);
        if is_past {
            self.losses.on_needless();
        }
        !is_past
    }

    /// Handles the packets that were given up, if it is a video: it needs a key frame. Returns whether to request one now.
    pub(super) fn wants_key_frame(&mut self, now: Timestamp) -> bool {
        if let Some(number) = self.losses.take_given_up().filter(|_| self.is_video()) {
            self.keys.on_given_up(now, number);
        }
        let asks = self.keys.take(now, self.highest, self.losses.rtt(now));
        self.settled.key_frame_requests += u64::from(asks);
        asks
    }

    /// Whether its frames have several packets, as those of a video.
    pub(super) const fn is_video(&self) -> bool {
        self.frames.has_markers()
    }

    /// Adds a new packet to its frame. Passes on the frames that it completes, with their frame delay. A frame is late if its
    /// delay exceeds the minimum by more than `playout`.
    pub(super) fn on_frame_packet(
        &mut self,
        now: Timestamp,
        packet: FramePacket,
        format: PayloadFormat,
        playout: TimeDelta,
        events: &mut Events,
    ) {
        match format.framing {
            Framing::Marker => {
                let place = self.frames.on_packet(now, packet, playout);
                // At most its own frame and the next one.
                for place in place.into_iter().flat_map(|place| [place, place + 1]) {
                    if let Some(frame) = self.frames.complete(place, format.header) {
                        events.push(self.on_frame(frame, format, playout));
                    }
                }
                self.frames.clean(now, playout);
                if let Some(number) = self.frames.take_damaged() {
                    self.keys.on_given_up(now, number);
                }
            }
            Framing::Packet => {
                let frame = self.frames.on_single(now, packet);
                events.push(self.on_frame(frame, format, playout));
            }
            Framing::None | Framing::Retransmission { .. } | Framing::Parity => {}
        }
    }

    fn on_frame(&mut self, frame: WholeFrame, format: PayloadFormat, playout: TimeDelta) -> MediaEvent {
        let WholeFrame { number: sequence, timestamp: rtp_timestamp, at, packets, repaired, key, payload } =
            frame;
        if let Some(key) = key {
            self.keys.on_frame(at, sequence, key, self.losses.is_open_below(sequence));
        }
        let rate = format.clock_rate.or(self.clock.learnt_rate());
        let delay = rate.and_then(|rate| self.clock.delay(at, rtp_timestamp, rate));
        let excess = delay.map_or(TimeDelta::ZERO, |delay| {
            if repaired == 0 { self.playout.on_frame(at, delay) } else { self.playout.excess(delay) }
        });
        let late = excess > playout;
        self.settled.late_frames += u64::from(late);
        self.settled.repaired_frames += u64::from(repaired > 0);
        let ssrc = self.ssrc;
        MediaEvent::Frame(FrameArrival {
            ssrc,
            sequence,
            rtp_timestamp,
            at,
            delay,
            packets,
            repaired,
            start: self.start,
            late,
            key,
            payload,
        })
    }

    /// The packets that waited for this one, in the order of their arrival, if its number is believed. A number that is not near the
    /// others waits, with its packet, until another is near it: then packets between were lost or are late, or the sequence was restarted
    /// (RFC 3550 A.1).
    pub(super) fn admit(
        &mut self,
        now: Timestamp,
        sequence: u16,
        head: &[u8],
        payload: &Payload,
    ) -> Option<Vec<HeldPacket>> {
        let Some(highest) = self.highest else { return Some(Vec::new()) };
        let ahead = |number: u16, of: u16| number.wrapping_sub(of) as i16;
        let mut highest = highest as u16;
        self.held.retain(|held| now.saturating_since(held.at) < MAX_HELD_FOR);
        if !(-MAX_BEHIND..=MAX_STEP).contains(&ahead(sequence, highest)) {
            // A copy says nothing.
            let is_near = |held: &HeldPacket| {
                (1..=MAX_STEP.unsigned_abs()).contains(&ahead(sequence, held.sequence).unsigned_abs())
            };
            let near = self.held.iter().find(|held| is_near(held)).map(|held| held.sequence);
            let Some(near) = near else {
                if self.held.len() >= MAX_HELD {
                    self.held.remove(0);
                }
                let (head, payload) = (head.to_vec(), payload.clone());
                self.held.push(HeldPacket { sequence, at: now, head, payload });
                return None;
            };
            if !(-MAX_BEHIND..=MAX_AHEAD).contains(&ahead(near, highest)) {
                self.restart(now);
                highest = near;
            }
            if ahead(near, highest) > 0 {
                highest = near;
            }
        }
        if ahead(sequence, highest) > 0 {
            highest = sequence;
        }
        let is_confirmed =
            |held: &mut HeldPacket| (-MAX_BEHIND..=MAX_STEP).contains(&ahead(held.sequence, highest));
        Some(self.held.extract_if(.., is_confirmed).collect())
    }

    /// Begins another sequence.
    fn restart(&mut self, now: Timestamp) {
        self.settled = self.figures();
        self.frames.end();
        self.losses.end();
        self.keys.on_restart(now);
        self.parity = ParityDecoder::default();
        (self.latest, self.start) = (None, None);
        self.tracker = tracker();
        (self.highest, self.reported, self.jitter) = (None, (0, 0), MediaJitter::default());
    }

    /// Its block of a receiver report (RFC 3550 A.3). Starts the next interval.
    fn block(&mut self, now: Timestamp) -> Option<ReportBlock> {
        let highest = self.highest?;
        let expected = self.tracker.expected();
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

    /// Whether a dependency descriptor says that its packet, a new one with this number, is the first of a frame. Where a chain is broken
    /// though no packet is missing, a key frame is needed: a middlebox has left out too much.
    pub(super) fn begins_unit(&mut self, now: Timestamp, number: u64, descriptor: Option<&[u8]>) -> bool {
        let begin = descriptor.and_then(|descriptor| self.dependencies.on_packet(number, descriptor));
        let begin = begin.unwrap_or_default();
        if begin.is_broken && !self.losses.is_open_below(number) {
            self.keys.on_wanted(now);
        }
        begin.begins_unit
    }

    fn figures(&self) -> SourceFigures {
        let losses = self.losses.counts();
        SourceFigures {
            repaired_packets: losses.repaired,
            requested_packets: losses.requested,
            unrepaired_packets: losses.given_up,
            packets: self.settled.packets + self.tracker.received(),
            lost: self.settled.lost + self.tracker.expected() - self.tracker.received(),
            duplicates: self.settled.duplicates + self.tracker.duplicates(),
            jitter: self.jitter.jitter(),
            frames: self.frames.complete_frames(),
            dropped_frames: self.frames.dropped(),
            layers: self.dependencies.layers(),
            stream_id: self.stream_id,
            ..self.settled
        }
    }
}

/// Sources start at any number; the permitted jump is checked before.
fn tracker() -> SequenceTracker {
    SequenceTracker::new(SequenceConfig::default().with_first(None).with_window(TRACKED))
}
