//! What the paper says, sentence by sentence, and how it is judged.

use std::collections::BTreeMap;

use giusto_pace::Strategy;
use giusto_sim::machine::SleepModel;

use super::simulated::{
    Algorithm, FIGURE_7_PACKETS, PACKETS, RATE, SIZE, Trial, burst, bursts, gaps_ms, live, peak_rate, rates,
    sizes,
};
use crate::Item;
use giusto::measured::result::median;

/// How far a number may be off, as a share of it; also how far from ideal "close" is.
const CLOSE: f64 = 0.05;
/// How far below the ideal "far" is, at least.
const FAR: f64 = 0.10;
/// "Hardly any gap": at most this share of the ideal one.
const HARDLY: f64 = 0.01;

/// How ours is compared with what was published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// Within 5 % of the number.
    Close,
    /// All points of a range: the share of them is 1.
    All,
    /// At most this much.
    AtMost(f64),
}

impl Rule {
    /// The bound, named with its unit.
    fn bound(self, unit: &str) -> (String, f64) {
        match self {
            Self::Close => ("tolerance_ratio".to_owned(), CLOSE),
            Self::All => ("least_share_ratio".to_owned(), 1.0),
            Self::AtMost(most) => (format!("most_{unit}"), most),
        }
    }

    pub(super) fn agrees(self, published: f64, ours: f64) -> bool {
        match self {
            Self::Close => (ours - published).abs() <= CLOSE * published.abs(),
            Self::All => ours >= 1.0,
            Self::AtMost(most) => ours <= most,
        }
    }
}

/// One published number or sentence.
pub(super) struct Statement {
    /// A name that stays.
    pub(super) id: &'static str,
    /// In so few words that a table holds it.
    pub(super) short: &'static str,
    /// In full.
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) published: f64,
    pub(super) rule: Rule,
    /// False for what the listing of DT0 makes of it: that is not the algorithm of the text.
    pub(super) comparable: bool,
    pub(super) ours: fn(SleepModel) -> f64,
    /// Why it does not agree, where it does not: with sleeps that round up, and with ticks.
    pub(super) why: [&'static str; 2],
}

impl Statement {
    /// The statement with one of the two sleep models.
    pub(super) fn item(&self, model: SleepModel) -> Item {
        let ours = (self.ours)(model);
        let agrees = self.comparable && self.rule.agrees(self.published, ours);
        let [rounds_up, ticks] = self.why;
        let why = match model {
            SleepModel::RoundsUp => rounds_up,
            SleepModel::Ticks => ticks,
        };
        Item {
            id: format!("{}-{}", self.id, id_of(model)),
            what: format!("{} (sleep: {})", self.what, model.name()),
            unit: self.unit.to_owned(),
            published: self.published,
            ours: Some(ours),
            ours_low: None,
            ours_high: None,
            agrees,
            why: (!agrees).then(|| why.to_owned()),
            comparable: self.comparable,
            figures: BTreeMap::from([self.rule.bound(self.unit)]),
        }
    }
}

/// The sleep model within an item's name.
pub(super) const fn id_of(model: SleepModel) -> &'static str {
    match model {
        SleepModel::RoundsUp => "rounds-up",
        SleepModel::Ticks => "ticks",
    }
}

const DT0: Algorithm = Algorithm::DT0;
const DT1: Algorithm = Algorithm::Of(Strategy::Dt1);
const DT2: Algorithm = Algorithm::Of(Strategy::Dt2);
const AT0: Algorithm = Algorithm::Of(Strategy::At0);
const AT1: Algorithm = Algorithm::Of(Strategy::At1);

const TICK: &str =
    "With two sends of 2 ms between sleeps, each sleep begins 4 ms after a tick and lasts 16 ms.";
const TEN: &str = "Each of the 50 sleeps lasts 10 ms.";
const ANOTHER_TICK: &str =
    "A sleep begun between ticks costs the rest of its tick as well, which one later cycle cannot absorb.";
const NO_REASON: [&str; 2] = ["", ""];
const LISTING: [&str; 2] = [
    "Computed by the listing: a negative sleepTime is carried on, so DT0 makes good all it oversleeps, against the text.",
    "Computed by the listing: a negative sleepTime is carried on, so DT0 makes good all it oversleeps, against the text.",
];
const DT2_SLEEPS: &str = "DT2 sleeps even where no time is left for it: about S = R·T it loses up to 9 % of 1000 packets. Elsewhere it is close.";
const DT2_LIKE_DT1: &str =
    "Made good packet by packet, the same time is owed by both: their bursts are the same nearly everywhere.";

/// A statement that a share of points bears out.
const fn all(
    id: &'static str,
    short: &'static str,
    what: &'static str,
    ours: fn(SleepModel) -> f64,
) -> Statement {
    Statement {
        id,
        short,
        what,
        unit: "ratio",
        published: 1.0,
        rule: Rule::All,
        comparable: true,
        ours,
        why: NO_REASON,
    }
}

/// A number.
const fn number(
    id: &'static str,
    [short, what]: [&'static str; 2],
    (published, unit): (f64, &'static str),
    ours: fn(SleepModel) -> f64,
) -> Statement {
    Statement { id, short, what, unit, published, rule: Rule::Close, comparable: true, ours, why: NO_REASON }
}

impl Statement {
    const fn because(mut self, rounds_up: &'static str, ticks: &'static str) -> Self {
        self.why = [rounds_up, ticks];
        self
    }

    const fn of_the_listing(mut self) -> Self {
        (self.comparable, self.why) = (false, LISTING);
        self
    }

    const fn at_most(mut self, most: f64) -> Self {
        self.rule = Rule::AtMost(most);
        self
    }
}

/// Every number and every sentence with a testable content, in the order of the paper.
pub(super) const STATEMENTS: &[Statement] = &[
    number(
        "fig4-smallest-size",
        ["Fig. 4: S* = R·T", "Figure 4: the largest size without sleeping, S* = R·T at 100,000 B/s"],
        (200.0, "B"),
        |model| {
            // The first cycle of DT0 knows of no send yet, and always sleeps.
            let idle = |size: &u64| Trial::new(DT0, model, *size, RATE).file(PACKETS).sleeps <= 1;
            sizes(10, 400, 10).take_while(idle).last().map_or(f64::NAN, |size| size as f64)
        },
    ),
    number(
        "fig4-largest-rate",
        ["Fig. 4: R* = S/T", "Figure 4: the largest throughput, R* = S/T with 1400 B"],
        (700_000.0, "B/s"),
        |model| Trial::new(DT0, model, SIZE, 1_000_000).throughput(),
    ),
    number(
        "fig5-sleep-2ms",
        ["Fig. 5: sleep(2 ms)", "Figure 5: how long each of many sleeps of 2 ms lasts"],
        (10.0, "ms"),
        |model| {
            let machine = super::simulated::machine(model);
            let first = machine.wake(giusto_units::Timestamp::ZERO, two_ms());
            (machine.wake(first, two_ms()) - first).as_millis()
        },
    ),
    all(
        "fig6a-below-200",
        "Fig. 6a: close up to 200 B",
        "Figure 6a: DT0 follows the ideal up to 200 B, share of sizes",
        |model| share(sizes(20, 200, 20).map(|size| Trial::new(DT0, model, size, RATE).ratio()), is_close),
    ),
    all(
        "fig6a-200-to-500",
        "Fig. 6a: far at 200 to 500 B",
        "Figure 6a: \"large discrepancy when S is between 200 and 500\", share of sizes",
        |model| share(sizes(250, 450, 50).map(|size| Trial::new(DT0, model, size, RATE).ratio()), is_far),
    ),
    all(
        "fig6a-200-to-500-as-printed",
        "the same, DT0 as printed",
        "Figure 6a: \"large discrepancy when S is between 200 and 500\", share of sizes, DT0 as printed",
        |model| {
            let ratios = sizes(250, 450, 50).map(|size| Trial::new(Algorithm::Dt0AsPrinted, model, size, RATE).ratio());
            share(ratios, is_far)
        },
    )
    .of_the_listing(),
    all(
        "fig6a-above-900",
        "Fig. 6a: close above 900 B",
        "Figures 6a and 7a: oversleeping \"does not seem to affect throughput\" above 900 B, share of sizes",
        |model| share(sizes(950, 1400, 50).map(|size| Trial::new(DT0, model, size, RATE).ratio()), is_close),
    )
    .because("", ANOTHER_TICK),
    number(
        "fig6a-1000",
        ["Fig. 6a: throughput, 1000 B", "Figure 6a: \"very close to ideal throughput\" of DT0 with 1000 B"],
        (100_000.0, "B/s"),
        |model| Trial::new(DT0, model, 1000, RATE).throughput(),
    ),
    number(
        "fig6b-close-up-to",
        ["Fig. 6b: close up to R =", "Figure 6b: the rate up to which DT0 follows the ideal with 1400 B"],
        (150_000.0, "B/s"),
        |model| {
            let close = |rate: &u64| is_close(Trial::new(DT0, model, SIZE, *rate).ratio());
            rates().take_while(close).last().map_or(f64::NAN, |rate| rate as f64)
        },
    )
    .because("", ANOTHER_TICK),
    all(
        "fig6b-constant",
        "Fig. 6b: constant above",
        "Figure 6b: \"constant resultant throughput for a whole range\", 225,000 to 650,000 B/s, share of rates",
        |model| {
            let range = rates().filter(|rate| (225_000..=650_000).contains(rate));
            let reached: Vec<f64> = range.map(|rate| Trial::new(DT0, model, SIZE, rate).throughput()).collect();
            let middle = median(reached.iter().copied()).unwrap_or(f64::NAN);
            share(reached.into_iter().map(|rate| rate / middle), is_close)
        },
    ),
    all(
        "fig6b-back",
        "Fig. 6b: back to ideal beyond",
        "Figure 6b: past a threshold \"the throughput returns to the ideal curve\", 700,000 B/s and more, share of rates",
        |model| {
            let range = rates().filter(|rate| *rate >= 700_000);
            share(range.map(|rate| Trial::new(DT0, model, SIZE, rate).ratio()), is_close)
        },
    ),
    number(
        "fig7a-requested-500",
        ["Fig. 7a: sleep asked, 500 B", "Figure 7a: sleep asked for by DT0 in 100 packets of 500 B"],
        (152.0, "ms"),
        |model| Trial::new(DT0, model, 500, RATE).file(FIGURE_7_PACKETS).requested_sleep.as_millis(),
    ),
    number(
        "fig7a-actual-500",
        ["Fig. 7a: slept, 500 B", "Figure 7a: how long DT0 slept in 100 packets of 500 B"],
        (819.0, "ms"),
        |model| Trial::new(DT0, model, 500, RATE).file(FIGURE_7_PACKETS).actual_sleep.as_millis(),
    )
    .because(TEN, ""),
    number(
        "fig7a-oversleep-500",
        ["Fig. 7a: overslept, 500 B", "Figure 7a: what DT0 overslept in 100 packets of 500 B"],
        (667.0, "ms"),
        |model| Trial::new(DT0, model, 500, RATE).file(FIGURE_7_PACKETS).oversleep().as_millis(),
    )
    .because(TEN, ""),
    number(
        "text-oversleep-each-500",
        ["§3: overslept each, 500 B", "§3: \"7 milliseconds of oversleeping\" in each sleep of 3 ms"],
        (7.0, "ms"),
        |model| {
            let record = Trial::new(DT0, model, 500, RATE).file(PACKETS);
            record.oversleep().as_millis() / record.sleeps as f64
        },
    )
    .because("", TICK),
    number(
        "fig7a-requested-500-as-printed",
        ["sleep asked, DT0 as printed", "Figure 7a: sleep asked for in 100 packets of 500 B, DT0 as printed"],
        (152.0, "ms"),
        |model| {
            let trial = Trial::new(Algorithm::Dt0AsPrinted, model, 500, RATE);
            trial.file(FIGURE_7_PACKETS).requested_sleep.as_millis()
        },
    )
    .of_the_listing(),
    number(
        "fig7a-actual-1000",
        ["Fig. 7a: slept, 1000 B", "Figure 7a: how long DT0 slept in 100 packets of 1000 B, \"roughly\""],
        (800.0, "ms"),
        |model| Trial::new(DT0, model, 1000, RATE).file(FIGURE_7_PACKETS).actual_sleep.as_millis(),
    ),
    number(
        "fig7a-oversleep-1000",
        ["Fig. 7a: overslept, 1000 B", "Figure 7a: what DT0 overslept in 100 packets of 1000 B"],
        (400.0, "ms"),
        |model| Trial::new(DT0, model, 1000, RATE).file(FIGURE_7_PACKETS).oversleep().as_millis(),
    ),
    number(
        "section4-n-300",
        ["§4: n = RG/(S−RT), 300 B", "§4: packets for each sleep of DT1, n = RG/(S−RT), 300 B"],
        (10.0, "packets"),
        |model| packets_per_sleep(model, 300),
    )
    .because("", N_WITH_TICKS),
    number(
        "section4-n-500",
        ["§4: n = RG/(S−RT), 500 B", "§4: packets for each sleep of DT1, n = RG/(S−RT), 500 B"],
        (10.0 / 3.0, "packets"),
        |model| packets_per_sleep(model, 500),
    )
    .because("", N_WITH_TICKS),
    number(
        "section4-n-1000",
        ["§4: n = RG/(S−RT), 1000 B", "§4: packets for each sleep of DT1, n = RG/(S−RT), 1000 B"],
        (1.25, "packets"),
        |model| packets_per_sleep(model, 1000),
    )
    .because("", N_WITH_TICKS),
    all(
        "fig12-dt1",
        "Fig. 12: DT1 close to ideal",
        "Figure 12: DT1 validated, share of sizes and rates with throughput close to ideal",
        |model| validated(DT1, model),
    ),
    all(
        "fig12-dt2",
        "Fig. 12: DT2 close to ideal",
        "Figure 12: DT2 validated, share of sizes and rates with throughput close to ideal",
        |model| validated(DT2, model),
    )
    .because(DT2_SLEEPS, DT2_SLEEPS),
    all(
        "fig12-at0",
        "Fig. 12: AT0 close to ideal",
        "Figure 12: AT0 validated, share of sizes and rates with throughput close to ideal",
        |model| validated(AT0, model),
    ),
    all(
        "section4-dt2-bursts",
        "§4: DT2 burstier than DT1",
        "§4: \"DT2 is inevitably more bursty than DT1\", share of sizes above 200 B at which its largest burst is larger",
        |model| {
            let larger = sizes(250, 1400, 50).map(|size| {
                let of = |algorithm| {
                    let record = Trial::new(algorithm, model, size, RATE).file(PACKETS);
                    burst(&record.departures, size, RATE)
                };
                of(DT2) - of(DT1)
            });
            // Bytes: half of one is no difference.
            share(larger, |more| more > 0.5)
        },
    )
    .because(DT2_LIKE_DT1, DT2_LIKE_DT1),
    number(
        "fig14-at0-first",
        ["Fig. 14: gaps, AT0, first 10 s", "Figure 14: mean gap of the first ten packets with AT0, \"approximately\""],
        (500.0, "ms"),
        |model| fragment_gap(AT0, model, 0),
    ),
    number(
        "fig14-at0-later",
        ["Fig. 14: gaps, AT0, later", "Figure 14: \"hardly any gap\" between the later packets with AT0, mean gap"],
        (0.0, "ms"),
        |model| fragment_gap(AT0, model, 1).max(fragment_gap(AT0, model, 2)),
    )
    .at_most(HARDLY * 500.0),
    number(
        "fig14-at1-first",
        ["Fig. 14: gaps, AT1, first 10 s", "Figure 14: mean gap of the first ten packets with AT1"],
        (500.0, "ms"),
        |model| fragment_gap(AT1, model, 0),
    ),
    number(
        "fig14-at1-later",
        ["Fig. 14: gaps, AT1, later", "Figure 14: mean gap of the later packets with AT1"],
        (500.0, "ms"),
        |model| f64::midpoint(fragment_gap(AT1, model, 1), fragment_gap(AT1, model, 2)),
    ),
    all(
        "section8-r-max",
        "§8: R_max is kept after a gap",
        "§8: with R_max = 2 R no five packets leave faster than that after a gap, share of algorithms",
        |model| {
            let peaks = SHAPERS.iter().map(|&algorithm| {
                let trial = Trial { r_max: Some(bursts::R_MAX), ..Trial::new(algorithm, model, bursts::SIZE, RATE) };
                peak_rate(&trial.with(&bursts::DATA).departures, bursts::SIZE)
            });
            share(peaks, |peak| peak <= bursts::R_MAX as f64 * (1.0 + 1e-9))
        },
    ),
];

const N_WITH_TICKS: &str =
    "A sleep lasts 10 to 20 ms, by where in a tick it begins, so G is larger and more packets follow it.";

/// All shapers that can be asked for, and `grid`.
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

const fn two_ms() -> giusto_units::TimeDelta {
    giusto_units::TimeDelta::from_millis(2)
}

fn is_close(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= CLOSE
}

fn is_far(ratio: f64) -> bool {
    ratio <= 1.0 - FAR
}

/// The share of `values` that are as they should be.
fn share(values: impl Iterator<Item = f64>, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut all, mut good) = (0_u32, 0_u32);
    for value in values {
        all += 1;
        good += u32::from(holds(value));
    }
    f64::from(good) / f64::from(all.max(1))
}

/// The share of both sweeps of Figure 12 with a throughput close to ideal.
fn validated(algorithm: Algorithm, model: SleepModel) -> f64 {
    let by_size = sizes(50, 1400, 50).map(|size| Trial::new(algorithm, model, size, RATE));
    let by_rate = rates().map(|rate| Trial::new(algorithm, model, SIZE, rate));
    share(by_size.chain(by_rate).map(|trial| trial.ratio()), is_close)
}

pub(super) fn packets_per_sleep(model: SleepModel, size: u64) -> f64 {
    let record = Trial::new(DT1, model, size, RATE).file(PACKETS);
    record.departures.len() as f64 / record.sleeps.max(1) as f64
}

/// The mean gap within one of the fragments of Figure 14, in ms.
fn fragment_gap(algorithm: Algorithm, model: SleepModel, fragment: usize) -> f64 {
    let record = Trial::new(algorithm, model, live::SIZE, live::RATE).with(&live::DATA);
    let packets = record.departures.chunks(live::FRAGMENT as usize).nth(fragment).unwrap_or_default();
    let gaps = gaps_ms(packets);
    gaps.iter().sum::<f64>() / gaps.len().max(1) as f64
}
