//! The numbers and sentences of the paper, and how each is judged.

use giusto_pace::Strategy;
use giusto_sim::machine::{Departure, Record, SleepModel};
use giusto_units::{TimeDelta, Timestamp};

use super::simulated::{
    Algorithm, BURST_R_MAX, FIGURE_7_PACKETS, LIVE, LIVE_FRAGMENT, LIVE_RATE, LIVE_SIZE, PACKETS, RATE,
    SEND_TIME, SIZE, Trial, burst_trial, machine, sizes,
};
use crate::item::{Item, Rule, Spread};
use giusto::measured::median::median;

/// How far a number may be off, as a share of it; also how far from ideal "close" is.
const CLOSE: f64 = 0.05;
/// How far below the ideal a "large discrepancy" is, at least.
const FAR: f64 = 0.10;
/// "Hardly any gap": at most this, 1 % of the ideal gap.
const HARDLY_MS: f64 = 5.0;

/// A statement and how ours is computed with a sleep model.
pub(super) type Statement = crate::item::Statement<Box<dyn Fn(SleepModel) -> f64>>;

const DT0: Algorithm = Algorithm::DT0;
const AS_PRINTED: Algorithm = Algorithm::Dt0AsPrinted;
const DT1: Algorithm = Algorithm::Of(Strategy::Dt1);
const DT2: Algorithm = Algorithm::Of(Strategy::Dt2);
const AT0: Algorithm = Algorithm::Of(Strategy::At0);
const AT1: Algorithm = Algorithm::Of(Strategy::At1);

/// All shapers of the command line, and `grid` with a wider burst bound.
pub(super) const SHAPERS: [Algorithm; 8] = [
    DT0,
    DT1,
    DT2,
    Algorithm::Of(Strategy::Dt2Live),
    AT0,
    AT1,
    Algorithm::Of(Strategy::Grid),
    Algorithm::WideGrid,
];

const TEN: &str = "Each of the 50 sleeps lasts 10 ms.";
const TICK: &str = "Each sleep begins 4 ms after a tick, because of two sends of 2 ms, and lasts 16 ms.";
const BETWEEN: &str = "A sleep that begins between ticks also takes the rest of its tick.";
const PRINTED: &str = "As printed, DT0 carries a negative sleepTime over and recovers all oversleep; the text says it does not.";
const N_TICKS: &str = "A sleep to ticks lasts 10 to 20 ms, so more packets follow it.";
const DT2_SLEEPS: &str = "DT2 sleeps even when no time is left: around S = R·T it loses up to 9 %.";
const DT2_BURSTS: &str =
    "DT1 and DT2 recover the same time packet by packet, so their bursts are nearly equal.";

fn number(
    id: &str,
    what: &str,
    (published, unit): (f64, &'static str),
    ours: impl Fn(SleepModel) -> f64 + 'static,
) -> Statement {
    let ours: Box<dyn Fn(SleepModel) -> f64> = Box::new(ours);
    Statement::ratio(id, what, published, Rule::Near(CLOSE), ours).in_unit(unit)
}

/// A sentence that has to hold at all points: ours is the share of points at which it does.
fn at_all(id: &str, what: &str, ours: impl Fn(SleepModel) -> f64 + 'static) -> Statement {
    Statement { rule: Rule::AtLeast(1.0), ..number(id, what, (1.0, "ratio"), ours) }
}

/// Every number and every testable sentence, in the order of the paper.
pub(super) fn statements() -> Vec<Statement> {
    let up_to_5_ms = |statement| Statement { rule: Rule::AtMost(HARDLY_MS), ..statement };
    vec![
        number("fig4-smallest-size", "Fig. 4: S* = R·T", (200.0, "B"), largest_size_without_sleep),
        number("fig4-largest-rate", "Fig. 4: R* = S/T", (700_000.0, "B/s"), throughput(SIZE, 1_000_000)),
        number("fig5-sleep-2ms", "Fig. 5: sleep(2 ms)", (10.0, "ms"), sleep_after_one(2.0)),
        at_all("fig5-steps", "Fig. 5: steps of 10 ms", sleeps_in_steps),
        at_all("fig6a-below-200", "Fig. 6a: close up to 200 B", at(is_close, DT0, by_size(20, 200, 20))),
        at_all("fig6a-200-to-500", "Fig. 6a: far at 200 to 500 B", at(is_far, DT0, by_size(250, 450, 50))),
        at_all(
            "fig6a-200-to-500-as-printed",
            "the same, DT0 as printed",
            at(is_far, AS_PRINTED, by_size(250, 450, 50)),
        )
        .because(PRINTED)
        .not_comparable(),
        at_all("fig6a-above-900", "Fig. 6a: close above 900 B", at(is_close, DT0, by_size(950, 1400, 50)))
            .because(BETWEEN),
        number("fig6a-1000", "Fig. 6a: throughput, 1000 B", (100_000.0, "B/s"), throughput(1000, RATE)),
        number("fig6b-close-up-to", "Fig. 6b: close up to", (150_000.0, "B/s"), largest_close_rate)
            .because(BETWEEN),
        at_all("fig6b-constant", "Fig. 6b: constant above", constant_rates),
        number("section3-sleep-above-150", "§3: sleeps above 150 kB/s", (10.0, "ms"), longest_mean_sleep)
            .because(TICK),
        at_all("fig6b-back", "Fig. 6b: back to ideal beyond", at(is_close, DT0, by_rate(700_000, 1_000_000))),
        number(
            "fig7a-requested-500",
            "Fig. 7a: requested sleep, 500 B",
            (152.0, "ms"),
            sum(REQUESTED, DT0, 500),
        ),
        number("fig7a-actual-500", "Fig. 7a: slept, 500 B", (819.0, "ms"), sum(SLEPT, DT0, 500)).because(TEN),
        number("fig7a-oversleep-500", "Fig. 7a: overslept, 500 B", (667.0, "ms"), sum(OVERSLEPT, DT0, 500))
            .because(TEN),
        number("text-oversleep-each-500", "§3: overslept each time, 500 B", (7.0, "ms"), oversleep_each)
            .because(TICK),
        number(
            "fig7a-requested-500-as-printed",
            "requested, DT0 as printed",
            (152.0, "ms"),
            sum(REQUESTED, AS_PRINTED, 500),
        )
        .because(PRINTED)
        .not_comparable(),
        number("fig7a-actual-1000", "Fig. 7a: slept, 1000 B", (800.0, "ms"), sum(SLEPT, DT0, 1000)),
        number(
            "fig7a-oversleep-1000",
            "Fig. 7a: overslept, 1000 B",
            (400.0, "ms"),
            sum(OVERSLEPT, DT0, 1000),
        ),
        at_all("fig7b-slept", "Fig. 7b: slept what R needs", sleeps_what_the_rate_needs).because(BETWEEN),
        at_all("fig7b-overslept", "Fig. 7b: longer than requested", oversleeps_at_each_rate),
        number("section4-n-300", "§4: n = RG/(S−RT), 300 B", (10.0, "packets"), packets_per_sleep(300))
            .because(N_TICKS),
        number("section4-n-500", "§4: n = RG/(S−RT), 500 B", (10.0 / 3.0, "packets"), packets_per_sleep(500))
            .because(N_TICKS),
        number("section4-n-1000", "§4: n = RG/(S−RT), 1000 B", (1.25, "packets"), packets_per_sleep(1000))
            .because(N_TICKS),
        at_all("fig12-dt1", "Fig. 12: DT1 close to ideal", at(is_close, DT1, figure_12())),
        at_all("fig12-dt2", "Fig. 12: DT2 close to ideal", at(is_close, DT2, figure_12()))
            .because(DT2_SLEEPS),
        at_all("fig12-at0", "Fig. 12: AT0 close to ideal", at(is_close, AT0, figure_12())),
        at_all("section4-dt2-bursts", "§4: DT2 burstier than DT1", dt2_burstier).because(DT2_BURSTS),
        number("fig14-at0-first", "Fig. 14: gaps, AT0, first 10 s", (500.0, "ms"), |it| gap_ms(AT0, it)[0]),
        up_to_5_ms(number("fig14-at0-later", "Fig. 14: gaps, AT0, later", (0.0, "ms"), |it| {
            let [_, second, third] = gap_ms(AT0, it);
            second.max(third)
        })),
        number("fig14-at1-first", "Fig. 14: gaps, AT1, first 10 s", (500.0, "ms"), |it| gap_ms(AT1, it)[0]),
        number("fig14-at1-later", "Fig. 14: gaps, AT1, later", (500.0, "ms"), |it| {
            let [_, second, third] = gap_ms(AT1, it);
            f64::midpoint(second, third)
        }),
        at_all("section8-r-max", "§8: R_max is kept after a gap", |model| {
            let r_max = Some(BURST_R_MAX);
            let peaks = SHAPERS.map(|algorithm| Trial { r_max, ..burst_trial(algorithm, model) }.peak());
            share(peaks.into_iter(), |peak| peak <= BURST_R_MAX as f64 * (1.0 + 1e-9))
        }),
    ]
}

/// A statement judged with one of the two sleep models.
pub(super) fn item(statement: &Statement, model: SleepModel) -> Item {
    let ours = Spread::of([(statement.ours)(model)]);
    let item = statement.judge(ours);
    Item {
        id: format!("{}-{}", item.id, item_suffix(model)),
        what: format!("{} (sleep {})", item.what, phrase(model)),
        ours_low: None,
        ours_high: None,
        ..item
    }
}

/// The sleep model within an item's id.
pub(super) const fn item_suffix(model: SleepModel) -> &'static str {
    match model {
        SleepModel::RoundsUp => "rounds-up",
        SleepModel::Ticks => "ticks",
    }
}

/// The sleep model in words, after "sleep".
pub(super) const fn phrase(model: SleepModel) -> &'static str {
    match model {
        SleepModel::RoundsUp => "rounds up",
        SleepModel::Ticks => "to ticks",
    }
}

fn is_close(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= CLOSE
}

fn is_far(ratio: f64) -> bool {
    ratio <= 1.0 - FAR
}

/// The share of `values` for which `holds` is true.
fn share(values: impl Iterator<Item = f64>, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut all, mut good) = (0_u32, 0_u32);
    for value in values {
        all += 1;
        good += u32::from(holds(value));
    }
    f64::from(good) / f64::from(all.max(1))
}

/// The share of points, each a size and a rate, at which a condition on throughput over ideal holds.
fn at(holds: fn(f64) -> bool, algorithm: Algorithm, points: Vec<(u64, u64)>) -> impl Fn(SleepModel) -> f64 {
    move |model| {
        let trials = points.iter().map(|&(size, rate)| Trial::new(algorithm, model, size, rate));
        share(trials.map(|trial| trial.ratio()), holds)
    }
}

/// Sizes at [`RATE`].
fn by_size(from: u64, to: u64, step: usize) -> Vec<(u64, u64)> {
    sizes(from, to, step).map(|size| (size, RATE)).collect()
}

/// Rates with [`SIZE`].
fn by_rate(from: u64, to: u64) -> Vec<(u64, u64)> {
    (from..=to).step_by(25_000).map(|rate| (SIZE, rate)).collect()
}

/// Both sweeps of Figure 12.
fn figure_12() -> Vec<(u64, u64)> {
    [by_size(50, 1400, 50), by_rate(25_000, 1_000_000)].concat()
}

/// DT0's throughput.
fn throughput(size: u64, rate: u64) -> impl Fn(SleepModel) -> f64 {
    move |model| Trial::new(DT0, model, size, rate).throughput()
}

fn largest_size_without_sleep(model: SleepModel) -> f64 {
    // In its first cycle DT0 has measured no send yet and always sleeps.
    let idle = |size: &u64| Trial::new(DT0, model, *size, RATE).file(PACKETS).sleeps <= 1;
    sizes(10, 400, 10).take_while(idle).last().map_or(f64::NAN, |size| size as f64)
}

/// The duration of a sleep that follows another of the same length, in ms.
fn sleep_after_one(requested_ms: f64) -> impl Fn(SleepModel) -> f64 {
    move |model| {
        let (machine, span) = (machine(model), TimeDelta::from_seconds_f64(requested_ms / 1e3));
        let first = machine.wake(Timestamp::ZERO, span);
        (machine.wake(first, span) - first).as_millis()
    }
}

/// The share of lengths whose sleep lasts until the next multiple of 10 ms.
fn sleeps_in_steps(model: SleepModel) -> f64 {
    // A quarter of a millisecond off the multiples, where a step is a matter of rounding.
    let requested = (0..100).map(|ms| f64::from(ms) + 0.25);
    share(requested.map(|ms| sleep_after_one(ms)(model) / ((ms / 10.0).ceil() * 10.0)), is_close)
}

/// The mean sleep at the rates of Figure 6b between 150,000 B/s and its threshold, the one farthest from 10 ms, in ms.
fn longest_mean_sleep(model: SleepModel) -> f64 {
    let means = by_rate(225_000, 650_000).into_iter().map(|(size, rate)| {
        let record = Trial::new(DT0, model, size, rate).file(PACKETS);
        record.actual_sleep.as_millis() / record.sleeps as f64
    });
    means.max_by(|a, b| (a - 10.0).abs().total_cmp(&(b - 10.0).abs())).unwrap_or(f64::NAN)
}

/// The bars of Figure 7b: requested and actual sleep at rates of which the text says whether the throughput is ideal.
fn figure_7b(from: u64, to: u64, model: SleepModel) -> impl Iterator<Item = (u64, Record)> {
    let record = move |(size, rate)| (rate, Trial::new(DT0, model, size, rate).file(FIGURE_7_PACKETS));
    by_rate(from, to).into_iter().map(record)
}

/// The share of rates at which 100 packets sleep for what R leaves beside their sends, "exactly what is needed".
fn sleeps_what_the_rate_needs(model: SleepModel) -> f64 {
    let packets = FIGURE_7_PACKETS as f64;
    let needed = |rate: u64| packets * (SIZE as f64 / rate as f64 - SEND_TIME);
    share(
        figure_7b(25_000, 150_000, model)
            .map(|(rate, record)| record.actual_sleep.as_seconds() / needed(rate)),
        is_close,
    )
}

/// The share of rates from 150,000 to 650,000 B/s at which the sleeps last longer than requested.
fn oversleeps_at_each_rate(model: SleepModel) -> f64 {
    share(figure_7b(150_000, 650_000, model).map(|(_, record)| record.oversleep().as_millis()), |ms| ms > 0.0)
}

fn largest_close_rate(model: SleepModel) -> f64 {
    let close = |&(size, rate): &(u64, u64)| is_close(Trial::new(DT0, model, size, rate).ratio());
    let rates = by_rate(25_000, 1_000_000).into_iter();
    rates.take_while(close).last().map_or(f64::NAN, |(_, rate)| rate as f64)
}

/// The share of rates at which the throughput is close to its median.
fn constant_rates(model: SleepModel) -> f64 {
    let trials = by_rate(225_000, 650_000).into_iter();
    let reached: Vec<f64> =
        trials.map(|(size, rate)| Trial::new(DT0, model, size, rate).throughput()).collect();
    let middle = median(reached.iter().copied()).unwrap_or(f64::NAN);
    share(reached.into_iter().map(|rate| rate / middle), is_close)
}

const REQUESTED: fn(&Record) -> TimeDelta = |record| record.requested_sleep;
const SLEPT: fn(&Record) -> TimeDelta = |record| record.actual_sleep;
const OVERSLEPT: fn(&Record) -> TimeDelta = |record| record.oversleep();

/// A sum of Figure 7, in ms.
fn sum(of: fn(&Record) -> TimeDelta, algorithm: Algorithm, size: u64) -> impl Fn(SleepModel) -> f64 {
    move |model| of(&Trial::new(algorithm, model, size, RATE).file(FIGURE_7_PACKETS)).as_millis()
}

fn oversleep_each(model: SleepModel) -> f64 {
    let record = Trial::new(DT0, model, 500, RATE).file(PACKETS);
    record.oversleep().as_millis() / record.sleeps as f64
}

/// Packets that DT1 sends for each sleep (§4).
pub(super) fn packets_per_sleep(size: u64) -> impl Fn(SleepModel) -> f64 {
    move |model| {
        let record = Trial::new(DT1, model, size, RATE).file(PACKETS);
        record.departures.len() as f64 / record.sleeps.max(1) as f64
    }
}

/// The share of sizes at which the bursts of DT2 are larger than those of DT1.
fn dt2_burstier(model: SleepModel) -> f64 {
    let of =
        |algorithm, size| burst(&Trial::new(algorithm, model, size, RATE).file(PACKETS).departures, size);
    // Bytes: half of one is no difference.
    share(sizes(250, 1400, 50).map(|size| of(DT2, size) - of(DT1, size)), |more| more > 0.5)
}

/// The mean gap within each fragment of Figure 14, in ms.
fn gap_ms(algorithm: Algorithm, model: SleepModel) -> [f64; 3] {
    let record = Trial::new(algorithm, model, LIVE_SIZE, LIVE_RATE).with(&LIVE);
    let mut fragments = record.departures.chunks(LIVE_FRAGMENT as usize);
    [(); 3].map(|()| {
        let packets = fragments.next().unwrap_or_default();
        let span =
            packets.last().zip(packets.first()).map_or(0.0, |(last, first)| (last.at - first.at).as_millis());
        span / packets.len().saturating_sub(1).max(1) as f64
    })
}

/// The maximum number of bytes by which the departures in any window, both ends included, exceed [`RATE`] times the window.
fn burst(departures: &[Departure], size: u64) -> f64 {
    // The excess over a window is a difference of two values of the running excess, so one pass finds the largest.
    let (mut lowest, mut largest, mut sent) = (f64::MAX, 0.0_f64, 0.0);
    for departure in departures {
        let line = departure.at.as_seconds() * RATE as f64;
        lowest = lowest.min(sent - line);
        sent += size as f64;
        largest = largest.max(sent - line - lowest);
    }
    largest
}
