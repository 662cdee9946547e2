//! Firebind's two tables of constant-bit-rate accuracy.
//!
//! Most of the error in them is a counting rule: their receiver divides N cycles by N−1 periods. This module runs the published
//! rows with our own implementation of the published loops, reads the runs by the published formula, and judges the readings. The
//! rows are judged in virtual time, on a machine that is always on time; the same runs on this machine's clock stand beside them.
//! It also gives the rate that was actually kept. See `docs/reproduce/firebind.md`.

mod page;
mod published;

use std::collections::BTreeMap;

use giusto_pace::{Bounded, CyclePlan, CycleRule, HeaderLayer, IpVersion, Limits, Strategy, StrategyOptions};
use giusto_sim::machine::{Data, Machine};
use giusto_units::{DataSize, TimeDelta, Timestamp};

pub use published::{PUBLISHED, PUBLISHED_DURATION, PUBLISHED_REPEATS, Row, link_efficiency};

use crate::item::{Item, Reproduction, Rule, Spread, Statement};
use giusto::{
    measured::{
        median::median,
        plan::StreamPlan,
        result::{RunResult, rate_error_ppm},
    },
    view::format::{ppm, rate, time_us},
};

/// The name of this reproduction.
pub const NAME: &str = "firebind";

/// The page in Markdown: introduction, claim, rule and findings.
const TEXT: &str = include_str!("page.md");

/// The bound on the difference between the durations of our stream and theirs.
const TOLERANCE: TimeDelta = TimeDelta::from_millis(1);

/// The published loops spin: on a quiet machine they have a whole core. With less the machine was busy.
const QUIET_CPU_RATIO: f64 = 0.95;

/// "Close match".
const CLOSE_MATCH_PPM: f64 = 1000.0;

/// "Around 94 %".
const AROUND_RATIO: f64 = 0.01;

/// The published efficiency of a Gigabit link: "around 94%".
const PUBLISHED_EFFICIENCY: f64 = 0.94;

/// Duration and number of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Duration of each run.
    pub duration: TimeDelta,
    /// Runs of each row, at least one; the figure is their median.
    pub repeats: u32,
}

impl Plan {
    /// As published: 3 runs of 10 s for each of the 12 rows, six minutes in all.
    pub const FULL: Self = Self { duration: PUBLISHED_DURATION, repeats: PUBLISHED_REPEATS };

    /// One run of 2 s for each row, half a minute in all.
    pub const QUICK: Self = Self { duration: TimeDelta::from_seconds(2), repeats: 1 };

    /// The number of runs.
    pub const fn runs(&self) -> usize {
        PUBLISHED.len() * self.repeats as usize
    }

    /// The bound on the difference between our reading and the published one, in ppm.
    pub fn bound_ppm(&self) -> f64 {
        TOLERANCE.as_nanos() as f64 / self.duration.as_nanos().max(1) as f64 * 1e6
    }
}

/// All rows and their runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Firebind {
    /// How it was measured.
    pub plan: Plan,
    /// One outcome for each published row, in the published order.
    pub rows: Vec<Outcome>,
}

/// A row and its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The published row.
    pub row: Row,
    /// The reading by their formula in virtual time, in bit/s; `None` for rows that their link could not carry.
    pub virtual_bps: Option<f64>,
    /// Our runs; none if the reproduction was interrupted before.
    pub runs: Vec<RunResult>,
}

/// Makes every run of `plan` with `measure`, one after the other. The first run that yields `None` ends it; rows that were not
/// measured say so.
pub fn run(plan: Plan, mut measure: impl FnMut(&StreamPlan) -> Option<RunResult>) -> Firebind {
    let mut rows = PUBLISHED.map(|row| Outcome {
        row,
        virtual_bps: row.fits_link().then(|| row.virtual_bps()).flatten(),
        runs: Vec::new(),
    });
    'rows: for outcome in &mut rows {
        for _ in 0..plan.repeats.max(1) {
            let Some(result) = measure(&outcome.row.stream_plan(plan.duration)) else { break 'rows };
            outcome.runs.push(result);
        }
    }
    Firebind { plan, rows: rows.into() }
}

impl Firebind {
    /// Every published figure and statement, judged by the rule.
    pub fn reproduction(&self) -> Reproduction {
        let mut items: Vec<Item> = self.rows.iter().map(|outcome| self.row_item(outcome)).collect();
        items.push(self.close_match());
        items.extend([1200, 200].map(efficiency));
        Reproduction { name: NAME.to_owned(), items, ..Reproduction::default() }
    }

    fn row_item(&self, outcome: &Outcome) -> Item {
        let row = &outcome.row;
        let what = format!(
            "{}, {}, {} B, {} per cycle",
            row.published_name(),
            row.rate,
            row.size.as_bytes(),
            row.packets_per_cycle
        );
        let rule = Rule::Near(Plan::FULL.bound_ppm() / 1e6);
        let statement = Statement::ratio(row.id(), what, row.published_bps(), rule, ()).in_unit("bit/s");
        let statement = Statement { comparable: row.fits_link(), ..statement };
        // The other rows measured a link and a processor, which virtual time has not.
        let ours = if row.fits_link() {
            Spread::range(outcome.virtual_bps)
        } else {
            Spread::range(outcome.readings(self.plan.duration))
        };
        let item = statement.judge(ours);
        let why = (!item.does_agree()).then(|| why(outcome));
        Item { why, figures: outcome.figures(self.plan), ..item }
    }

    /// What the runs of a row on this machine's clock say: `agrees` or `differs` by the rule for their length, `not judged` on a busy
    /// machine, `not comparable` for rows above the link's rate, `not measured` without a run.
    pub fn measured_verdict(&self, outcome: &Outcome) -> &'static str {
        let readings = Spread::range(outcome.readings(self.plan.duration));
        match readings {
            _ if !outcome.row.fits_link() => "not comparable",
            None => "not measured",
            Some(_) if outcome.on_busy_machine() => "not judged",
            Some(ours) => {
                let rule = Rule::Near(self.plan.bound_ppm() / 1e6);
                if rule.agrees(outcome.row.published_bps(), ours) { "agrees" } else { "differs" }
            }
        }
    }

    /// Whether the machine was too busy to judge a comparable run: the least share of a core that such a sender had.
    pub fn busy_cpu_ratio(&self) -> Option<f64> {
        let busy = self.comparable().filter(|outcome| outcome.on_busy_machine());
        busy.filter_map(Outcome::sender_cpu_ratio).reduce(f64::min)
    }

    /// The largest difference between both strategies, over the comparable rows.
    fn close_match(&self) -> Item {
        let apart = |reading: &dyn Fn(&Outcome) -> Option<f64>| {
            let of = |strategy| self.comparable().filter(move |outcome| outcome.row.strategy == strategy);
            let pairs = of(Strategy::SendSleep).zip(of(Strategy::SendCompare));
            let each: Option<Vec<f64>> = pairs
                .map(|(sleep, compare)| rate_error_ppm(reading(sleep)?, reading(compare)?).map(f64::abs))
                .collect();
            each?.into_iter().reduce(f64::max)
        };
        let published = apart(&Outcome::published).unwrap_or_default();
        let ours = apart(&|outcome| outcome.virtual_bps);
        let what = "\"Close match\" of both strategies, up to 100 Mbit/s";
        Statement::ratio("strategies-match", what, published, Rule::AtMost(CLOSE_MATCH_PPM), ())
            .in_unit("ppm")
            .because("Send and Sleep loses time in each cycle here.")
            .judge(Spread::range(ours))
    }

    /// The rows that their link can carry.
    fn comparable(&self) -> impl Iterator<Item = &Outcome> {
        self.rows.iter().filter(|outcome| outcome.row.fits_link())
    }
}

fn why(outcome: &Outcome) -> String {
    let row = &outcome.row;
    if !row.fits_link() {
        return format!(
            "Limited by their Gigabit link, which carries at most {} of payload in datagrams of {} B.",
            rate(row.link_ceiling_bps()),
            row.size.as_bytes(),
        );
    }
    let (Some(theirs), Some(ours)) = (outcome.published_rest_ppm(), outcome.virtual_rest_ppm()) else {
        return "Not measured.".to_owned();
    };
    let mut reasons = vec![format!(
        "Relative to a sender on time theirs reads {} ppm, ours {} ppm.",
        ppm(theirs),
        ppm(ours)
    )];
    if row.strategy == Strategy::SendSleep {
        let [theirs, ours] = [theirs, ours].map(|rest| time_us(-rest * row.period().as_nanos() as f64 / 1e9));
        reasons.push(format!(
            "This strategy does not recover what its loop costs: {theirs} in each cycle there, {ours} in virtual time."
        ));
    }
    reasons.join(" ")
}

/// The published efficiency of the link, compared with arithmetic.
fn efficiency(bytes: u64) -> Item {
    let id = format!("link-efficiency-{bytes}");
    let what = format!("Efficiency of Gigabit Ethernet \"around 94%\", {bytes} B");
    Statement::ratio(id, what, PUBLISHED_EFFICIENCY, Rule::Within(AROUND_RATIO), ())
        .because("True of large datagrams; of 200 B datagrams 75.2 % are payload.")
        .judge(Spread::range([link_efficiency(DataSize::from_bytes(bytes))]))
}

impl Outcome {
    /// The published figure, in bit/s.
    #[expect(clippy::unnecessary_wraps, reason = "one of several figures that may be unknown")]
    fn published(&self) -> Option<f64> {
        Some(self.row.published_bps())
    }

    /// Our runs by their formula, scaled to the published duration, in bit/s.
    pub fn readings(&self, duration: TimeDelta) -> Vec<f64> {
        let factor = self.predicted_bps().zip(self.row.predicted_bps(duration));
        // A reading that measures a link or a processor does not depend on the number of cycles.
        let factor =
            factor.filter(|_| self.row.fits_link()).map_or(1.0, |(published, ours)| published / ours);
        let readings = self.runs.iter().filter_map(|run| run.fencepost_rate_bps);
        readings.map(|reading| reading * factor).collect()
    }

    /// The reading by their formula of a sender on time, in bit/s.
    pub fn predicted_bps(&self) -> Option<f64> {
        self.row.predicted_bps(PUBLISHED_DURATION)
    }

    /// The difference between the published figure and the prediction, in ppm.
    pub fn published_rest_ppm(&self) -> Option<f64> {
        rate_error_ppm(self.published()?, self.predicted_bps()?)
    }

    /// The difference between our reading in virtual time and the prediction, in ppm.
    fn virtual_rest_ppm(&self) -> Option<f64> {
        rate_error_ppm(self.virtual_bps?, self.predicted_bps()?)
    }

    /// The smallest share of a core that the sender of a run had.
    pub fn sender_cpu_ratio(&self) -> Option<f64> {
        self.runs.iter().filter_map(|run| run.sender_cpu_ratio).reduce(f64::min)
    }

    /// Whether other threads took the processor from the sender, which spins.
    fn on_busy_machine(&self) -> bool {
        self.sender_cpu_ratio().is_some_and(|ratio| ratio < QUIET_CPU_RATIO)
    }

    /// The difference between our measured reading and the prediction, in ppm.
    pub fn rest_ppm(&self, duration: TimeDelta) -> Option<f64> {
        rate_error_ppm(median(self.readings(duration))?, self.predicted_bps()?)
    }

    /// The median of our rates, N−1 cycles over N−1 periods, in bit/s: the rate that the sender kept.
    pub fn rx_rate_bps(&self) -> Option<f64> {
        median(self.runs.iter().filter_map(|run| run.rx_rate_bps))
    }

    /// The error of a rate against the target rate, in ppm.
    fn error_ppm(&self, bps: f64) -> Option<f64> {
        rate_error_ppm(bps, self.row.rate.as_bps() as f64)
    }

    fn figures(&self, plan: Plan) -> BTreeMap<String, f64> {
        let explained = |value: Option<f64>| value.filter(|_| self.row.fits_link());
        let rate = self.rx_rate_bps();
        let figures = [
            ("bound_ppm", explained(Some(Plan::FULL.bound_ppm()))),
            ("predicted_bps", explained(self.predicted_bps())),
            ("published_rest_ppm", explained(self.published_rest_ppm())),
            ("ours_rest_ppm", explained(self.virtual_rest_ppm())),
            ("measured_bps", median(self.readings(plan.duration))),
            ("measured_bound_ppm", explained(Some(plan.bound_ppm()))),
            ("measured_rest_ppm", explained(self.rest_ppm(plan.duration))),
            ("sender_cpu_ratio", self.sender_cpu_ratio()),
            ("ours_rx_rate_bps", rate),
            ("ours_error_ppm", rate.and_then(|bps| self.error_ppm(bps))),
            ("link_ceiling_bps", Some(self.row.link_ceiling_bps())),
        ];
        giusto::order::map(figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))))
    }
}

impl Row {
    /// The reading by their formula, in bit/s, of the published loop in virtual time: for the published duration on a machine whose
    /// sends and sleeps cost nothing, and which looks at the clock every 10 µs. It shows the counting rule alone.
    pub fn virtual_bps(&self) -> Option<f64> {
        let rule = CycleRule::Given(self.packets_per_cycle);
        let plan = CyclePlan::new(self.rate, self.size, HeaderLayer::Payload, IpVersion::V4, rule).ok()?;
        let schedule = self.strategy.build(&plan, StrategyOptions::default()).ok()?;
        let limits = Limits::default().with_duration(PUBLISHED_DURATION);
        let mut schedule = Bounded::new(schedule, self.size, limits);
        let data = Data::File { packets: u64::MAX };
        let machine = Machine { look_cost: TimeDelta::from_micros(10), ..Machine::default() };
        let record = machine.run(&mut schedule, &data, self.size, Timestamp::MAX);
        let (first, last) = (record.departures.first()?, record.departures.last()?);
        let bits = record.departures.len() as f64 * self.size.as_bits() as f64;
        let seconds = (last.at - first.at).as_seconds();
        (seconds > 0.0).then(|| bits / seconds)
    }
}

#[cfg(test)]
mod tests;
