//! Estimate of the path's capacity, as in libwebrtc.

use giusto_units::{DataRate, math};

giusto_units::defaults! {
    /// Configuration of the estimate of the path's capacity. The defaults are libwebrtc's (`goog_cc/link_capacity_estimator.cc`).
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct CapacityConfig {
        /// Weight of the received rate at over-use, 0 to 1. Default 0.05.
        pub over_use_weight: f64 = 0.05,
        /// Minimum of variance over mean, in kbit/s. Default 0.4: a deviation of 14 kbit/s at 500 kbit/s. Also
        /// the initial value.
        pub min_variance: f64 = 0.4,
        /// Maximum of variance over mean, in kbit/s. Default 2.5: a deviation of 35 kbit/s at 500 kbit/s.
        pub max_variance: f64 = 2.5,
        /// Distance from the mean that counts as near, in deviations. Default 3.
        pub deviations: f64 = 3.0,
    }
}

/// Moving mean of the received rate at over-use, and the variance of these samples.
///
/// The variance is divided by the mean, so that the deviation grows with the square root of the rate. The
/// error of a sample is its distance from the mean *after* the sample, as in libwebrtc.
#[derive(Debug, Clone)]
pub(super) struct Capacity {
    config: CapacityConfig,
    mean_kbps: Option<f64>,
    /// Variance over mean, in kbit/s. A [`reset`](Self::reset) does not change it.
    variance: f64,
}

impl Capacity {
    /// An estimator without samples.
    pub(super) fn new(config: CapacityConfig) -> Self {
        Self { config, mean_kbps: None, variance: config.min_variance }
    }

    /// Adds the received rate at over-use.
    pub(super) fn on_over_use(&mut self, acknowledged: DataRate) {
        self.add(acknowledged, self.config.over_use_weight);
    }

    /// Discards the mean: the received rate is too far from it.
    pub(super) fn reset(&mut self) {
        self.mean_kbps = None;
    }

    /// The mean, if there is one.
    pub(super) fn estimate(&self) -> Option<DataRate> {
        self.mean_kbps.map(from_kbps)
    }

    /// Rate below which a sample belongs to a different path; `None` if there is no mean.
    pub(super) fn lower(&self) -> Option<DataRate> {
        self.mean_kbps.map(|mean| from_kbps(mean - self.width(mean)))
    }

    /// Rate above which a sample belongs to a different path; `None` if there is no mean.
    pub(super) fn upper(&self) -> Option<DataRate> {
        self.mean_kbps.map(|mean| from_kbps(mean + self.width(mean)))
    }

    fn width(&self, mean_kbps: f64) -> f64 {
        self.config.deviations * math::sqrt(self.variance * mean_kbps)
    }

    fn add(&mut self, sample: DataRate, weight: f64) {
        let sample = sample.as_bps() as f64 / 1e3;
        let mean = self.mean_kbps.map_or(sample, |mean| (1.0 - weight) * mean + weight * sample);
        self.mean_kbps = Some(mean);
        let error = mean - sample;
        let variance = (1.0 - weight) * self.variance + weight * error * error / mean.max(1.0);
        self.variance = variance.min(self.config.max_variance).max(self.config.min_variance);
    }
}

fn from_kbps(kbps: f64) -> DataRate {
    DataRate::from_bps(math::round(kbps * 1e3) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::kbps;
    use proptest::prelude::*;

    #[test]
    fn one_sample_is_the_mean_with_the_minimum_deviation() {
        let mut capacity = Capacity::new(CapacityConfig::default());
        assert_eq!((capacity.lower(), capacity.estimate(), capacity.upper()), (None, None, None));
        capacity.on_over_use(kbps(500));
        // By hand: sqrt(0.4 · 500) = 14.142 kbit/s, the 14 kbit/s of the source's comment; three of them are 42.426.
        assert_eq!(capacity.estimate(), Some(kbps(500)));
        assert_eq!(capacity.lower(), Some(DataRate::from_bps(457_574)));
        assert_eq!(capacity.upper(), Some(DataRate::from_bps(542_426)));
    }

    #[test]
    fn a_sample_weighs_5_percent() {
        let mut capacity = Capacity::new(CapacityConfig::default());
        capacity.on_over_use(kbps(500));
        capacity.on_over_use(kbps(460));
        // By hand: mean 0.95·500 + 0.05·460 = 498; variance 0.38 + 0.05·38²/498 = 0.524980; 3·sqrt(0.524980·498) = 48.507.
        assert_eq!(capacity.estimate(), Some(kbps(498)));
        assert_eq!(capacity.upper(), Some(DataRate::from_bps(546_507)));
    }

    #[test]
    fn an_outlier_gives_the_maximum_deviation_even_after_a_reset() {
        let mut capacity = Capacity::new(CapacityConfig::default());
        capacity.on_over_use(kbps(500));
        capacity.on_over_use(kbps(5000));
        capacity.reset();
        assert_eq!(capacity.estimate(), None);
        capacity.on_over_use(kbps(500));
        // The outlier set it to 2.5, then 0.95·2.5 = 2.375 with no error: 3·sqrt(2.375·500) = 103.380.
        assert_eq!(capacity.upper(), Some(DataRate::from_bps(603_380)));
    }

    proptest! {
        #[test]
        fn the_mean_is_between_its_bounds(samples in prop::collection::vec(0u64..10_000_000_000, 1..50)) {
            let mut capacity = Capacity::new(CapacityConfig::default());
            let (min, max) = (*samples.iter().min().unwrap(), *samples.iter().max().unwrap());
            for sample in samples {
                capacity.on_over_use(DataRate::from_bps(sample));
            }
            let mean = capacity.estimate().unwrap();
            prop_assert!(capacity.lower().unwrap() <= mean && mean <= capacity.upper().unwrap());
            prop_assert!((min.saturating_sub(1)..=max + 1).contains(&mean.as_bps()));
        }
    }
}
