//! Firebind's two tables of constant-bit-rate accuracy.
//!
//! Most of the error that they show is a counting rule: their receiver divides N cycles by N−1 periods. This module runs
//! the published rows with our own implementation of the published loops, reads the runs by the published formula, and says
//! whether the readings agree; beside them stands the rate as it really was. See `docs/reproduce-firebind.md`.

mod page;
mod published;

use std::collections::BTreeMap;

use anyhow::Context;
use giusto_units::TimeDelta;

pub use published::{PUBLISHED, PUBLISHED_DURATION, PUBLISHED_REPEATS, Row, Strategy, link_efficiency};

use super::{Item, Reproduction};
use giusto::{
    measured::result::{RunResult, median, median_of, rate_error_ppm},
    view::format::{count, percent, ppm, rate, short, time_us},
};

/// The name of this reproduction.
pub const NAME: &str = "firebind";

/// The rule of agreement, as `docs/reproduce-firebind.md` states it.
pub const RULE: &[&str] = &[
    "A row is comparable if a Gigabit link can carry its rate as payload. The other rows measured the link, which a \
     loopback run does not have: they never count as agreeing.",
    "A comparable row agrees if our reading, by their formula, is within 100 ppm of the published one. That is 1 ms in a \
     run of 10 s: less than the shortest period of a comparable row (1.136 ms), so that counting one \
     period more or less always shows, and no less than the last published digit at 10 kbit/s (98 ppm).",
    "A shorter run counts fewer cycles, so its reading is compared with the prediction for its own length, the rest is \
     carried to the published length, and the bound stays 1 ms: 500 ppm in a run of 2 s.",
    "\"Close match\" of the two strategies means that their readings differ by at most 0.1 % in every comparable row. \
     \"Around 94 %\" means within one point of the arithmetic.",
];

/// How far our stream may last longer or shorter than theirs, for the readings to agree.
const TOLERANCE: TimeDelta = TimeDelta::from_millis(1);

/// What "close match" is taken to mean, in ppm.
const CLOSE_MATCH_PPM: f64 = 1000.0;

/// What "around 94 %" is taken to mean.
const AROUND_RATIO: f64 = 0.01;

/// The published efficiency of a Gigabit link: "around 94%".
const PUBLISHED_EFFICIENCY: f64 = 0.94;

/// How long, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How long each run lasts.
    pub duration: TimeDelta,
    /// How many runs each figure is the middle one of, at least one.
    pub repeats: u32,
}

impl Plan {
    /// As published: 3 runs of 10 s for each of the 12 rows, six minutes in all.
    pub const FULL: Self = Self { duration: PUBLISHED_DURATION, repeats: PUBLISHED_REPEATS };

    /// One run of 2 s for each row, half a minute in all.
    pub const QUICK: Self = Self { duration: TimeDelta::from_seconds(2), repeats: 1 };

    /// How far a reading may be off the published one, in ppm.
    pub fn bound_ppm(&self) -> f64 {
        TOLERANCE.as_nanos() as f64 / self.duration.as_nanos().max(1) as f64 * 1e6
    }
}

/// One run to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowConfig {
    /// The published row: strategy, rate, size, packets per cycle.
    pub row: Row,
    /// How long to send: cycles begin while less than this has passed.
    pub duration: TimeDelta,
    /// Whether waits are spun rather than slept. Always so: it was the published program's default.
    pub spin: bool,
    /// Which of the repeated runs this is, from 1.
    pub repeat: u32,
    /// How many there will be.
    pub repeats: u32,
}

/// All rows, and what was measured of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Firebind {
    /// How it was measured.
    pub plan: Plan,
    /// One outcome for each published row, in the published order.
    pub rows: Vec<Outcome>,
}

/// A row and what was measured of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The published row.
    pub row: Row,
    /// Our runs; none if the reproduction was interrupted before.
    pub runs: Vec<RunResult>,
}

/// Makes every run of `plan` by `measure`, one after the other.
///
/// A run whose `ended` is `interrupted` is left out and is the last one; rows that were not measured say so.
///
/// # Errors
///
/// The first error of `measure`, with the row and the run that it happened in.
pub fn run(
    plan: Plan,
    mut measure: impl FnMut(&RowConfig) -> anyhow::Result<RunResult>,
) -> anyhow::Result<Firebind> {
    let mut rows: Vec<Outcome> =
        PUBLISHED.iter().map(|row| Outcome { row: *row, runs: Vec::new() }).collect();
    let repeats = plan.repeats.max(1);
    'rows: for outcome in &mut rows {
        for repeat in 1..=repeats {
            let config = RowConfig { row: outcome.row, duration: plan.duration, spin: true, repeat, repeats };
            let result = measure(&config)
                .with_context(|| format!("{NAME}: row {}, run {repeat} of {repeats}", outcome.row.id()))?;
            if result.ended.as_deref() == Some("interrupted") {
                break 'rows;
            }
            outcome.runs.push(result);
        }
    }
    Ok(Firebind { plan, rows })
}

impl Firebind {
    /// Every published figure and statement, judged by the rule.
    pub fn reproduction(&self) -> Reproduction {
        let mut items: Vec<Item> = self.rows.iter().map(|outcome| self.row_item(outcome)).collect();
        items.push(self.close_match());
        items.extend([1200, 200].map(|bytes| efficiency(giusto_units::DataSize::from_bytes(bytes))));
        Reproduction { name: NAME.to_owned(), items, ..Reproduction::default() }
    }

    fn row_item(&self, outcome: &Outcome) -> Item {
        let row = &outcome.row;
        let readings = outcome.readings(self.plan.duration);
        let ours = median(readings.iter().copied());
        let difference = ours.and_then(|ours| rate_error_ppm(ours, row.published.as_bps() as f64));
        let comparable = row.fits_link();
        let agrees = comparable && difference.is_some_and(|ppm| ppm.abs() <= self.plan.bound_ppm());
        Item {
            id: row.id(),
            what: format!(
                "{}, {}, {} B, {} per cycle",
                row.strategy.published_name(),
                row.rate,
                row.size.as_bytes(),
                row.packets_per_cycle
            ),
            unit: "bit/s".to_owned(),
            published: row.published.as_bps() as f64,
            ours,
            ours_low: readings.iter().copied().reduce(f64::min),
            ours_high: readings.iter().copied().reduce(f64::max),
            agrees,
            why: (!agrees).then(|| self.why(outcome)),
            comparable,
            figures: outcome.figures(self.plan),
        }
    }

    fn why(&self, outcome: &Outcome) -> String {
        let row = &outcome.row;
        if !row.fits_link() {
            let ceiling = row.link_ceiling_bps();
            return format!(
                "It needs their Gigabit link, which carries at most {} of payload in {} B datagrams: the published figure \
                 is {} of that. Over loopback there is no such link.",
                rate(ceiling),
                row.size.as_bytes(),
                percent(row.published.as_bps() as f64 / ceiling)
            );
        }
        let run = median_of(&outcome.runs);
        let (Some(theirs), Some(ours)) = (outcome.published_rest_ppm(), outcome.rest_ppm(self.plan.duration))
        else {
            return "Not measured.".to_owned();
        };
        let mut reasons = vec![format!(
            "Against a sender on time theirs read {} ppm, ours {} ppm.",
            ppm(theirs),
            ppm(ours)
        )];
        if let Some(loss) = run.loss().filter(|&loss| loss > 0.0) {
            reasons.push(format!("On the way {} of our datagrams were lost.", percent(loss)));
        }
        let (due, begun) = (row.cycles_in(self.plan.duration), outcome.cycles());
        if let Some(begun) = begun.filter(|&begun| begun != due) {
            reasons.push(format!("{} cycles were due, {} arrived.", count(due), count(begun)));
        }
        if row.strategy == Strategy::SendSleep {
            let lost = |rest: f64| time_us(-rest * row.period().as_nanos() as f64 / 1e9);
            reasons.push(format!(
                "This strategy begins each cycle anew and never makes good what its loop costs: {} in each cycle there, {} \
                 here. That is a property of the host.",
                lost(theirs),
                lost(ours)
            ));
        }
        reasons.join(" ")
    }

    fn close_match(&self) -> Item {
        let apart = |reading: fn(&Outcome, TimeDelta) -> Option<f64>| {
            let of = |strategy| {
                self.rows
                    .iter()
                    .filter(move |outcome| outcome.row.strategy == strategy && outcome.row.fits_link())
            };
            let pairs = of(Strategy::SendSleep).zip(of(Strategy::SendCompare));
            let each: Option<Vec<f64>> = pairs
                .map(|(sleep, compare)| {
                    let (sleep, compare) =
                        (reading(sleep, self.plan.duration)?, reading(compare, self.plan.duration)?);
                    rate_error_ppm(sleep, compare).map(f64::abs)
                })
                .collect();
            each?.into_iter().reduce(f64::max)
        };
        let published = apart(|outcome, _| Some(outcome.row.published.as_bps() as f64)).unwrap_or_default();
        let ours = apart(|outcome, duration| median(outcome.readings(duration)));
        let agrees = ours.is_some_and(|ours| ours <= CLOSE_MATCH_PPM);
        let why = match ours {
            Some(ours) => format!("Here they are up to {} ppm apart.", short(ours)),
            None => "Not measured.".to_owned(),
        };
        Item {
            id: "strategies-match".to_owned(),
            what: "\"Close match\" of the two strategies: how far apart they read, at most, up to 100 Mbit/s"
                .to_owned(),
            unit: "ppm".to_owned(),
            published,
            ours,
            ours_low: None,
            ours_high: None,
            agrees,
            why: (!agrees).then_some(why),
            comparable: true,
            figures: BTreeMap::from([("bound_ppm".to_owned(), CLOSE_MATCH_PPM)]),
        }
    }
}

/// The published efficiency of the link against arithmetic; nothing is measured for it.
fn efficiency(size: giusto_units::DataSize) -> Item {
    let ours = link_efficiency(size);
    let agrees = (ours - PUBLISHED_EFFICIENCY).abs() <= AROUND_RATIO;
    let why = format!(
        "It holds for large datagrams. Of {} B datagrams {} of the link are payload, the rest is headers: that limit, not \
         the sender, is what their 1 Gbit/s rows with {} B show.",
        size.as_bytes(),
        percent(ours),
        size.as_bytes()
    );
    Item {
        id: format!("link-efficiency-{}", size.as_bytes()),
        what: format!(
            "\"The maximum efficiency of a Gigabit Ethernet link is around 94%\", with {} B",
            size.as_bytes()
        ),
        unit: "ratio".to_owned(),
        published: PUBLISHED_EFFICIENCY,
        ours: Some(ours),
        ours_low: None,
        ours_high: None,
        agrees,
        why: (!agrees).then_some(why),
        comparable: true,
        figures: BTreeMap::from([("bound_ratio".to_owned(), AROUND_RATIO)]),
    }
}

impl Outcome {
    /// Our runs by their formula, carried to the published length, in bit/s.
    pub fn readings(&self, duration: TimeDelta) -> Vec<f64> {
        let factor = self.predicted_bps().zip(self.row.predicted_bps(duration));
        let factor = factor.map_or(1.0, |(published, ours)| published / ours);
        // What measures a link or a processor does not depend on how many cycles were counted.
        let factor = if self.row.fits_link() { factor } else { 1.0 };
        let readings = self.runs.iter().filter_map(|run| run.fencepost_rate_bps);
        readings.map(|reading| reading * factor).collect()
    }

    /// What their formula reads of a sender on time, in bit/s.
    pub fn predicted_bps(&self) -> Option<f64> {
        self.row.predicted_bps(PUBLISHED_DURATION)
    }

    /// What the prediction leaves unexplained of the published figure, in ppm.
    pub fn published_rest_ppm(&self) -> Option<f64> {
        rate_error_ppm(self.row.published.as_bps() as f64, self.predicted_bps()?)
    }

    /// What the prediction leaves unexplained of our reading, in ppm.
    pub fn rest_ppm(&self, duration: TimeDelta) -> Option<f64> {
        rate_error_ppm(median(self.readings(duration))?, self.predicted_bps()?)
    }

    /// Our middle rate by the (N−1) rule, in bit/s: N−1 cycles over N−1 periods, what the sender really kept.
    pub fn rx_rate_bps(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.rx_rate_bps))
    }

    /// The cycles that arrived in our middle run.
    fn cycles(&self) -> Option<u64> {
        self.cycles_of(&median_of(&self.runs))
    }

    fn cycles_of(&self, run: &RunResult) -> Option<u64> {
        Some(run.received_packets?.div_ceil(u64::from(self.row.packets_per_cycle).max(1)))
    }

    fn figures(&self, plan: Plan) -> BTreeMap<String, f64> {
        let target = self.row.rate.as_bps() as f64;
        let explained = |value: Option<f64>| value.filter(|_| self.row.fits_link());
        let rate = self.rx_rate_bps();
        [
            ("bound_ppm", explained(Some(plan.bound_ppm()))),
            ("predicted_bps", explained(self.predicted_bps())),
            ("published_rest_ppm", explained(self.published_rest_ppm())),
            ("ours_rest_ppm", explained(self.rest_ppm(plan.duration))),
            ("ours_rx_rate_bps", rate),
            ("ours_error_ppm", rate.and_then(|bps| rate_error_ppm(bps, target))),
            ("link_ceiling_bps", Some(self.row.link_ceiling_bps())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }
}

#[cfg(test)]
mod tests;
