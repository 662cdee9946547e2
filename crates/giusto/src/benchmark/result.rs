//! The result of a benchmark, and of its parts.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    VERSION,
    family::Drawn,
    judge::Figures,
    plan::{Key, Plan},
};

giusto_units::defaults! {
    /// One scenario under one controller.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct RunRow {
        /// Seed of the scenario; empty with recordings.
        pub seed: String = drawn.seed.clone(),
        /// Number of the scenario.
        pub scenario: u64 = drawn.number,
        /// Its family: [`Family::name`](super::Family::name), or what a recording belongs to.
        pub family: String = drawn.family.clone(),
        /// The window of a recording that the link repeats.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub recording: Option<String> = drawn.recording.clone(),
        /// The controller, or the reference: `bound:causal`, ….
        pub controller: String = controller,
        /// Base round-trip time before any change, ms.
        pub rtt_ms: f64 = drawn.rtt_ms,
        /// Ratio of the capacity after a change to that before, if it changes once.
        pub change_ratio: Option<f64> = drawn.change_ratio,
        /// What the judged flows share the bottleneck with: `cubic`, ….
        pub rival: Option<String> = drawn.rival.clone(),
        /// Share of packets that the path loses, where the family is that of independent losses.
        pub random_loss: Option<f64> = drawn.random_loss,
        /// The figures.
        #[serde(flatten)]
        pub figures: Figures = figures,
    }
    pub(super) fn new(drawn: &Drawn, controller: String, figures: Figures);
}

impl RunRow {
    /// What names its scenario.
    pub fn key(&self) -> Key {
        (self.seed.clone(), self.scenario)
    }
}

/// The runs of a benchmark, or of some of its shards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkResult {
    /// Version of the benchmark.
    pub version: String,
    /// Version of giusto.
    pub giusto: String,
    /// Digest of the sources of the algorithms.
    pub algorithms: String,
    /// Seeds; none with recordings.
    pub seeds: Vec<String>,
    /// Number of scenarios of each seed, or of the recordings, in the whole benchmark.
    pub scenarios: u64,
    /// Digest of the recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recordings: Option<String>,
    /// The flags with which they were read, such as ` --scale 2`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recording_flags: String,
    /// The judged controllers.
    pub controllers: Vec<String>,
    /// What was judged besides them: bounds and constant rates.
    pub references: Vec<String>,
    /// The runs, by scenario and then in the order of the controllers and the references.
    pub runs: Vec<RunRow>,
}

/// Results that cannot be put together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// There is nothing to merge.
    #[error("no result: name the files that --out wrote")]
    Nothing,
    /// A result is of another benchmark.
    #[error(
        "{name}: its {what} is {found}, that of {first} {expected}: merge shards of one benchmark, made by one program"
    )]
    Other {
        /// Name of that result.
        name: String,
        /// What differs.
        what: &'static str,
        /// Its value.
        found: String,
        /// Name of the first result.
        first: String,
        /// The value there.
        expected: String,
    },
    /// A run is in two results.
    #[error("{name}: scenario {scenario} under {controller} is in another file too: name each shard once")]
    Twice {
        /// Name of the second result.
        name: String,
        /// The scenario.
        scenario: String,
        /// Controller.
        controller: String,
    },
    /// A run is none of the benchmark's.
    #[error(
        "{name}: scenario {scenario} under {controller} is none of its {scenarios} scenarios and controllers: make the file again"
    )]
    Unplanned {
        /// Name of the result.
        name: String,
        /// The scenario.
        scenario: String,
        /// Controller.
        controller: String,
        /// Number of the benchmark's scenarios.
        scenarios: u64,
    },
    /// Runs are missing.
    #[error(
        "{missing} of {all} runs are missing, the first is scenario {scenario} under {controller}: add the file of its shard"
    )]
    Missing {
        /// Number of missing runs.
        missing: u64,
        /// Number of all runs.
        all: u64,
        /// The first scenario with a missing run.
        scenario: String,
        /// Its controller.
        controller: String,
    },
}

impl BenchmarkResult {
    pub(super) fn new(plan: &Plan, runs: Vec<RunRow>) -> Self {
        let mut result = Self {
            version: VERSION.to_owned(),
            giusto: env!("CARGO_PKG_VERSION").to_owned(),
            algorithms: env!("GIUSTO_ALGORITHMS").to_owned(),
            seeds: plan.seeds.clone(),
            scenarios: plan.scenarios,
            recordings: plan.recordings.as_ref().map(|own| own.digest().to_owned()),
            recording_flags: plan.recordings.as_ref().map_or_else(String::new, |own| own.flags().to_owned()),
            controllers: plan.controllers.iter().map(|own| own.name().to_owned()).collect(),
            references: plan.references.iter().map(|own| own.name()).collect(),
            runs,
        };
        result.sort();
        result
    }

    /// All that was judged.
    fn names(&self) -> impl Iterator<Item = &String> + Clone {
        self.controllers.iter().chain(&self.references)
    }

    /// The number of runs of the whole benchmark.
    pub(super) fn planned(&self) -> u64 {
        let each = (self.names().count() * self.seeds.len().max(1)) as u64;
        self.scenarios.saturating_mul(each)
    }

    /// The seeds; one that is empty with recordings.
    pub(super) fn seeds(&self) -> Vec<String> {
        if self.seeds.is_empty() { vec![String::new()] } else { self.seeds.clone() }
    }

    fn sort(&mut self) {
        let (seeds, names) = (self.seeds(), self.names().cloned().collect::<Vec<_>>());
        let place = |all: &[String], name: &String| all.iter().position(|own| own == name);
        crate::order::sort_by_key(&mut self.runs, |row| {
            (place(&seeds, &row.seed), row.scenario, place(&names, &row.controller))
        });
    }

    /// What must agree between results that are merged.
    fn identity(&self) -> [(&'static str, String); 8] {
        [
            ("benchmark version", self.version.clone()),
            ("version of giusto", self.giusto.clone()),
            ("digest of the algorithms", self.algorithms.clone()),
            ("seed", format!("{:?}", self.seeds.join(","))),
            ("digest of the recordings", self.recordings.clone().unwrap_or_default()),
            ("number of scenarios", self.scenarios.to_string()),
            ("list of controllers", self.controllers.join(",")),
            ("list of references", self.references.join(",")),
        ]
    }
}

/// Puts the results of all shards of a benchmark together; each has a name for error messages.
///
/// # Errors
///
/// [`MergeError`]: they are of different benchmarks, or a run is missing, there twice or not planned.
pub fn merge(parts: Vec<(String, BenchmarkResult)>) -> Result<BenchmarkResult, MergeError> {
    let mut parts = parts.into_iter();
    let (first, mut whole) = parts.next().ok_or(MergeError::Nothing)?;
    let key = |row: &RunRow| (row.seed.clone(), row.scenario, row.controller.clone());
    let mut seen: BTreeSet<(String, u64, String)> = BTreeSet::new();
    let scenarios = whole.scenarios;
    let (seeds, names) = (whole.seeds(), whole.names().cloned().collect::<Vec<_>>());
    let several = seeds.len() > 1;
    let shown = |seed: &str, number: u64| {
        if several { format!("{number} of seed {seed:?}") } else { number.to_string() }
    };
    let mut take = |name: &str, runs: &[RunRow]| {
        for row in runs {
            let (scenario, controller) = (shown(&row.seed, row.scenario), row.controller.clone());
            let name = name.to_owned();
            if row.scenario >= scenarios || !names.contains(&controller) || !seeds.contains(&row.seed) {
                return Err(MergeError::Unplanned { name, scenario, controller, scenarios });
            }
            if !seen.insert(key(row)) {
                return Err(MergeError::Twice { name, scenario, controller });
            }
        }
        Ok(())
    };
    take(&first, &whole.runs)?;
    for (name, part) in parts {
        let differing = whole.identity().into_iter().zip(part.identity()).find(|(a, b)| a != b);
        if let Some(((what, expected), (_, found))) = differing {
            return Err(MergeError::Other { name, what, found, first, expected });
        }
        take(&name, &part.runs)?;
        whole.runs.extend(part.runs);
    }
    let all = whole.planned();
    let missing = all.saturating_sub(seen.len() as u64);
    if missing > 0 {
        let scenarios = seeds.iter().flat_map(|seed| (0..scenarios).map(move |number| (seed, number)));
        let mut runs =
            scenarios.flat_map(|(seed, number)| names.iter().map(move |name| (seed, number, name)));
        let is_missing = |&(seed, number, name): &(&String, u64, &String)| {
            !seen.contains(&(seed.clone(), number, name.clone()))
        };
        let (scenario, controller) = runs
            .find(is_missing)
            .map(|(seed, number, name)| (shown(seed, number), name.clone()))
            .unwrap_or_default();
        return Err(MergeError::Missing { missing, all, scenario, controller });
    }
    whole.sort();
    Ok(whole)
}
