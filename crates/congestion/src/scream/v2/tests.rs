//! How it behaves in a closed loop.

use super::*;
use crate::{
    algorithm::Algorithm,
    closed_loop::{Outcome, Scenario, run, run_with},
};

fn kind() -> Algorithm {
    "scream:v2".parse().unwrap()
}

fn limits(start: u64, max: u64) -> Limits {
    Limits { start: DataRate::from_bps(start), max: DataRate::from_bps(max), ..Limits::default() }
}

/// 10 Mbit/s and 25 ms one way, as in the simulator of the authors. A report each 25 ms lies between what the text wants at this
/// rate, each 16 packets, and what it wants at the least, each picture (§"Receiver Requirements on Feedback Intensity").
fn ten() -> Scenario {
    Scenario {
        link: |_| 10.0,
        limits: limits(1_000_000, 20_000_000),
        feedback: TimeDelta::from_millis(25),
        ..Scenario::default()
    }
}

fn three() -> Scenario {
    Scenario { link: |_| 3.0, limits: limits(300_000, 10_000_000), ..ten() }
}

fn with(config: &ScreamV2Config, scenario: Scenario) -> Outcome {
    run_with(Box::new(ScreamV2::new(ScreamV2Config { limits: scenario.limits, ..*config })), kind(), scenario)
}

/// Where the delay is all there is, it stands for no marks below half its target, and for nothing but marks at the target.
#[test]
fn a_queue_without_marks_is_filled_to_between_a_quarter_of_the_target_and_the_target() {
    for target in [60, 40, 30, 20] {
        let delay =
            QueueDelayConfig { target: TimeDelta::from_millis(target), ..QueueDelayConfig::default() };
        let outcome = with(&ScreamV2Config { delay, ..ScreamV2Config::default() }, ten());
        let (rate, wait) = (outcome.mbps(20.0, 60.0), outcome.wait_p95(20.0, 60.0));
        assert!((8.2..=10.0).contains(&rate), "{target} ms: {rate}");
        assert!((target as f64 / 4.0..=target as f64).contains(&wait), "{target} ms: {wait}");
        assert_eq!(outcome.dropped, 0);
        let is_delay = |cause: &Cause| matches!(cause, Cause::Delay { signal: Signal::OverUse, .. });
        assert!(outcome.has_cause(is_delay));
        assert!(!outcome.has_cause(|cause| matches!(cause, Cause::Loss { .. } | Cause::Marks { .. })));
    }
}

/// It gains a packet each round trip, somewhat more by a factor: 25 kB more at 50 ms and a report's wait take a second or two.
#[test]
fn from_150_kbit_it_takes_a_second_or_two_to_nine_tenths_of_three_mbit() {
    let outcome = run(kind(), Scenario { limits: limits(150_000, 10_000_000), ..three() });
    let reached = outcome.reaches(0.0, 2.7).unwrap();
    assert!((0.5..=4.0).contains(&reached), "{reached}");
}

/// Frames leave at 1.5 times the rate: above two thirds of the link they queue, and are marked.
#[test]
fn a_step_of_one_millisecond_leaves_two_thirds_of_the_link_and_hardly_a_queue() {
    let outcome = run(kind(), Scenario { ecn: Ecn::Ect1, mark_above: 1.0, ..ten() });
    let (rate, wait) = (outcome.mbps(20.0, 60.0), outcome.wait_p95(20.0, 60.0));
    assert!((6.4..=7.7).contains(&rate), "{rate}");
    assert!((0.1..=5.0).contains(&wait), "{wait}");
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Marks { .. })));
    let (least, greatest) = outcome.targets(20.0, 60.0);
    assert!(greatest / least < 1.1, "{least} {greatest}");
    // So it is the headroom of the pacing: with a tenth, eleven tenths of the rate are the link.
    let sending = SendingConfig { head_room: 1.1, ..SendingConfig::default() };
    let config = ScreamV2Config { sending, ..ScreamV2Config::default() };
    let narrow = with(&config, Scenario { ecn: Ecn::Ect1, mark_above: 1.0, ..ten() });
    assert!((8.6..=9.8).contains(&narrow.mbps(20.0, 60.0)), "{}", narrow.mbps(20.0, 60.0));
    assert!(narrow.wait_p95(20.0, 60.0) <= 5.0, "{}", narrow.wait_p95(20.0, 60.0));
}

/// The authors' simulator marks between 8 and 12 ms, and shows 8.2 Mbit/s of 10 at 5 ms on average.
#[test]
fn a_step_of_eight_milliseconds_leaves_the_authors_rate_or_more() {
    let outcome = run(kind(), Scenario { ecn: Ecn::Ect1, mark_above: 8.0, ..ten() });
    let (rate, wait) = (outcome.mbps(20.0, 60.0), outcome.wait_p95(20.0, 60.0));
    assert!((8.2..=10.0).contains(&rate), "{rate}");
    assert!((2.0..=12.0).contains(&wait), "{wait}");
}

/// A classic mark takes a fifth, however few there are: less of the link is used than with graded ones.
#[test]
fn classic_marks_take_a_fifth_each() {
    let classic = run(kind(), Scenario { ecn: Ecn::Ect0, mark_above: 8.0, ..ten() });
    let graded = run(kind(), Scenario { ecn: Ecn::Ect1, mark_above: 8.0, ..ten() });
    let (rate, most) = (classic.mbps(20.0, 60.0), graded.mbps(20.0, 60.0));
    assert!((6.0..most).contains(&rate), "{rate} {most}");
    let (least, greatest) = classic.targets(20.0, 60.0);
    assert!(least < 0.85 * greatest, "{least} {greatest}");
}

#[test]
fn a_second_after_the_link_falls_to_three_tenths_the_queue_is_short_again() {
    let link = |t| if t < 30.0 { 10.0 } else { 3.0 };
    let outcome = run(kind(), Scenario { link, ..ten() });
    assert!(outcome.wait_p95(30.0, 30.5) > 100.0, "{}", outcome.wait_p95(30.0, 30.5));
    assert!(outcome.wait_p95(31.0, 60.0) < 100.0, "{}", outcome.wait_p95(31.0, 60.0));
    let rate = outcome.mbps(35.0, 60.0);
    assert!((2.4..=3.0).contains(&rate), "{rate}");
    // It falls too far, for the longer round trip lowers the target as well as the window.
    assert!((0.2..2.0).contains(&outcome.targets(30.0, 32.0).0), "{:?}", outcome.targets(30.0, 32.0));
}

#[test]
fn losses_of_the_links_own_are_borne_and_many_are_not() {
    let rate = |loss| run(kind(), Scenario { loss, ..three() }).mbps(20.0, 60.0);
    let (none, few, many) = (rate(0.0), rate(0.003), rate(0.05));
    assert!(few > 0.8 * none, "{few} {none}");
    assert!((0.1..0.6 * none).contains(&many), "{many} {none}");
    // To the letter of §"Reference Window Reduction" each loss takes its part.
    let losses = LossesConfig { threshold: 0.0, ..LossesConfig::default() };
    let strict =
        with(&ScreamV2Config { losses, ..ScreamV2Config::default() }, Scenario { loss: 0.003, ..three() });
    assert!(strict.mbps(20.0, 60.0) < few, "{} {few}", strict.mbps(20.0, 60.0));
    assert!(strict.has_cause(|cause| matches!(cause, Cause::Loss { .. })));
}

#[test]
fn who_uses_a_tenth_learns_of_little_more() {
    // 1.5 times what was in flight at most, and a packet: in flight is a picture more than the rate times the round trip.
    let outcome = run(kind(), Scenario { media: DataRate::from_bps(1_000_000), ..ten() });
    let (least, greatest) = outcome.targets(10.0, 60.0);
    assert!(least >= 1.0 && greatest <= 3.0, "{least} {greatest}");
    assert!(outcome.has_cause(|cause| *cause == Cause::ApplicationLimited));
}

#[test]
fn the_most_is_held_and_packets_leave_faster_there() {
    let outcome = run(kind(), Scenario { limits: limits(300_000, 2_000_000), ..ten() });
    let (least, greatest) = outcome.targets(10.0, 60.0);
    assert_eq!((least, greatest), (2.0, 2.0));
    assert!(outcome.has_cause(|cause| *cause == Cause::Limit));
    assert!(outcome.wait_p95(10.0, 60.0) < 10.0);
}

#[test]
fn an_outage_is_survived() {
    let link = |t| if (20.0..25.0).contains(&t) { 0.0 } else { 3.0 };
    let outcome = run(kind(), Scenario { link, ..three() });
    let quiet = outcome.target(24.9);
    assert!((0.03..0.3).contains(&quiet), "{quiet}");
    let steps = outcome.decisions.iter().filter(|decision| decision.cause == Cause::Silence).count();
    assert!(steps >= 3, "{steps}");
    // Three windows are in flight and lost at first, and as much again of each half of the window, in all less than twice; and
    // three least windows each half second, seven packets.
    let first = 3.0e6 / 8.0 * 0.125 * 1.3 * 3.0 / 1200.0;
    let most = 2.0 * first + 10.0 * 8.0;
    assert!((20.0..most).contains(&(outcome.dropped as f64)), "{} {most}", outcome.dropped);
    let again = outcome.reaches(25.0, 2.4).unwrap();
    assert!((25.0..32.0).contains(&again), "{again}");
}

#[test]
fn other_round_trips_fill_the_link_too() {
    for (delay, least) in [((|_| 2.0) as fn(f64) -> f64, 8.0), (|_| 100.0, 7.0)] {
        let outcome = run(kind(), Scenario { delay, ..ten() });
        let (rate, wait) = (outcome.mbps(30.0, 60.0), outcome.wait_p95(30.0, 60.0));
        assert!((least..=10.0).contains(&rate), "{} ms: {rate}", delay(0.0));
        assert!((5.0..=120.0).contains(&wait), "{} ms: {wait}", delay(0.0));
    }
}

/// 50 ppm: 3 ms a minute, which in ten minutes is half the delay's target.
#[test]
fn for_half_an_hour_nothing_collapses_and_nothing_runs_away_even_if_the_clock_drifts() {
    for delay in [(|_| 25.0) as fn(f64) -> f64, |t| 25.0 + t * 0.05] {
        let outcome = run(kind(), Scenario { delay, seconds: 1800, ..three() });
        for minute in 1..30 {
            let (from, to) = (f64::from(minute) * 60.0, f64::from(minute + 1) * 60.0);
            let (rate, wait) = (outcome.mbps(from, to), outcome.wait_p95(from, to));
            assert!((2.2..=3.0).contains(&rate), "minute {minute}: {rate}");
            assert!((5.0..=100.0).contains(&wait), "minute {minute}: {wait}");
            let (_, greatest) = outcome.targets(from, to);
            assert!(greatest < 6.0, "minute {minute}: {greatest}");
        }
    }
}

#[test]
fn the_mode_of_marks_is_what_the_packets_say_unless_told() {
    let scenario = Scenario { ecn: Ecn::Ect1, mark_above: 8.0, seconds: 30, ..ten() };
    let rate = |mark_mode| {
        with(&ScreamV2Config { mark_mode, ..ScreamV2Config::default() }, scenario).mbps(10.0, 30.0)
    };
    let [detected, graded, classic] = [MarkMode::Detect, MarkMode::Graded, MarkMode::Classic].map(rate);
    assert!((detected / graded - 1.0).abs() < 0.05, "{detected} {graded}");
    assert!(classic < 0.97 * graded, "{classic} {graded}");
}

#[test]
fn it_begins_at_the_start_rate_whatever_the_round_trip() {
    for delay in [(|_| 5.0) as fn(f64) -> f64, |_| 150.0] {
        let scenario = Scenario { delay, limits: limits(1_000_000, 10_000_000), seconds: 1, ..ten() };
        let outcome = run(kind(), scenario);
        let first = outcome.decisions.iter().find(|decision| decision.to != decision.from).unwrap();
        assert_eq!(first.from.as_bps(), 1_000_000);
        // One message brings no more than a few packets do.
        assert!((900_000..1_500_000).contains(&first.to.as_bps()), "{first:?}");
    }
}
