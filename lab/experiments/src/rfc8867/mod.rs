//! The test cases of RFC 8867, "Test Cases for Evaluating Congestion Control for Interactive Real-Time Media", with the metrics of
//! RFC 8868: one scoreboard over all controllers.
//!
//! Each case is a scenario in `scenarios/rfc8867` whose expectations express the section's "expected behavior" in numbers. Rules of
//! ours were tuned with the seeds of [`Part::Tuning`], so other seeds and changed cases are judged too. See
//! `docs/reproduce/rfc8867.md`.

mod cases;
mod expected;
mod frames;
mod metrics;
mod page;
mod scoreboard;

use std::{ops::ControlFlow, sync::Mutex};

use giusto_congestion::Algorithm;
use rayon::prelude::*;
use serde::Serialize;

pub use cases::{CASES, Case, Variant};
pub use frames::Frames;
pub use metrics::{FlowMetrics, FlowPeriod, Metrics, Period};
pub use scoreboard::{HeldOut, Score};

use self::expected::Expected;
use crate::item::Reproduction;
use giusto::{
    record::RunRecord,
    run::{self, RecordOptions},
    scenario::ScenarioError,
};

/// The name of this reproduction.
pub const NAME: &str = "rfc8867";

/// The page in Markdown: introduction, rule, definitions and reasons.
const TEXT: &str = include_str!("page.md");

/// Seeds with which rules of ours were tuned. The scoreboard shows the results with these.
const TUNING_SEEDS: [u64; 3] = [1, 2, 3];
/// Seeds with which nothing was tuned.
const HELD_OUT_SEEDS: [u64; 4] = [11, 12, 13, 14];
/// The seed of the held-out variants.
const VARIANT_SEED: u64 = 15;

/// A set of runs that is judged separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The cases with the seeds that were used for tuning.
    Tuning,
    /// The cases with other seeds.
    HeldOutSeeds,
    /// Changed cases with another seed.
    HeldOutVariant(Variant),
}

/// The runs to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// A few cases instead of all.
    pub quick: bool,
    /// The controllers, each in every case.
    pub controllers: Vec<Algorithm>,
    /// The parts with their seeds, each in every case with every controller.
    pub parts: Vec<(Part, Vec<u64>)>,
}

impl Plan {
    /// Every case with every controller but GCC of 2014, which is older than these cases; quick, a few cases with one seed of each part.
    pub fn new(quick: bool) -> Self {
        let seeds = |seeds: &[u64]| seeds.iter().copied().take(if quick { 1 } else { seeds.len() }).collect();
        let variants = Variant::ALL.map(|variant| (Part::HeldOutVariant(variant), vec![VARIANT_SEED]));
        let mut parts =
            vec![(Part::Tuning, seeds(&TUNING_SEEDS)), (Part::HeldOutSeeds, seeds(&HELD_OUT_SEEDS))];
        parts.extend(variants);
        let controllers = Algorithm::all().filter(|controller| controller.name() != "gcc:rmcat-02").collect();
        Self { quick, controllers, parts }
    }

    /// The cases, each with the expectations of its file and its own.
    fn cases(&self) -> Result<Vec<(Case, Vec<Expected>)>, ScenarioError> {
        let with_expectations = |case: Case| {
            let of_file = case.expectations()?.into_iter().enumerate().map(Expected::of_scenario);
            Ok((case, of_file.chain(case.judged.iter().cloned()).collect()))
        };
        Case::list(self.quick).map(with_expectations).collect()
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        let seeds: usize = self.parts.iter().map(|(_, seeds)| seeds.len()).sum();
        Case::list(self.quick).count() * self.controllers.len() * seeds
    }
}

/// One completed run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// The case.
    pub case: &'static str,
    /// The controller.
    pub controller: &'static str,
    /// The part of the plan.
    pub part: Part,
    /// The seed.
    pub seed: String,
    /// The command that repeats it.
    pub command: String,
    /// The result, with the expectations of the file.
    pub result: RunRecord,
    /// The metrics of RFC 8868.
    pub metrics: Metrics,
    /// The values that the charts show, of the first seed only.
    #[serde(skip)]
    series: Option<Series>,
}

/// The values that the charts show, second by second.
#[derive(Debug, Clone, Default, PartialEq)]
struct Series {
    /// Each media flow: second and received rate in Mbit/s.
    rates: Vec<(String, Vec<(f64, f64)>)>,
    /// The maximum queueing delay of media, in ms.
    waited: Vec<(f64, f64)>,
    /// Each bottleneck: moment and capacity in Mbit/s.
    capacities: Vec<(String, Vec<(f64, f64)>)>,
}

/// The results of a plan.
#[derive(Debug, Clone)]
pub struct Scoreboard {
    /// The plan.
    pub plan: Plan,
    /// The runs, by case, controller and seed; fewer if it was interrupted.
    pub runs: Vec<Run>,
    /// The cases of the plan, each with what is expected.
    cases: Vec<(Case, Vec<Expected>)>,
}

/// In JSON the one object of `giusto reproduce rfc8867 --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Printed<'a> {
    /// Each expectation with each controller, judged by the seeds that were used for tuning.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// Each controller judged by seeds and variants that were not used for tuning.
    pub held_out: Vec<HeldOut>,
    /// The frames of each controller in all runs.
    pub frames: Vec<Frames>,
    /// Whether it was ended before everything ran.
    pub interrupted: bool,
    /// The number of planned runs.
    pub planned_runs: usize,
    /// The raw metrics.
    pub runs: &'a [Run],
}

/// Runs `plan` on the threads of rayon's current pool. `watch` is called now and then and may end the run; `done` is called with each
/// completed run.
///
/// # Errors
///
/// [`ScenarioError`]: a scenario is invalid, which a test excludes.
pub fn run(
    plan: Plan,
    watch: impl Fn() -> ControlFlow<()> + Sync,
    done: impl FnMut(&Run) + Send,
) -> Result<Scoreboard, ScenarioError> {
    let cases = plan.cases()?;
    let mut tasks = Vec::with_capacity(plan.runs());
    for (case, _) in &cases {
        for &controller in &plan.controllers {
            for (part, seeds) in &plan.parts {
                tasks.extend(seeds.iter().map(|&seed| (case, controller, *part, seed)));
            }
        }
    }
    let done = Mutex::new(done);
    let tuning = plan.parts.iter().find(|(part, _)| *part == Part::Tuning);
    let drawn_seed = tuning.and_then(|(_, seeds)| seeds.first()).copied();
    let runs = tasks.into_par_iter().with_max_len(1).filter_map(|(case, controller, part, seed)| {
        let is_drawn = part == Part::Tuning && Some(seed) == drawn_seed;
        let run = Run::make(case, controller, (part, seed), is_drawn, &watch).transpose()?;
        if let (Ok(run), Ok(mut done)) = (&run, done.lock()) {
            done(run);
        }
        Some(run)
    });
    let runs = runs.collect::<Result<_, _>>()?;
    Ok(Scoreboard { plan, runs, cases })
}

impl Run {
    /// Makes a run; `None` if it was interrupted.
    fn make(
        case: &Case,
        controller: Algorithm,
        (part, seed): (Part, u64),
        is_drawn: bool,
        watch: impl Fn() -> ControlFlow<()>,
    ) -> Result<Option<Self>, ScenarioError> {
        if watch().is_break() {
            return Ok(None);
        }
        let variant = match part {
            Part::HeldOutVariant(variant) => Some(variant),
            _ => None,
        };
        let scenario = case.scenario(controller, variant)?;
        let options = RecordOptions::with_timeline(metrics::timeline());
        let mut record = run::simulate_watched(&scenario, seed, options, &mut (), |_| watch());
        let metrics = metrics::metrics(case.bottlenecks, &scenario, &record);
        let series = is_drawn.then(|| page::series(case, &scenario, &record));
        // The timelines of all runs together would fill the memory.
        record.timeline = None;
        Ok((!record.interrupted).then_some(Self {
            case: case.id,
            controller: controller.name(),
            part,
            seed: seed.to_string(),
            command: case.command(controller, seed, variant)?,
            result: record,
            metrics,
            series,
        }))
    }
}

#[cfg(test)]
mod tests;
