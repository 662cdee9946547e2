//! What a benchmark runs.

use std::{fmt, str::FromStr};

use giusto_congestion::Algorithm;

use super::VERSION;

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
    /// The part of the scenarios that is run.
    pub shard: Shard,
}

/// The scenarios of one of several processes: those whose number modulo [`count`](Self::count) is [`index`](Self::index) − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to the count.
    pub index: u64,
    /// Number of shards, at least 1.
    pub count: u64,
}

impl Default for Shard {
    /// All scenarios.
    fn default() -> Self {
        Self { index: 1, count: 1 }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Self { index: index.trim().parse().ok()?, count: count.trim().parse().ok()? })
        });
        match parts {
            Some(shard) if (1..=shard.count).contains(&shard.index) => Ok(shard),
            _ => Err(format!(
                "\"{text}\" is not a shard: write i/n with i from 1 to n, such as 1/4 for the first of four"
            )),
        }
    }
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
        Ok(Self { seed, scenarios, controllers, shard: Shard::default() })
    }

    /// The controllers that are judged unless others are named: all but the constant rate.
    pub fn default_controllers() -> Vec<Algorithm> {
        Algorithm::all().filter(|algorithm| algorithm.name() != "fixed").collect()
    }

    /// What its runs depend on, in one line: the name of its journal.
    pub fn identity(&self) -> String {
        let Self { seed, scenarios, controllers, shard } = self;
        let names: Vec<&str> = controllers.iter().map(|own| own.name()).collect();
        format!(
            "benchmark {VERSION} of seed {seed}, {scenarios} scenarios, shard {shard}, {}, algorithms {}",
            names.join(","),
            env!("GIUSTO_ALGORITHMS"),
        )
    }

    /// The numbers of the scenarios of the shard.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let Shard { index, count } = self.shard;
        (index.saturating_sub(1)..self.scenarios).step_by(usize::try_from(count).unwrap_or(usize::MAX).max(1))
    }
}
