//! Trend of the queueing delay (RFC 8298 §4.1.2, `update_variables`).

use alloc::collections::VecDeque;

/// Number of samples in `qdelay_fraction_hist`.
const HISTORY: usize = 20;
/// Maximum share, so that squares do not overflow.
const LARGEST: f64 = 1e6;
/// Decay of the peak per sample.
const FADING: f64 = 0.99;

/// A measure of incipient congestion, 0 to 1: the autocorrelation at lag 1 of the latest samples of the
/// queueing delay, times the moving average of the delay as a share of its target.
#[derive(Debug, Clone)]
pub(super) struct Trend {
    weight: f64,
    mean: f64,
    samples: VecDeque<f64>,
    latest: f64,
    peak: f64,
}

impl Trend {
    /// A trend without samples. `weight` is the weight of a sample in the mean.
    pub(super) fn new(weight: f64) -> Self {
        Self { weight, mean: 0.0, samples: VecDeque::from([0.0; HISTORY]), latest: 0.0, peak: 0.0 }
    }

    /// Adds the queueing delay as a share of its target.
    pub(super) fn on_sample(&mut self, fraction: f64) {
        let fraction = fraction.clamp(0.0, LARGEST);
        self.mean += self.weight * (fraction - self.mean);
        self.samples.pop_front();
        self.samples.push_back(fraction);
        let mean = self.samples.iter().sum::<f64>() / HISTORY as f64;
        let from_mean = self.samples.iter().map(|sample| sample - mean);
        let following = from_mean.clone().skip(1);
        let power: f64 = from_mean.clone().map(|sample| sample * sample).sum();
        let lagged: f64 = from_mean.zip(following).map(|(one, next)| one * next).sum();
        // At a constant delay the text divides zero by zero: there is no trend.
        let likeness = if power > f64::EPSILON { lagged / power } else { 0.0 };
        self.latest = (likeness * self.mean).clamp(0.0, 1.0);
        self.peak = (FADING * self.peak).max(self.latest);
    }

    /// `qdelay_trend`.
    pub(super) fn trend(&self) -> f64 {
        self.latest
    }

    /// `qdelay_trend_mem`: the decaying maximum of the trend.
    pub(super) fn peak(&self) -> f64 {
        self.peak
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn after(samples: impl IntoIterator<Item = f64>) -> Trend {
        let mut trend = Trend::new(0.1);
        for sample in samples {
            trend.on_sample(sample);
        }
        trend
    }

    #[test]
    fn a_constant_delay_has_no_trend() {
        assert_eq!(after([3.0; 100]).trend(), 0.0);
        assert_eq!(after([0.0; 100]).trend(), 0.0);
    }

    #[test]
    fn the_autocorrelation_of_a_ramp_is_that_of_theory() {
        // About its mean, a ramp of 20 steps is −9.5 … 9.5, whose squares sum up to N (N² − 1) / 12 = 665.
        let d: Vec<f64> = (0..20).map(|n| f64::from(n) - 9.5).collect();
        let expected: f64 = d.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / 665.0;
        let mut trend = after((0..20).map(|n| f64::from(n) / 100.0));
        let mean = (0..20).fold(0.0, |mean, n| 0.9 * mean + 0.1 * f64::from(n) / 100.0);
        assert!((trend.trend() - expected * mean).abs() < 1e-12, "{}", trend.trend());
        // An alternating delay is negatively correlated: that is no trend.
        for n in 0..40 {
            trend.on_sample(f64::from(n % 2));
        }
        assert_eq!(trend.trend(), 0.0);
    }

    #[test]
    fn a_peak_decays_by_1_percent() {
        let mut trend = after((0..20).map(|n| f64::from(n) / 10.0));
        let peak = trend.peak();
        assert!(peak >= 0.2 && peak == trend.trend(), "{peak}");
        for _ in 0..100 {
            trend.on_sample(0.0);
        }
        assert!(trend.trend() < 0.01);
        assert!((trend.peak() / peak - 0.99_f64.powi(100)).abs() < 0.2, "{}", trend.peak());
    }

    #[test]
    fn it_stays_within_its_range() {
        for sample in [f64::MAX, 1e300, 9e9, 0.0] {
            let trend = after([0.0, sample, sample, 0.0, sample]);
            assert!((0.0..=1.0).contains(&trend.trend()), "{}", trend.trend());
        }
    }
}
