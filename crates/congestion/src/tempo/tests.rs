//! The controller in a closed loop, on links for which it was not tuned.

use crate::testing::prelude::*;

fn tempo() -> Algorithm {
    "tempo".parse().unwrap()
}

fn on(scenario: Scenario) -> Outcome {
    run(tempo(), Scenario { limits: limits(30, 300, 40_000), ..scenario })
}

#[test]
fn a_steady_link_is_full_and_its_queue_short() {
    for link in [(|_| 0.7) as fn(f64) -> f64, |_| 5.3, |_| 17.0] {
        let mbps = link(0.0);
        let _case = Case(mbps);
        let outcome = on(Scenario { link, seconds: 40, ..Scenario::default() });
        within(outcome.mbps(15.0, 40.0) / mbps, 0.93..=1.001);
        // Or four packets of 1200 bytes.
        within(outcome.queue_delay_p95(15.0, 40.0), ..f64::max(45.0, 4.0 * 9.6 / mbps));
        within(outcome.dropped_share(), ..0.02);
    }
}

#[test]
fn a_step_up_is_found_and_a_step_down_drained() {
    let link = |at: f64| if (20.0..40.0).contains(&at) { 4.4 } else { 1.1 };
    let outcome = on(Scenario { link, seconds: 60, ..Scenario::default() });
    within(outcome.reaches(20.0, 0.9 * 4.4).unwrap(), ..24.0);
    within(outcome.queue_delay_p95(42.0, 60.0), ..60.0);
    within(outcome.mbps(45.0, 60.0), 0.85 * 1.1..);
}

#[test]
fn random_loss_costs_little_rate_and_a_long_route_is_learned() {
    let lossy = on(Scenario { loss: 0.05, seconds: 60, seed: 5, ..Scenario::default() });
    within(lossy.mbps(20.0, 60.0), 0.85 * 3.0 * 0.95..);
    assert!(lossy.has_cause(|cause| matches!(cause, Cause::Loss { .. })));
    // The delay rises by 90 ms without notice.
    let delay = |at: f64| if at < 20.0 { 25.0 } else { 115.0 };
    let moved = on(Scenario { delay, seconds: 60, ..Scenario::default() });
    within(moved.mbps(40.0, 60.0), 0.9 * 3.0..);
}

#[test]
fn random_losses_never_hold_the_rate_for_long() {
    // Few packets leave at first, so that chance ends the losses of an experiment now and then: no policer is found for good.
    for seed in 0..24 {
        let (link, limits) = ((|_| 7.7) as fn(f64) -> f64, limits(30, 180, 30_000));
        let outcome =
            run(tempo(), Scenario { loss: 0.06, link, seconds: 40, seed, limits, ..Scenario::default() });
        let rate = outcome.mbps(30.0, 40.0);
        assert!(rate > 0.5 * 7.7, "{seed}: {rate}");
    }
}

#[test]
fn silence_lowers_the_rate_and_it_comes_back() {
    let lost = |at: f64| (20.0..24.0).contains(&at);
    let outcome = on(Scenario { is_feedback_lost: lost, seconds: 50, ..Scenario::default() });
    assert!(outcome.has_cause(|cause| *cause == Cause::Silence));
    within(outcome.target(23.9), ..0.6);
    within(outcome.mbps(35.0, 50.0), 0.9 * 3.0..);
    // A short one lowers the target only while it lasts.
    let lost = |at: f64| (20.0..20.45).contains(&at);
    let outcome = on(Scenario { is_feedback_lost: lost, seconds: 25, ..Scenario::default() });
    within(outcome.target(19.9).min(outcome.target(21.0)), 0.8 * 3.0..);
    within(outcome.target(20.44), ..0.3 * 3.0);
}

#[test]
fn graded_marks_keep_the_queue_below_two_milliseconds_and_the_link_used() {
    let outcome = on(Scenario { ecn: Ecn::Ect1, mark_above: 1.0, seconds: 40, ..Scenario::default() });
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Marks { .. })));
    within(outcome.queue_delay_p95(15.0, 40.0), ..5.0);
    within(outcome.mbps(15.0, 40.0), 0.75 * 3.0..);
}

#[test]
fn a_shallow_queue_and_a_long_path_do_not_stop_it() {
    let outcome = on(Scenario { queue: ms(60), delay: |_| 130.0, link: |_| 2.3, ..Scenario::default() });
    within(outcome.mbps(20.0, 60.0), 0.85 * 2.3..);
    within(outcome.dropped_share_between(20.0, 60.0), ..0.02);
}

#[test]
fn what_a_short_queue_lost_does_not_hide_later_room() {
    let link = |at: f64| if at < 20.0 { 1.5 } else { 6.0 };
    let outcome = on(Scenario { link, queue: ms(60), seconds: 40, ..Scenario::default() });
    within(outcome.mbps(10.0, 20.0), 0.85 * 1.5..);
    within(outcome.reaches(20.0, 0.9 * 6.0).unwrap(), ..28.0);
    within(outcome.dropped_share(), ..0.03);
}
