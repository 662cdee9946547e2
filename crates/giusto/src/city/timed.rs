//! Cities in the time of the machine.

use std::{
    num::NonZero,
    ops::ControlFlow::{Break, Continue},
    thread::available_parallelism,
};

use giusto_lte::city::{CityError, Crew};
use giusto_net::Clock;
use giusto_units::Timestamp;
use rayon::{ThreadPool, ThreadPoolBuilder};

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
    let (run, log) = simulate_logged(scenario, seed, &Threads::start(), watch)?;
    Ok((run.took((clock.now() - began).as_seconds()), log))
}

/// Threads that help the one of the caller; none where the system gives none, which only takes longer.
struct Threads(Option<ThreadPool>);

/// More find nothing to do: the downlink alone is almost half of the work.
const MAX_HELPERS: usize = 2;

impl Threads {
    fn start() -> Self {
        let helpers = available_parallelism().map_or(1, NonZero::get).saturating_sub(1).min(MAX_HELPERS);
        // Of no threads, rayon would make as many as there are cores.
        Self((helpers > 0).then(|| ThreadPoolBuilder::new().num_threads(helpers).build().ok()).flatten())
    }
}

impl Crew for Threads {
    fn work(&self, lead: &mut dyn FnMut(), help: &(dyn Fn() + Sync)) {
        let Some(pool) = &self.0 else { return lead() };
        pool.in_place_scope(|scope| {
            for _ in 0..pool.current_num_threads() {
                scope.spawn(|_| help());
            }
            lead();
        });
    }
}
