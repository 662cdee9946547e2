//! One simulated run, with the time that it took.

use std::ops::ControlFlow::{Break, Continue};

use giusto_net::Clock;
use giusto_sim::trace::Observer;
use giusto_units::Timestamp;

use giusto::{
    city::{self, CityLog, CityRun},
    record::RunRecord,
    run::{self, RecordOptions, Taps},
    scenario::{CityScenario, Scenario},
};

/// Runs `scenario` with `seed`. The run ends early where `ends`, which is called now and then, is true.
pub(crate) fn run(
    scenario: &Scenario,
    seed: u64,
    options: RecordOptions,
    observer: &mut impl Observer,
    ends: impl FnMut(Timestamp) -> bool,
) -> RunRecord {
    run_with((scenario, seed), options, &mut (), observer, ends)
}

/// Runs `scenario` with `seed` as [`run`] does, with `taps`.
pub(crate) fn run_with(
    (scenario, seed): (&Scenario, u64),
    options: RecordOptions,
    taps: &mut dyn Taps,
    observer: &mut impl Observer,
    mut ends: impl FnMut(Timestamp) -> bool,
) -> RunRecord {
    let clock = Clock::start();
    let began = clock.now();
    let watch = |now| if ends(now) { Break(()) } else { Continue(()) };
    let mut result = run::simulate_with((scenario, seed), options, taps, observer, watch);
    result.wall_s = (clock.now() - began).as_seconds();
    result
}

/// Runs a city with `seed`. The run ends early where `ends`, which is called now and then, is true.
pub(crate) fn city(
    scenario: &CityScenario,
    seed: u64,
    mut ends: impl FnMut(Timestamp) -> bool,
) -> anyhow::Result<(CityRun, CityLog)> {
    let clock = Clock::start();
    let began = clock.now();
    let watch = |now| if ends(now) { Break(()) } else { Continue(()) };
    let (run, log) = city::simulate_logged(scenario, seed, watch)?;
    Ok((run.took((clock.now() - began).as_seconds()), log))
}
