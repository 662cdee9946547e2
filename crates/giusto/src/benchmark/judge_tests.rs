use giusto_congestion::{Cause, Decision};
use giusto_units::{DataRate, DataSize};

use super::*;

const CALL: FlowId = FlowId(0);

fn at(millis: i64) -> Timestamp {
    Timestamp::ZERO + TimeDelta::from_millis(millis)
}

/// One flow from 5 s to 25 s that could carry 1 Mbit/s.
fn shares() -> FairShares {
    let bits = (0..250).map(|bin| if bin < 50 { 0.0 } else { 1e5 }).collect();
    let flow = FairShare { from: at(5000), bits, pauses: vec![(at(12_000), at(14_000))] };
    FairShares { flows: vec![flow], is_alone: true, competes: false, end: at(25_000) }
}

/// A call of 25 Hz whose frames of `bytes` arrive whole 50 ms after their capture, but for the pause and those that `fate` changes.
fn figures(bytes: u32, fate: impl Fn(i64, &mut Watch) -> bool) -> Figures {
    let mut watch = Watch::new(shares(), &[CALL], None);
    for frame in 0..625 {
        let captured = frame * 40;
        if (12_000..14_000).contains(&captured) {
            continue;
        }
        if !fate(captured, &mut watch) {
            queued(&mut watch, captured);
            whole(&mut watch, captured, captured + 50);
        }
        let (sent, queue_delay_ns) = (at(captured), 7_000_000);
        let packet = Packet { flow: CALL, bytes, sent, queue_delay_ns, ..Packet::default() };
        watch.on_event(at(captured), &Event::Sent { packet });
        watch.on_event(at(captured + 50), &Event::Delivered { packet });
    }
    watch.figures(None)
}

fn queued(watch: &mut Watch, captured: i64) {
    watch.on_note(at(captured), &Note::Queued { flow: CALL, ssrc: 2, captured: at(captured) });
}

fn whole(watch: &mut Watch, captured: i64, arrived: i64) {
    let (delay, size) = (Some(TimeDelta::from_millis(arrived - captured)), DataSize::from_bytes(1000));
    let late = arrived - captured > 450;
    let note = Note::Frame { flow: CALL, ssrc: 2, at: at(arrived), delay, size, repaired: false, late };
    // The note may come later than the last packet.
    watch.on_note(at(arrived + 3), &note);
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_call_without_faults_has_the_highest_utility() {
    let figures = figures(5000, |_, _| false);
    // 18 s of 1 Mbit/s and a pause of 2 s; from 5 s to 23 s frames are judged, 2 s less.
    assert!(near(figures.utilisation_ratio, 0.9), "{figures:?}");
    assert_eq!(figures.frames, 400);
    assert!(near(figures.frame_delay_p50_ms, 50.0) && near(figures.frame_delay_p99_ms, 50.0), "{figures:?}");
    assert!((figures.queue_delay_p95_ms - 7.0).abs() < 0.2, "{figures:?}");
    assert_eq!((figures.freeze_ratio, figures.freezes_per_minute), (0.0, 0.0));
    let expected = utility_of_use(0.9, false);
    assert!(near(figures.utility.total, expected) && near(figures.utility.rate, expected), "{figures:?}");
    assert!(!figures.collapsed);
}

#[test]
fn a_skipped_or_missing_frame_has_the_delay_of_the_next_whole_one() {
    // Every tenth frame is skipped, and the one after it never becomes whole.
    let figures = figures(5000, |captured, watch| match captured / 40 % 10 {
        0 => {
            watch.on_note(at(captured), &Note::Skipped { flow: CALL, ssrc: 2 });
            true
        }
        1 => {
            queued(watch, captured);
            true
        }
        _ => false,
    });
    assert_eq!(figures.frames, 400);
    assert!(near(figures.skipped_ratio, 0.1) && near(figures.missing_ratio, 0.1), "{figures:?}");
    // The skipped one is two frames older than the next whole one.
    assert!(near(figures.frame_delay_p50_ms, 50.0) && near(figures.frame_delay_p95_ms, 130.0), "{figures:?}");
    assert!(near(figures.utility.frames, math::exp(-2.0)), "{figures:?}");
}

#[test]
fn a_later_frame_that_arrives_first_ends_the_wait() {
    let figures = figures(5000, |captured, watch| {
        let is_late = captured / 40 % 5 == 0;
        if is_late {
            queued(watch, captured);
            whole(watch, captured, captured + 600);
        }
        is_late
    });
    // The frame 40 ms later comes after 50 ms.
    assert!(near(figures.frame_delay_p95_ms, 90.0) && near(figures.late_ratio, 0.2), "{figures:?}");
}

#[test]
fn a_gap_is_a_freeze_and_a_pause_is_none() {
    let figures = figures(5000, |captured, watch| {
        let lost = (8000..9000).contains(&captured);
        if lost {
            queued(watch, captured);
        }
        lost
    });
    // Nothing from 8.01 s to 9.05 s, in 18 s.
    assert!(near(figures.freeze_ratio, 1.04 / 18.0), "{figures:?}");
    assert!(near(figures.freezes_per_minute, 60.0 / 18.0), "{figures:?}");
    let expected = math::exp(-60.0 / 18.0 / 9.351_586_84 - 1.04 / 18.0 / 0.918_908_15);
    assert!(near(figures.utility.freezes, expected), "{figures:?}");
}

#[test]
fn padding_is_no_use_and_too_little_is_a_collapse() {
    let figures = figures(5000, |captured, watch| {
        watch.on_note(at(captured), &Note::Padding { flow: CALL, size: DataSize::from_bytes(3000) });
        false
    });
    assert!(near(figures.utilisation_ratio, 0.9 * 0.4), "{figures:?}");
    assert!(figures.collapsed);
}

#[test]
fn taking_more_than_the_share_counts_only_where_others_compete() {
    let with = |flows: &[f64], competes| {
        let figures = Figures { flows: flows.to_vec(), frames: 1, ..Figures::default() };
        utility(&figures, competes).rate
    };
    let half = with(&[0.5], true);
    assert!(near(with(&[2.0], false), 1.0) && near(with(&[2.0], true), half));
    assert!(near(with(&[2.0, 0.5], true), half) && near(with(&[1.0, 0.5], true), f64::midpoint(1.0, half)));
    assert!(near(with(&[0.0], false), 0.0) && with(&[0.001], false) < 0.01);
}

#[test]
fn the_rate_is_rated_by_g_1070() {
    // By its formula with a calculator, at 0.1, 0.3, 0.6 and 0.8 of 833 kbit/s.
    for (used, expected) in [(0.1, 0.182), (0.3, 0.470), (0.6, 0.769), (0.8, 0.903)] {
        let rated = utility_of_use(used, false);
        assert!((rated - expected).abs() < 0.002, "{used}: {rated}");
    }
    // 30 % of the share at once are worse than 80 % that come in 350 ms, and better than those that come in 3 s.
    let with = |used: f64, frame_delay_p95_ms| {
        let figures = Figures { flows: vec![used], frames: 1, frame_delay_p95_ms, ..Figures::default() };
        utility(&figures, false).total
    };
    assert!(with(0.3, 30.0) < with(0.8, 350.0) && with(0.3, 30.0) > with(0.8, 3000.0));
}

#[test]
fn delays_are_rated_by_the_e_model() {
    let rated = |frame_delay_p95_ms| {
        let figures = Figures { flows: vec![1.0], frames: 1, frame_delay_p95_ms, ..Figures::default() };
        utility(&figures, false).delay
    };
    // G.107 (7-28): Idd is 0 to 100 ms, 3.0 at 200 ms and 24 at 400 ms, of 93.2.
    assert!(near(rated(100.0), 1.0));
    assert!((rated(200.0) - (1.0 - 3.0 / 93.2)).abs() < 0.002, "{}", rated(200.0));
    assert!((rated(400.0) - (1.0 - 24.1 / 93.2)).abs() < 0.002, "{}", rated(400.0));
    assert!((0.2..0.6).contains(&rated(3000.0)), "{}", rated(3000.0));
}

#[test]
fn the_target_is_compared_each_second() {
    let mut watch = Watch::new(shares(), &[CALL], None);
    // Before the window; within a second and back; a doubling; two halvings.
    for (millis, to) in [(100, 1), (1500, 8), (7100, 16), (7200, 8), (8500, 16), (9500, 4)] {
        let decision = Decision::new(at(millis), DataRate::from_bps(to * 100_000), Cause::Start);
        watch.on_note(at(millis), &Note::Decided { flow: CALL, decision });
    }
    let figures = watch.figures(None);
    // Three octaves in 20 s.
    assert!(near(figures.target_octaves_per_minute, 9.0), "{figures:?}");
}

#[test]
fn quantiles_are_the_smallest_values_that_enough_do_not_exceed() {
    let values: Vec<f64> = (1..=100).map(f64::from).collect();
    for (share, expected) in [(0.5, 50.0), (0.95, 95.0), (0.99, 99.0)] {
        assert!(near(quantile(&values, share), expected));
    }
    assert!(near(quantile(&[3.0], 0.95), 3.0) && near(quantile(&[], 0.5), 0.0));
}
