//! The table in the terminal, and the report.

use super::{
    Plan, Rrtcc, TEXT,
    network::Bandwidths,
    published,
    queued::{self, Comparison, Contender, QUEUE},
    readings::Reading,
    session::{Estimate, Outcome, Pair, Sender},
};
use crate::{
    item::{Item, Reproduction, Spread},
    page::{bare, figure, in_unit, limit, line, ranges, steps, table},
};
use giusto::view::{
    format::{or_unknown, percent, rate, short},
    html::{Card, Chart, Mark, Report, Section, Table},
    table::{Column, fitted},
};

const COLUMNS: &[Column<Item>] = &[
    Column::words("statement", 0, |item| item.what.clone()),
    Column::number("published", 0, |item| in_unit(item.published, &item.unit)),
    Column::number("ours", 0, |item| bare(item, item.ours)),
    Column::number("from", 1, |item| bare(item, item.ours_low)),
    Column::number("to", 1, |item| bare(item, item.ours_high)),
    Column::words("", 0, |item| item.verdict().to_owned()),
];

/// A line of a chart: name, sender, figure of a run.
type Quantity = (&'static str, Sender, fn(&Outcome) -> f64);

/// The end of the rate axis in Mbit/s.
const RATE_TOP: Option<f64> = Some(10.6);
const TIME_AND_RATE: [&str; 2] = ["time (s)", "rate (Mbit/s)"];

/// Bit/s as Mbit/s, along a line.
fn mega(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    points.iter().map(|(at, bps)| (*at, bps / 1e6))
}

impl Rrtcc {
    /// All statements, at most `width` characters wide if possible.
    pub fn table(&self, width: u16) -> String {
        let all = self.reproduction();
        let Plan { seeds, fairness_seeds, .. } = self.plan;
        let with_a_queue = Contender::ALL.into_iter().filter_map(|contender| {
            let [_, goodput, loss, _, delay, _] = queued::medians(&self.queued, contender);
            let (name, goodput, loss) = (contender.name(), rate(goodput?), percent(loss?));
            Some(format!(
                "With a queue of 300 ms, {name}: goodput {goodput}, loss {loss}, delay p95 {:.0} ms.\n",
                delay?
            ))
        });
        format!(
            "{}\n{} Ours is the median of {seeds} seeds (Table 3: {fairness_seeds}), from the 5th to the 95th percentile.\n{}",
            fitted(COLUMNS, &all.items, width),
            self.headline(&all),
            with_a_queue.collect::<String>(),
        )
    }

    /// The page that the repository keeps.
    pub fn markdown(&self) -> String {
        let all = self.reproduction();
        all.markdown(TEXT, &self.headline(&all), &[""])
    }

    /// The page of this reproduction.
    pub fn report(&self, command: &str) -> Report {
        let all = self.reproduction();
        let [.., delay, _] = queued::medians(&self.queued, Contender::Rrtcc);
        let cards = vec![
            Card::new(
                "Mean estimate",
                or_unknown(all.ours("mean-estimate"), rate),
                "published: 7.083 Mbit/s",
            ),
            Card::new(
                "Loss, UDP over RRTCC",
                or_unknown(all.ours("loss-two-to-three-times"), short),
                "published: 2 to 3",
            ),
            Card::new(
                "Delay with a queue",
                or_unknown(delay, |ms| format!("{ms:.0} ms")),
                "RRTCC, 95th percentile; without a queue 12 ms",
            ),
        ];
        let mut sections = Vec::new();
        let first = self.runs.get(1).and_then(|runs| runs.first());
        sections.extend(first.into_iter().flat_map(figures_16_and_17).map(Section::from));
        if self.runs.len() == Bandwidths::TABLE_9.len() {
            sections.extend(self.figures_18_to_20().map(Section::from));
        }
        sections.extend(self.queued.first().into_iter().flat_map(with_a_queue).map(Section::from));
        sections.extend(self.queue_table().map(Section::from));
        let caption = format!("By the rule below; ours is the median of {} seeds.", self.plan.seeds);
        sections.push(all.to_table(caption).into());
        sections.extend(self.readings_table().map(Section::from));
        sections.extend(published::inputs().map(Section::from));
        all.report(self.headline(&all), cards, sections, TEXT).with_command(command)
    }

    fn headline(&self, all: &Reproduction) -> String {
        let early = if self.complete { "" } else { "Ended early: " };
        format!(
            "{early}{} of {} published numbers and statements are reproduced. The mean estimate of 7.08 Mbit/s is not: it is more than \
             the network carries.",
            all.agreeing(),
            all.comparable()
        )
    }

    fn figures_18_to_20(&self) -> [Chart; 3] {
        let by_line = |(name, sender, value): &Quantity| {
            let points = self.runs.iter().zip(&Bandwidths::TABLE_9).filter_map(|(pairs, bandwidths)| {
                let Spread { low, median, high } =
                    Spread::of(pairs.iter().map(|pair| value(pair.of(*sender))))?;
                Some((format!("line {}", bandwidths.number), median, low, high))
            });
            ranges(*name, points)
        };
        let chart = |key, y, top, quantities: &[Quantity]| {
            figure(key, ["", y], Some(top), quantities.iter().map(by_line).collect())
        };
        let loss: fn(&Outcome) -> f64 = |it| it.loss_ratio() * 100.0;
        let sent: fn(&Outcome) -> f64 = |it| it.sent_bps() / 1e6;
        let goodput: fn(&Outcome) -> f64 = |it| it.goodput_bps() / 1e6;
        let both = |value| [("UDP", Sender::Udp, value), ("RRTCC", Sender::Rrtcc, value)];
        let rates = [
            ("UDP, sent", Sender::Udp, sent),
            ("RRTCC, sent", Sender::Rrtcc, sent),
            ("UDP, goodput", Sender::Udp, goodput),
            ("RRTCC, goodput", Sender::Rrtcc, goodput),
        ];
        [
            chart("Figure 18", "loss (%)", 65.0, &both(loss)),
            chart("Figure 19", "sent (Mbit/s)", 10.0, &both(sent)),
            chart("Figure 20", "rate (Mbit/s)", 10.0, &rates).with_full_width(),
        ]
    }

    fn queue_table(&self) -> Option<Table> {
        let row = |name: String, [sent, goodput, loss, p50, p95, over]: [Option<f64>; 6]| {
            let ms = |value: Option<f64>| or_unknown(value, |ms| format!("{ms:.0} ms"));
            let [sent, goodput] = [sent, goodput].map(|bps| or_unknown(bps, rate));
            let [loss, over] = [loss, over].map(|ratio| or_unknown(ratio, percent));
            [name, sent, goodput, loss, ms(p50), ms(p95), over].map(Into::into).to_vec()
        };
        let no_queue = [Sender::Udp, Sender::Rrtcc].map(|sender| {
            let of = |value: fn(&Outcome) -> f64| {
                Spread::of(self.queued.iter().map(|it| value(it.coin.of(sender)))).map(|spread| spread.median)
            };
            let delay = of(|it| it.mean_delay_ms);
            let over =
                of(|it| it.over_uses as f64 / it.sent_packets as f64).filter(|_| sender == Sender::Rrtcc);
            // The delay is normal with a deviation of 1 ms.
            let p95 = delay.map(|ms| ms + 1.645);
            let figures =
                [of(Outcome::sent_bps), of(Outcome::goodput_bps), of(Outcome::loss_ratio), delay, p95, over];
            row(format!("{}, no queue", sender.name()), figures)
        });
        let queue = Contender::ALL.map(|contender| {
            let [rest @ .., over] = queued::medians(&self.queued, contender);
            let [sent, goodput, loss, p50, p95] = rest;
            let over = over.filter(|_| contender != Contender::Udp);
            row(format!("{}, queue", contender.name()), [sent, goodput, loss, p50, p95, over])
        });
        let caption = format!(
            "60 s of packets of 1200 B at the bandwidths of Table 8, medians of {} seeds. The drop-tail queue holds {:.0} ms at the \
             rate of Idle. Over-use: the share of packets at which the delay signalled it.",
            self.queued.len(),
            QUEUE.as_millis()
        );
        let headers = ["sender", "#sent", "#goodput", "#loss", "#delay p50", "#delay p95", "#over-use"];
        let rows = no_queue.into_iter().chain(queue).collect();
        (!self.queued.is_empty()).then(|| table(["With and without a queue", &caption], &headers, rows))
    }

    fn readings_table(&self) -> Option<Table> {
        let judged = Reading::judge("as judged: packets of 60,000 B, 67 s", self.runs.get(1)?);
        let row = |reading: &Reading| {
            let [reports, estimate, udp_loss, loss, goodputs, over] = reading.figures;
            let pairs = reading.verdicts.iter().zip(&judged.verdicts);
            let differing: Vec<&str> = pairs.filter(|(a, b)| a.1 != b.1).map(|(a, _)| a.0.as_str()).collect();
            let [udp_loss, loss, over] = [udp_loss, loss, over].map(|ratio| or_unknown(ratio, percent));
            [
                reading.name.to_owned(),
                or_unknown(reports, |reports| format!("{reports:.0}")),
                or_unknown(estimate, rate),
                udp_loss,
                loss,
                or_unknown(goodputs, |ratio| format!("{ratio:.3}")),
                over,
                if differing.is_empty() { "none".to_owned() } else { differing.join("; ") },
            ]
            .map(Into::into)
            .to_vec()
        };
        let caption = format!(
            "One at a time, on line 2 of Table 9; medians. The last column lists which of the {} verdicts about that line change.",
            judged.verdicts.len()
        );
        let headers = [
            "reading",
            "#reports",
            "#mean estimate",
            "#loss of UDP",
            "#loss of RRTCC",
            "#goodput, UDP over RRTCC",
            "#over-use",
            "verdicts that change",
        ];
        let rows = std::iter::once(&judged).chain(&self.readings).map(row).collect();
        Some(table(["Alternative readings", &caption], &headers, rows))
    }
}

fn figures_16_and_17(pair: &Pair) -> [Chart; 2] {
    let end = pair.rrtcc.duration_s;
    let estimate = |name: &str, value: fn(&Estimate) -> f64| {
        let later = pair.rrtcc.estimates.iter().map(|it| (it.at.as_seconds(), value(it) / 1e6));
        steps(name, std::iter::once((0.0, 7.2)).chain(later), end)
    };
    let losses = [Sender::Udp, Sender::Rrtcc].map(|sender| {
        let estimates = pair.of(sender).estimates.iter();
        line(sender.name(), estimates.map(|it| (it.at.as_seconds(), it.loss_ratio * 100.0)))
    });
    let series = vec![
        limit("network", mega(&pair.capacity)),
        estimate("A_r, delay", |it| it.delay_based.as_bps() as f64),
        estimate("A_s, loss", |it| it.loss_based.as_bps() as f64),
        line("UDP", [(0.0, 7.2), (end, 7.2)]),
    ];
    let mean = Mark::AtY(published::MEAN_ESTIMATE_BPS / 1e6, "published mean".to_owned());
    let estimates = figure("Figure 16", TIME_AND_RATE, RATE_TOP, series).with_mark(mean);
    let loss = figure("Figure 17", ["time (s)", "loss (%)"], Some(104.0), losses.into());
    let loss = loss.with_mark(Mark::AtY(20.0, "20 %".to_owned()));
    [estimates.with_full_width(), loss.with_full_width()]
}

fn with_a_queue(comparison: &Comparison) -> [Chart; 2] {
    const END: f64 = 60.0;
    let within =
        |points: &[(f64, f64)]| points.iter().copied().filter(|(at, _)| *at < END).collect::<Vec<_>>();
    let link = limit("link", mega(&comparison.capacity));
    let rates =
        comparison.queued.iter().map(|run| steps(run.contender.name(), mega(&within(&run.rate)), END));
    let delays = comparison.queued.iter().map(|run| line(run.contender.name(), within(&run.delay)));
    let rates = std::iter::once(link).chain(rates).collect();
    [
        figure("With a queue: rates", TIME_AND_RATE, RATE_TOP, rates).with_full_width(),
        figure("With a queue: one-way", ["time (s)", "delay (ms)"], None, delays.collect()).with_full_width(),
    ]
}
