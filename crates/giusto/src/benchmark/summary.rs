//! What the runs of a benchmark say about each controller.

use std::collections::BTreeMap;

use giusto_sim::random::{self, Random};
use giusto_units::math;
use rand::RngExt;
use serde::Serialize;

use super::{
    family::Family,
    judge::{POOR, Utility, quantile},
    reference::Reference,
    result::{BenchmarkResult, RunRow},
    scores,
};

/// Number of runs that are named as the worst of a controller.
const WORST: usize = 10;

/// Resamples of the bootstrap, and the confidence level of its intervals.
const RESAMPLES: usize = 1000;
const CONFIDENCE: f64 = 0.95;

/// A benchmark in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Version of the benchmark.
    pub version: String,
    /// Seed.
    pub seed: String,
    /// Number of scenarios.
    pub scenarios: u64,
    /// Number of runs that are missing, because the benchmark was ended early or this is a shard.
    pub missing_runs: u64,
    /// Each controller.
    pub controllers: Vec<ControllerSummary>,
    /// What was attainable: bounds and constant rates, which are no controllers.
    pub references: Vec<ReferenceSummary>,
    /// Each pair of controllers.
    pub pairs: Vec<Pair>,
}

/// One controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControllerSummary {
    /// Its name.
    pub name: String,
    /// Over all runs.
    pub all: FamilySummary,
    /// Each family by its name.
    pub families: BTreeMap<&'static str, FamilySummary>,
    /// The goals of a controller, as far as they can be read from these runs.
    pub goals: BTreeMap<&'static str, Goal>,
    /// The runs in which it was furthest behind the best controller, the worst first.
    pub worst: Vec<WorstRun>,
}

/// One reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReferenceSummary {
    /// Its name.
    pub name: String,
    /// Over all runs.
    pub all: FamilySummary,
    /// Each family by its name.
    pub families: BTreeMap<&'static str, FamilySummary>,
}

/// The runs of a controller in one family. Without a suffix: medians.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FamilySummary {
    /// Number of runs.
    pub runs: u64,
    /// Median use of the fair capacity.
    pub utilisation_ratio: f64,
    /// Median over runs of the median frame delay.
    pub frame_delay_p50_ms: f64,
    /// Median over runs of the 95th percentile of the frame delay.
    pub frame_delay_p95_ms: f64,
    /// Median over runs of its 99th percentile.
    pub frame_delay_p99_ms: f64,
    /// Median over runs of the 95th percentile of the queueing delay.
    pub queue_delay_p95_ms: f64,
    /// Median share of packets lost.
    pub loss_ratio: f64,
    /// Median share of time in freezes.
    pub freeze_ratio: f64,
    /// Median utility.
    pub utility: f64,
    /// Mean utility.
    pub utility_mean: f64,
    /// Mean utility over that of `bound:causal` in the same scenarios, if it was judged in any.
    pub bound_ratio: Option<f64>,
    /// Share of the runs with nothing competing whose use is below 0.4.
    pub collapsed_ratio: f64,
    /// Share of the runs whose utility is below 0.2.
    pub poor_ratio: f64,
    /// Mean network score of the `MMSys` 2021 challenge of bandwidth estimation, 0 to 1.
    pub challenge_score: f64,
    /// Kleinrock's power, use over the 95th percentile of the frame delay in tenths of a second: geometric mean.
    pub power: f64,
    /// Mean share of the frames that were skipped, never whole, or late.
    pub missed_frames_ratio: f64,
    /// Of these: mean share of the frames that the sender skipped.
    pub skipped_ratio: f64,
    /// Of these: mean share that never became whole.
    pub missing_ratio: f64,
    /// Of these: mean share that was late.
    pub late_ratio: f64,
    /// Mean share of the frames that became whole because of a repair.
    pub repaired_ratio: f64,
    /// Median of the changes of the target, in octaves per minute.
    pub target_octaves_per_minute: f64,
    /// Medians of the parts of the utility; the total is [`utility`](Self::utility).
    pub parts: Utility,
    /// 10th and 90th percentiles over the runs.
    pub spread: Spread,
}

/// The 10th and the 90th percentile of figures over runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Use.
    pub utilisation_ratio: [f64; 2],
    /// 95th percentile of the frame delay.
    pub frame_delay_p95_ms: [f64; 2],
    /// 95th percentile of the queueing delay.
    pub queue_delay_p95_ms: [f64; 2],
    /// Utility.
    pub utility: [f64; 2],
}

/// A figure over those runs that a goal is about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goal {
    /// The figure.
    pub value: f64,
    /// Number of runs.
    pub runs: u64,
}

/// Two controllers on the same scenarios.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// One of them.
    pub a: String,
    /// The other one.
    pub b: String,
    /// Mean of the utility of `a` less that of `b`.
    pub utility_difference: f64,
    /// Its 95 % confidence interval: percentile bootstrap over the scenarios.
    pub interval: [f64; 2],
    /// Share of the scenarios in which `a` has the higher utility; equal ones count half.
    pub wins_ratio: f64,
}

/// A run in which a controller was far behind the best one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstRun {
    /// Number of the scenario.
    pub scenario: u64,
    /// Its family.
    pub family: Family,
    /// Its utility.
    pub utility: f64,
    /// The highest utility on this scenario.
    pub best_utility: f64,
    /// Use.
    pub utilisation_ratio: f64,
    /// 95th percentile of the frame delay.
    pub frame_delay_p95_ms: f64,
    /// The command that repeats it.
    pub command: String,
}

/// The summary of a result, complete or not.
pub fn summary(result: &BenchmarkResult) -> Summary {
    let runs = Runs::of(result);
    Summary {
        version: result.version.clone(),
        seed: result.seed.clone(),
        scenarios: result.scenarios,
        missing_runs: result.planned().saturating_sub(result.runs.len() as u64),
        controllers: result.controllers.iter().map(|name| runs.controller(result, name)).collect(),
        references: result.references.iter().map(|name| runs.reference(name)).collect(),
        pairs: runs.pairs(result),
    }
}

/// The runs by controller and by scenario.
struct Runs<'a> {
    by_controller: BTreeMap<&'a str, Vec<&'a RunRow>>,
    by_scenario: BTreeMap<u64, Vec<&'a RunRow>>,
    /// Median use and frame delay of each controller by family.
    medians: BTreeMap<(Family, &'a str), (f64, f64)>,
    references: BTreeMap<&'a str, Vec<&'a RunRow>>,
    /// Utility of the causal bound by scenario.
    bound: BTreeMap<u64, f64>,
}

impl<'a> Runs<'a> {
    fn of(result: &'a BenchmarkResult) -> Self {
        let (mut by_controller, mut by_scenario) = (BTreeMap::new(), BTreeMap::new());
        let mut by_both: BTreeMap<(Family, &str), Vec<&RunRow>> = BTreeMap::new();
        let mut references: BTreeMap<&str, Vec<&RunRow>> = BTreeMap::new();
        for row in &result.runs {
            if result.references.contains(&row.controller) {
                references.entry(row.controller.as_str()).or_default().push(row);
                continue;
            }
            by_controller.entry(row.controller.as_str()).or_insert_with(Vec::new).push(row);
            by_scenario.entry(row.scenario).or_insert_with(Vec::new).push(row);
            by_both.entry((row.family, row.controller.as_str())).or_default().push(row);
        }
        let median = |(key, rows): (_, Vec<&RunRow>)| {
            let used = median(&rows, |row| row.figures.utilisation_ratio);
            (key, (used, median_delay(&rows)))
        };
        let causal = references.get(Reference::Causal.name().as_str()).map_or(&[][..], Vec::as_slice);
        let bound = causal.iter().map(|row| (row.scenario, row.figures.utility.total)).collect();
        Self {
            by_controller,
            by_scenario,
            medians: by_both.into_iter().map(median).collect(),
            references,
            bound,
        }
    }

    fn own(&self, name: &str) -> &[&'a RunRow] {
        self.by_controller.get(name).map_or(&[], Vec::as_slice)
    }

    fn controller(&self, result: &BenchmarkResult, name: &str) -> ControllerSummary {
        let (all, families) = self.summaries(self.own(name));
        ControllerSummary {
            name: name.to_owned(),
            all,
            families,
            goals: self.goals(name),
            worst: self.worst(result, name),
        }
    }

    fn reference(&self, name: &str) -> ReferenceSummary {
        let own = self.references.get(name).map_or(&[][..], Vec::as_slice);
        let (all, families) = self.summaries(own);
        ReferenceSummary { name: name.to_owned(), all, families }
    }

    /// All of these runs, and those of each family.
    fn summaries(&self, own: &[&RunRow]) -> (FamilySummary, BTreeMap<&'static str, FamilySummary>) {
        let of = |family: Family| own.iter().filter(|row| row.family == family).copied().collect::<Vec<_>>();
        let families = Family::ALL.into_iter().map(|family| (family.name(), of(family)));
        let families = families
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(family, rows)| (family, self.family_summary(&rows)));
        (self.family_summary(own), families.collect())
    }

    fn family_summary(&self, rows: &[&RunRow]) -> FamilySummary {
        let both = rows.iter().filter_map(|row| Some((row, self.bound.get(&row.scenario)?)));
        let (own, bound) =
            both.fold((0.0, 0.0), |(own, bound), (row, of)| (own + row.figures.utility.total, bound + of));
        FamilySummary { bound_ratio: (bound > 0.0).then(|| own / bound), ..family_summary(rows) }
    }

    /// The others on the scenario of `row`.
    fn others(&self, row: &RunRow) -> impl Iterator<Item = &&'a RunRow> {
        let all = self.by_scenario.get(&row.scenario).map_or(&[][..], Vec::as_slice);
        all.iter().filter(|other| other.controller != row.controller)
    }

    fn goals(&self, name: &str) -> BTreeMap<&'static str, Goal> {
        let own = self.own(name);
        let mut goals = BTreeMap::new();
        let mut put = |goal: &'static str, value: f64, runs: usize| {
            if runs > 0 {
                goals.insert(goal, Goal { value, runs: runs as u64 });
            }
        };
        let share = |rows: &[&RunRow], holds: &dyn Fn(&RunRow) -> bool| {
            rows.iter().filter(|row| holds(row)).count() as f64 / rows.len().max(1) as f64
        };
        let of = |wanted: &dyn Fn(&RunRow) -> bool| -> Vec<&RunRow> {
            own.iter().filter(|row| wanted(row)).copied().collect()
        };
        let among = |families: &[Family]| of(&|row| families.contains(&row.family));

        let dominated = |&(used, delay): &(f64, f64), family: Family| {
            self.medians.iter().any(|((other, controller), &(theirs, their_delay))| {
                *other == family && *controller != name && theirs > used && their_delay < delay
            })
        };
        let families: Vec<bool> = Family::ALL
            .into_iter()
            .filter_map(|family| Some(dominated(self.medians.get(&(family, name))?, family)))
            .collect();
        put("dominated_families", families.iter().filter(|is| **is).count() as f64, own.len());
        put(
            "dominated_runs_ratio",
            share(own, &|row| self.others(row).any(|other| beats(other, row))),
            own.len(),
        );

        let alone = of(&|row| row.is_alone());
        put("collapsed_ratio", share(&alone, &|row| row.figures.collapsed), alone.len());
        let steady = among(&[Family::Static]);
        put("steady_utilisation_ratio", median(&steady, |row| row.figures.utilisation_ratio), steady.len());
        put("steady_queue_delay_p95_ms", median(&steady, |row| row.figures.queue_delay_p95_ms), steady.len());
        put("steady_missed_frames_ratio", missed(&steady), steady.len());
        let fading = among(&[Family::Fades, Family::Lte, Family::Stalls]);
        put("fading_missed_frames_ratio", missed(&fading), fading.len());
        let tcp = of(&|row| {
            row.family == Family::LongTcp && matches!(row.rival.as_deref(), Some("cubic" | "new-reno"))
        });
        let fair = |row: &RunRow| (0.5..=1.5).contains(&row.figures.utilisation_ratio);
        put("tcp_fair_ratio", share(&tcp, &fair), tcp.len());
        let calls = among(&[Family::EqualCalls]);
        put(
            "equal_calls_fair_ratio",
            share(&calls, &|row| row.figures.jain.is_some_and(|jain| jain >= 0.95)),
            calls.len(),
        );
        let up_to_6 = of(&|row| row.random_loss.is_some_and(|loss| loss <= 0.06));
        put(
            "loss_to_6_utilisation_ratio",
            median(&up_to_6, |row| row.figures.utilisation_ratio),
            up_to_6.len(),
        );
        let up_to_20 = of(&|row| row.random_loss.is_some_and(|loss| loss > 0.06));
        put(
            "loss_to_20_utilisation_ratio",
            median(&up_to_20, |row| row.figures.utilisation_ratio),
            up_to_20.len(),
        );
        let rises = of(&|row| {
            row.family == Family::StepUp
                && row.change_ratio.is_some_and(|by| by >= 3.0)
                && row.rtt_ms <= 200.0
        });
        put(
            "rise_within_3_s_ratio",
            share(&rises, &|row| row.figures.rise_s.is_some_and(|s| s <= 3.0)),
            rises.len(),
        );
        let falls = of(&|row| {
            row.family == Family::StepDown
                && row.change_ratio.is_some_and(|by| (by - 1.0 / 3.0).abs() < 1e-3)
                && row.rtt_ms <= 100.0
                && row.figures.queue_delay_after_fall_p95_ms.is_some()
        });
        let after = |row: &RunRow| row.figures.queue_delay_after_fall_p95_ms.unwrap_or(0.0);
        put("queue_delay_after_fall_p95_ms", median(&falls, after), falls.len());
        let l4s = among(&[Family::L4s]);
        put("l4s_utilisation_ratio", median(&l4s, |row| row.figures.utilisation_ratio), l4s.len());
        put("l4s_queue_delay_p95_ms", median(&l4s, |row| row.figures.queue_delay_p95_ms), l4s.len());
        goals
    }

    fn worst(&self, result: &BenchmarkResult, name: &str) -> Vec<WorstRun> {
        let best = |row: &RunRow| {
            self.others(row)
                .map(|other| other.figures.utility.total)
                .fold(row.figures.utility.total, f64::max)
        };
        let behind = |row: &RunRow| best(row) - row.figures.utility.total;
        let mut rows: Vec<&RunRow> = self.own(name).to_vec();
        rows.sort_by(|a, b| {
            let own = |row: &RunRow| row.figures.utility.total;
            behind(b).total_cmp(&behind(a)).then(own(a).total_cmp(&own(b)))
        });
        rows.truncate(WORST);
        let worst = rows.into_iter().map(|row| WorstRun {
            scenario: row.scenario,
            family: row.family,
            utility: row.figures.utility.total,
            best_utility: best(row),
            utilisation_ratio: row.figures.utilisation_ratio,
            frame_delay_p95_ms: row.figures.frame_delay_p95_ms,
            command: replay(&result.seed, row.scenario, name),
        });
        worst.collect()
    }

    fn pairs(&self, result: &BenchmarkResult) -> Vec<Pair> {
        let names = &result.controllers;
        let mut pairs = Vec::new();
        for (place, a) in names.iter().enumerate() {
            let own: BTreeMap<u64, f64> =
                self.own(a).iter().map(|row| (row.scenario, row.figures.utility.total)).collect();
            for b in names.iter().skip(place + 1) {
                let differences: Vec<f64> = self
                    .own(b)
                    .iter()
                    .filter_map(|row| Some(own.get(&row.scenario)? - row.figures.utility.total))
                    .collect();
                if differences.is_empty() {
                    continue;
                }
                let wins = differences.iter().map(|&d| {
                    if d > 0.0 {
                        1.0
                    } else if d < 0.0 {
                        0.0
                    } else {
                        0.5
                    }
                });
                pairs.push(Pair {
                    a: a.clone(),
                    b: b.clone(),
                    utility_difference: mean(&differences),
                    interval: bootstrap(&differences, &mut random::stream(1, "benchmark: bootstrap")),
                    wins_ratio: wins.sum::<f64>() / differences.len() as f64,
                });
            }
        }
        pairs
    }
}

impl RunRow {
    /// Whether one call has the path for itself.
    pub(super) fn is_alone(&self) -> bool {
        self.rival.is_none() && self.figures.flows.len() == 1
    }
}

/// Whether `a` is better than `b` in both use and frame delay.
fn beats(a: &RunRow, b: &RunRow) -> bool {
    a.figures.utilisation_ratio > b.figures.utilisation_ratio
        && a.figures.frame_delay_p95_ms < b.figures.frame_delay_p95_ms
}

/// The command that repeats a run.
fn replay(seed: &str, scenario: u64, controller: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:+".contains(c);
    let quoted =
        if seed.chars().all(plain) { seed.to_owned() } else { format!("'{}'", seed.replace('\'', "'\\''")) };
    format!("giusto benchmark --seed={quoted} --replay {scenario} --controller {controller} --why")
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn sorted(rows: &[&RunRow], figure: impl Fn(&RunRow) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = rows.iter().map(|row| figure(row)).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn median(rows: &[&RunRow], figure: impl Fn(&RunRow) -> f64) -> f64 {
    quantile(&sorted(rows, figure), 0.5)
}

fn median_delay(rows: &[&RunRow]) -> f64 {
    median(rows, |row| row.figures.frame_delay_p95_ms)
}

/// Mean share of the frames that were skipped, never whole, or late.
fn missed(rows: &[&RunRow]) -> f64 {
    mean(&sorted(rows, |row| row.figures.skipped_ratio + row.figures.missing_ratio + row.figures.late_ratio))
}

fn family_summary(rows: &[&RunRow]) -> FamilySummary {
    let spread = |figure: fn(&RunRow) -> f64| {
        let values = sorted(rows, figure);
        [quantile(&values, 0.1), quantile(&values, 0.9)]
    };
    let part = |part: fn(&Utility) -> f64| median(rows, |row| part(&row.figures.utility));
    let share = |figure: fn(&RunRow) -> f64| mean(&sorted(rows, figure));
    let alone = rows.iter().filter(|row| row.is_alone()).count();
    let collapsed = rows.iter().filter(|row| row.figures.collapsed).count();
    FamilySummary {
        runs: rows.len() as u64,
        utilisation_ratio: median(rows, |row| row.figures.utilisation_ratio),
        frame_delay_p50_ms: median(rows, |row| row.figures.frame_delay_p50_ms),
        frame_delay_p95_ms: median_delay(rows),
        frame_delay_p99_ms: median(rows, |row| row.figures.frame_delay_p99_ms),
        queue_delay_p95_ms: median(rows, |row| row.figures.queue_delay_p95_ms),
        loss_ratio: median(rows, |row| row.figures.loss_ratio),
        freeze_ratio: median(rows, |row| row.figures.freeze_ratio),
        utility: part(|utility| utility.total),
        utility_mean: share(|row| row.figures.utility.total),
        bound_ratio: None,
        collapsed_ratio: collapsed as f64 / alone.max(1) as f64,
        poor_ratio: share(|row| f64::from(u8::from(row.figures.utility.total < POOR))),
        challenge_score: share(|row| scores::challenge(&row.figures)),
        power: math::exp(share(|row| scores::log_power(&row.figures))),
        missed_frames_ratio: missed(rows),
        skipped_ratio: share(|row| row.figures.skipped_ratio),
        missing_ratio: share(|row| row.figures.missing_ratio),
        late_ratio: share(|row| row.figures.late_ratio),
        repaired_ratio: share(|row| row.figures.repaired_ratio),
        target_octaves_per_minute: median(rows, |row| row.figures.target_octaves_per_minute),
        parts: Utility {
            total: part(|utility| utility.total),
            rate: part(|utility| utility.rate),
            delay: part(|utility| utility.delay),
            frames: part(|utility| utility.frames),
            freezes: part(|utility| utility.freezes),
        },
        spread: Spread {
            utilisation_ratio: spread(|row| row.figures.utilisation_ratio),
            frame_delay_p95_ms: spread(|row| row.figures.frame_delay_p95_ms),
            queue_delay_p95_ms: spread(|row| row.figures.queue_delay_p95_ms),
            utility: spread(|row| row.figures.utility.total),
        },
    }
}

/// The percentile bootstrap interval of the mean (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, §13.3).
fn bootstrap(values: &[f64], random: &mut Random) -> [f64; 2] {
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn = (0..values.len()).filter_map(|_| values.get(random.random_range(0..values.len())));
            drawn.sum::<f64>() / values.len() as f64
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    [quantile(&means, tail), quantile(&means, 1.0 - tail)]
}
