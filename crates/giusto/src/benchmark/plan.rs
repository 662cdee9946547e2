//! What a benchmark runs.

use std::sync::Arc;

use giusto_congestion::Algorithm;

use super::{
    VERSION,
    family::{Drawn, draw_unless},
    recordings::Recordings,
    reference::Reference,
};
use crate::run::Shard;

/// More scenarios are taken for a typing error.
const MAX_SCENARIOS: u64 = 1_000_000;

/// A benchmark: scenarios of seeds or of recordings, each under every controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Seeds: any texts without commas, each once. The scenarios follow from them. None with recordings.
    pub seeds: Vec<String>,
    /// Number of scenarios of each seed, or of the recordings.
    pub scenarios: u64,
    /// The recordings of which the scenarios are made, instead of seeds.
    pub recordings: Option<Arc<Recordings>>,
    /// The judged controllers, each once.
    pub controllers: Vec<Algorithm>,
    /// What is judged besides them: all references.
    pub references: Vec<Reference>,
    /// The part of the scenarios that is run.
    pub shard: Shard,
}

/// What names a scenario of a benchmark: its seed, empty with recordings, and its number.
pub type Key = (String, u64);

/// A benchmark that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The seed is empty.
    #[error("the seed is empty: give any text, such as \"2026-11\"")]
    Seed,
    /// A seed contains what separates seeds.
    #[error("a seed cannot contain a comma, found {0:?}: commas separate seeds")]
    Comma(String),
    /// A seed is named twice.
    #[error("seed {0:?} is named twice: leave one out")]
    SeedTwice(String),
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
    /// A benchmark of these seeds and all scenarios up to this number.
    ///
    /// # Errors
    ///
    /// [`PlanError`]: there is no seed, one is empty, contains a comma or is named twice; there is no scenario or no controller, or one is
    /// named twice.
    pub fn new<S: Into<String>>(
        seeds: impl IntoIterator<Item = S>,
        scenarios: u64,
        controllers: Vec<Algorithm>,
    ) -> Result<Self, PlanError> {
        let seeds: Vec<String> = seeds.into_iter().map(Into::into).collect();
        if seeds.is_empty() || seeds.iter().any(|seed| seed.trim().is_empty()) {
            return Err(PlanError::Seed);
        }
        if let Some(seed) = seeds.iter().find(|seed| seed.contains(',')) {
            return Err(PlanError::Comma(seed.clone()));
        }
        if let Some(twice) = twice(&seeds) {
            return Err(PlanError::SeedTwice(twice.clone()));
        }
        if !(1..=MAX_SCENARIOS).contains(&scenarios) {
            return Err(PlanError::Scenarios(scenarios));
        }
        Self::judging(seeds, scenarios, None, controllers)
    }

    /// A benchmark of all scenarios of these recordings.
    ///
    /// # Errors
    ///
    /// [`PlanError`]: there is no controller, or one is named twice.
    pub fn of_recordings(recordings: Recordings, controllers: Vec<Algorithm>) -> Result<Self, PlanError> {
        Self::judging(Vec::new(), recordings.scenarios(), Some(Arc::new(recordings)), controllers)
    }

    fn judging(
        seeds: Vec<String>,
        scenarios: u64,
        recordings: Option<Arc<Recordings>>,
        controllers: Vec<Algorithm>,
    ) -> Result<Self, PlanError> {
        if let Some(twice) = twice(&controllers) {
            return Err(PlanError::Twice(twice.name().to_owned()));
        }
        if controllers.is_empty() {
            return Err(PlanError::NoController);
        }
        let (references, shard) = (Reference::ALL.to_vec(), Shard::default());
        Ok(Self { seeds, scenarios, recordings, controllers, references, shard })
    }

    /// The controllers that are judged unless others are named: all but the constant rate, and GCC of 2014, which is there for a comparison
    /// of that year.
    pub fn default_controllers() -> Vec<Algorithm> {
        Algorithm::all().filter(|algorithm| !["fixed", "gcc:rmcat-02"].contains(&algorithm.name())).collect()
    }

    /// What its runs depend on, in one line: the name of its journal.
    pub fn identity(&self) -> String {
        let Self { seeds, scenarios, shard, .. } = self;
        let of = match &self.recordings {
            Some(recordings) => format!("of recordings {}", recordings.digest()),
            None => format!("of seed {}", seeds.join(",")),
        };
        let names = self.names();
        format!(
            "benchmark {VERSION} {of}, {scenarios} scenarios, shard {shard}, {}, algorithms {}",
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
        self.keys().count() * (self.controllers.len() + self.references.len())
    }

    /// The scenarios of the shard.
    pub fn keys(&self) -> impl Iterator<Item = Key> + use<'_> {
        let each = self.scenarios.max(1);
        let all = each.saturating_mul(self.seeds.len().max(1) as u64);
        let key = move |place: u64| {
            let seed = self.seeds.get((place / each) as usize);
            (seed.cloned().unwrap_or_default(), place % each)
        };
        self.shard.numbers(all).map(key)
    }

    /// Draws a scenario; `None` if `ends` was true before it was drawn, or if there is none of this key.
    pub fn draw_unless(&self, key: &Key, ends: &dyn Fn() -> bool) -> Option<Drawn> {
        let (seed, number) = key;
        match &self.recordings {
            Some(recordings) => recordings.draw(*number),
            None => draw_unless(seed, *number, ends),
        }
    }
}

/// The first of these that is equal to an earlier one.
fn twice<T: PartialEq>(all: &[T]) -> Option<&T> {
    let is_known = |(place, own): &(usize, &T)| all.iter().take(*place).any(|other| other == *own);
    all.iter().enumerate().find(is_known).map(|(_, own)| own)
}
