//! Estimates the trend as the slope of a line through smoothed delays.
//!
//! The delay variations are accumulated and smoothed. A line is fitted to them over arrival time by least
//! squares, over the latest groups. The slope is the growth of the queue per time: (rate − C) / rate for a
//! bottleneck of capacity C with a higher input rate. It is zero until the window is full.
//!
//! | here | libwebrtc, `trendline_estimator.cc` |
//! |---|---|
//! | [`window`](TrendLineConfig::window) | `kDefaultTrendlineWindowSize` |
//! | [`smoothing`](TrendLineConfig::smoothing) | `kDefaultTrendlineSmoothingCoeff` |
//! | [`gain`](TrendLineConfig::gain) | `kDefaultTrendlineThresholdGain` |
//! | [`amplification`](TrendLineConfig::amplification) | `kMinNumDeltas` |
//!
//! libwebrtc's two options that are off by default, to sort the window and to limit the slope, are not
//! supported. Arrival times have nanosecond resolution and are not rounded to milliseconds: rounding alone
//! can look like over-use.

use alloc::vec::Vec;

use giusto_units::PeerTimestamp;

use super::{
    filter::{FilterOutput, amplification},
    grouping::GroupDelta,
};

giusto_units::defaults! {
    /// Configuration of the fit.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct TrendLineConfig {
        /// Number of groups in the window, at least 2. Default 20 (libwebrtc, `trendline_estimator.h`).
        pub window: usize = 20,
        /// Smoothing factor of the delay: the share of the previous value, 0 to below 1. Default 0.9 (libwebrtc,
        /// `trendline_estimator.cc`).
        pub smoothing: f64 = 0.9,
        /// Factor on the slope, above 0, in milliseconds. Default 4 (libwebrtc, `trendline_estimator.cc`).
        pub gain: f64 = 4.0,
        /// The slope is also multiplied by the number of groups processed, up to this number; `None`: by 1.
        /// Default 60 (libwebrtc, `trendline_estimator.cc`).
        pub amplification: Option<u32> = Some(60),
    }
}

/// A line through the smoothed delays of the latest groups.
#[derive(Debug, Clone, Default)]
pub(super) struct TrendLine {
    config: TrendLineConfig,
    accumulated_ms: f64,
    smoothed_ms: f64,
    /// Time from which the times of the points are counted: that of the first group.
    origin: Option<PeerTimestamp>,
    /// Points, of which the latest [`window`](TrendLineConfig::window) count: the time at which the group was closed in nanoseconds, and
    /// the smoothed delay at that time in milliseconds.
    times: Vec<f64>,
    delays: Vec<f64>,
    output: FilterOutput,
}

/// The points are moved to the front once there are this many windows of them.
const WINDOWS: usize = 8;

impl TrendLine {
    /// A filter without groups. A window below 2 counts as 2.
    pub(super) fn new(config: TrendLineConfig) -> Self {
        let config = TrendLineConfig { window: config.window.max(2), ..config };
        Self { config, ..Self::default() }
    }

    /// Processes one delay variation.
    pub(super) fn on_delta(&mut self, delta: &GroupDelta) -> FilterOutput {
        self.accumulated_ms += delta.variation().as_millis();
        let kept = self.config.smoothing;
        self.smoothed_ms = kept * self.smoothed_ms + (1.0 - kept) * self.accumulated_ms;
        let origin = *self.origin.get_or_insert(delta.closed_at);
        // Whole nanoseconds are exact for 104 days.
        self.push((delta.closed_at - origin).as_nanos() as f64, self.smoothed_ms);

        let slope = self.slope().unwrap_or(self.output.raw);
        let samples = self.output.samples.saturating_add(1);
        let trend_ms = amplification(samples, self.config.amplification) * slope * self.config.gain;
        self.output = FilterOutput { raw: slope, trend_ms, samples };
        self.output
    }

    fn push(&mut self, time: f64, delay: f64) {
        for (points, value) in [(&mut self.times, time), (&mut self.delays, delay)] {
            if points.len() >= self.config.window.saturating_mul(WINDOWS) {
                points.drain(..=points.len() - self.config.window);
            }
            points.push(value);
        }
    }

    /// The slope of the full window by least squares; `None` if it is not full, or if all groups arrived at the same time.
    fn slope(&self) -> Option<f64> {
        let start = self.times.len().checked_sub(self.config.window)?;
        let (times, delays) = (self.times.get(start..)?, self.delays.get(start..)?);
        // Times are relative to the oldest, so that equal ones are exactly equal and large ones keep their
        // precision.
        let (&oldest, &base) = (times.first()?, delays.first()?);
        let count = times.len() as f64;
        let [sum_x, sum_y] = summed(times, delays, |time, delay| [time - oldest, delay - base]);
        let (mean_x, mean_y) = (sum_x / count, sum_y / count);
        let [covariance, variance] = summed(times, delays, |time, delay| {
            let x = time - oldest - mean_x;
            [x * (delay - base - mean_y), x * x]
        });
        // Delays are in milliseconds, times in nanoseconds.
        (variance > 0.0).then(|| covariance / variance * 1e6)
    }
}

/// Sums two terms over all points, in several parts that the processor adds at the same time.
fn summed(times: &[f64], delays: &[f64], terms: impl Fn(f64, f64) -> [f64; 2]) -> [f64; 2] {
    let add = |[first, second]: &mut [f64; 2], time: f64, delay: f64| {
        let [one, other] = terms(time, delay);
        *first += one;
        *second += other;
    };
    let (times, last_times) = times.as_chunks::<4>();
    let (delays, last_delays) = delays.as_chunks::<4>();
    let mut parts = [[0.0; 2]; 4];
    for (times, delays) in times.iter().zip(delays) {
        for ((part, &time), &delay) in parts.iter_mut().zip(times).zip(delays) {
            add(part, time, delay);
        }
    }
    for ((part, &time), &delay) in parts.iter_mut().zip(last_times).zip(last_delays) {
        add(part, time, delay);
    }
    let sum = |one: [f64; 2], other: [f64; 2]| [one[0] + other[0], one[1] + other[1]];
    let [first, second, third, fourth] = parts;
    sum(sum(first, second), sum(third, fourth))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;
    use crate::testing::group_delta;

    fn delta(departure_us: i64, arrival_us: i64, at_us: u64) -> GroupDelta {
        let at = PeerTimestamp::from_nanos(at_us * 1_000);
        let [departure, arrival] = [departure_us, arrival_us].map(TimeDelta::from_micros);
        GroupDelta { arrived_at: at, closed_at: at, ..group_delta(departure, arrival) }
    }

    /// Three points, unsmoothed: delays 1, 3, 2 ms at 10, 20, 40 ms. By hand: means 70/3 and 2; the sum of products of the
    /// deviations is (−40/3)(−1) + (−10/3)(1) + 0 = 10, that of the squares (1600 + 100 + 2500)/9 = 1400/3; so 3/140.
    #[test]
    fn the_slope_is_that_of_least_squares() {
        let config = TrendLineConfig { window: 3, smoothing: 0.0, gain: 2.0, amplification: None };
        let mut line = TrendLine::new(config);
        line.on_delta(&delta(10_000, 11_000, 10_000));
        let partial = line.on_delta(&delta(10_000, 12_000, 20_000));
        assert_eq!(partial, FilterOutput { raw: 0.0, trend_ms: 0.0, samples: 2 });
        let full = line.on_delta(&delta(10_000, 9_000, 40_000));
        assert!((full.raw - 3.0 / 140.0).abs() < 1e-15, "{full:?}");
        assert!((full.trend_ms - 6.0 / 140.0).abs() < 1e-15, "{full:?}");
        // The oldest point leaves: delays 3, 2, 6 ms at 20, 40, 50 ms. Means 110/3 and 11/3; products 100/9 −
        // 50/9 + 280/9 = 330/9, squares (2500 + 100 + 1600)/9 = 4200/9.
        let next = line.on_delta(&delta(6_000, 10_000, 50_000));
        assert!((next.raw - 330.0 / 4200.0).abs() < 1e-14, "{next:?}");
    }

    /// Smoothed by 0.9, a ramp of 1 ms per 10 ms is accumulated as 1, 2, 3 and smoothed to 0.1, 0.29, 0.561.
    #[test]
    fn delays_are_smoothed_before_the_fit() {
        let config =
            TrendLineConfig { window: 2, gain: 1.0, amplification: Some(2), ..TrendLineConfig::default() };
        let mut line = TrendLine::new(config);
        line.on_delta(&delta(10_000, 11_000, 11_000));
        let second = line.on_delta(&delta(10_000, 11_000, 21_000));
        let third = line.on_delta(&delta(10_000, 11_000, 31_000));
        assert!((second.raw - 0.019).abs() < 1e-12, "{second:?}");
        assert!((third.raw - 0.0271).abs() < 1e-12, "{third:?}");
        assert!((third.trend_ms - 2.0 * 0.0271).abs() < 1e-12, "amplified by 2 at most: {third:?}");
    }

    #[test]
    fn on_a_long_ramp_the_slope_is_the_overload() {
        let mut line = TrendLine::new(TrendLineConfig::default());
        let mut output = FilterOutput::default();
        for group in 1..=300 {
            output = line.on_delta(&delta(20_000, 22_000, 22_000 * group));
        }
        // 2 ms of delay for each 22 ms of arrivals.
        assert!((output.raw - 2.0 / 22.0).abs() < 1e-6, "{output:?}");
        assert!((output.trend_ms - 240.0 * 2.0 / 22.0).abs() < 1e-3, "{output:?}");
        assert_eq!(output.samples, 300);
    }

    #[test]
    fn groups_that_arrive_at_one_moment_keep_the_slope_that_was() {
        let config = TrendLineConfig { window: 2, ..TrendLineConfig::default() };
        let mut line = TrendLine::new(config);
        line.on_delta(&delta(10_000, 11_000, 333_333_333));
        let sloped = line.on_delta(&delta(10_000, 11_000, 333_344_333)).raw;
        assert!(sloped > 0.0);
        assert_eq!(line.on_delta(&delta(10_000, 0, 333_344_333)).raw, sloped);
    }
}
