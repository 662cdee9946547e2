//! Estimates the trend as the offset of a Kalman filter with two states.
//!
//! A larger group takes longer on a link. The delay variation is therefore modelled as
//! `slope · size difference + offset`. The slope is the inverse of the capacity, and the offset is the growth
//! of the queue per group. libwebrtc uses this filter at the receiver (`overuse_estimator.cc`). In February 2014 it
//! had other constants: `gcc:rmcat-02`.
//!
//! | here | libwebrtc, `overuse_estimator.h` |
//! |---|---|
//! | [`slope`](KalmanTwoState::slope) | `slope_` |
//! | offset, [`FilterOutput::raw`] | `offset_` |
//! | covariance | `E_` |
//! | noise mean and variance | `avg_noise_`, `var_noise_` |
//!
//! In libwebrtc rounding may make the covariance indefinite, which it logs. Here it is updated in Joseph's
//! form, `(I − K h) E (I − K h)ᵀ + K R Kᵀ`, which is equal in exact arithmetic and a sum of squares.

use giusto_units::math;

use super::{
    filter::{FilterOutput, amplification},
    grouping::GroupDelta,
    kalman::{LeastInterval, kept_share},
};
use crate::target::Signal;

giusto_units::defaults! {
    /// Constants of the filter. All are from libwebrtc's `overuse_estimator.{h,cc}` unless stated otherwise.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct KalmanTwoStateConfig {
        /// Initial slope, in milliseconds per byte. Default 8/512: a link of 512 kbit/s.
        pub initial_slope: f64 = 8.0 / 512.0,
        /// Variances of the initial slope, in (ms/byte)², and of the initial offset, in ms²; at least 0. Default
        /// 100 and 0.1.
        pub initial_variances: [f64; 2] = [100.0, 0.1],
        /// Variances of the random walk of slope and offset per group, in (ms/byte)² and ms²; at least 0. Default
        /// 1e-13 and 1e-3.
        pub process_variances: [f64; 2] = [1e-13, 1e-3],
        /// Factor on the process variance of the offset while the offset contradicts the signal: over-use while
        /// it falls, under-use while it rises. At least 0. Default 10.
        pub turning_boost: f64 = 10.0,
        /// Initial variance of the noise, in ms². Default 50.
        pub initial_noise_variance: f64 = 50.0,
        /// Minimum variance of the noise, in ms², above 0. Default 1.
        pub min_noise_variance: f64 = 1.0,
        /// Limit of a deviation for the variance of the noise, in standard deviations, above 0. Default 3.
        pub outlier_deviations: f64 = 3.0,
        /// Weight of a group in the noise during start-up, at 30 groups per second: above 0, below 1. Default
        /// 0.01.
        pub startup_noise_smoothing: f64 = 0.01,
        /// The same after start-up. Default 0.002.
        pub noise_smoothing: f64 = 0.002,
        /// Length of the start-up, in groups. Default 300.
        pub startup_groups: u32 = 300,
        /// Number of groups over which the minimum interval is determined, at least 1. Default 60 and the current
        /// one.
        pub rate_history: usize = 61,
        /// The offset is multiplied by the number of groups processed, up to this number; `None`: by 1. Default
        /// 60 (libwebrtc, `overuse_detector.cc`).
        pub amplification: Option<u32> = Some(60),
    }
}

/// A Kalman filter of slope and offset.
#[derive(Debug, Clone)]
pub(crate) struct KalmanTwoState {
    config: KalmanTwoStateConfig,
    slope: f64,
    previous_offset: f64,
    covariance: Covariance,
    noise_mean: f64,
    noise_variance: f64,
    intervals: LeastInterval,
    output: FilterOutput,
}

impl KalmanTwoState {
    /// An offset of zero.
    pub(crate) fn new(config: KalmanTwoStateConfig) -> Self {
        let [slope, offset] = config.initial_variances;
        Self {
            config,
            slope: config.initial_slope,
            previous_offset: 0.0,
            covariance: Covariance { slope, offset, mixed: 0.0 },
            noise_mean: 0.0,
            noise_variance: config.initial_noise_variance.max(config.min_noise_variance),
            intervals: LeastInterval::new(config.rate_history),
            output: FilterOutput::default(),
        }
    }

    /// The transmission time of a byte, in milliseconds.
    #[cfg(test)]
    pub(crate) fn slope(&self) -> f64 {
        self.slope
    }

    /// The estimated variance of the noise, in ms².
    #[cfg(test)]
    pub(crate) fn noise_variance(&self) -> f64 {
        self.noise_variance
    }

    /// Processes one delay variation. `signal` is the current signal of the detector: the noise is learned
    /// only while it is normal.
    pub(crate) fn on_delta(&mut self, delta: &GroupDelta, signal: Signal) -> FilterOutput {
        let offset = self.output.raw;
        let samples = self.output.samples.saturating_add(1);
        let size = delta.size_bytes as f64;
        let innovation = delta.variation().as_millis() - self.slope * size - offset;
        let min_ms = self.intervals.push(delta.departure.as_millis());
        if signal == Signal::Normal
            && let Some(min_ms) = min_ms
        {
            self.update_noise(innovation, min_ms, samples);
        }

        let turns = match signal {
            Signal::OverUse => offset < self.previous_offset,
            Signal::UnderUse => offset > self.previous_offset,
            Signal::Normal => false,
        };
        let [slope_walk, offset_walk] = self.config.process_variances;
        let boost = if turns { 1.0 + self.config.turning_boost } else { 1.0 };
        self.covariance.slope += slope_walk;
        self.covariance.offset += offset_walk * boost;
        let [slope_gain, offset_gain] = self.covariance.update(size, self.noise_variance);

        self.slope += slope_gain * innovation;
        self.previous_offset = offset;
        let raw = offset + offset_gain * innovation;
        self.output =
            FilterOutput { raw, trend_ms: raw * amplification(samples, self.config.amplification), samples };
        self.output
    }

    fn update_noise(&mut self, innovation: f64, interval_ms: f64, samples: u32) {
        let bound = self.config.outlier_deviations * math::sqrt(self.noise_variance);
        let bounded = innovation.clamp(-bound, bound);
        let starting = samples <= self.config.startup_groups;
        let share = if starting { self.config.startup_noise_smoothing } else { self.config.noise_smoothing };
        let kept = kept_share(share, interval_ms);
        self.noise_mean = kept * self.noise_mean + (1.0 - kept) * bounded;
        let deviation = self.noise_mean - bounded;
        self.noise_variance = (kept * self.noise_variance + (1.0 - kept) * deviation * deviation)
            .max(self.config.min_noise_variance);
    }
}

/// The covariance of slope and offset.
#[derive(Debug, Clone, Copy)]
pub(in crate::gcc) struct Covariance {
    pub(in crate::gcc) slope: f64,
    pub(in crate::gcc) offset: f64,
    pub(in crate::gcc) mixed: f64,
}

impl Covariance {
    /// Processes a measurement of `slope · size + offset` with noise variance `noise`. Returns the gains of
    /// slope and offset.
    pub(in crate::gcc) fn update(&mut self, size: f64, noise: f64) -> [f64; 2] {
        let Self { slope, offset, mixed } = *self;
        let slope_seen = slope * size + mixed;
        let offset_seen = mixed * size + offset;
        let seen = noise + (size * slope_seen + offset_seen).max(0.0);
        let gains @ [slope_gain, offset_gain] = [slope_seen / seen, offset_seen / seen];

        let (a, b) = (1.0 - slope_gain * size, -slope_gain);
        let (c, d) = (-offset_gain * size, 1.0 - offset_gain);
        self.slope = a * a * slope + 2.0 * a * b * mixed + b * b * offset + slope_gain * slope_gain * noise;
        self.offset =
            c * c * slope + 2.0 * c * d * mixed + d * d * offset + offset_gain * offset_gain * noise;
        let cross =
            a * c * slope + (a * d + b * c) * mixed + b * d * offset + slope_gain * offset_gain * noise;
        // Rounding may make a variance slightly negative, or a correlation slightly larger than one.
        self.slope = self.slope.max(0.0);
        self.offset = self.offset.max(0.0);
        let max = math::sqrt(self.slope * self.offset);
        self.mixed = cross.clamp(-max, max);
        gains
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;
    use crate::testing::{group_delta, within};

    fn delta(departure_ms: i64, variation_us: i64, size_bytes: i64) -> GroupDelta {
        let departure = TimeDelta::from_millis(departure_ms);
        GroupDelta { size_bytes, ..group_delta(departure, departure + TimeDelta::from_micros(variation_us)) }
    }

    /// Without a random walk and at a fixed noise (none is learned during over-use), the filter is ridge
    /// regression: the minimum of Σ (d − s·h − o)² / R + (s − s₀)² / S + o² / O. The test solves its normal
    /// equations at the end.
    #[test]
    fn without_a_walk_it_is_ridge_regression() {
        let config =
            KalmanTwoStateConfig { process_variances: [0.0, 0.0], ..KalmanTwoStateConfig::default() };
        let mut kalman = KalmanTwoState::new(config);
        let (slope_prior, slope_variance, offset_variance, noise) = (8.0 / 512.0, 100.0, 0.1, 50.0);
        let (mut hh, mut h, mut n) = (1.0 / slope_variance, 0.0, 1.0 / offset_variance);
        let (mut hd, mut d) = (slope_prior / slope_variance, 0.0);
        let mut state = 99_u64;
        let mut output = FilterOutput::default();
        for _ in 0..400 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let size = ((state >> 40) % 4001) as i64 - 2000;
            let noise_us = ((state >> 20) % 6001) as i64 - 3000;
            // A link of 1 Mbit/s, 8 µs per byte, with a queue that grows by 2 ms per group.
            let variation_us = 8 * size + 2_000 + noise_us;
            output = kalman.on_delta(&delta(33, variation_us, size), Signal::OverUse);
            let (size, variation) = (size as f64, variation_us as f64 / 1e3);
            hh += size * size / noise;
            h += size / noise;
            n += 1.0 / noise;
            hd += size * variation / noise;
            d += variation / noise;
        }
        let determinant = hh * n - h * h;
        let (slope, offset) = ((hd * n - h * d) / determinant, (hh * d - h * hd) / determinant);
        assert!((kalman.slope() - slope).abs() < 1e-9, "{} and {slope}", kalman.slope());
        assert!((output.raw - offset).abs() < 1e-7, "{} and {offset}", output.raw);
        assert!((slope - 0.008).abs() < 3e-4 && (0.5..2.0).contains(&offset), "{slope}, {offset}");
        assert_eq!(kalman.noise_variance(), 50.0);
        assert_eq!(output.trend_ms, output.raw * 60.0);
    }

    #[test]
    fn noise_is_learned_only_while_the_signal_is_normal() {
        let learn = |signal| {
            let mut kalman = KalmanTwoState::new(KalmanTwoStateConfig::default());
            for _ in 0..500 {
                kalman.on_delta(&delta(33, 0, 0), signal);
            }
            kalman.noise_variance()
        };
        // Normal: 50 ms² × 0.99^0.99 for 300 groups, which reaches the minimum.
        within(learn(Signal::Normal), 1.0..5.0);
        assert_eq!(learn(Signal::OverUse), 50.0);
        assert_eq!(learn(Signal::UnderUse), 50.0);
    }

    #[test]
    fn a_trend_that_turns_is_followed_faster() {
        let turn = |signal| {
            let mut kalman = KalmanTwoState::new(KalmanTwoStateConfig::default());
            for _ in 0..100 {
                kalman.on_delta(&delta(33, 5_000, 0), Signal::OverUse);
            }
            (0..30).map(|_| kalman.on_delta(&delta(33, -5_000, 0), signal).raw).last().unwrap()
        };
        // Falling: this contradicts over-use, but not under-use. The noise is frozen in both.
        within(turn(Signal::OverUse), ..turn(Signal::UnderUse) - 0.1);
    }

    #[test]
    fn the_covariance_stays_one_for_sizes_of_all_magnitudes() {
        let mut kalman = KalmanTwoState::new(KalmanTwoStateConfig::default());
        for step in 0..2_000_i64 {
            let size = [1, -1_200, i64::MAX, 0, -i64::MAX, 65_000][(step % 6) as usize];
            let output = kalman.on_delta(&delta(step % 50, step * 37 % 9_000, size), Signal::Normal);
            let Covariance { slope, offset, mixed } = kalman.covariance;
            assert!(output.trend_ms.is_finite() && kalman.slope().is_finite(), "{step}: {output:?}");
            let is_one = mixed * mixed <= slope * offset * (1.0 + 1e-9);
            assert!(slope >= 0.0 && offset >= 0.0 && is_one, "{step}");
        }
    }
}
