//! The resulting target: the wanted rate, limited by the RTT, missing feedback and the limits, and the
//! decision that explains it.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::rate::{RttBackOff, RttConfig};
use crate::{
    limits::Limits,
    target::{Cause, Decision},
};

/// Minimum interval between deadlines, and of the threshold rule, which changes with time: that of libwebrtc
/// (`goog_cc_factory.cc`, 25 ms).
pub(super) const PROCESS: TimeDelta = TimeDelta::from_millis(25);

/// The target and its cause.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    min: DataRate,
    max: DataRate,
    target: DataRate,
    decision: Decision,
    config: RttConfig,
    back_off: RttBackOff,
    /// The latest RTT from feedback.
    rtt: TimeDelta,
    /// The latest time of any call.
    now: Timestamp,
    begun: bool,
    /// Time of the last periodic processing.
    processed: Timestamp,
}

impl Settled {
    /// At the start rate.
    pub(super) fn new(limits: Limits, back_off: RttConfig) -> Self {
        let limits = limits.ordered();
        let target = limits.start;
        Self {
            min: limits.min,
            max: limits.max,
            target,
            decision: Decision { from: target, to: target, ..Decision::default() },
            config: back_off,
            back_off: RttBackOff::new(above(back_off, limits)),
            rtt: TimeDelta::ZERO,
            now: Timestamp::ZERO,
            begun: false,
            processed: Timestamp::ZERO,
        }
    }

    /// The later of `now` and the latest time of an earlier call, and whether this is the first call.
    pub(super) fn advance(&mut self, now: Timestamp) -> (Timestamp, bool) {
        self.now = self.now.max(now);
        let first = !core::mem::replace(&mut self.begun, true);
        if first {
            self.decision.at = self.now;
        }
        (self.now, first)
    }

    /// Whether there has been any call.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Applies new limits to the target. Returns whether it changed.
    pub(super) fn set_limits(&mut self, now: Timestamp, limits: Limits) -> bool {
        let limits = limits.ordered();
        (self.min, self.max) = (limits.min, limits.max);
        self.back_off.set_floor(above(self.config, limits).floor);
        let to = self.target.min(self.max).max(self.min);
        let moved = to != self.target;
        if moved {
            self.decision = Decision { at: now, from: self.target, to, cause: Cause::Limit };
            self.target = to;
        }
        moved
    }

    /// Returns to the start rate of `limits` on a new route.
    pub(super) fn restart(&mut self, now: Timestamp, limits: Limits) {
        let fresh = Self::new(limits, self.config);
        let decision = Decision { at: now, from: self.target, to: fresh.target, cause: Cause::RouteChange };
        *self = Self { decision, now: self.now, begun: true, processed: self.processed, ..fresh };
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
        let (rate, cause) = if self.is_too_long() {
            match self.back_off.update(now, self.target) {
                Some(step) if step.to < wanted => (step.to, self.cause_of_back_off()),
                _ if wanted < self.target => (wanted, cause),
                _ => (self.target, cause),
            }
        } else {
            (wanted, cause)
        };
        let to = rate.min(self.max).max(self.min);
        let cause = if to == rate { cause } else { Cause::Limit };
        if to == self.target {
            return false;
        }
        self.decision = Decision { at: now, from: self.target, to, cause };
        self.target = to;
        true
    }

    /// A probe was due but suppressed, and the target did not change.
    pub(super) fn on_suppressed(&mut self, now: Timestamp) {
        let rate = self.target;
        self.decision = Decision { at: now, from: rate, to: rate, cause: Cause::ProbeSuppressed };
    }

    /// Handles the periodic processing; see [`deadline`](Self::deadline).
    pub(super) fn on_processed(&mut self, now: Timestamp) {
        self.processed = now;
    }

    /// The minimum of `others` and its own deadline. Immediate before the first call; otherwise not earlier
    /// than `interval` after the last processing, so that a deadline that cannot be met does not keep the
    /// caller busy.
    pub(super) fn deadline(&self, interval: TimeDelta, others: [Option<Timestamp>; 2]) -> Option<Timestamp> {
        if !self.begun {
            return Some(Timestamp::ZERO);
        }
        let [one, other] = others;
        let due = Timestamp::earliest([one, other, self.back_off.next_timeout()])?;
        Some(due.max(self.processed + interval.max(TimeDelta::from_millis(1))))
    }

    /// Whether the RTT is above its limit, or feedback has been missing for too long.
    pub(super) fn is_too_long(&self) -> bool {
        self.back_off.is_too_long()
    }

    /// The target.
    pub(super) fn target(&self) -> DataRate {
        self.target
    }

    /// The latest decision.
    pub(super) fn decision(&self) -> &Decision {
        &self.decision
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
