//! Estimates the trend as the state of a scalar Kalman filter.
//!
//! The mean of the delay variation is modelled as a random walk. The measurement is the mean plus noise. The
//! variance of the noise is estimated from the innovations.
//!
//! | here | draft-ietf-rmcat-gcc-02 §5.3 |
//! |---|---|
//! | delay variation | `d(i)` |
//! | estimate, [`FilterOutput::raw`] | `m_hat(i)` |
//! | innovation | `z(i)` |
//! | gain | `k(i)` |
//! | [`process_variance`](KalmanConfig::process_variance) | `q` |
//! | error variance | `e(i)` |
//! | noise variance | `var_v_hat(i)` |
//! | [`noise_smoothing`](KalmanConfig::noise_smoothing) | `chi` |
//! | [`rate_history`](KalmanConfig::rate_history) | `K` |
//!
//! # What the draft leaves open
//!
//! - `alpha = (1 − chi)^(30 / (1000 · f_max))`: with `f_max` per millisecond, `1000 · f_max` is the highest
//!   group rate in Hz, and at 30 groups per second `alpha` is `1 − chi`. The highest rate is the inverse of
//!   the minimum inter-departure time, `T` in the draft's notation, although its text says "received".
//!   Differences that are not above zero are ignored.
//! - The innovation is limited to three standard deviations for the noise variance only; the estimate uses
//!   the full innovation. The limit applies to both signs.
//! - The draft compares `m_hat` with a threshold of 12.5 ms without amplification. A constant overload of a
//!   share x yields x times the group interval. With short groups and small overloads this stays below the
//!   threshold for ever. libwebrtc multiplied the estimate by min(n, 60) when it used such a filter
//!   (`overuse_detector.cc`). [`KalmanConfig::amplification`] enables this.

use alloc::collections::VecDeque;

use giusto_units::math;

use super::{
    filter::{FilterOutput, amplification},
    grouping::GroupDelta,
};

giusto_units::defaults! {
    /// The constants of the filter.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct KalmanConfig {
        /// Variance of the random walk of the mean per group, in ms², above 0. Default 1e-3
        /// (draft-ietf-rmcat-gcc-02 §5.3).
        pub process_variance: f64 = 1e-3,
        /// Variance of the initial estimate, in ms², at least 0. Default 0.1 (draft-ietf-rmcat-gcc-02 §5.6).
        pub initial_error_variance: f64 = 0.1,
        /// Initial variance of the noise, in ms². Default 1: the draft specifies none, and this is its minimum.
        pub initial_noise_variance: f64 = 1.0,
        /// Minimum variance of the noise, in ms², above 0. Default 1 (draft-ietf-rmcat-gcc-02 §5.3).
        pub min_noise_variance: f64 = 1.0,
        /// Weight of a group in the variance of the noise, at 30 groups per second: above 0, below 1. Default
        /// 0.001; draft-ietf-rmcat-gcc-02 §5.3 gives 0.001 to 0.1. With a larger value, a ramp counts as noise,
        /// the estimate becomes slow, and over-use is signalled seconds after the ramp has ended.
        pub noise_smoothing: f64 = 0.001,
        /// Limit of a deviation for the variance of the noise, in standard deviations, above 0. Default 3
        /// (draft-ietf-rmcat-gcc-02 §5.3).
        pub outlier_deviations: f64 = 3.0,
        /// Number of groups over which the highest rate is determined, at least 1. Default 60: the draft
        /// specifies none; this is libwebrtc's (`overuse_estimator.cc`).
        pub rate_history: usize = 60,
        /// The estimate is multiplied by the number of groups processed, up to this number; `None`: no
        /// multiplication. Default `None` (draft-ietf-rmcat-gcc-02 §5.4); libwebrtc, `overuse_detector.cc`: 60.
        pub amplification: Option<u32> = None,
    }
}

impl KalmanConfig {
    /// The draft as published.
    pub fn draft_02() -> Self {
        Self::default()
    }

    /// The draft, with libwebrtc's amplification of min(n, 60).
    pub fn amplified() -> Self {
        Self { amplification: Some(60), ..Self::draft_02() }
    }
}

/// A scalar Kalman filter of the delay variation.
#[derive(Debug, Clone)]
pub(super) struct Kalman {
    config: KalmanConfig,
    error_variance: f64,
    noise_variance: f64,
    intervals: LeastInterval,
    output: FilterOutput,
}

impl Kalman {
    /// An estimate of zero.
    pub(super) fn new(config: KalmanConfig) -> Self {
        Self {
            config,
            error_variance: config.initial_error_variance,
            noise_variance: config.initial_noise_variance.max(config.min_noise_variance),
            intervals: LeastInterval::new(config.rate_history),
            output: FilterOutput::default(),
        }
    }

    /// The estimated variance of the noise, in ms².
    #[cfg(test)]
    pub(super) fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// Processes one delay variation.
    pub(super) fn on_delta(&mut self, delta: &GroupDelta) -> FilterOutput {
        let innovation = delta.variation().as_millis() - self.output.raw;
        self.update_noise(innovation, delta.departure.as_millis());

        let predicted = self.error_variance + self.config.process_variance;
        let gain = predicted / (self.noise_variance + predicted);
        self.error_variance = (1.0 - gain) * predicted;
        let raw = self.output.raw + gain * innovation;
        let samples = self.output.samples.saturating_add(1);
        self.output =
            FilterOutput { raw, trend_ms: raw * amplification(samples, self.config.amplification), samples };
        self.output
    }

    fn update_noise(&mut self, innovation: f64, interval_ms: f64) {
        let Some(min_ms) = self.intervals.push(interval_ms) else { return };
        let kept = kept_share(self.config.noise_smoothing, min_ms);
        let bound = self.config.outlier_deviations * math::sqrt(self.noise_variance);
        let bounded = innovation.clamp(-bound, bound);
        self.noise_variance = (kept * self.noise_variance + (1.0 - kept) * bounded * bounded)
            .max(self.config.min_noise_variance);
    }
}

/// Factor by which an average decays per group, if `share` is lost at 30 groups per second and groups come
/// every `interval_ms` (draft-ietf-rmcat-gcc-02 §5.3, `alpha`; libwebrtc, `overuse_estimator.cc`).
pub(in crate::gcc) fn kept_share(share: f64, interval_ms: f64) -> f64 {
    math::pow(1.0 - share, interval_ms * 30.0 / 1000.0)
}

/// Minimum of the latest intervals above zero, in milliseconds.
#[derive(Debug, Clone)]
pub(in crate::gcc) struct LeastInterval {
    /// Intervals that are or may become the minimum, with their number, in increasing order.
    candidates: VecDeque<(u64, f64)>,
    count: u64,
    length: u64,
}

impl LeastInterval {
    pub(in crate::gcc) fn new(length: usize) -> Self {
        let length = length.max(1);
        Self { candidates: VecDeque::with_capacity(length), count: 0, length: length as u64 }
    }

    /// Adds an interval and returns the minimum; `None` before any interval was above zero.
    pub(in crate::gcc) fn push(&mut self, interval_ms: f64) -> Option<f64> {
        if interval_ms > 0.0 {
            self.count += 1;
            let oldest = self.count.saturating_sub(self.length) + 1;
            while self.candidates.front().is_some_and(|&(number, _)| number < oldest) {
                self.candidates.pop_front();
            }
            while self.candidates.back().is_some_and(|&(_, longer)| longer >= interval_ms) {
                self.candidates.pop_back();
            }
            self.candidates.push_back((self.count, interval_ms));
        }
        self.candidates.front().map(|&(_, min)| min)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;
    use crate::testing::{group_delta, near};

    /// 1 % per group at 30 groups per second, so that the noise estimate changes.
    fn config() -> KalmanConfig {
        KalmanConfig { noise_smoothing: 0.01, ..KalmanConfig::draft_02() }
    }

    fn delta(departure_ms: f64, variation_ms: f64) -> GroupDelta {
        let departure = TimeDelta::from_seconds_f64(departure_ms / 1e3);
        group_delta(departure, departure + TimeDelta::from_seconds_f64(variation_ms / 1e3))
    }

    /// The same filter in information form: precisions add up, and the estimate is their weighted mean.
    #[test]
    fn it_agrees_with_the_information_form() {
        let mut kalman = Kalman::new(config());
        let (mut mean, mut precision, mut noise): (f64, f64, f64) = (0.0, 10.0, 1.0);
        let mut state = 12_345_u64;
        for group in 0..500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let variation = ((state >> 33) as f64 / f64::from(1_u32 << 31) - 0.5) * 30.0;
            let variation = (variation * 1e6).round() / 1e6;
            let output = kalman.on_delta(&delta(20.0, variation));

            let innovation = variation - mean;
            let alpha = ((30.0 / (1000.0 / 20.0)) * 0.99_f64.ln()).exp();
            let squared = (innovation * innovation).min(9.0 * noise);
            noise = (noise + (1.0 - alpha) * (squared - noise)).max(1.0);
            let prior = 1.0 / (1.0 / precision + 1e-3);
            precision = prior + 1.0 / noise;
            mean = (prior * mean + variation / noise) / precision;
            assert!((output.raw - mean).abs() < 1e-9, "group {group}: {} and {mean}", output.raw);
            assert!((kalman.noise_variance() - noise).abs() < 1e-9, "group {group}");
        }
        // Uniform between −15 and 15 ms: a variance of 75 ms².
        assert!((50.0..=100.0).contains(&noise), "{noise}");
    }

    /// At the minimum noise the error variance P solves P = P R / (P + R) + q, and the gain is P / (P + R) =
    /// 0.0311.
    #[test]
    fn without_noise_the_gain_is_that_of_the_riccati_equation() {
        let mut kalman = Kalman::new(config());
        for _ in 0..2000 {
            kalman.on_delta(&delta(20.0, 0.0));
        }
        let before = kalman.on_delta(&delta(20.0, 0.0)).raw;
        let stepped = kalman.on_delta(&delta(20.0, 0.5)).raw - before;
        let gain = ((1e-6_f64 + 4e-3).sqrt() - 1e-3) * 0.5;
        assert!((stepped / 0.5 - gain).abs() < 1e-6, "{} and {gain}", stepped / 0.5);
    }

    /// `alpha` at one group interval: a single difference of 2 ms changes the variance from 1 by (1 − alpha)
    /// (4 − 1).
    #[test]
    fn the_noise_follows_by_the_highest_group_rate_of_the_history() {
        // At 30 groups per second the weight of a group is chi; at 300 it is a tenth of that in the
        // logarithm.
        for (interval_ms, expected) in [(1000.0 / 30.0, 0.01), (1000.0 / 300.0, 1.0 - 0.99_f64.powf(0.1))] {
            let mut kalman = Kalman::new(config());
            kalman.on_delta(&delta(interval_ms, 2.0));
            let found = (kalman.noise_variance() - 1.0) / 3.0;
            assert!((found - expected).abs() < 1e-6, "{interval_ms} ms: {found} and {expected}");
        }
        // The pair with the short interval determines the rate for the length of the history, and no longer.
        let mut kalman = Kalman::new(KalmanConfig { rate_history: 2, ..config() });
        kalman.on_delta(&delta(10.0, 0.0));
        let mut steps = Vec::new();
        for _ in 0..2 {
            let mut probe = kalman.clone();
            let innovation = 2.0 - probe.output.raw;
            probe.on_delta(&delta(40.0, 2.0));
            steps.push((probe.noise_variance() - 1.0) / (innovation * innovation - 1.0));
            kalman.on_delta(&delta(40.0, 0.0));
        }
        near(steps[0], 1.0 - 0.99_f64.powf(0.3), 1e-6);
        near(steps[1], 1.0 - 0.99_f64.powf(1.2), 1e-6);
    }

    #[test]
    fn an_outlier_is_limited_for_the_noise_only() {
        let mut bounded = Kalman::new(config());
        let output = bounded.on_delta(&delta(1000.0 / 30.0, -1000.0));
        near(bounded.noise_variance(), 0.99 + 0.01 * 9.0, 1e-6);
        near(output.raw, -1000.0 * 0.101 / (0.101 + bounded.noise_variance()), 1e-6);
    }

    #[test]
    fn the_amplification_grows_to_its_limit_and_no_further() {
        let mut literal = Kalman::new(config());
        let mut amplified = Kalman::new(KalmanConfig { amplification: Some(60), ..config() });
        for group in 1..=100_u32 {
            let plain = literal.on_delta(&delta(20.0, 1.0));
            let loud = amplified.on_delta(&delta(20.0, 1.0));
            assert_eq!(plain.trend_ms, plain.raw);
            assert_eq!(loud.trend_ms, plain.raw * f64::from(group.min(60)));
        }
    }

    #[test]
    fn the_minimum_interval_is_of_the_latest_intervals() {
        let intervals: Vec<f64> = (0..500_u64).map(|n| ((n * n * 31 + n * 17) % 97) as f64 - 5.0).collect();
        let mut min = LeastInterval::new(7);
        for seen in 1..=intervals.len() {
            let last = intervals[..seen].iter().rev().copied().filter(|&interval| interval > 0.0).take(7);
            assert_eq!(min.push(intervals[seen - 1]), last.reduce(f64::min), "{seen}");
        }
    }

    #[test]
    fn differences_without_an_interval_leave_the_noise_alone() {
        let mut kalman = Kalman::new(config());
        kalman.on_delta(&delta(0.0, 50.0));
        kalman.on_delta(&delta(-20.0, -50.0));
        assert_eq!(kalman.noise_variance(), 1.0);
    }
}
