//! The reference rate (RFC 8698 §4.3, equations 3 to 9). Rates are in bit/s, delays in ms.

use giusto_units::{TimeDelta, Timestamp};

use super::{
    config::NadaConfig,
    receiver::{NadaReport, RateMode},
};

/// Relative increase in one step of the accelerated ramp-up (equation 3).
pub fn ramp_up_gain(config: &NadaConfig, round_trip: TimeDelta) -> f64 {
    let time = round_trip.max(TimeDelta::ZERO).as_millis()
        + config.receiver.interval.as_millis()
        + config.filter_delay.as_millis();
    (config.ramp_up_delay.as_millis() / time).min(config.gamma_max)
}

/// Congestion signal in equilibrium at `rate`: `PRIO` × `XREF` × `RMAX` / `r_ref` (equation 5).
pub fn equilibrium_ms(config: &NadaConfig, rate: f64) -> f64 {
    config.priority * config.reference_signal.as_millis() * max(config) / rate
}

/// Rate after an accelerated ramp-up (equation 4).
pub fn ramped_up(config: &NadaConfig, rate: f64, received: f64, round_trip: TimeDelta) -> f64 {
    rate.max((1.0 + ramp_up_gain(config, round_trip)) * received)
}

/// Rate after a gradual update (equations 5 to 7), before it is clipped.
pub fn updated(config: &NadaConfig, rate: f64, signal_ms: f64, previous_ms: f64, since: TimeDelta) -> f64 {
    let tau = config.tau.as_millis();
    // x_offset × r_ref, without dividing by a rate that may be zero.
    let offset = signal_ms * rate - config.priority * config.reference_signal.as_millis() * max(config);
    let change = (signal_ms - previous_ms) * rate;
    rate - config.kappa * since.as_millis() / tau * offset / tau - config.kappa * config.eta * change / tau
}

fn max(config: &NadaConfig) -> f64 {
    config.limits.max.as_bps() as f64
}

/// State of the sender: `r_ref`, `x_prev` and `t_last`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReferenceRate {
    rate: f64,
    previous_ms: f64,
    updated: Timestamp,
}

impl ReferenceRate {
    /// At the start rate, at `now`.
    pub fn new(now: Timestamp, config: &NadaConfig) -> Self {
        Self { rate: config.limits.start.as_bps() as f64, previous_ms: 0.0, updated: now }
    }

    /// Handles a report. `round_trip` is the latest RTT, zero before the first.
    pub fn on_report(
        &mut self,
        now: Timestamp,
        config: &NadaConfig,
        report: &NadaReport,
        round_trip: TimeDelta,
    ) {
        let since = now.saturating_since(self.updated);
        let rate = match report.mode {
            RateMode::RampUp => ramped_up(config, self.rate, report.received.as_bps() as f64, round_trip),
            RateMode::Gradual => updated(config, self.rate, report.signal_ms, self.previous_ms, since),
        };
        self.set(config, rate);
        (self.previous_ms, self.updated) = (report.signal_ms, now);
    }

    /// Sets the rate, clipped to the limits (equations 8 and 9).
    pub fn set(&mut self, config: &NadaConfig, rate: f64) {
        let min = config.limits.min.as_bps() as f64;
        self.rate = rate.min(max(config)).max(min);
    }

    /// `r_ref`, in bit/s.
    pub fn bps(&self) -> f64 {
        self.rate
    }
}
