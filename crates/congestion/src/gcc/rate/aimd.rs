//! What rate does the delay permit?

mod config;
#[cfg(test)]
mod tests;

pub use config::{AimdConfig, Near};

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{capacity::Capacity, convergence::Convergence};
use crate::gcc::arithmetic::Forward;
use crate::target::{Cause, Decision, Signal};

/// What the detector of over-use says.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DelayReading {
    /// Its verdict.
    pub signal: Signal,
    /// The trend of the delay, in milliseconds as the detector scales them.
    pub trend_ms: f64,
    /// The threshold that it was held against, in the same.
    pub threshold_ms: f64,
}

/// What is known when the rate is looked at again.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Observation {
    /// What the delay says.
    pub delay: DelayReading,
    /// What arrives, if it is known.
    pub acknowledged: Option<DataRate>,
    /// What a probe has just measured.
    pub probe: Option<DataRate>,
    /// Whether the sender is limited by its application.
    pub application_limited: bool,
}

/// What the rate control is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Waiting for queues to drain.
    Hold,
    /// Looking for more.
    Increase,
    /// Giving way.
    Decrease,
}

/// The rate that the delay permits: up by a share or by a step while the delay is normal, down to a share of what arrives when it
/// grows (draft-ietf-rmcat-gcc-02 §5.5, and as libwebrtc has since changed it: see [`AimdConfig`]).
///
/// | signal \ state | hold | increase | decrease |
/// |---|---|---|---|
/// | over-use | decrease | decrease | |
/// | normal | increase | | hold |
/// | under-use | | hold | hold |
///
/// The draft begins in increase, libwebrtc in hold. Symbols of the draft: A is [`rate`](Self::rate), R is
/// [`acknowledged`](Observation::acknowledged), β is [`decrease`](AimdConfig::decrease), η the multiplicative increase, α the
/// share of a packet.
///
/// # Example
///
/// ```
/// use giusto_congestion::{Signal, gcc::rate::{Aimd, AimdConfig, DelayReading, Observation}};
/// use giusto_units::{DataRate, Timestamp};
///
/// let mut aimd = Aimd::new(AimdConfig::libwebrtc(), DataRate::from_bps(264_000));
/// let delay = DelayReading { signal: Signal::OverUse, trend_ms: 20.0, threshold_ms: 12.5 };
/// let acknowledged = Some(DataRate::from_bps(260_000));
/// let decision = aimd.update(Timestamp::ZERO, &Observation { delay, acknowledged, ..Observation::default() });
/// assert_eq!(decision.to, DataRate::from_bps(216_000));   // 0.85 · 260 000 − 5000
/// ```
#[derive(Debug, Clone)]
pub struct Aimd {
    config: AimdConfig,
    clock: Forward,
    /// In bit/s, always within the limits.
    rate: f64,
    state: State,
    past: Past,
    round_trip: TimeDelta,
    /// What arrived when it was last known, in bit/s; at first, as if all did, so that the ceiling holds from the beginning.
    acknowledged: f64,
    /// When the rate was last moved, or begun to be moved.
    changed: Option<Timestamp>,
}

/// What is remembered of former decreases.
#[derive(Debug, Clone)]
enum Past {
    Convergence(Convergence),
    Capacity(Capacity),
}

impl Aimd {
    /// Beginning at `start`, or at the limit next to it.
    pub fn new(config: AimdConfig, start: DataRate) -> Self {
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
            round_trip: config.round_trip,
            acknowledged: rate,
            changed: None,
        }
    }

    /// The round trip is `round_trip` now. A negative one is none at all.
    pub fn on_round_trip(&mut self, round_trip: TimeDelta) {
        self.round_trip = round_trip.max(TimeDelta::ZERO);
    }

    /// Sets the rate from outside, as when another controller or a new route has decided.
    pub fn set_rate(&mut self, now: Timestamp, rate: DataRate) {
        self.changed = Some(self.clock.clamp(now));
        self.rate = within(&self.config, rate.as_bps() as f64);
    }

    /// Sets new limits, and moves the rate within them.
    pub fn set_limits(&mut self, min: DataRate, max: DataRate) {
        (self.config.min, self.config.max) = (min, max.max(min));
        self.rate = within(&self.config, self.rate);
    }

    /// Looks at the rate again. The decision is made in any case: where it leaves the rate as it was, its cause says what held it.
    pub fn update(&mut self, now: Timestamp, seen: &Observation) -> Decision {
        let now = self.clock.clamp(now);
        let from = self.rate();
        let acknowledged = seen.acknowledged.map(|rate| rate.as_bps() as f64);
        let delay = Cause::Delay {
            signal: seen.delay.signal,
            trend_ms: seen.delay.trend_ms,
            threshold_ms: seen.delay.threshold_ms,
        };
        let over_use = seen.delay.signal == Signal::OverUse;
        let (rate, cause) = match (seen.probe, self.config.unknown) {
            (_, Some(left)) if over_use && acknowledged.is_none() => {
                self.changed = Some(now);
                (self.rate * left, delay)
            }
            _ if over_use && !self.may_decrease(now, acknowledged) => (self.rate, delay),
            (Some(probe), _) if !over_use => {
                self.changed = Some(now);
                (self.probed(probe, acknowledged), Cause::Probe { rate_bps: probe.as_bps() as f64 })
            }
            _ => {
                self.acknowledged = acknowledged.unwrap_or(self.acknowledged);
                self.turn(now, seen.delay.signal);
                match self.state {
                    State::Hold => (self.rate, delay),
                    State::Increase => self.increase(now, seen.application_limited, delay),
                    State::Decrease => (self.decrease(now), delay),
                }
            }
        };
        let rate = if rate.is_finite() { rate } else { self.rate };
        self.rate = within(&self.config, rate);
        // Half a bit: the limits are whole, rates are not.
        let limited = (self.rate - rate).abs() > 0.5;
        Decision { at: now, from, to: self.rate(), cause: if limited { Cause::Limit } else { cause } }
    }

    /// The rate that the delay permits.
    pub fn rate(&self) -> DataRate {
        DataRate::from_bps(self.rate.round() as u64)
    }

    /// What the rate control is about.
    pub fn state(&self) -> State {
        self.state
    }

    /// Where the path was full before, if that is known.
    pub fn capacity(&self) -> Option<DataRate> {
        match &self.past {
            Past::Convergence(convergence) => convergence.mean(),
            Past::Capacity(capacity) => capacity.estimate(),
        }
    }

    /// What a second of additive increases adds at this rate, in bit/s: a share of a packet in each response time.
    ///
    /// What the least step of an update may add to it is left out.
    pub fn additive_slope_bps(&self) -> f64 {
        let slope = self.config.packet_share * self.packet_bits() / self.response_seconds();
        slope.max(self.config.min_slope.as_bps() as f64)
    }

    /// The packet that a source at this rate usually sends: a picture, cut into as few packets as will hold it.
    fn packet_bits(&self) -> f64 {
        let frame = self.rate / self.config.frame_rate;
        frame / (frame / self.config.packet_size.as_bits() as f64).ceil().max(1.0)
    }

    fn response_seconds(&self) -> f64 {
        (self.round_trip + self.config.response).as_seconds().max(1e-3)
    }

    fn may_decrease(&self, now: Timestamp, acknowledged: Option<f64>) -> bool {
        let (Some((least, most)), Some(changed)) = (self.config.again, self.changed) else { return true };
        now - changed >= self.round_trip.min(most).max(least)
            || acknowledged.is_some_and(|rate| rate < self.config.again_below * self.rate)
    }

    /// Where a probe sends the rate: to its result, but not far below what arrives anyway.
    fn probed(&self, probe: DataRate, acknowledged: Option<f64>) -> f64 {
        let floor = acknowledged.map_or(0.0, |rate| (rate * self.config.probe_floor).min(self.rate));
        (probe.as_bps() as f64).max(floor)
    }

    fn turn(&mut self, now: Timestamp, signal: Signal) {
        self.state = match (signal, self.state) {
            (Signal::OverUse, _) => State::Decrease,
            (Signal::Normal, State::Hold) => {
                // libwebrtc counts from here; the draft from the last update, which a hold is too.
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
        // The first update of all has nothing to count from: no time has passed.
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
        let step = self.rate * (self.config.growth.powf(seconds) - 1.0);
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
        let sample = DataRate::from_bps(arrived.round() as u64);
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
