//! The numbers and sentences of the paper, and how each is judged.

use giusto_pace::Strategy;
use giusto_sim::machine::{Departure, SleepModel};
use giusto_units::{TimeDelta, Timestamp};

use super::simulated::{
    Algorithm, FIGURE_7_PACKETS, PACKETS, RATE, SIZE, Trial, bursts, live, machine, rates, sizes,
};
use crate::item::{Item, Rule, Spread};
use giusto::measured::result::median;

/// How far a number may be off, as a share of it; also how far from ideal "close" is.
const CLOSE: f64 = 0.05;
/// How far below the ideal a "large discrepancy" is, at least.
const FAR: f64 = 0.10;
/// "Hardly any gap": at most this, 1 % of the ideal gap.
const HARDLY_MS: f64 = 5.0;

/// A statement and how ours is computed with a sleep model.
pub(super) type Statement = crate::item::Statement<fn(SleepModel) -> f64>;

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
    ours: fn(SleepModel) -> f64,
) -> Statement {
    Statement::ratio(id, what, published, Rule::Near(CLOSE), ours).in_unit(unit)
}

/// A sentence that has to hold at all points: ours is the share of points at which it does.
fn at_all(id: &str, what: &str, ours: fn(SleepModel) -> f64) -> Statement {
    Statement::ratio(id, what, 1.0, Rule::AtLeast(1.0), ours)
}

/// Every number and every testable sentence, in the order of the paper.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn statements() -> Vec<Statement> {
    vec![
        number("fig4-smallest-size", "Fig. 4: S* = R·T", (200.0, "B"), |model| {
            // In its first cycle DT0 has measured no send yet and always sleeps.
            let idle = |size: &u64| Trial::new(DT0, model, *size, RATE).file(PACKETS).sleeps <= 1;
            sizes(10, 400, 10).take_while(idle).last().map_or(f64::NAN, |size| size as f64)
        }),
        number("fig4-largest-rate", "Fig. 4: R* = S/T", (700_000.0, "B/s"), |model| {
            Trial::new(DT0, model, SIZE, 1_000_000).throughput()
        }),
        number("fig5-sleep-2ms", "Fig. 5: sleep(2 ms)", (10.0, "ms"), |model| {
            let (machine, span) = (machine(model), TimeDelta::from_millis(2));
            let first = machine.wake(Timestamp::ZERO, span);
            (machine.wake(first, span) - first).as_millis()
        }),
        at_all("fig6a-below-200", "Fig. 6a: close up to 200 B", |model| {
            share(by_size(DT0, model, sizes(20, 200, 20)), is_close)
        }),
        at_all("fig6a-200-to-500", "Fig. 6a: far at 200 to 500 B", |model| {
            share(by_size(DT0, model, sizes(250, 450, 50)), is_far)
        }),
        at_all("fig6a-200-to-500-as-printed", "the same, DT0 as printed", |model| {
            share(by_size(AS_PRINTED, model, sizes(250, 450, 50)), is_far)
        })
        .because(PRINTED)
        .not_comparable(),
        at_all("fig6a-above-900", "Fig. 6a: close above 900 B", |model| {
            share(by_size(DT0, model, sizes(950, 1400, 50)), is_close)
        })
        .because(BETWEEN),
        number("fig6a-1000", "Fig. 6a: throughput, 1000 B", (100_000.0, "B/s"), |model| {
            Trial::new(DT0, model, 1000, RATE).throughput()
        }),
        number("fig6b-close-up-to", "Fig. 6b: close up to", (150_000.0, "B/s"), |model| {
            let close = |rate: &u64| is_close(Trial::new(DT0, model, SIZE, *rate).ratio());
            rates().take_while(close).last().map_or(f64::NAN, |rate| rate as f64)
        })
        .because(BETWEEN),
        at_all("fig6b-constant", "Fig. 6b: constant above", |model| {
            let range = rates().filter(|rate| (225_000..=650_000).contains(rate));
            let reached: Vec<f64> =
                range.map(|rate| Trial::new(DT0, model, SIZE, rate).throughput()).collect();
            let middle = median(reached.iter().copied()).unwrap_or(f64::NAN);
            share(reached.into_iter().map(|rate| rate / middle), is_close)
        }),
        at_all("fig6b-back", "Fig. 6b: back to ideal beyond", |model| {
            share(by_rate(DT0, model, rates().filter(|rate| *rate >= 700_000)), is_close)
        }),
        number("fig7a-requested-500", "Fig. 7a: requested sleep, 500 B", (152.0, "ms"), |model| {
            requested_slept_overslept(DT0, model, 500)[0]
        }),
        number("fig7a-actual-500", "Fig. 7a: slept, 500 B", (819.0, "ms"), |model| {
            requested_slept_overslept(DT0, model, 500)[1]
        })
        .because(TEN),
        number("fig7a-oversleep-500", "Fig. 7a: overslept, 500 B", (667.0, "ms"), |model| {
            requested_slept_overslept(DT0, model, 500)[2]
        })
        .because(TEN),
        number("text-oversleep-each-500", "§3: overslept each time, 500 B", (7.0, "ms"), |model| {
            let record = Trial::new(DT0, model, 500, RATE).file(PACKETS);
            record.oversleep().as_millis() / record.sleeps as f64
        })
        .because(TICK),
        number("fig7a-requested-500-as-printed", "requested, DT0 as printed", (152.0, "ms"), |model| {
            requested_slept_overslept(AS_PRINTED, model, 500)[0]
        })
        .because(PRINTED)
        .not_comparable(),
        number("fig7a-actual-1000", "Fig. 7a: slept, 1000 B", (800.0, "ms"), |model| {
            requested_slept_overslept(DT0, model, 1000)[1]
        }),
        number("fig7a-oversleep-1000", "Fig. 7a: overslept, 1000 B", (400.0, "ms"), |model| {
            requested_slept_overslept(DT0, model, 1000)[2]
        }),
        number("section4-n-300", "§4: n = RG/(S−RT), 300 B", (10.0, "packets"), |model| {
            packets_per_sleep(model, 300)
        })
        .because(N_TICKS),
        number("section4-n-500", "§4: n = RG/(S−RT), 500 B", (10.0 / 3.0, "packets"), |model| {
            packets_per_sleep(model, 500)
        })
        .because(N_TICKS),
        number("section4-n-1000", "§4: n = RG/(S−RT), 1000 B", (1.25, "packets"), |model| {
            packets_per_sleep(model, 1000)
        })
        .because(N_TICKS),
        at_all("fig12-dt1", "Fig. 12: DT1 close to ideal", |model| figure_12(DT1, model)),
        at_all("fig12-dt2", "Fig. 12: DT2 close to ideal", |model| figure_12(DT2, model)).because(DT2_SLEEPS),
        at_all("fig12-at0", "Fig. 12: AT0 close to ideal", |model| figure_12(AT0, model)),
        at_all("section4-dt2-bursts", "§4: DT2 burstier than DT1", |model| {
            let of = |algorithm, size| {
                burst(&Trial::new(algorithm, model, size, RATE).file(PACKETS).departures, size)
            };
            // Bytes: half of one is no difference.
            share(sizes(250, 1400, 50).map(|size| of(DT2, size) - of(DT1, size)), |more| more > 0.5)
        })
        .because(DT2_BURSTS),
        number("fig14-at0-first", "Fig. 14: gaps, AT0, first 10 s", (500.0, "ms"), |model| {
            gap_ms(AT0, model, 0)
        }),
        Statement {
            rule: Rule::AtMost(HARDLY_MS),
            ..number("fig14-at0-later", "Fig. 14: gaps, AT0, later", (0.0, "ms"), |model| {
                gap_ms(AT0, model, 1).max(gap_ms(AT0, model, 2))
            })
        },
        number("fig14-at1-first", "Fig. 14: gaps, AT1, first 10 s", (500.0, "ms"), |model| {
            gap_ms(AT1, model, 0)
        }),
        number("fig14-at1-later", "Fig. 14: gaps, AT1, later", (500.0, "ms"), |model| {
            f64::midpoint(gap_ms(AT1, model, 1), gap_ms(AT1, model, 2))
        }),
        at_all("section8-r-max", "§8: R_max is kept after a gap", |model| {
            let r_max = Some(bursts::R_MAX);
            let peaks =
                SHAPERS.map(|algorithm| bursts::peak(Trial { r_max, ..bursts::trial(algorithm, model) }));
            share(peaks.into_iter(), |peak| peak <= bursts::R_MAX as f64 * (1.0 + 1e-9))
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

/// Throughput over the ideal one, by size at [`RATE`].
fn by_size(
    algorithm: Algorithm,
    model: SleepModel,
    sizes: impl Iterator<Item = u64>,
) -> impl Iterator<Item = f64> {
    sizes.map(move |size| Trial::new(algorithm, model, size, RATE).ratio())
}

/// Throughput over the ideal one, by rate with [`SIZE`].
fn by_rate(
    algorithm: Algorithm,
    model: SleepModel,
    rates: impl Iterator<Item = u64>,
) -> impl Iterator<Item = f64> {
    rates.map(move |rate| Trial::new(algorithm, model, SIZE, rate).ratio())
}

/// The share of both sweeps of Figure 12 with a throughput close to ideal.
fn figure_12(algorithm: Algorithm, model: SleepModel) -> f64 {
    share(by_size(algorithm, model, sizes(50, 1400, 50)).chain(by_rate(algorithm, model, rates())), is_close)
}

/// The three sums of Figure 7, in ms.
fn requested_slept_overslept(algorithm: Algorithm, model: SleepModel, size: u64) -> [f64; 3] {
    let record = Trial::new(algorithm, model, size, RATE).file(FIGURE_7_PACKETS);
    [record.requested_sleep, record.actual_sleep, record.oversleep()].map(TimeDelta::as_millis)
}

/// Packets that DT1 sends for each sleep (§4).
pub(super) fn packets_per_sleep(model: SleepModel, size: u64) -> f64 {
    let record = Trial::new(DT1, model, size, RATE).file(PACKETS);
    record.departures.len() as f64 / record.sleeps.max(1) as f64
}

/// The mean gap within one of the fragments of Figure 14, in ms.
fn gap_ms(algorithm: Algorithm, model: SleepModel, fragment: usize) -> f64 {
    let record = Trial::new(algorithm, model, live::SIZE, live::RATE).with(&live::DATA);
    let packets = record.departures.chunks(live::FRAGMENT as usize).nth(fragment).unwrap_or_default();
    let span =
        packets.last().zip(packets.first()).map_or(0.0, |(last, first)| (last.at - first.at).as_millis());
    span / packets.len().saturating_sub(1).max(1) as f64
}

/// The most bytes by which the departures in any window, both ends included, exceed [`RATE`] times the window.
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
