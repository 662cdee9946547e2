//! Clocks that are wrong and feedback that is lost, with each algorithm: neither says anything about the capacity.

use crate::testing::prelude::*;

/// A link with room: 4 Mbit/s for media of up to 3 Mbit/s.
fn idle() -> Scenario {
    Scenario { link: |_| 4.0, limits: limits(30, 2500, 3000), ..Scenario::default() }
}

/// Received rate between two times in seconds, over that of the same scenario without faults.
fn kept(algorithm: Algorithm, scenario: Scenario, (from, to): (f64, f64)) -> f64 {
    let undisturbed = Scenario { clock: |_| 0.0, is_feedback_lost: |_| false, ..scenario };
    run(algorithm, scenario).mbps(from, to) / run(algorithm, undisturbed).mbps(from, to)
}

#[test]
fn a_clock_that_is_fast_is_no_queue() {
    // 100 ppm: 48 ms in 8 minutes.
    let scenario = Scenario { clock: |at| at * 0.1, seconds: 480, ..idle() };
    for algorithm in Algorithm::all() {
        let _case = Case(algorithm);
        within(kept(algorithm, scenario, (180.0, 479.0)), 0.95..1.05);
    }
}

#[test]
fn a_clock_that_is_set_back_is_no_capacity() {
    let scenario = Scenario { clock: |at| if at < 30.0 { 500.0 } else { 300.0 }, ..idle() };
    for algorithm in Algorithm::all() {
        let _case = Case(algorithm);
        within(kept(algorithm, scenario, (30.0, 45.0)), 0.95..1.05);
    }
}

#[test]
fn a_second_without_feedback_is_no_lower_capacity() {
    let scenario = Scenario { is_feedback_lost: |at| (30.0..31.2).contains(&at), ..idle() };
    // Early SCReAM subtracts the queue of the sender from the rate, and this sender discards nothing.
    let is_early = |algorithm: &Algorithm| {
        ["scream:rfc8298", "scream:d00"].iter().any(|name| algorithm.name().starts_with(name))
    };
    for algorithm in Algorithm::all().filter(|algorithm| !is_early(algorithm)) {
        let _case = Case(algorithm);
        within(kept(algorithm, scenario, (31.0, 51.0)), 0.95..1.05);
    }
}
