//! Media rate of one source (draft-johansson-rmcat-scream-cc-00 §9.1.6).

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use super::config::Config;

/// `ageHistSizeMax`.
const AGES: usize = 5;
/// Maximum step of an increase, as a share of the rate or of a tenth of the maximum (§9.1.6).
const STEP: f64 = 0.2;
const LITTLE: f64 = 0.1;
/// The increase is slowed by 5 for each delay target by which the delay exceeds a fifth of it, and by 5 at
/// most. The slow-down decays by a tenth with each step (§9.1.6).
const SLOWED: f64 = 5.0;
const ENOUGH: f64 = 0.2;
const RECOVERY: f64 = 0.9;

giusto_units::defaults! {
    /// The media rate, in bit/s. The draft calls it a scale factor, for a source whose frames are scaled by it
    /// (§5).
    #[derive(Debug, Clone)]
    pub(super) struct MediaRate {
        config: Config = config,
        min: f64 = limits.0,
        max: f64 = limits.1,
        rate: f64 = rate,
        ages: VecDeque<f64> = VecDeque::new(),
        /// Mean age at the latest adjustment.
        age: f64 = 0.0,
        /// `rampUpSlowDown`.
        slowed: f64 = 1.0,
        adjusted: Option<Timestamp> = None,
        /// Whether a packet was sent since then.
        used: bool = false,
    }
    /// Starts at `rate`, between `min` and `max`.
    pub(super) fn new(config: Config, limits: (f64, f64), rate: f64);
}

impl MediaRate {
    /// Sets the rate and its limits.
    pub(super) fn set(&mut self, limits: (f64, f64), rate: f64) {
        (self.min, self.max) = limits;
        self.rate = rate.min(self.max).max(self.min);
    }

    /// Handles a sent packet.
    pub(super) fn on_sent(&mut self) {
        self.used = true;
    }

    /// Handles a loss event or source quench.
    pub(super) fn on_loss(&mut self) {
        self.rate = (self.rate * self.config.beta_rate).max(self.min);
    }

    /// Handles missing feedback.
    pub(super) fn on_silence(&mut self) {
        self.rate = (self.rate * 0.5).max(self.min);
    }

    /// Age of the oldest packet over the last round trips, in seconds.
    pub(super) fn age(&self) -> f64 {
        self.age
    }

    /// `adjustVideoBitrate`, at most once per RTT and once per frame. `age` is the age of the oldest packet,
    /// and the queueing delay is given as a share of the delay target. Returns whether the rate was reduced,
    /// if it was adjusted.
    pub(super) fn update(&mut self, now: Timestamp, rtt: f64, age: TimeDelta, queued: f64) -> Option<bool> {
        let frame = self.config.frame_period.as_seconds();
        let interval = rtt.max(frame);
        let since = now.saturating_since(*self.adjusted.get_or_insert(now)).as_seconds();
        if since < interval || !(self.used || age > TimeDelta::ZERO) {
            return None;
        }
        (self.adjusted, self.used) = (Some(now), false);
        self.ages.push_back(age.as_seconds().max(0.0));
        if self.ages.len() < AGES {
            return None;
        }
        let age = self.ages.iter().sum::<f64>() / AGES as f64;
        self.ages.pop_front();
        self.age = age;
        let lowered = age > frame / 2.0;
        if lowered {
            self.rate *= (1.0 - age).max(0.0);
        } else {
            let limit = self.rate.max(self.max * LITTLE) * STEP;
            let wanted = 1.0 + SLOWED * (queued - ENOUGH).max(0.0);
            self.slowed = (self.slowed * RECOVERY).max(wanted).min(SLOWED);
            let time = since.min(2.0 * interval);
            let ramp = self.config.ramp_up.as_seconds().max(frame);
            self.rate += (time * self.max / (ramp * self.slowed)).min(limit);
        }
        self.rate = self.rate.min(self.max).max(self.min);
        Some(lowered)
    }

    /// The rate.
    pub(super) fn bps(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    /// At 1 Mbit/s with a maximum of 4 Mbit/s, with five ages known.
    fn begun(age: i64) -> MediaRate {
        let mut rate = MediaRate::new(Config::default(), (100e3, 4e6), 1e6);
        for step in 0..5 {
            assert_eq!(update(&mut rate, step, age, 0.0), None);
        }
        rate
    }

    /// One step every 100 ms, which is the RTT.
    fn update(rate: &mut MediaRate, step: i64, age: i64, queued: f64) -> Option<bool> {
        rate.on_sent();
        let now = Timestamp::ZERO + TimeDelta::from_millis(100 * step);
        rate.update(now, 0.1, TimeDelta::from_millis(age), queued)
    }

    #[test]
    fn it_rises_to_the_maximum_in_the_ramp_up_time() {
        let mut rate = begun(0);
        // 4 Mbit/s in 4 s.
        assert_eq!(update(&mut rate, 5, 0, 0.0), Some(false));
        assert!((rate.bps() - 1.1e6).abs() < 1.0, "{}", rate.bps());
        for step in 6..60 {
            update(&mut rate, step, 0, 0.2);
        }
        assert_eq!(rate.bps(), 4e6);
    }

    #[test]
    fn a_delay_slows_the_rise_for_some_time() {
        let mut rate = begun(0);
        // 1 + 5 · (0.6 − 0.2) is 3.
        update(&mut rate, 5, 0, 0.6);
        assert!((rate.bps() - 1e6 - 100e3 / 3.0).abs() < 1.0, "{}", rate.bps());
        let before = rate.bps();
        update(&mut rate, 6, 0, 0.0);
        assert!((rate.bps() - before - 100e3 / 2.7).abs() < 1.0, "{}", rate.bps());
        let before = rate.bps();
        update(&mut rate, 7, 0, 100.0);
        assert!((rate.bps() - before - 100e3 / 5.0).abs() < 1.0, "{}", rate.bps());
    }

    #[test]
    fn queued_packets_reduce_it_by_their_age_in_seconds() {
        let mut rate = begun(50);
        assert_eq!(update(&mut rate, 5, 50, 0.0), Some(true));
        assert!((rate.bps() - 950e3).abs() < 1.0, "{}", rate.bps());
        // Half of a frame is tolerated.
        let mut rate = begun(16);
        assert_eq!(update(&mut rate, 5, 16, 0.0), Some(false));
        // More than a second reduces it to the minimum.
        let mut rate = begun(1500);
        update(&mut rate, 5, 1500, 0.0);
        assert_eq!(rate.bps(), 100e3);
    }

    #[test]
    fn it_is_adjusted_once_per_rtt() {
        let mut rate = begun(0);
        rate.on_sent();
        let now = Timestamp::ZERO + TimeDelta::from_millis(499);
        assert_eq!(rate.update(now, 0.1, TimeDelta::ZERO, 0.0), None);
        assert_eq!(rate.update(now + TimeDelta::from_millis(1), 0.1, TimeDelta::ZERO, 0.0), Some(false));
        // With an empty queue nothing is learned.
        assert_eq!(rate.update(now + TimeDelta::from_seconds(1), 0.1, TimeDelta::ZERO, 0.0), None);
    }
}
