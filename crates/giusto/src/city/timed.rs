//! Cities in the time of the machine.

use std::ops::ControlFlow::{Break, Continue};

use giusto_lte::city::{CityError, Crew};
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
    let (run, log) = simulate_logged(scenario, seed, &Threads, watch)?;
    Ok((run.took((clock.now() - began).as_seconds()), log))
}

/// Threads of rayon's pool.
#[derive(Debug, Clone, Copy)]
struct Threads;

/// More find nothing to do: the downlink alone is almost half of the work.
const MAX_THREADS: usize = 3;

impl Crew for Threads {
    fn work(&self, lead: &mut dyn FnMut(), help: &(dyn Fn() + Sync)) {
        rayon::in_place_scope(|scope| {
            for _ in 1..rayon::current_num_threads().min(MAX_THREADS) {
                scope.spawn(|_| help());
            }
            lead();
        });
    }
}
