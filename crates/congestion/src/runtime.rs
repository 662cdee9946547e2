//! Tests of changes at run time: limits and route.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use crate::{
    algorithm::Algorithm,
    closed_loop::{Change, Outcome, Scenario, run},
    feedback::QueueState,
    limits::Limits,
    target::Cause,
};

const fn limits(min: u64, start: u64, max: u64) -> Limits {
    Limits {
        min: DataRate::from_bps(min * 1000),
        start: DataRate::from_bps(start * 1000),
        max: DataRate::from_bps(max * 1000),
    }
}

const WIDE: Limits = limits(30, 300, 5000);

/// All controllers that react to packet feedback.
fn adaptive() -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(|algorithm| !["fixed", "gcc:remb", "gcc:rmcat-02"].contains(&algorithm.name()))
}

#[test]
fn requirements_are_those_of_the_table() {
    for algorithm in Algorithm::all() {
        assert_eq!(algorithm.build(WIDE).requirements(), algorithm.requirements(), "{algorithm}");
    }
}

#[test]
fn limits_set_before_the_start_are_those_of_the_start() {
    for algorithm in Algorithm::all() {
        let mut controller = algorithm.build(WIDE);
        controller.set_limits(Timestamp::ZERO, limits(100, 900, 1000));
        controller.on_timeout(Timestamp::ZERO, &QueueState::default());
        assert_eq!(controller.target().media, DataRate::from_bps(900_000), "{algorithm}");
        assert_eq!(
            controller.decision().cause,
            if algorithm.name() == "fixed" { Cause::Limit } else { Cause::Start }
        );
    }
}

#[test]
fn a_target_outside_new_limits_moves_at_once() {
    let at = Timestamp::from_nanos(1_000_000_000);
    for algorithm in Algorithm::all() {
        for (new, target) in [(limits(30, 100, 200), 200), (limits(600, 700, 5000), 600)] {
            let target = if algorithm.name() == "fixed" { new.start.as_bps() / 1000 } else { target };
            let mut controller = algorithm.build(WIDE);
            controller.on_timeout(Timestamp::ZERO, &QueueState::default());
            controller.set_limits(at, new);
            assert_eq!(controller.target().media.as_bps(), target * 1000, "{algorithm}");
            let decision = controller.decision();
            assert_eq!((decision.at, decision.cause), (at, Cause::Limit), "{algorithm}");
            assert_eq!(decision.from, WIDE.start, "{algorithm}");
        }
    }
}

/// On 3 Mbit/s: a maximum of 0.5 Mbit/s from 30 s to 40 s.
const NARROWED: &[(f64, Change)] =
    &[(30.0, Change::Limits(limits(30, 300, 500))), (40.0, Change::Limits(WIDE))];

#[test]
fn lowered_limits_apply_and_raised_ones_permit_growth() {
    // The thesis raises its rate by at most 8 % every 3 s and does not reach a limit in this time.
    for algorithm in adaptive().filter(|algorithm| algorithm.name() != "gcc:thesis") {
        let scenario = Scenario { limits: WIDE, seconds: 80, changes: NARROWED, ..Scenario::default() };
        let outcome = run(algorithm, scenario);
        let (_, before) = outcome.targets(10.0, 29.9);
        assert!(before > 1.0, "{algorithm}: {before}");
        let (_, max) = outcome.targets(30.1, 39.9);
        assert!((0.4..=0.5).contains(&max), "{algorithm}: {max}");
        let (_, max) = outcome.targets(45.0, 79.0);
        assert!(max > 1.0 && max > 0.5 * before, "{algorithm}: {max} after {before}");
    }
}

const RAISED: &[(f64, Change)] = &[(20.0, Change::Limits(limits(30, 300, 2500)))];
const REROUTED: &[(f64, Change)] = &[(20.0, Change::Route)];

#[test]
fn a_raised_maximum_is_probed_by_libwebrtc() {
    for name in ["gcc:libwebrtc", "gcc:libwebrtc+giusto"] {
        let scenario = Scenario { limits: limits(30, 300, 1000), seconds: 30, ..Scenario::default() };
        let kept = run(name.parse().unwrap(), scenario);
        let raised = run(name.parse().unwrap(), Scenario { changes: RAISED, ..scenario });
        assert!(raised.probes > kept.probes, "{name}: {} {}", raised.probes, kept.probes);
        assert!(raised.reaches(20.0, 2.0).is_some_and(|at| at < 23.0), "{name}");
    }
}

/// From 20 s on the one-way delay is 200 ms instead of 25 ms.
fn rerouted(algorithm: Algorithm, changes: &'static [(f64, Change)]) -> Outcome {
    let delay = |at: f64| if at < 20.0 { 25.0 } else { 200.0 };
    let limits = limits(30, 300, 2000);
    run(algorithm, Scenario { limits, seconds: 70, delay, changes, ..Scenario::default() })
}

#[test]
fn a_route_change_restarts_at_the_start_rate() {
    for algorithm in adaptive() {
        let outcome = rerouted(algorithm, REROUTED);
        let change = outcome.decisions.iter().find(|decision| decision.cause == Cause::RouteChange).unwrap();
        assert_eq!(change.at, Timestamp::ZERO + TimeDelta::from_seconds(20), "{algorithm}");
        assert_eq!(change.to, DataRate::from_bps(300_000), "{algorithm}");
        assert!(change.from > change.to, "{algorithm}");
    }
}

#[test]
fn a_longer_route_does_not_count_as_queueing() {
    for algorithm in adaptive().filter(|algorithm| algorithm.name().starts_with("scream:")) {
        // The path carries 3 Mbit/s, so 2 Mbit/s do not cause a queue. Only the old base delay can reduce the
        // rate.
        let [kept, reset] = [&[], REROUTED].map(|changes| rerouted(algorithm, changes));
        let (_, kept) = kept.targets(40.0, 69.0);
        let (min, reset) = reset.targets(60.0, 69.0);
        assert!(reset > 1.9 && min > 1.5, "{algorithm}: {min} {reset}");
        assert!(reset >= kept, "{algorithm}: {reset} {kept}");
    }
}

#[test]
fn libwebrtc_probes_a_new_route() {
    for name in ["gcc:libwebrtc", "gcc:libwebrtc+giusto"] {
        let [kept, reset] = [&[], REROUTED].map(|changes| rerouted(name.parse().unwrap(), changes));
        assert!(reset.probes >= kept.probes + 2, "{name}: {} {}", reset.probes, kept.probes);
        assert!(
            reset.reaches(20.0, 1.8).is_some_and(|at| at < 26.0),
            "{name}: {:?}",
            reset.reaches(20.0, 1.8)
        );
    }
}
