//! The delay-based rate.

mod config;
#[cfg(test)]
mod tests;

pub use config::{AimdConfig, Near};

use giusto_units::{DataRate, TimeDelta, Timestamp, math};

use super::{capacity::Capacity, convergence::Convergence};
use crate::gcc::{arithmetic::Forward, delay::Detection};
use crate::target::{Cause, Decision, Signal};

/// Input of a rate update.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Observation {
    /// The result of the delay detector.
    pub(crate) delay: Detection,
    /// The received rate, if known.
    pub(crate) acknowledged: Option<DataRate>,
    /// The result of a probe that has just completed.
    pub(crate) probe: Option<DataRate>,
    /// Whether the sender is application-limited.
    pub(crate) application_limited: bool,
}

/// State of the rate control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Hold the rate until queues have drained.
    Hold,
    /// Increase the rate.
    Increase,
    /// Decrease the rate.
    Decrease,
}

/// The delay-based rate. It increases multiplicatively or additively while the delay is normal, and is set to
/// a share of the received rate on over-use (draft-ietf-rmcat-gcc-02 §5.5, with libwebrtc's later changes:
/// see [`AimdConfig`]).
///
/// | signal \ state | hold | increase | decrease |
/// |---|---|---|---|
/// | over-use | decrease | decrease | |
/// | normal | increase | | hold |
/// | under-use | | hold | hold |
///
/// The draft starts in increase, libwebrtc in hold. Symbols of the draft: A is [`rate`](Self::rate), R is
/// [`acknowledged`](Observation::acknowledged), β is [`decrease`](AimdConfig::decrease), η the multiplicative
/// increase, α the share of a packet.
#[derive(Debug, Clone)]
pub(crate) struct Aimd {
    config: AimdConfig,
    clock: Forward,
    /// In bit/s, always within the limits.
    rate: f64,
    state: State,
    past: Past,
    rtt: TimeDelta,
    /// The latest known received rate, in bit/s. Initially the start rate, so that the ceiling applies from
    /// the beginning.
    acknowledged: f64,
    /// Time of the last change of the rate, or of the start of the current increase.
    changed: Option<Timestamp>,
}

/// What is stored about earlier decreases.
#[derive(Debug, Clone)]
enum Past {
    Convergence(Convergence),
    Capacity(Capacity),
}

impl Aimd {
    /// Starts at `start`, or at the nearest limit.
    pub(crate) fn new(config: AimdConfig, start: DataRate) -> Self {
        let (past, state) = match config.near {
            Near::Convergence(config) => (Past::Convergence(Convergence::new(config)), State::Increase),
            Near::Capacity(config) => (Past::Capacity(Capacity::new(config)), State::Hold),
        };
        let rate = within(&config, start.as_bps() as f64);
        Self {
            config,
            clock: Forward::default(),
            rate,
            state,
            past,
            rtt: config.rtt,
            acknowledged: rate,
            changed: None,
        }
    }

    /// Sets the RTT. A negative value is ignored.
    pub(crate) fn on_rtt(&mut self, rtt: TimeDelta) {
        self.rtt = rtt.max(TimeDelta::ZERO);
    }

    /// Sets the rate externally, for example after a route change or a decision of another controller.
    pub(crate) fn set_rate(&mut self, now: Timestamp, rate: DataRate) {
        self.changed = Some(self.clock.clamp(now));
        self.rate = within(&self.config, rate.as_bps() as f64);
    }

    /// Sets new limits, and moves the rate within them.
    pub(crate) fn set_limits(&mut self, min: DataRate, max: DataRate) {
        (self.config.min, self.config.max) = (min, max.max(min));
        self.rate = within(&self.config, self.rate);
    }

    /// Updates the rate. There is a decision in any case. If the rate does not change, its cause states what
    /// prevented the change.
    pub(crate) fn update(&mut self, now: Timestamp, seen: &Observation) -> Decision {
        let now = self.clock.clamp(now);
        let over_use = seen.delay.signal == Signal::OverUse;
        let (rate, cause) = match (seen.probe, self.config.unknown) {
            (_, Some(left)) if over_use && seen.acknowledged.is_none() => {
                self.changed = Some(now);
                (self.rate * left, seen.delay.cause())
            }
            _ if over_use && !self.may_decrease(now, seen.acknowledged) => (self.rate, seen.delay.cause()),
            (Some(probe), _) if !over_use => {
                self.changed = Some(now);
                (self.probed(probe, seen.acknowledged), Cause::Probe { rate_bps: probe.as_bps() as f64 })
            }
            _ => self.follow(now, seen),
        };
        self.decide(now, rate, cause)
    }

    /// Updates the rate as libwebrtc's receiver does (`aimd_rate_control.cc`, `Update`): over-use decreases it however short the time
    /// since the last change, and an unknown received rate counts as unchanged. Probes are ignored.
    pub(crate) fn update_at_interval(&mut self, now: Timestamp, seen: &Observation) -> Decision {
        let now = self.clock.clamp(now);
        let (rate, cause) = self.follow(now, seen);
        self.decide(now, rate, cause)
    }

    fn follow(&mut self, now: Timestamp, seen: &Observation) -> (f64, Cause) {
        self.acknowledged = seen.acknowledged.map_or(self.acknowledged, |rate| rate.as_bps() as f64);
        self.turn(now, seen.delay.signal);
        match self.state {
            State::Hold => (self.rate, seen.delay.cause()),
            State::Increase => self.increase(now, seen.application_limited, seen.delay.cause()),
            State::Decrease => (self.decrease(now), seen.delay.cause()),
        }
    }

    fn decide(&mut self, now: Timestamp, rate: f64, cause: Cause) -> Decision {
        let from = self.rate();
        let rate = if rate.is_finite() { rate } else { self.rate };
        self.rate = within(&self.config, rate);
        // Half a bit: limits are whole numbers, rates are not.
        let limited = (self.rate - rate).abs() > 0.5;
        Decision { at: now, from, to: self.rate(), cause: if limited { Cause::Limit } else { cause } }
    }

    /// The delay-based rate.
    pub(crate) fn rate(&self) -> DataRate {
        DataRate::from_bps(math::round(self.rate) as u64)
    }

    /// The state of the rate control.
    #[cfg(test)]
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// The estimated capacity, if known.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> Option<DataRate> {
        match &self.past {
            Past::Convergence(convergence) => convergence.mean(),
            Past::Capacity(capacity) => capacity.estimate(),
        }
    }

    /// Additive increase per second at this rate, in bit/s: a share of a packet per response time.
    ///
    /// The minimum increase per update is not included.
    pub(crate) fn additive_slope_bps(&self) -> f64 {
        let slope = self.config.packet_share * self.packet_bits() / self.response_seconds();
        slope.max(self.config.min_slope.as_bps() as f64)
    }

    /// Size of a typical packet at this rate: a frame, divided into the minimum number of packets.
    fn packet_bits(&self) -> f64 {
        let frame = self.rate / self.config.frame_rate;
        frame / math::ceil(frame / self.config.packet_size.as_bits() as f64).max(1.0)
    }

    fn response_seconds(&self) -> f64 {
        (self.rtt + self.config.response).as_seconds().max(1e-3)
    }

    /// Whether over-use may decrease the rate at `now`: not shortly after a change, unless the received rate is far below the rate
    /// ([`AimdConfig::again`]).
    pub(crate) fn may_decrease(&self, now: Timestamp, acknowledged: Option<DataRate>) -> bool {
        let (Some((min, max)), Some(changed)) = (self.config.again, self.changed) else { return true };
        now - changed >= self.rtt.min(max).max(min)
            || acknowledged.is_some_and(|rate| (rate.as_bps() as f64) < self.config.again_below * self.rate)
    }

    /// Rate after a probe: its result, but not far below the received rate.
    fn probed(&self, probe: DataRate, acknowledged: Option<DataRate>) -> f64 {
        let share = |rate: DataRate| (rate.as_bps() as f64 * self.config.probe_floor).min(self.rate);
        let floor = acknowledged.map_or(0.0, share);
        (probe.as_bps() as f64).max(floor)
    }

    fn turn(&mut self, now: Timestamp, signal: Signal) {
        self.state = match (signal, self.state) {
            (Signal::OverUse, _) => State::Decrease,
            (Signal::Normal, State::Hold) => {
                // libwebrtc counts from here. The draft counts from the last update, which may also be a
                // hold.
                if self.config.decrease_once {
                    self.changed = Some(now);
                }
                State::Increase
            }
            (Signal::Normal, State::Increase) => State::Increase,
            (Signal::Normal, State::Decrease) | (Signal::UnderUse, _) => State::Hold,
        };
        if self.state == State::Hold && !self.config.decrease_once {
            self.changed = Some(now);
        }
    }

    fn increase(&mut self, now: Timestamp, application_limited: bool, delay: Cause) -> (f64, Cause) {
        let near = self.is_near();
        // The first update has no start time: no time has passed.
        let elapsed = self.changed.replace(now).map_or(TimeDelta::ZERO, |changed| now - changed);
        if application_limited && !self.config.rise_while_limited {
            return (self.rate, Cause::ApplicationLimited);
        }
        let step = if near { self.additive_step(elapsed) } else { self.multiplicative_step(elapsed) };
        let rate = self.rate + step;
        let ceiling = self.config.ceiling * self.acknowledged + self.config.ceiling_offset.as_bps() as f64;
        if rate <= ceiling {
            return (rate, delay);
        }
        let rate = if self.config.ceiling_cuts { ceiling } else { ceiling.max(self.rate) };
        (rate, Cause::AcknowledgedRate { rate_bps: self.acknowledged })
    }

    fn is_near(&mut self) -> bool {
        let acknowledged = DataRate::from_bps(self.acknowledged as u64);
        match &mut self.past {
            Past::Convergence(convergence) => convergence.is_near(acknowledged),
            Past::Capacity(capacity) => {
                if capacity.upper().is_some_and(|upper| acknowledged > upper) {
                    capacity.reset();
                }
                capacity.estimate().is_some()
            }
        }
    }

    fn multiplicative_step(&self, elapsed: TimeDelta) -> f64 {
        let seconds = elapsed.min(self.config.growth_time).as_seconds();
        let step = self.rate * (math::pow(self.config.growth, seconds) - 1.0);
        step.max(self.config.min_growth.as_bps() as f64)
    }

    fn additive_step(&self, elapsed: TimeDelta) -> f64 {
        let response = self.response_seconds();
        let seconds = elapsed.as_seconds();
        let seconds = if self.config.additive_once { seconds.min(response) } else { seconds };
        (self.additive_slope_bps() * seconds).max(self.config.min_additive.as_bps() as f64)
    }

    fn decrease(&mut self, now: Timestamp) -> f64 {
        let arrived = self.acknowledged;
        let offset = self.config.decrease_offset.as_bps() as f64;
        let share = arrived * self.config.decrease;
        let mut rate = if share > offset { share - offset } else { share };
        let sample = DataRate::from_bps(math::round(arrived) as u64);
        match &mut self.past {
            Past::Convergence(convergence) => convergence.on_decrease(sample),
            Past::Capacity(capacity) => {
                if rate > self.rate
                    && let Some(estimate) = capacity.estimate()
                {
                    rate = self.config.decrease * estimate.as_bps() as f64;
                }
                if capacity.lower().is_some_and(|lower| sample < lower) {
                    capacity.reset();
                }
                capacity.on_over_use(sample);
            }
        }
        if self.config.decrease_once {
            self.state = State::Hold;
        }
        self.changed = Some(now);
        if self.config.over_use_may_raise { rate } else { rate.min(self.rate) }
    }
}

fn within(config: &AimdConfig, rate: f64) -> f64 {
    rate.min(config.max.as_bps() as f64).max(config.min.as_bps() as f64)
}
