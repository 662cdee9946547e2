//! The traffic shaper of Chiu, Kadansky, Provino and Wesley, "Experiences in Programming a Traffic Shaper", Sun Microsystems
//! Laboratories, SMLI TR-99-77, 1999.
//!
//! The paper's algorithms, in our implementation, run on the machine that it describes, in virtual time: a clock in steps of
//! 1 ms, sleeps in steps of 10 ms, sends of 2 ms. Beside it the same algorithms run on this machine's own clock. See
//! `docs/reproduce-shaper.md`.

mod page;
mod simulated;
mod statements;

use std::collections::BTreeMap;

use anyhow::Context;
use giusto_pace::Strategy;
use giusto_sim::machine::SleepModel;
use giusto_units::{DataRate, DataSize, TimeDelta};

use super::{Item, Reproduction};
use giusto::measured::result::RunResult;

/// The name of this reproduction.
pub const NAME: &str = "shaper";

/// The rule of agreement, as `docs/reproduce-shaper.md` states it.
pub const RULE: &[&str] = &[
    "The machine is the paper's: a clock in steps of 1 ms, sleeps in steps of 10 ms, a send of 2 ms. Its words allow two \
     readings of the sleep; each statement is judged with both, and neither is fitted to a number.",
    "A number agrees if ours is within 5 % of it. At 500 B that is 0.8 ms of each of 50 sleeps, less than a step of the clock.",
    "\"Close to ideal\" means within 5 % of min(S/T, R), and \"large discrepancy\" at least 10 % below it, at every point of \
     the range that the sentence names, in steps of 50 B (20 B up to 200 B) or 25,000 B/s; \"constant\" means within 5 % of \
     the median of the range. What is judged is the share of points, and it has to be all of them.",
    "\"Hardly any gap\" means at most 1 % of the ideal gap of 500 ms.",
    "Figure 7 has 100 packets, as published. For the other figures no number is given; ours have 1000, so that the first and \
     the last cycle hardly count.",
    "DT0 as printed is not the algorithm that the text describes: what it yields is shown and never agrees. What this \
     machine's own clock yields has no published counterpart and is not judged.",
];

/// The algorithms that run on this machine's own clock.
pub const STRATEGIES: [Strategy; 5] =
    [Strategy::Dt0, Strategy::Dt1, Strategy::Dt2, Strategy::At0, Strategy::Grid];

/// What runs on this machine's own clock; the rest is virtual and takes no time to speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How long each run lasts.
    pub duration: TimeDelta,
    /// Packet sizes in bytes, each with every one of [`STRATEGIES`].
    pub sizes: &'static [u64],
}

impl Plan {
    /// Nine sizes, a second each: a minute.
    pub const FULL: Self = Self {
        duration: TimeDelta::from_seconds(1),
        sizes: &[100, 200, 300, 400, 600, 800, 1000, 1200, 1400],
    };

    /// Three sizes, 300 ms each: some ten seconds.
    pub const QUICK: Self = Self { duration: TimeDelta::from_millis(300), sizes: &[200, 600, 1200] };

    /// The rate of all of these runs: 125 times the paper's, for this machine's sleeps are finer by about as much.
    pub const RATE: DataRate = DataRate::from_bps(100_000_000);

    /// How many runs there are.
    pub const fn runs(&self) -> usize {
        self.sizes.len() * STRATEGIES.len()
    }
}

/// One run to make on this machine's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunConfig {
    /// The algorithm.
    pub strategy: Strategy,
    /// UDP payload.
    pub size: DataSize,
    /// Payload rate.
    pub rate: DataRate,
    /// How long to send.
    pub duration: TimeDelta,
}

/// The reproduction, and what was measured beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shaper {
    /// What was to be measured.
    pub plan: Plan,
    /// What was measured on this machine's own clock, in the order of the runs; fewer if it was interrupted.
    pub measured: Vec<(RunConfig, RunResult)>,
}

/// Makes every run of `plan` by `measure`, one after the other. A run whose `ended` is `interrupted` is left out and is the
/// last one; what is virtual does not depend on them.
///
/// # Errors
///
/// The first error of `measure`, with the run that it happened in.
pub fn run(
    plan: Plan,
    mut measure: impl FnMut(&RunConfig) -> anyhow::Result<RunResult>,
) -> anyhow::Result<Shaper> {
    let mut measured = Vec::with_capacity(plan.runs());
    let all =
        STRATEGIES.into_iter().flat_map(|strategy| plan.sizes.iter().map(move |size| (strategy, *size)));
    for (strategy, size) in all {
        let config = RunConfig {
            strategy,
            size: DataSize::from_bytes(size),
            rate: Plan::RATE,
            duration: plan.duration,
        };
        let result = measure(&config).with_context(|| format!("{NAME}: {strategy}, {size} B"))?;
        if result.ended.as_deref() == Some("interrupted") {
            break;
        }
        measured.push((config, result));
    }
    Ok(Shaper { plan, measured })
}

impl Shaper {
    /// Every published number and sentence with each of the two sleep models, judged by the rule.
    pub fn reproduction(&self) -> Reproduction {
        let items = statements::STATEMENTS
            .iter()
            .flat_map(|statement| SleepModel::ALL.map(|model| statement.item(model)))
            .collect::<Vec<Item>>();
        Reproduction { name: NAME.to_owned(), items, beside: self.beside() }
    }

    /// Throughput on this machine's own clock against the rate asked for, by algorithm and size.
    fn beside(&self) -> BTreeMap<String, f64> {
        self.measured
            .iter()
            .filter_map(|(config, result)| {
                let name = format!("own_clock_{}_{}_B_ratio", config.strategy, config.size.as_bytes());
                Some((name, reached_ratio(config, result)?))
            })
            .collect()
    }
}

/// What the sender reached of the rate asked for.
fn reached_ratio(config: &RunConfig, result: &RunResult) -> Option<f64> {
    Some(result.tx_rate_bps? / config.rate.as_bps() as f64)
}

#[cfg(test)]
mod tests;
