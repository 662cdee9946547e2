//! The sentences of the thesis about its results, and how each is judged.

use super::session::{Estimate, Pair};
use crate::item::{Item, Rule, Spread, mean_and_deviation};

/// Mean of the final estimate in the main run (§4.1), in bit/s.
pub(super) const MEAN_ESTIMATE_BPS: f64 = 7_082_516.0;

/// The value of a statement for one seed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ours {
    /// The runs of one line of Table 9.
    Line(usize, fn(&Pair) -> f64),
    /// The runs of all lines, in their order.
    All(fn(&[&Pair]) -> f64),
}

pub(super) type Statement = crate::item::Statement<Ours>;

const LOSS_LAW: &str = "Loss is what exceeds the bandwidth, so this only says how far the rate fell.";
const GIVES_WAY: &str = "Above 10 % loss each report takes half of the lost share off the rate; one from a saturated state halves it.";
const RISES: &str = "With little loss the rate rises by 5 % a report, above UDP's.";
const TAKES: &str =
    "A sender that overloads the network gets all of its bandwidth, so the lower rate gets less.";
const MORE: &str = "Here RRTCC sends more than UDP, and the faster sender gets more.";
const FEW_PACKETS: &str =
    "A report covers 0.5 s, some seven packets, so the loss ratio moves in large steps.";
const TABLE_8: &str = "Table 8's probabilities give 12.5 %: 0.125·(0.2 + 0.4) + 0.05.";
const ABOVE: &str =
    "23 % above the most that the network carries, 5.76 Mbit/s; the printed loss rule does not stay there.";
const FARTHER: &str = "On line 4 RRTCC sends more than UDP.";
const CLOSE_LINES: &str = "A single run hardly determines the order of two close lines.";

/// All testable sentences of §4, in its order.
pub(super) fn statements() -> Vec<Statement> {
    use Ours::{All, Line};
    let mut all = vec![
        Statement::ratio(
            "mean-estimate",
            "§4.1: mean estimate",
            MEAN_ESTIMATE_BPS,
            Rule::NearAndInRange(0.05),
            Line(2, |pair| pair.rrtcc.sent_bps()),
        )
        .in_unit("bit/s")
        .because(ABOVE),
        at_least("loss-below-20", "§4.1: reports below 20 % loss", 0.5, Line(2, below_20)).because(GIVES_WAY),
        between("loss-two-to-three-times", "§4.1: loss, UDP/RRTCC", 2.5, (2.0, 3.0), Line(2, loss_factor))
            .because(LOSS_LAW),
        at_most("loss-becomes-stable", "§4.1: loss deviation, late/early", 0.5, Line(2, late_over_early))
            .because(FEW_PACKETS),
        at_most("estimate-stable", "§4.1: deviation of the estimate", 0.1, Line(2, variation))
            .because(GIVES_WAY),
        between("rate-little-lower", "§4.1: rate, RRTCC/UDP", 0.984, (0.95, 1.0), Line(2, rate_factor))
            .because(GIVES_WAY),
    ];
    for line in [1, 2] {
        let what = format!("Fig. 18, line {line}: loss, UDP/RRTCC");
        let id = format!("fig18-loss-{line}");
        all.push(at_least(id, what, 2.0, Line(line, loss_factor)).because(LOSS_LAW));
    }
    for line in [3, 4] {
        let what = format!("Fig. 18, line {line}: loss of UDP");
        let id = format!("fig18-udp-loss-{line}");
        all.push(at_most(id, what, 0.1, Line(line, |pair| pair.udp.loss_ratio())).because(TABLE_8));
    }
    for (line, max, why) in [(1, 1.0, GIVES_WAY), (2, 1.0, GIVES_WAY), (3, 1.05, GIVES_WAY), (4, 1.05, RISES)]
    {
        let what = format!("Fig. 19, line {line}: rate, RRTCC/UDP");
        let id = format!("fig19-rate-{line}");
        all.push(between(id, what, 1.0, (0.95, max), Line(line, rate_factor)).because(why));
    }
    for (line, why) in [(1, TAKES), (2, TAKES), (3, TAKES), (4, MORE)] {
        let what = format!("Fig. 20, line {line}: goodput, UDP/RRTCC");
        let id = format!("fig20-goodput-{line}");
        all.push(between(id, what, 1.0, (1.0, 1.05), Line(line, goodput_factor)).because(why));
    }
    let closer = "Fig. 20: goodputs closer to RRTCC's rate";
    all.push(at_least("fig20-goodputs-closer", closer, 1.0, All(goodputs_closer)).because(FARTHER));
    let trend = "Fig. 20: three lines with one trend";
    all.push(at_least("fig20-same-trend", trend, 1.0, All(same_trend)).because(CLOSE_LINES));
    all
}

fn between(
    id: impl Into<String>,
    what: impl Into<String>,
    published: f64,
    (low, high): (f64, f64),
    ours: Ours,
) -> Statement {
    Statement::ratio(id, what, published, Rule::Between(low, high), ours)
}

fn at_least(id: impl Into<String>, what: impl Into<String>, bound: f64, ours: Ours) -> Statement {
    Statement::ratio(id, what, bound, Rule::AtLeast(bound), ours)
}

fn at_most(id: impl Into<String>, what: impl Into<String>, bound: f64, ours: Ours) -> Statement {
    Statement::ratio(id, what, bound, Rule::AtMost(bound), ours)
}

/// A statement judged by the runs of all seeds, by line of Table 9.
pub(super) fn item(statement: &Statement, runs: &[Vec<Pair>]) -> Item {
    let of_line = |line: usize| runs.get(line.checked_sub(1)?);
    let ours = match statement.ours {
        Ours::Line(line, value) => of_line(line).and_then(|pairs| Spread::of(pairs.iter().map(value))),
        Ours::All(value) => of_line(4).and_then(|last| {
            let seed = |seed| runs.iter().filter_map(|line| line.get(seed)).collect::<Vec<_>>();
            Spread::of((0..last.len()).map(|number| value(&seed(number))))
        }),
    };
    statement.judge(ours)
}

fn loss_factor(pair: &Pair) -> f64 {
    pair.udp.loss_ratio() / pair.rrtcc.loss_ratio()
}

fn rate_factor(pair: &Pair) -> f64 {
    pair.rrtcc.sent_bps() / pair.udp.sent_bps()
}

pub(super) fn goodput_factor(pair: &Pair) -> f64 {
    pair.udp.goodput_bps() / pair.rrtcc.goodput_bps()
}

/// The share of RRTCC's reports with less than 20 % loss.
fn below_20(pair: &Pair) -> f64 {
    share(&pair.rrtcc.estimates, |estimate| estimate.loss_ratio < 0.2)
}

/// The deviation of the loss in the second half of RRTCC's reports over that in the first half.
fn late_over_early(pair: &Pair) -> f64 {
    let (early, late) = pair.rrtcc.estimates.split_at(pair.rrtcc.estimates.len() / 2);
    let deviation = |half: &[Estimate]| {
        mean_and_deviation(half.iter().map(|estimate| estimate.loss_ratio)).map_or(f64::NAN, |both| both.1)
    };
    deviation(late) / deviation(early)
}

/// The deviation of RRTCC's rate over its mean.
fn variation(pair: &Pair) -> f64 {
    let rates = pair.rrtcc.estimates.iter().map(|estimate| estimate.rate.as_bps() as f64);
    mean_and_deviation(rates).map_or(f64::NAN, |(mean, deviation)| deviation / mean)
}

/// The share of `values` for which `holds` is true; NaN without any.
fn share<T>(values: &[T], holds: impl Fn(&T) -> bool) -> f64 {
    values.iter().filter(|value| holds(value)).count() as f64 / values.len() as f64
}

/// The share of goodputs that lie closer to RRTCC's sending rate than to UDP's.
fn goodputs_closer(pairs: &[&Pair]) -> f64 {
    let distances = pairs.iter().flat_map(|pair| {
        [pair.udp.goodput_bps(), pair.rrtcc.goodput_bps()]
            .map(|goodput| [pair.rrtcc.sent_bps(), pair.udp.sent_bps()].map(|rate| (goodput - rate).abs()))
    });
    share(&distances.collect::<Vec<_>>(), |[rrtcc, udp]| rrtcc < udp)
}

/// The share of steps from line to line at which RRTCC's rate and both goodputs rise.
fn same_trend(pairs: &[&Pair]) -> f64 {
    let rates = |pair: &Pair| [pair.rrtcc.sent_bps(), pair.rrtcc.goodput_bps(), pair.udp.goodput_bps()];
    share(&pairs.windows(2).collect::<Vec<_>>(), |step| match step {
        [before, after] => rates(before).iter().zip(rates(after)).all(|(before, after)| after > *before),
        _ => false,
    })
}
