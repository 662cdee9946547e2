//! How the reproduction is shown: a table in the terminal, and a report.

use super::{Firebind, Outcome, PUBLISHED_DURATION, Plan, RULE, Strategy};
use crate::{Item, Reproduction};
use giusto::{
    measured::result::rate_error_ppm,
    view::{
        format::{grouped, or_unknown, plural, ppm, short},
        html::{
            Block, Card, Cell, Chart, Column as ReportColumn, Mark, Prose, Report, Section, Series, Table,
            Tone,
        },
        table::{Column, fitted},
    },
};

/// A row as it is shown.
struct Line {
    outcome: Outcome,
    item: Item,
}

/// The columns, in the terminal and in the report.
const COLUMNS: &[Column<Line>] = &[
    Column::words("strategy", 0, |line| line.outcome.row.strategy.name().to_owned()),
    Column::number("rate", 0, |line| line.outcome.row.rate.to_string()),
    Column::number("size\nB", 3, |line| line.outcome.row.size.as_bytes().to_string()),
    Column::number("n", 3, |line| line.outcome.row.packets_per_cycle.to_string()),
    Column::number("published\nbit/s", 0, |line| grouped(line.item.published)),
    Column::number("predicted\nbit/s", 1, |line| figure(line, "predicted_bps", grouped)),
    Column::number("ours, their\nformula", 0, |line| or_unknown(line.item.ours, grouped)),
    Column::number("ours, (N-1)\nbit/s", 2, |line| figure(line, "ours_rx_rate_bps", grouped)),
    Column::number("our error\nppm", 2, |line| figure(line, "ours_error_ppm", ppm)),
    Column::words("verdict", 0, |line| line.item.verdict().to_owned()),
];

/// What the columns mean, below the table.
const LEGEND: &str = "Predicted: what their formula, N cycles over N-1 periods, reads of a sender on time. Our error: the \
                      rate of our sender by the (N-1) rule against the rate asked for.";

fn figure(line: &Line, name: &str, write: impl Fn(f64) -> String) -> String {
    or_unknown(line.item.figures.get(name).copied(), write)
}

impl Firebind {
    /// The published rows and ours, at most `width` characters wide where that can be done.
    pub fn table(&self, width: u16) -> String {
        let mut text = fitted(COLUMNS, &self.lines(), width);
        text.push('\n');
        for paragraph in std::iter::once(LEGEND.to_owned()).chain(self.carried()) {
            for line in wrapped(&paragraph, width.into()) {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }

    /// The page of this reproduction.
    pub fn report(&self, command: &str) -> Report {
        let all = self.reproduction();
        let mut report = Report::new("giusto reproduce firebind", self.verdict(&all)).with_command(command);
        report.push(self.cards(&all));
        report.push(self.rows_table());
        report.sections.extend(self.charts());
        report.push(all.to_table());
        report.push(explanation());
        report
    }

    fn lines(&self) -> Vec<Line> {
        let line = |outcome: &Outcome| Line { item: self.row_item(outcome), outcome: outcome.clone() };
        self.rows.iter().map(line).collect()
    }

    fn carried(&self) -> Option<String> {
        (self.plan.duration != PUBLISHED_DURATION).then(|| {
            format!(
                "Our runs lasted {} instead of {PUBLISHED_DURATION}; up to 100 Mbit/s, readings by their formula are carried \
                 to {PUBLISHED_DURATION}.",
                self.plan.duration
            )
        })
    }

    fn verdict(&self, all: &Reproduction) -> String {
        let rows: Vec<&Item> =
            all.items.iter().take(self.rows.len()).filter(|item| item.comparable).collect();
        let agreeing = rows.iter().filter(|item| item.agrees).count();
        format!(
            "{agreeing} of {} published rates up to 100 Mbit/s come out again within {} ppm when a sender on time is read by \
             the published formula.",
            rows.len(),
            short(self.plan.bound_ppm())
        )
    }

    fn cards(&self, all: &Reproduction) -> Vec<Card> {
        let rest = all.items.len() - all.comparable();
        let largest_error = self
            .rows
            .iter()
            .filter(|outcome| outcome.row.fits_link())
            .filter_map(|outcome| rate_error_ppm(outcome.rx_rate_bps()?, outcome.row.rate.as_bps() as f64))
            .max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let published_error = self
            .rows
            .iter()
            .filter(|outcome| outcome.row.fits_link())
            .filter_map(|outcome| {
                rate_error_ppm(outcome.row.published.as_bps() as f64, outcome.row.rate.as_bps() as f64)
            })
            .max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let tone = if all.agreeing() == all.comparable() { Tone::Good } else { Tone::Fair };
        vec![
            Card::new(
                "Agree",
                format!("{} of {}", all.agreeing(), all.comparable()),
                "comparable figures and statements",
            )
            .with_tone(tone),
            Card::new("Not comparable", rest.to_string(), "they need a Gigabit link"),
            Card::new(
                "Largest published error",
                or_unknown(published_error, in_ppm),
                "up to 100 Mbit/s, as read by N over N−1",
            ),
            Card::new(
                "Our largest error",
                or_unknown(largest_error, in_ppm),
                "same loops, by the (N−1) rule",
            ),
        ]
    }

    fn rows_table(&self) -> Table {
        use comfy_table::CellAlignment::Right;
        let columns = COLUMNS.iter().map(|column| {
            let name = column.header.replace('\n', " ");
            if column.alignment == Right { ReportColumn::number(name) } else { ReportColumn::words(name) }
        });
        let row = |line: &Line| COLUMNS.iter().map(|column| Cell::from((column.cell)(line))).collect();
        let runs = match self.plan {
            Plan { repeats: 0 | 1, duration } => format!("One run of {duration} for each row."),
            Plan { repeats, duration } => {
                format!(
                    "Middle value of {} of {duration}, as published.",
                    plural(repeats.into(), "run", "runs")
                )
            }
        };
        let carried = self.carried().map(|text| format!(" {text}")).unwrap_or_default();
        Table {
            title: "The two published tables".to_owned(),
            caption: format!("{runs}{carried} {LEGEND}"),
            columns: columns.collect(),
            rows: self.lines().iter().map(row).collect(),
            folded: false,
        }
    }

    fn charts(&self) -> Vec<Section> {
        let all = [self.rest_chart(), self.error_chart(), self.link_chart()];
        all.into_iter().filter(|chart| !chart.series.is_empty()).map(Section::from).collect()
    }

    /// What the counting rule leaves unexplained.
    fn rest_chart(&self) -> Chart {
        let bound = self.plan.bound_ppm();
        let comparable = || self.rows.iter().filter(|outcome| outcome.row.fits_link());
        let published = comparable().filter_map(|outcome| {
            let rest = outcome.published_rest_ppm()?;
            Some((label(outcome), rest, rest - bound, rest + bound))
        });
        let ours = comparable().filter_map(|outcome| {
            let predicted = outcome.predicted_bps()?;
            let readings = outcome.readings(self.plan.duration);
            let ppm = |bps: f64| rate_error_ppm(bps, predicted);
            let low = ppm(readings.iter().copied().reduce(f64::min)?)?;
            let high = ppm(readings.iter().copied().reduce(f64::max)?)?;
            Some((label(outcome), outcome.rest_ppm(self.plan.duration)?, low, high))
        });
        Chart::new(
            "What the counting rule leaves unexplained",
            "Readings against the prediction; zero is a sender on time. The bar of a published figure is what counts as agreement, ours spans our runs.",
        )
        .with_axes("", "reading against prediction (ppm)")
        .with_series(Series::Estimates { name: "published".to_owned(), estimates: published.collect() })
        .with_series(Series::Estimates { name: "ours".to_owned(), estimates: ours.collect() })
        .with_mark(Mark::AtY(0.0, String::new()))
    }

    /// What the counting rule adds.
    fn error_chart(&self) -> Chart {
        /// Bars on a logarithmic axis have no zero: this stands for less.
        const LEAST: f64 = 0.1;
        let bars = |name: &str, value: fn(&Outcome) -> Option<f64>| {
            let bars = self.rows.iter().filter(|outcome| outcome.row.fits_link()).filter_map(|outcome| {
                let error = rate_error_ppm(value(outcome)?, outcome.row.rate.as_bps() as f64)?;
                Some((label(outcome), error.abs().max(LEAST), ppm(error)))
            });
            Series::Bars { name: name.to_owned(), bars: bars.collect() }
        };
        Chart::new(
            "What the counting rule adds",
            "Error of the rate, without sign and logarithmic; the text at each bar has the sign. Same loops, other counting.",
        )
        .with_axes("", "error (ppm)")
        .with_log_y()
        .with_series(bars("published", |outcome| Some(outcome.row.published.as_bps() as f64)))
        .with_series(bars("ours, (N−1) rule", Outcome::rx_rate_bps))
    }

    /// The rows that measured the link.
    fn link_chart(&self) -> Chart {
        let bars = |name: &str, value: &dyn Fn(&Outcome) -> Option<f64>| {
            let bars = self.rows.iter().filter(|outcome| !outcome.row.fits_link()).filter_map(|outcome| {
                let mbps = value(outcome)? / 1e6;
                Some((label(outcome), mbps, grouped(mbps)))
            });
            Series::Bars { name: name.to_owned(), bars: bars.collect() }
        };
        Chart::new(
            "Above the link's rate",
            "The published figures stay below what a Gigabit link carries as payload; loopback is limited by the processor.",
        )
        .with_axes("", "rate (Mbit/s)")
        .with_series(bars("published", &|outcome| Some(outcome.row.published.as_bps() as f64)))
        .with_series(bars("Gigabit link, arithmetic", &|outcome| Some(outcome.row.link_ceiling_bps())))
        .with_series(bars("ours over loopback", &|outcome| {
            giusto::measured::result::median(outcome.readings(self.plan.duration))
        }))
    }
}

fn explanation() -> Prose {
    let mut blocks = vec![
            Block::Paragraph(
                "Their receiver adds up all bits and divides by the time from the first datagram to the last. N cycles enclose \
                 only N−1 periods, so the reading is too high by N/(N−1): by 1.6 % at 10 kbit/s, where 63 cycles fit 10 s, and \
                 by 0.011 % at 100 Mbit/s."
                    .to_owned(),
            ),
            Block::Paragraph("The rule, stated before anything was measured:".to_owned()),
        ];
    blocks.extend(RULE.iter().map(|sentence| Block::Paragraph((*sentence).to_owned())));
    blocks.push(Block::Definitions(vec![
            ("Published".to_owned(), Strategy::SendSleep.source().to_owned()),
            (
                "Their set-up".to_owned(),
                "Two machines (Ubuntu 14.04.4, kernel 3.13) with Gigabit interfaces and a switch between them; middle value \
                 of 3 runs of 10 s; payload bytes, as the receiver read them."
                    .to_owned(),
            ),
            (
                "Ours".to_owned(),
                "Our own implementation of the two loops over loopback, waiting by watching the clock as their program does \
                 unless told otherwise; kernel time stamps where the system grants them."
                    .to_owned(),
            ),
            (
                "Why two columns for ours".to_owned(),
                "One reads our run by their formula, to be compared with what they published. The other counts N−1 cycles \
                 over N−1 periods, and shows what the sender kept."
                    .to_owned(),
            ),
        ]));
    Prose::new("How to read this", blocks)
}

fn label(outcome: &Outcome) -> String {
    let short = match outcome.row.strategy {
        Strategy::SendSleep => "sleep",
        Strategy::SendCompare => "compare",
    };
    format!("{short}\n{}\n{} B", outcome.row.rate, outcome.row.size.as_bytes())
}

fn in_ppm(value: f64) -> String {
    format!("{} ppm", ppm(value))
}

/// `text` in lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
