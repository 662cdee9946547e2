//! The test cases of RFC 8867, "Test Cases for Evaluating Congestion Control for Interactive Real-Time Media", with the metrics of
//! RFC 8868: one scoreboard over all controllers there are.
//!
//! Each case is a scenario of the folder `scenarios/rfc8867`, whose expectations are the section's "expected behavior" in numbers.
//! It runs under each controller, with a few seeds. See `docs/rfc8867.md`.

mod cases;
mod metrics;
mod page;
mod scoreboard;

use std::{ops::ControlFlow, sync::Mutex};

use giusto_congestion::Algorithm;
use rayon::prelude::*;
use serde::Serialize;

pub use cases::{CASES, Case};
pub use metrics::{FlowMetrics, FlowPeriod, Metrics, Period};

use super::Reproduction;
use giusto::{
    record::RunRecord,
    run::{self, RecordOptions},
    scenario::{Expectation, Scenario, ScenarioError},
};

/// The name of this reproduction.
pub const NAME: &str = "rfc8867";

/// The rule of agreement, as `docs/rfc8867.md` states it.
pub const RULE: &[&str] = &[
    "The RFC says in words what it expects. Each scenario file puts that in numbers with a lower or an upper bound, mostly both; \
     they were written before anything ran.",
    "An expectation is met if it is met with every seed. What is shown is the median over the seeds.",
    "Rates count all headers. Capacity: at least 80 % of it in all, at most 105 %. A flow that may have its maximum: 85 to \
     105 % of it. Shares: within 0.577 and 1.732 of the fair one, so that two flows differ by at most 3 (RFC 8868 §3, item 7). \
     Waiting in queues: 95 % of the packets at most 100 ms, which with 50 ms of propagation are the 150 ms of ITU-T G.114.",
    "Fairness: the largest ratio of two flows, over 5 s and over 20 s of the second half of each time in which nothing changes, \
     is at most 3.",
    "Oscillation: in that half no sending rate goes from half its mean to the double, or back, within 500 ms (RFC 8868 §3, item 9).",
    "`fixed` stays at the 150 kbit/s that all begin with: it shows what meets an expectation without doing anything.",
];

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// A few cases rather than all.
    pub quick: bool,
    /// The controllers, each in every case.
    pub controllers: Vec<Algorithm>,
    /// The seeds, each in every case under every controller.
    pub seeds: Vec<u64>,
}

impl Plan {
    /// Every case under every controller with three seeds; quick, a few cases with one.
    pub fn new(quick: bool) -> Self {
        let seeds = if quick { vec![1] } else { vec![1, 2, 3] };
        Self { quick, controllers: Algorithm::all().collect::<Vec<_>>(), seeds }
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        Case::list(self.quick).count() * self.controllers.len() * self.seeds.len()
    }
}

/// One run that came to its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Of which case.
    pub case: &'static str,
    /// Under which controller.
    pub controller: &'static str,
    /// With which seed.
    pub seed: String,
    /// The command that runs it alone.
    pub command: String,
    /// What came of it, with its expectations.
    pub result: RunRecord,
    /// The metrics of RFC 8868.
    pub metrics: Metrics,
    /// What is drawn of it, of the first seed alone.
    #[serde(skip)]
    series: Option<Series>,
}

/// A run second by second.
#[derive(Debug, Clone, Default, PartialEq)]
struct Series {
    /// Each media flow: second and received rate in Mbit/s.
    rates: Vec<(String, Vec<(f64, f64)>)>,
    /// The longest that a packet of media waited, in ms.
    waited: Vec<(f64, f64)>,
    /// Each bottleneck: moment and capacity in Mbit/s.
    capacities: Vec<(String, Vec<(f64, f64)>)>,
}

/// What came of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Scoreboard {
    /// What was to run.
    pub plan: Plan,
    /// The runs, by case, controller and seed; fewer if it was interrupted.
    pub runs: Vec<Run>,
    /// The expectations of each case.
    expectations: Vec<(Case, Vec<Expectation>)>,
}

/// In JSON the one object of `giusto reproduce rfc8867 --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Printed<'a> {
    /// Each expectation under each controller.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// Whether it was ended before everything ran.
    pub interrupted: bool,
    /// How many runs there are in a whole one.
    pub planned_runs: usize,
    /// The raw metrics.
    pub runs: &'a [Run],
}

/// Runs `plan` on the threads of rayon's current pool. `watch` is asked now and then whether to go on, `done` is told of each run as
/// it ends.
///
/// # Errors
///
/// [`ScenarioError`]: a scenario is wrong, which a test excludes.
pub fn run(
    plan: Plan,
    watch: impl Fn() -> ControlFlow<()> + Sync,
    done: impl FnMut(&Run) + Send,
) -> Result<Scoreboard, ScenarioError> {
    let mut expectations = Vec::new();
    let mut tasks = Vec::new();
    for case in Case::list(plan.quick) {
        for (place, &controller) in plan.controllers.iter().enumerate() {
            let scenario = case.scenario(controller)?;
            if place == 0 {
                expectations.push((case, scenario.expectations().to_vec()));
            }
            tasks.extend(plan.seeds.iter().map(|&seed| Task {
                case,
                controller,
                scenario: scenario.clone(),
                seed,
                is_drawn: plan.seeds.first() == Some(&seed),
            }));
        }
    }
    let done = Mutex::new(done);
    let runs = tasks.into_par_iter().with_max_len(1).map(|task| {
        let run = task.run(&watch)?;
        if let Ok(mut done) = done.lock() {
            done(&run);
        }
        Some(run)
    });
    let runs: Vec<Option<Run>> = runs.collect();
    Ok(Scoreboard { plan, runs: runs.into_iter().flatten().collect(), expectations })
}

/// One run to make.
#[derive(Debug)]
struct Task {
    case: Case,
    controller: Algorithm,
    scenario: Scenario,
    seed: u64,
    is_drawn: bool,
}

impl Task {
    fn run(&self, watch: impl Fn() -> ControlFlow<()>) -> Option<Run> {
        if watch().is_break() {
            return None;
        }
        let options = RecordOptions::with_timeline(metrics::timeline());
        let mut record = run::simulate_watched(&self.scenario, self.seed, options, &mut (), |_| watch());
        let metrics = metrics::metrics(&self.case, &self.scenario, &record);
        let series = self.is_drawn.then(|| page::series(&self.case, &self.scenario, &record));
        // The timelines of all runs together would fill the memory.
        record.timeline = None;
        (!record.interrupted).then(|| Run {
            case: self.case.id,
            controller: self.controller.name(),
            seed: self.seed.to_string(),
            command: self.case.command(self.controller, self.seed),
            result: record,
            metrics,
            series,
        })
    }
}

#[cfg(test)]
mod tests;
