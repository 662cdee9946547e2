//! The tables in the terminal, and the report.

use giusto_congestion::Algorithm;
use serde::Serialize;

use super::{
    Printed, Run, Scoreboard, Series, TEXT,
    cases::Case,
    expected::Expected,
    metrics::{capacity, mean, of_flow, static_periods, within},
    scoreboard::Score,
};
use crate::page::{Findings, Page, PageTable, chart, limit, line};
use giusto::{
    record::{FlowTimeline, RunRecord},
    scenario::Scenario,
    view::{
        format::count,
        html::{Card, Chart, Mark, Section, Table, Tone},
        table::{Grid, Head},
    },
};

/// The bound of the 95th percentile of the queueing delay.
const MAX_DELAY_MS: f64 = 100.0;

/// The values of a run that the charts show.
pub(super) fn series(case: &Case, scenario: &Scenario, record: &RunRecord) -> Series {
    let seconds = (0..scenario.end().as_seconds().floor() as usize).map(|second| second as f64);
    let timelines = record.timeline.as_ref().map(|timeline| &timeline.flows[..]).unwrap_or_default();
    let media = record.flows.iter().filter(|flow| flow.kind == "media");
    let media: Vec<&FlowTimeline> = media.filter_map(|flow| of_flow(timelines, &flow.id)).collect();
    let rates = media.iter().map(|flow| {
        let points = seconds
            .clone()
            .map(|second| (second + 0.5, mean(within(&flow.received_bytes, second..second + 1.0)) / 1e6));
        (flow.id.clone(), points.collect())
    });
    let waited = seconds.clone().map(|second| {
        let delays = media.iter().flat_map(|flow| within(&flow.queue_delay_max_ms, second..second + 1.0));
        (second + 0.5, delays.flatten().copied().fold(0.0, f64::max))
    });
    let capacities = case.bottlenecks.iter().map(|(link, _)| {
        let periods = static_periods(scenario);
        let steps = periods.iter().flat_map(|period| [period.start, period.end - 1e-3]);
        let points = steps.filter_map(|at| Some((at, capacity(scenario, link, at)? / 1e6)));
        ((*link).to_owned(), points.collect())
    });
    Series { rates: rates.collect(), waited: waited.collect(), capacities: capacities.collect() }
}

impl Findings for Scoreboard {
    fn printed(&self) -> impl Serialize {
        Printed {
            reproduction: self.reproduction(),
            held_out: self.held_out(),
            frames: self.frames(),
            interrupted: self.ended_early().is_some(),
            planned_runs: self.plan.runs(),
            runs: &self.runs,
        }
    }

    fn page(&self) -> Page {
        let sums = self.rows().pop().map(|row| row.scores).unwrap_or_default();
        let cards = self.plan.controllers.iter().zip(sums).map(|(controller, score)| {
            let note = if score.judged == 0 { "" } else { "expectations met with all tuning seeds" };
            Card::new(controller.name(), score.count(), note).with_tone(tone(score))
        });
        let [made, planned] = [self.runs.len(), self.plan.runs()].map(|runs| count(runs as u64));
        let pictures = self.cases.iter().flat_map(|(case, expected)| {
            let drawn: Vec<Drawn<'_>> = self.drawn(case).collect();
            let rates: Vec<Section> = drawn.iter().map(|&run| rate_chart(run).into()).collect();
            let case = (!drawn.is_empty())
                .then(|| [self.case_table(case, expected, &drawn).into(), delay_chart(case, &drawn).into()]);
            case.into_iter().flatten().chain(rates)
        });
        let table = |key, title, caption, (header, rows): (Vec<String>, Vec<Vec<String>>)| {
            PageTable::new(key, [title, caption], &header, 1, &rows)
        };
        Page {
            headline: self.headline(),
            items: self.reproduction(),
            cards: cards.chain([Card::new("Runs", made, format!("of {planned}"))]).collect(),
            pictures: pictures.collect(),
            tables: vec![
                self.scoreboard(),
                table(
                    "held-out",
                    "Seeds and variants that were not used for tuning",
                    "The share of expectations met, each counted once for each run; † marks rules of ours.",
                    self.held_out_table(),
                ),
                table(
                    "frames",
                    "Frames",
                    "Frame delay p95 of the videos, and the share of them where it is at most 400 ms.",
                    self.frames_table(),
                ),
                self.unmet(),
            ],
            text: TEXT,
            ..Page::default()
        }
    }
}

impl Scoreboard {
    fn scoreboard(&self) -> PageTable {
        let names = self.plan.controllers.iter().map(|controller| format!("`{controller}`"));
        let header: Vec<String> = ["case", "of"].map(str::to_owned).into_iter().chain(names).collect();
        let rows = self.rows().into_iter().map(|row| {
            let cell = |score: &Score| {
                if score.judged == row.of { score.met.to_string() } else { score.count() }
            };
            [row.case.to_owned(), row.of.to_string()].into_iter().chain(row.scores.iter().map(cell)).collect()
        });
        let caption = "Expectations met of each case, with all of the seeds used for tuning.";
        PageTable::new("scoreboard", ["The scoreboard", caption], &header, 1, &rows.collect::<Vec<_>>())
    }

    /// The expectations that are not met.
    fn unmet(&self) -> PageTable {
        let mut rows = Vec::new();
        for (case, all) in &self.cases {
            for expected in all {
                for controller in &self.plan.controllers {
                    let item = self.item(case, controller.name(), expected);
                    if item.agrees == Some(false) {
                        let cells = [case.id, controller.name(), &expected.what].map(str::to_owned);
                        rows.push([&cells[..], &[expected.bound(), expected.found(&item)]].concat());
                    }
                }
            }
        }
        let headers = ["case", "controller", "expectation", "expected", "found"];
        let caption = "Expectations that a controller does not meet with each of the tuning seeds.";
        PageTable::new("not-met", ["Not met", caption], &headers, 3, &rows)
    }

    fn case_table(&self, case: &Case, expected: &[Expected], drawn: &[Drawn<'_>]) -> Table {
        let row = |expected: &Expected| {
            let cell = |controller: &Algorithm| {
                let item = self.item(case, controller.name(), expected);
                let value = expected.found(&item);
                match (item.ours, item.agrees) {
                    (None, None) => "not run".to_owned(),
                    (_, None) => format!("{value} not judged"),
                    (_, Some(true)) => format!("{value} met"),
                    (_, Some(false)) => format!("{value} not met"),
                }
            };
            let words = [expected.what.as_ref(), &expected.bound()].map(str::to_owned);
            words.into_iter().chain(self.plan.controllers.iter().map(cell)).collect()
        };
        let controllers = self.plan.controllers.iter().map(|controller| controller.name());
        let heads =
            ["expectation", "expected"].into_iter().chain(controllers).map(|name| Head::words(name, 0));
        let rows: Vec<Vec<String>> = expected.iter().map(row).collect();
        let command = drawn.last().map(|(run, _)| run.command.as_str()).unwrap_or_default();
        let caption = format!("The median of the seeds; met if met with each. One run alone: `{command}`.");
        let title = format!("{} {}", case.id, case.what);
        let mut table = Table::of_grid(&title, caption, Grid::of_rows(heads, &rows));
        for cell in table.rows.iter_mut().flatten() {
            cell.tone = match cell.text.as_str() {
                text if text.ends_with(" not met") => Tone::Bad,
                text if text.ends_with(" met") => Tone::Good,
                _ => Tone::Plain,
            };
        }
        table
    }

    /// The first run of each controller.
    fn drawn(&self, case: &Case) -> impl Iterator<Item = Drawn<'_>> {
        let id = case.id;
        let of_case = self.runs.iter().filter(move |run| run.case == id);
        of_case.filter_map(|run| Some((run, run.series.as_ref()?)))
    }
}

/// A run and the values that the charts show.
type Drawn<'a> = (&'a Run, &'a Series);

fn delay_chart(case: &Case, runs: &[Drawn<'_>]) -> Chart {
    let highest = runs.iter().flat_map(|(_, series)| &series.waited).map(|(_, ms)| *ms);
    let top = highest.fold(MAX_DELAY_MS, f64::max) * 1.12;
    let title = format!("{}: queueing delay", case.id);
    let lines = runs.iter().map(|(run, series)| line(run.controller, series.waited.clone()));
    let text = [title.as_str(), "The maximum queueing delay of media packets in each second."];
    chart(text, ["time (s)", "delay (ms)"], Some(top), lines.collect())
        .with_full_width()
        .with_mark(Mark::AtY(MAX_DELAY_MS, "bound of p95".to_owned()))
}

fn rate_chart((run, series): Drawn<'_>) -> Chart {
    let highest = series.rates.iter().chain(&series.capacities).flat_map(|(_, points)| points);
    let top = highest.map(|(_, rate)| *rate).fold(0.0, f64::max) * 1.12;
    let rates = series.rates.iter().map(|(name, points)| line(name, points.clone()));
    let capacities = series.capacities.iter().filter(|(_, points)| !points.is_empty());
    let capacities = capacities.map(|(name, points)| limit(name, points.clone()));
    let title = format!("{}: {}", run.case, run.controller);
    let text = [title.as_str(), "Received rate of each media flow, second by second, and the capacity."];
    chart(text, ["time (s)", "rate (Mbit/s)"], Some(top), rates.chain(capacities).collect())
}

fn tone(score: Score) -> Tone {
    match score {
        Score { judged: 0, .. } => Tone::Plain,
        Score { met, judged } if met == judged => Tone::Good,
        Score { met, judged } if met * 2 >= judged => Tone::Fair,
        _ => Tone::Bad,
    }
}
