//! The algorithm and the network of Hoang Thanh Tam, "An Implementation of Receiver-side Real-time Congestion Control for
//! Simulations using `SimPy`", Vietnam National University, Hanoi, 2017.
//!
//! The thesis's algorithm ([`thesis`](giusto_congestion::gcc::thesis)) runs on the network that it describes, against a
//! sender of constant rate, over many seeds; and both run on a link that has a queue. See `docs/reproduce-rrtcc.md`.

mod fairness;
mod network;
mod page;
mod published;
mod queued;
mod readings;
mod session;
mod statements;

use std::collections::BTreeMap;

use self::{
    fairness::{Fairness, Shares},
    network::Bandwidths,
    queued::Comparison,
    readings::Reading,
    session::{Pair, Setting},
    statements::{STATEMENTS, fairness_items},
};
use super::{Item, Reproduction};

/// The name of this reproduction.
pub const NAME: &str = "rrtcc";

/// The rule of agreement, as `docs/reproduce-rrtcc.md` states it.
pub const RULE: &[&str] = &[
    "Network, algorithm and constants are the thesis's. Where it is silent or contradicts itself, one reading is chosen and \
     judged; the others are shown, with the verdicts that hang on them.",
    "Each seed is a run of both senders on the same capacity. Ours is the median over all seeds, its range the 5th to the 95th \
     percentile. No seed is picked: where one run is drawn, it is that of seed 1.",
    "A number agrees if our median is within 5 % of it and the number lies within our range.",
    "Words are taken as numbers, for the median: \"most of time\" at least half of the reports; \"2 to 3 times\" 2 to 3; \"much \
     more lower\" by a factor of at least 2; \"a little bit lower\" 95 to 100 %; \"approximate\" 95 to 105 %; \"quite the same (a \
     little bit higher)\" 100 to 105 %; \"small enough\" at most 10 %, where the algorithm itself begins to give way; \"becomes \
     stable\" at most half the deviation; \"stable enough\" a deviation of at most 10 % of the mean.",
    "Tables 6 to 9 are inputs and not judged. Table 3 is another author's; a cell agrees if ours is within two of its deviations.",
    "What a queue makes of the algorithm has no published counterpart and is not judged.",
];

/// How many runs are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Seeds on the thesis's network: 1 to this.
    pub seeds: u64,
    /// Seeds on a link with a queue.
    pub queued_seeds: u64,
    /// Seeds of Table 3.
    pub fairness_seeds: u64,
    /// How long each of these lasts, in seconds.
    pub fairness_s: u64,
}

impl Plan {
    /// 400 seeds, of which 20 with a queue; Table 3 ten times for five minutes.
    pub const FULL: Self = Self { seeds: 400, queued_seeds: 20, fairness_seeds: 10, fairness_s: 300 };

    /// 60 seeds, of which 3 with a queue; Table 3 once.
    pub const QUICK: Self = Self { seeds: 60, queued_seeds: 3, fairness_seeds: 1, fairness_s: 300 };

    /// How many steps a run of it tells of.
    pub const fn steps(&self) -> u64 {
        Bandwidths::TABLE_9.len() as u64 + readings::COUNT as u64 + self.queued_seeds + 1
    }
}

/// The reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct Rrtcc {
    /// How many runs were made.
    pub plan: Plan,
    /// By line of Table 9, by seed.
    runs: Vec<Vec<Pair>>,
    readings: Vec<Reading>,
    queued: Vec<Comparison>,
    fairness: Fairness,
    /// Whether everything ran.
    complete: bool,
}

/// Makes every run of `plan`; `step` is told of each step, and says whether to go on. A reproduction that was stopped judges what it
/// has: fewer lines of Table 9, fewer readings.
pub fn run(plan: Plan, mut step: impl FnMut(&str) -> bool) -> Rrtcc {
    let mut rrtcc = Rrtcc {
        plan,
        runs: Vec::new(),
        readings: Vec::new(),
        queued: Vec::new(),
        fairness: Fairness::default(),
        complete: false,
    };
    for bandwidths in Bandwidths::TABLE_9 {
        if !step(&format!("Table 9, line {}", bandwidths.number)) {
            return rrtcc;
        }
        let setting = Setting::judged(bandwidths);
        rrtcc.runs.push((1..=plan.seeds).map(|seed| Pair::run(&setting, seed)).collect());
    }
    for (name, change) in readings::READINGS {
        if !step(name) {
            return rrtcc;
        }
        rrtcc.readings.push(Reading::run(name, *change, plan.seeds));
    }
    for seed in 1..=plan.queued_seeds {
        if !step(&format!("with a queue, seed {seed}")) {
            return rrtcc;
        }
        rrtcc.queued.extend(Comparison::run(seed));
    }
    if step("Table 3") {
        rrtcc.fairness = fairness::fairness(plan.fairness_seeds, plan.fairness_s);
        rrtcc.complete = true;
    }
    rrtcc
}

impl Rrtcc {
    /// Every published number and sentence, judged by the rule.
    pub fn reproduction(&self) -> Reproduction {
        let mut items: Vec<Item> = STATEMENTS.iter().map(|statement| statement.item(&self.runs)).collect();
        items.extend(fairness_items(self.fairness.judged.as_ref()));
        Reproduction { name: NAME.to_owned(), items, beside: self.beside() }
    }

    /// What has no published counterpart.
    fn beside(&self) -> BTreeMap<String, f64> {
        let mut beside = BTreeMap::from([
            ("most_udp_loss_at_which_the_text_is_consistent_ratio".to_owned(), most_consistent_loss()),
            ("flows_by_which_table_3_divides".to_owned(), flows_of_table_3()),
        ]);
        if !self.complete {
            beside.insert("ended_early".to_owned(), 1.0);
        }
        beside.extend(queued::beside(&self.queued));
        beside.extend(self.fairness.beside.iter().flat_map(Shares::beside));
        beside
    }
}

/// UDP's goodput is at least RRTCC's, RRTCC's rate is lower by 1.6 %, and its loss at most half of UDP's: that takes
/// `7.2·(1 − p) ≥ 7.082516·(1 − p/2)`. Beyond this `p` the three sentences contradict each other, whatever the network.
fn most_consistent_loss() -> f64 {
    let ratio = published::MEAN_ESTIMATE_BPS / giusto_congestion::gcc::thesis::START.as_bps() as f64;
    (1.0 - ratio) / (1.0 - ratio / 2.0)
}

/// The number of flows that TFS is reckoned with: `TFS · 5 Mbit/s / TCP throughput`, the mean of both columns.
fn flows_of_table_3() -> f64 {
    let of = |id: &str| {
        published::TABLE_3.iter().find(|cell| cell.id == id).map_or([f64::NAN; 2], |cell| cell.published)
    };
    let ([tcp_50, tcp_100], [tfs_50, tfs_100]) = (of("tcp"), of("tfs"));
    published::TABLE_3_LINK_BPS * f64::midpoint(tfs_50 / tcp_50, tfs_100 / tcp_100)
}

#[cfg(test)]
mod tests;
