//! Every expectation with every controller, judged.

use std::collections::BTreeMap;

use giusto_congestion::Algorithm;
use serde::Serialize;

use super::{
    NAME, Part, Run, Scoreboard, TUNING_SEEDS,
    cases::{Case, Variant},
    expected::{Expected, USED, Value},
};
use crate::item::{Item, Reproduction};
use giusto::view::format::{UNKNOWN, percent};

/// Expectations met, of those judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Met.
    pub met: usize,
    /// Judged.
    pub judged: usize,
}

impl Score {
    fn of(verdicts: impl IntoIterator<Item = bool>) -> Self {
        Self::sum(verdicts.into_iter().map(|met| Self { met: usize::from(met), judged: 1 }))
    }

    fn sum(scores: impl IntoIterator<Item = Self>) -> Self {
        scores.into_iter().fold(Self::default(), |sum, score| Self {
            met: sum.met + score.met,
            judged: sum.judged + score.judged,
        })
    }

    /// `3 of 5`, or `not run`.
    pub(super) fn count(self) -> String {
        if self.judged == 0 { "not run".to_owned() } else { format!("{} of {}", self.met, self.judged) }
    }

    /// `60.0 %`, or `not run`.
    pub(super) fn percent(self) -> String {
        if self.judged == 0 { "not run".to_owned() } else { percent(self.met as f64 / self.judged as f64) }
    }
}

/// A controller judged by what was not used for tuning. Each expectation counts once for each run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldOut {
    /// The controller.
    pub controller: &'static str,
    /// Whether it has rules of ours.
    pub has_own_rules: bool,
    /// All expectations, with the seeds used for tuning.
    pub tuning_seeds: Score,
    /// All expectations, with other seeds.
    pub held_out_seeds: Score,
    /// Expectations that hold for changed rates and delays: in the unchanged cases, with the seeds used for tuning.
    pub unchanged: Score,
    /// The same expectations in the changed cases.
    pub variants: [Score; Variant::ALL.len()],
}

/// A row of the scoreboard.
pub(super) struct Row {
    pub(super) case: &'static str,
    /// The number of expectations that are judged.
    pub(super) of: usize,
    /// The score of each controller.
    pub(super) scores: Vec<Score>,
}

impl Scoreboard {
    /// The runs of a case with a controller, with the seeds used for tuning.
    pub(super) fn runs_of<'a>(&'a self, case: &'a str, controller: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs
            .iter()
            .filter(move |run| run.case == case && run.controller == controller && run.part == Part::Tuning)
    }

    /// An expectation judged with a controller.
    pub(super) fn item(&self, case: &Case, controller: &str, expected: &Expected) -> Item {
        let runs = self.runs_of(case.id, controller);
        let values: Vec<_> = runs.map(|run| (&run.seed, self.value(case, run, expected))).collect();
        let mut known: Vec<f64> = values.iter().filter_map(|(_, value)| *value).collect();
        known.sort_unstable_by(f64::total_cmp);
        let wrong = values.iter().filter(|(_, value)| !expected.accepts(*value));
        let wrong: Vec<&str> = wrong.map(|(seed, _)| seed.as_str()).collect();
        let comparable = expected.is_judged() && !values.is_empty();
        let why = match comparable {
            true if wrong.is_empty() => None,
            true if wrong.len() == values.len() => Some(format!("expected {}", expected.bound())),
            true => Some(format!("expected {}; not met with seed {}", expected.bound(), wrong.join(", "))),
            false if expected.is_judged() => Some("not run".to_owned()),
            false => Some("controllers do not know priorities, so a scenario cannot express this".to_owned()),
        };
        let bounds = [("bound_low", expected.min), ("bound_high", expected.max)];
        let bounds = bounds.into_iter().filter_map(|(name, bound)| Some((name.to_owned(), bound?)));
        Item {
            id: format!("{}/{controller}/{}", case.id, slug(&expected.what)),
            what: format!("{}: {}", case.what, expected.what),
            unit: expected.unit.to_owned(),
            published: expected.min.or(expected.max).unwrap_or_default(),
            ours: median(&known),
            ours_low: known.first().copied(),
            ours_high: known.last().copied(),
            agrees: comparable.then_some(why.is_none()),
            why,
            comparable,
            figures: giusto::order::map(bounds),
        }
    }

    fn value(&self, case: &Case, run: &Run, expected: &Expected) -> Option<f64> {
        match expected.value {
            Value::Check(number) => run.result.checks.get(number)?.value,
            Value::Of(value) | Value::Unjudged(value) => value(run),
            Value::Against(value) => {
                let against = case.against?;
                let is_other = |other: &&Run| {
                    other.case == against
                        && (other.controller, other.part, &other.seed)
                            == (run.controller, run.part, &run.seed)
                };
                value(run, self.runs.iter().find(is_other)?)
            }
        }
    }

    /// Every expectation with every controller.
    pub fn reproduction(&self) -> Reproduction {
        let items = self.cases.iter().flat_map(|(case, expected)| {
            self.plan.controllers.iter().flat_map(move |controller| {
                expected.iter().map(move |expected| self.item(case, controller.name(), expected))
            })
        });
        Reproduction { name: NAME.to_owned(), items: items.collect(), beside: BTreeMap::new() }
    }

    /// A sentence if not everything ran.
    pub(super) fn ended_early(&self) -> Option<String> {
        let (made, planned) = (self.runs.len(), self.plan.runs());
        (made < planned).then(|| {
            format!("Ended early after {made} of {planned} runs: cases without a run are not judged. ")
        })
    }

    /// The rows of the scoreboard. The last one is the sum.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |(case, expected): &(Case, Vec<Expected>)| {
            let score = |controller: &Algorithm| {
                let items = expected.iter().map(|expected| self.item(case, controller.name(), expected));
                Score::of(items.filter_map(|item| item.agrees))
            };
            Row {
                case: case.id,
                of: expected.iter().filter(|expected| expected.is_judged()).count(),
                scores: self.plan.controllers.iter().map(score).collect(),
            }
        };
        let mut rows: Vec<Row> = self.cases.iter().map(row).collect();
        let sum = |number| Score::sum(rows.iter().filter_map(|row| row.scores.get(number).copied()));
        let scores = (0..self.plan.controllers.len()).map(sum).collect();
        rows.push(Row { case: "all", of: rows.iter().map(|row| row.of).sum(), scores });
        rows
    }

    /// Each controller judged by what was not used for tuning.
    pub fn held_out(&self) -> Vec<HeldOut> {
        let held_out = |controller: &Algorithm| {
            let controller = controller.name();
            let score = |part: Part, relative: bool| {
                let is_of = |run: &&Run| run.controller == controller && run.part == part;
                let runs = self.runs.iter().filter(is_of);
                Score::of(runs.flat_map(|run| self.verdicts(run, relative)))
            };
            HeldOut {
                controller,
                has_own_rules: controller.ends_with("+giusto"),
                tuning_seeds: score(Part::Tuning, false),
                held_out_seeds: score(Part::HeldOutSeeds, false),
                unchanged: score(Part::Tuning, true),
                variants: Variant::ALL.map(|variant| score(Part::HeldOutVariant(variant), true)),
            }
        };
        self.plan.controllers.iter().map(held_out).collect()
    }

    /// Whether a run meets each expectation that is judged: all, or those that hold for changed rates and delays.
    fn verdicts(&self, run: &Run, relative: bool) -> Vec<bool> {
        let Some((case, expected)) = self.cases.iter().find(|(case, _)| case.id == run.case) else {
            return Vec::new();
        };
        let used = (relative && !case.has_tcp()).then_some(USED);
        let judged = expected.iter().filter(|it| it.is_judged() && (!relative || it.is_relative()));
        judged.chain(&used).map(|expected| expected.accepts(self.value(case, run, expected))).collect()
    }

    /// The header and the rows of the table of [`Self::held_out`].
    pub(super) fn held_out_table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let names = ["controller", "tuning seeds", "held-out seeds", "unchanged"].map(str::to_owned);
        let header = names.into_iter().chain(Variant::ALL.map(|variant| variant.name().to_owned())).collect();
        let row = |it: HeldOut| {
            let scores = [it.tuning_seeds, it.held_out_seeds, it.unchanged].into_iter().chain(it.variants);
            let mark = if it.has_own_rules { " †" } else { "" };
            std::iter::once(format!("{}{mark}", it.controller)).chain(scores.map(Score::percent)).collect()
        };
        (header, self.held_out().into_iter().map(row).collect())
    }

    /// The headline: the best scores with tuning seeds and with held-out seeds. A part of the runs ranks no controller: each has
    /// other cases.
    pub(super) fn headline(&self) -> String {
        if let Some(early) = self.ended_early() {
            return early.trim_end().to_owned();
        }
        let held_out = self.held_out();
        let best = |score: fn(&HeldOut) -> Score| {
            let judged = held_out.iter().filter(|it| score(it).judged > 0);
            let best = judged.max_by_key(|it| score(it).met * 1_000_000 / score(it).judged);
            best.map_or_else(
                || UNKNOWN.to_owned(),
                |it| format!("{} ({})", it.controller, score(it).percent()),
            )
        };
        format!(
            "Most expectations of RFC 8867 are met by {} with seeds {} to {}, which were used for tuning, and by {} with held-out \
             seeds.",
            best(|it| it.tuning_seeds),
            TUNING_SEEDS[0],
            TUNING_SEEDS[2],
            best(|it| it.held_out_seeds),
        )
    }
}

/// The median, which may be infinite.
fn median(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(*sorted.get(last / 2)?, *sorted.get(last.div_ceil(2))?))
}

/// Words as a part of an id: `queue delay at 1 Mbit/s` is `queue-delay-at-1-mbit-s`.
fn slug(words: &str) -> String {
    let mut slug = String::with_capacity(words.len());
    for letter in words.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() => slug.push(letter.to_ascii_lowercase()),
            '.' => slug.push('.'),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_made_of_words() {
        assert_eq!(slug("queue delay at 0.6 Mbit/s"), "queue-delay-at-0.6-mbit-s");
        assert_eq!(slug("share of s1 (again)"), "share-of-s1-again");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0]), Some(1.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[1.0, 2.0, f64::INFINITY]), Some(2.0));
    }
}
