//! Queueing delay in the network.

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use crate::clock_jump;

giusto_units::defaults! {
    /// Configuration of the queueing delay.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct QueueDelayConfig {
        /// Delay that counts as 100 % marks; up to half of it counts as none. Default 60 ms (§"Reference Window
        /// Update", `QDELAY_TARGET_LO`).
        pub target: TimeDelta = TimeDelta::from_millis(60),
        /// Gain of the average for an increase; a decrease is taken over fully. Default 1/4 (§"Detecting
        /// Increased Queue Delay", `QDELAY_AVG_G`).
        pub gain: f64 = 1.0 / 4.0,
        /// Number of minima from which the base delay is computed. Default 10 (RFC 6817 §2.5, `BASE_HISTORY`).
        pub minima: usize = 10,
        /// Time over which each minimum is taken. Default 1 min (RFC 6817 §2.4.2).
        pub minimum: TimeDelta = TimeDelta::from_seconds(60),
        /// Whether jitter limits growth and the send window. Default: no (`REDUCE_JITTER`).
        pub reduce_jitter: bool = false,
        /// Gain with which the averages of minimum and maximum delay approach each other. Default 1/16
        /// (`QDELAY_MIN_MAX_AVG_G`).
        pub min_max_gain: f64 = 1.0 / 16.0,
        /// Gain of the average of their difference. Default 1/32 (`QDELAY_DEV_AVG_G`).
        pub deviation_gain: f64 = 1.0 / 32.0,
        /// The difference that stops growth. Default 10 ms (`QDELAY_DEV_THRESHOLD`).
        pub deviation_threshold: TimeDelta = TimeDelta::from_millis(10),
        /// Gain of the average of the minimum delay per RTT. Default 1/256 (§"Clock drift issues and remedies",
        /// `QDELAY_MIN_AVG_ALPHA`).
        pub drift_gain: f64 = 1.0 / 256.0,
        /// Share of the target; if that average exceeds it, the cause is a drifting clock or a queue that never
        /// drains. Default 1/4 (same section).
        pub drift_share: f64 = 1.0 / 4.0,
    }
}

/// The one-way delay minus its minimum, as LEDBAT measures it (RFC 6817 §2.4.2), and its averages.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueDelay {
    config: QueueDelayConfig,
    /// The minimum apparent delay of each of the last minutes, the current one last, and the start of the
    /// current one.
    minima: VecDeque<TimeDelta>,
    minute: Timestamp,
    /// In seconds, like the following fields.
    latest: f64,
    average: f64,
    averaged: Option<Timestamp>,
    max: f64,
    min: f64,
    deviation: f64,
    /// The minimum of the current round trip, and its start.
    round_min: Option<f64>,
    round: Option<Timestamp>,
    drift: f64,
}

impl QueueDelay {
    /// Before the first packet.
    pub(crate) fn new(config: QueueDelayConfig) -> Self {
        Self {
            config,
            minima: VecDeque::with_capacity(config.minima.max(1)),
            max: config.target.as_seconds(),
            ..Self::default()
        }
    }

    /// Handles a packet with the one-way delay `apparent` by two clocks of unknown offset, sent `since` ago.
    /// The last packet of a feedback message gives the delay; the others are used for the base delay and the
    /// jitter.
    ///
    /// After a jump of a clock ([`clock_jump`]) the base delay is measured again. The text has only its drift detection, and treats a jump of
    /// 150 ms as congestion until that triggers.
    pub(crate) fn on_packet(&mut self, now: Timestamp, apparent: TimeDelta, since: TimeDelta) {
        let jumped =
            self.minima.iter().min().is_some_and(|&base| clock_jump::has_jumped(apparent - base, since));
        // The pause was so long that all stored minima are out of date (RFC 6817 §2.4.2).
        let memory = self.config.minimum * i64::try_from(self.config.minima).unwrap_or(i64::MAX);
        if jumped || now.saturating_since(self.minute) >= memory {
            self.minima.clear();
        }
        if self.minima.is_empty() || now.saturating_since(self.minute) >= self.config.minimum {
            if self.minima.len() >= self.config.minima.max(1) {
                self.minima.pop_front();
            }
            self.minima.push_back(apparent);
            self.minute = now;
        }
        if let Some(last) = self.minima.back_mut() {
            *last = apparent.min(*last);
        }
        let base = self.minima.iter().min().copied().unwrap_or(apparent);
        self.latest = (apparent - base).max(TimeDelta::ZERO).as_seconds();
        self.round_min = Some(self.round_min.unwrap_or(self.latest).min(self.latest));
        self.max = self.latest.max(self.max).min(self.target());
        self.min = self.latest.min(self.min);
    }

    /// Handles the end of a feedback message: updates the averages, at most once per `interval`. Returns
    /// whether the base delay was wrong and is measured again.
    pub(crate) fn update(&mut self, now: Timestamp, interval: TimeDelta, rtt: TimeDelta) -> bool {
        if self.averaged.is_none_or(|averaged| now.saturating_since(averaged) >= interval) {
            self.averaged = Some(now);
            let rise = self.latest - self.average;
            self.average += if rise < 0.0 { rise } else { self.config.gain * rise };
            if self.config.reduce_jitter {
                self.follow_jitter();
            }
        }
        let round = *self.round.get_or_insert(now);
        if now.saturating_since(round) < rtt {
            return false;
        }
        self.round = Some(now);
        let Some(min) = self.round_min.take() else { return false };
        self.drift += self.config.drift_gain * (min - self.drift);
        let drifts = self.drift > self.config.drift_share * self.target();
        if drifts {
            self.drift = 0.0;
            self.minima.clear();
        }
        drifts
    }

    fn follow_jitter(&mut self) {
        let QueueDelayConfig { min_max_gain, deviation_gain, .. } = self.config;
        self.max -= self.max * min_max_gain;
        self.min += min_max_gain * (self.max - self.min);
        self.deviation += deviation_gain * (self.max - self.min - self.deviation);
    }

    /// The latest queueing delay (`qdelay`), in seconds.
    pub(crate) fn latest(&self) -> f64 {
        self.latest
    }

    /// The average (`qdelay_avg`), in seconds.
    pub(crate) fn average(&self) -> f64 {
        self.average
    }

    /// The average as an equivalent share of marked packets (`l4s_alpha_v_t`): zero up to half of the target,
    /// one at the target.
    pub(crate) fn virtual_marks(&self) -> f64 {
        let half = self.target() / 2.0;
        if self.average <= half { 0.0 } else { ((self.average - half) / half).min(1.0) }
    }

    /// 1 if the delay is constant, 0 if it varies by the threshold or more (`ref_wnd_delay_scale`).
    pub(crate) fn steadiness(&self) -> f64 {
        let threshold = self.config.deviation_threshold.as_seconds();
        if !self.config.reduce_jitter || self.deviation <= 0.0 {
            1.0
        } else {
            (1.0 - self.deviation / threshold).clamp(0.0, 1.0)
        }
    }

    /// The target (`qdelay_target`), in seconds; never zero.
    pub(crate) fn target(&self) -> f64 {
        self.config.target.as_seconds().max(1e-6)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;
    use crate::testing::{at, ms};

    fn feedback(delay: &mut QueueDelay, now: u64, apparent: i64) -> bool {
        delay.on_packet(at(now), ms(apparent), ms(1000));
        delay.update(at(now), ms(25), ms(50))
    }

    #[test]
    fn a_constant_clock_offset_does_not_count_as_queueing() {
        for offset in [-5_000_000, 0, 7_000_000] {
            let mut delay = QueueDelay::new(QueueDelayConfig::default());
            feedback(&mut delay, 0, offset);
            feedback(&mut delay, 50, offset + 40);
            assert_eq!((delay.latest(), delay.average()), (0.040, 0.010));
            feedback(&mut delay, 100, offset + 5);
            assert_eq!(delay.average(), 0.005, "a fall is believed at once");
        }
    }

    #[test]
    fn virtual_marks_rise_from_half_the_target_to_the_target() {
        let mut delay = QueueDelay::new(QueueDelayConfig { gain: 1.0, ..QueueDelayConfig::default() });
        feedback(&mut delay, 0, 100);
        for (now, (queue, marks)) in
            (1..).zip([(30, 0.0), (45, 0.5), (54, 0.8), (60, 1.0), (500, 1.0), (0, 0.0)])
        {
            feedback(&mut delay, now * 50, 100 + queue);
            assert!((delay.virtual_marks() - marks).abs() < 1e-9, "{queue} ms: {}", delay.virtual_marks());
        }
    }

    #[test]
    fn the_base_delay_is_kept_for_10_minutes() {
        let mut delay = QueueDelay::new(QueueDelayConfig { drift_gain: 0.0, ..QueueDelayConfig::default() });
        feedback(&mut delay, 0, 20);
        for minute in 1..10 {
            feedback(&mut delay, minute * 60_000, 28);
            assert_eq!(delay.latest(), 0.008, "minute {minute}");
        }
        feedback(&mut delay, 600_000, 28);
        assert_eq!(delay.latest(), 0.0);
    }

    #[test]
    fn a_long_idle_time_resets_the_base_delay() {
        for (idle, latest) in [(599_000, 0.03), (600_000, 0.0)] {
            let mut delay = QueueDelay::new(QueueDelayConfig::default());
            feedback(&mut delay, 0, 20);
            feedback(&mut delay, idle, 50);
            assert_eq!(delay.latest(), latest, "{idle} ms");
        }
    }

    #[test]
    fn clock_drift_is_detected() {
        // 1 ms in 10 s, 100 ppm: the tenth minute would give 60 ms. A quarter of the target is 15 ms; the
        // average lags by 256 RTTs of 50 ms, which is 1.3 ms of drift.
        let mut delay = QueueDelay::new(QueueDelayConfig::default());
        let resets: Vec<u64> = (0..6000).filter(|&n| feedback(&mut delay, n * 50, n as i64 / 200)).collect();
        assert!((155..=175).contains(&(resets[0] / 20)), "{resets:?}");
        assert_eq!(resets.len(), 1, "{resets:?}");
        assert!(delay.latest() < 0.015);
    }

    #[test]
    fn a_clock_jump_does_not_count_as_queueing() {
        let mut delay = QueueDelay::new(QueueDelayConfig::default());
        let mut delay_after = |now, apparent| {
            delay.on_packet(at(now), ms(apparent), ms(120));
            delay.latest()
        };
        assert_eq!([delay_after(0, 500), delay_after(50, 590), delay_after(100, 505)], [0.0, 0.09, 0.005]);
        // A delay of 150 ms is impossible 120 ms after sending. It is then measured from there, as after a
        // jump back.
        assert_eq!([delay_after(150, 650), delay_after(200, 740), delay_after(250, 655)], [0.0, 0.09, 0.005]);
        assert_eq!([delay_after(300, -9000), delay_after(350, -8910)], [0.0, 0.09]);
    }

    #[test]
    fn jitter_above_the_threshold_stops_growth_if_enabled() {
        for (reduce_jitter, jitter, range) in
            [(true, 0, 0.9..=1.0), (true, 5, 0.3..=0.7), (true, 50, 0.0..=0.0), (false, 50, 1.0..=1.0)]
        {
            let mut delay =
                QueueDelay::new(QueueDelayConfig { reduce_jitter, ..QueueDelayConfig::default() });
            for n in 0..1000 {
                feedback(&mut delay, n * 25, 20 + (n as i64 % 2) * jitter);
            }
            assert!(range.contains(&delay.steadiness()), "{jitter} ms: {}", delay.steadiness());
        }
    }
}
