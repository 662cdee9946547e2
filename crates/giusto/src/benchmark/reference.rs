//! What was attainable: bounds and constant rates, which are judged as controllers are and never ranked among them.
//!
//! They receive the max-min fair share of the bottleneck over time, which no controller can know. Only a benchmark builds them.

use std::{
    ops::ControlFlow,
    sync::{Arc, LazyLock},
};

use giusto_congestion::{
    Algorithm, Cause, Controller, Decision, Feedback, Fixed, Limits, PacerSettings, QueueState, Requirements,
    SentPacket, Target,
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{family::Drawn, judge::Figures, share::sendable, simulate::simulate_with};
use crate::{
    run::{MediaFlow, Taps},
    scenario::Scenario,
};

/// A row of a benchmark that is no controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// It knows the fair share one base RTT and 50 ms late.
    Causal,
    /// It knows the fair share to come.
    Oracle,
    /// This percentage of the mean fair share, at all times.
    Fixed(u8),
}

/// Time from a change of the share until a causal sender knows it, besides the round-trip time: half the interval of feedback, and some.
const LATE: TimeDelta = TimeDelta::from_millis(50);

/// How the share becomes a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Setting {
    /// Share of the fair share that is sent.
    fraction: f64,
    /// Length of the interval whose share counts: the latest known one, or the next one.
    width: TimeDelta,
    /// Whether its lowest rate over [`LEAST`] counts, instead of its mean.
    least: bool,
}

const LEAST: TimeDelta = TimeDelta::from_millis(100);

const fn setting(fraction: f64, millis: i64, least: bool) -> Setting {
    Setting { fraction, width: TimeDelta::from_millis(millis), least }
}

/// The settings of which the best counts, for each scenario, by its utility. `docs/reference/benchmark.md` names them.
const CAUSAL: [Setting; 4] = [
    setting(1.0, 200, false),
    setting(0.85, 200, false),
    setting(0.5, 1000, false),
    setting(0.93, 3000, true),
];
const AHEAD: [Setting; 3] = [setting(1.0, 200, false), setting(1.0, 500, false), setting(0.85, 500, false)];

/// Width of the bins in which the share is known.
const STEP: TimeDelta = TimeDelta::from_millis(20);

/// Time between looks at the share.
const LOOK: TimeDelta = TimeDelta::from_millis(10);

/// Time in which what waits beyond the share is to leave.
const DRAIN: TimeDelta = TimeDelta::from_millis(250);

/// No frame is encoded while what waits needs longer: it would be late.
const FULL: TimeDelta = TimeDelta::from_millis(300);

/// A row and no controller: packets one at a time, any feedback, no marks.
pub(super) static ALGORITHM: LazyLock<Algorithm> = LazyLock::new(|| {
    Algorithm::custom("bound", REQUIREMENTS, |limits, _| Box::new(Fixed::new(limits.ordered().start)))
});
const REQUIREMENTS: Requirements =
    Requirements::DEFAULT.with_pacer(PacerSettings::SINGLE).with_sender_queue(true);

impl Reference {
    /// All of them, in the order of the rows.
    pub const ALL: [Self; 5] =
        [Self::Causal, Self::Oracle, Self::Fixed(10), Self::Fixed(30), Self::Fixed(60)];

    /// Its name: `bound:causal`, `fixed:10%`.
    pub fn name(self) -> String {
        match self {
            Self::Causal => "bound:causal".to_owned(),
            Self::Oracle => "bound:oracle".to_owned(),
            Self::Fixed(percent) => format!("fixed:{percent}%"),
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }

    /// What it does, all its settings.
    fn plans(self, drawn: &Drawn) -> Vec<Plan> {
        let late = TimeDelta::from_seconds_f64(drawn.rtt_ms / 1e3) + LATE;
        let causal = CAUSAL.map(|setting| Plan::Share { setting, late: Some(late) });
        let ahead = AHEAD.map(|setting| Plan::Share { setting, late: None });
        match self {
            Self::Causal => causal.to_vec(),
            Self::Oracle => causal.into_iter().chain(ahead).collect(),
            Self::Fixed(percent) => vec![Plan::Constant(f64::from(percent) / 100.0)],
        }
    }
}

/// Runs a drawn scenario under each of these references, with its best setting. What several would run is run once. `None` if `watch` ended
/// it.
pub(super) fn simulate(
    drawn: &Drawn,
    references: &[Reference],
    mut watch: impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Option<Vec<Figures>> {
    let shares = shares(&drawn.scenario(*ALGORITHM).ok()?);
    let mut ended: Vec<(Plan, Figures)> = Vec::new();
    let mut of = |plan| {
        if let Some((_, figures)) = ended.iter().find(|(own, _)| *own == plan) {
            return Some(figures.clone());
        }
        let figures = run(drawn, &shares, plan, &mut watch)?;
        ended.push((plan, figures.clone()));
        Some(figures)
    };
    references.iter().map(|own| best(&own.plans(drawn), &mut of).map(|(figures, _)| figures)).collect()
}

fn shares(scenario: &Scenario) -> Vec<(String, Arc<Known>)> {
    let bits = sendable(scenario, STEP).into_iter();
    bits.map(|(flow, bits)| (flow, Arc::new(Known::new(&bits)))).collect()
}

fn run(
    drawn: &Drawn,
    shares: &[(String, Arc<Known>)],
    plan: Plan,
    watch: &mut impl FnMut(Timestamp) -> ControlFlow<()>,
) -> Option<Figures> {
    simulate_with(drawn, *ALGORITHM, &mut Told { shares, plan }, watch)
}

/// The plan with the highest utility, the first of equal ones. `None` if one of them was ended.
fn best(plans: &[Plan], mut of: impl FnMut(Plan) -> Option<Figures>) -> Option<(Figures, Plan)> {
    let mut best: Option<(Figures, Plan)> = None;
    for plan in plans {
        let figures = of(*plan)?;
        if best.as_ref().is_none_or(|(best, _)| figures.utility.total > best.utility.total) {
            best = Some((figures, *plan));
        }
    }
    best
}

/// A reference in a drawn scenario with the setting that counts there, to be run once more.
#[derive(Debug)]
pub struct Replayed {
    /// The scenario; [`taps`](Self::taps) make its controllers.
    pub scenario: Scenario,
    /// The figures by which the run is judged.
    pub figures: Figures,
    reference: Reference,
    shares: Vec<(String, Arc<Known>)>,
    plan: Plan,
}

impl Replayed {
    /// Runs all settings of `reference`. `None` if `watch` ended it.
    pub fn new(
        drawn: &Drawn,
        reference: Reference,
        mut watch: impl FnMut(Timestamp) -> ControlFlow<()>,
    ) -> Option<Self> {
        let scenario = drawn.scenario(*ALGORITHM).ok()?;
        let shares = shares(&scenario);
        let (figures, plan) = best(&reference.plans(drawn), |plan| run(drawn, &shares, plan, &mut watch))?;
        Some(Self { scenario, figures, reference, shares, plan })
    }

    /// The scenario as a file. No file can name a reference: a constant rate stands in its place.
    pub fn text(&self, drawn: &Drawn) -> String {
        let name = self.reference.name();
        format!(
            "# {name} is no controller: \"fixed\" stands in its place.\n{}",
            drawn.written("fixed", false)
        )
    }

    /// What gives the judged flows of [`scenario`](Self::scenario) their shares.
    pub fn taps(&self) -> impl Taps + use<'_> {
        Told { shares: &self.shares, plan: self.plan }
    }
}

/// Gives the judged flows their shares.
struct Told<'a> {
    shares: &'a [(String, Arc<Known>)],
    plan: Plan,
}

impl Taps for Told<'_> {
    fn controller(&mut self, flow: MediaFlow<'_>, controller: Box<dyn Controller>) -> Box<dyn Controller> {
        let known = self.shares.iter().find(|(id, _)| id == flow.name);
        match known {
            Some((_, known)) => Box::new(Bound::new(Arc::clone(known), self.plan, flow.spec.limits)),
            None => controller,
        }
    }
}

/// The share of a flow over time.
#[derive(Debug, Default)]
struct Known {
    /// Bits from the start of the run until the end of each bin; 0 first.
    until: Vec<f64>,
    /// Rate while the flow runs, bit/s.
    mean: f64,
}

impl Known {
    fn new(bits: &[f64]) -> Self {
        let mut sum = 0.0;
        let until = std::iter::once(0.0).chain(bits.iter().map(|bits| {
            sum += bits;
            sum
        }));
        let until = until.collect();
        let running = bits.iter().skip_while(|bits| **bits <= 0.0).count().max(1);
        Self { until, mean: sum / (running as f64 * STEP.as_seconds()) }
    }

    /// Bits until this time in seconds; beyond the end as in the last bin.
    fn bits(&self, seconds: f64) -> f64 {
        let place = (seconds / STEP.as_seconds()).max(0.0);
        let last = self.until.len().saturating_sub(2);
        let bin = (place as usize).min(last);
        let at = |bin: usize| self.until.get(bin).copied().unwrap_or(0.0);
        at(bin) + (at(bin + 1) - at(bin)) * (place - bin as f64)
    }

    /// The mean rate in an interval, bit/s.
    fn rate(&self, from: f64, width: f64) -> f64 {
        (self.bits(from + width) - self.bits(from.max(0.0))) / (width + from.min(0.0)).max(1e-3)
    }

    /// The rate that counts by this setting in the interval that begins at `from`.
    fn counts(&self, from: f64, setting: Setting) -> f64 {
        let (width, least) = (setting.width.as_seconds(), LEAST.as_seconds());
        if !setting.least || width <= least {
            return self.rate(from, width);
        }
        let steps = ((width - least) / STEP.as_seconds()).ceil() as u32;
        let rates = (0..=steps).map(|step| self.rate(from + f64::from(step) * STEP.as_seconds(), least));
        rates.fold(f64::INFINITY, f64::min)
    }
}

/// How a reference sends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plan {
    /// By the share, `late` by this time, or ahead.
    Share { setting: Setting, late: Option<TimeDelta> },
    /// This part of the mean share.
    Constant(f64),
}

/// The controller of a reference.
#[derive(Debug, Clone)]
struct Bound {
    known: Arc<Known>,
    plan: Plan,
    limits: Limits,
    decision: Decision,
    now: Timestamp,
    /// The share as it is known, bit/s.
    share: f64,
    /// What was sent beyond the known share and must wait in the network, bits.
    beyond: f64,
    /// What waits at the sender.
    queue: QueueState,
}

impl Bound {
    fn new(known: Arc<Known>, plan: Plan, limits: Limits) -> Self {
        let limits = limits.ordered();
        let decision = Decision::new(Timestamp::ZERO, limits.start, Cause::Start);
        Self {
            known,
            plan,
            limits,
            decision,
            now: Timestamp::ZERO,
            share: 0.0,
            beyond: 0.0,
            queue: QueueState::default(),
        }
    }

    /// The rate of the share as it is known, and the rate to send.
    fn rates(&self) -> (f64, f64) {
        let now = (self.now - Timestamp::ZERO).as_seconds();
        match self.plan {
            Plan::Constant(part) => (f64::INFINITY, part * self.known.mean),
            Plan::Share { setting, late } => {
                let from = late.map_or(now, |late| now - late.as_seconds() - setting.width.as_seconds());
                let share = self.known.counts(from, setting);
                let waits = self.beyond + self.queue.size.as_bits() as f64;
                (share, (setting.fraction * share - waits / DRAIN.as_seconds()).max(0.1 * share))
            }
        }
    }

    fn look(&mut self, now: Timestamp) {
        let now = self.now.max(now);
        if let Plan::Share { late, .. } = self.plan {
            let late = late.unwrap_or_default();
            let at = |time: Timestamp| self.known.bits((time - Timestamp::ZERO - late).as_seconds());
            self.beyond = (self.beyond - (at(now) - at(self.now))).max(0.0);
        }
        self.now = now;
        let (share, rate) = self.rates();
        self.share = share;
        let to = DataRate::from_bps(rate as u64).clamp(self.limits.min, self.limits.max);
        if to != self.decision.to {
            self.decision = Decision::new(now, to, Cause::Unstated).with_from(self.decision.to);
        }
    }
}

impl Controller for Bound {
    fn on_sent(&mut self, _now: Timestamp, packet: &SentPacket) {
        self.beyond += packet.size.as_bits() as f64;
    }

    fn on_feedback(&mut self, now: Timestamp, _feedback: &Feedback<'_>) {
        self.look(now);
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        self.queue = *queue;
        self.look(now);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        Some(self.now + LOOK)
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.limits = limits.ordered();
        self.look(now);
    }

    fn on_route_change(&mut self, _now: Timestamp) {}

    fn target(&self) -> Target {
        let media = self.decision.to;
        let pacing = if self.share.is_finite() { self.share } else { media.as_bps() as f64 * 2.5 };
        Target::new(media, DataRate::from_bps(pacing as u64).max(media))
    }

    fn requirements(&self) -> Requirements {
        REQUIREMENTS
    }

    fn frame_drop_interval(&self) -> Option<u32> {
        let waits = self.beyond + self.queue.size.as_bits() as f64;
        (waits > self.share * FULL.as_seconds()).then_some(1)
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_known_between_its_bins_and_beyond() {
        // 1 Mbit/s for a second from second 1 on, then 2 Mbit/s for a second.
        let bits: Vec<f64> = (0..150).map(|bin| [0.0, 2e4, 4e4][bin / 50]).collect();
        let known = Known::new(&bits);
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
        near(known.mean, 1.5e6);
        near(known.rate(1.005, 0.5), 1e6);
        near(known.rate(1.75, 0.5), 1.5e6);
        near(known.rate(3.5, 0.5), 2e6);
        near(known.counts(1.5, setting(1.0, 1000, false)), 1.5e6);
        near(known.counts(1.5, setting(1.0, 1000, true)), 1e6);
        assert!(known.rate(-0.5, 1.0).abs() < 1e-9);
    }
}
