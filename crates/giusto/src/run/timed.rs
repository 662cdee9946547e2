//! Simulated runs with the real time that they took.

use std::ops::ControlFlow::{Break, Continue};

use giusto_net::Clock;
use giusto_sim::trace::Observer;
use giusto_units::Timestamp;

use super::{RecordOptions, Taps, simulate_with};
use crate::{record::RunRecord, scenario::Scenario};

/// Runs `scenario` with `seed`. The run ends early where `ends`, which is called now and then, is true. Sets `wall_s`.
///
/// # Panics
///
/// If a link lost count of its packets, which is a bug.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    options: RecordOptions,
    observer: &mut impl Observer,
    ends: impl FnMut(Timestamp) -> bool,
) -> RunRecord {
    run_with(scenario, seed, options, &mut (), observer, ends)
}

/// Runs `scenario` with `seed` as [`run`] does, with `taps`.
///
/// # Panics
///
/// If a link lost count of its packets, which is a bug.
pub fn run_with(
    scenario: &Scenario,
    seed: u64,
    options: RecordOptions,
    taps: &mut dyn Taps,
    observer: &mut impl Observer,
    mut ends: impl FnMut(Timestamp) -> bool,
) -> RunRecord {
    let clock = Clock::start();
    let began = clock.now();
    let watch = |now| if ends(now) { Break(()) } else { Continue(()) };
    let mut result = simulate_with(scenario, seed, options, taps, observer, watch);
    result.wall_s = (clock.now() - began).as_seconds();
    result
}
