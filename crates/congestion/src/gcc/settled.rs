//! Where the target settles: what is wanted, held by the round trip, by silence and by the limits, and the decision that tells.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::rate::{RoundTripBackOff, RoundTripConfig};
use crate::{Cause, Decision, Limits};

/// The target, and why it is what it is.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    min: DataRate,
    max: DataRate,
    target: DataRate,
    decision: Decision,
    back_off: RoundTripBackOff,
    /// The longest round trip that is borne, and the last that was told.
    bearable: TimeDelta,
    told: TimeDelta,
    /// The latest moment of any call.
    now: Timestamp,
    begun: bool,
    /// When time was last let pass.
    processed: Timestamp,
}

impl Settled {
    /// At the start rate.
    pub(super) fn new(limits: Limits, back_off: RoundTripConfig) -> Self {
        let limits = ordered(limits);
        let target = limits.start;
        Self {
            min: limits.min,
            max: limits.max,
            target,
            decision: Decision { from: target, to: target, ..Decision::default() },
            back_off: RoundTripBackOff::new(RoundTripConfig {
                floor: back_off.floor.max(limits.min),
                ..back_off
            }),
            bearable: back_off.limit,
            told: TimeDelta::ZERO,
            now: Timestamp::ZERO,
            begun: false,
            processed: Timestamp::ZERO,
        }
    }

    /// The later of `now` and what was told before, and whether this is the first call of all.
    pub(super) fn advance(&mut self, now: Timestamp) -> (Timestamp, bool) {
        self.now = self.now.max(now);
        let first = !std::mem::replace(&mut self.begun, true);
        if first {
            self.decision.at = self.now;
        }
        (self.now, first)
    }

    /// A packet left.
    pub(super) fn on_sent(&mut self, now: Timestamp) {
        self.back_off.on_sent(now);
    }

    /// Something came back, and shows this.
    pub(super) fn on_round_trip(&mut self, now: Timestamp, round_trip: TimeDelta) {
        self.told = round_trip;
        self.back_off.on_round_trip(now, round_trip);
    }

    /// Something came back that shows no round trip.
    pub(super) fn on_report(&mut self, now: Timestamp) {
        self.back_off.on_round_trip(now, self.told);
    }

    /// Losses have lowered the rate: a step for the sake of the round trip waits.
    pub(super) fn on_decrease(&mut self, now: Timestamp) {
        self.back_off.on_decrease(now);
    }

    /// Moves the target towards `wanted`, for the reason `cause`; says whether it moved.
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

    /// A probe was due and forbidden, and the target did not move.
    pub(super) fn on_suppressed(&mut self, now: Timestamp) {
        let rate = self.target;
        self.decision = Decision { at: now, from: rate, to: rate, cause: Cause::ProbeSuppressed };
    }

    /// Time has passed; see [`deadline`](Self::deadline).
    pub(super) fn on_processed(&mut self, now: Timestamp) {
        self.processed = now;
    }

    /// The least of `others` and its own deadline: at once before the first call, and never sooner than `interval` after time was
    /// last let pass, so that no deadline that cannot be met keeps the caller busy.
    pub(super) fn deadline(&self, interval: TimeDelta, others: [Option<Timestamp>; 2]) -> Option<Timestamp> {
        if !self.begun {
            return Some(Timestamp::ZERO);
        }
        let due = others.into_iter().chain([self.back_off.next_timeout()]).flatten().min()?;
        Some(due.max(self.processed + interval.max(TimeDelta::from_millis(1))))
    }

    /// Whether the round trip is too long, or nothing has come back for too long.
    pub(super) fn is_too_long(&self) -> bool {
        self.back_off.is_too_long()
    }

    /// The target.
    pub(super) fn target(&self) -> DataRate {
        self.target
    }

    /// How it came about.
    pub(super) fn decision(&self) -> &Decision {
        &self.decision
    }

    /// When time was last let pass.
    pub(super) fn processed(&self) -> Timestamp {
        self.processed
    }

    fn cause_of_back_off(&self) -> Cause {
        if self.told > self.bearable { Cause::RoundTrip } else { Cause::Silence }
    }
}

/// `limits` with the start between the least and the most, and the most no less than the least.
pub(super) fn ordered(limits: Limits) -> Limits {
    let max = limits.max.max(limits.min);
    Limits { min: limits.min, start: limits.start.max(limits.min).min(max), max }
}
