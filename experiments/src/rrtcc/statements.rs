//! What the thesis says of its results, sentence by sentence, and how it is judged.

use std::collections::BTreeMap;

use super::{
    published::{MEAN_ESTIMATE_BPS, TABLE_3, TABLE_3_DELAYS_MS},
    session::{Estimate, Outcome, Pair},
};
use crate::Item;

/// How far a number may be off, as a share of it.
const CLOSE: f64 = 0.05;

/// What the runs of all seeds say of one quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Spread {
    /// Median, 5th and 95th percentile of those that are numbers.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            values.get(((values.len().saturating_sub(1)) as f64 * share).round() as usize).copied()
        };
        Some(Self {
            low: at(0.05)?,
            median: giusto::measured::result::median(values.iter().copied())?,
            high: at(0.95)?,
        })
    }
}

/// How ours is compared with what was published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// The median is within 5 % of the number, and the number within our range.
    Number,
    /// The median is between these.
    Between(f64, f64),
    /// The median is at least this.
    AtLeast(f64),
    /// The median is at most this.
    AtMost(f64),
}

impl Rule {
    pub(super) fn agrees(self, published: f64, ours: Spread) -> bool {
        let median = ours.median;
        match self {
            Self::Number => {
                (median - published).abs() <= CLOSE * published.abs()
                    && (ours.low..=ours.high).contains(&published)
            }
            Self::Between(low, high) => (low..=high).contains(&median),
            Self::AtLeast(least) => median >= least,
            Self::AtMost(most) => median <= most,
        }
    }

    fn figures(self) -> BTreeMap<String, f64> {
        let named = |name: &str, value: f64| (name.to_owned(), value);
        match self {
            Self::Number => BTreeMap::from([named("tolerance_ratio", CLOSE)]),
            Self::Between(low, high) => BTreeMap::from([named("least", low), named("most", high)]),
            Self::AtLeast(least) => BTreeMap::from([named("least", least)]),
            Self::AtMost(most) => BTreeMap::from([named("most", most)]),
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
    /// By which lines of Table 9 it is judged: all runs of one seed, in this order.
    pub(super) lines: &'static [usize],
    /// What one seed says.
    pub(super) ours: fn(&[&Pair]) -> f64,
    /// Why it does not agree, if it does not.
    pub(super) why: &'static str,
}

impl Statement {
    const fn because(mut self, why: &'static str) -> Self {
        self.why = why;
        self
    }

    /// What the runs of all seeds, by line of Table 9, make of it.
    pub(super) fn measured(&self, runs: &[Vec<Pair>]) -> Option<Spread> {
        let lines: Option<Vec<&Vec<Pair>>> =
            self.lines.iter().map(|line| runs.get(line.checked_sub(1)?)).collect();
        let lines = lines?;
        let seeds = lines.iter().map(|line| line.len()).min()?;
        Spread::of((0..seeds).map(|seed| {
            let pairs: Vec<&Pair> = lines.iter().filter_map(|line| line.get(seed)).collect();
            (self.ours)(&pairs)
        }))
    }

    pub(super) fn item(&self, runs: &[Vec<Pair>]) -> Item {
        let ours = self.measured(runs);
        let agrees = ours.is_some_and(|ours| self.rule.agrees(self.published, ours));
        Item {
            id: self.id.to_owned(),
            what: self.what.to_owned(),
            unit: self.unit.to_owned(),
            published: self.published,
            ours: ours.map(|ours| ours.median),
            ours_low: ours.map(|ours| ours.low),
            ours_high: ours.map(|ours| ours.high),
            agrees,
            why: (!agrees).then(|| self.why.to_owned()),
            comparable: ours.is_some(),
            figures: self.rule.figures(),
        }
    }
}

/// The cells of Table 3, which is not the thesis's own.
pub(super) fn fairness_items(measured: Option<&super::fairness::Shares>) -> Vec<Item> {
    let mut items = Vec::new();
    for (place, delay) in TABLE_3_DELAYS_MS.into_iter().enumerate() {
        for cell in &TABLE_3 {
            let (Some(published), Some(deviation)) = (cell.published.get(place), cell.deviation.get(place))
            else {
                continue;
            };
            let ours = measured.and_then(|shares| shares.of(cell.id, delay));
            let agrees = ours.is_some_and(|ours| (ours.median - published).abs() <= 2.0 * deviation);
            items.push(Item {
                id: format!("table3-{}-{delay}ms", cell.id),
                what: format!("Table 3, {delay} ms: {}", cell.what),
                unit: cell.unit.to_owned(),
                published: *published,
                ours: ours.map(|ours| ours.median),
                ours_low: ours.map(|ours| ours.low),
                ours_high: ours.map(|ours| ours.high),
                agrees,
                why: (!agrees).then(|| super::fairness::why(ours.is_some()).to_owned()),
                comparable: ours.is_some(),
                figures: BTreeMap::from([("deviation".to_owned(), *deviation)]),
            });
        }
    }
    items
}

const LOSS_LAW: &str =
    "Where less exceeds the bandwidth less is lost: this factor says how far the rate gave way, and no more.";
const GIVES_WAY: &str = "The loss rule as printed gives way: above 10 % of loss it takes half of the lost share off the rate with every report, and a \
                         report from a saturated state halves it.";
const RISES: &str = "With so little loss the rule raises the rate by 5 % a report, beyond what UDP sends.";
const TAKES: &str = "A coin gives to one who overloads all that the network has, and nobody else is there to be heeded: the more is sent, \
                     the more arrives, so the one whose rate is lower by a quarter or a half has less.";
const MORE: &str = "The rule raises the rate of RRTCC beyond UDP's here, and who sends more has more.";
const FEW_PACKETS: &str = "In 0.5 s leave some seven packets, and the states go on changing: the share that is lost of so few moves in \
                           large steps to the end.";
const TABLE_8_SAYS: &str = "12.5 % are to be expected by Table 8's probabilities: 0.125·(0.2 + 0.4) + 0.05.";

/// One for each sentence of §4 with a testable content, in its order.
pub(super) const STATEMENTS: &[Statement] = &[
    Statement {
        id: "mean-estimate",
        short: "§4.1: mean estimate",
        what: "§4.1: average final estimated bandwidth of RRTCC",
        unit: "bit/s",
        published: MEAN_ESTIMATE_BPS,
        rule: Rule::Number,
        lines: &[2],
        ours: |pairs| one(pairs, |pair| pair.rrtcc.sent_bps()),
        why: "7.08 Mbit/s is 23 % above what the network lets through at best, 5.76. There is no queue, so the delay says nothing; \
              the loss controller alone, by its printed rule, does not stay there.",
    },
    Statement {
        id: "loss-below-20",
        short: "§4.1: reports below 20 % loss",
        what: "§4.1: loss of RRTCC \"is kept lower than 20 percent most of time\", share of reports",
        unit: "ratio",
        published: 0.5,
        rule: Rule::AtLeast(0.5),
        lines: &[2],
        ours: |pairs| one(pairs, |pair| share(&pair.rrtcc.estimates, |estimate| estimate.loss_ratio < 0.2)),
        why: GIVES_WAY,
    },
    Statement {
        id: "loss-two-to-three-times",
        short: "§4.1: loss, UDP over RRTCC",
        what: "§4.1: loss of RRTCC \"is about 2 to 3 times lower\" than UDP's, UDP's over RRTCC's",
        unit: "ratio",
        published: 2.5,
        rule: Rule::Between(2.0, 3.0),
        lines: &[2],
        ours: |pairs| one(pairs, loss_factor),
        why: LOSS_LAW,
    },
    Statement {
        id: "loss-becomes-stable",
        short: "§4.1: spread of loss, late/early",
        what: "§4.1: loss of RRTCC \"fluctuates at first, then becomes stable\", deviation in the second half of the reports over that in the first",
        unit: "ratio",
        published: 0.5,
        rule: Rule::AtMost(0.5),
        lines: &[2],
        ours: |pairs| one(pairs, |pair| late_over_early(&pair.rrtcc.estimates)),
        why: FEW_PACKETS,
    },
    Statement {
        id: "estimate-stable",
        short: "§4.1: deviation of the estimate",
        what: "§4.1: the estimate of RRTCC \"is stable enough to be suitable with a real-time system\", deviation over mean",
        unit: "ratio",
        published: 0.1,
        rule: Rule::AtMost(0.1),
        lines: &[2],
        ours: |pairs| one(pairs, |pair| variation(&pair.rrtcc)),
        why: GIVES_WAY,
    },
    Statement {
        id: "rate-little-lower",
        short: "§4.1: rate, RRTCC over UDP",
        what: "§4.1: RRTCC has \"just a little bit lower sending rate\" than UDP, RRTCC's over UDP's",
        unit: "ratio",
        published: 0.984,
        rule: Rule::Between(0.95, 1.0),
        lines: &[2],
        ours: |pairs| one(pairs, rate_factor),
        why: GIVES_WAY,
    },
    much_lower_loss(
        "fig18-loss-1",
        "Fig. 18: loss, UDP over RRTCC, 1",
        "Figure 18, line 1: \"much more lower loss ratio\" with RRTCC, UDP's over RRTCC's",
        &[1],
    ),
    much_lower_loss(
        "fig18-loss-2",
        "Fig. 18: loss, UDP over RRTCC, 2",
        "Figure 18, line 2: \"much more lower loss ratio\" with RRTCC, UDP's over RRTCC's",
        &[2],
    ),
    small_loss(
        "fig18-udp-loss-3",
        "Fig. 18: loss of UDP, 3",
        "Figure 18, line 3: loss of UDP \"is small enough to ensure a good real-time transmission\"",
        &[3],
    ),
    small_loss(
        "fig18-udp-loss-4",
        "Fig. 18: loss of UDP, 4",
        "Figure 18, line 4: loss of UDP \"is small enough to ensure a good real-time transmission\"",
        &[4],
    ),
    rate(
        "fig19-rate-1",
        "Fig. 19: rate, RRTCC over UDP, 1",
        "Figure 19, line 1: \"just a little bit lower sending rate\", RRTCC's over UDP's",
        (0.95, 1.0),
        &[1],
    ),
    rate(
        "fig19-rate-2",
        "Fig. 19: rate, RRTCC over UDP, 2",
        "Figure 19, line 2: \"just a little bit lower sending rate\", RRTCC's over UDP's",
        (0.95, 1.0),
        &[2],
    ),
    rate(
        "fig19-rate-3",
        "Fig. 19: rate, RRTCC over UDP, 3",
        "Figure 19, line 3: \"the sending bitrate in both cases is approximate\", RRTCC's over UDP's",
        (0.95, 1.05),
        &[3],
    ),
    rate(
        "fig19-rate-4",
        "Fig. 19: rate, RRTCC over UDP, 4",
        "Figure 19, line 4: \"the sending bitrate in both cases is approximate\", RRTCC's over UDP's",
        (0.95, 1.05),
        &[4],
    )
    .because(RISES),
    goodput(
        "fig20-goodput-1",
        "Fig. 20: goodput, UDP/RRTCC, 1",
        "Figure 20, line 1: goodput of UDP \"is quite the same (a little bit higher)\", UDP's over RRTCC's",
        &[1],
    ),
    goodput(
        "fig20-goodput-2",
        "Fig. 20: goodput, UDP/RRTCC, 2",
        "Figure 20, line 2: goodput of UDP \"is quite the same (a little bit higher)\", UDP's over RRTCC's",
        &[2],
    ),
    goodput(
        "fig20-goodput-3",
        "Fig. 20: goodput, UDP/RRTCC, 3",
        "Figure 20, line 3: goodput of UDP \"is quite the same (a little bit higher)\", UDP's over RRTCC's",
        &[3],
    ),
    goodput(
        "fig20-goodput-4",
        "Fig. 20: goodput, UDP/RRTCC, 4",
        "Figure 20, line 4: goodput of UDP \"is quite the same (a little bit higher)\", UDP's over RRTCC's",
        &[4],
    )
    .because(MORE),
    Statement {
        id: "fig20-goodputs-closer",
        short: "Fig. 20: goodputs closer to RRTCC",
        what: "Figure 20: \"the goodput lines in both cases are closer to the RRTCC sending rate line than the UDP sending rate line\", share of points",
        unit: "ratio",
        published: 1.0,
        rule: Rule::AtLeast(1.0),
        lines: &[1, 2, 3, 4],
        ours: goodputs_closer,
        why: "Where the rate of RRTCC is above UDP's, as with line 4, its line is the farther one.",
    },
    Statement {
        id: "fig20-same-trend",
        short: "Fig. 20: three lines, one trend",
        what: "Figure 20: \"two goodput lines and the RRTCC sending rate line have the same trend\", share of steps from line to line at which all rise",
        unit: "ratio",
        published: 1.0,
        rule: Rule::AtLeast(1.0),
        lines: &[1, 2, 3, 4],
        ours: same_trend,
        why: "A single run of a minute hardly fixes the order of two lines that lie close.",
    },
];

const fn much_lower_loss(
    id: &'static str,
    short: &'static str,
    what: &'static str,
    lines: &'static [usize],
) -> Statement {
    Statement {
        id,
        short,
        what,
        unit: "ratio",
        published: 2.0,
        rule: Rule::AtLeast(2.0),
        lines,
        ours: |pairs| one(pairs, loss_factor),
        why: LOSS_LAW,
    }
}

const fn small_loss(
    id: &'static str,
    short: &'static str,
    what: &'static str,
    lines: &'static [usize],
) -> Statement {
    Statement {
        id,
        short,
        what,
        unit: "ratio",
        published: 0.1,
        rule: Rule::AtMost(0.1),
        lines,
        ours: |pairs| one(pairs, |pair| pair.udp.loss_ratio()),
        why: TABLE_8_SAYS,
    }
}

const fn rate(
    id: &'static str,
    short: &'static str,
    what: &'static str,
    (least, most): (f64, f64),
    lines: &'static [usize],
) -> Statement {
    Statement {
        id,
        short,
        what,
        unit: "ratio",
        published: 1.0,
        rule: Rule::Between(least, most),
        lines,
        ours: |pairs| one(pairs, rate_factor),
        why: GIVES_WAY,
    }
}

const fn goodput(
    id: &'static str,
    short: &'static str,
    what: &'static str,
    lines: &'static [usize],
) -> Statement {
    Statement {
        id,
        short,
        what,
        unit: "ratio",
        published: 1.0,
        rule: Rule::Between(1.0, 1.05),
        lines,
        ours: |pairs| one(pairs, |pair| pair.udp.goodput_bps() / pair.rrtcc.goodput_bps()),
        why: TAKES,
    }
}

fn one(pairs: &[&Pair], value: impl Fn(&Pair) -> f64) -> f64 {
    pairs.first().map_or(f64::NAN, |pair| value(pair))
}

fn loss_factor(pair: &Pair) -> f64 {
    pair.udp.loss_ratio() / pair.rrtcc.loss_ratio()
}

fn rate_factor(pair: &Pair) -> f64 {
    pair.rrtcc.sent_bps() / pair.udp.sent_bps()
}

/// The share of `values` that are as they should be; no number without any.
fn share<T>(values: &[T], holds: impl Fn(&T) -> bool) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.iter().filter(|value| holds(value)).count() as f64 / values.len() as f64
}

fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    (mean, (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

fn late_over_early(estimates: &[Estimate]) -> f64 {
    let (early, late) = estimates.split_at(estimates.len() / 2);
    let deviation = |half: &[Estimate]| mean_and_deviation(half.iter().map(|estimate| estimate.loss_ratio)).1;
    deviation(late) / deviation(early)
}

fn variation(run: &Outcome) -> f64 {
    let (mean, deviation) =
        mean_and_deviation(run.estimates.iter().map(|estimate| estimate.rate.as_bps() as f64));
    deviation / mean
}

fn goodputs_closer(pairs: &[&Pair]) -> f64 {
    let points: Vec<(f64, f64, f64)> = pairs
        .iter()
        .flat_map(|pair| {
            let rates = (pair.rrtcc.sent_bps(), pair.udp.sent_bps());
            [pair.udp.goodput_bps(), pair.rrtcc.goodput_bps()].map(|goodput| (goodput, rates.0, rates.1))
        })
        .collect();
    share(&points, |(goodput, rrtcc, udp)| (goodput - rrtcc).abs() < (goodput - udp).abs())
}

fn same_trend(pairs: &[&Pair]) -> f64 {
    let lines: Vec<[f64; 3]> = pairs
        .iter()
        .map(|pair| [pair.rrtcc.sent_bps(), pair.rrtcc.goodput_bps(), pair.udp.goodput_bps()])
        .collect();
    let steps: Vec<_> = lines.iter().zip(lines.iter().skip(1)).collect();
    share(&steps, |(before, after)| before.iter().zip(after.iter()).all(|(before, after)| after > before))
}
