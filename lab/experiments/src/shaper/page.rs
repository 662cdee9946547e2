//! The table in the terminal, and the report.

use giusto_pace::Strategy;
use giusto_sim::machine::{Data, Machine, Record, SleepModel};
use giusto_units::{TimeDelta, Timestamp};

use serde::Serialize;

use super::{
    Plan, STRATEGIES, Shaper, TEXT,
    simulated::{
        Algorithm, BURST_R_MAX, BURST_SIZE, BURSTS, FIGURE_7_PACKETS, LIVE, LIVE_RATE, LIVE_SIZE, RATE,
        SEND_TIME, SIZE, Trial, burst_trial, machine, sizes, throughput,
    },
    statements::{SHAPERS, item_suffix, packets_per_sleep, phrase},
};
use crate::{
    item::Reproduction,
    page::{Findings, Page, PageTable, bars, figure, in_unit, line, steps},
};
use giusto::view::{
    format::{or_unknown, percent},
    html::{Card, Chart, Mark, Section, Series},
};

const DT0: Algorithm = Algorithm::DT0;
const UP: SleepModel = SleepModel::RoundsUp;
const TICKS: SleepModel = SleepModel::Ticks;

impl Findings for Shaper {
    fn printed(&self) -> impl Serialize {
        self.reproduction()
    }

    fn page(&self) -> Page {
        let items = self.reproduction();
        let card = |label: &str, id: &str, note: &str| {
            Card::new(label, or_unknown(items.ours(id), |ms| in_unit(ms, "ms")), note)
        };
        let cards = vec![
            card("Requested sleep, 500 B", "fig7a-requested-500-rounds-up", "published: 152 ms"),
            card("Slept, rounded up", "fig7a-actual-500-rounds-up", "published: 819 ms"),
            card("Slept, to ticks", "fig7a-actual-500-ticks", "published: 819 ms"),
        ];
        let charts = figures_4_and_5().into_iter().chain(figure_6()).chain(figure_7()).chain(figure_12());
        Page {
            headline: headline(&items),
            variants: SleepModel::ALL.map(|model| format!("sleep {}", phrase(model))).into(),
            cards,
            pictures: charts.chain([figure_14()]).chain(section_8()).map(Section::from).collect(),
            tables: self.own_clock().into_iter().collect(),
            notes: "A ratio is the share of points.\n".to_owned(),
            text: TEXT,
            items,
        }
    }
}

impl Shaper {
    fn reached(&self, strategy: Strategy, size: u64) -> Option<f64> {
        let is_run = |run: &&(Strategy, u64, f64)| run.0 == strategy && run.1 == size;
        Some(self.measured.iter().find(is_run)?.2)
    }

    /// What the strategies reach on this machine's clock; `None` if nothing was measured.
    fn own_clock(&self) -> Option<PageTable> {
        let caption = format!("Not judged: throughput over loopback of {}, by packet size.", Plan::RATE);
        let sizes = self.plan.sizes.iter().map(|size| format!("{size} B"));
        let headers: Vec<String> = std::iter::once("strategy".to_owned()).chain(sizes).collect();
        let row = |strategy: Strategy| {
            let reached = |size: &u64| or_unknown(self.reached(strategy, *size), percent);
            std::iter::once(strategy.name().to_owned()).chain(self.plan.sizes.iter().map(reached)).collect()
        };
        let title = ["This machine's clock", &caption];
        (!self.measured.is_empty()).then(|| PageTable::new("clock", title, &headers, 1, &STRATEGIES.map(row)))
    }
}

fn headline(all: &Reproduction) -> String {
    let agreeing = |model| {
        let of_model =
            all.items.iter().filter(|item| item.comparable && item.id.ends_with(item_suffix(model)));
        of_model.filter(|item| item.does_agree()).count()
    };
    format!(
        "{} of {} published numbers and statements are reproduced if a sleep is rounded up to 10 ms, {} if it ends on ticks: \
         neither reading of the paper's sleep explains all of them.",
        agreeing(UP),
        all.judged() / 2,
        agreeing(TICKS)
    )
}

/// The variable of a sweep: the packet size at [`RATE`], or the rate with packets of [`SIZE`].
#[derive(Clone, Copy, PartialEq)]
enum Sweep {
    Size,
    Rate,
}

/// A curve of a sweep: name, algorithm, sleep model, and whether clock and sleeps are exact.
type Curve<'a> = (&'a str, Algorithm, SleepModel, bool);

/// Throughput of algorithms and the ideal one over packet size or rate.
fn sweep(key: &str, by: Sweep, curves: &[Curve<'_>]) -> Chart {
    let (axis, xs, top): (_, Vec<u64>, _) = match by {
        Sweep::Size => ("packet size (B)", sizes(20, 1500, 20).collect(), 112.0),
        Sweep::Rate => ("target rate (kB/s)", (10_000..=1_000_000).step_by(10_000).collect(), 760.0),
    };
    let curve = |name: &str, algorithm, model, value: &dyn Fn(Trial) -> f64| {
        let point = |&x: &u64| match by {
            Sweep::Size => (x as f64, value(Trial::new(algorithm, model, x, RATE)) / 1e3),
            Sweep::Rate => (x as f64 / 1e3, value(Trial::new(algorithm, model, SIZE, x)) / 1e3),
        };
        line(name, xs.iter().map(point))
    };
    let curves = curves.iter().map(|&(name, algorithm, model, is_exact)| {
        curve(name, algorithm, model, &|trial| if is_exact { exact(trial) } else { trial }.throughput())
    });
    let ideal = curve("ideal", DT0, UP, &|trial| trial.ideal());
    figure(key, [axis, "throughput (kB/s)"], Some(top), std::iter::once(ideal).chain(curves).collect())
}

/// The same trial with exact clock and sleeps.
fn exact(trial: Trial) -> Trial {
    let machine = Machine { sleep_step: TimeDelta::ZERO, clock_step: TimeDelta::ZERO, ..trial.machine };
    Trial { machine, ..trial }
}

fn figures_4_and_5() -> [Chart; 4] {
    const EXACT: &[Curve<'_>] = &[("dt0, exact sleeps", DT0, UP, true)];
    // Begun on a tick, or after two sends of 2 ms.
    let slept = |name: &str, machine: Machine, begin: Option<Timestamp>| {
        let points = (2..=160).map(|quarters| TimeDelta::from_micros(quarters * 250)).map(|span| {
            let begin = begin.unwrap_or_else(|| machine.wake(Timestamp::ZERO, span));
            (span.as_millis(), (machine.wake(begin, span) - begin).as_millis())
        });
        line(name, points)
    };
    let after_sends = machine(TICKS).sent(Timestamp::ZERO, 2);
    let sleeps = vec![
        slept("one after the other", machine(UP), None),
        slept("to ticks, begun 4 ms after one", machine(TICKS), Some(after_sends)),
    ];
    // The formula holds for sleeps shorter than a step: S/R − T < G.
    let formula = sizes(300, 1200, 20).map(|size| {
        let rate = RATE as f64;
        (size as f64, rate * 0.01 / (size as f64 - rate * SEND_TIME))
    });
    let dt1 = |model| {
        let points = sizes(300, 1400, 20).map(|size| (size as f64, packets_per_sleep(size)(model)));
        line(format!("dt1, sleep {}", phrase(model)), points)
    };
    let packets = vec![line("n = R·G / (S − R·T)", formula), dt1(UP), dt1(TICKS)];
    [
        sweep("Figure 4 (a)", Sweep::Size, EXACT).with_mark(Mark::AtX(200.0, "S*".to_owned())),
        sweep("Figure 4 (b)", Sweep::Rate, EXACT).with_mark(Mark::AtX(700.0, "S/T".to_owned())),
        figure("Figure 5", ["requested (ms)", "lasted (ms)"], None, sleeps),
        figure("§4: packets", ["packet size (B)", "packets for each sleep"], None, packets),
    ]
}

fn figure_6() -> [Chart; 2] {
    const CURVES: &[Curve<'_>] = &[
        ("sleep rounds up", DT0, UP, false),
        ("sleep to ticks", DT0, TICKS, false),
        ("as printed, rounds up", Algorithm::Dt0AsPrinted, UP, false),
    ];
    [sweep("Figure 6 (a)", Sweep::Size, CURVES), sweep("Figure 6 (b)", Sweep::Rate, CURVES)]
}

fn figure_7() -> [Chart; 2] {
    let sums = |key: &str, xs: Vec<(String, u64, u64)>| {
        let sums = |name: &str, model, value: fn(&Record) -> TimeDelta| {
            let bar = |(label, size, rate): &(String, u64, u64)| {
                let ms = value(&Trial::new(DT0, model, *size, *rate).file(FIGURE_7_PACKETS)).as_millis();
                (label.clone(), ms, format!("{ms:.0}"))
            };
            bars(name, xs.iter().map(bar))
        };
        let requested = sums("requested", UP, |record| record.requested_sleep);
        let slept = [("slept, rounds up", UP), ("slept, to ticks", TICKS)];
        let slept = slept.map(|(name, model)| sums(name, model, |record| record.actual_sleep));
        figure(key, ["", "in 100 packets (ms)"], None, std::iter::once(requested).chain(slept).collect())
    };
    let by_size = [200, 400, 500, 600, 800, 1000, 1200, 1400].map(|size| (format!("{size} B"), size, RATE));
    let by_rate = [100, 150, 200, 300, 400, 500, 700].map(|rate| (format!("{rate} kB/s"), SIZE, rate * 1000));
    [sums("Figure 7 (a)", by_size.into()), sums("Figure 7 (b)", by_rate.into())]
}

fn figure_12() -> impl Iterator<Item = Chart> {
    use Strategy::{At0, Dt1, Dt2, Grid};
    SleepModel::ALL.into_iter().flat_map(|model| {
        let shown = [Dt1, Dt2, At0, Grid].map(Algorithm::Of).into_iter().chain([Algorithm::WideGrid]);
        let curves: Vec<Curve<'_>> =
            shown.map(|algorithm| (algorithm.name(), algorithm, model, false)).collect();
        [("(a): by packet size", Sweep::Size), ("(b): by rate", Sweep::Rate)]
            .map(|(axis, by)| sweep(&format!("Figure 12 {axis}, sleep {}", phrase(model)), by, &curves))
    })
}

/// Kilobytes sent by each moment, a step for each packet.
fn sent_by(name: &str, record: &Record, size: u64, until: f64) -> Series {
    let departures = record.departures.iter().map(|departure| departure.at.as_seconds());
    let sent = departures.take_while(|at| *at <= until).zip(1_u64..);
    let sent = sent.map(|(at, packets)| (at, (packets * size) as f64 / 1e3));
    steps(name, std::iter::once((0.0, 0.0)).chain(sent), until)
}

fn figure_14() -> Chart {
    let series = [Strategy::At0, Strategy::At1, Strategy::Grid].map(|strategy| {
        let trial = Trial::new(Algorithm::Of(strategy), UP, LIVE_SIZE, LIVE_RATE);
        sent_by(strategy.name(), &trial.with(&LIVE), LIVE_SIZE, 30.0)
    });
    figure("Figure 14", ["time (s)", "sent (kB)"], None, series.into())
}

fn section_8() -> [Chart; 3] {
    let limit = Some(BURST_R_MAX);
    let trial = |algorithm, r_max| Trial { r_max, ..burst_trial(algorithm, UP) };
    let shown =
        [("at0", Strategy::At0, None), ("at0, R_max", Strategy::At0, limit), ("at1", Strategy::At1, None)];
    let series = shown.map(|(name, strategy, r_max)| {
        let record = exact(trial(Algorithm::Of(strategy), r_max)).with(&BURSTS);
        sent_by(name, &record, BURST_SIZE, 1.3)
    });
    let mut burst = figure("§8: a burst", ["time (s)", "sent (kB)"], None, series.into());
    (burst.x.range, burst.y.range) = (Some((0.95, 1.25)), Some((18.0, 42.0)));
    let rates = |name: &str, rate: &dyn Fn(Algorithm) -> f64| {
        let bar = |algorithm: Algorithm| {
            let kilobytes = rate(algorithm) / 1e3;
            (algorithm.name().replace(", ", "\n"), kilobytes, format!("{kilobytes:.0}"))
        };
        bars(name, SHAPERS.map(bar))
    };
    let file = |algorithm, r_max| {
        let trial = trial(algorithm, r_max);
        throughput(&trial.with(&Data::File { packets: 1000 }), trial.size)
    };
    let peaks = vec![
        rates("no R_max", &|algorithm| trial(algorithm, None).peak()),
        rates("R_max, exact sleeps", &|algorithm| exact(trial(algorithm, limit)).peak()),
        rates("R_max, sleeps of 10 ms", &|algorithm| trial(algorithm, limit).peak()),
    ];
    let means = [("no R_max", None), ("R_max = 200 kB/s", limit)]
        .map(|(name, r_max)| rates(name, &|algorithm| file(algorithm, r_max)));
    [
        burst,
        figure("§8: the fastest", ["", "rate (kB/s)"], None, peaks)
            .with_mark(Mark::AtY(BURST_R_MAX as f64 / 1e3, "R_max".to_owned())),
        figure("§8: the cost of R_max", ["", "throughput (kB/s)"], None, means.into()),
    ]
}
