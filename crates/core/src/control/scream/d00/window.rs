//! How much may be in flight? (draft-johansson-rmcat-scream-cc-00 §9.1.4)

use super::D00Config;
use crate::units::DataSize;

/// No packet over UDP is larger.
const LARGEST: f64 = 65_535.0;
/// `offTarget` counts as no less (§9.1.4).
const FURTHEST: f64 = -3.0;

/// The congestion window, in bytes.
#[derive(Debug, Clone)]
pub(super) struct Window {
    config: D00Config,
    bytes: f64,
    packet: f64,
    last_delay: f64,
    fast: bool,
}

/// What there is to know at an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledged {
    /// What has left the flight.
    pub(super) bytes: DataSize,
    /// What was in flight before.
    pub(super) in_flight: DataSize,
    /// How long packets queue, and the smoothed round trip, in seconds.
    pub(super) delay: f64,
    pub(super) round_trip: f64,
}

impl Window {
    /// The least window, in fast start.
    pub(super) fn new(config: D00Config) -> Self {
        let packet = (config.packet.as_bytes() as f64).clamp(1.0, LARGEST);
        Self { config, bytes: 3.0 * packet, packet, last_delay: 0.0, fast: true }
    }

    /// A packet left.
    pub(super) fn on_sent(&mut self, size: DataSize) {
        self.packet = self.packet.max((size.as_bytes() as f64).min(LARGEST));
        self.bytes = self.bytes.max(self.least());
    }

    /// There is a loss event.
    pub(super) fn on_loss(&mut self) {
        self.cut(self.config.beta);
    }

    /// Nothing is heard: the least.
    pub(super) fn on_silence(&mut self) {
        self.cut(0.0);
    }

    /// `updateCwnd`, where there is no loss event.
    pub(super) fn on_acknowledged(&mut self, seen: &Acknowledged) {
        let target = self.config.delay_target.as_seconds().max(1e-3);
        let off_target = (target - seen.delay) / target;
        let (least_room, most_room) = self.config.head_room;
        let head_room = least_room + off_target.max(0.0) * (most_room - least_room);
        let acknowledged = seen.bytes.as_bytes() as f64;
        let used = seen.in_flight.as_bytes() as f64 * head_room > self.bytes;
        self.fast &= seen.delay <= self.config.fast_start * target;
        let step = acknowledged * self.packet / self.bytes;
        if off_target > 0.0 {
            if used {
                self.bytes += if self.fast { acknowledged } else { self.config.gain_up * off_target * step };
            }
        } else {
            // Quickly while the delay stays or grows, half as quickly while it falls.
            let by_round_trip = (seen.round_trip.max(0.1) / 0.1).min(2.0);
            let speed = if seen.delay >= self.last_delay { by_round_trip } else { by_round_trip / 2.0 };
            self.bytes += self.config.gain_down * speed * off_target.max(FURTHEST) * step;
        }
        self.bytes = self.bytes.max(self.least());
        self.last_delay = seen.delay;
    }

    /// Whether it is in fast start.
    pub(super) fn is_fast(&self) -> bool {
        self.fast
    }

    /// `cwnd`.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    fn cut(&mut self, to: f64) {
        self.fast = false;
        self.bytes = (self.bytes * to).max(self.least());
    }

    /// 3 · `mtuMax`, which is more than the 2 · `mss` of `cwndMin`.
    fn least(&self) -> f64 {
        3.0 * self.packet
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn acknowledged(size: u64, in_flight: u64, delay: f64) -> Acknowledged {
        let [bytes, in_flight] = [size, in_flight].map(DataSize::from_bytes);
        Acknowledged { bytes, in_flight, delay, round_trip: 0.1 }
    }

    /// After fast start to 24 000 bytes.
    fn opened() -> Window {
        let mut window = Window::new(D00Config::default());
        for _ in 0..17 {
            window.on_acknowledged(&acknowledged(1200, 30_000, 0.0));
        }
        window
    }

    #[test]
    fn fast_start_adds_what_is_acknowledged_until_the_delay_grows() {
        let mut window = opened();
        assert_eq!(window.bytes(), 24_000.0);
        assert!(window.is_fast());
        // 16 ms are a fifth of the target; beyond, ¾ of a packet for each window: 1200 · 1200 / 24 000 · ¾.
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.02));
        assert!(!window.is_fast());
        assert!((window.bytes() - 24_045.0).abs() < 1e-9, "{}", window.bytes());
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.0));
        assert!(window.bytes() < 24_200.0);
    }

    #[test]
    fn it_grows_only_where_it_is_used() {
        let mut window = opened();
        // At no delay twice what was in flight has to exceed it.
        window.on_acknowledged(&acknowledged(1200, 12_000, 0.0));
        assert_eq!(window.bytes(), 24_000.0);
        window.on_acknowledged(&acknowledged(1200, 12_001, 0.0));
        assert_eq!(window.bytes(), 25_200.0);
    }

    #[test]
    fn it_falls_twice_as_fast_while_the_delay_grows() {
        let mut window = opened();
        // Twice the target: off by −1.
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.16));
        assert!((window.bytes() - (24_000.0 - 60.0)).abs() < 1e-9, "{}", window.bytes());
        let before = window.bytes();
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.159_999));
        let expected = 0.5 * 1200.0 * 1200.0 / before;
        assert!((before - window.bytes() - expected).abs() < 0.01, "{}", window.bytes());
        // Ten times the target counts as four times.
        let before = window.bytes();
        window.on_acknowledged(&acknowledged(1200, 30_000, 0.8));
        assert!((before - window.bytes() - 3.0 * 1200.0 * 1200.0 / before).abs() < 1e-9);
    }

    #[test]
    fn a_loss_leaves_four_fifths_and_three_packets_at_least() {
        let mut window = opened();
        window.on_loss();
        assert!((window.bytes() - 19_200.0).abs() < 1e-9 && !window.is_fast());
        for _ in 0..20 {
            window.on_loss();
        }
        assert_eq!(window.bytes(), 3600.0);
        window.on_sent(DataSize::from_bytes(1400));
        assert_eq!(window.bytes(), 4200.0);
    }
}
