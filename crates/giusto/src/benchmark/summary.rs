//! What the runs of a benchmark say about each controller.

mod runs;

use std::collections::BTreeMap;

use serde::Serialize;

use self::runs::{Runs, mean};
use super::{
    judge::Utility,
    plan::Key,
    result::{BenchmarkResult, RunRow},
};
use crate::confidence::Interval;

/// A benchmark in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Version of the benchmark.
    pub version: String,
    /// Seeds, separated by commas; empty with recordings.
    pub seed: String,
    /// Each seed; none with recordings.
    pub seeds: Vec<String>,
    /// Number of scenarios of each seed, or of the recordings.
    pub scenarios: u64,
    /// Digest of the recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordings: Option<String>,
    /// Number of runs that are missing, because the benchmark was ended early or this is a shard.
    pub missing_runs: u64,
    /// Each controller.
    pub controllers: Vec<ControllerSummary>,
    /// What was attainable: bounds and constant rates, which are no controllers.
    pub references: Vec<ReferenceSummary>,
    /// Each pair of controllers.
    pub pairs: Vec<Pair>,
}

/// One controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControllerSummary {
    /// Its name.
    pub name: String,
    /// Over all runs.
    pub all: FamilySummary,
    /// Each family by its name.
    pub families: BTreeMap<String, FamilySummary>,
    /// The goals of a controller, as far as they can be read from these runs.
    pub goals: BTreeMap<&'static str, Goal>,
    /// The runs in which it was furthest behind the best controller, the worst first.
    pub worst: Vec<WorstRun>,
}

/// One reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReferenceSummary {
    /// Its name.
    pub name: String,
    /// Over all runs.
    pub all: FamilySummary,
    /// Each family by its name.
    pub families: BTreeMap<String, FamilySummary>,
}

/// The runs of a controller in one family. Without a suffix: medians.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FamilySummary {
    /// Number of runs.
    pub runs: u64,
    /// Median use of the fair capacity.
    pub utilisation_ratio: f64,
    /// Median over runs of the median frame delay.
    pub frame_delay_p50_ms: f64,
    /// Median over runs of the 95th percentile of the frame delay.
    pub frame_delay_p95_ms: f64,
    /// Median over runs of its 99th percentile.
    pub frame_delay_p99_ms: f64,
    /// Median over runs of the 95th percentile of the queueing delay.
    pub queue_delay_p95_ms: f64,
    /// Median share of packets lost.
    pub loss_ratio: f64,
    /// Median share of time in freezes.
    pub freeze_ratio: f64,
    /// Median utility.
    pub utility: f64,
    /// Mean utility.
    pub utility_mean: f64,
    /// Mean utility over that of `bound:causal` in the same scenarios, if it was judged in any.
    pub bound_ratio: Option<f64>,
    /// Share of the runs with nothing competing whose use is below 0.4.
    pub collapsed_ratio: f64,
    /// Share of the runs whose utility is below 0.2.
    pub poor_ratio: f64,
    /// Mean network score of the `MMSys` 2021 challenge of bandwidth estimation, 0 to 1.
    pub challenge_score: f64,
    /// Kleinrock's power, use over the 95th percentile of the frame delay in tenths of a second: geometric mean.
    pub power: f64,
    /// Mean share of the frames that were skipped, never whole, or late.
    pub missed_frames_ratio: f64,
    /// Of these: mean share of the frames that the sender skipped.
    pub skipped_ratio: f64,
    /// Of these: mean share that never became whole.
    pub missing_ratio: f64,
    /// Of these: mean share that was late.
    pub late_ratio: f64,
    /// Mean share of the frames that became whole because of a repair.
    pub repaired_ratio: f64,
    /// Median of the changes of the target, in octaves per minute.
    pub target_octaves_per_minute: f64,
    /// Medians of the parts of the utility; the total is [`utility`](Self::utility).
    pub parts: Utility,
    /// 10th and 90th percentiles over the runs.
    pub spread: Spread,
    /// Intervals over seeds, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_seeds: Option<SeedIntervals>,
}

/// The 95 % confidence interval of a mean over seeds: lower and upper limit, by Student's t.
pub type Interval95 = [f64; 2];

/// Figures of a controller as means over seeds, with 95 % confidence intervals by Student's t: each seed's figure is one value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct SeedIntervals {
    /// Number of seeds.
    pub seeds: u64,
    /// Mean utility.
    pub utility_mean: Interval95,
    /// Mean utility over that of `bound:causal`.
    pub bound_ratio: Option<Interval95>,
    /// Median use.
    pub utilisation_ratio: Interval95,
    /// Median 95th percentile of the frame delay.
    pub frame_delay_p95_ms: Interval95,
    /// Mean share of missed frames.
    pub missed_frames_ratio: Interval95,
    /// Share of collapsed runs.
    pub collapsed_ratio: Interval95,
    /// Share of the runs whose utility is below 0.2.
    pub poor_ratio: Interval95,
}

/// The 10th and the 90th percentile of figures over runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Use.
    pub utilisation_ratio: [f64; 2],
    /// 95th percentile of the frame delay.
    pub frame_delay_p95_ms: [f64; 2],
    /// 95th percentile of the queueing delay.
    pub queue_delay_p95_ms: [f64; 2],
    /// Utility.
    pub utility: [f64; 2],
}

/// A figure over those runs that a goal is about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goal {
    /// The figure.
    pub value: f64,
    /// Number of runs.
    pub runs: u64,
    /// Its interval over seeds, if several have such runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_seeds: Option<Interval95>,
}

/// Two controllers on the same scenarios.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// One of them.
    pub a: String,
    /// The other one.
    pub b: String,
    /// Mean of the utility of `a` less that of `b`.
    pub utility_difference: f64,
    /// Its 95 % confidence interval: percentile bootstrap over the scenarios, or over the windows of recordings.
    pub interval: [f64; 2],
    /// Its 95 % confidence interval over seeds, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_seeds: Option<Interval95>,
    /// Share of the scenarios in which `a` has the higher utility; equal ones count half.
    pub wins_ratio: f64,
}

/// A run in which a controller was far behind the best one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstRun {
    /// Seed of the scenario; empty with recordings.
    pub seed: String,
    /// Number of the scenario.
    pub scenario: u64,
    /// Its family.
    pub family: String,
    /// The window of a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// Its utility.
    pub utility: f64,
    /// The highest utility on this scenario.
    pub best_utility: f64,
    /// Use.
    pub utilisation_ratio: f64,
    /// 95th percentile of the frame delay.
    pub frame_delay_p95_ms: f64,
    /// The command that repeats it.
    pub command: String,
}

/// The summary of a result, complete or not. Scenarios of which runs are missing are left out: controllers are compared on the same ones.
pub fn summary(result: &BenchmarkResult) -> Summary {
    let each = result.controllers.len() + result.references.len();
    let mut made: BTreeMap<Key, usize> = BTreeMap::new();
    for row in &result.runs {
        *made.entry(row.key()).or_default() += 1;
    }
    let whole: Vec<&RunRow> = result.runs.iter().filter(|row| made.get(&row.key()) == Some(&each)).collect();
    let runs = Runs::of(result, whole.iter().copied());
    let mut controllers: Vec<ControllerSummary> =
        result.controllers.iter().map(|name| runs.controller(result, name)).collect();
    let mut references: Vec<ReferenceSummary> =
        result.references.iter().map(|name| runs.reference(name)).collect();
    let mut pairs = runs.pairs(result);
    if result.seeds.len() > 1 {
        let of = |seed: &String| Runs::of(result, whole.iter().copied().filter(move |row| row.seed == *seed));
        let seeds: Vec<Runs<'_>> = result.seeds.iter().map(of).collect();
        over_seeds(&seeds, &mut controllers, &mut references, &mut pairs);
    }
    Summary {
        version: result.version.clone(),
        seed: result.seeds.join(","),
        seeds: result.seeds.clone(),
        scenarios: result.scenarios,
        recordings: result.recordings.clone(),
        missing_runs: result.planned().saturating_sub(result.runs.len() as u64),
        controllers,
        references,
        pairs,
    }
}

/// Adds the intervals over the runs of each seed.
fn over_seeds(
    seeds: &[Runs<'_>],
    controllers: &mut [ControllerSummary],
    references: &mut [ReferenceSummary],
    pairs: &mut [Pair],
) {
    for own in controllers {
        add_intervals(seeds, &own.name, &mut own.all, &mut own.families);
        let goals: Vec<BTreeMap<&'static str, Goal>> =
            seeds.iter().map(|seed| seed.goals(&own.name)).collect();
        for (name, goal) in &mut own.goals {
            let values = goals.iter().filter_map(|goals| goals.get(name)).map(|goal| goal.value);
            goal.over_seeds = interval(values);
        }
    }
    for own in references {
        add_intervals(seeds, &own.name, &mut own.all, &mut own.families);
    }
    for pair in pairs {
        let differences = seeds.iter().map(|seed| seed.differences(&pair.a, &pair.b));
        let means = differences.filter(|own| !own.is_empty());
        pair.over_seeds = interval(means.map(|own| mean(&own.into_values().collect::<Vec<_>>())));
    }
}

/// Adds the intervals of a row and of its families.
fn add_intervals(
    seeds: &[Runs<'_>],
    name: &str,
    all: &mut FamilySummary,
    families: &mut BTreeMap<String, FamilySummary>,
) {
    all.over_seeds = intervals(seeds, name, None);
    for (family, own) in families {
        own.over_seeds = intervals(seeds, name, Some(family));
    }
}

/// The intervals of a row over all its runs, or over those of a family.
fn intervals(seeds: &[Runs<'_>], name: &str, family: Option<&str>) -> Option<SeedIntervals> {
    let own = |seed: &Runs<'_>| {
        let is_of = |row: &&&RunRow| family.is_none_or(|family| row.family == family);
        let rows: Vec<&RunRow> = seed.rows(name).iter().filter(is_of).copied().collect();
        (!rows.is_empty()).then(|| seed.family_summary(&rows))
    };
    let each: Vec<FamilySummary> = seeds.iter().filter_map(own).collect();
    let of = |figure: fn(&FamilySummary) -> f64| interval(each.iter().map(figure));
    Some(SeedIntervals {
        seeds: each.len() as u64,
        utility_mean: of(|own| own.utility_mean)?,
        bound_ratio: interval(each.iter().filter_map(|own| own.bound_ratio)),
        utilisation_ratio: of(|own| own.utilisation_ratio)?,
        frame_delay_p95_ms: of(|own| own.frame_delay_p95_ms)?,
        missed_frames_ratio: of(|own| own.missed_frames_ratio)?,
        collapsed_ratio: of(|own| own.collapsed_ratio)?,
        poor_ratio: of(|own| own.poor_ratio)?,
    })
}

/// The interval of some values; `None` of fewer than two.
fn interval(values: impl Iterator<Item = f64>) -> Option<Interval95> {
    let own = Interval::of(&values.collect::<Vec<_>>())?;
    Some([own.low?, own.high?])
}
