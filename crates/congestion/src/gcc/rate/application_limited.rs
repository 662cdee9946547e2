//! Does the sender use what it may?

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::gcc::arithmetic::{Forward, scaled};

/// What is settable of [`ApplicationLimited`]. The defaults are libwebrtc's (`goog_cc/alr_detector.h`, `pacing/interval_budget.cc`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ApplicationLimitedConfig {
    /// The share of the estimate that fills the budget. Default 0.65.
    pub share: f64,
    /// For how long at that rate the budget saves up, or goes into debt. Default 500 ms.
    pub window: TimeDelta,
    /// Above this share of a full budget, the sender is limited by its application. Default 0.8.
    pub start: f64,
    /// Below this share, it no longer is. Default 0.5.
    pub stop: f64,
}

impl Default for ApplicationLimitedConfig {
    fn default() -> Self {
        Self { share: 0.65, window: TimeDelta::from_millis(500), start: 0.8, stop: 0.5 }
    }
}

/// Tells whether the sender is limited by its application: it sends so much less than it may that nothing can be learned.
///
/// A budget fills at a share of the estimate and is spent by what is sent. It is judged when a packet leaves, so silence shows
/// with the packet that ends it. The budget is kept in exact time: libwebrtc cuts each gap between two packets to whole
/// milliseconds, by which a sender of more than 1000 packets a second never fills it.
///
/// # Example
///
/// ```
/// use giusto_congestion::gcc::rate::ApplicationLimited;
/// use giusto_units::{DataRate, DataSize, Timestamp};
///
/// let mut limited = ApplicationLimited::new(Default::default());
/// limited.on_estimate(DataRate::from_bps(1_000_000));
/// for ms in 0..1000 {   // 8 kbit/s of the 1 Mbit/s
///     limited.on_sent(Timestamp::from_nanos(ms * 1_000_000), DataSize::from_bytes(1));
/// }
/// assert!(limited.since().is_some());
/// ```
#[derive(Debug, Clone)]
pub struct ApplicationLimited {
    config: ApplicationLimitedConfig,
    clock: Forward,
    target: DataRate,
    /// Bytes; between minus and plus what a full budget holds.
    budget: f64,
    last_sent: Option<Timestamp>,
    since: Option<Timestamp>,
}

impl ApplicationLimited {
    /// Not limited, with no estimate yet.
    pub fn new(config: ApplicationLimitedConfig) -> Self {
        Self {
            config,
            clock: Forward::default(),
            target: DataRate::ZERO,
            budget: 0.0,
            last_sent: None,
            since: None,
        }
    }

    /// The sender may send at `estimate`.
    pub fn on_estimate(&mut self, estimate: DataRate) {
        self.target = scaled(estimate, self.config.share);
        self.add(0.0);
    }

    /// A packet of `size` left. The answer is whether [`since`](Self::since) changed by it.
    pub fn on_sent(&mut self, now: Timestamp, size: DataSize) -> bool {
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

    /// Since when the sender has been limited by its application; `None` while it is not.
    pub fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// How full the budget is, −1 to 1; zero before an estimate.
    pub fn level(&self) -> f64 {
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

    /// Sends for a time at a percentage of the estimate of 300 kbit/s, a packet each 10 ms.
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
    fn it_begins_at_little_use_and_ends_at_full_use() {
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
    fn a_falling_estimate_ends_it_only_by_what_is_sent_then() {
        let mut sender = Sender::new(ApplicationLimitedConfig::default());
        assert!(sender.send(1000, 20));
        sender.limited.on_estimate(DataRate::from_bps(ESTIMATE / 5));
        assert!(sender.limited.since().is_some());
        assert!(!sender.send(1000, 50));
    }

    #[test]
    fn other_levels_can_be_set() {
        let config = ApplicationLimitedConfig { share: 0.9, start: 0.0, stop: -0.1, ..Default::default() };
        let mut sender = Sender::new(config);
        assert!(!sender.send(1000, 100));
        assert!(sender.send(2100, 85));
    }

    #[test]
    fn the_budget_fills_in_the_time_that_arithmetic_says() {
        // Nothing but a byte now and then: 0.8 of a full budget is 0.8 · 500 ms = 400 ms of filling.
        let mut limited = ApplicationLimited::new(ApplicationLimitedConfig::default());
        limited.on_estimate(DataRate::from_bps(1_000_000_000));
        for ms in 0..=500 {
            limited.on_sent(Timestamp::from_nanos(ms * 1_000_000), DataSize::from_bytes(1));
            assert_eq!(limited.since().is_some(), ms > 400, "{ms} ms");
        }
    }

    #[test]
    fn many_small_packets_fill_it_too() {
        let mut limited = ApplicationLimited::new(ApplicationLimitedConfig::default());
        limited.on_estimate(DataRate::from_bps(100_000_000));
        (0..2000).for_each(|i| {
            limited.on_sent(Timestamp::from_nanos(i * 500_000), DataSize::from_bytes(100));
        });
        assert!(limited.since().is_some());
    }

    proptest! {
        #[test]
        fn the_level_stays_within_one(steps in prop::collection::vec((0u64..10_000_000_000, 0u64..100_000, 0u64..1_000_000_000), 0..100)) {
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
