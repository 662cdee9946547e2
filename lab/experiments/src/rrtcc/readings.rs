//! Alternatives to the readings that were chosen: each alternative by itself, on line 2 of Table 9.

use giusto_congestion::{
    gcc::config::AimdConfig,
    internals::thesis::{LossWindow, Pace},
};
use giusto_units::DataSize;

use super::{
    network::Variance,
    session::{Pair, Setting},
    statements::{Ours, goodput_factor, statements},
};
use crate::item::Spread;

/// Changes one thing of the judged setting.
pub(super) type Change = fn(&mut Setting);

/// Name and change.
pub(super) const READINGS: &[(&str, Change)] = &[
    ("packets of 1200 B: 1.3 s, no report", |setting| setting.packet = DataSize::from_bytes(1200)),
    ("packets of 9000 B: 10 s, three reports", |setting| setting.packet = DataSize::from_bytes(9000)),
    ("packets of 20,000 B: 22 s", |setting| setting.packet = DataSize::from_bytes(20_000)),
    ("packets of 150,000 B: 167 s", |setting| setting.packet = DataSize::from_bytes(150_000)),
    ("delay: variance 0.001 s², deviation 31.6 ms", |setting| {
        setting.variance = Variance::SecondsSquared;
    }),
    ("p over all packets of a report", |setting| setting.algorithm.loss_window = LossWindow::Report),
    ("p over all packets so far", |setting| setting.algorithm.loss_window = LossWindow::All),
    ("A_r moves with each packet", |setting| setting.algorithm.pace = Pace::Packet),
    ("A_r at most 1.5·R, as in the draft", |setting| setting.algorithm.aimd = AimdConfig::thesis()),
];

/// The figures of one reading, medians over all seeds.
pub(super) const FIGURES: [fn(&Pair) -> f64; 6] = [
    |pair| pair.rrtcc.estimates.len() as f64,
    |pair| pair.rrtcc.sent_bps(),
    |pair| pair.udp.loss_ratio(),
    |pair| pair.rrtcc.loss_ratio(),
    goodput_factor,
    |pair| pair.rrtcc.over_use_ratio(),
];

/// One reading and what it gives.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    pub(super) figures: [Option<f64>; 6],
    /// Whether each statement about line 2 alone agrees.
    pub(super) verdicts: Vec<(String, bool)>,
}

impl Reading {
    pub(super) fn judge(name: &'static str, pairs: &[Pair]) -> Self {
        let spread = |value: fn(&Pair) -> f64| Spread::of(pairs.iter().map(value));
        let verdicts = statements().into_iter().filter_map(|statement| match statement.ours {
            Ours::Line(2, value) => {
                let agrees = statement.judge(spread(value)).does_agree();
                Some((statement.what, agrees))
            }
            _ => None,
        });
        let figures = FIGURES.map(|value| spread(value).map(|spread| spread.median));
        Self { name, figures, verdicts: verdicts.collect() }
    }
}
