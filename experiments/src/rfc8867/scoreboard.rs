//! Every expectation under every controller, judged.

use std::collections::BTreeMap;

use comfy_table::CellAlignment::{Left, Right};

use super::{
    NAME, Printed, Run, Scoreboard,
    cases::{Case, Judged},
    metrics::{FlowMetrics, Period},
};
use crate::{Item, Reproduction};
use giusto::view::{
    format::{UNKNOWN, short},
    table::of_cells,
};

/// Between flows of equal priority, and at most (RFC 8868 §3, item 7).
const FAIREST: f64 = 1.0;
const LEAST_FAIR: f64 = 3.0;
/// The minimum of the media (RFC 8867 §4.3).
const MINIMUM_BPS: f64 = 150_000.0;

/// Something expected of a case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expected {
    /// In words.
    pub(super) what: String,
    pub(super) unit: &'static str,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    /// Why it cannot be judged.
    unjudged: Option<&'static str>,
    from: From,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum From {
    /// The expectation of the scenario by its number.
    Check(usize),
    Judged(Judged),
}

impl Expected {
    /// Within which bounds, in words.
    pub(super) fn bound(&self) -> String {
        let bounds = match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{} to {}", self.number(min), self.number(max)),
            (Some(min), None) => format!("at least {}", self.number(min)),
            (None, Some(max)) => format!("at most {}", self.number(max)),
            (None, None) => return UNKNOWN.to_owned(),
        };
        format!("{bounds} {}", self.shown_unit()).trim_end().to_owned()
    }

    /// The unit in which it is shown.
    fn shown_unit(&self) -> &'static str {
        match self.unit {
            "bit/s" => "Mbit/s",
            "ratio" if self.is_small() => "%",
            "ratio" => "",
            unit => unit,
        }
    }

    /// Whether it is a share so small that it is shown as a percentage.
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

    /// What was found, as it stands in a table: the median, and where that alone would do, what did not.
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
}

impl Scoreboard {
    /// The cases that ran.
    pub(super) fn cases(&self) -> impl Iterator<Item = Case> {
        self.expectations.iter().map(|(case, _)| *case)
    }

    /// The runs of a case under a controller.
    pub(super) fn runs_of<'a>(&'a self, case: &'a str, controller: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.case == case && run.controller == controller)
    }

    /// What is expected of a case.
    pub(super) fn expected(&self, case: &Case) -> Vec<Expected> {
        let known = self.expectations.iter().find(|(other, _)| other.id == case.id);
        let checks = known.into_iter().flat_map(|(_, expectations)| expectations).enumerate();
        let checks = checks.map(|(number, expectation)| Expected {
            what: expectation.title(),
            unit: expectation.metric.unit().name(),
            min: expectation.min,
            max: expectation.max,
            unjudged: None,
            from: From::Check(number),
        });
        checks.chain(case.judged.iter().map(|&judged| of(judged))).collect()
    }

    /// What came of it under a controller, judged.
    pub(super) fn item(&self, case: &Case, controller: &str, expected: &Expected) -> Item {
        let values: Vec<(&Run, Option<f64>)> = self
            .runs_of(case.id, controller)
            .map(|run| (run, self.value(case, run, expected.from)))
            .collect();
        let mut known: Vec<f64> = values.iter().filter_map(|(_, value)| *value).collect();
        known.sort_by(f64::total_cmp);
        let wrong: Vec<&str> = values
            .iter()
            .filter(|(_, value)| !expected.accepts(*value))
            .map(|(run, _)| run.seed.as_str())
            .collect();
        // What did not run, because the reproduction was ended early, is not judged.
        let comparable = expected.unjudged.is_none() && !values.is_empty();
        let agrees = comparable && wrong.is_empty();
        let why = match expected.unjudged {
            Some(why) => Some(why.to_owned()),
            None if values.is_empty() => Some("it did not run".to_owned()),
            None if agrees => None,
            None if wrong.len() == values.len() => Some(format!("expected {}", expected.bound())),
            None => Some(format!("expected {}; not met with seed {}", expected.bound(), wrong.join(", "))),
        };
        let bounds = [("bound_low", expected.min), ("bound_high", expected.max)];
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
            figures: bounds
                .into_iter()
                .filter_map(|(name, bound)| Some((name.to_owned(), bound?)))
                .collect::<BTreeMap<_, _>>(),
        }
    }

    fn value(&self, case: &Case, run: &Run, from: From) -> Option<f64> {
        let judged = match from {
            From::Check(number) => return run.result.checks.get(number)?.value,
            From::Judged(judged) => judged,
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
            Judged::MarkedDelay => ratio(Some(waited(run)?), Some(waited(self.other(case, run)?)?)),
        }
    }

    /// The run that it is compared with: of the other case, with the same controller and seed.
    fn other(&self, case: &Case, run: &Run) -> Option<&Run> {
        let against = case.against?;
        self.runs_of(against, run.controller).find(|other| other.seed == run.seed)
    }

    /// Every expectation under every controller.
    pub fn reproduction(&self) -> Reproduction {
        let items = self.cases().flat_map(|case| {
            let expected = self.expected(&case);
            let controllers = self.plan.controllers.iter().map(|controller| controller.name());
            let items = controllers.flat_map(|controller| {
                expected.iter().map(|expected| self.item(&case, controller, expected)).collect::<Vec<_>>()
            });
            items.collect::<Vec<_>>()
        });
        Reproduction { name: NAME.to_owned(), items: items.collect(), beside: BTreeMap::new() }
    }

    /// What `--json` prints.
    pub fn printed(&self) -> Printed<'_> {
        let (planned_runs, interrupted) = (self.plan.runs(), self.ended_early().is_some());
        Printed { reproduction: self.reproduction(), interrupted, planned_runs, runs: &self.runs }
    }

    /// What to say where not everything ran.
    pub(super) fn ended_early(&self) -> Option<String> {
        let (made, planned) = (self.runs.len(), self.plan.runs());
        (made < planned).then(|| {
            format!("Ended early: {made} of {planned} runs were made. What did not run is not judged.")
        })
    }

    /// Met, and judged: of a case, or of all, under a controller.
    pub(super) fn score(&self, case: Option<&Case>, controller: &str) -> (usize, usize) {
        let cases = self.cases().filter(|other| case.is_none_or(|case| case.id == other.id));
        cases.fold((0, 0), |sum, case| {
            self.expected(&case).iter().fold(sum, |(met, judged), expected| {
                let item = self.item(&case, controller, expected);
                (met + usize::from(item.agrees), judged + usize::from(item.comparable))
            })
        })
    }

    /// Whether the case, or any case, was run under a controller.
    pub(super) fn has_run(&self, case: Option<&Case>, controller: &str) -> bool {
        let of_case = |run: &&Run| case.is_none_or(|case| run.case == case.id);
        self.runs.iter().filter(of_case).any(|run| run.controller == controller)
    }

    /// The score in words: `3 of 5`, or why there is none.
    pub(super) fn score_in_words(&self, case: Option<&Case>, controller: &str) -> String {
        match self.score(case, controller) {
            (_, 0) if self.has_run(case, controller) => "not judged".to_owned(),
            (_, 0) => "not run".to_owned(),
            (met, judged) => format!("{met} of {judged}"),
        }
    }

    /// The scoreboard for the terminal: each case with how many of its expectations are met, and what is not met.
    pub fn table(&self) -> String {
        let controllers: Vec<&str> =
            self.plan.controllers.iter().map(|controller| controller.name()).collect();
        let mut columns = vec![("case", Left), ("", Left)];
        columns.extend(controllers.iter().map(|controller| (*controller, Right)));
        let score = |case: Option<&Case>, controller: &str| self.score_in_words(case, controller);
        let mut rows: Vec<Vec<String>> = self
            .cases()
            .map(|case| {
                let mut row = vec![case.id.to_owned(), case.what.to_owned()];
                row.extend(controllers.iter().map(|controller| score(Some(&case), controller)));
                row
            })
            .collect();
        let mut all = vec!["all".to_owned(), String::new()];
        all.extend(controllers.iter().map(|controller| score(None, controller)));
        rows.push(all);
        let overview = of_cells(&columns, rows);

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
                for controller in &controllers {
                    let item = self.item(&case, controller, &expected);
                    if item.comparable && !item.agrees {
                        unmet.push(vec![
                            case.id.to_owned(),
                            (*controller).to_owned(),
                            expected.what.clone(),
                            expected.bound(),
                            expected.found(&item),
                        ]);
                    }
                }
            }
        }
        let unmet = if unmet.is_empty() { String::new() } else { format!("\n{}", of_cells(&columns, unmet)) };
        let early = self.ended_early().map_or_else(String::new, |early| format!("\n{early}\n"));
        format!("{overview}{unmet}{early}")
    }
}

/// The waiting of the media flow that waits longest, by the 95th percentile.
fn waited(run: &Run) -> Option<f64> {
    let flows = run.result.flows.iter().filter(|flow| flow.kind == "media");
    flows.filter_map(|flow| Some(flow.queue_delay_ms?.p95)).max_by(f64::total_cmp)
}

fn of(judged: Judged) -> Expected {
    let (what, unit, min, max) = match judged {
        Judged::FairOver5s => ("fairness over 5 s", "ratio", Some(FAIREST), Some(LEAST_FAIR)),
        Judged::FairOver20s => ("fairness over 20 s", "ratio", Some(FAIREST), Some(LEAST_FAIR)),
        Judged::Steady => ("oscillation", "swings", None, Some(0.0)),
        Judged::AsTheReference => ("goodput forwards against the reference", "ratio", Some(0.8), Some(1.25)),
        Judged::NotStarved => ("worst 5 s of a flow", "bit/s", Some(MINIMUM_BPS), None),
        Judged::Priority => ("rate of s1 over that of the others", "ratio", Some(2.0), None),
        Judged::MarkedGoodput => ("goodput against that without marks", "ratio", Some(0.9), None),
        Judged::MarkedDelay => ("delay in queues against that without marks", "ratio", None, Some(1.0)),
    };
    let unjudged = (judged == Judged::Priority).then_some(
        "each flow has a controller of its own, and nothing tells it of a priority: not expressible in a scenario",
    );
    Expected { what: what.to_owned(), unit, min, max, unjudged, from: From::Judged(judged) }
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
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
    }
}
