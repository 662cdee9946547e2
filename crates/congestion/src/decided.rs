//! The media rate within its limits, and the decision that led to it.

use giusto_units::{DataRate, Timestamp, math};

use crate::{
    limits::Limits,
    target::{Cause, Decision},
};

/// The media rate and its latest decision.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    min: DataRate,
    max: DataRate,
    target: DataRate,
    decision: Decision,
    /// The latest time of any call.
    now: Timestamp,
    begun: bool,
}

impl Decided {
    /// At the start rate.
    pub(crate) fn new(limits: Limits) -> Self {
        let Limits { min, start, max } = limits.ordered();
        Self {
            min,
            max,
            target: start,
            decision: Decision { from: start, to: start, ..Decision::default() },
            now: Timestamp::ZERO,
            begun: false,
        }
    }

    /// Applies new limits to the target at `now`. Returns whether the session has begun: until then, limits make a new controller.
    pub(crate) fn on_limits(&mut self, now: Timestamp, limits: Limits) -> bool {
        if self.begun {
            self.advance(now);
            self.set_limits(limits);
        }
        self.begun
    }

    /// Applies new limits to the target. Returns whether it changed.
    pub(crate) fn set_limits(&mut self, limits: Limits) -> bool {
        let limits = limits.ordered();
        (self.min, self.max) = (limits.min, limits.max);
        self.set(self.target, Cause::Limit)
    }

    /// Handles a change of the route at `now`: the time as of [`advance`](Self::advance), and the [new state](Self::restarted). `None`
    /// before any call, when there is nothing to forget.
    pub(crate) fn on_route_change(&mut self, now: Timestamp, limits: Limits) -> Option<(Timestamp, Self)> {
        let now = self.begun.then(|| self.advance(now))?;
        Some((now, self.restarted(limits)))
    }

    /// The state on a new route: at the start rate of `limits`.
    pub(crate) fn restarted(&self, limits: Limits) -> Self {
        let fresh = Self::new(limits);
        let decision =
            Decision { at: self.now, from: self.target, to: fresh.target, cause: Cause::RouteChange };
        Self { decision, now: self.now, begun: true, ..fresh }
    }

    /// The later of `now` and the latest time of an earlier call.
    pub(crate) fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        if !self.begun {
            self.begun = true;
            self.decision.at = self.now;
        }
        self.now
    }

    /// Whether there has been any call.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// When the controller looks next: at `due`, but at once before any call.
    pub(crate) fn next_timeout(&self, due: Option<Timestamp>) -> Option<Timestamp> {
        if self.begun { due } else { Some(Timestamp::ZERO) }
    }

    /// Sets the target to `bps` because of `cause`.
    pub(crate) fn settle(&mut self, bps: f64, cause: Cause) {
        self.set(DataRate::from_bps(math::round(bps) as u64), cause);
    }

    /// Sets the target to `rate` because of `cause`. Returns whether it changed.
    pub(crate) fn set(&mut self, rate: DataRate, cause: Cause) -> bool {
        let to = rate.min(self.max).max(self.min);
        let moves = to != self.target;
        if moves {
            let cause = if to == rate { cause } else { Cause::Limit };
            self.decision = Decision { at: self.now, from: self.target, to, cause };
            self.target = to;
        }
        moves
    }

    /// Explains the present target by `cause`.
    pub(crate) fn explain(&mut self, cause: Cause) {
        self.decision = Decision { at: self.now, from: self.target, to: self.target, cause };
    }

    /// The media rate.
    pub(crate) fn target(&self) -> DataRate {
        self.target
    }

    /// The minimum and the maximum, in bit/s.
    pub(crate) fn limits(&self) -> (f64, f64) {
        (self.min.as_bps() as f64, self.max.as_bps() as f64)
    }

    /// The latest decision.
    pub(crate) fn decision(&self) -> &Decision {
        &self.decision
    }
}
