//! What hangs on the readings that were chosen: each other one by itself, on line 2 of Table 9.

use giusto_congestion::gcc::{
    rate::AimdConfig,
    thesis::{LossWindow, Pace},
};
use giusto_units::DataSize;

use super::{
    network::{self, Bandwidths},
    session::{Pair, Setting},
    statements::{STATEMENTS, Spread, Statement},
};

/// Changes one thing of the setting that is judged.
pub(super) type Change = fn(&mut Setting);

/// How many readings there are.
pub(super) const COUNT: usize = READINGS.len();

/// Name and change.
pub(super) const READINGS: &[(&str, Change)] = &[
    ("packets of 1200 B: 1.3 s, no report", |setting| setting.packet = DataSize::from_bytes(1200)),
    ("packets of 9000 B: 10 s, three reports", |setting| setting.packet = DataSize::from_bytes(9000)),
    ("packets of 20,000 B: 22 s", |setting| setting.packet = DataSize::from_bytes(20_000)),
    ("packets of 150,000 B: 167 s", |setting| setting.packet = DataSize::from_bytes(150_000)),
    ("delay: variance 0.001 s², deviation 31.6 ms", |setting| {
        setting.spread = network::Spread::SecondsSquared;
    }),
    ("p over all packets of a report", |setting| setting.algorithm.loss_window = LossWindow::Report),
    ("p over all packets so far", |setting| setting.algorithm.loss_window = LossWindow::All),
    ("A_r moves with each packet", |setting| setting.algorithm.pace = Pace::Packet),
    ("A_r at most 1.5·R, as in the draft", |setting| setting.algorithm.aimd = AimdConfig::thesis()),
];

/// What came of one reading.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    pub(super) figures: Figures,
    /// Of the statements about line 2 alone: whether each agrees.
    pub(super) verdicts: Vec<(&'static str, bool)>,
}

/// Medians over all seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    pub(super) rate_bps: Option<f64>,
    pub(super) udp_loss: Option<f64>,
    pub(super) rrtcc_loss: Option<f64>,
    /// UDP's over RRTCC's.
    pub(super) goodputs: Option<f64>,
    /// Packets at which the delay said over-use, of all.
    pub(super) over_use: Option<f64>,
    pub(super) reports: Option<f64>,
}

impl Figures {
    pub(super) fn of(pairs: &[Pair]) -> Self {
        let median =
            |value: fn(&Pair) -> f64| Spread::of(pairs.iter().map(value)).map(|spread| spread.median);
        Self {
            rate_bps: median(|pair| pair.rrtcc.sent_bps()),
            udp_loss: median(|pair| pair.udp.loss_ratio()),
            rrtcc_loss: median(|pair| pair.rrtcc.loss_ratio()),
            goodputs: median(|pair| pair.udp.goodput_bps() / pair.rrtcc.goodput_bps()),
            over_use: median(|pair| pair.rrtcc.over_uses as f64 / pair.rrtcc.sent_packets as f64),
            reports: median(|pair| pair.rrtcc.estimates.len() as f64),
        }
    }
}

/// The statements that are about line 2 and no other.
pub(super) fn of_line_2() -> impl Iterator<Item = &'static Statement> {
    STATEMENTS.iter().filter(|statement| statement.lines == [2])
}

impl Reading {
    pub(super) fn run(name: &'static str, change: Change, seeds: u64) -> Self {
        let mut setting = Setting::judged(Bandwidths::TABLE_8);
        change(&mut setting);
        let pairs: Vec<Pair> = (1..=seeds).map(|seed| Pair::run(&setting, seed)).collect();
        Self::judge(name, &pairs)
    }

    pub(super) fn judge(name: &'static str, pairs: &[Pair]) -> Self {
        let figures = Figures::of(pairs);
        let verdicts = of_line_2().map(|statement| {
            let ours = Spread::of(pairs.iter().map(|pair| (statement.ours)(&[pair])));
            (statement.short, ours.is_some_and(|ours| statement.rule.agrees(statement.published, ours)))
        });
        Self { name, figures, verdicts: verdicts.collect() }
    }
}
