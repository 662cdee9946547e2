//! The algorithm and the network of Hoang Thanh Tam, "An Implementation of Receiver-side Real-time Congestion Control for
//! Simulations using `SimPy`", Vietnam National University, Hanoi, 2017.
//!
//! The thesis's algorithm ([`thesis`](giusto_congestion::internals::thesis)) runs on the network that it describes, beside a sender of
//! constant rate, with many seeds; and both run on a link with a queue. See `docs/reproduce/rrtcc.md`.

mod fairness;
mod inputs;
mod network;
mod page;
mod queued;
mod readings;
mod session;
mod statements;

use std::{collections::BTreeMap, ops::ControlFlow};

use self::{
    fairness::{Fairness, flows_of_table_3},
    network::{TABLE_8, TABLE_9},
    queued::Comparison,
    readings::Reading,
    session::{Pair, Setting},
    statements::{MEAN_ESTIMATE_BPS, statements},
};
use crate::item::Reproduction;

/// The name of this reproduction.
pub const NAME: &str = "rrtcc";

/// The page in Markdown: introduction, rule and findings.
const TEXT: &str = include_str!("page.md");

/// The number of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Seeds on the thesis's network: 1 to this.
    pub seeds: u64,
    /// Seeds on a link with a queue.
    pub queued_seeds: u64,
    /// Seeds of Table 3.
    pub fairness_seeds: u64,
    /// Duration of each run of Table 3, in seconds.
    pub fairness_s: u64,
}

impl Plan {
    /// 400 seeds, 20 with a queue; Table 3 with ten seeds of 300 s.
    pub const FULL: Self = Self { seeds: 400, queued_seeds: 20, fairness_seeds: 10, fairness_s: 300 };

    /// 60 seeds, 3 with a queue; Table 3 with one seed of 300 s.
    pub const QUICK: Self = Self { seeds: 60, queued_seeds: 3, fairness_seeds: 1, fairness_s: 300 };

    /// The number of steps that [`run`] reports.
    pub const fn steps(&self) -> u64 {
        TABLE_9.len() as u64 + readings::READINGS.len() as u64 + self.queued_seeds + 1
    }
}

/// The reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct Rrtcc {
    /// The number of runs.
    pub plan: Plan,
    /// By line of Table 9, by seed.
    runs: Vec<Vec<Pair>>,
    readings: Vec<Reading>,
    queued: Vec<Comparison>,
    fairness: Fairness,
    /// Whether everything ran.
    complete: bool,
}

/// Makes every run of `plan`. `step` is called before each step with its name, `watch` now and then during it; both return whether to
/// go on. A reproduction that was stopped judges the lines of Table 9 and the readings that it has.
pub fn run(plan: Plan, watch: impl Fn() -> ControlFlow<()>, mut step: impl FnMut(&str) -> bool) -> Rrtcc {
    let goes_on = || watch().is_continue();
    let mut rrtcc = Rrtcc {
        plan,
        runs: Vec::new(),
        readings: Vec::new(),
        queued: Vec::new(),
        fairness: Fairness::default(),
        complete: false,
    };
    for (bandwidths, number) in TABLE_9.into_iter().zip(1..) {
        if !step(&format!("Table 9, line {number}")) {
            return rrtcc;
        }
        let setting = Setting::judged(bandwidths);
        let pairs = pairs(&setting, plan.seeds, goes_on);
        let Some(pairs) = pairs else { return rrtcc };
        rrtcc.runs.push(pairs);
    }
    for (name, change) in readings::READINGS {
        if !step(name) {
            return rrtcc;
        }
        let mut setting = Setting::judged(TABLE_8);
        change(&mut setting);
        let Some(pairs) = pairs(&setting, plan.seeds, goes_on) else { return rrtcc };
        rrtcc.readings.push(Reading::judge(name, &pairs));
    }
    for seed in 1..=plan.queued_seeds {
        if !step(&format!("with a queue, seed {seed}")) {
            return rrtcc;
        }
        rrtcc.queued.extend(Comparison::run(seed));
    }
    if step("Table 3") {
        rrtcc.fairness = fairness::fairness(plan.fairness_seeds, plan.fairness_s, &watch);
        rrtcc.complete = goes_on();
    }
    rrtcc
}

/// The runs of each seed; `None` once `goes_on` is false.
fn pairs(setting: &Setting, seeds: u64, goes_on: impl Fn() -> bool) -> Option<Vec<Pair>> {
    (1..=seeds).map(|seed| goes_on().then(|| Pair::run(setting, seed))).collect()
}

impl Rrtcc {
    /// Every published number and sentence, judged by the rule.
    pub fn reproduction(&self) -> Reproduction {
        let items = statements().iter().map(|statement| statements::item(statement, &self.runs)).collect();
        let items = [items, self.fairness.items()].concat();
        Reproduction { name: NAME.to_owned(), items, beside: self.beside() }
    }

    /// Figures without a published counterpart.
    fn beside(&self) -> BTreeMap<String, f64> {
        let mut beside = giusto::order::map([
            ("most_udp_loss_at_which_the_text_is_consistent_ratio".to_owned(), most_consistent_loss()),
            ("flows_by_which_table_3_divides".to_owned(), flows_of_table_3()),
        ]);
        if !self.complete {
            beside.insert("ended_early".to_owned(), 1.0);
        }
        beside.extend(queued::beside(&self.queued));
        beside.extend(self.fairness.beside());
        beside
    }
}

/// The loss of UDP above which three sentences contradict each other on any network: UDP's goodput is at least RRTCC's, RRTCC's rate
/// is lower by 1.6 %, and its loss is at most half of UDP's. That takes `7.2·(1 − p) ≥ 7.082516·(1 − p/2)`.
fn most_consistent_loss() -> f64 {
    let ratio = MEAN_ESTIMATE_BPS / giusto_congestion::internals::thesis::START.as_bps() as f64;
    (1.0 - ratio) / (1.0 - ratio / 2.0)
}

#[cfg(test)]
mod tests;
