//! Reaction to losses while it does not probe for bandwidth (draft §5.5.10.3).

use super::config::Config;

/// The short-term bounds of rate and flight, and the delivery of the latest round. Rates are in bytes per second.
#[derive(Debug, Clone, Default)]
pub(super) struct ShortTerm {
    /// `bw_shortterm`, infinite if there is none.
    pub(super) rate: f64,
    /// `inflight_shortterm`, infinite if there is none.
    pub(super) flight: f64,
    /// `bw_latest` and `inflight_latest`.
    latest_rate: f64,
    pub(super) latest_flight: f64,
    /// `is_loss_in_round`.
    has_loss: bool,
    /// `loss_round_delivered` and `loss_round_start`.
    round_end: u64,
    pub(super) is_round_over: bool,
}

impl ShortTerm {
    pub(super) fn new() -> Self {
        Self { rate: f64::INFINITY, flight: f64::INFINITY, ..Self::default() }
    }

    /// `NoteLoss`.
    pub(super) fn on_loss(&mut self, delivered: u64) {
        if !self.has_loss {
            self.round_end = delivered;
        }
        self.has_loss = true;
    }

    /// `UpdateLatestDeliverySignals`: `prior` bytes were delivered when the packet was sent, `delivered` now.
    pub(super) fn on_delivery(&mut self, rate: f64, flight: f64, prior: u64, delivered: u64) {
        self.latest_rate = self.latest_rate.max(rate);
        self.latest_flight = self.latest_flight.max(flight);
        self.is_round_over = prior >= self.round_end;
        if self.is_round_over {
            self.round_end = delivered;
        }
    }

    /// `AdaptLowerBoundsFromCongestion`, at the end of a round. `max_rate` and `window` are the bounds so far.
    pub(super) fn adapt(&mut self, config: &Config, is_probing: bool, max_rate: f64, window: f64) {
        if !self.is_round_over {
            return;
        }
        if self.has_loss && !is_probing {
            let bound = |bound: f64, first: f64| if bound.is_finite() { bound } else { first };
            self.rate = self.latest_rate.max(config.beta * bound(self.rate, max_rate));
            self.flight = self.latest_flight.max(config.beta * bound(self.flight, window));
        }
        self.has_loss = false;
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn advance(&mut self, rate: f64, flight: f64) {
        if self.is_round_over {
            (self.latest_rate, self.latest_flight) = (rate, flight);
        }
    }

    /// `ResetCongestionSignals`.
    pub(super) fn forget_signals(&mut self) {
        (self.has_loss, self.latest_rate, self.latest_flight) = (false, 0.0, 0.0);
    }

    /// `ResetShortTermModel`.
    pub(super) fn forget_bounds(&mut self) {
        (self.rate, self.flight) = (f64::INFINITY, f64::INFINITY);
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    #[test]
    fn a_round_with_losses_lowers_the_bounds_to_the_delivery_or_by_30_percent() {
        let config = Config::default();
        let after = |rate, flight, is_probing| {
            let mut bounds = ShortTerm::new();
            bounds.on_loss(1000);
            bounds.on_delivery(rate, flight, 1000, 5000);
            bounds.adapt(&config, is_probing, 100e3, 20e3);
            (bounds.rate, bounds.flight)
        };
        assert_eq!(after(90e3, 15e3, false), (90e3, 15e3));
        assert_eq!(after(10e3, 1e3, false), (70e3, 14e3));
        assert_eq!(after(90e3, 15e3, true), (f64::INFINITY, f64::INFINITY));
        // Only at the end of the round, and a second round multiplies again.
        let mut bounds = ShortTerm::new();
        bounds.on_loss(1000);
        bounds.on_delivery(10e3, 1e3, 999, 5000);
        bounds.adapt(&config, false, 100e3, 20e3);
        assert_eq!(bounds.rate, f64::INFINITY);
        for expected in [70e3, 49e3] {
            bounds.on_loss(5000);
            bounds.on_delivery(10e3, 1e3, 6000, 7000);
            bounds.adapt(&config, false, 100e3, 20e3);
            bounds.advance(10e3, 1e3);
            assert!((bounds.rate - expected).abs() < 1e-6, "{}", bounds.rate);
        }
        bounds.forget_bounds();
        assert_eq!(bounds.rate, f64::INFINITY);
    }
}
