//! One simulated run, with the time that it took.

use std::ops::ControlFlow;

use giusto_net::Clock;
use giusto_sim::trace::Observer;
use giusto_units::Timestamp;

use giusto::{
    record::RunRecord,
    run::{self, RecordOptions},
    scenario::Scenario,
};

/// Runs `scenario` with `seed`, and asks `watch` now and then whether to go on.
pub(crate) fn run(
    scenario: &Scenario,
    seed: u64,
    options: RecordOptions,
    observer: &mut impl Observer,
    watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> RunRecord {
    let clock = Clock::start();
    let began = clock.now();
    let mut result = run::simulate_watched(scenario, seed, options, observer, watch);
    result.wall_s = (clock.now() - began).as_seconds();
    result
}
