//! What a benchmark runs.

use giusto_congestion::Algorithm;

use super::{VERSION, reference::Reference};
use crate::run::Shard;

/// More scenarios are taken for a typing error.
const MAX_SCENARIOS: u64 = 1_000_000;

/// A benchmark: scenarios of a seed, each under every controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Seed: any text. The scenarios follow from it.
    pub seed: String,
    /// Number of scenarios.
    pub scenarios: u64,
    /// The judged controllers, each once.
    pub controllers: Vec<Algorithm>,
    /// What is judged besides them: all references.
    pub references: Vec<Reference>,
    /// The part of the scenarios that is run.
    pub shard: Shard,
}

/// A benchmark that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The seed is empty.
    #[error("the seed is empty: give any text, such as \"2026-11\"")]
    Seed,
    /// There is no scenario, or there are too many.
    #[error("the number of scenarios must be from 1 to {MAX_SCENARIOS}, found {0}")]
    Scenarios(u64),
    /// There is no controller.
    #[error("no controller: name at least one")]
    NoController,
    /// A controller is named twice.
    #[error("controller \"{0}\" is named twice: leave one out")]
    Twice(String),
}

impl Plan {
    /// A benchmark of all scenarios up to this number.
    ///
    /// # Errors
    ///
    /// [`PlanError`]: the seed is empty, there is no scenario or no controller, or one is named twice.
    pub fn new(
        seed: impl Into<String>,
        scenarios: u64,
        controllers: Vec<Algorithm>,
    ) -> Result<Self, PlanError> {
        let seed = seed.into();
        if seed.trim().is_empty() {
            return Err(PlanError::Seed);
        }
        if !(1..=MAX_SCENARIOS).contains(&scenarios) {
            return Err(PlanError::Scenarios(scenarios));
        }
        let earlier = |place: usize| controllers.iter().take(place);
        let twice =
            controllers.iter().enumerate().find(|&(place, own)| earlier(place).any(|other| other == own));
        if let Some((_, twice)) = twice {
            return Err(PlanError::Twice(twice.name().to_owned()));
        }
        if controllers.is_empty() {
            return Err(PlanError::NoController);
        }
        Ok(Self {
            seed,
            scenarios,
            controllers,
            references: Reference::ALL.to_vec(),
            shard: Shard::default(),
        })
    }

    /// The controllers that are judged unless others are named: all but the constant rate.
    pub fn default_controllers() -> Vec<Algorithm> {
        Algorithm::all().filter(|algorithm| algorithm.name() != "fixed").collect()
    }

    /// What its runs depend on, in one line: the name of its journal.
    pub fn identity(&self) -> String {
        let Self { seed, scenarios, shard, .. } = self;
        let names = self.names();
        format!(
            "benchmark {VERSION} of seed {seed}, {scenarios} scenarios, shard {shard}, {}, algorithms {}",
            names.join(","),
            env!("GIUSTO_ALGORITHMS"),
        )
    }

    /// The names of all that is judged: controllers, then references.
    pub fn names(&self) -> Vec<String> {
        let controllers = self.controllers.iter().map(|own| own.name().to_owned());
        controllers.chain(self.references.iter().map(|own| own.name())).collect()
    }

    /// The number of runs of the shard.
    pub fn runs(&self) -> usize {
        self.numbers().count() * (self.controllers.len() + self.references.len())
    }

    /// The numbers of the scenarios of the shard.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        self.shard.numbers(self.scenarios)
    }
}
