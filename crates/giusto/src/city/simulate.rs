//! The run of a scenario of a city, and whether its expectations are met.

use std::ops::ControlFlow;

use giusto_lte::{
    city::{CityError, Crew},
    radio::link::Direction,
};
use giusto_units::Timestamp;
use serde::Serialize;

use super::{CityLog, CityRecord, CitySpec, record::as_text};
use crate::{
    record::Check,
    scenario::{CityExpectation, CityScenario},
};

/// The result of a run of a scenario of a city.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CityRun {
    /// Name of the scenario.
    pub scenario: String,
    /// One sentence on what the scenario shows.
    pub description: String,
    /// Random seed.
    #[serde(serialize_with = "as_text")]
    pub seed: u64,
    /// Simulated time in s.
    pub duration_s: f64,
    /// Time that the run took in s; 0 if unknown.
    pub wall_s: f64,
    /// Events.
    pub events: u64,
    /// Whether the run was ended early. Nothing is checked then.
    pub interrupted: bool,
    /// Figures.
    pub city: CityRecord,
    /// Expectations.
    pub checks: Vec<Check>,
}

impl CityRun {
    /// The result of a run with this record.
    pub fn new(scenario: &CityScenario, record: CityRecord, interrupted: bool) -> Self {
        let direction = scenario.spec.config.direction;
        let check = |expectation| check(expectation, direction, &record);
        let checks = if interrupted { Vec::new() } else { scenario.expectations.iter().map(check).collect() };
        Self {
            scenario: scenario.name.clone(),
            description: scenario.description.clone(),
            seed: record.seed,
            duration_s: record.simulated_s,
            wall_s: record.wall_s,
            events: record.events,
            interrupted,
            city: record,
            checks,
        }
    }

    /// Sets the time that the run took, in s.
    #[must_use]
    pub fn took(mut self, wall_s: f64) -> Self {
        (self.wall_s, self.city.wall_s) = (wall_s, wall_s);
        self
    }

    /// Whether all expectations are met.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }
}

/// Runs a scenario with `seed`. `watch` learns in each tenth of a simulated second how far the run is, and may end it. The same seed gives the
/// same result; a caller with a clock adds the time that it [took](CityRun::took).
///
/// # Errors
///
/// [`CityError`] if a call cannot be built; validation has excluded settings out of range.
pub fn simulate(
    scenario: &CityScenario,
    seed: u64,
    mut watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Result<CityRun, CityError> {
    let (spec, mut interrupted) = (seeded(scenario, seed), false);
    let record = super::run(&spec, noting(&mut watch, super::end(&spec), &mut interrupted))?;
    Ok(CityRun::new(scenario, record, interrupted))
}

/// Runs a scenario as [`simulate`] does, with the help of `crew`, and keeps what its page shows.
///
/// # Errors
///
/// [`CityError`] if a call cannot be built; validation has excluded settings out of range.
pub fn simulate_logged(
    scenario: &CityScenario,
    seed: u64,
    crew: &dyn Crew,
    mut watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Result<(CityRun, CityLog), CityError> {
    let (spec, mut interrupted) = (seeded(scenario, seed), false);
    let (record, log) =
        super::run_logged(&spec, crew, noting(&mut watch, super::end(&spec), &mut interrupted))?;
    Ok((CityRun::new(scenario, record, interrupted), log))
}

fn seeded(scenario: &CityScenario, seed: u64) -> CitySpec {
    let mut spec = scenario.spec.clone();
    spec.config.seed = seed;
    spec
}

/// Calls `watch`, and notes whether it has ended the run before its `end`.
fn noting(
    watch: &mut impl FnMut(Timestamp) -> ControlFlow<()>,
    end: Timestamp,
    interrupted: &mut bool,
) -> impl FnMut(Timestamp) -> ControlFlow<()> {
    move |now| {
        let flow = watch(now);
        *interrupted = flow.is_break() && now < end;
        flow
    }
}

/// Whether an expectation is met; the media are sent in `direction`.
fn check(expectation: &CityExpectation, direction: Direction, record: &CityRecord) -> Check {
    let metric = expectation.metric;
    let radio = match expectation.direction.unwrap_or(direction) {
        Direction::Downlink => record.figures.downlink.as_ref(),
        Direction::Uplink => record.figures.uplink.as_ref(),
    };
    let value = metric.value(&record.figures, radio);
    Check {
        name: expectation.title(),
        passed: expectation.accepts(value),
        value,
        bound: expectation.bound(),
        unit: metric.unit().name().to_owned(),
    }
}
