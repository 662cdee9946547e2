//! Scenarios, random or of recorded links, and a judgement of controllers on them.
//!
//! Scenario number *i* of a seed depends on the [`VERSION`], the seed and *i* alone. It is TOML text ([`Drawn::text`]), so that each
//! can be written to a file and run as any other scenario. `docs/reference/benchmark.md` states the distributions, the figures of a run
//! and the utility.
//!
//! # Example
//!
//! ```
//! use giusto::benchmark::{self, Plan};
//!
//! let plan = Plan::new(["an example"], 2, vec!["gcc:libwebrtc".parse()?])?;
//! let result = benchmark::run(&plan, Vec::new(), || false, |_| {});
//! // What was attainable is judged too.
//! assert_eq!(result.runs.len(), 2 * (1 + benchmark::Reference::ALL.len()));
//! assert!(result.runs.iter().all(|run| (0.0..=1.0).contains(&run.figures.utility.total)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod draw;
pub(crate) mod family;
pub(crate) mod judge;
mod plan;
mod recordings;
mod reference;
mod result;
mod run;
mod scores;
pub(crate) mod share;
mod simulate;
mod summary;

pub use family::{Drawn, Family, draw, draw_unless};
pub use judge::{Figures, Utility};
pub use plan::{Key, Plan, PlanError};
pub use recordings::{Recordings, RecordingsError};
pub use reference::{Reference, Replayed};
pub use result::{BenchmarkResult, MergeError, RunRow, merge};
pub use run::{run, run_with};
pub use simulate::{judge_scenario, simulate, simulate_with};
pub use summary::{
    ControllerSummary, FamilySummary, Goal, Interval95, Pair, ReferenceSummary, SeedIntervals, Spread,
    Summary, WorstRun, summary,
};

/// The version of the distributions, the figures and the utility. Results of different versions cannot be compared.
pub const VERSION: &str = "3";

#[cfg(test)]
mod tests;
