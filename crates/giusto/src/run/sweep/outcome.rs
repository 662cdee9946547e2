//! Runs a plan on several threads.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::plan::Planned;
use crate::{
    record::RunRecord,
    run::{RecordOptions, Taps, timed},
};

/// A finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Random seed.
    pub seed: String,
    /// The parameters that were set, by their paths.
    pub parameters: BTreeMap<String, String>,
    /// Digest of everything that the run depends on besides its seed.
    pub fingerprint: String,
    /// The record of the run.
    pub result: RunRecord,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Random seed.
    pub seed: String,
    /// The parameters that were set, by their paths.
    pub parameters: BTreeMap<String, String>,
    /// The error message.
    pub why: String,
}

/// The runs of a sweep, in the order of its plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Finished runs.
    pub finished: Vec<Finished>,
    /// Failed runs.
    pub failed: Vec<Failed>,
    /// Number of runs that were not started, or ended early.
    pub missing: usize,
    /// Parameters of runs whose expectations are not [judged](Planned::judged).
    pub unjudged: BTreeSet<BTreeMap<String, String>>,
}

impl Outcome {
    /// Whether the expectations of a run are [judged](Planned::judged).
    pub fn judges(&self, run: &Finished) -> bool {
        !self.unjudged.contains(&run.parameters)
    }
}

/// Runs those of `planned` that are not among `known`, on the threads of rayon's current pool.
///
/// `run` returns `None` if it was ended early; if it panics, that run has failed and the others go on. `finished` is called with
/// each run as it ends, in any order, one at a time.
pub fn run(
    planned: &[Planned],
    known: Vec<Finished>,
    run: impl Fn(&Planned) -> Option<RunRecord> + Sync,
    finished: impl FnMut(&Finished) + Send,
) -> Outcome {
    let mut known: BTreeMap<_, _> =
        crate::order::map(known.into_iter().map(|run| ((run.parameters.clone(), run.seed.clone()), run)));
    let with_known: Vec<(&Planned, Option<Finished>)> =
        planned.iter().map(|run| (run, known.remove(&run.key()))).collect();
    let finished = Mutex::new(finished);
    let end = |(planned, known): (&Planned, Option<Finished>)| {
        if known.is_some() {
            return Ok(known);
        }
        let (parameters, seed) = planned.key();
        match catch_unwind(AssertUnwindSafe(|| run(planned))) {
            Ok(result) => Ok(result.map(|result| {
                let run = Finished { seed, parameters, fingerprint: planned.fingerprint.clone(), result };
                if let Ok(mut finished) = finished.lock() {
                    finished(&run);
                }
                run
            })),
            Err(panic) => Err(Failed { seed, parameters, why: message(&*panic) }),
        }
    };
    let ends: Vec<Result<Option<Finished>, Failed>> =
        with_known.into_par_iter().with_max_len(1).map(end).collect();
    let unjudged = planned.iter().filter(|run| !run.judged).map(|run| run.parameters.clone());
    let mut outcome = Outcome { unjudged: unjudged.collect(), ..Outcome::default() };
    for end in ends {
        match end {
            Ok(Some(run)) => outcome.finished.push(run),
            Ok(None) => outcome.missing += 1,
            Err(run) => outcome.failed.push(run),
        }
    }
    outcome
}

/// Makes a planned run; `None` if `is_over` ended it.
///
/// # Panics
///
/// If a link lost count of its packets, which is a bug.
pub fn simulate(planned: &Planned, taps: &mut dyn Taps, is_over: impl Fn() -> bool) -> Option<RunRecord> {
    if is_over() {
        return None;
    }
    let result =
        timed::run_with(&planned.scenario, planned.seed, RecordOptions::default(), taps, &mut (), |_| {
            is_over()
        });
    (!result.interrupted).then_some(result)
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked and said nothing").to_owned()
}
