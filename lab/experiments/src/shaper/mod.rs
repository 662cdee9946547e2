//! The traffic shaper of Chiu, Kadansky, Provino and Wesley, "Experiences in Programming a Traffic Shaper", Sun Microsystems
//! Laboratories, SMLI TR-99-77, 1999.
//!
//! The paper's algorithms, in our implementation, run in virtual time on the machine that it describes: a clock in steps of
//! 1 ms, sleeps in steps of 10 ms, sends of 2 ms. The same algorithms also run on this machine's clock. See
//! `docs/reproduce/shaper.md`.

mod page;
mod simulated;
mod statements;

use std::collections::BTreeMap;

use giusto_pace::{Limits, Strategy};
use giusto_sim::machine::SleepModel;
use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::item::Reproduction;
use giusto::measured::{plan::StreamPlan, result::RunResult};

/// The name of this reproduction.
pub const NAME: &str = "shaper";

/// The page in Markdown: introduction, rule and findings.
const TEXT: &str = include_str!("page.md");

/// The algorithms that run on this machine's clock.
pub const STRATEGIES: [Strategy; 5] =
    [Strategy::Dt0, Strategy::Dt1, Strategy::Dt2, Strategy::At0, Strategy::Grid];

/// The runs on this machine's clock. The runs in virtual time need no plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Duration of each run.
    pub duration: TimeDelta,
    /// Packet sizes in bytes, each with every one of [`STRATEGIES`].
    pub sizes: &'static [u64],
}

impl Plan {
    /// Nine sizes, 1 s each: about a minute.
    pub const FULL: Self = Self {
        duration: TimeDelta::from_seconds(1),
        sizes: &[100, 200, 300, 400, 600, 800, 1000, 1200, 1400],
    };

    /// Three sizes, 300 ms each: about ten seconds.
    pub const QUICK: Self = Self { duration: TimeDelta::from_millis(300), sizes: &[200, 600, 1200] };

    /// The rate of these runs: 125 times the paper's, because sleeps are finer today by about as much.
    pub const RATE: DataRate = DataRate::from_bps(100_000_000);

    /// The number of runs.
    pub const fn runs(&self) -> usize {
        self.sizes.len() * STRATEGIES.len()
    }
}

/// The reproduction and the runs on this machine's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaper {
    /// The plan.
    pub plan: Plan,
    /// The runs on this machine's clock, in order: algorithm, packet size in bytes, and sending rate over the target rate; fewer if
    /// it was interrupted.
    pub measured: Vec<(Strategy, u64, f64)>,
}

/// Makes every run of `plan` with `measure`, one after the other. The first run that yields `None` ends the measurement; results
/// in virtual time do not depend on it.
pub fn run(plan: Plan, mut measure: impl FnMut(&StreamPlan) -> Option<RunResult>) -> Shaper {
    let mut measured = Vec::with_capacity(plan.runs());
    let limits = Limits::default().with_duration(plan.duration);
    'runs: for strategy in STRATEGIES {
        for &size in plan.sizes {
            let mut stream = StreamPlan::constant(Some(Plan::RATE), DataSize::from_bytes(size), limits);
            stream.pacing.strategy = strategy;
            stream.pacing.packets_per_cycle = Some(1);
            let Some(result) = measure(&stream) else { break 'runs };
            let reached = result.tx_rate_bps.map(|bps| bps / Plan::RATE.as_bps() as f64);
            measured.extend(reached.map(|ratio| (strategy, size, ratio)));
        }
    }
    Shaper { plan, measured }
}

impl Shaper {
    /// Every published number and sentence with both sleep models, judged by the rule.
    pub fn reproduction(&self) -> Reproduction {
        let judge = |statement: &statements::Statement| {
            SleepModel::ALL.map(|model| statements::item(statement, model))
        };
        let items = statements::statements().iter().flat_map(judge).collect();
        Reproduction { name: NAME.to_owned(), items, beside: self.beside() }
    }

    /// Throughput on this machine's clock over the target rate, by algorithm and size.
    fn beside(&self) -> BTreeMap<String, f64> {
        let named = |(strategy, size, ratio): &(Strategy, u64, f64)| {
            (format!("own_clock_{strategy}_{size}_B_ratio"), *ratio)
        };
        self.measured.iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests;
