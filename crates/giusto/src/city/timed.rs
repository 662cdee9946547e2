//! Cities in the time of the machine.

use std::ops::ControlFlow::{Break, Continue};

use giusto_lte::city::CityError;
use giusto_net::Clock;
use giusto_units::Timestamp;

use super::{CityLog, CityRun, simulate_logged};
use crate::scenario::CityScenario;

/// Runs a city with `seed`. The run ends early where `ends`, which is called now and then, is true.
///
/// # Errors
///
/// [`CityError`]: its configuration cannot be simulated.
pub fn timed(
    scenario: &CityScenario,
    seed: u64,
    mut ends: impl FnMut(Timestamp) -> bool,
) -> Result<(CityRun, CityLog), CityError> {
    let clock = Clock::start();
    let began = clock.now();
    let watch = |now| if ends(now) { Break(()) } else { Continue(()) };
    let (run, log) = simulate_logged(scenario, seed, watch)?;
    Ok((run.took((clock.now() - began).as_seconds()), log))
}
