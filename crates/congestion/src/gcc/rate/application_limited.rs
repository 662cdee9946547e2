//! Detects whether the sender uses its target rate.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::gcc::arithmetic::{Forward, scaled};

giusto_units::defaults! {
    /// How an application-limited sender is recognised. The defaults are libwebrtc's (`goog_cc/alr_detector.h`,
    /// `pacing/interval_budget.cc`).
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct ApplicationLimitedConfig {
        /// Share of the estimate at which the budget fills. Default 0.65.
        pub share: f64 = 0.65,
        /// Size of the budget, positive and negative, in time at that rate. Default 500 ms.
        pub window: TimeDelta = TimeDelta::from_millis(500),
        /// Share of a full budget above which the sender is application-limited. Default 0.8.
        pub start: f64 = 0.8,
        /// Share below which it is no longer application-limited. Default 0.5.
        pub stop: f64 = 0.5,
    }
}

/// Detects whether the sender is application-limited: it sends so much less than permitted that nothing can
/// be learned.
///
/// A budget fills at a share of the estimate and is used up by the packets sent. It is checked when a packet
/// is sent, so a pause has an effect with the packet that ends it. The budget is computed in exact time.
/// libwebrtc truncates each gap between two packets to whole milliseconds, so a sender of more than 1000
/// packets per second never fills the budget.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApplicationLimited {
    config: ApplicationLimitedConfig,
    clock: Forward,
    target: DataRate,
    /// In bytes; between minus and plus a full budget.
    budget: f64,
    last_sent: Option<Timestamp>,
    since: Option<Timestamp>,
}

impl ApplicationLimited {
    /// Not application-limited, without an estimate.
    pub(crate) fn new(config: ApplicationLimitedConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Sets the estimate of the permitted rate.
    pub(crate) fn on_estimate(&mut self, estimate: DataRate) {
        self.target = scaled(estimate, self.config.share);
        self.add(0.0);
    }

    /// Handles a sent packet of `size`. Returns whether [`since`](Self::since) changed.
    pub(crate) fn on_sent(&mut self, now: Timestamp, size: DataSize) -> bool {
        let now = self.clock.clamp(now);
        let Some(last) = self.last_sent.replace(now) else { return false };
        self.add(-(size.as_bytes() as f64));
        self.add(bytes_per_second(self.target) * (now - last).as_seconds());
        let level = self.level();
        match self.since {
            None if level > self.config.start => self.since = Some(now),
            Some(_) if level < self.config.stop => self.since = None,
            _ => return false,
        }
        true
    }

    /// Time since which the sender has been application-limited; `None` if it is not.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Level of the budget, −1 to 1; zero before an estimate.
    pub(crate) fn level(&self) -> f64 {
        let full = self.full();
        if full > 0.0 { self.budget / full } else { 0.0 }
    }

    fn full(&self) -> f64 {
        (bytes_per_second(self.target) * self.config.window.as_seconds()).max(0.0)
    }

    fn add(&mut self, bytes: f64) {
        let full = self.full();
        self.budget = (self.budget + bytes).min(full).max(-full);
    }
}

fn bytes_per_second(rate: DataRate) -> f64 {
    rate.as_bps() as f64 / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ESTIMATE: u64 = 300_000;

    /// Sends for a given time at a percentage of the estimate of 300 kbit/s, a packet every 10 ms.
    struct Sender {
        limited: ApplicationLimited,
        now: Timestamp,
    }

    impl Sender {
        fn new(config: ApplicationLimitedConfig) -> Self {
            let mut limited = ApplicationLimited::new(config);
            limited.on_estimate(DataRate::from_bps(ESTIMATE));
            Self { limited, now: Timestamp::from_nanos(1_000_000_000) }
        }

        fn send(&mut self, ms: i64, percent: u64) -> bool {
            for _ in 0..ms / 10 {
                self.now += TimeDelta::from_millis(10);
                self.limited.on_sent(self.now, DataSize::from_bytes(ESTIMATE * percent / 100 / 800));
            }
            self.limited.since().is_some()
        }
    }

    // libwebrtc `goog_cc/alr_detector_unittest.cc`: AlrDetection, ShortSpike, BandwidthEstimateChanges, ParseAlrSpecificFieldTrial.

    #[test]
    fn it_starts_at_low_and_ends_at_full_utilisation() {
        let mut sender = Sender::new(ApplicationLimitedConfig::default());
        assert!(!sender.send(1000, 90));
        assert!(sender.send(1500, 20));
        assert!(!sender.send(4000, 100));
    }

    #[test]
    fn a_short_burst_does_not_end_it() {
        let mut sender = Sender::new(ApplicationLimitedConfig::default());
        assert!(sender.send(1000, 20));
        assert!(sender.send(100, 150));
        assert!(!sender.send(3000, 100));
    }

    #[test]
    fn a_lower_estimate_ends_it_only_with_packets_sent_later() {
        let mut sender = Sender::new(ApplicationLimitedConfig::default());
        assert!(sender.send(1000, 20));
        sender.limited.on_estimate(DataRate::from_bps(ESTIMATE / 5));
        assert!(sender.limited.since().is_some());
        assert!(!sender.send(1000, 50));
    }

    #[test]
    fn the_levels_are_configurable() {
        let config = ApplicationLimitedConfig { share: 0.9, start: 0.0, stop: -0.1, ..Default::default() };
        let mut sender = Sender::new(config);
        assert!(!sender.send(1000, 100));
        assert!(sender.send(2100, 85));
    }

    #[test]
    fn the_budget_fills_in_the_calculated_time() {
        // Only a byte now and then: 0.8 of a full budget takes 0.8 · 500 ms = 400 ms.
        let mut limited = ApplicationLimited::new(ApplicationLimitedConfig::default());
        limited.on_estimate(DataRate::from_bps(1_000_000_000));
        for half_ms in 0..=1000 {
            limited.on_sent(Timestamp::from_nanos(half_ms * 500_000), DataSize::from_bytes(1));
            assert_eq!(limited.since().is_some(), half_ms > 800, "{half_ms} half ms");
        }
    }

    proptest! {
        #[test]
        fn the_level_stays_within_its_range(steps in prop::collection::vec((0u64..10_000_000_000, 0u64..100_000, 0u64..1_000_000_000), 0..100)) {
            let mut limited = ApplicationLimited::new(ApplicationLimitedConfig::default());
            for (at, size, estimate) in steps {
                limited.on_sent(Timestamp::from_nanos(at), DataSize::from_bytes(size));
                prop_assert!(limited.level().abs() <= 1.0);
                limited.on_estimate(DataRate::from_bps(estimate));
                prop_assert!(limited.level().abs() <= 1.0);
            }
        }
    }
}
