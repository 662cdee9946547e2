//! The page of the scoreboard.

use giusto_congestion::Algorithm;

use super::{
    RULE, Run, Scoreboard, Series,
    cases::Case,
    metrics::{FlowMetrics, Interval, PER_SECOND, Period, capacity, intervals, mean, static_periods, within},
};
use giusto::{
    record::{Distribution, RunRecord, Timeline},
    scenario::Scenario,
    view::{
        format::{UNKNOWN, count, grouped, or_unknown, percent, plural, short},
        html::{Block, Card, Cell, Chart, Column, Mark, Prose, Report, Series as Drawn, Table, Tone},
    },
};

/// What 95 % of the packets may wait.
const MOST_MS: f64 = 100.0;

/// What is drawn of a run.
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
    /// The page.
    pub fn report(&self, command: &str) -> Report {
        let mut report = Report::new("giusto reproduce rfc8867", self.verdict()).with_command(command);
        report.push(self.cards());
        report.push(self.overview());
        report.push(Prose::new(
            "The rule of agreement",
            RULE.iter().map(|&rule| Block::Paragraph(rule.to_owned())).collect(),
        ));
        for case in self.cases() {
            report.push(self.case_table(&case));
            for &controller in &self.plan.controllers {
                if let Some(chart) = self.rate_chart(&case, controller) {
                    report.push(chart);
                }
            }
            if let Some(chart) = self.delay_chart(&case) {
                report.push(chart);
            }
            report.push(self.periods_table(&case));
            report.push(self.flows_table(&case));
        }
        report
    }

    fn verdict(&self) -> String {
        let scores = self.plan.controllers.iter().map(|controller| {
            let (met, judged) = self.score(None, controller.name());
            (format!("{controller} {met}"), judged)
        });
        let (scores, judged): (Vec<String>, Vec<usize>) = scores.unzip();
        if let Some(early) = self.ended_early() {
            return format!("{early} Met so far: {}.", scores.join(", "));
        }
        format!(
            "Of {} expectations of RFC 8867 are met: {}.",
            judged.first().copied().unwrap_or_default(),
            scores.join(", ")
        )
    }

    fn cards(&self) -> Vec<Card> {
        let card = |controller: &Algorithm| {
            let (met, judged) = self.score(None, controller.name());
            if judged == 0 {
                return Card::new(controller.name(), self.score_in_words(None, controller.name()), "");
            }
            Card::new(controller.name(), met.to_string(), format!("of {judged} expectations are met"))
                .with_tone(tone(met, judged))
        };
        let mut cards: Vec<Card> = self.plan.controllers.iter().map(card).collect();
        let seeds = plural(self.plan.seeds.len() as u64, "seed", "seeds");
        let note = if self.ended_early().is_some() {
            format!("of {}", count(self.plan.runs() as u64))
        } else {
            format!("with {seeds} each")
        };
        cards.push(Card::new("Runs", count(self.runs.len() as u64), note));
        cards
    }

    fn overview(&self) -> Table {
        let controllers = || self.plan.controllers.iter().map(|controller| controller.name());
        let mut columns = vec![Column::words("case"), Column::words("what")];
        columns.extend(controllers().map(Column::words));
        let cell = |case: Option<&Case>, controller: &str| {
            let (met, judged) = self.score(case, controller);
            Cell::toned(self.score_in_words(case, controller), tone(met, judged))
        };
        let mut rows: Vec<Vec<Cell>> = self
            .cases()
            .map(|case| {
                let mut row: Vec<Cell> = vec![case.id.into(), case.what.into()];
                row.extend(controllers().map(|controller| cell(Some(&case), controller)));
                row
            })
            .collect();
        let mut all: Vec<Cell> = vec!["all".into(), Cell::default()];
        all.extend(controllers().map(|controller| cell(None, controller)));
        rows.push(all);
        Table {
            title: "The scoreboard".to_owned(),
            caption: "How many expectations of each case are met.".to_owned(),
            columns,
            rows,
            folded: false,
        }
    }

    fn case_table(&self, case: &Case) -> Table {
        let controllers = || self.plan.controllers.iter().map(|controller| controller.name());
        let mut columns = vec![Column::words("expectation"), Column::words("expected")];
        columns.extend(controllers().map(Column::words));
        let rows = self.expected(case).into_iter().map(|expected| {
            let mut row: Vec<Cell> = vec![expected.what.clone().into(), expected.bound().into()];
            row.extend(controllers().map(|controller| {
                if !self.has_run(Some(case), controller) {
                    return "not run".into();
                }
                let item = self.item(case, controller, &expected);
                let value = expected.found(&item);
                match (item.comparable, item.agrees) {
                    (false, _) => format!("{value} not judged").into(),
                    (_, true) => Cell::toned(format!("{value} met"), Tone::Good),
                    (_, false) => Cell::toned(format!("{value} not met"), Tone::Bad),
                }
            }));
            row
        });
        let repeat = self.plan.controllers.last().map(|&controller| case.command(controller, 1));
        Table {
            title: format!("{} {}", case.id, case.what),
            caption: format!(
                "The median over the seeds; met if met with every one. One run alone: `{}`.",
                repeat.unwrap_or_default()
            ),
            columns,
            rows: rows.collect(),
            folded: false,
        }
    }

    /// Utilisation and convergence in each time in which nothing changes.
    fn periods_table(&self, case: &Case) -> Table {
        let drawn = |controller: &Algorithm| self.first_run(case, *controller);
        let runs: Vec<&Run> = self.plan.controllers.iter().filter_map(drawn).collect();
        let mut columns =
            vec![Column::words("time"), Column::words("bottleneck"), Column::number("capacity (Mbit/s)")];
        columns.extend(runs.iter().map(|run| Column::number(run.controller)));
        let cell = |period: &Period| {
            let slowest = period.flows.iter().map(|flow| flow.convergence_s);
            // One that has not converged makes it none.
            let slowest: Option<Vec<f64>> = slowest.collect();
            let slowest = slowest.and_then(|all| all.into_iter().max_by(f64::total_cmp));
            let after = or_unknown(slowest, |seconds| format!("{seconds:.1} s"));
            Cell::from(format!("{}, {after}", or_unknown(period.utilisation_ratio, percent)))
        };
        let periods = runs.first().map(|run| &run.metrics.periods[..]).unwrap_or_default();
        let rows = periods.iter().enumerate().map(|(place, period)| {
            let mut row: Vec<Cell> = vec![
                format!("{} to {} s", period.from_s, period.to_s).into(),
                period.link.clone().into(),
                or_unknown(period.capacity_bps, |bps| short(bps / 1e6)).into(),
            ];
            row.extend(runs.iter().map(|run| run.metrics.periods.get(place).map(cell).unwrap_or_default()));
            row
        });
        Table {
            title: format!("{}: utilisation and convergence", case.id),
            caption: "What the media send of the capacity in the second half of each time in which nothing changes, and after \
                      how long the slowest flow has converged. First seed."
                .to_owned(),
            columns,
            rows: rows.collect(),
            folded: true,
        }
    }

    /// The metrics of each flow over its whole time.
    fn flows_table(&self, case: &Case) -> Table {
        let columns = vec![
            Column::words("flow"),
            Column::words("controller"),
            Column::number("sent (kbit/s)"),
            Column::number("goodput (kbit/s)"),
            Column::number("loss"),
            Column::number("delay p50 (ms)"),
            Column::number("p95"),
            Column::number("p99"),
            Column::number("queueing delay p50 (ms)"),
            Column::number("p95"),
            Column::number("p99"),
            Column::number("frame delay p95 (ms)"),
            Column::number("feedback (kbit/s)"),
        ];
        let mean = |mean: f64, deviation: Option<f64>| {
            format!("{} ± {}", grouped(mean / 1e3), or_unknown(deviation, |bps| grouped(bps / 1e3)))
        };
        let row = |run: &Run, of: &FlowMetrics| {
            let flow = run.result.flows.iter().find(|flow| flow.id == of.id)?;
            let under = flow.controller.clone().unwrap_or_else(|| UNKNOWN.to_owned());
            let mut row: Vec<Cell> = vec![of.id.clone().into(), under.into()];
            row.push(mean(of.sent_rate_bps, Some(of.sent_rate_sd_bps)).into());
            row.push(or_unknown(of.goodput_bps, |bps| mean(bps, of.goodput_sd_bps)).into());
            row.push(or_unknown(flow.loss_ratio, percent).into());
            for quantiles in [flow.delay_ms, flow.queue_delay_ms] {
                let of: [fn(Distribution) -> f64; 3] = [|all| all.p50, |all| all.p95, |all| all.p99];
                row.extend(of.map(|of| Cell::from(or_unknown(quantiles.map(of), short))));
            }
            row.push(or_unknown(flow.frame_delay_ms.map(|delay| delay.p95), short).into());
            row.push(or_unknown(flow.feedback_rate_bps, |bps| short(bps / 1e3)).into());
            Some(row)
        };
        let runs = self.plan.controllers.iter().filter_map(|&controller| self.first_run(case, controller));
        let rows = runs.flat_map(|run| run.metrics.flows.iter().filter_map(move |flow| row(run, flow)));
        Table {
            title: format!("{}: flows", case.id),
            caption: "Means and standard deviations over intervals of 200 ms. TCP is there once for each controller that it \
                      meets, in their order. First seed."
                .to_owned(),
            columns,
            rows: rows.collect(),
            folded: true,
        }
    }

    fn rate_chart(&self, case: &Case, controller: Algorithm) -> Option<Chart> {
        let drawn = self.drawn(case, controller)?;
        let title = format!("{}: {controller}", case.id);
        let caption =
            "Received rate of each media flow, second by second; the line of steps is the capacity.";
        let mut chart = Chart::new(title, caption).with_axes("time (s)", "rate (Mbit/s)");
        for (name, points) in &drawn.rates {
            chart = chart.with_series(Drawn::line(name.clone(), points.clone()));
        }
        for (name, points) in &drawn.capacities {
            if !points.is_empty() {
                chart = chart.with_series(Drawn::limit(name.clone(), points.clone()));
            }
        }
        let rates = drawn.rates.iter().chain(&drawn.capacities).flat_map(|(_, points)| points);
        let highest = rates.map(|(_, rate)| *rate).fold(0.0, f64::max);
        chart.y.range = Some((0.0, highest * 1.12));
        Some(chart)
    }

    fn delay_chart(&self, case: &Case) -> Option<Chart> {
        let caption = "The maximum queueing delay of the packets of media, in each second.";
        let mut chart = Chart::new(format!("{}: queueing delay", case.id), caption)
            .with_axes("time (s)", "delay (ms)")
            .with_full_width()
            .with_mark(Mark::AtY(MOST_MS, "95 % at most".to_owned()));
        let mut highest = MOST_MS;
        for &controller in &self.plan.controllers {
            let Some(drawn) = self.drawn(case, controller) else { continue };
            highest = drawn.waited.iter().map(|(_, ms)| *ms).fold(highest, f64::max);
            let points = drawn.waited.clone();
            chart = chart.with_series(Drawn::line(controller.name(), points));
        }
        chart.y.range = Some((0.0, highest * 1.12));
        (!chart.series.is_empty()).then_some(chart)
    }

    fn drawn(&self, case: &Case, controller: Algorithm) -> Option<&Series> {
        self.first_run(case, controller)?.series.as_ref()
    }

    /// The run with the first seed.
    fn first_run(&self, case: &Case, controller: Algorithm) -> Option<&Run> {
        self.runs
            .iter()
            .find(|run| run.case == case.id && run.controller == controller.name() && run.series.is_some())
    }
}

fn tone(met: usize, judged: usize) -> Tone {
    if judged == 0 {
        Tone::Plain
    } else if met == judged {
        Tone::Good
    } else if met * 2 >= judged {
        Tone::Fair
    } else {
        Tone::Bad
    }
}
