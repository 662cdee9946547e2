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
    round_trips: ErrorHistogram,
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
    /// Whether the reflector counts: some number differs from the sender's, or another session has told.
    counts: Option<bool>,
    /// The numbers cannot be a count of what arrived in this session.
    broken: bool,
    /// The highest number of ours among the answers that were in order on the way back.
    newest_sent: Option<u64>,
    forward_reordered: u64,
}

/// The clocks as the first answer told of them.
#[derive(Debug)]
struct Clocks {
    relation: ClockRelation,
    /// What they told later contradicts it.
    changed: bool,
    /// The largest sum of both error estimates.
    uncertainty: TimeDelta,
    forward: DelayMeter,
    backward: DelayMeter,
}

impl Answers {
    /// Answers to the packets of `source`. `same_clock`: the reflector is on this machine.
    pub fn new(source: ProbeSource, same_clock: bool) -> Self {
        // An answer repeats the time of its packet, so its number is believed however far ahead it is.
        let any_jump = SequenceConfig { max_jump: u64::MAX, ..SequenceConfig::default() };
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
            round_trips: ErrorHistogram::new(),
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

    /// Handles a datagram from the reflector that arrived at `at` on the local clock.
    pub fn on_datagram(&mut self, at: Timestamp, bytes: &[u8]) {
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
            // The far clock was set in between, or the reflector does not tell both times.
            (reflected >= received && answer.received != 0).then_some((sent, received, reflected))
        };
        let Some((sent, received, reflected)) = times() else { return self.without_times += 1 };
        let origin = self.source.origin.as_unix_nanos();
        let returned = WallTime::from_unix_nanos(origin.saturating_add(at.as_nanos()));
        let round_trip = (returned - sent) - (reflected - received);
        // The two times of the reflector are further apart than ours.
        if round_trip < TimeDelta::ZERO {
            return self.without_times += 1;
        }
        self.round_trips.record(round_trip);
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
    pub fn round_trips(&self) -> &ErrorHistogram {
        &self.round_trips
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

    /// Both ends tell that their clocks are synchronised, and the delays show that they are not, or one of them has told
    /// different things.
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

    /// What another session has told of the reflector: whether it counts.
    pub fn set_stateful(&mut self, stateful: bool) {
        self.far.counts = Some(stateful);
    }

    /// Answers whose times cannot be used: the far clock was set, or the reflector does not fill them in.
    pub fn without_times(&self) -> u64 {
        self.without_times
    }

    /// The lowest and the highest TTL with which packets reached the reflector; 0 where it does not tell it.
    pub fn ttl(&self) -> Option<(u8, u8)> {
        self.ttl
    }

    /// Answers with the session identifier 0 instead of ours: the reflector does not know RFC 8972.
    pub fn ssid_zeroed(&self) -> u64 {
        self.ssid_zeroed
    }

    /// What the reflector told of our extensions.
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
mod tests {
    use super::super::{
        Departures,
        reflector::{Arrived, Reflector, ReflectorConfig},
        time::{ClockState, ErrorEstimate, TimestampFormat},
    };
    use super::*;
    use crate::keys::KeyRing;

    const NOON: u64 = 1_800_000_000_000_000_000;
    const MS: u64 = 1_000_000;

    /// A sender and a reflector with 3 ms of delay in between, 2 ms of processing and 5 ms back; a packet every 10 ms.
    struct Path {
        source: ProbeSource,
        answers: Answers,
        reflector: Reflector,
        next: u64,
        far_offset_ns: i64,
    }

    impl Path {
        fn new(config: ReflectorConfig, near: ClockState, far: ClockState) -> Self {
            let error = ErrorEstimate::of(&near, TimestampFormat::Ntp);
            let source = ProbeSource {
                ssid: 7,
                keys: config.keys.clone(),
                origin: WallTime::from_unix_nanos(NOON),
                tai_offset_s: 0,
                departures: Departures::new(error),
            };
            let answers = Answers::new(source.clone(), false);
            Self { source, answers, reflector: Reflector::new(config, far), next: 0, far_offset_ns: 0 }
        }

        fn plain(config: ReflectorConfig) -> Self {
            Self::new(config, clock(false, None), clock(false, None))
        }

        /// Sends the next packet, as `copies` to the reflector; returns the answers.
        fn send(&mut self, copies: usize) -> Vec<Vec<u8>> {
            let mut bytes = vec![0; self.source.mode().base_bytes()];
            let now = self.next * 10 * MS;
            self.source.write(Timestamp::from_nanos(now), self.next, &mut bytes);
            self.next += 1;
            let far = |ns: u64| {
                WallTime::from_unix_nanos((NOON + now + ns).saturating_add_signed(self.far_offset_ns))
            };
            let from = std::net::SocketAddr::from(([192, 0, 2, 1], 5000));
            let mut answers = Vec::new();
            for _ in 0..copies {
                let arrived = Arrived { from, bytes: &bytes, at: far(3 * MS), ttl: Some(60) };
                let answer = self.reflector.reflect(Timestamp::from_nanos(now), far(5 * MS), &arrived);
                answers.extend(answer.map(|answer| answer.bytes.to_vec()));
            }
            answers
        }

        fn receive(&mut self, bytes: &[u8]) {
            let at = Timestamp::from_nanos((self.next - 1) * 10 * MS + 10 * MS);
            self.answers.on_datagram(at, bytes);
        }

        /// Sends a packet for each letter: `.` is answered, `f` lost on the way there, `b` on the way back, `d` duplicated there,
        /// `D` duplicated on the way back.
        fn run(&mut self, fates: &str) -> Losses {
            for fate in fates.chars() {
                let copies = match fate {
                    'f' => 0,
                    'd' => 2,
                    _ => 1,
                };
                for answer in self.send(copies) {
                    let returned = match fate {
                        'b' => 0,
                        'D' => 2,
                        _ => 1,
                    };
                    (0..returned).for_each(|_| self.receive(&answer));
                }
            }
            self.answers.losses(self.next)
        }
    }

    fn clock(synchronised: bool, error_us: Option<i64>) -> ClockState {
        ClockState { synchronised, error: error_us.map(TimeDelta::from_micros), tai_offset_s: 0 }
    }

    fn losses(forward: Option<u64>, backward: Option<u64>, unattributed: u64) -> Losses {
        let lost = forward.unwrap_or(0) + backward.unwrap_or(0) + unattributed;
        Losses { lost, forward, backward, unattributed }
    }

    #[test]
    fn a_stateful_reflector_parts_the_directions_of_loss() {
        for (fates, expected) in [
            ("....", losses(Some(0), Some(0), 0)),
            (".f.bb.f..", losses(Some(2), Some(2), 0)),
            ("f...", losses(Some(1), Some(0), 0)),
            (".f...bff", losses(Some(1), Some(0), 3)),
            ("..d.f..d.b.D.", losses(Some(1), Some(1), 0)),
            (".b..", losses(None, None, 1)),
            ("ffff", losses(None, None, 4)),
            ("", losses(None, None, 0)),
        ] {
            assert_eq!(Path::plain(ReflectorConfig::default()).run(fates), expected, "{fates}");
        }
    }

    #[test]
    fn another_session_tells_whether_the_reflector_counts() {
        for (stateful, expected) in [(true, losses(Some(0), Some(1), 0)), (false, losses(None, None, 1))] {
            let config = ReflectorConfig { stateful, ..ReflectorConfig::default() };
            let mut path = Path::plain(config.clone());
            path.answers.set_stateful(stateful);
            assert_eq!(path.run(".b.."), expected);
            // The check itself: a session that begins with the number 2.
            let mut check = Path::plain(config);
            check.next = 2;
            check.run(".");
            assert_eq!(check.answers.stateful() == Some(true), stateful);
        }
    }

    #[test]
    fn a_stateless_reflector_tells_no_direction() {
        let config = ReflectorConfig { stateful: false, ..ReflectorConfig::default() };
        let mut path = Path::plain(config);
        assert_eq!(path.run(".f.b..D."), losses(None, None, 2));
        assert_eq!(path.answers.stateful(), None);
        assert_eq!(
            path.answers.counters(),
            AnswerCounters { answered: 6, duplicates: 1, ..AnswerCounters::default() }
        );
    }

    #[test]
    fn a_reflector_that_restarts_tells_no_direction() {
        let mut path = Path::plain(ReflectorConfig::default());
        path.run(".f...");
        path.reflector = Reflector::new(ReflectorConfig::default(), clock(false, None));
        assert_eq!(path.run("...b."), losses(None, None, 2));
        assert_eq!(path.answers.stateful(), Some(false));
    }

    #[test]
    fn processing_time_is_not_part_of_the_round_trip() {
        let mut path = Path::plain(ReflectorConfig::default());
        path.far_offset_ns = -3_600_000_000_000;
        path.run("..........");
        let near = |time: Option<TimeDelta>, ms: f64| (time.unwrap().as_millis() - ms).abs() < 1e-5;
        assert!(near(path.answers.round_trips().max(), 8.0), "{:?}", path.answers.round_trips().max());
        assert!(near(path.answers.processing().min(), 2.0));
        assert_eq!(path.answers.ttl(), Some((60, 60)));
        let forward = path.answers.forward().unwrap();
        assert_eq!(
            forward.delay.basis,
            giusto_measure::DelayBasis::Relative,
            "an hour of offset is not a delay"
        );
        assert!(near(Some(forward.delay.max), 0.0) && forward.jitter.unwrap().as_nanos() <= 1, "{forward:?}");
        assert!(!path.answers.clocks_contradict());
    }

    #[test]
    fn synchronised_clocks_give_one_way_delays() {
        let mut path = Path::new(ReflectorConfig::default(), clock(true, Some(100)), clock(true, Some(200)));
        path.run("..........");
        let delays = [path.answers.forward(), path.answers.backward()].map(|way| way.unwrap().delay);
        assert!((delays[0].p50.as_millis() - 3.0).abs() < 0.01, "{:?}", delays[0]);
        assert!((delays[1].p50.as_millis() - 5.0).abs() < 0.01, "{:?}", delays[1]);
        let uncertainty = path.answers.uncertainty().unwrap().as_micros();
        assert!((300.0..310.0).contains(&uncertainty), "{uncertainty}");
        assert!(!path.answers.clocks_contradict());
        for (near, far) in [(true, false), (false, true)] {
            let mut path =
                Path::new(ReflectorConfig::default(), clock(near, Some(100)), clock(far, Some(200)));
            path.run("..");
            assert_eq!(path.answers.forward().unwrap().delay.basis, giusto_measure::DelayBasis::Relative);
        }
    }

    #[test]
    fn clocks_that_cannot_be_synchronised_are_found() {
        let mut path = Path::new(ReflectorConfig::default(), clock(true, Some(100)), clock(true, Some(200)));
        path.far_offset_ns = -4_000_000;
        path.run("..........");
        assert!(path.answers.clocks_contradict(), "the way there would take -1 ms");
        // A clock that loses its synchronisation.
        let mut path = Path::new(ReflectorConfig::default(), clock(true, Some(100)), clock(true, Some(200)));
        path.run("..");
        path.reflector.set_clock(clock(false, None));
        path.run(".");
        assert!(path.answers.clocks_contradict());
    }

    #[test]
    fn reordering_is_counted_by_direction() {
        let mut path = Path::plain(ReflectorConfig::default());
        path.run(".f.");
        let answers: Vec<_> = (0..3).flat_map(|_| path.send(1)).collect();
        for at in [1, 0, 2] {
            path.receive(&answers[at]);
        }
        let [forward, backward] =
            [path.answers.forward(), path.answers.backward()].map(|way| way.unwrap().reordered);
        assert_eq!((path.answers.reordered(), forward, backward), (1, Some(0), Some(1)));
    }

    #[test]
    fn made_up_and_repeated_answers_do_not_count() {
        let keys = KeyRing::parse(&format!("1 {}", "a".repeat(32))).unwrap();
        for keys in [None, Some(keys)] {
            let mut path = Path::plain(ReflectorConfig { keys: keys.clone(), ..ReflectorConfig::default() });
            let answer = path.send(1).remove(0);
            let mut forged = answer.clone();
            forged[30] ^= 1;
            path.receive(&forged);
            path.receive(&answer[..40]);
            path.receive(&[]);
            path.receive(&answer);
            path.receive(&answer);
            let AnswerCounters { answered, duplicates, malformed, forged, unmatched } =
                path.answers.counters();
            assert_eq!((answered, duplicates, malformed), (1, 1, 2));
            assert_eq!((forged, unmatched), if keys.is_some() { (1, 0) } else { (0, 1) });
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_handled(datagrams in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 0..130), 0..20)) {
            let mut path = Path::plain(ReflectorConfig::default());
            path.run("..");
            for bytes in &datagrams {
                path.receive(bytes);
            }
            let AnswerCounters { answered, malformed, unmatched, .. } = path.answers.counters();
            proptest::prop_assert_eq!((answered, malformed + unmatched), (2, datagrams.len() as u64));
            proptest::prop_assert_eq!(path.answers.losses(2), losses(Some(0), Some(0), 0));
        }
    }
}
