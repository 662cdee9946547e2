//! The long-term bound of the data in flight (draft §5.3.3.5, §5.3.3.9 and §5.5.10.2).

use giusto_units::math;

use super::config::Config;

/// `inflight_longterm`: the flight that caused too many losses while it probed for bandwidth, and its growth in `ProbeBW_UP`. In bytes.
#[derive(Debug, Clone)]
pub(super) struct LongTerm {
    /// Infinite if there is none.
    pub(super) flight: f64,
    /// `bw_probe_up_rounds`, `bw_probe_up_acked`, `probe_up_acked_per_inc`.
    rounds: u32,
    acked: f64,
    quota: f64,
    /// `prev_probe_too_high`.
    pub(super) was_too_high: bool,
    /// `prev_probe_precautionary`.
    pub(super) was_precautionary: bool,
}

impl LongTerm {
    pub(super) fn new() -> Self {
        Self {
            flight: f64::INFINITY,
            rounds: 0,
            acked: 0.0,
            quota: f64::INFINITY,
            was_too_high: false,
            was_precautionary: false,
        }
    }

    /// `InflightWithHeadroom`.
    pub(super) fn with_headroom(&self, config: &Config, packet: f64) -> f64 {
        let headroom = (config.headroom * self.flight).max(packet);
        if self.flight.is_finite() {
            (self.flight - headroom).max(config.min_window * packet)
        } else {
            f64::INFINITY
        }
    }

    /// Ends the growth.
    pub(super) fn on_down(&mut self) {
        self.quota = f64::INFINITY;
    }

    /// Prepares the growth of `ProbeBW_UP`.
    pub(super) fn on_refill(&mut self) {
        (self.rounds, self.acked, self.was_precautionary) = (0, 0.0, false);
    }

    /// `RaiseInflightLongtermSlope`: 1, 2, 4 and so on packets in each round.
    pub(super) fn raise_slope(&mut self, window: f64, packet: f64) {
        let growth = (1_u64 << self.rounds) as f64;
        self.rounds = (self.rounds + 1).min(30);
        self.quota = (window / growth).max(packet);
    }

    /// `ProbeInflightLongtermUpward`: one packet for each `quota` of acknowledged bytes.
    pub(super) fn grow(&mut self, acked: f64, packet: f64) {
        self.acked += acked;
        if self.acked >= self.quota {
            let steps = math::floor(self.acked / self.quota);
            self.acked -= steps * self.quota;
            self.flight += steps * packet;
        }
    }
}

/// `InflightAtLoss`: the data in flight at which the losses crossed the threshold, of a lost packet of `size` that was sent with `flight`
/// bytes in flight; `lost` bytes were lost since. Both include the packet.
pub(super) fn flight_at_loss(config: &Config, size: f64, flight: f64, lost: f64) -> f64 {
    let (flight, lost) = (flight - size, lost - size);
    flight + (config.loss_threshold * flight - lost) / (1.0 - config.loss_threshold)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    #[test]
    fn the_bound_grows_by_one_two_four_packets_in_a_round() {
        let mut bound = LongTerm { flight: 10e3, ..LongTerm::new() };
        bound.on_refill();
        let mut flights = Vec::new();
        for _ in 0..4 {
            bound.raise_slope(8e3, 1e3);
            (0..8).for_each(|_| bound.grow(1e3, 1e3));
            flights.push(bound.flight);
        }
        assert_eq!(flights, [11e3, 13e3, 17e3, 25e3]);
        bound.on_down();
        bound.grow(1e9, 1e3);
        assert_eq!(bound.flight, 25e3);
    }

    #[test]
    fn headroom_is_15_percent_and_a_packet_at_least() {
        let (config, bound) = (Config::default(), |flight| LongTerm { flight, ..LongTerm::new() });
        assert_eq!(bound(100e3).with_headroom(&config, 1e3), 85e3);
        assert_eq!(bound(5.2e3).with_headroom(&config, 1e3), 4.2e3);
        assert_eq!(bound(4.2e3).with_headroom(&config, 1e3), 4e3);
        assert_eq!(LongTerm::new().with_headroom(&config, 1e3), f64::INFINITY);
    }

    #[test]
    fn the_flight_at_the_loss_is_that_of_two_percent() {
        // 100 packets in flight, the third is lost with the last: (2 + x) / (99 + x) = 2 %, x = −0.02/0.98.
        let flight = flight_at_loss(&Config::default(), 1e3, 100e3, 3e3);
        assert!((flight - (99e3 - 20.0 / 0.98)).abs() < 1e-6, "{flight}");
    }
}
