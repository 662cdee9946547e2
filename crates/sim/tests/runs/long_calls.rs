//! Calls of a day with different clocks: every counter on the wire wraps, and the rate must stay stable.

use giusto_congestion::{Algorithm, Limits};
use giusto_sim::traffic::encoder::AudioConfig;
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::link::{Run, algorithm, audio_of, kbps, millis, video};

const SCREAMS: [&str; 3] = ["scream:rfc8298+giusto", "scream:d00+giusto", "scream:v2"];

/// Five packets per second: the audio of a day takes most of the simulation time.
const AUDIO: AudioConfig =
    AudioConfig { rate: DataRate::from_bps(10_000), packet_time: TimeDelta::from_millis(200), clock: 48_000 };
/// Index of the video stream.
const VIDEO: usize = 1;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

/// A call over 3 Mbit/s, whose receiver has this clock.
fn call(kind: Algorithm, clock: fn(Timestamp) -> Timestamp) -> Run {
    let limits = Limits::DEFAULT.with_min(kbps(100)).with_start(kbps(300)).with_max(kbps(6300));
    let mut run = Run::of(kind, limits, vec![audio_of(1, AUDIO), video(2, 1.0, 100, 6000)]);
    (run.rate, run.delay, run.clock) = (kbps(3000), millis(50), Some(clock));
    run
}

/// Data that passed the link between two times.
#[derive(Debug)]
struct Part {
    mbps: f64,
    packets: usize,
    dropped: u64,
    mean_queue_ms: f64,
}

fn part(run: &mut Run, until: Timestamp) -> Part {
    let (from, dropped) = (run.now, run.dropped);
    run.passed.clear();
    run.sent.clear();
    run.events = Default::default();
    run.until(until);
    let bits: u64 = run.passed.iter().map(|passed| passed.size.as_bits()).sum();
    let queued: f64 = run.passed.iter().map(|passed| passed.queued.as_millis()).sum();
    Part {
        mbps: bits as f64 * 1e-6 / (until - from).as_seconds(),
        packets: run.passed.len(),
        dropped: run.dropped - dropped,
        mean_queue_ms: queued / run.passed.len().max(1) as f64,
    }
}

/// Ten hours ahead, and 50 ppm fast: 4.3 s per day.
fn fast(now: Timestamp) -> Timestamp {
    let nanos = u128::from(now.as_nanos()) * 1_000_050 / 1_000_000 + 36_000_000_000_000;
    Timestamp::from_nanos(u64::try_from(nanos).unwrap())
}

/// A day in which one minute of video follows every 59 minutes of audio alone. Sequence numbers of the audio wrap six times, those of all
/// packets at least as often; RTP timestamps after 13 h; the clock of the feedback after 18 h (RFC 8888) or 13 h (the draft's), which is
/// 10 h earlier on the receiver's clock.
fn a_day(kind: &str, worst_queue_ms: f64) {
    let mut call = call(algorithm(kind), fast);
    let mut settled: Vec<f64> = Vec::new();
    for hour in 0..24 {
        let begin = 3600 * hour;
        call.ends[0].set_paused(at(begin), VIDEO, false);
        let rise = part(&mut call, at(begin + 30));
        let after = part(&mut call, at(begin + 60));
        call.ends[0].set_paused(at(begin + 60), VIDEO, true);
        let audio = part(&mut call, at(begin + 3600));
        // The capacity was learned before: the rate neither restarts at the start rate nor is the estimate lost.
        assert!(rise.mbps > 1.8, "{kind}, {hour}: {rise:?}");
        assert!((1.0..worst_queue_ms).contains(&after.mean_queue_ms), "{kind}, {hour}: {after:?}");
        // The estimate of a minute is not used unchanged an hour later: there is no overload when video resumes.
        assert_eq!((rise.dropped, after.dropped, audio.dropped), (0, 0, 0), "{kind}, {hour}");
        // Five audio packets and one report per second, and the video packets that were still in flight.
        assert!((3540 * 6..3540 * 6 + 300).contains(&audio.packets), "{kind}, {hour}: {audio:?}");
        settled.push(after.mbps);
    }
    let mean = settled.iter().sum::<f64>() / settled.len() as f64;
    assert!(settled.iter().all(|mbps| (0.85..1.15).contains(&(mbps / mean))), "{kind}: {settled:?}");
    assert!(mean > 1.8 && mean < 3.0, "{kind}: {mean} Mbit/s");
}

// Queueing delays: d00 has a target of 80 ms, RFC 8298 of 100 ms, v2 of 30 to 60 ms.
#[test]
fn rfc8298_is_stable_all_day() {
    a_day(SCREAMS[0], 100.0);
}

#[test]
fn d00_is_stable_all_day() {
    a_day(SCREAMS[1], 80.0);
}

#[test]
fn v2_is_stable_all_day() {
    a_day(SCREAMS[2], 60.0);
}

/// The receiver's clock is set forward by ten seconds after one minute, and back by seven after two. Since time does not run backwards,
/// it then stands still for seven seconds.
fn set_twice(now: Timestamp) -> Timestamp {
    let seconds = match now.as_nanos() / 1_000_000_000 {
        0..60 => 100,
        60..120 => 110,
        _ => 103,
    };
    now + TimeDelta::from_seconds(seconds)
}

/// The clock is set forward by 150 ms every 20 s: as much as a queueing delay could be.
fn set_by_little(now: Timestamp) -> Timestamp {
    now + TimeDelta::from_millis(150) * (now.as_nanos() / 20_000_000_000) as i64
}

#[test]
fn a_clock_step_costs_only_the_time_it_stands_still() {
    for kind in SCREAMS.map(algorithm) {
        let parts = |clock| {
            let mut call = call(kind, clock);
            [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|end| part(&mut call, at(20 * end)))
        };
        let steady = parts(fast);
        for (clock, still) in [(set_twice as fn(_) -> _, Some(6)), (set_by_little, None)] {
            for (place, (set, steady)) in parts(clock).iter().zip(&steady).enumerate() {
                // Seven of 20 seconds without feedback, and the time to recover.
                let min = if still == Some(place) { 0.2 } else { 0.85 };
                assert!(set.mbps > min * steady.mbps, "{kind}, part {place}: {set:?} of {steady:?}");
                assert_eq!((set.dropped, steady.dropped), (0, 0), "{kind}, part {place}");
            }
        }
    }
}

#[test]
fn clock_drift_has_little_effect() {
    let clocks: [fn(Timestamp) -> Timestamp; 3] = [
        |now| now,
        |now| Timestamp::from_nanos(now.as_nanos() / 10_000 * 10_001),
        |now| Timestamp::from_nanos(now.as_nanos() / 10_000 * 9_999),
    ];
    for kind in SCREAMS.map(algorithm) {
        let quarter_of_an_hour = clocks.map(|clock| {
            let mut call = call(kind, clock);
            part(&mut call, at(120));
            part(&mut call, at(900))
        });
        for other in &quarter_of_an_hour {
            // Drift that is not detected makes the queue appear longer. It is then kept shorter, which is an advantage for the SCReAM
            // draft.
            let (rate, queue) = (
                other.mbps / quarter_of_an_hour[0].mbps,
                other.mean_queue_ms - quarter_of_an_hour[0].mean_queue_ms,
            );
            assert!((0.95..1.2).contains(&rate), "{kind}: {quarter_of_an_hour:?}");
            assert!((-25.0..10.0).contains(&queue), "{kind}: {quarter_of_an_hour:?}");
            assert_eq!(other.dropped, 0, "{kind}");
        }
    }
}

/// While the sender's machine sleeps, its clock stands still: that of the receiver is ahead by five seconds then.
#[test]
fn a_call_goes_on_after_its_sender_has_slept() {
    let awake: fn(_) -> _ = |now: Timestamp| now + TimeDelta::from_seconds(100);
    let slept = |now: Timestamp| now + TimeDelta::from_seconds(if now < at(60) { 100 } else { 105 });
    for kind in Algorithm::all() {
        let mbps = [awake, slept].map(|clock| {
            let mut call = call(kind, clock);
            part(&mut call, at(100));
            part(&mut call, at(120)).mbps
        });
        assert!(mbps[1] > 0.7 * mbps[0], "{kind}: {mbps:?} Mbit/s");
    }
}
