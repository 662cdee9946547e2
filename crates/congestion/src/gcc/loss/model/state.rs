//! State of the loss model: what limits the rate, and how slowly the limit is raised again.
//!
//! | state | meaning | ends when |
//! |---|---|---|
//! | [`DelayBased`](LossState::DelayBased) | losses have no effect | the bounded estimate is below both the delay-based rate and the maximum |
//! | [`Decreasing`](LossState::Decreasing) | losses limit the rate | the hold is over and the estimate rises |
//! | [`IncreasingWithPadding`](LossState::IncreasingWithPadding) | the rate rises, and padding tests whether it may | the rate has not risen for the duration of padding |
//! | [`Increasing`](LossState::Increasing) | the same without padding | the rate falls |
//!
//! All states change to `DelayBased` when the estimate reaches the delay-based rate or the maximum.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::config::ModelConfig;
use crate::gcc::arithmetic::{UNLIMITED, scaled, sum};

/// What limits the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum LossState {
    /// The delay. Losses have no effect.
    #[default]
    DelayBased,
    /// Loss; the rate rises.
    Increasing,
    /// Loss; the rate rises, and padding should fill the difference between media and target, to learn
    /// whether the path carries it.
    IncreasingWithPadding,
    /// Loss; the rate falls or is held.
    Decreasing,
}

/// Holds the rate for a while after a decrease, so that it does not return at once to the rate that caused
/// losses.
#[derive(Debug, Clone, Copy)]
struct Hold {
    until: Option<Timestamp>,
    /// Duration of the next hold.
    next: TimeDelta,
    rate: Option<DataRate>,
}

impl Hold {
    fn none(config: &ModelConfig) -> Self {
        Self { until: None, next: config.hold, rate: None }
    }
}

/// The highest rate since the last increase, and its time.
#[derive(Debug, Clone, Copy, Default)]
struct Padding {
    rate: Option<DataRate>,
    since: Option<Timestamp>,
}

/// Limit of the growth within a window.
#[derive(Debug, Clone, Copy)]
struct Window {
    since: Timestamp,
    limit: DataRate,
}

/// The current rate, what limits it, and the history that is needed to update it.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    pub(super) state: LossState,
    pub(super) rate: DataRate,
    hold: Hold,
    padding: Padding,
    window: Option<Window>,
}

/// Limits of the estimate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The estimate after the instant bounds.
    pub(super) estimate: DataRate,
    /// The instant lower bound.
    pub(super) lower: DataRate,
    /// The delay-based rate.
    pub(super) delay_based: DataRate,
}

impl Progress {
    pub(super) fn new(config: &ModelConfig) -> Self {
        Self {
            state: LossState::DelayBased,
            rate: DataRate::ZERO,
            hold: Hold::none(config),
            padding: Padding::default(),
            window: None,
        }
    }

    /// Sets the rate; the delay limits it.
    pub(super) fn begin(&mut self, rate: DataRate) {
        self.rate = rate;
        self.state = LossState::DelayBased;
    }

    /// Whether loss limits the rate.
    pub(super) fn is_limited(&self) -> bool {
        self.state != LossState::DelayBased
    }

    /// Limit of the growth in the current window, while loss limits the rate.
    pub(super) fn window_limit(&self) -> Option<DataRate> {
        self.window.filter(|_| self.is_limited()).map(|window| window.limit)
    }

    /// Whether padding was requested recently.
    pub(super) fn pads(&self, config: &ModelConfig, now: Timestamp) -> bool {
        config.padding_duration > TimeDelta::ZERO
            && self.padding.since.is_some_and(|since| since + config.padding_duration >= now)
    }

    /// `candidate`, limited by the current window.
    pub(super) fn slowed(&self, config: &ModelConfig, now: Timestamp, candidate: DataRate) -> DataRate {
        let open =
            self.window.filter(|window| self.is_limited() && window.since + config.increase_window > now);
        candidate.min(open.map_or(UNLIMITED, |window| window.limit))
    }

    /// While loss limits the rate: `candidate`, limited by the growth from `present` that the acknowledged
    /// rate permits. A decrease is not limited.
    pub(super) fn ramped(
        &self,
        config: &ModelConfig,
        acknowledged: Option<DataRate>,
        present: DataRate,
        candidate: DataRate,
    ) -> DataRate {
        let Some(acknowledged) = acknowledged.filter(|_| self.rises(present, candidate)) else {
            return candidate;
        };
        let held = self.hold.rate.map(|rate| scaled(rate, config.hold_threshold));
        let factor = if held.is_some_and(|held| acknowledged < held) {
            config.ramp_up_in_hold
        } else {
            config.ramp_up
        };
        let ramped = candidate.min(scaled(acknowledged, factor)).max(present);
        if self.state == LossState::Decreasing && ramped == present {
            // The smallest possible increase, so that the state changes and padding is requested.
            sum(present, DataRate::from_bps(1))
        } else {
            ramped
        }
    }

    /// Sets the rate and the state; `bandwidth` is the stored one.
    pub(super) fn settle(
        &mut self,
        config: &ModelConfig,
        now: Timestamp,
        bounds: Bounds,
        bandwidth: DataRate,
    ) {
        let estimate = bounds.estimate;
        let held = self.hold.until.is_some_and(|until| until > now);
        if self.state == LossState::Decreasing && held && estimate < bounds.delay_based {
            let mut rate = self.hold.rate.unwrap_or(UNLIMITED);
            if config.lower_bound_factor > 0.0 {
                rate = rate.max(bounds.lower);
            }
            self.hold.rate = Some(rate);
            self.rate = rate.min(estimate);
            return;
        }
        if estimate >= bounds.delay_based || estimate >= config.max {
            self.state = LossState::DelayBased;
            self.hold = Hold::none(config);
            self.padding = Padding::default();
        } else if self.rises(self.rate, estimate) && self.may_keep_rising(config, now, estimate) {
            self.rise(config, now, estimate);
        } else {
            self.fall(config, now, estimate);
        }
        self.rate = estimate;
        let open = self.window.is_some_and(|window| window.since + config.increase_window >= now);
        if self.is_limited() && !open {
            let limit = scaled(bandwidth, config.max_increase).max(config.increase_floor);
            self.window = Some(Window { since: now, limit });
        }
    }

    fn rise(&mut self, config: &ModelConfig, now: Timestamp, estimate: DataRate) {
        if config.padding_duration == TimeDelta::ZERO {
            self.state = LossState::Increasing;
            return;
        }
        if self.padding.rate.is_none_or(|highest| estimate > highest) {
            self.padding = Padding { rate: Some(estimate), since: Some(now) };
        }
        self.state = LossState::IncreasingWithPadding;
    }

    fn fall(&mut self, config: &ModelConfig, now: Timestamp, estimate: DataRate) {
        if self.state != LossState::Decreasing && config.hold_factor > 0.0 {
            let longer = TimeDelta::from_seconds_f64(self.hold.next.as_seconds() * config.hold_factor);
            self.hold = Hold {
                until: Some(now + self.hold.next),
                next: longer.min(config.hold_max),
                rate: Some(estimate),
            };
        }
        self.padding = Padding::default();
        self.state = LossState::Decreasing;
    }

    /// While loss limits the rate: whether the change from `old` to `new` counts as an increase. An unchanged
    /// rate counts as one while the rate is rising.
    fn rises(&self, old: DataRate, new: DataRate) -> bool {
        let rising = matches!(self.state, LossState::Increasing | LossState::IncreasingWithPadding);
        self.is_limited() && (old < new || (old == new && rising))
    }

    /// Padding ends some time after the last increase.
    fn may_keep_rising(&self, config: &ModelConfig, now: Timestamp, estimate: DataRate) -> bool {
        config.padding_duration == TimeDelta::ZERO
            || self.state != LossState::IncreasingWithPadding
            || self.pads(config, now)
            || self.padding.rate.is_none_or(|highest| highest < estimate)
    }
}
