//! The table in the terminal, and the report.

use serde::Serialize;

use super::{
    Plan, Rrtcc, TEXT,
    fairness::{LINK_BPS, OverTime},
    inputs::inputs,
    network::TABLE_9,
    queued::{self, CONTENDERS, Comparison, QUEUE},
    readings::Reading,
    session::{Estimate, Pair},
    statements::MEAN_ESTIMATE_BPS,
};
use crate::{
    item::{Reproduction, Spread},
    page::{Findings, Page, PageTable, figure, limit, line, ranges, steps},
};
use giusto::view::{
    format::{or_unknown, percent, rate, short},
    html::{Card, Chart, Mark, Section, Series},
};
use giusto_units::{DataRate, Timestamp};

/// A line of a chart: name, and figure of a run.
type Quantity = (&'static str, fn(&Pair) -> f64);

/// The end of the rate axis in Mbit/s.
const RATE_TOP: Option<f64> = Some(10.6);
const TIME_AND_RATE: [&str; 2] = ["time (s)", "rate (Mbit/s)"];

/// A capacity in Mbit/s.
fn capacity(name: &str, steps: &[(Timestamp, DataRate)]) -> Series {
    limit(name, steps.iter().map(|(at, rate)| (at.as_seconds(), rate.as_bps() as f64 / 1e6)))
}

impl Findings for Rrtcc {
    fn printed(&self) -> impl Serialize {
        self.reproduction()
    }

    fn page(&self) -> Page {
        let items = self.reproduction();
        let Plan { seeds, fairness_seeds, .. } = self.plan;
        let [.., delay, _] = queued::medians(&self.queued, 1);
        let estimate = or_unknown(items.ours("mean-estimate"), rate);
        let loss = or_unknown(items.ours("loss-two-to-three-times"), short);
        let delay = or_unknown(delay, |ms| format!("{ms:.0} ms"));
        let mut pictures: Vec<Section> = Vec::new();
        pictures.extend(figure_5(&self.fairness.over_time).map(Section::from));
        let first = self.runs.get(1).and_then(|runs| runs.first());
        pictures.extend(first.into_iter().flat_map(figures_16_and_17).map(Section::from));
        if self.runs.len() == TABLE_9.len() {
            pictures.extend(self.figures_18_to_20().map(Section::from));
        }
        pictures.extend(self.queued.first().into_iter().flat_map(with_a_queue).map(Section::from));
        let tables = self.queue_table().into_iter().chain(self.readings_table()).chain(inputs());
        Page {
            headline: self.headline(&items),
            cards: vec![
                Card::new("Mean estimate", estimate, "published: 7.083 Mbit/s"),
                Card::new("Loss, UDP over RRTCC", loss, "published: 2 to 3"),
                Card::new("Delay with a queue", delay, "RRTCC, 95th percentile; without a queue 12 ms"),
            ],
            pictures,
            tables: tables.collect(),
            notes: format!(
                "Ours is the median of {seeds} seeds (Table 3: {fairness_seeds}), from the 5th to the 95th percentile.\n"
            ),
            text: TEXT,
            items,
            ..Page::default()
        }
    }
}

impl Rrtcc {
    fn headline(&self, all: &Reproduction) -> String {
        let (early, limit) = if self.complete {
            ("", " The mean estimate of 7.08 Mbit/s is not: it is more than the network carries.")
        } else {
            ("Ended early: ", "")
        };
        let (agreeing, judged) = (all.agreeing(), all.judged());
        format!("{early}{agreeing} of {judged} published numbers and statements are reproduced.{limit}")
    }

    fn figures_18_to_20(&self) -> [Chart; 3] {
        let by_line = |(name, value): &Quantity| {
            let points = self.runs.iter().zip(1..).filter_map(|(pairs, number)| {
                let Spread { low, median, high } = Spread::of(pairs.iter().map(value))?;
                Some((format!("line {number}"), median, low, high))
            });
            ranges(*name, points)
        };
        let chart = |key, y, top, quantities: &[Quantity]| {
            figure(key, ["", y], Some(top), quantities.iter().map(by_line).collect())
        };
        let loss: [Quantity; 2] = [
            ("UDP", |pair| pair.udp.loss_ratio() * 100.0),
            ("RRTCC", |pair| pair.rrtcc.loss_ratio() * 100.0),
        ];
        let sent: [Quantity; 2] =
            [("UDP", |pair| pair.udp.sent_bps() / 1e6), ("RRTCC", |pair| pair.rrtcc.sent_bps() / 1e6)];
        let [(_, udp), (_, rrtcc)] = sent;
        let rates: [Quantity; 4] = [
            ("UDP, sent", udp),
            ("RRTCC, sent", rrtcc),
            ("UDP, goodput", |pair| pair.udp.goodput_bps() / 1e6),
            ("RRTCC, goodput", |pair| pair.rrtcc.goodput_bps() / 1e6),
        ];
        [
            chart("Figure 18", "loss (%)", 65.0, &loss),
            chart("Figure 19", "sent (Mbit/s)", 10.0, &sent),
            chart("Figure 20", "rate (Mbit/s)", 10.0, &rates).with_full_width(),
        ]
    }

    fn queue_table(&self) -> Option<PageTable> {
        let row = |name: &str, with: &str, [sent, goodput, loss, p50, p95, over]: [Option<f64>; 6]| {
            let [p50, p95] = [p50, p95].map(|ms| or_unknown(ms, |ms| format!("{ms:.0} ms")));
            let [sent, goodput] = [sent, goodput].map(|bps| or_unknown(bps, rate));
            // UDP does not look at the delay.
            let over = over.filter(|_| name != "UDP");
            let [loss, over] = [loss, over].map(|ratio| or_unknown(ratio, percent));
            vec![format!("{name}, {with}"), sent, goodput, loss, p50, p95, over]
        };
        let no_queue = [
            row("UDP", "no queue", queued::medians_without(&self.queued, |pair| &pair.udp)),
            row("RRTCC", "no queue", queued::medians_without(&self.queued, |pair| &pair.rrtcc)),
        ];
        let queue = CONTENDERS
            .iter()
            .enumerate()
            .map(|(number, contender)| row(contender.name, "queue", queued::medians(&self.queued, number)));
        let caption = format!(
            "60 s of packets of 1200 B at the bandwidths of Table 8, medians of {} seeds. The drop-tail queue holds {:.0} ms at the \
             rate of Idle. Over-use: the share of packets at which the delay signalled it.",
            self.queued.len(),
            QUEUE.as_millis()
        );
        let headers = ["sender", "sent", "goodput", "loss", "delay p50", "delay p95", "over-use"];
        let rows: Vec<_> = no_queue.into_iter().chain(queue).collect();
        let title = ["With and without a queue", &caption];
        (!self.queued.is_empty()).then(|| PageTable::new("queue", title, &headers, 1, &rows))
    }

    fn readings_table(&self) -> Option<PageTable> {
        let judged = Reading::judge("as judged: packets of 60,000 B, 67 s", self.runs.get(1)?);
        let row = |reading: &Reading| {
            let [reports, estimate, udp_loss, loss, goodputs, over] = reading.figures;
            let pairs = reading.verdicts.iter().zip(&judged.verdicts);
            let differing: Vec<&str> = pairs.filter(|(a, b)| a.1 != b.1).map(|(a, _)| a.0.as_str()).collect();
            let [udp_loss, loss, over] = [udp_loss, loss, over].map(|ratio| or_unknown(ratio, percent));
            vec![
                reading.name.to_owned(),
                or_unknown(reports, |reports| format!("{reports:.0}")),
                or_unknown(estimate, rate),
                udp_loss,
                loss,
                or_unknown(goodputs, |ratio| format!("{ratio:.3}")),
                over,
                if differing.is_empty() { "none".to_owned() } else { differing.join("; ") },
            ]
        };
        let caption = format!(
            "One at a time, on line 2 of Table 9; medians. The last column lists which of the {} verdicts about that line change.",
            judged.verdicts.len()
        );
        let headers = [
            "reading",
            "reports",
            "mean estimate",
            "loss of UDP",
            "loss of RRTCC",
            "goodput, UDP over RRTCC",
            "over-use",
            "verdicts that change",
        ];
        let rows: Vec<_> = std::iter::once(&judged).chain(&self.readings).map(row).collect();
        Some(PageTable::new("", ["Alternative readings", &caption], &headers, 1, &rows))
    }
}

/// Throughput over time of RRTCC and TCP on one link. Of a run that was stopped before it there is none.
fn figure_5(flows: &[OverTime]) -> Option<Chart> {
    let end = flows.first()?.1.last()?.0;
    let flows = flows.iter().map(|(name, points)| steps(name.as_str(), points.iter().copied(), end));
    let link = limit("link", [(0.0, LINK_BPS / 1e6), (end, LINK_BPS / 1e6)]);
    let series = std::iter::once(link).chain(flows).collect();
    Some(figure("Table 3 over time", TIME_AND_RATE, None, series).with_full_width())
}

fn figures_16_and_17(pair: &Pair) -> [Chart; 2] {
    let end = pair.rrtcc.duration_s;
    let estimate = |name: &str, value: fn(&Estimate) -> f64| {
        let later = pair.rrtcc.estimates.iter().map(|it| (it.at.as_seconds(), value(it) / 1e6));
        steps(name, std::iter::once((0.0, 7.2)).chain(later), end)
    };
    let losses = [("UDP", &pair.udp), ("RRTCC", &pair.rrtcc)].map(|(name, run)| {
        line(name, run.estimates.iter().map(|it| (it.at.as_seconds(), it.loss_ratio * 100.0)))
    });
    let series = vec![
        capacity("network", &pair.capacity),
        estimate("A_r, delay", |it| it.delay_based.as_bps() as f64),
        estimate("A_s, loss", |it| it.loss_based.as_bps() as f64),
        line("UDP", [(0.0, 7.2), (end, 7.2)]),
    ];
    let mean = Mark::AtY(MEAN_ESTIMATE_BPS / 1e6, "published mean".to_owned());
    let estimates = figure("Figure 16", TIME_AND_RATE, RATE_TOP, series).with_mark(mean);
    let loss = figure("Figure 17", ["time (s)", "loss (%)"], Some(104.0), losses.into());
    let loss = loss.with_mark(Mark::AtY(20.0, "20 %".to_owned()));
    [estimates.with_full_width(), loss.with_full_width()]
}

fn with_a_queue(comparison: &Comparison) -> [Chart; 2] {
    const END: f64 = 60.0;
    let mut rates = vec![capacity("link", &comparison.capacity)];
    let mut delays = Vec::new();
    for (contender, run) in CONTENDERS.iter().zip(&comparison.queued) {
        let rate = run.rate.iter().map(|(at, bps)| (*at, bps / 1e6));
        rates.push(steps(contender.name, rate.take_while(|(at, _)| *at < END), END));
        delays.push(line(contender.name, run.delay.iter().copied().take_while(|(at, _)| *at < END)));
    }
    [
        figure("With a queue: rates", TIME_AND_RATE, RATE_TOP, rates).with_full_width(),
        figure("With a queue: one-way", ["time (s)", "delay (ms)"], None, delays).with_full_width(),
    ]
}
