//! How the reproduction is shown: a table in the terminal, and a report.

use giusto_pace::Strategy;
use giusto_sim::machine::{Data, Machine, Record, SleepModel};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    RULE, STRATEGIES, Shaper, reached_ratio,
    simulated::{
        Algorithm, FIGURE_7_PACKETS, RATE, SEND_TIME, SIZE, Trial, bursts, live, machine, peak_rate, rates,
        sizes, throughput,
    },
    statements::{SHAPERS, STATEMENTS, Statement},
};
use crate::{Item, Reproduction, in_unit};
use giusto::view::{
    format::{or_unknown, percent},
    html::{Block, Card, Chart, Mark, Prose, Report, Section, Series, Table, Tone},
    table::{Column, fitted},
};

/// A statement with both sleep models.
struct Line {
    short: &'static str,
    items: [Item; 2],
}

/// The columns in the terminal.
const COLUMNS: &[Column<Line>] = &[
    Column::words("statement", 0, |line| line.short.to_owned()),
    Column::number("published", 0, |line| of_item(line, 0, |item| in_unit(item.published, &item.unit))),
    Column::number("sleep\nrounds up", 0, |line| of_item(line, 0, ours)),
    Column::words("", 0, |line| of_item(line, 0, word)),
    Column::number("sleep\nto ticks", 0, |line| of_item(line, 1, ours)),
    Column::words("", 0, |line| of_item(line, 1, word)),
];

fn of_item(line: &Line, index: usize, write: impl Fn(&Item) -> String) -> String {
    or_unknown(line.items.get(index), write)
}

/// Ours, without the unit that stands beside it.
fn ours(item: &Item) -> String {
    let text = or_unknown(item.ours, |value| in_unit(value, &item.unit));
    text.strip_suffix(item.unit.as_str()).unwrap_or(&text).trim_end().to_owned()
}

fn word(item: &Item) -> String {
    if item.comparable { item.verdict().to_owned() } else { "(shown)".to_owned() }
}

impl Shaper {
    /// Every statement with both sleep models, at most `width` characters wide where that can be done.
    pub fn table(&self, width: u16) -> String {
        let lines: Vec<Line> = STATEMENTS
            .iter()
            .map(|statement: &Statement| Line {
                short: statement.short,
                items: SleepModel::ALL.map(|model| statement.item(model)),
            })
            .collect();
        let agreeing = |index: usize| {
            let items = lines.iter().filter_map(|line| line.items.get(index)).filter(|item| item.comparable);
            let (all, good) =
                items.fold((0, 0), |(all, good), item| (all + 1, good + u32::from(item.agrees)));
            format!("{good} of {all}")
        };
        let mut text = fitted(COLUMNS, &lines, width);
        text = [
            text,
            format!(
                "\nAgreeing: {} where a sleep rounds up, {} where it ends on ticks.\n",
                agreeing(0),
                agreeing(1)
            ),
            "A ratio is the share of points.\n".to_owned(),
        ]
        .concat();
        if !self.measured.is_empty() {
            let rate = super::Plan::RATE;
            text = format!(
                "{text}\nAnother machine: this one's own clock. Throughput over loopback of {rate}, not judged:\n{}",
                self.own_clock_table()
            );
        }
        text
    }

    /// The measured runs: a line for each algorithm, a column for each size.
    fn own_clock_table(&self) -> String {
        let line = |name: &str, cell: &dyn Fn(u64) -> String| {
            let cells = self.plan.sizes.iter().map(|size| format!("{:>9}", cell(*size)));
            format!("{name:<8}{}\n", cells.collect::<String>())
        };
        let rows = STRATEGIES
            .map(|strategy| line(strategy.name(), &|size| or_unknown(self.reached(strategy, size), percent)));
        [line("B", &|size| size.to_string()), rows.concat()].concat()
    }

    fn reached(&self, strategy: Strategy, size: u64) -> Option<f64> {
        let run = self
            .measured
            .iter()
            .find(|(config, _)| config.strategy == strategy && config.size.as_bytes() == size);
        run.and_then(|(config, result)| reached_ratio(config, result))
    }

    /// The page of this reproduction.
    pub fn report(&self, command: &str) -> Report {
        let all = self.reproduction();
        let mut report = Report::new("giusto reproduce shaper", verdict(&all)).with_command(command);
        report.push(cards(&all));
        let charts = figures_4_and_5().into_iter().chain(figure_6()).chain(figure_7());
        let charts = charts.chain(figure_12()).chain(figure_14()).chain(section_8());
        report.sections.extend(charts.map(Section::from));
        report.sections.extend(self.own_clock_chart().map(Section::from));
        let caption = "By the rule below, with each of the two sleep models.".to_owned();
        report.push(Table { caption, ..all.to_table() });
        report.push(explanation());
        report
    }

    fn own_clock_chart(&self) -> Option<Chart> {
        if self.measured.is_empty() {
            return None;
        }
        let mut chart = Chart::new(
            "Another machine: this one's own clock",
            format!(
                "Figure 6 (a) again, over loopback with real sleeps, at {} with one packet per cycle. Only grid sleeps until a \
                 moment; the others sleep for a span, as printed. Nothing published to compare with.",
                super::Plan::RATE
            ),
        )
        .with_axes("packet size (B)", "throughput (Mbit/s)");
        for strategy in STRATEGIES {
            let rate = super::Plan::RATE.as_bps() as f64 / 1e6;
            let points: Vec<(f64, f64)> = self
                .plan
                .sizes
                .iter()
                .filter_map(|size| Some((*size as f64, self.reached(strategy, *size)? * rate)))
                .collect();
            if !points.is_empty() {
                chart = chart.with_series(Series::line(strategy.to_string(), points));
            }
        }
        chart.y.range = Some((0.0, 112.0));
        Some(chart.with_mark(Mark::AtY(super::Plan::RATE.as_bps() as f64 / 1e6, "asked".to_owned())))
    }
}

fn verdict(all: &Reproduction) -> String {
    let agreeing = |model| {
        let suffix = super::statements::id_of(model);
        let items = all.items.iter().filter(|item| item.comparable && item.id.ends_with(suffix));
        items.fold((0, 0), |(good, all), item| (good + u32::from(item.agrees), all + 1))
    };
    let (rounds_up, ticks) = (agreeing(SleepModel::RoundsUp), agreeing(SleepModel::Ticks));
    format!(
        "Of {} published numbers and statements {} come out again where a sleep rounds up to 10 ms, {} where it ends on ticks: \
         no single reading of the paper's sleep explains all.",
        rounds_up.1, rounds_up.0, ticks.0
    )
}

fn cards(all: &Reproduction) -> Vec<Card> {
    let ours = |id: &str| {
        let item = all.items.iter().find(|item| item.id == id);
        or_unknown(item.and_then(|item| item.ours.map(|ours| (ours, item))), |(ours, item)| {
            in_unit(ours, &item.unit)
        })
    };
    vec![
        Card::new(
            "Agree",
            format!("{} of {}", all.agreeing(), all.comparable()),
            "with two sleep models each",
        )
        .with_tone(Tone::Plain),
        Card::new("Sleep asked for, 500 B", ours("fig7a-requested-500-rounds-up"), "published: 152 ms"),
        Card::new("Slept, rounded up", ours("fig7a-actual-500-rounds-up"), "published: 819 ms"),
        Card::new("Slept, to ticks", ours("fig7a-actual-500-ticks"), "published: 819 ms"),
    ]
}

/// A line through what `value` makes of each x.
fn line(name: impl Into<String>, xs: impl Iterator<Item = u64>, value: impl Fn(u64) -> (f64, f64)) -> Series {
    Series::line(name, xs.map(value).collect::<Vec<_>>())
}

fn kilobytes(bytes_per_second: f64) -> f64 {
    bytes_per_second / 1e3
}

/// Throughput over the packet size at [`RATE`].
fn by_size(name: &str, trial: impl Fn(u64) -> Trial) -> Series {
    line(name, sizes(20, 1500, 20), |size| (size as f64, kilobytes(trial(size).throughput())))
}

/// Throughput over the rate with packets of [`SIZE`].
fn by_rate(name: &str, trial: impl Fn(u64) -> Trial) -> Series {
    line(name, (10_000..=1_000_000).step_by(10_000), |rate| {
        (kilobytes(rate as f64), kilobytes(trial(rate).throughput()))
    })
}

fn ideal_by_size() -> Series {
    line("ideal", sizes(20, 1500, 20), |size| {
        (size as f64, kilobytes(Trial::new(Algorithm::DT0, SleepModel::RoundsUp, size, RATE).ideal()))
    })
}

fn ideal_by_rate() -> Series {
    line("ideal", rates(), |rate| {
        let trial = Trial::new(Algorithm::DT0, SleepModel::RoundsUp, SIZE, rate);
        (kilobytes(rate as f64), kilobytes(trial.ideal()))
    })
}

fn size_chart(title: impl Into<String>, caption: impl Into<String>) -> Chart {
    let mut chart = Chart::new(title, caption).with_axes("packet size (B)", "throughput (kB/s)");
    chart.y.range = Some((0.0, 112.0));
    chart
}

fn rate_chart(title: impl Into<String>, caption: impl Into<String>) -> Chart {
    let mut chart = Chart::new(title, caption).with_axes("rate asked for (kB/s)", "throughput (kB/s)");
    chart.y.range = Some((0.0, 760.0));
    chart
}

/// The same trial where clock and sleeps are exact.
fn exact(trial: Trial) -> Trial {
    let machine = Machine { sleep_step: TimeDelta::ZERO, clock_step: TimeDelta::ZERO, ..trial.machine };
    Trial { machine, ..trial }
}

fn figures_4_and_5() -> Vec<Chart> {
    let dt0 = |size, rate| exact(Trial::new(Algorithm::DT0, SleepModel::RoundsUp, size, rate));
    let slept = |model: SleepModel| {
        let machine = machine(model);
        let asked = (2..=160).map(|quarters| TimeDelta::from_micros(quarters * 250));
        let points = asked.map(|span| {
            let first = machine.wake(Timestamp::ZERO, span);
            (span.as_millis(), (machine.wake(first, span) - first).as_millis())
        });
        Series::line("one after the other", points.collect::<Vec<_>>())
    };
    // A send of 2 ms, twice, lies between the sleeps.
    let between = {
        let machine = machine(SleepModel::Ticks);
        let begin = machine.sent(Timestamp::ZERO, 2);
        let asked = (2..=160).map(|quarters| TimeDelta::from_micros(quarters * 250));
        let points = asked.map(|span| (span.as_millis(), (machine.wake(begin, span) - begin).as_millis()));
        Series::Line { name: "to ticks, begun 4 ms after one".to_owned(), points: points.collect() }
    };
    vec![
        size_chart(
            "Figure 4 (a): DT0 as expected",
            "Clock and sleeps that are exact, sends of 2 ms, at 100 kB/s. Up to S* = R·T = 200 B there is no time to sleep.",
        )
        .with_series(ideal_by_size())
        .with_series(by_size("dt0, exact sleeps", |size| dt0(size, RATE)))
        .with_mark(Mark::AtX(200.0, "S*".to_owned())),
        rate_chart(
            "Figure 4 (b): DT0 as expected",
            "The same with 1400 B: beyond S/T = 700 kB/s packets leave back to back.",
        )
        .with_series(ideal_by_rate())
        .with_series(by_rate("dt0, exact sleeps", |rate| dt0(SIZE, rate)))
        .with_mark(Mark::AtX(700.0, "S/T".to_owned())),
        Chart::new(
            "Figure 5: sleep()",
            "Called over and over, a sleep lasts the next whole 10 ms in both models. To ticks, one that begins between two \
             takes the rest of its tick as well.",
        )
        .with_axes("asked for (ms)", "lasted (ms)")
        .with_series(slept(SleepModel::RoundsUp))
        .with_series(between),
        packets_per_sleep(),
    ]
}

/// §4: how many packets DT1 sends for each sleep.
fn packets_per_sleep() -> Chart {
    const GRANULARITY: f64 = 0.01;
    let measured = |model: SleepModel| {
        line(format!("dt1, sleep {}", as_phrase(model)), sizes(300, 1400, 20), |size| {
            (size as f64, super::statements::packets_per_sleep(model, size))
        })
    };
    // The formula holds for sleeps shorter than a step: S/R − T < G.
    let formula = line("n = R·G / (S − R·T)", sizes(300, 1200, 20), |size| {
        let rate = RATE as f64;
        (size as f64, rate * GRANULARITY / (size as f64 - rate * SEND_TIME))
    });
    Chart::new(
        "§4: packets for each sleep",
        "DT1 at 100 kB/s against the paper's formula with G = 10 ms, which is meant for sleeps of less than that.",
    )
    .with_axes("packet size (B)", "packets for each sleep")
    .with_series(formula)
    .with_series(measured(SleepModel::RoundsUp))
    .with_series(measured(SleepModel::Ticks))
}

fn figure_6() -> Vec<Chart> {
    const DT0: Algorithm = Algorithm::DT0;
    let printed = Algorithm::Dt0AsPrinted;
    let (up, ticks) = (SleepModel::RoundsUp, SleepModel::Ticks);
    vec![
        size_chart(
            "Figure 6 (a): DT0 by packet size",
            "R = 100 kB/s. DT0 as printed would hide nearly all of what the paper explains: it stays on the ideal.",
        )
        .with_series(ideal_by_size())
        .with_series(by_size("sleep rounds up", |size| Trial::new(DT0, up, size, RATE)))
        .with_series(by_size("sleep to ticks", |size| Trial::new(DT0, ticks, size, RATE)))
        .with_series(by_size("as printed, rounds up", |size| Trial::new(printed, up, size, RATE))),
        rate_chart(
            "Figure 6 (b): DT0 by rate",
            "S = 1400 B. Constant at 200 kB/s where a sleep rounds up, at 140 kB/s where it ends on ticks.",
        )
        .with_series(ideal_by_rate())
        .with_series(by_rate("sleep rounds up", |rate| Trial::new(DT0, up, SIZE, rate)))
        .with_series(by_rate("sleep to ticks", |rate| Trial::new(DT0, ticks, SIZE, rate)))
        .with_series(by_rate("as printed, rounds up", |rate| Trial::new(printed, up, SIZE, rate))),
    ]
}

fn figure_7() -> Vec<Chart> {
    let record = |model, size, rate| Trial::new(Algorithm::DT0, model, size, rate).file(FIGURE_7_PACKETS);
    let bars = |name: &str, xs: &[(u64, u64, String)], model, value: fn(&Record) -> TimeDelta| {
        let bars = xs.iter().map(|(size, rate, label)| {
            let ms = value(&record(model, *size, *rate)).as_millis();
            (label.clone(), ms, format!("{ms:.0}"))
        });
        Series::Bars { name: name.to_owned(), bars: bars.collect() }
    };
    let chart = |title: &str, caption: &str, xs: &[(u64, u64, String)]| {
        Chart::new(title, caption)
            .with_axes("", "in 100 packets (ms)")
            .with_series(bars("asked for", xs, SleepModel::RoundsUp, |record| record.requested_sleep))
            .with_series(bars("slept, rounds up", xs, SleepModel::RoundsUp, |record| record.actual_sleep))
            .with_series(bars("slept, to ticks", xs, SleepModel::Ticks, |record| record.actual_sleep))
    };
    let by_size: Vec<_> =
        [200, 400, 500, 600, 800, 1000, 1200, 1400].map(|size| (size, RATE, format!("{size} B"))).to_vec();
    let by_rate: Vec<_> = [100_000, 150_000, 200_000, 300_000, 400_000, 500_000, 700_000]
        .map(|rate| (SIZE, rate, format!("{} kB/s", rate / 1000)))
        .to_vec();
    vec![
        chart(
            "Figure 7 (a): sleep asked for and slept, by packet size",
            "DT0 at 100 kB/s. Published for 500 B: 152 ms asked for, 819 ms slept; for 1000 B: roughly 800 ms slept, 400 of \
             them too long.",
            &by_size,
        ),
        chart(
            "Figure 7 (b): sleep asked for and slept, by rate",
            "DT0 with 1400 B. The text gives no number.",
            &by_rate,
        ),
    ]
}

fn figure_12() -> Vec<Chart> {
    const SHOWN: [Algorithm; 5] = [
        Algorithm::Of(Strategy::Dt1),
        Algorithm::Of(Strategy::Dt2),
        Algorithm::Of(Strategy::At0),
        Algorithm::Of(Strategy::Grid),
        Algorithm::WideGrid,
    ];
    let mut charts = Vec::new();
    for model in SleepModel::ALL {
        let mut sized = size_chart(
            format!("Figure 12 (a): by packet size, sleep {}", as_phrase(model)),
            "DT1, DT2 and AT0 make good what they oversleep, and grid does so where its burst bound holds two sleeps; its own \
             bound, 1 ms, is made for finer ones.",
        )
        .with_series(ideal_by_size());
        let mut rated = rate_chart(
            format!("Figure 12 (b): by rate, sleep {}", as_phrase(model)),
            "The same with 1400 B. DT2 sleeps even where no time is left for it.",
        )
        .with_series(ideal_by_rate());
        for algorithm in SHOWN {
            let name = algorithm.name();
            sized = sized.with_series(by_size(name, |size| Trial::new(algorithm, model, size, RATE)));
            rated = rated.with_series(by_rate(name, |rate| Trial::new(algorithm, model, SIZE, rate)));
        }
        charts.extend([sized, rated]);
    }
    charts
}

fn as_phrase(model: SleepModel) -> &'static str {
    match model {
        SleepModel::RoundsUp => "rounds up",
        SleepModel::Ticks => "to ticks",
    }
}

/// What was sent by each moment, in kilobytes: a step for each packet.
fn sent_by(name: impl Into<String>, record: &Record, size: u64, until: f64) -> Series {
    let mut points = vec![(0.0, 0.0)];
    let mut sent = 0.0;
    for departure in &record.departures {
        let at = departure.at.as_seconds();
        if at > until {
            break;
        }
        points.push((at, sent));
        sent += size as f64 / 1e3;
        points.push((at, sent));
    }
    points.push((until, sent));
    Series::line(name, points)
}

fn figure_14() -> Vec<Chart> {
    let mut chart = Chart::new(
        "Figure 14: live data",
        "Ten packets of 1000 B arrive every 10 s, for 2 kB/s. AT0 sends each later fragment at once, AT1 anew at the rate; grid \
         catches up at twice the rate.",
    )
    .with_axes("time (s)", "sent (kB)");
    for strategy in [Strategy::At0, Strategy::At1, Strategy::Grid] {
        let trial = Trial::new(Algorithm::Of(strategy), SleepModel::RoundsUp, live::SIZE, live::RATE);
        chart = chart.with_series(sent_by(strategy.name(), &trial.with(&live::DATA), live::SIZE, 30.0));
    }
    vec![chart]
}

fn section_8() -> Vec<Chart> {
    let trial =
        |algorithm, r_max| Trial { r_max, ..Trial::new(algorithm, SleepModel::RoundsUp, bursts::SIZE, RATE) };
    let limit = Some(bursts::R_MAX);
    let mut picture = Chart::new(
        "§8: a burst after a gap, and R_max",
        "20 packets of 1000 B arrive every second, for 100 kB/s; sleeps are exact here. The second fragment: AT0 as it is, with \
         R_max = 200 kB/s, and AT1.",
    )
    .with_axes("time (s)", "sent (kB)");
    for (name, strategy, r_max) in
        [("at0", Strategy::At0, None), ("at0, R_max", Strategy::At0, limit), ("at1", Strategy::At1, None)]
    {
        let record = exact(trial(Algorithm::Of(strategy), r_max)).with(&bursts::DATA);
        picture = picture.with_series(sent_by(name, &record, bursts::SIZE, 1.3));
    }
    picture.x.range = Some((0.95, 1.25));
    picture.y.range = Some((18.0, 42.0));

    let peaks = |name: &str, r_max, fine: bool| {
        let bars = SHAPERS.into_iter().map(|algorithm| {
            let trial = trial(algorithm, r_max);
            let trial = if fine { exact(trial) } else { trial };
            let peak = kilobytes(peak_rate(&trial.with(&bursts::DATA).departures, bursts::SIZE));
            (algorithm.name().replace(", ", "\n"), peak, format!("{peak:.0}"))
        });
        Series::Bars { name: name.to_owned(), bars: bars.collect() }
    };
    let bars = Chart::new(
        "§8: the fastest five packets in a row, after gaps",
        "The same data. R_max is kept by all. With sleeps of 10 ms its pauses are rounded up as well, and 12 ms for each \
         packet are 83 kB/s: only grid, which watches the clock where sleeps prove too coarse, still catches up.",
    )
    .with_axes("", "rate (kB/s)")
    .with_series(peaks("no R_max", None, false))
    .with_series(peaks("R_max, exact sleeps", limit, true))
    .with_series(peaks("R_max, sleeps of 10 ms", limit, false))
    .with_mark(Mark::AtY(kilobytes(bursts::R_MAX as f64), "R_max".to_owned()));

    let taken = |name: &str, r_max| {
        let bars = SHAPERS.into_iter().map(|algorithm| {
            let trial = trial(algorithm, r_max);
            let record = trial.with(&Data::File { packets: 1000 });
            let rate = kilobytes(throughput(&record, trial.size));
            (algorithm.name().replace(", ", "\n"), rate, format!("{rate:.0}"))
        });
        Series::Bars { name: name.to_owned(), bars: bars.collect() }
    };
    let mean = Chart::new(
        "§8: what R_max costs on a coarse machine",
        "Throughput of a file of 1000 packets, sleeps of 10 ms, R = 100 kB/s.",
    )
    .with_axes("", "throughput (kB/s)")
    .with_series(taken("no R_max", None))
    .with_series(taken("R_max = 200 kB/s", limit));
    vec![picture, bars, mean]
}

fn explanation() -> Prose {
    let mut blocks = vec![Block::Paragraph("The rule:".to_owned())];
    blocks.extend(RULE.iter().map(|sentence| Block::Paragraph((*sentence).to_owned())));
    blocks.push(Block::Definitions(vec![
        (
            "Published".to_owned(),
            "Chiu, Kadansky, Provino and Wesley, \"Experiences in Programming a Traffic Shaper\", Sun Microsystems \
             Laboratories, SMLI TR-99-77, September 1999."
                .to_owned(),
        ),
        (
            "Rounds up".to_owned(),
            "The length of a sleep is rounded up to whole 10 ms: the paper's own words, and so the default.".to_owned(),
        ),
        (
            "To ticks".to_owned(),
            "A sleep ends on a tick, and is counted in whole ticks from the next one on, so that nobody is woken early."
                .to_owned(),
        ),
        (
            "What speaks for which".to_owned(),
            "819 ms in 50 sleeps are 16.4 ms each. Rounding up cannot make that of 3 ms, ticks make 16 ms. But with ticks DT0 \
             would fall short by up to a fifth above 1000 B and from 100 kB/s on, where the paper saw it close to ideal. The \
             7 ms of oversleep in its text and the 667 ms of its figure do not belong to one model."
                .to_owned(),
        ),
    ]));
    Prose::new("How to read this", blocks)
}
