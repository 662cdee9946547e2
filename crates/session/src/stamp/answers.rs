//! What a Session-Sender measures from the answers (RFC 8762 §4.2).

use giusto_measure::{
    ClockRelation, DelayMeter, DelaySummary, ErrorHistogram, InterarrivalJitter, SequenceConfig,
    SequenceTracker, SequenceVerdict,
};
use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use super::{
    departures::ProbeSource,
    packet::{self, Mode, PacketError, ReflectedPacket},
    time::WallTime,
    tlv,
};
use crate::Session;

/// How many packets may have been duplicated on their way without their further answers having come yet.
const COPIES_ON_THE_WAY: u64 = 64;

/// How far below zero a delay between two readings of one clock may be: the error of converting kernel timestamps.
const SAME_CLOCK_ERROR: TimeDelta = TimeDelta::from_micros(100);

/// The datagrams that came back, by what became of them. Their sum is the number of datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnswerCounters {
    /// First answers to a packet: what is measured.
    pub answered: u64,
    /// Further answers to a packet: the packet or its answer was duplicated on the way.
    pub duplicates: u64,
    /// Too short to be an answer.
    pub malformed: u64,
    /// No key verifies them.
    pub forged: u64,
    /// They answer no packet of this session, or one of so long ago that its time is no longer known.
    pub unmatched: u64,
    /// Answers "port unreachable" of the far host, which are no datagrams.
    pub unreachable: u64,
}

/// Packets without an answer, by the direction in which they were lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// All of them.
    pub lost: u64,
    /// Lost on the way to the reflector (near-end loss); `None` if the direction is unknown.
    pub forward: Option<u64>,
    /// Answers lost on the way back (far-end loss); `None` if the direction is unknown.
    pub backward: Option<u64>,
    /// Of unknown direction: all of them with a stateless reflector, and those behind the last answer in any case.
    pub unattributed: u64,
}

/// How the one-way delays of a direction are to be understood.
#[derive(Debug, Clone, PartialEq)]
pub struct OneWay {
    /// The delays. Above the shortest one if its basis is relative.
    pub delay: DelaySummary,
    /// Interarrival jitter (RFC 3550 §6.4.1); `None` before the second answer.
    pub jitter: Option<TimeDelta>,
    /// Packets that arrived after a later one (RFC 4737 §3.3); `None` if the direction is unknown.
    pub reordered: Option<u64>,
}

/// Measures the answers of a session.
///
/// The direction of a loss is known from a stateful reflector: its numbers count what has reached it.
#[derive(Debug)]
pub struct Answers {
    source: ProbeSource,
    same_clock: bool,
    counters: AnswerCounters,
    sent: SequenceTracker,
    far: FarCount,
    rtts: ErrorHistogram,
    recent_rtts: ErrorHistogram,
    processing: ErrorHistogram,
    clocks: Option<Clocks>,
    forward_jitter: InterarrivalJitter,
    backward_jitter: InterarrivalJitter,
    without_times: u64,
    ttl: Option<(u8, u8)>,
    ssid_zeroed: u64,
    flags: tlv::TlvFlags,
}

/// The numbers of the reflector.
#[derive(Debug)]
struct FarCount {
    numbers: SequenceTracker,
    /// Whether the reflector counts: a number differs from the sender's, or another session has shown it.
    counts: Option<bool>,
    /// The numbers cannot be a count of what arrived in this session.
    broken: bool,
    /// The highest number of ours among the answers that were in order on the way back.
    newest_sent: Option<u64>,
    forward_reordered: u64,
}

/// The clocks as the first answer describes them.
#[derive(Debug)]
struct Clocks {
    relation: ClockRelation,
    /// A later answer contradicts it.
    changed: bool,
    /// The largest sum of both error estimates.
    uncertainty: TimeDelta,
    forward: DelayMeter,
    backward: DelayMeter,
}

impl Session for Answers {
    fn handle_datagram(&mut self, _: Timestamp, datagram: &[u8], at: Timestamp) {
        self.on_datagram(at, datagram);
    }

    fn handle_unreachable(&mut self, _: Timestamp, messages: u64) {
        self.counters.unreachable += messages;
    }
}

impl Answers {
    /// Answers to the packets of `source`. `same_clock`: the reflector is on this machine.
    pub fn new(source: ProbeSource, same_clock: bool) -> Self {
        // An answer repeats the time of its packet, so its number is accepted however far ahead it is.
        let any_jump = SequenceConfig::default().with_max_jump(u64::MAX);
        Self {
            source,
            same_clock,
            counters: AnswerCounters::default(),
            sent: SequenceTracker::new(any_jump),
            far: FarCount {
                numbers: SequenceTracker::new(any_jump),
                counts: None,
                broken: false,
                newest_sent: None,
                forward_reordered: 0,
            },
            rtts: ErrorHistogram::new(),
            recent_rtts: ErrorHistogram::new(),
            processing: ErrorHistogram::new(),
            clocks: None,
            forward_jitter: InterarrivalJitter::new(),
            backward_jitter: InterarrivalJitter::new(),
            without_times: 0,
            ttl: None,
            ssid_zeroed: 0,
            flags: tlv::TlvFlags::default(),
        }
    }

    fn on_datagram(&mut self, at: Timestamp, bytes: &[u8]) {
        let mode = self.source.mode();
        if let Some(keys) = &self.source.keys {
            match packet::verify(bytes, keys) {
                Ok(_) => {}
                Err(PacketError::NotAuthentic) => return self.counters.forged += 1,
                Err(PacketError::TooShort { .. }) => return self.counters.malformed += 1,
            }
        }
        let Ok(answer) = ReflectedPacket::read(mode, bytes) else { return self.counters.malformed += 1 };
        // A reflector without RFC 8972 sets the identifier to 0 (RFC 8972 §3).
        let ours = answer.ssid == self.source.ssid || answer.ssid == 0;
        let found = self.source.departures.find(answer.sender.sequence, answer.sender.time);
        let Some(sequence) = found.filter(|_| ours) else { return self.counters.unmatched += 1 };
        match self.sent.on_packet(sequence) {
            SequenceVerdict::Duplicate => {
                self.counters.duplicates += 1;
                self.far.on_duplicate(answer.sequence);
                return;
            }
            verdict if verdict.is_new() => {}
            _ => return self.counters.unmatched += 1,
        }
        self.counters.answered += 1;
        self.far.on_answer(sequence, answer.sequence, self.counters.duplicates);
        self.ssid_zeroed += u64::from(answer.ssid != self.source.ssid);
        let (low, high) = self.ttl.unwrap_or((answer.ttl, answer.ttl));
        self.ttl = Some((low.min(answer.ttl), high.max(answer.ttl)));
        self.on_extensions(bytes, mode);
        self.on_times(at, sequence, &answer);
    }

    fn on_extensions(&mut self, bytes: &[u8], mode: Mode) {
        let flags = tlv::flags(bytes.get(mode.base_bytes()..).unwrap_or_default());
        self.flags.unrecognised |= flags.unrecognised;
        self.flags.malformed |= flags.malformed;
        self.flags.not_authentic |= flags.not_authentic;
    }

    fn on_times(&mut self, at: Timestamp, sequence: u64, answer: &ReflectedPacket) {
        let tai = self.source.tai_offset_s;
        let (near, far) = (answer.sender.error, answer.error);
        let times = || {
            let sent = near.format.read(answer.sender.time, tai)?;
            let received = far.format.read(answer.received, tai)?;
            let reflected = far.format.read(answer.time, tai)?;
            // The far clock was set in between, or the reflector does not report both times.
            (reflected >= received && answer.received != 0).then_some((sent, received, reflected))
        };
        let Some((sent, received, reflected)) = times() else { return self.without_times += 1 };
        let origin = self.source.origin.as_unix_nanos();
        let returned = WallTime::from_unix_nanos(origin.saturating_add(at.as_nanos()));
        let rtt = (returned - sent) - (reflected - received);
        // The two times of the reflector are further apart than ours.
        if rtt < TimeDelta::ZERO {
            return self.without_times += 1;
        }
        self.rtts.record(rtt);
        self.recent_rtts.record(rtt);
        self.processing.record(reflected - received);

        let arrival = |time: WallTime| Timestamp::from_nanos(time.as_unix_nanos());
        let departure = |time: WallTime| PeerTimestamp::from_nanos(time.as_unix_nanos());
        self.forward_jitter.on_packet(arrival(received), departure(sent));
        self.backward_jitter.on_packet(arrival(returned), departure(reflected));

        let errors = near.error().zip(far.error());
        let uncertainty = errors.filter(|_| near.synchronised && far.synchronised);
        let uncertainty = uncertainty
            .map(|(near, far)| TimeDelta::from_nanos(near.as_nanos().saturating_add(far.as_nanos())));
        let relation = match uncertainty {
            _ if self.same_clock => ClockRelation::Same,
            Some(uncertainty) => ClockRelation::Synchronised { uncertainty },
            None => ClockRelation::Unknown,
        };
        let clocks = self.clocks.get_or_insert_with(|| Clocks {
            relation,
            changed: false,
            uncertainty: TimeDelta::ZERO,
            forward: DelayMeter::new(relation),
            backward: DelayMeter::new(relation),
        });
        clocks.changed |= std::mem::discriminant(&relation) != std::mem::discriminant(&clocks.relation);
        clocks.uncertainty = clocks.uncertainty.max(uncertainty.unwrap_or_default());
        clocks.forward.on_packet(arrival(received), sequence, departure(sent));
        clocks.backward.on_packet(arrival(returned), sequence, departure(reflected));
    }

    /// The counts so far.
    pub fn counters(&self) -> AnswerCounters {
        self.counters
    }

    /// The losses among the first `sent` packets. A late answer may still revert them.
    pub fn losses(&self, sent: u64) -> Losses {
        let answered = self.counters.answered;
        let lost = sent.saturating_sub(answered);
        // What is behind the last answer may have been lost in either direction.
        let behind = self.sent.highest().map_or(sent, |highest| sent.saturating_sub(highest + 1));
        let known = lost.saturating_sub(behind);
        let forward = if answered > 0 && known == 0 {
            Some(0)
        } else {
            // More than were sent cannot have arrived: then the reflector counts something else.
            let arrived = self.far.arrived(answered);
            arrived.and_then(|arrived| (sent - behind).checked_sub(arrived)).map(|lost| lost.min(known))
        };
        match forward {
            None => Losses { lost, forward: None, backward: None, unattributed: lost },
            Some(_) => Losses {
                lost,
                forward,
                backward: forward.map(|forward| known - forward),
                unattributed: lost - known,
            },
        }
    }

    /// Round-trip times without the reflector's processing: (T4 − T1) − (T3 − T2).
    pub fn rtts(&self) -> &ErrorHistogram {
        &self.rtts
    }

    /// The round-trip times since the last call.
    pub fn take_recent_rtts(&mut self) -> ErrorHistogram {
        std::mem::take(&mut self.recent_rtts)
    }

    /// Packets before the last one that was answered which have no answer themselves so far.
    pub fn missing(&self) -> u64 {
        self.sent.highest().map_or(0, |highest| (highest + 1).saturating_sub(self.counters.answered))
    }

    /// The reflector's processing times: T3 − T2.
    pub fn processing(&self) -> &ErrorHistogram {
        &self.processing
    }

    /// First answers after a later one (RFC 4737 §3.3), in both directions together.
    pub fn reordered(&self) -> u64 {
        self.sent.reordered()
    }

    /// The sum of both error estimates, where both clocks are synchronised; `None` otherwise.
    pub fn uncertainty(&self) -> Option<TimeDelta> {
        let clocks = self.clocks.as_ref()?;
        matches!(clocks.relation, ClockRelation::Synchronised { .. }).then_some(clocks.uncertainty)
    }

    /// Both ends report synchronised clocks, and the delays contradict that; or one of them changed its report.
    pub fn clocks_contradict(&self) -> bool {
        self.clocks.as_ref().is_some_and(|clocks| {
            let impossible = |meter: &DelayMeter| {
                let bounded = !matches!(clocks.relation, ClockRelation::Unknown);
                bounded
                    && meter
                        .summary()
                        .is_some_and(|delay| delay.min < -clocks.uncertainty.max(SAME_CLOCK_ERROR))
            };
            clocks.changed || impossible(&clocks.forward) || impossible(&clocks.backward)
        })
    }

    /// The way to the reflector; `None` without answers.
    pub fn forward(&self) -> Option<OneWay> {
        Some(OneWay {
            delay: self.clocks.as_ref()?.forward.summary()?,
            jitter: self.forward_jitter.jitter(),
            reordered: self.far.arrived(self.counters.answered).map(|_| self.far.forward_reordered),
        })
    }

    /// The way back; `None` without answers.
    pub fn backward(&self) -> Option<OneWay> {
        Some(OneWay {
            delay: self.clocks.as_ref()?.backward.summary()?,
            jitter: self.backward_jitter.jitter(),
            reordered: self.far.arrived(self.counters.answered).map(|_| self.far.numbers.reordered()),
        })
    }

    /// Whether the reflector is known to count (stateful), or not to; `None` while its numbers are the sender's, which is so for
    /// a stateless reflector, and as long as no packet is lost on the way to a stateful one.
    pub fn stateful(&self) -> Option<bool> {
        if self.far.broken { Some(false) } else { self.far.counts }
    }

    /// Sets whether the reflector counts, as another session has shown.
    pub fn set_stateful(&mut self, stateful: bool) {
        self.far.counts = Some(stateful);
    }

    /// Answers whose times cannot be used: the far clock was set, or the reflector does not fill them in.
    pub fn without_times(&self) -> u64 {
        self.without_times
    }

    /// The lowest and the highest TTL with which packets reached the reflector; 0 where it does not report it.
    pub fn ttl(&self) -> Option<(u8, u8)> {
        self.ttl
    }

    /// Answers with the session identifier 0 instead of ours: the reflector does not know RFC 8972.
    pub fn ssid_zeroed(&self) -> u64 {
        self.ssid_zeroed
    }

    /// The flags that the reflector set in our extensions.
    pub fn extension_flags(&self) -> tlv::TlvFlags {
        self.flags
    }
}

impl FarCount {
    fn on_answer(&mut self, ours: u64, theirs: u32, duplicates: u64) {
        if ours as u32 != theirs {
            self.counts = Some(true);
        }
        let Some(number) = self.full(theirs, ours + duplicates) else { return };
        match self.numbers.on_packet(number) {
            verdict if verdict.advances() => {
                if self.newest_sent.is_some_and(|newest| ours < newest) {
                    self.forward_reordered += 1;
                }
                self.newest_sent = self.newest_sent.max(Some(ours));
            }
            verdict if verdict.is_new() => {}
            // A new packet with a number that was there before.
            _ => self.broken = true,
        }
    }

    /// A further answer to a packet: it has a number of its own if the packet was duplicated.
    fn on_duplicate(&mut self, theirs: u32) {
        let next = self.numbers.highest().map_or(0, |highest| highest + 1);
        if let Some(number) = self.full(theirs, next) {
            self.numbers.on_packet(number);
        }
    }

    /// The full number. A count of what arrived is not above `most`, but for copies that have not come back yet.
    fn full(&mut self, theirs: u32, most: u64) -> Option<u64> {
        let most = most.saturating_add(COPIES_ON_THE_WAY);
        let back = (most as u32).wrapping_sub(theirs);
        let number = most.checked_sub(back.into());
        if number.is_none() {
            self.broken = true;
        }
        number.filter(|_| !self.broken)
    }

    /// The packets that reached the reflector up to the last answer, of which `answered` came back; `None` if it is not known to
    /// count them.
    fn arrived(&self, answered: u64) -> Option<u64> {
        if self.broken || self.counts != Some(true) {
            return None;
        }
        // A packet that was duplicated on its way has been counted twice.
        let repeated = self.numbers.received().saturating_sub(answered);
        self.numbers.highest().map(|highest| (highest + 1).saturating_sub(repeated))
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
