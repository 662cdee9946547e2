//! Average share of marked packets.

use giusto_units::{TimeDelta, Timestamp};

giusto_units::defaults! {
    /// Configuration of the share of marked packets.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct MarksConfig {
        /// Gain of an increase of the average. Default 1/8 (§"Receiving ECN-CE for L4S", `L4S_AVG_G_UP`).
        pub up: f64 = 1.0 / 8.0,
        /// Gain of a decrease. Default 1/128 (`L4S_AVG_G_DOWN`).
        pub down: f64 = 1.0 / 128.0,
        /// Minimum update interval, or one RTT if that is shorter. Default 10 ms (same section).
        pub interval: TimeDelta = TimeDelta::from_millis(10),
    }
}

/// The average share of marked packets (`l4s_alpha`): rises fast, falls slowly.
#[derive(Debug, Clone)]
pub(super) struct Marks {
    config: MarksConfig,
    delivered: u64,
    marked: u64,
    updated: Option<Timestamp>,
    average: f64,
    latest: f64,
}

impl Marks {
    /// No packet is marked.
    pub(super) fn new(config: MarksConfig) -> Self {
        Self { config, delivered: 0, marked: 0, updated: None, average: 0.0, latest: 0.0 }
    }

    /// Handles a received packet.
    pub(super) fn on_packet(&mut self, is_marked: bool) {
        self.delivered += 1;
        self.marked += u64::from(is_marked);
    }

    /// Handles the end of a feedback message.
    pub(super) fn update(&mut self, now: Timestamp, rtt: TimeDelta) {
        let interval = self.config.interval.min(rtt);
        let due = self.updated.is_none_or(|updated| now.saturating_since(updated) >= interval);
        // If nothing was delivered there is no share; the text would divide by zero.
        if !due || self.delivered == 0 {
            return;
        }
        self.latest = self.marked as f64 / self.delivered as f64;
        if self.latest >= self.average {
            self.average += self.config.up * (self.latest - self.average);
        } else {
            self.average *= 1.0 - self.config.down;
        }
        (self.delivered, self.marked, self.updated) = (0, 0, Some(now));
    }

    /// The average, 0 to 1.
    pub(super) fn average(&self) -> f64 {
        self.average
    }

    /// The share at the last update (`last_fraction_marked`), 0 to 1.
    pub(super) fn latest(&self) -> f64 {
        self.latest
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;
    use crate::testing::at;

    const ROUND: TimeDelta = TimeDelta::from_millis(50);

    #[test]
    fn it_rises_with_gain_1_8_and_falls_with_1_128() {
        let mut marks = Marks::new(MarksConfig::default());
        for (n, marked) in [(0, true), (1, true), (2, false)] {
            marks.on_packet(marked);
            marks.update(at(n * 10), ROUND);
        }
        let two = 1.0 - (7.0 / 8.0) * (7.0 / 8.0);
        assert!((marks.average() - two * 127.0 / 128.0).abs() < 1e-12);
        assert_eq!(marks.latest(), 0.0);
    }

    #[test]
    fn packets_within_10_ms_are_accumulated() {
        let mut marks = Marks::new(MarksConfig::default());
        marks.on_packet(false);
        marks.update(at(0), ROUND);
        marks.on_packet(true);
        marks.update(at(9), ROUND);
        assert_eq!(marks.average(), 0.0);
        marks.on_packet(false);
        marks.update(at(10), ROUND);
        assert_eq!((marks.average(), marks.latest()), (0.5 / 8.0, 0.5));
    }

    #[test]
    fn without_packets_the_average_does_not_change() {
        let mut marks = Marks::new(MarksConfig::default());
        marks.on_packet(true);
        marks.update(at(0), ROUND);
        marks.update(at(1000), ROUND);
        assert_eq!(marks.average(), 1.0 / 8.0);
    }
}
