//! The table in the terminal, and the report.

use giusto_pace::Strategy;

use serde::Serialize;

use super::{Firebind, Outcome, PUBLISHED_DURATION, Plan, TEXT};
use crate::{
    item::{Item, Reproduction},
    page::{Findings, Page, PageTable, bars, figure, ranges},
};
use giusto::{
    measured::{median::median, result::rate_error_ppm},
    view::{
        format::{grouped, load, or_unknown, plural, ppm, short},
        html::{Card, Chart, Mark, Section, Series},
        table::{Column, Grid},
    },
};

/// A row with its judgement.
type Line = (Outcome, Item, &'static str);

/// The columns in the terminal and in the report.
const COLUMNS: [Column<Line>; 10] = [
    Column::words("strategy", 0, |(outcome, ..)| outcome.row.strategy.name().to_owned()),
    Column::number("rate", 0, |(outcome, ..)| outcome.row.rate.to_string()),
    Column::number("size\nB", 3, |(outcome, ..)| outcome.row.size.as_bytes().to_string()),
    Column::number("n", 3, |(outcome, ..)| outcome.row.packets_per_cycle.to_string()),
    Column::number("published\nbit/s", 0, |(_, item, _)| grouped(item.published)),
    Column::number("predicted\nbit/s", 1, |(_, item, _)| known(item, "predicted_bps", grouped)),
    Column::number("ours, their\nformula", 0, |(_, item, _)| or_unknown(item.ours, grouped)),
    Column::words("verdict", 0, |(_, item, _)| item.verdict().to_owned()),
    Column::number("measured\n(N-1)", 4, |(_, item, _)| known(item, "ours_rx_rate_bps", grouped)),
    Column::words("measured\nverdict", 2, |(outcome, _, measured)| {
        if outcome.row.fits_link() { (*measured).to_owned() } else { "–".to_owned() }
    }),
];

/// Explains the columns.
const LEGEND: &str = "Predicted: the reading by their formula of a sender on time, N over N-1 periods.\n\
                      Ours: in virtual time; above the link's rate measured.\n\
                      Measured: our runs on this machine's clock, N-1 cycles over N-1 periods.";

fn known(item: &Item, name: &str, write: impl Fn(f64) -> String) -> String {
    or_unknown(item.figures.get(name).copied(), write)
}

impl Findings for Firebind {
    fn printed(&self) -> impl Serialize {
        self.reproduction()
    }

    fn page(&self) -> Page {
        let items = self.reproduction();
        let largest = |rate: &dyn Fn(&Outcome) -> Option<f64>| {
            let errors = self.comparable().filter_map(|outcome| outcome.error_ppm(rate(outcome)?));
            let largest = errors.max_by(|a, b| a.abs().total_cmp(&b.abs()));
            or_unknown(largest, |error| format!("{} ppm", ppm(error)))
        };
        let [theirs, ours] = [largest(&Outcome::published), largest(&Outcome::rx_rate_bps)];
        let runs = plural(self.plan.repeats.max(1).into(), "run", "runs");
        let notes: Vec<String> = self.scaled().into_iter().chain(self.busy()).collect();
        let caption =
            format!("Median of {runs} of {} for each row. {LEGEND} {}", self.plan.duration, notes.join(" "));
        let pictures = [self.rest_chart(), self.error_chart(), self.link_chart()];
        Page {
            headline: self.headline(&items),
            cards: vec![
                Card::new("Largest published error", theirs, "up to 100 Mbit/s, counted as N over N−1"),
                Card::new("Our largest error", ours, "same loops, counted as N−1 over N−1"),
            ],
            pictures: pictures
                .into_iter()
                .filter(|chart| !chart.series.is_empty())
                .map(Section::from)
                .collect(),
            tables: vec![PageTable {
                key: "rows",
                title: "The two published tables".to_owned(),
                caption,
                grid: Grid::of(&COLUMNS, &self.lines()),
            }],
            notes: std::iter::once(LEGEND.to_owned()).chain(notes).map(|note| note + "\n").collect(),
            text: TEXT,
            items,
            ..Page::default()
        }
    }
}

impl Firebind {
    fn lines(&self) -> Vec<Line> {
        let line =
            |outcome: &Outcome| (outcome.clone(), self.row_item(outcome), self.measured_verdict(outcome));
        self.rows.iter().map(line).collect()
    }

    /// Why runs on this machine's clock were not judged.
    fn busy(&self) -> Option<String> {
        self.busy_cpu_ratio().map(|ratio| {
            format!(
                "Not judged: this machine was busy. A sender that never sleeps had {} % of a core; run it again on a quiet machine.",
                load(ratio)
            )
        })
    }

    fn scaled(&self) -> Option<String> {
        let text = format!(
            "Runs of {} instead of {PUBLISHED_DURATION}; readings up to 100 Mbit/s are scaled to {PUBLISHED_DURATION}.",
            self.plan.duration
        );
        (self.plan.duration != PUBLISHED_DURATION).then_some(text)
    }

    fn headline(&self, all: &Reproduction) -> String {
        let rows = || all.items.iter().take(self.rows.len()).filter(|item| item.comparable);
        format!(
            "{} of {} published rates up to 100 Mbit/s are reproduced within {} ppm by reading a sender on time with the published \
             formula, which divides N cycles by N−1 periods.",
            rows().filter(|item| item.does_agree()).count(),
            rows().count(),
            short(Plan::FULL.bound_ppm())
        )
    }

    fn rest_chart(&self) -> Chart {
        let bound = self.plan.bound_ppm();
        let published = self.comparable().filter_map(|outcome| {
            let rest = outcome.published_rest_ppm()?;
            Some((label(outcome), rest, rest - bound, rest + bound))
        });
        let ours = self.comparable().filter_map(|outcome| {
            let predicted = outcome.predicted_bps()?;
            let readings = outcome.readings(self.plan.duration);
            let errors = || readings.iter().filter_map(|bps| rate_error_ppm(*bps, predicted));
            let (low, high) = (errors().reduce(f64::min)?, errors().reduce(f64::max)?);
            Some((label(outcome), outcome.rest_ppm(self.plan.duration)?, low, high))
        });
        let series = vec![ranges("published", published), ranges("ours", ours)];
        figure(
            "Errors that the counting rule does not explain",
            ["", "reading against prediction (ppm)"],
            None,
            series,
        )
        .with_mark(Mark::AtY(0.0, String::new()))
    }

    fn error_chart(&self) -> Chart {
        /// Bars on a logarithmic axis have no zero: this stands for smaller errors.
        const MIN: f64 = 0.1;
        let errors = |name: &str, value: fn(&Outcome) -> Option<f64>| {
            let bar = |outcome: &Outcome| {
                let error = outcome.error_ppm(value(outcome)?)?;
                Some((label(outcome), error.abs().max(MIN), ppm(error)))
            };
            bars(name, self.comparable().filter_map(bar))
        };
        let series =
            vec![errors("published", Outcome::published), errors("ours, (N−1) rule", Outcome::rx_rate_bps)];
        figure("Errors that the counting rule adds", ["", "error (ppm)"], None, series).with_log_y()
    }

    fn link_chart(&self) -> Chart {
        let rates = |name: &str, value: &dyn Fn(&Outcome) -> Option<f64>| -> Series {
            let rows = self.rows.iter().filter(|outcome| !outcome.row.fits_link());
            let bar = |outcome: &Outcome| {
                let mbps = value(outcome)? / 1e6;
                Some((label(outcome), mbps, grouped(mbps)))
            };
            bars(name, rows.filter_map(bar))
        };
        let series = vec![
            rates("published", &Outcome::published),
            rates("Gigabit link, arithmetic", &|outcome| Some(outcome.row.link_ceiling_bps())),
            rates("ours over loopback", &|outcome| median(outcome.readings(self.plan.duration))),
        ];
        figure("Above the link's rate", ["", "rate (Mbit/s)"], None, series)
    }
}

fn label(outcome: &Outcome) -> String {
    let short = match outcome.row.strategy {
        Strategy::SendSleep => "sleep",
        _ => "compare",
    };
    format!("{short}\n{}\n{} B", outcome.row.rate, outcome.row.size.as_bytes())
}
