//! The controller in a closed loop, on links for which it was not tuned.

use giusto_units::{DataRate, Ecn, TimeDelta};

use crate::{
    algorithm::Algorithm,
    closed_loop::{Outcome, Scenario, run},
    limits::Limits,
    target::Cause,
};

fn tempo() -> Algorithm {
    "tempo".parse().unwrap()
}

fn on(scenario: Scenario) -> Outcome {
    let limits = Limits { max: DataRate::from_bps(40_000_000), ..Limits::default() };
    run(tempo(), Scenario { limits, ..scenario })
}

#[test]
fn a_steady_link_is_full_and_its_queue_short() {
    for (link, mbps) in [((|_| 0.7) as fn(f64) -> f64, 0.7), (|_| 5.3, 5.3), (|_| 17.0, 17.0)] {
        let outcome = on(Scenario { link, seconds: 40, ..Scenario::default() });
        let (rate, queue) = (outcome.mbps(15.0, 40.0), outcome.queue_delay_p95(15.0, 40.0));
        assert!(rate > 0.93 * mbps && rate <= mbps * 1.001, "{mbps}: {rate}");
        // Or four packets of 1200 bytes.
        assert!(queue < f64::max(45.0, 4.0 * 9.6 / mbps), "{mbps}: {queue}");
        assert!(outcome.dropped_share() < 0.02, "{mbps}: {}", outcome.dropped_share());
    }
}

#[test]
fn a_step_up_is_found_and_a_step_down_drained() {
    let link = |at: f64| if (20.0..40.0).contains(&at) { 4.4 } else { 1.1 };
    let outcome = on(Scenario { link, seconds: 60, ..Scenario::default() });
    let reached = outcome.reaches(20.0, 0.9 * 4.4).unwrap();
    assert!(reached < 24.0, "{reached}");
    assert!(outcome.queue_delay_p95(42.0, 60.0) < 60.0, "{}", outcome.queue_delay_p95(42.0, 60.0));
    assert!(outcome.mbps(45.0, 60.0) > 0.85 * 1.1, "{}", outcome.mbps(45.0, 60.0));
}

#[test]
fn random_loss_costs_little_rate_and_a_long_route_is_learned() {
    let lossy = on(Scenario { loss: 0.05, seconds: 60, seed: 5, ..Scenario::default() });
    let rate = lossy.mbps(20.0, 60.0);
    assert!(rate > 0.85 * 3.0 * 0.95, "{rate}");
    assert!(lossy.has_cause(|cause| matches!(cause, Cause::Loss { .. })));
    // The delay rises by 90 ms without notice.
    let delay = |at: f64| if at < 20.0 { 25.0 } else { 115.0 };
    let moved = on(Scenario { delay, seconds: 60, ..Scenario::default() });
    assert!(moved.mbps(40.0, 60.0) > 0.9 * 3.0, "{}", moved.mbps(40.0, 60.0));
}

#[test]
fn random_losses_never_hold_the_rate_for_long() {
    // Few packets leave at first, so that chance ends the losses of an experiment now and then: no policer is found for good.
    for seed in 0..24 {
        let limits = Limits {
            start: DataRate::from_bps(180_000),
            max: DataRate::from_bps(30_000_000),
            ..Limits::default()
        };
        let outcome = run(
            tempo(),
            Scenario { loss: 0.06, link: |_| 7.7, seconds: 40, seed, limits, ..Scenario::default() },
        );
        let rate = outcome.mbps(30.0, 40.0);
        assert!(rate > 0.5 * 7.7, "{seed}: {rate}");
    }
}

#[test]
fn silence_lowers_the_rate_and_it_comes_back() {
    let lost = |at: f64| (20.0..24.0).contains(&at);
    let outcome = on(Scenario { is_feedback_lost: lost, seconds: 50, ..Scenario::default() });
    assert!(outcome.has_cause(|cause| *cause == Cause::Silence));
    assert!(outcome.target(23.9) < 0.6, "{}", outcome.target(23.9));
    assert!(outcome.mbps(35.0, 50.0) > 0.9 * 3.0, "{}", outcome.mbps(35.0, 50.0));
}

#[test]
fn a_short_silence_lowers_the_target_only_while_it_lasts() {
    let lost = |at: f64| (20.0..20.45).contains(&at);
    let outcome = on(Scenario { is_feedback_lost: lost, seconds: 25, ..Scenario::default() });
    assert!(outcome.target(19.9) > 0.8 * 3.0 && outcome.target(21.0) > 0.8 * 3.0, "{}", outcome.target(21.0));
    assert!(outcome.target(20.44) < 0.3 * 3.0, "{}", outcome.target(20.44));
}

#[test]
fn graded_marks_keep_the_queue_below_two_milliseconds_and_the_link_used() {
    let outcome = on(Scenario { ecn: Ecn::Ect1, mark_above: 1.0, seconds: 40, ..Scenario::default() });
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Marks { .. })));
    assert!(outcome.queue_delay_p95(15.0, 40.0) < 5.0, "{}", outcome.queue_delay_p95(15.0, 40.0));
    assert!(outcome.mbps(15.0, 40.0) > 0.75 * 3.0, "{}", outcome.mbps(15.0, 40.0));
}

#[test]
fn a_shallow_queue_and_a_long_path_do_not_stop_it() {
    let scenario = Scenario {
        queue: TimeDelta::from_millis(60),
        delay: |_| 130.0,
        link: |_| 2.3,
        seconds: 60,
        ..Scenario::default()
    };
    let outcome = on(scenario);
    assert!(outcome.mbps(20.0, 60.0) > 0.85 * 2.3, "{}", outcome.mbps(20.0, 60.0));
    assert!(outcome.dropped_share_between(20.0, 60.0) < 0.02);
}

#[test]
fn what_a_short_queue_lost_does_not_hide_later_room() {
    let link = |at: f64| if at < 20.0 { 1.5 } else { 6.0 };
    let queue = TimeDelta::from_millis(60);
    let outcome = on(Scenario { link, queue, seconds: 40, ..Scenario::default() });
    assert!(outcome.mbps(10.0, 20.0) > 0.85 * 1.5, "{}", outcome.mbps(10.0, 20.0));
    let reached = outcome.reaches(20.0, 0.9 * 6.0).unwrap();
    assert!(reached < 28.0, "{reached}");
    assert!(outcome.dropped_share() < 0.03, "{}", outcome.dropped_share());
}
