//! The figures of a summary, from the runs.

use std::collections::BTreeMap;

use giusto_sim::random::{self, Random};
use giusto_units::math;
use rand::RngExt;

use super::{ControllerSummary, FamilySummary, Goal, Pair, ReferenceSummary, Spread, WorstRun};
use crate::{
    benchmark::{
        family::{Family, OF_WINDOW},
        judge::{POOR, Utility, quantile},
        plan::Key,
        reference::Reference,
        result::{BenchmarkResult, RunRow},
        scores,
    },
    confidence::Interval,
    order,
};

/// Number of runs that are named as the worst of a controller.
const WORST: usize = 10;

/// Resamples of the bootstrap, and the confidence level of its intervals.
const RESAMPLES: usize = 1000;
const CONFIDENCE: f64 = 0.95;

/// The runs by controller and by scenario.
pub(super) struct Runs<'a> {
    by_controller: BTreeMap<&'a str, Vec<&'a RunRow>>,
    by_scenario: BTreeMap<Key, Vec<&'a RunRow>>,
    /// Median use and frame delay of each controller by family.
    medians: BTreeMap<(&'a str, &'a str), (f64, f64)>,
    references: BTreeMap<&'a str, Vec<&'a RunRow>>,
    /// Utility of the causal bound by scenario.
    bound: BTreeMap<Key, f64>,
}

impl<'a> Runs<'a> {
    pub(super) fn of(result: &'a BenchmarkResult, rows: impl Iterator<Item = &'a RunRow>) -> Self {
        let (mut by_controller, mut by_scenario) = (BTreeMap::new(), BTreeMap::new());
        let mut by_both: BTreeMap<(&str, &str), Vec<&RunRow>> = BTreeMap::new();
        let mut references: BTreeMap<&str, Vec<&RunRow>> = BTreeMap::new();
        for row in rows {
            if result.references.contains(&row.controller) {
                references.entry(row.controller.as_str()).or_default().push(row);
                continue;
            }
            by_controller.entry(row.controller.as_str()).or_insert_with(Vec::new).push(row);
            by_scenario.entry(row.key()).or_insert_with(Vec::new).push(row);
            by_both.entry((row.family.as_str(), row.controller.as_str())).or_default().push(row);
        }
        let median = |(key, rows): (_, Vec<&RunRow>)| {
            let used = median(&rows, |row| row.figures.utilisation_ratio);
            (key, (used, median_delay(&rows)))
        };
        let causal = references.get(Reference::Causal.name().as_str()).map_or(&[][..], Vec::as_slice);
        let bound = order::map(causal.iter().map(|row| (row.key(), row.figures.utility.total)));
        Self {
            by_controller,
            by_scenario,
            medians: order::map(by_both.into_iter().map(median)),
            references,
            bound,
        }
    }

    /// The runs of a controller or a reference.
    pub(super) fn rows(&self, name: &str) -> &[&'a RunRow] {
        self.references.get(name).map_or_else(|| self.own(name), Vec::as_slice)
    }

    fn own(&self, name: &str) -> &[&'a RunRow] {
        self.by_controller.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn controller(&self, result: &BenchmarkResult, name: &str) -> ControllerSummary {
        let (all, families) = self.summaries(self.own(name));
        ControllerSummary {
            name: name.to_owned(),
            all,
            families,
            goals: self.goals(name),
            worst: self.worst(result, name),
        }
    }

    pub(super) fn reference(&self, name: &str) -> ReferenceSummary {
        let own = self.references.get(name).map_or(&[][..], Vec::as_slice);
        let (all, families) = self.summaries(own);
        ReferenceSummary { name: name.to_owned(), all, families }
    }

    /// All of these runs, and those of each family.
    fn summaries(&self, own: &[&RunRow]) -> (FamilySummary, BTreeMap<String, FamilySummary>) {
        let mut families: BTreeMap<&str, Vec<&RunRow>> = BTreeMap::new();
        for row in own {
            families.entry(row.family.as_str()).or_default().push(row);
        }
        let families =
            families.into_iter().map(|(family, rows)| (family.to_owned(), self.family_summary(&rows)));
        (self.family_summary(own), order::map(families))
    }

    pub(super) fn family_summary(&self, rows: &[&RunRow]) -> FamilySummary {
        let both = rows.iter().filter_map(|row| Some((row, self.bound.get(&row.key())?)));
        let (own, bound) =
            both.fold((0.0, 0.0), |(own, bound), (row, of)| (own + row.figures.utility.total, bound + of));
        FamilySummary { bound_ratio: (bound > 0.0).then(|| own / bound), ..family_summary(rows) }
    }

    /// The others on the scenario of `row`.
    fn others(&self, row: &RunRow) -> impl Iterator<Item = &&'a RunRow> {
        let all = self.by_scenario.get(&row.key()).map_or(&[][..], Vec::as_slice);
        all.iter().filter(|other| other.controller != row.controller)
    }

    pub(super) fn goals(&self, name: &str) -> BTreeMap<&'static str, Goal> {
        let own = self.own(name);
        let mut goals = BTreeMap::new();
        let mut put = |goal: &'static str, value: f64, runs: usize| {
            if runs > 0 {
                goals.insert(goal, Goal { value, runs: runs as u64, over_seeds: None });
            }
        };
        let share = |rows: &[&RunRow], holds: &dyn Fn(&RunRow) -> bool| {
            rows.iter().filter(|row| holds(row)).count() as f64 / rows.len().max(1) as f64
        };
        let of = |wanted: &dyn Fn(&RunRow) -> bool| -> Vec<&RunRow> {
            own.iter().filter(|row| wanted(row)).copied().collect()
        };
        let among = |families: &[Family]| of(&|row| families.iter().any(|own| row.is_of(*own)));

        let families: Vec<bool> = self
            .medians
            .iter()
            .filter(|((_, controller), _)| *controller == name)
            .map(|((family, _), &(used, delay))| {
                self.medians.iter().any(|((other, controller), &(theirs, their_delay))| {
                    other == family && *controller != name && theirs > used && their_delay < delay
                })
            })
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
            row.is_of(Family::LongTcp) && matches!(row.rival.as_deref(), Some("cubic" | "new-reno"))
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
            row.is_of(Family::StepUp) && row.change_ratio.is_some_and(|by| by >= 3.0) && row.rtt_ms <= 200.0
        });
        put(
            "rise_within_3_s_ratio",
            share(&rises, &|row| row.figures.rise_s.is_some_and(|s| s <= 3.0)),
            rises.len(),
        );
        let falls = of(&|row| {
            row.is_of(Family::StepDown)
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
        order::sort_by(&mut rows, |a, b| {
            let own = |row: &RunRow| row.figures.utility.total;
            behind(b).total_cmp(&behind(a)).then(own(a).total_cmp(&own(b)))
        });
        rows.truncate(WORST);
        let worst = rows.into_iter().map(|row| WorstRun {
            seed: row.seed.clone(),
            scenario: row.scenario,
            family: row.family.clone(),
            recording: row.recording.clone(),
            utility: row.figures.utility.total,
            best_utility: best(row),
            utilisation_ratio: row.figures.utilisation_ratio,
            frame_delay_p95_ms: row.figures.frame_delay_p95_ms,
            command: replay(result, row, name),
        });
        worst.collect()
    }

    /// The utility of `a` less that of `b` in each scenario that both have.
    pub(super) fn differences(&self, a: &str, b: &str) -> BTreeMap<Key, f64> {
        let utility = |row: &&RunRow| (row.key(), row.figures.utility.total);
        let own = order::map(self.own(a).iter().map(utility));
        let difference = |row: &&RunRow| Some((row.key(), own.get(&row.key())? - row.figures.utility.total));
        order::map(self.own(b).iter().filter_map(difference))
    }

    pub(super) fn pairs(&self, result: &BenchmarkResult) -> Vec<Pair> {
        let names = &result.controllers;
        let mut pairs = Vec::new();
        for (place, a) in names.iter().enumerate() {
            for b in names.iter().skip(place + 1) {
                let differences = self.differences(a, b);
                if differences.is_empty() {
                    continue;
                }
                // The scenarios of one window are one draw: of the network.
                let of_one = if result.recordings.is_some() { OF_WINDOW } else { 1 };
                let mut draws: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
                for ((seed, number), difference) in &differences {
                    draws.entry((seed.clone(), number / of_one)).or_default().push(*difference);
                }
                let independent: Vec<f64> = draws.values().map(|own| mean(own)).collect();
                let differences: Vec<f64> = differences.into_values().collect();
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
                    interval: interval(&independent),
                    over_seeds: None,
                    wins_ratio: wins.sum::<f64>() / differences.len() as f64,
                });
            }
        }
        pairs
    }
}

impl RunRow {
    /// Whether one call has the path for itself.
    pub(in crate::benchmark) fn is_alone(&self) -> bool {
        self.rival.is_none() && self.figures.flows.len() == 1
    }

    /// Whether it is of this family of random scenarios: a folder of recordings may have the same name.
    fn is_of(&self, family: Family) -> bool {
        self.recording.is_none() && self.family == family.name()
    }
}

/// Whether `a` is better than `b` in both use and frame delay.
fn beats(a: &RunRow, b: &RunRow) -> bool {
    a.figures.utilisation_ratio > b.figures.utilisation_ratio
        && a.figures.frame_delay_p95_ms < b.figures.frame_delay_p95_ms
}

/// The command that repeats a run.
fn replay(result: &BenchmarkResult, row: &RunRow, controller: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:+".contains(c);
    let seed = &row.seed;
    let source = match &result.recordings {
        Some(_) => format!("--recordings DIR{}", result.recording_flags),
        None if seed.chars().all(plain) => format!("--seed={seed}"),
        None => format!("--seed='{}'", seed.replace('\'', "'\\''")),
    };
    format!("giusto benchmark {source} --replay {} --controller {controller} --why", row.scenario)
}

pub(super) fn mean(values: &[f64]) -> f64 {
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
        over_seeds: None,
    }
}

/// Fewest values for a bootstrap: of fewer, the interval of the resampled means is little more than the lowest and the highest value.
const BOOTSTRAP: usize = 20;

/// The 95 % interval of the mean of differences of utility: by bootstrap, or of few values by Student's t. One value leaves all open that two
/// utilities permit.
fn interval(values: &[f64]) -> [f64; 2] {
    if values.len() >= BOOTSTRAP {
        return bootstrap(values, &mut random::stream(1, "benchmark: bootstrap"));
    }
    let few = Interval::of(values).and_then(|own| Some([own.low?, own.high?]));
    few.unwrap_or([-1.0, 1.0]).map(|limit| limit.clamp(-1.0, 1.0))
}

/// The percentile bootstrap interval of a mean (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, §13.3).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_have_the_interval_of_student() {
        assert_eq!((interval(&[]), interval(&[0.3])), ([-1.0, 1.0], [-1.0, 1.0]));
        // By hand: 0.05 ± 12.706 × 0.05 and 0.2 ± 4.303 × 0.1 / √3.
        let near = |found: [f64; 2], low: f64, high: f64| {
            assert!((found[0] - low).abs() < 1e-3 && (found[1] - high).abs() < 1e-3, "{found:?}");
        };
        near(interval(&[0.0, 0.1]), -0.5853, 0.6853);
        near(interval(&[0.1, 0.2, 0.3]), -0.0484, 0.4484);
        near(interval(&[0.0, 0.9]), -1.0, 1.0);
        // Both agree on many values: a mean of 0.5, whose standard error is 0.0913.
        let values: Vec<f64> = (0..10).map(|n| f64::from(n) / 9.0).cycle().take(30).collect();
        let [low, high] = interval(&values);
        assert!((low - 0.386).abs() < 0.01 && (high - 0.614).abs() < 0.01, "{low} {high}");
    }
}
