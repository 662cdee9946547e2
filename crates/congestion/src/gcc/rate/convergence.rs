//! Estimate of the path's capacity, as in the draft.

use giusto_units::{DataRate, math};

giusto_units::defaults! {
    /// When the rate is near the one at which the path was full. The defaults are those of draft-ietf-rmcat-gcc-02 §5.5.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct ConvergenceConfig {
        /// Weight of the old mean at a new sample, 0 to 1. Default 0.95 (§5.5: "smoothing factor").
        pub smoothing: f64 = 0.95,
        /// Distance from the mean that counts as near, in deviations. Default 3 (§5.5).
        pub deviations: f64 = 3.0,
        /// Number of samples from which the statistics are valid. Default 2: the draft requires "valid estimates"
        /// without a definition; one sample has no deviation.
        pub samples: u32 = 2,
    }
}

/// Exponential mean and deviation of the received rate during decreases (draft-ietf-rmcat-gcc-02 §5.5).
///
/// The draft gives the smoothing factor but no recursion. Here, with `d` the sample minus the mean and `a`
/// the smoothing factor:
///
/// ```text
/// mean     ← mean + (1 − a)·d
/// variance ← a·(variance + (1 − a)·d²)
/// ```
#[derive(Debug, Clone)]
pub(super) struct Convergence {
    config: ConvergenceConfig,
    samples: u32,
    mean_bps: f64,
    variance: f64,
}

impl Convergence {
    /// An estimator without samples.
    pub(super) fn new(config: ConvergenceConfig) -> Self {
        Self { config, samples: 0, mean_bps: 0.0, variance: 0.0 }
    }

    /// Adds the received rate at a decrease.
    pub(super) fn on_decrease(&mut self, received: DataRate) {
        let sample = received.as_bps() as f64;
        if self.samples == 0 {
            self.mean_bps = sample;
        }
        let error = sample - self.mean_bps;
        let weight = 1.0 - self.config.smoothing;
        self.mean_bps += weight * error;
        self.variance = self.config.smoothing * (self.variance + weight * error * error);
        self.samples = self.samples.saturating_add(1);
    }

    /// Whether `received` is near the mean. A rate above that range resets the statistics.
    pub(super) fn is_near(&mut self, received: DataRate) -> bool {
        if self.samples < self.config.samples {
            return false;
        }
        let distance = received.as_bps() as f64 - self.mean_bps;
        let width = self.config.deviations * math::sqrt(self.variance);
        if distance > width {
            *self = Self::new(self.config);
        }
        distance.abs() <= width
    }

    /// The mean, once the statistics are valid.
    #[cfg(test)]
    pub(super) fn mean(&self) -> Option<DataRate> {
        (self.samples >= self.config.samples).then(|| DataRate::from_bps(math::round(self.mean_bps) as u64))
    }

    /// The deviation in bit/s, once the statistics are valid.
    #[cfg(test)]
    pub(super) fn deviation_bps(&self) -> Option<f64> {
        (self.samples >= self.config.samples).then(|| math::sqrt(self.variance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: &[u64]) -> Convergence {
        let mut convergence = Convergence::new(ConvergenceConfig::default());
        for &bps in samples {
            convergence.on_decrease(DataRate::from_bps(bps));
        }
        convergence
    }

    #[test]
    fn two_samples_are_enough_and_one_is_not() {
        assert!(!after(&[1_000_000]).is_near(DataRate::from_bps(1_000_000)));
        assert!(after(&[1_000_000, 900_000]).is_near(DataRate::from_bps(1_000_000)));
    }

    #[test]
    fn near_is_three_deviations_to_either_side() {
        // By hand: mean 1 000 000 − 0.05·100 000 = 995 000; variance 0.95·0.05·10¹⁰; deviation 21 794.5; three are 65 383.5.
        let convergence = after(&[1_000_000, 900_000]);
        assert_eq!(convergence.mean(), Some(DataRate::from_bps(995_000)));
        assert!((convergence.deviation_bps().unwrap() - 21_794.494_7).abs() < 1e-3);
        for (received, near) in [(929_616, false), (929_617, true), (1_060_383, true), (1_060_384, false)] {
            assert_eq!(convergence.clone().is_near(DataRate::from_bps(received)), near, "{received}");
        }
    }

    #[test]
    fn a_sample_above_the_range_resets_the_statistics() {
        let mut convergence = after(&[1_000_000, 900_000]);
        assert!(!convergence.is_near(DataRate::from_bps(500_000)));
        assert!(convergence.is_near(DataRate::from_bps(995_000)));
        assert!(!convergence.is_near(DataRate::from_bps(2_000_000)));
        assert_eq!(convergence.mean(), None);
        assert!(!convergence.is_near(DataRate::from_bps(995_000)));
    }
}
