//! Behaviour of the draft's controllers.

use super::*;
use crate::testing::prelude::*;

fn amplified() -> Algorithm {
    "gcc:draft-02+giusto".parse().unwrap()
}

#[test]
fn the_presets_differ_by_the_amplification_alone() {
    let (amplified, literal) = (Config::giusto(Limits::DEFAULT), Config::within(Limits::DEFAULT));
    assert_ne!(amplified, literal);
    assert_eq!(Config { delay: literal.delay, ..amplified }, literal);
}

#[test]
fn without_loss_it_grows_by_5_percent_per_second() {
    // The loss rule limits the rate: ×1.05 per second, where the delay-based rule would permit ×1.08.
    let outcome = run(amplified(), Scenario { seconds: 31, ..Scenario::default() });
    near(outcome.target(30.0) / outcome.target(10.0) / 1.05_f64.powi(20), 1.0, 0.06);
}

#[test]
fn with_amplification_it_fills_a_link_with_little_queueing() {
    let outcome = run(amplified(), Scenario { limits: limits(30, 2000, 10_000), ..Scenario::default() });
    within(outcome.mbps(10.0, 60.0), 2.4..=3.0);
    within(outcome.queue_delay_p95(0.0, 60.0), ..100.0);
    assert_eq!(outcome.dropped, 0);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Delay { signal: Signal::OverUse, .. })));
    // As published it fills the queue.
    let scenario = Scenario { limits: limits(30, 2000, 10_000), ..Scenario::default() };
    let outcome = run("gcc:draft-02".parse().unwrap(), scenario);
    within(outcome.queue_delay_p95(10.0, 60.0), 200.0..);
    assert_ne!(outcome.dropped, 0);
}

#[test]
fn random_loss_of_20_percent_reduces_it_to_the_minimum() {
    // Above 10 % loss the rate falls with each report, whatever the cause (draft §6).
    let outcome = run(amplified(), Scenario { loss: 0.2, ..Scenario::default() });
    within(outcome.target(59.0), ..0.05);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Loss { .. })));
}

#[test]
fn missing_feedback_reduces_the_rate_and_feedback_restores_it() {
    let link = |t| if (20.0..30.0).contains(&t) { 0.0 } else { 3.0 };
    let outcome =
        run(amplified(), Scenario { link, limits: limits(30, 2000, 10_000), ..Scenario::default() });
    within(outcome.target(30.0), ..0.3 * outcome.target(20.0));
    assert!(outcome.has_cause(|cause| *cause == Cause::Silence));
    // Ten seconds of loss lower it further at first.
    within(outcome.target(59.0), 1.5 * outcome.targets(30.0, 40.0).0..);
}

#[test]
fn packets_are_paced_at_the_target() {
    let controller = Draft::new(Config::giusto(limits(30, 500, 10_000))).unwrap();
    let target = controller.target();
    assert_eq!(target, Target { media: target.media, pacing: target.media, ..Target::default() });
}
