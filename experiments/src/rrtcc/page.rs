//! How the reproduction is shown: a table in the terminal, and a report.

use super::{
    RULE, Rrtcc,
    network::{Bandwidths, State},
    published,
    queued::{self, Comparison, Contender, QUEUE, Queued},
    readings::{Figures, Reading, of_line_2},
    session::{Estimate, Outcome, Pair, Sender},
    statements::{STATEMENTS, Spread},
};
use crate::{Item, Reproduction, in_unit};
use giusto::view::{
    format::{or_unknown, percent, rate, short},
    html::{self, Block, Card, Cell, Chart, Mark, Prose, Report, Section, Series},
    table::{Column, fitted},
};

/// An item and its name in a few words.
struct Line {
    short: String,
    item: Item,
}

/// The columns in the terminal.
const COLUMNS: &[Column<Line>] = &[
    Column::words("statement", 0, |line| line.short.clone()),
    Column::number("published", 0, |line| in_unit(line.item.published, &line.item.unit)),
    Column::number("ours", 0, |line| number(&line.item, line.item.ours)),
    Column::number("from", 1, |line| number(&line.item, line.item.ours_low)),
    Column::number("to", 1, |line| number(&line.item, line.item.ours_high)),
    Column::words("", 0, |line| line.item.verdict().to_owned()),
];

/// A value without the unit that stands beside it.
fn number(item: &Item, value: Option<f64>) -> String {
    let text = or_unknown(value, |value| in_unit(value, &item.unit));
    text.strip_suffix(item.unit.as_str()).unwrap_or(&text).trim_end().to_owned()
}

/// What is drawn of a sender: a name, who, and a figure of a run.
type Quantity<'a> = (&'a str, Sender, fn(&Outcome) -> f64);

/// A rate in Mbit/s, for plots.
fn mega(bps: f64) -> f64 {
    bps / 1e6
}

impl Rrtcc {
    /// Every statement, at most `width` characters wide where that can be done.
    pub fn table(&self, width: u16) -> String {
        let all = self.reproduction();
        let lines: Vec<Line> = all
            .items
            .iter()
            .map(|item| {
                let statement = STATEMENTS.iter().find(|statement| statement.id == item.id);
                let cited = || item.id.replace("table3-", "Table 3: ").replace('-', ", ");
                Line { short: statement.map_or_else(cited, |it| it.short.to_owned()), item: item.clone() }
            })
            .collect();
        let mut text = fitted(COLUMNS, &lines, width);
        if !self.complete {
            text.push_str("\nEnded early: what did not run is not judged.\n");
        }
        text = format!(
            "{text}\nAgreeing: {} of {} that could be compared. Ours is the median of {} seeds (Table 3: {}), from the 5th to the 95th \
             percentile.\n",
            all.agreeing(),
            all.comparable(),
            self.plan.seeds,
            self.plan.fairness_seeds,
        );
        for contender in Contender::ALL {
            let median = |value: fn(&Queued) -> f64| queued::median(&self.queued, contender, value);
            let (Some(goodput), Some(loss), Some(delay)) =
                (median(|it| it.goodput_bps), median(|it| it.loss_ratio), median(|it| it.delay_ms[1]))
            else {
                continue;
            };
            text = format!(
                "{text}With a queue of 300 ms, {}: goodput {}, loss {}, 95th percentile of delay {delay:.0} ms.\n",
                contender.name(),
                rate(goodput),
                percent(loss),
            );
        }
        text
    }

    /// The page of this reproduction.
    pub fn report(&self, command: &str) -> Report {
        let all = self.reproduction();
        let mut report = Report::new("giusto reproduce rrtcc", self.verdict(&all)).with_command(command);
        report.push(self.cards(&all));
        report.push(in_brief());
        let first = self.runs.get(1).and_then(|runs| runs.first());
        report.sections.extend(first.into_iter().flat_map(figures_16_and_17).map(Section::from));
        if self.runs.len() == Bandwidths::TABLE_9.len() {
            report.sections.extend([self.figure_18(), self.figure_19(), self.figure_20()].map(Section::from));
        }
        report.sections.extend(self.queued.first().into_iter().flat_map(with_a_queue).map(Section::from));
        report.sections.extend(self.queue_table().map(Section::from));
        let caption = format!("By the rule below; ours is the median of {} seeds.", self.plan.seeds);
        report.push(html::Table { caption, ..all.to_table() });
        report.sections.extend(self.readings_table().map(Section::from));
        report.sections.extend(published::inputs().into_iter().map(Section::from));
        report.push(explanation());
        report
    }

    fn verdict(&self, all: &Reproduction) -> String {
        if !self.complete {
            return format!(
                "Ended early: of the {} statements that could be compared so far {} come out again.",
                all.comparable(),
                all.agreeing()
            );
        }
        format!(
            "Of {} statements that could be compared {} come out again; the mean estimate of 7.08 Mbit/s, above all that the network \
             lets through, does not.",
            all.comparable(),
            all.agreeing()
        )
    }

    fn cards(&self, all: &Reproduction) -> Vec<Card> {
        let ours = |id: &str| {
            let item = all.items.iter().find(|item| item.id == id);
            or_unknown(item.and_then(|item| item.ours), |ours| {
                if item.is_some_and(|item| item.unit == "bit/s") { rate(ours) } else { short(ours) }
            })
        };
        let delay = queued::median(&self.queued, Contender::Rrtcc, |it| it.delay_ms[1]);
        vec![
            Card::new(
                "Agree",
                format!("{} of {}", all.agreeing(), all.comparable()),
                "of what could be compared",
            ),
            Card::new("Mean estimate", ours("mean-estimate"), "published: 7.083 Mbit/s"),
            Card::new("Loss, UDP over RRTCC", ours("loss-two-to-three-times"), "published: 2 to 3"),
            Card::new(
                "Delay with a queue",
                or_unknown(delay, |ms| format!("{ms:.0} ms")),
                "RRTCC, 95th percentile; without a queue 12 ms",
            ),
        ]
    }

    /// A quantity of both senders over the lines of Table 9: median and range.
    fn by_line(&self, quantities: &[Quantity<'_>]) -> Vec<Series> {
        let series = |(name, sender, value): &Quantity<'_>| {
            let points = self.runs.iter().zip(&Bandwidths::TABLE_9).filter_map(|(pairs, bandwidths)| {
                let spread = Spread::of(pairs.iter().map(|pair| value(pair.of(*sender))))?;
                Some((format!("line {}", bandwidths.number), spread.median, spread.low, spread.high))
            });
            Series::Estimates { name: (*name).to_owned(), estimates: points.collect() }
        };
        quantities.iter().map(series).collect()
    }

    fn chart_by_line(&self, chart: Chart, quantities: &[Quantity<'_>]) -> Chart {
        self.by_line(quantities).into_iter().fold(chart, Chart::with_series)
    }

    fn figure_18(&self) -> Chart {
        let mut chart = Chart::new(
            "Figure 18: average loss by line of Table 9",
            "\"Much more lower loss ratio\" with RRTCC on lines 1 and 2, UDP's \"small enough\" on 3 and 4. Medians over all seeds, \
             from the 5th to the 95th percentile.",
        )
        .with_axes("", "lost (%)");
        chart.y.range = Some((0.0, 65.0));
        self.chart_by_line(
            chart,
            &[
                ("UDP", Sender::Udp, |it| it.loss_ratio() * 100.0),
                ("RRTCC", Sender::Rrtcc, |it| it.loss_ratio() * 100.0),
            ],
        )
    }

    fn figure_19(&self) -> Chart {
        let mut chart = Chart::new(
            "Figure 19: average sending rate by line of Table 9",
            "\"Just a little bit lower\" on lines 1 and 2, \"approximate\" on 3 and 4.",
        )
        .with_axes("", "sent (Mbit/s)");
        chart.y.range = Some((0.0, 10.0));
        self.chart_by_line(
            chart,
            &[
                ("UDP", Sender::Udp, |it| mega(it.sent_bps())),
                ("RRTCC", Sender::Rrtcc, |it| mega(it.sent_bps())),
            ],
        )
    }

    fn figure_20(&self) -> Chart {
        let mut chart = Chart::new(
            "Figure 20: sending rate and goodput by line of Table 9",
            "\"The goodput when sender using UDP congestion control is quite the same (a little bit higher) in comparison with \
             RRTCC.\"",
        )
        .with_axes("", "rate (Mbit/s)")
        .with_full_width();
        chart.y.range = Some((0.0, 10.0));
        self.chart_by_line(
            chart,
            &[
                ("UDP, sent", Sender::Udp, |it| mega(it.sent_bps())),
                ("RRTCC, sent", Sender::Rrtcc, |it| mega(it.sent_bps())),
                ("UDP, goodput", Sender::Udp, |it| mega(it.goodput_bps())),
                ("RRTCC, goodput", Sender::Rrtcc, |it| mega(it.goodput_bps())),
            ],
        )
    }

    fn queue_table(&self) -> Option<html::Table> {
        use html::Column;
        if self.queued.is_empty() {
            return None;
        }
        let row = |name: String, [sent, goodput, loss, p50, p95, over]: [Option<f64>; 6]| {
            let ms = |value: Option<f64>| or_unknown(value, |ms| format!("{ms:.0} ms"));
            let cells: [String; 7] = [
                name,
                or_unknown(sent, rate),
                or_unknown(goodput, rate),
                or_unknown(loss, percent),
                ms(p50),
                ms(p95),
                or_unknown(over, percent),
            ];
            cells.map(Into::into).to_vec()
        };
        let mut rows = Vec::new();
        for sender in [Sender::Udp, Sender::Rrtcc] {
            let of = |value: fn(&Outcome) -> f64| {
                Spread::of(self.queued.iter().map(|it| value(it.coin.of(sender)))).map(|spread| spread.median)
            };
            rows.push(row(
                format!("{}, no queue", sender.name()),
                [
                    of(Outcome::sent_bps),
                    of(Outcome::goodput_bps),
                    of(Outcome::loss_ratio),
                    of(|it| it.mean_delay_ms),
                    // Normal with a deviation of 1 ms.
                    of(|it| it.mean_delay_ms + 1.645),
                    (sender == Sender::Rrtcc)
                        .then(|| of(|it| it.over_uses as f64 / it.sent_packets as f64))
                        .flatten(),
                ],
            ));
        }
        for contender in Contender::ALL {
            let of = |value: fn(&Queued) -> f64| queued::median(&self.queued, contender, value);
            rows.push(row(
                format!("{}, queue", contender.name()),
                [
                    of(|it| it.sent_bps),
                    of(|it| it.goodput_bps),
                    of(|it| it.loss_ratio),
                    of(|it| it.delay_ms[0]),
                    of(|it| it.delay_ms[1]),
                    (contender != Contender::Udp).then(|| of(|it| it.over_use_ratio)).flatten(),
                ],
            ));
        }
        Some(html::Table {
            title: "With and without a queue".to_owned(),
            caption: format!(
                "60 s of packets of 1200 B at the capacities of Table 8, medians of {} seeds. The queue is drop-tail and holds \
                 {:.0} ms at the rate of Idle. Over-use: the share of packets at which the delay said so.",
                self.queued.len(),
                QUEUE.as_millis()
            ),
            columns: vec![
                Column::words("sender"),
                Column::number("sent"),
                Column::number("goodput"),
                Column::number("lost"),
                Column::number("delay, median"),
                Column::number("delay, 95th percentile"),
                Column::number("over-use"),
            ],
            rows,
            folded: false,
        })
    }

    fn readings_table(&self) -> Option<html::Table> {
        use html::Column;
        let judged = Reading::judge("as judged: packets of 60,000 B, 67 s", self.runs.get(1)?);
        let differing = |reading: &Reading| {
            let pairs = reading.verdicts.iter().zip(&judged.verdicts);
            let names: Vec<&str> = pairs.filter(|(a, b)| a.1 != b.1).map(|(a, _)| a.0).collect();
            if names.is_empty() { "none".to_owned() } else { names.join("; ") }
        };
        let row = |reading: &Reading| {
            let Figures { rate_bps, udp_loss, rrtcc_loss, goodputs, over_use, reports } = reading.figures;
            let cells: Vec<Cell> = [
                reading.name.to_owned(),
                or_unknown(reports, |reports| format!("{reports:.0}")),
                or_unknown(rate_bps, rate),
                or_unknown(udp_loss, percent),
                or_unknown(rrtcc_loss, percent),
                or_unknown(goodputs, |ratio| format!("{ratio:.3}")),
                or_unknown(over_use, percent),
                differing(reading),
            ]
            .map(Into::into)
            .to_vec();
            cells
        };
        Some(html::Table {
            title: "What hangs on the readings".to_owned(),
            caption: format!(
                "One at a time, on line 2 of Table 9; medians. The last column names which of the {} verdicts about that line alone \
                 turn round.",
                of_line_2().count()
            ),
            columns: vec![
                Column::words("reading"),
                Column::number("reports"),
                Column::number("mean estimate"),
                Column::number("loss of UDP"),
                Column::number("loss of RRTCC"),
                Column::number("goodput, UDP over RRTCC"),
                Column::number("over-use"),
                Column::words("verdicts that turn"),
            ],
            rows: std::iter::once(&judged).chain(&self.readings).map(row).collect(),
            folded: false,
        })
    }
}

fn in_brief() -> Prose {
    Prose::new(
        "What to know before reading on",
        vec![
            Block::Paragraph(
                "The thesis's network has no queue. What exceeds its bandwidth is lost by the toss of a coin, and what is not lost \
                 takes a time that depends on nothing. So the half of the algorithm that reads delays, for which the algorithm is \
                 known, has nothing to read: its estimate rises to the maximum and stays there. What is seen is the loss rule alone."
                    .to_owned(),
            ),
            Block::Paragraph(format!(
                "Three of its sentences cannot hold together on any network. If UDP's goodput is at least that of RRTCC, the rate of \
                 RRTCC is lower by no more than 1.6 %, and its loss is at most half of UDP's, then UDP loses at most {}. On the \
                 network of Table 8 it loses at least 20 % in every state.",
                percent(super::most_consistent_loss())
            )),
        ],
    )
}

fn steps(points: impl IntoIterator<Item = (f64, f64)>, end: f64) -> Vec<(f64, f64)> {
    let mut stepped: Vec<(f64, f64)> = Vec::new();
    for (at, value) in points {
        if let Some((_, before)) = stepped.last().copied() {
            stepped.push((at, before));
        }
        stepped.push((at, value));
    }
    if let Some((_, last)) = stepped.last().copied() {
        stepped.push((end, last));
    }
    stepped
}

fn figures_16_and_17(pair: &Pair) -> Vec<Chart> {
    let end = pair.rrtcc.duration_s;
    let line = |name: &str, value: fn(&Estimate) -> f64, first: f64| {
        let later =
            pair.rrtcc.estimates.iter().map(|estimate| (estimate.at.as_seconds(), mega(value(estimate))));
        Series::line(name, steps(std::iter::once((0.0, first)).chain(later), end))
    };
    let capacity: Vec<_> = pair.capacity.iter().map(|(at, bps)| (*at, mega(*bps))).collect();
    let mut estimates = Chart::new(
        "Figure 16: estimates over time",
        "Seed 1. With no queue the delay says nothing: A_r rises to its maximum of 10 Mbit/s. A is the lesser of both, here always A_s. \
         Published: 7.08 Mbit/s on average.",
    )
    .with_axes("time (s)", "rate (Mbit/s)")
    .with_series(Series::limit("network", capacity))
    .with_series(line("A_r, delay", |it| it.delay_based.as_bps() as f64, 7.2))
    .with_series(line("A_s, loss", |it| it.loss_based.as_bps() as f64, 7.2))
    .with_series(Series::line("UDP", vec![(0.0, 7.2), (end, 7.2)]))
    .with_mark(Mark::AtY(mega(published::MEAN_ESTIMATE_BPS), "published mean".to_owned()));
    estimates.y.range = Some((0.0, 10.6));
    let losses = |sender: Sender| {
        let points = pair.of(sender).estimates.iter();
        let points: Vec<_> =
            points.map(|estimate| (estimate.at.as_seconds(), estimate.loss_ratio * 100.0)).collect();
        Series::line(sender.name(), points)
    };
    let mut loss = Chart::new(
        "Figure 17: loss as the sender reckons it",
        "Seed 1, both on the same states. Each report tells of the last 0.5 s: some seven packets.",
    )
    .with_axes("time (s)", "lost (%)")
    .with_series(losses(Sender::Udp))
    .with_series(losses(Sender::Rrtcc))
    .with_mark(Mark::AtY(20.0, "20 %".to_owned()));
    loss.y.range = Some((0.0, 104.0));
    vec![estimates.with_full_width(), loss.with_full_width()]
}

fn with_a_queue(comparison: &Comparison) -> Vec<Chart> {
    const END: f64 = 60.0;
    let mut rates = Chart::new(
        "With a queue: rates over time",
        format!(
            "Seed 1: the same states on a link with {:.0} ms of drop-tail. One packet of 1200 B after the other, the delay grows by a \
             fraction of a millisecond, far below the threshold of 12.5 ms: A_r still rises. Only the spike behind a saturated \
             state is seen.",
            QUEUE.as_millis()
        ),
    )
    .with_axes("time (s)", "rate (Mbit/s)")
    .with_series(Series::Limit {
        name: "link".to_owned(),
        points: comparison.capacity.iter().map(|(at, bps)| (*at, mega(*bps))).collect(),
    });
    let mut delays = Chart::new(
        "With a queue: one-way delay over time",
        "The longest of each 0.1 s. Without a queue it would be 10 ms, whatever is sent.",
    )
    .with_axes("time (s)", "delay (ms)");
    for run in &comparison.queued {
        let within = run.rate.iter().filter(|(at, _)| *at < END).map(|(at, bps)| (*at, mega(*bps)));
        rates = rates.with_series(Series::line(run.contender.name(), steps(within, END)));
        let points: Vec<_> = run.delay.iter().filter(|(at, _)| *at < END).copied().collect();
        delays = delays.with_series(Series::line(run.contender.name(), points));
    }
    rates.y.range = Some((0.0, 10.6));
    vec![rates.with_full_width(), delays.with_full_width()]
}

fn explanation() -> Prose {
    let mut blocks = vec![Block::Paragraph("The rule:".to_owned())];
    blocks.extend(RULE.iter().map(|sentence| Block::Paragraph((*sentence).to_owned())));
    let define = |term: &str, meaning: &str| (term.to_owned(), meaning.to_owned());
    blocks.push(Block::Definitions(vec![
        define(
            "Published",
            "Hoang Thanh Tam, \"An Implementation of Receiver-side Real-time Congestion Control for Simulations using SimPy\", \
             Vietnam National University, Hanoi, 2017. Figures 16 to 20 are pictures without numbers: what is judged is the text.",
        ),
        define(
            "Size of a packet",
            "Not stated, and with it how long 1000 packets take. With 1200 B they are gone in 1.33 s, before the first report after \
             3 s, and no algorithm could do anything; so the thesis's were larger than 2.7 kB. 60,000 B, close to the largest that \
             a datagram can be, give 67 s and some twenty reports.",
        ),
        define(
            "Line",
            &format!(
                "A line of Table 9: what the states {} let through.",
                State::ALL.map(State::name).join(", ")
            ),
        ),
        define(
            "A_s, A_r, A",
            "What losses allow, what the delay allows, and the lesser of both.",
        ),
    ]));
    Prose::new("How to read this", blocks)
}
