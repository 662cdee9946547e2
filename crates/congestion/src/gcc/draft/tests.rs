//! Behaviour of the draft's controllers.

use super::*;
use crate::{
    algorithm::Algorithm,
    closed_loop::{Scenario, run},
    target::Signal,
};

fn amplified() -> Algorithm {
    "gcc:draft-02+giusto".parse().unwrap()
}

fn published() -> Algorithm {
    "gcc:draft-02".parse().unwrap()
}

fn limits(start: u64) -> Limits {
    Limits { start: DataRate::from_bps(start), max: DataRate::from_bps(10_000_000), ..Limits::default() }
}

#[test]
fn the_presets_differ_by_the_amplification_alone() {
    let (amplified, literal) = (Config::giusto(limits(1)), Config::within(limits(1)));
    assert_ne!(amplified, literal);
    assert_eq!(Config { delay: literal.delay, ..amplified }, literal);
}

#[test]
fn without_loss_it_grows_by_5_percent_per_second() {
    // The loss rule limits the rate: ×1.05 per second, where the delay-based rule would permit ×1.08.
    let outcome = run(amplified(), Scenario { seconds: 31, ..Scenario::default() });
    let ratio = outcome.target(30.0) / outcome.target(10.0);
    let expected = 1.05_f64.powi(20);
    assert!((ratio / expected - 1.0).abs() < 0.06, "{ratio} {expected}");
}

#[test]
fn with_amplification_it_fills_a_link_with_little_queueing() {
    let outcome = run(amplified(), Scenario { limits: limits(2_000_000), ..Scenario::default() });
    assert!((2.4..=3.0).contains(&outcome.mbps(10.0, 60.0)), "{}", outcome.mbps(10.0, 60.0));
    assert!(outcome.queue_delay_p95(0.0, 60.0) < 100.0, "{}", outcome.queue_delay_p95(0.0, 60.0));
    assert_eq!(outcome.dropped, 0);
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Delay { signal: Signal::OverUse, .. })));
}

#[test]
fn as_published_it_fills_the_queue() {
    let outcome = run(published(), Scenario { limits: limits(2_000_000), ..Scenario::default() });
    assert!(outcome.queue_delay_p95(10.0, 60.0) > 200.0, "{}", outcome.queue_delay_p95(10.0, 60.0));
    assert!(outcome.dropped > 0);
}

#[test]
fn random_loss_of_20_percent_reduces_it_to_the_minimum() {
    // Above 10 % loss the rate falls with each report, whatever the cause (draft §6).
    let outcome = run(amplified(), Scenario { loss: 0.2, ..Scenario::default() });
    assert!(outcome.target(59.0) < 0.05, "{}", outcome.target(59.0));
    assert!(outcome.has_cause(|cause| matches!(cause, Cause::Loss { .. })));
}

#[test]
fn missing_feedback_reduces_the_rate_and_feedback_restores_it() {
    let link = |t| if (20.0..30.0).contains(&t) { 0.0 } else { 3.0 };
    let outcome = run(amplified(), Scenario { link, limits: limits(2_000_000), ..Scenario::default() });
    assert!(outcome.target(30.0) < 0.3 * outcome.target(20.0), "{}", outcome.target(30.0));
    assert!(outcome.has_cause(|cause| *cause == Cause::Silence));
    // Ten seconds of loss lower it further at first.
    let (min, _) = outcome.targets(30.0, 40.0);
    assert!(outcome.target(59.0) > 1.5 * min, "{min} {}", outcome.target(59.0));
}

#[test]
fn packets_are_paced_at_the_target() {
    let controller = Draft::new(Config::giusto(limits(500_000))).unwrap();
    let target = controller.target();
    assert_eq!(target, Target { media: target.media, pacing: target.media, ..Target::default() });
}
