//! Tests of the measurement of answers: a sender and a reflector on a virtual path.

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

    fn synchronised(near: bool, far: bool) -> Self {
        Self::new(ReflectorConfig::default(), clock(near, Some(100)), clock(far, Some(200)))
    }

    /// Sends the next packet, as `copies` to the reflector; returns the answers.
    fn send(&mut self, copies: usize) -> Vec<Vec<u8>> {
        let mut bytes = vec![0; self.source.mode().base_bytes()];
        let now = self.next * 10 * MS;
        self.source.write(Timestamp::from_nanos(now), self.next, &mut bytes);
        self.next += 1;
        let far =
            |ns: u64| WallTime::from_unix_nanos((NOON + now + ns).saturating_add_signed(self.far_offset_ns));
        let from = std::net::SocketAddr::from(([192, 0, 2, 1], 5000));
        let mut answers = Vec::new();
        for _ in 0..copies {
            let arrived =
                Arrived { from, bytes: &bytes, at: far(3 * MS), ttl: Some(60), traffic_class: None };
            let answer = self.reflector.reflect(Timestamp::from_nanos(now), far(5 * MS), &arrived);
            answers.extend(answer.map(|answer| answer.bytes.to_vec()));
        }
        answers
    }

    fn receive(&mut self, bytes: &[u8]) {
        let at = Timestamp::from_nanos((self.next - 1) * 10 * MS + 10 * MS);
        self.answers.handle_datagram(at, bytes, at);
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
fn another_session_shows_whether_the_reflector_counts() {
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
fn a_reflector_that_does_not_count_gives_no_direction() {
    let mut path = Path::plain(ReflectorConfig { stateful: false, ..ReflectorConfig::default() });
    assert_eq!(path.run(".f.b..D."), losses(None, None, 2));
    assert_eq!(path.answers.stateful(), None);
    let expected = AnswerCounters { answered: 6, duplicates: 1, ..AnswerCounters::default() };
    assert_eq!(path.answers.counters(), expected);
    // One that restarts.
    let mut path = Path::plain(ReflectorConfig::default());
    path.run(".f...");
    path.reflector = Reflector::new(ReflectorConfig::default(), clock(false, None));
    assert_eq!(path.run("...b."), losses(None, None, 2));
    assert_eq!(path.answers.stateful(), Some(false));
}

#[test]
fn processing_time_is_not_part_of_the_rtt() {
    let mut path = Path::plain(ReflectorConfig::default());
    path.far_offset_ns = -3_600_000_000_000;
    path.run("..........");
    let near = |time: Option<TimeDelta>, ms: f64| (time.unwrap().as_millis() - ms).abs() < 1e-5;
    assert!(near(path.answers.rtts().max(), 8.0), "{:?}", path.answers.rtts().max());
    assert!(near(path.answers.processing().min(), 2.0));
    assert_eq!(path.answers.ttl(), Some((60, 60)));
    let forward = path.answers.forward().unwrap();
    // An hour of offset is not a delay.
    assert_eq!(forward.delay.basis, giusto_measure::DelayBasis::Relative);
    assert!(near(Some(forward.delay.max), 0.0) && forward.jitter.unwrap().as_nanos() <= 1, "{forward:?}");
    assert!(!path.answers.clocks_contradict());
}

#[test]
fn synchronised_clocks_give_one_way_delays() {
    let mut path = Path::synchronised(true, true);
    path.run("..........");
    let delays = [path.answers.forward(), path.answers.backward()].map(|way| way.unwrap().delay);
    assert!((delays[0].p50.as_millis() - 3.0).abs() < 0.01, "{:?}", delays[0]);
    assert!((delays[1].p50.as_millis() - 5.0).abs() < 0.01, "{:?}", delays[1]);
    let uncertainty = path.answers.uncertainty().unwrap().as_micros();
    assert!((300.0..310.0).contains(&uncertainty), "{uncertainty}");
    assert!(!path.answers.clocks_contradict());
    for (near, far) in [(true, false), (false, true)] {
        let mut path = Path::synchronised(near, far);
        path.run("..");
        assert_eq!(path.answers.forward().unwrap().delay.basis, giusto_measure::DelayBasis::Relative);
    }
}

#[test]
fn clocks_that_cannot_be_synchronised_are_found() {
    let mut path = Path::synchronised(true, true);
    path.far_offset_ns = -4_000_000;
    path.run("..........");
    assert!(path.answers.clocks_contradict(), "the way there would take -1 ms");
    // A clock that loses its synchronisation.
    let mut path = Path::synchronised(true, true);
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
        let AnswerCounters { answered, duplicates, malformed, forged, unmatched, .. } =
            path.answers.counters();
        assert_eq!((answered, duplicates, malformed), (1, 1, 2));
        assert_eq!((forged, unmatched), if keys.is_some() { (1, 0) } else { (0, 1) });
    }
}
