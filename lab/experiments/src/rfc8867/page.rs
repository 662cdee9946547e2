//! The tables in the terminal, and the report.

use giusto_congestion::Algorithm;
use serde::Serialize;

use super::{
    Printed, Run, Scoreboard, Series, TEXT,
    cases::Case,
    expected::Expected,
    metrics::{FlowMetrics, Period, capacity, mean, of_flow, static_periods, within},
    scoreboard::{Row, Score},
};
use crate::{
    item::Findings,
    page::{chart, limit, line, markdown_table, prose, table},
};
use giusto::{
    record::{Distribution, FlowTimeline, RunRecord},
    scenario::Scenario,
    view::{
        format::{UNKNOWN, count, grouped, or_unknown, percent, short},
        html::{Card, Cell, Chart, Mark, Report, Section, Table, Tone},
        table::{Head, of_cells},
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

    fn table(&self, width: u16) -> String {
        let controllers: Vec<&str> =
            self.plan.controllers.iter().map(|controller| controller.name()).collect();
        let mut columns = vec![Head::words("case", 0), Head::words("", 0)];
        columns.extend(controllers.iter().zip(0..).map(|(name, place)| Head::number(*name, place)));
        let row = |Row { case, what, scores, .. }: Row| {
            [case, what].map(str::to_owned).into_iter().chain(scores.into_iter().map(Score::count)).collect()
        };
        let overview = of_cells(&columns, self.rows().into_iter().map(row).collect(), width);

        let words = ["not met", "controller", "expectation"].map(|name| Head::words(name, 0));
        let columns = [&words[..], &[Head::number("expected", 2), Head::number("found", 1)]].concat();
        let mut unmet = Vec::new();
        for (case, all) in &self.cases {
            for expected in all {
                for &controller in &controllers {
                    let item = self.item(case, controller, expected);
                    if item.agrees == Some(false) {
                        let cells = [case.id, controller, &expected.what].map(str::to_owned);
                        unmet.push([&cells[..], &[expected.bound(), expected.found(&item)]].concat());
                    }
                }
            }
        }
        let unmet = if unmet.is_empty() { String::new() } else { of_cells(&columns, unmet, width) };
        let cells = |(header, rows): (Vec<String>, Vec<Vec<String>>)| {
            let columns: Vec<_> =
                header.iter().zip(0..).map(|(name, place)| Head::number(name, place)).collect();
            of_cells(&columns, rows, width)
        };
        let [held_out, frames] = [self.held_out_table(), self.frames_table()].map(cells);
        format!("{overview}\n{unmet}\n{held_out}† with rules of ours\n\n{frames}\n{}\n", self.headline())
    }
    fn markdown(&self) -> String {
        let names = self.plan.controllers.iter().map(|controller| format!("`{controller}`"));
        let header: Vec<String> = ["case", "of"].map(str::to_owned).into_iter().chain(names).collect();
        let scores = self.rows().into_iter().map(|row| {
            let cell = |score: &Score| {
                if score.judged == row.of { score.met.to_string() } else { score.count() }
            };
            [row.case.to_owned(), row.of.to_string()].into_iter().chain(row.scores.iter().map(cell)).collect()
        });
        let (held_out, judged) = self.held_out_table();
        let (frames, of_frames) = self.frames_table();
        TEXT.replace("{headline}", &self.headline())
            .replace("{scoreboard}", &markdown_table(&header, scores))
            .replace("{held-out}", &markdown_table(&held_out, judged))
            .replace("{frames}", &markdown_table(&frames, of_frames))
    }

    fn report(&self, command: &str) -> Report {
        let mut report = Report::new("giusto reproduce rfc8867", self.headline()).with_command(command);
        report.push(self.cards());
        report.push(self.overview());
        let tables = [
            (
                self.held_out_table(),
                "Seeds and variants that were not used for tuning",
                "The share of expectations met, each counted once for each run; † marks rules of ours. From \"unchanged\" on: \
                 expectations that do not bound a rate.",
            ),
            (
                self.frames_table(),
                "Frames",
                "All media flows of all runs: the median and the 90th percentile of the flows' 95th percentiles of the frame delay, \
                 from capture to complete arrival, and the share of the flows where it is at most 400 ms (ITU-T G.114).",
            ),
        ];
        for ((header, rows), title, caption) in tables {
            let header: Vec<String> = header.into_iter().map(|name| format!("#{name}")).collect();
            let header: Vec<&str> = header.iter().map(String::as_str).collect();
            report.push(table([title, caption], &header, rows));
        }
        report.sections.extend(prose(TEXT).into_iter().map(Section::from));
        for (case, expected) in &self.cases {
            let drawn: Vec<Drawn<'_>> = self.drawn(case).collect();
            if drawn.is_empty() {
                continue;
            }
            report.push(self.case_table(case, expected, &drawn));
            report.sections.extend(drawn.iter().map(|&run| rate_chart(run).into()));
            report.push(delay_chart(case, &drawn));
            report.push(periods_table(case, &drawn));
            report.push(flows_table(case, &drawn));
        }
        report
    }
}

impl Scoreboard {
    fn cards(&self) -> Vec<Card> {
        let sums = self.rows().pop().map(|row| row.scores).unwrap_or_default();
        let cards = self.plan.controllers.iter().zip(sums).map(|(controller, score)| {
            let note = if score.judged == 0 { "" } else { "expectations met with all tuning seeds" };
            Card::new(controller.name(), score.count(), note).with_tone(tone(score))
        });
        let [made, planned] = [self.runs.len(), self.plan.runs()].map(|runs| count(runs as u64));
        cards.chain([Card::new("Runs", made, format!("of {planned}"))]).collect()
    }

    fn headers<'a>(&self, first: [&'a str; 2]) -> Vec<&'a str> {
        first.into_iter().chain(self.plan.controllers.iter().map(|controller| controller.name())).collect()
    }

    fn overview(&self) -> Table {
        let rows = self.rows().into_iter().map(|row| {
            let scores = row.scores.into_iter().map(|score| Cell::toned(score.count(), tone(score)));
            [row.case.into(), row.what.into()].into_iter().chain(scores).collect::<Vec<_>>()
        });
        let caption = "Expectations met of each case, with all of the seeds used for tuning.";
        table(["The scoreboard", caption], &self.headers(["case", "what"]), rows)
    }

    fn case_table(&self, case: &Case, expected: &[Expected], drawn: &[Drawn<'_>]) -> Table {
        let rows = expected.iter().map(|expected| {
            let cell = |controller: &Algorithm| {
                let item = self.item(case, controller.name(), expected);
                let value = expected.found(&item);
                match (item.ours, item.agrees) {
                    (None, None) => "not run".into(),
                    (_, None) => format!("{value} not judged").into(),
                    (_, Some(true)) => Cell::toned(format!("{value} met"), Tone::Good),
                    (_, Some(false)) => Cell::toned(format!("{value} not met"), Tone::Bad),
                }
            };
            let cells = self.plan.controllers.iter().map(cell);
            [expected.what.as_ref().into(), expected.bound().into()]
                .into_iter()
                .chain(cells)
                .collect::<Vec<Cell>>()
        });
        let command = drawn.last().map(|(run, _)| run.command.as_str()).unwrap_or_default();
        let caption = format!("The median of the seeds; met if met with each. One run alone: `{command}`.");
        let title = format!("{} {}", case.id, case.what);
        table([&title, &caption], &self.headers(["expectation", "expected"]), rows)
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

/// Utilisation and convergence in each static period.
fn periods_table(case: &Case, runs: &[Drawn<'_>]) -> Table {
    let cell = |period: &Period| {
        // The slowest flow; unknown if one has not converged.
        let slowest: Option<Vec<f64>> = period.flows.iter().map(|flow| flow.convergence_s).collect();
        let slowest = slowest.and_then(|all| all.into_iter().max_by(f64::total_cmp));
        let after = or_unknown(slowest, |seconds| format!("{seconds:.1} s"));
        format!("{}, {after}", or_unknown(period.utilisation_ratio, percent))
    };
    let periods = runs.first().map(|(run, _)| &run.metrics.periods[..]).unwrap_or_default();
    let rows = periods.iter().enumerate().map(|(place, period)| {
        let time = format!("{} to {} s", period.from_s, period.to_s);
        let capacity = or_unknown(period.capacity_bps, |bps| short(bps / 1e6));
        let cells = runs.iter().map(|(run, _)| run.metrics.periods.get(place).map(cell).unwrap_or_default());
        [time, period.link.clone(), capacity].into_iter().chain(cells).collect::<Vec<_>>()
    });
    let title = format!("{}: utilisation and convergence", case.id);
    let caption = "The sending rate of media over the capacity in the second half of each static period, and the convergence time \
                   of the slowest flow. First seed.";
    let mut headers = vec!["time", "bottleneck", "#capacity (Mbit/s)"];
    headers.extend(runs.iter().map(|(run, _)| run.controller));
    Table { folded: true, ..table([&title, caption], &headers, rows) }
}

/// The metrics of each flow over its whole time.
fn flows_table(case: &Case, runs: &[Drawn<'_>]) -> Table {
    let kbps = |mean: f64, deviation: Option<f64>| {
        format!("{} ± {}", grouped(mean / 1e3), or_unknown(deviation, |bps| grouped(bps / 1e3)))
    };
    let row = |run: &Run, of: &FlowMetrics| {
        let flow = run.result.flows.iter().find(|flow| flow.id == of.id)?;
        let mut row = vec![
            of.id.clone(),
            flow.controller.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            kbps(of.sent_rate_bps, Some(of.sent_rate_sd_bps)),
            or_unknown(of.goodput_bps, |bps| kbps(bps, of.goodput_sd_bps)),
            or_unknown(flow.loss_ratio, percent),
        ];
        for quantiles in [flow.delay_ms, flow.queue_delay_ms] {
            let of: [fn(Distribution) -> f64; 3] = [|all| all.p50, |all| all.p95, |all| all.p99];
            row.extend(of.map(|of| or_unknown(quantiles.map(of), short)));
        }
        row.push(or_unknown(flow.frame_delay_ms.map(|delay| delay.p95), short));
        row.push(or_unknown(flow.feedback_rate_bps, |bps| short(bps / 1e3)));
        Some(row)
    };
    let rows =
        runs.iter().flat_map(|(run, _)| run.metrics.flows.iter().filter_map(move |flow| row(run, flow)));
    let headers = [
        "flow",
        "controller",
        "#sent (kbit/s)",
        "#goodput (kbit/s)",
        "#loss",
        "#delay p50 (ms)",
        "#p95",
        "#p99",
        "#queueing delay p50 (ms)",
        "#p95",
        "#p99",
        "#frame delay p95 (ms)",
        "#feedback (kbit/s)",
    ];
    let title = format!("{}: flows", case.id);
    let caption = "Means and standard deviations over intervals of 200 ms. TCP appears once for each controller that it competes \
                   with, in their order. First seed.";
    Table { folded: true, ..table([&title, caption], &headers, rows) }
}

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
