//! The reference rate (RFC 8698 §4.3, equations 3 to 9). Rates are in bit/s, delays in ms.

use giusto_units::{TimeDelta, Timestamp};

use super::config::Config;
use crate::nada_report::{RateMode, Report};

/// Relative increase in one step of the accelerated ramp-up (equation 3).
pub(super) fn ramp_up_gain(config: &Config, rtt: TimeDelta) -> f64 {
    let time = rtt.max(TimeDelta::ZERO).as_millis()
        + config.receiver.interval.as_millis()
        + config.filter_delay.as_millis();
    (config.ramp_up_delay.as_millis() / time).min(config.gamma_max)
}

/// Congestion signal in equilibrium at `rate`: `PRIO` × `XREF` × `RMAX` / `r_ref` (equation 5).
pub(super) fn equilibrium_ms(config: &Config, rate: f64) -> f64 {
    config.priority * config.reference_signal.as_millis() * weight(config) / rate
}

/// Rate after an accelerated ramp-up (equation 4).
pub(super) fn ramped_up(config: &Config, rate: f64, received: f64, rtt: TimeDelta) -> f64 {
    rate.max((1.0 + ramp_up_gain(config, rtt)) * received)
}

/// Rate after a gradual update (equations 5 to 7), before it is clipped.
pub(super) fn updated(config: &Config, rate: f64, signal_ms: f64, previous_ms: f64, since: TimeDelta) -> f64 {
    let tau = config.tau.as_millis();
    // x_offset × r_ref, without dividing by a rate that may be zero.
    let offset = signal_ms * rate - config.priority * config.reference_signal.as_millis() * weight(config);
    let change = (signal_ms - previous_ms) * rate;
    rate - config.kappa * since.as_millis() / tau * offset / tau - config.kappa * config.eta * change / tau
}

/// `RMAX` of equation 5.
fn weight(config: &Config) -> f64 {
    config.limits.max.min(config.max_weight).as_bps() as f64
}

fn max(config: &Config) -> f64 {
    config.limits.max.as_bps() as f64
}

/// State of the sender: `r_ref`, `x_prev` and `t_last`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReferenceRate {
    rate: f64,
    previous_ms: f64,
    updated: Timestamp,
}

impl ReferenceRate {
    /// At the start rate, at `now`.
    pub(super) fn new(now: Timestamp, config: &Config) -> Self {
        Self { rate: config.limits.start.as_bps() as f64, previous_ms: 0.0, updated: now }
    }

    /// Handles a report. `rtt` is the latest RTT, zero before the first.
    pub(super) fn on_report(&mut self, now: Timestamp, config: &Config, report: &Report, rtt: TimeDelta) {
        let since = now.saturating_since(self.updated).min(config.tau);
        let rate = match report.mode {
            RateMode::RampUp => ramped_up(config, self.rate, report.received.as_bps() as f64, rtt),
            RateMode::Gradual => updated(config, self.rate, report.signal_ms, self.previous_ms, since),
        };
        self.set(config, rate);
        (self.previous_ms, self.updated) = (report.signal_ms, now);
    }

    /// Sets the rate, clipped to the limits (equations 8 and 9).
    pub(super) fn set(&mut self, config: &Config, rate: f64) {
        let min = config.limits.min.as_bps() as f64;
        self.rate = rate.min(max(config)).max(min);
    }

    /// `r_ref`, in bit/s.
    pub(super) fn bps(&self) -> f64 {
        self.rate
    }
}
