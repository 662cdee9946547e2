//! The resulting target: the wanted rate, limited by the RTT, missing feedback and the limits, and the
//! decision that explains it.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::rate::{RttBackOff, RttConfig};
use crate::{
    decided::Decided,
    limits::Limits,
    target::{Cause, Decision},
};

/// Minimum interval between deadlines, and of the threshold rule, which changes with time: that of libwebrtc
/// (`goog_cc_factory.cc`, 25 ms).
pub(super) const PROCESS: TimeDelta = TimeDelta::from_millis(25);

/// The target and its cause.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    decided: Decided,
    config: RttConfig,
    back_off: RttBackOff,
    /// The latest RTT from feedback.
    rtt: TimeDelta,
    /// Time of the last periodic processing.
    processed: Timestamp,
}

impl Settled {
    /// At the start rate.
    pub(super) fn new(limits: Limits, back_off: RttConfig) -> Self {
        Self {
            decided: Decided::new(limits),
            config: back_off,
            back_off: RttBackOff::new(above(back_off, limits.ordered())),
            rtt: TimeDelta::ZERO,
            processed: Timestamp::ZERO,
        }
    }

    /// The later of `now` and the latest time of an earlier call, and whether this is the first call.
    pub(super) fn advance(&mut self, now: Timestamp) -> (Timestamp, bool) {
        let first = !self.decided.has_begun();
        (self.decided.advance(now), first)
    }

    /// Whether there has been any call.
    pub(super) fn has_begun(&self) -> bool {
        self.decided.has_begun()
    }

    /// Applies new limits to the target. Returns whether it changed.
    pub(super) fn set_limits(&mut self, limits: Limits) -> bool {
        self.back_off.set_floor(above(self.config, limits.ordered()).floor);
        self.decided.set_limits(limits)
    }

    /// As [`Decided::on_route_change`].
    pub(super) fn on_route_change(&mut self, now: Timestamp, limits: Limits) -> Option<(Timestamp, Self)> {
        let (now, decided) = self.decided.on_route_change(now, limits)?;
        Some((now, Self { decided, processed: self.processed, ..Self::new(limits, self.config) }))
    }

    /// Handles a sent packet.
    pub(super) fn on_sent(&mut self, now: Timestamp) {
        self.back_off.on_sent(now);
    }

    /// Handles feedback with an RTT.
    pub(super) fn on_rtt(&mut self, now: Timestamp, rtt: TimeDelta) {
        self.rtt = rtt;
        self.back_off.on_rtt(now, rtt);
    }

    /// Handles feedback without an RTT.
    pub(super) fn on_report(&mut self, now: Timestamp) {
        self.back_off.on_rtt(now, self.rtt);
    }

    /// Losses have reduced the rate: the next step because of the RTT is delayed.
    pub(super) fn on_decrease(&mut self, now: Timestamp) {
        self.back_off.on_decrease(now);
    }

    /// Changes the target towards `wanted` because of `cause`. Returns whether it changed.
    pub(super) fn settle(&mut self, now: Timestamp, wanted: DataRate, cause: Cause) -> bool {
        if !self.is_too_long() {
            return self.decided.set(wanted, cause);
        }
        let target = self.target();
        match self.back_off.update(now, target) {
            Some(step) if step.to < wanted => self.decided.set(step.to, self.cause_of_back_off()),
            _ => self.decided.set(wanted.min(target), cause),
        }
    }

    /// A probe was due but suppressed, and the target did not change.
    pub(super) fn on_suppressed(&mut self) {
        self.decided.explain(Cause::ProbeSuppressed);
    }

    /// Handles the periodic processing; see [`deadline`](Self::deadline).
    pub(super) fn on_processed(&mut self, now: Timestamp) {
        self.processed = now;
    }

    /// The minimum of `others` and its own deadline. Immediate before the first call; otherwise not earlier
    /// than `interval` after the last processing, so that a deadline that cannot be met does not keep the
    /// caller busy.
    pub(super) fn deadline(&self, interval: TimeDelta, others: [Option<Timestamp>; 2]) -> Option<Timestamp> {
        let [one, other] = others;
        let due = Timestamp::earliest([one, other, self.back_off.next_timeout()]);
        let earliest = self.processed + interval.max(TimeDelta::from_millis(1));
        self.decided.next_timeout(due.map(|due| due.max(earliest)))
    }

    /// Whether the RTT is above its limit, or feedback has been missing for too long.
    pub(super) fn is_too_long(&self) -> bool {
        self.back_off.is_too_long()
    }

    /// The target.
    pub(super) fn target(&self) -> DataRate {
        self.decided.target()
    }

    /// The latest decision.
    pub(super) fn decision(&self) -> &Decision {
        self.decided.decision()
    }

    /// Time of the last periodic processing.
    pub(super) fn processed(&self) -> Timestamp {
        self.processed
    }

    fn cause_of_back_off(&self) -> Cause {
        if self.rtt > self.config.limit { Cause::Rtt } else { Cause::Silence }
    }
}

/// `config` with a floor within `limits`.
fn above(config: RttConfig, limits: Limits) -> RttConfig {
    RttConfig { floor: config.floor.max(limits.min), ..config }
}
