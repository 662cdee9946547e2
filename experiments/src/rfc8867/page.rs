//! The page of the scoreboard.

use giusto_congestion::Algorithm;

use super::{
    Part, Run, Scoreboard, Series, TEXT,
    cases::Case,
    metrics::{FlowMetrics, Interval, PER_SECOND, Period, capacity, intervals, mean, static_periods, within},
    scoreboard::Score,
};
use crate::page::{chart, limit, line, markdown_row, prose, table};
use giusto::{
    record::{Distribution, RunRecord, Timeline},
    scenario::Scenario,
    view::{
        format::{UNKNOWN, count, grouped, or_unknown, percent, short},
        html::{Card, Cell, Chart, Mark, Report, Section, Table, Tone},
    },
};

/// The bound of the 95th percentile of the queueing delay.
const MAX_DELAY_MS: f64 = 100.0;

/// What the charts show of a run.
pub(super) fn series(case: &Case, scenario: &Scenario, record: &RunRecord) -> Series {
    let end = scenario.end().as_seconds();
    let seconds = (0..end.floor() as usize).map(|second| second as f64);
    let nothing = Timeline::default();
    let timeline = record.timeline.as_ref().unwrap_or(&nothing);
    let media = record.flows.iter().filter(|flow| flow.kind == "media");
    let media: Vec<(&str, Vec<Interval>)> =
        media.map(|flow| (flow.id.as_str(), intervals(timeline, &flow.id))).collect();
    let rates = media.iter().map(|(id, all)| {
        let points = seconds.clone().map(|second| {
            let part = within(all, second..second + 1.0);
            (second + 0.5, mean(part, |interval| interval.received_bytes) / 1e6)
        });
        ((*id).to_owned(), points.collect())
    });
    let waited = seconds.clone().map(|second| {
        let intervals = media.iter().flat_map(|(_, all)| within(all, second..second + 1.0));
        let delays = intervals.take(PER_SECOND * record.flows.len());
        (second + 0.5, delays.map(|interval| interval.queue_delay_max_ms).fold(0.0, f64::max))
    });
    let capacities = case.bottlenecks.iter().map(|(link, _)| {
        let periods = static_periods(scenario);
        let steps = periods.iter().flat_map(|period| [period.start, period.end - 1e-3]);
        let points = steps.filter_map(|at| Some((at, capacity(scenario, link, at)? / 1e6)));
        ((*link).to_owned(), points.collect())
    });
    Series { rates: rates.collect(), waited: waited.collect(), capacities: capacities.collect() }
}

impl Scoreboard {
    /// The page that the repository keeps.
    pub fn markdown(&self) -> String {
        let rows = |header: Vec<String>, rows: Vec<Vec<String>>| {
            let rule = vec!["---".to_owned(); header.len()];
            [header, rule]
                .into_iter()
                .chain(rows)
                .map(|row| markdown_row(&row))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let names = self.plan.controllers.iter().map(|controller| format!("`{controller}`"));
        let header = ["case", "of"].into_iter().map(str::to_owned).chain(names).collect();
        let scores = self.rows().into_iter().map(|(id, _, scores)| {
            let judged = scores.iter().map(|score| score.judged).max().unwrap_or_default();
            let cell = |score: &Score| {
                if score.judged == judged && judged > 0 { score.met.to_string() } else { score.count() }
            };
            [id.to_owned(), judged.to_string()].into_iter().chain(scores.iter().map(cell)).collect()
        });
        let (held_out, judged) = self.held_out_table();
        TEXT.replace("{headline}", &self.headline())
            .replace("{scoreboard}", &rows(header, scores.collect()))
            .replace("{held-out}", &rows(held_out, judged))
    }

    /// The page.
    pub fn report(&self, command: &str) -> Report {
        let mut report = Report::new("giusto reproduce rfc8867", self.headline()).with_command(command);
        report.push(self.cards());
        report.push(self.overview());
        let (header, rows) = self.held_out_table();
        let header: Vec<String> = header.into_iter().map(|name| format!("#{name}")).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let rows = rows.into_iter().map(|row| row.into_iter().map(Cell::from).collect()).collect();
        let caption = "The share of expectations met, each counted once for each run; † marks rules of ours. From \"unchanged\" on: \
                       expectations that do not bound a rate.";
        report.push(table(["Seeds and variants that were not used for tuning", caption], &header, rows));
        report.sections.extend(prose(TEXT).into_iter().map(Section::from));
        for case in self.cases().filter(|case| self.drawn(case).next().is_some()) {
            report.push(self.case_table(&case));
            let rates = self.drawn(&case).map(|(run, series)| rate_chart(run, series));
            report.sections.extend(rates.map(Section::from));
            report.push(self.delay_chart(&case));
            report.push(self.periods_table(&case));
            report.push(self.flows_table(&case));
        }
        report
    }

    fn cards(&self) -> Vec<Card> {
        let rows = self.rows();
        let sums = rows.last().into_iter().flat_map(|(_, _, scores)| scores);
        let cards = self.plan.controllers.iter().zip(sums).map(|(controller, score)| {
            let note = if score.judged == 0 { "" } else { "expectations met with all tuning seeds" };
            Card::new(controller.name(), score.count(), note).with_tone(tone(*score))
        });
        let runs = Card::new(
            "Runs",
            count(self.runs.len() as u64),
            format!("of {}", count(self.plan.runs() as u64)),
        );
        cards.chain([runs]).collect()
    }

    fn headers<'a>(&self, first: &[&'a str]) -> Vec<&'a str> {
        first
            .iter()
            .copied()
            .chain(self.plan.controllers.iter().map(|controller| controller.name()))
            .collect()
    }

    fn overview(&self) -> Table {
        let rows = self.rows().into_iter().map(|(id, what, scores)| {
            let scores = scores.into_iter().map(|score| Cell::toned(score.count(), tone(score)));
            [id.into(), what.into()].into_iter().chain(scores).collect()
        });
        let caption = "Expectations met of each case, with all of the seeds used for tuning.";
        table(["The scoreboard", caption], &self.headers(&["case", "what"]), rows.collect())
    }

    fn case_table(&self, case: &Case) -> Table {
        let row = |expected: super::scoreboard::Expected| {
            let cell = |controller: &Algorithm| {
                let item = self.item(case, controller.name(), &expected);
                let value = expected.found(&item);
                match (item.ours, item.comparable, item.agrees) {
                    (None, false, _) => "not run".into(),
                    (_, false, _) => format!("{value} not judged").into(),
                    (_, _, true) => Cell::toned(format!("{value} met"), Tone::Good),
                    (_, _, false) => Cell::toned(format!("{value} not met"), Tone::Bad),
                }
            };
            let cells = self.plan.controllers.iter().map(cell);
            [expected.what.clone().into(), expected.bound().into()].into_iter().chain(cells).collect()
        };
        let command = self.drawn(case).last().map(|(run, _)| run.command.as_str()).unwrap_or_default();
        let caption = format!("The median of the seeds; met if met with each. One run alone: `{command}`.");
        let title = format!("{} {}", case.id, case.what);
        let rows = self.expected(case).into_iter().map(row).collect();
        table([&title, &caption], &self.headers(&["expectation", "expected"]), rows)
    }

    /// Utilisation and convergence in each static period.
    fn periods_table(&self, case: &Case) -> Table {
        let runs: Vec<&Run> = self.drawn(case).map(|(run, _)| run).collect();
        let cell = |period: &Period| {
            // The slowest flow; unknown if one has not converged.
            let slowest: Option<Vec<f64>> = period.flows.iter().map(|flow| flow.convergence_s).collect();
            let slowest = slowest.and_then(|all| all.into_iter().max_by(f64::total_cmp));
            let after = or_unknown(slowest, |seconds| format!("{seconds:.1} s"));
            Cell::from(format!("{}, {after}", or_unknown(period.utilisation_ratio, percent)))
        };
        let periods = runs.first().map(|run| &run.metrics.periods[..]).unwrap_or_default();
        let rows = periods.iter().enumerate().map(|(place, period)| {
            let time = format!("{} to {} s", period.from_s, period.to_s);
            let capacity = or_unknown(period.capacity_bps, |bps| short(bps / 1e6));
            let cells = runs.iter().map(|run| run.metrics.periods.get(place).map(cell).unwrap_or_default());
            [time.into(), period.link.clone().into(), capacity.into()].into_iter().chain(cells).collect()
        });
        let title = format!("{}: utilisation and convergence", case.id);
        let caption = "The sending rate of media over the capacity in the second half of each static period, and the convergence time \
                       of the slowest flow. First seed.";
        let mut headers = vec!["time", "bottleneck", "#capacity (Mbit/s)"];
        headers.extend(runs.iter().map(|run| run.controller));
        Table { folded: true, ..table([&title, caption], &headers, rows.collect()) }
    }

    /// The metrics of each flow over its whole time.
    fn flows_table(&self, case: &Case) -> Table {
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
            Some(row.into_iter().map(Cell::from).collect())
        };
        let rows = self
            .drawn(case)
            .flat_map(|(run, _)| run.metrics.flows.iter().filter_map(move |flow| row(run, flow)));
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
        Table { folded: true, ..table([&title, caption], &headers, rows.collect()) }
    }

    fn delay_chart(&self, case: &Case) -> Chart {
        let highest = self.drawn(case).flat_map(|(_, series)| &series.waited).map(|(_, ms)| *ms);
        let top = highest.fold(MAX_DELAY_MS, f64::max) * 1.12;
        let title = format!("{}: queueing delay", case.id);
        let lines = self.drawn(case).map(|(run, series)| line(run.controller, series.waited.clone()));
        let text = [title.as_str(), "The maximum queueing delay of media packets in each second."];
        chart(text, ["time (s)", "delay (ms)"], Some(top), lines.collect())
            .with_full_width()
            .with_mark(Mark::AtY(MAX_DELAY_MS, "bound of p95".to_owned()))
    }

    /// The first run of each controller and what the charts show of it.
    fn drawn(&self, case: &Case) -> impl Iterator<Item = (&Run, &Series)> {
        let id = case.id;
        let of_case = self.runs.iter().filter(move |run| run.case == id && run.part == Part::Tuning);
        of_case.filter_map(|run| Some((run, run.series.as_ref()?)))
    }
}

fn rate_chart(run: &Run, series: &Series) -> Chart {
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
