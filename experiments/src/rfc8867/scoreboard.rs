//! Every expectation with every controller, judged.

use std::collections::BTreeMap;

use comfy_table::CellAlignment::{Left, Right};
use giusto_congestion::Algorithm;
use serde::Serialize;

use super::{
    NAME, Part, Printed, Run, Scoreboard, TUNING_SEEDS,
    cases::{Case, Judged, Variant},
    metrics::{FlowMetrics, Period},
};
use crate::item::{Item, Reproduction};
use giusto::view::{
    format::{UNKNOWN, percent, short},
    table::of_cells,
};

/// The minimum of the media (RFC 8867 §4.3).
const MINIMUM_BPS: f64 = 150_000.0;
/// The maximum of a media flow: 1.5 Mbit/s with headers and audio.
const MEDIA_MAX_BPS: f64 = 1.61e6;

/// An expectation of a case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expected {
    pub(super) what: String,
    unit: &'static str,
    min: Option<f64>,
    max: Option<f64>,
    source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    /// The expectation of the scenario with this number.
    Check(usize),
    Judged(Judged),
}

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
        verdicts.into_iter().fold(Self::default(), |score, met| Self {
            met: score.met + usize::from(met),
            judged: score.judged + 1,
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

/// A row of the scoreboard: case, description, and the score of each controller.
pub(super) type Row = (&'static str, &'static str, Vec<Score>);

impl Expected {
    /// The bounds in words.
    pub(super) fn bound(&self) -> String {
        let bounds = match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{} to {}", self.number(min), self.number(max)),
            (Some(min), None) => format!("at least {}", self.number(min)),
            (None, Some(max)) => format!("at most {}", self.number(max)),
            (None, None) => return UNKNOWN.to_owned(),
        };
        let unit = match self.unit {
            "bit/s" => "Mbit/s",
            "ratio" if self.is_small() => "%",
            "ratio" => "",
            unit => unit,
        };
        format!("{bounds} {unit}").trim_end().to_owned()
    }

    /// Whether it is a ratio so small that it is shown as a percentage.
    fn is_small(&self) -> bool {
        self.max.is_some_and(|max| max <= 0.1)
    }

    /// A value without its unit.
    fn number(&self, value: f64) -> String {
        match self.unit {
            _ if !value.is_finite() => "∞".to_owned(),
            "bit/s" => format!("{:.3}", value / 1e6),
            "ratio" if self.is_small() => format!("{:.2}", value * 100.0),
            "ratio" => format!("{value:.2}"),
            "swings" => format!("{value:.0}"),
            _ => short(value),
        }
    }

    /// The median for a table, and a value out of bounds where the median is within them.
    pub(super) fn found(&self, item: &Item) -> String {
        let Some(ours) = item.ours else { return UNKNOWN.to_owned() };
        let wrong =
            [item.ours_low, item.ours_high].into_iter().flatten().find(|&end| !self.accepts(Some(end)));
        match wrong.filter(|_| item.comparable && self.accepts(item.ours)) {
            Some(wrong) => format!("{}, once {}", self.number(ours), self.number(wrong)),
            None => self.number(ours),
        }
    }

    fn accepts(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| {
            self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
        })
    }

    /// Why it cannot be judged.
    fn unjudged(&self) -> Option<&'static str> {
        (self.source == Source::Judged(Judged::Priority))
            .then_some("controllers do not know priorities, so a scenario cannot express this")
    }

    /// Whether the bounds hold for changed rates and delays: those of rates do not.
    fn is_relative(&self) -> bool {
        self.unit != "bit/s"
    }
}

impl Scoreboard {
    /// The cases of the plan.
    pub(super) fn cases(&self) -> impl Iterator<Item = Case> {
        self.expectations.iter().map(|(case, _)| *case)
    }

    /// The runs of a case with a controller, with the seeds used for tuning.
    pub(super) fn runs_of<'a>(&'a self, case: &'a str, controller: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs
            .iter()
            .filter(move |run| run.case == case && run.controller == controller && run.part == Part::Tuning)
    }

    /// The expectations of a case.
    pub(super) fn expected(&self, case: &Case) -> Vec<Expected> {
        let known = self.expectations.iter().find(|(other, _)| other.id == case.id);
        let checks = known.into_iter().flat_map(|(_, expectations)| expectations).enumerate();
        let checks = checks.map(|(number, expectation)| Expected {
            what: expectation.title(),
            unit: expectation.metric.unit().name(),
            min: expectation.min,
            max: expectation.max,
            source: Source::Check(number),
        });
        checks.chain(case.judged.iter().map(|&judged| of(judged))).collect()
    }

    /// An expectation judged with a controller.
    pub(super) fn item(&self, case: &Case, controller: &str, expected: &Expected) -> Item {
        let runs = self.runs_of(case.id, controller);
        let values: Vec<_> = runs.map(|run| (&run.seed, self.value(case, run, expected.source))).collect();
        let mut known: Vec<f64> = values.iter().filter_map(|(_, value)| *value).collect();
        known.sort_by(f64::total_cmp);
        let wrong = values.iter().filter(|(_, value)| !expected.accepts(*value));
        let wrong: Vec<&str> = wrong.map(|(seed, _)| seed.as_str()).collect();
        let comparable = expected.unjudged().is_none() && !values.is_empty();
        let agrees = comparable && wrong.is_empty();
        let why = match expected.unjudged() {
            Some(why) => Some(why.to_owned()),
            None if values.is_empty() => Some("not run".to_owned()),
            None if agrees => None,
            None if wrong.len() == values.len() => Some(format!("expected {}", expected.bound())),
            None => Some(format!("expected {}; not met with seed {}", expected.bound(), wrong.join(", "))),
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
            agrees,
            why,
            comparable,
            figures: bounds.collect(),
        }
    }

    fn value(&self, case: &Case, run: &Run, source: Source) -> Option<f64> {
        let judged = match source {
            Source::Check(number) => return run.result.checks.get(number)?.value,
            Source::Judged(judged) => judged,
        };
        let periods = || run.metrics.periods.iter();
        let largest = |of: fn(&Period) -> Option<f64>| periods().filter_map(of).max_by(f64::total_cmp);
        let media = || run.metrics.flows.iter().filter(|flow| flow.goodput_bps.is_some());
        match judged {
            Judged::FairOver5s => largest(|period| period.fairness_5s_ratio),
            Judged::FairOver20s => largest(|period| period.fairness_20s_ratio),
            Judged::Steady => {
                let flows = periods().flat_map(|period| &period.flows);
                Some(flows.map(|flow| flow.swings).sum::<u64>() as f64)
            }
            Judged::AsTheReference => {
                let of_first = |run: &Run| run.metrics.flows.first().and_then(|flow| flow.goodput_bps);
                ratio(of_first(run), self.other(case, run).and_then(of_first))
            }
            Judged::NotStarved => media().filter_map(|flow| flow.worst_5s_bps).min_by(f64::total_cmp),
            Judged::Priority => {
                let mut rates = periods().last()?.flows.iter().map(|flow| flow.received_rate_bps);
                let first = rates.next();
                let others: Vec<f64> = rates.collect();
                ratio(first, Some(others.iter().sum::<f64>() / others.len().max(1) as f64))
            }
            Judged::MarkedGoodput => {
                let in_all = |run: &Run| {
                    let flows = run.metrics.flows.iter();
                    flows.filter_map(|flow: &FlowMetrics| flow.goodput_bps).sum::<f64>()
                };
                ratio(Some(in_all(run)), self.other(case, run).map(in_all))
            }
            Judged::MarkedDelay => ratio(Some(queue_delay(run)?), Some(queue_delay(self.other(case, run)?)?)),
            Judged::Used => {
                let used = |period: &Period| {
                    let available = period.capacity_bps?.min(period.flows.len() as f64 * MEDIA_MAX_BPS);
                    ratio(Some(period.flows.iter().map(|flow| flow.sent_rate_bps).sum()), Some(available))
                };
                periods().filter_map(used).min_by(f64::total_cmp)
            }
        }
    }

    /// The run of the other case that it is compared with: same controller, seed and part.
    fn other(&self, case: &Case, run: &Run) -> Option<&Run> {
        let against = case.against?;
        let is_same = |other: &&Run| {
            other.case == against
                && (other.controller, other.part, &other.seed) == (run.controller, run.part, &run.seed)
        };
        self.runs.iter().find(is_same)
    }

    /// Every expectation with every controller.
    pub fn reproduction(&self) -> Reproduction {
        let items = self.cases().flat_map(|case| {
            let expected = self.expected(&case);
            let of = |controller: &Algorithm| {
                expected.iter().map(|it| self.item(&case, controller.name(), it)).collect::<Vec<_>>()
            };
            self.plan.controllers.iter().flat_map(of).collect::<Vec<_>>()
        });
        Reproduction { name: NAME.to_owned(), items: items.collect(), beside: BTreeMap::new() }
    }

    /// What `--json` prints.
    pub fn printed(&self) -> Printed<'_> {
        Printed {
            reproduction: self.reproduction(),
            held_out: self.held_out(),
            interrupted: self.ended_early().is_some(),
            planned_runs: self.plan.runs(),
            runs: &self.runs,
        }
    }

    /// A sentence if not everything ran.
    pub(super) fn ended_early(&self) -> Option<String> {
        let (made, planned) = (self.runs.len(), self.plan.runs());
        (made < planned).then(|| {
            format!("Ended early after {made} of {planned} runs: cases without a run are not judged.")
        })
    }

    /// The rows of the scoreboard. The last one is the sum.
    pub(super) fn rows(&self) -> Vec<Row> {
        let score = |case: &Case, controller: &str| {
            let items =
                self.expected(case).into_iter().map(|expected| self.item(case, controller, &expected));
            Score::of(items.filter(|item| item.comparable).map(|item| item.agrees))
        };
        let of_case = |case: Case| -> Row {
            let scores = self.plan.controllers.iter().map(|controller| score(&case, controller.name()));
            (case.id, case.what, scores.collect())
        };
        let mut rows: Vec<Row> = self.cases().map(of_case).collect();
        let sum = |number: usize| {
            let scores = rows.iter().filter_map(|(_, _, scores)| scores.get(number));
            scores.fold(Score::default(), |sum, score| Score {
                met: sum.met + score.met,
                judged: sum.judged + score.judged,
            })
        };
        let all = (0..self.plan.controllers.len()).map(sum).collect();
        rows.push(("all", "", all));
        rows
    }

    /// Each controller judged by what was not used for tuning.
    pub fn held_out(&self) -> Vec<HeldOut> {
        let score = |controller: &str, part: Part, relative: bool| {
            let runs = self.runs.iter().filter(move |run| run.controller == controller && run.part == part);
            Score::of(runs.flat_map(|run| self.verdicts(run, relative)))
        };
        let held_out = |controller: &Algorithm| {
            let controller = controller.name();
            HeldOut {
                controller,
                has_own_rules: controller.ends_with("+giusto"),
                tuning_seeds: score(controller, Part::Tuning, false),
                held_out_seeds: score(controller, Part::HeldOutSeeds, false),
                unchanged: score(controller, Part::Tuning, true),
                variants: Variant::ALL.map(|variant| score(controller, Part::HeldOutVariant(variant), true)),
            }
        };
        self.plan.controllers.iter().map(held_out).collect()
    }

    /// Whether a run meets each expectation that can be judged: all, or those that hold for changed rates and delays.
    fn verdicts(&self, run: &Run, relative: bool) -> Vec<bool> {
        let Some(case) = self.cases().find(|case| case.id == run.case) else { return Vec::new() };
        let mut expected = self.expected(&case);
        expected.retain(|expected| expected.unjudged().is_none() && (!relative || expected.is_relative()));
        if relative && !case.has_tcp() {
            expected.push(of(Judged::Used));
        }
        expected.iter().map(|expected| expected.accepts(self.value(&case, run, expected.source))).collect()
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

    /// The headline: the best scores with tuning seeds and with held-out seeds.
    pub(super) fn headline(&self) -> String {
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
            "{}Most expectations of RFC 8867 are met by {} with seeds {} to {}, which were used for tuning, and by {} with held-out \
             seeds.",
            self.ended_early().map(|early| format!("{early} ")).unwrap_or_default(),
            best(|it| it.tuning_seeds),
            TUNING_SEEDS[0],
            TUNING_SEEDS[2],
            best(|it| it.held_out_seeds),
        )
    }

    /// The scoreboard for the terminal: the score of each case, unmet expectations, and what was not used for tuning.
    pub fn table(&self) -> String {
        let controllers: Vec<&str> =
            self.plan.controllers.iter().map(|controller| controller.name()).collect();
        let mut columns = vec![("case", Left), ("", Left)];
        columns.extend(controllers.iter().map(|controller| (*controller, Right)));
        let row = |(id, what, scores): Row| {
            [id.to_owned(), what.to_owned()].into_iter().chain(scores.into_iter().map(Score::count)).collect()
        };
        let overview = of_cells(&columns, self.rows().into_iter().map(row).collect());

        let columns = [
            ("not met", Left),
            ("controller", Left),
            ("expectation", Left),
            ("expected", Right),
            ("found", Right),
        ];
        let mut unmet = Vec::new();
        for case in self.cases() {
            for expected in self.expected(&case) {
                for &controller in &controllers {
                    let item = self.item(&case, controller, &expected);
                    if item.comparable && !item.agrees {
                        let (bound, found) = (expected.bound(), expected.found(&item));
                        let what = expected.what.clone();
                        unmet.push(vec![case.id.to_owned(), controller.to_owned(), what, bound, found]);
                    }
                }
            }
        }
        let unmet = if unmet.is_empty() { String::new() } else { of_cells(&columns, unmet) };
        let (header, rows) = self.held_out_table();
        let columns: Vec<_> = header.iter().map(|name| (name.as_str(), Right)).collect();
        let held_out = of_cells(&columns, rows);
        format!("{overview}\n{unmet}\n{held_out}† with rules of ours\n\n{}\n", self.headline())
    }
}

/// The 95th percentile of the queueing delay of the media flow with the largest.
fn queue_delay(run: &Run) -> Option<f64> {
    let flows = run.result.flows.iter().filter(|flow| flow.kind == "media");
    flows.filter_map(|flow| Some(flow.queue_delay_ms?.p95)).max_by(f64::total_cmp)
}

fn of(judged: Judged) -> Expected {
    let (what, unit, min, max) = match judged {
        // Two flows of equal priority differ by a factor of at most 3 (RFC 8868 §3, item 7).
        Judged::FairOver5s => ("fairness over 5 s", "ratio", Some(1.0), Some(3.0)),
        Judged::FairOver20s => ("fairness over 20 s", "ratio", Some(1.0), Some(3.0)),
        Judged::Steady => ("oscillation", "swings", None, Some(0.0)),
        Judged::AsTheReference => ("goodput forwards against the reference", "ratio", Some(0.8), Some(1.25)),
        Judged::NotStarved => ("worst 5 s of a flow", "bit/s", Some(MINIMUM_BPS), None),
        Judged::Priority => ("rate of s1 over that of the others", "ratio", Some(2.0), None),
        Judged::MarkedGoodput => ("goodput against that without marks", "ratio", Some(0.9), None),
        Judged::MarkedDelay => ("delay in queues against that without marks", "ratio", None, Some(1.0)),
        Judged::Used => ("utilisation", "ratio", Some(0.75), Some(1.05)),
    };
    Expected { what: what.to_owned(), unit, min, max, source: Source::Judged(judged) }
}

fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    let (part, whole) = (part?, whole?);
    (whole > 0.0).then(|| part / whole)
}

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
