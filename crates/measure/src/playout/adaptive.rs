//! Delay estimates of Ramjee et al. (INFOCOM 1994) §3 for the adaptive playout delay.

use giusto_units::TimeDelta;

/// Weight of the past in algorithm 1: 0.998002, as in the paper.
const MEAN_WEIGHT: f64 = 0.998_002;
/// The weight of the past in algorithm 4, outside of spikes.
const SPIKE_WEIGHT: f64 = 0.875;
/// An increase of the delay by more than this plus twice the variation starts a spike: 800 samples at 8 kHz.
const SPIKE_RISE_NANOS: f64 = 100e6;
/// A spike ends when its slope falls to this: 63 samples at 8 kHz.
const SPIKE_END_NANOS: f64 = 7.875e6;

/// Algorithm that estimates the delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum AdaptiveAlgorithm {
    /// Algorithm 1: an exponentially weighted mean over about 500 packets.
    Mean,
    /// Algorithm 4: a mean over about 8 packets, which follows a delay spike up and down.
    #[default]
    Spike,
}

giusto_units::defaults! {
    /// An adaptive playout delay.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct AdaptiveConfig {
        /// Algorithm that estimates the delay. Default: algorithm 4, the best of the four with the paper's
        /// traces.
        pub algorithm: AdaptiveAlgorithm = AdaptiveAlgorithm::Spike,
        /// Playout delay above the mean, in variations. Default: 4, as in the paper.
        pub variations: f64 = 4.0,
        /// Playout delay of the first packet, and the variation that corresponds to it. Default: 40 ms, chosen by
        /// us; the paper does not specify the start.
        pub initial_delay: TimeDelta = TimeDelta::from_millis(40),
        /// Minimum delay above that of the fastest packet so far. Default: 20 ms, chosen by us, a packet of the
        /// usual duration. Without it the algorithms follow a steady network so closely that each small variation
        /// makes packets late. The paper has none.
        pub min_delay: TimeDelta = TimeDelta::from_millis(20),
        /// Media time after which the delay may change. Default: 1 s, chosen by us: the mean talkspurt of ITU-T
        /// P.59 is 1.004 s. The paper changes the delay in pauses; our streams have none.
        pub talkspurt: TimeDelta = TimeDelta::from_seconds(1),
    }
}

giusto_units::setters!(AdaptiveConfig {
    /// The same, with this algorithm.
    with_algorithm(algorithm: AdaptiveAlgorithm);
    /// The same, with this delay in variations.
    with_variations(variations: f64);
    /// The same, with this delay of the first packet.
    with_initial_delay(initial_delay: TimeDelta);
    /// The same, with this minimum delay.
    with_min_delay(min_delay: TimeDelta);
    /// The same, with this time between changes.
    with_talkspurt(talkspurt: TimeDelta);
});

/// Mean and variation of the delay, in nanoseconds relative to the first packet's.
///
/// | field | symbol |
/// |---|---|
/// | `mean` | d̂ |
/// | `variation` | v̂ |
/// | `last`, `last_but_one` | n of the previous packets |
/// | `spike` | the mode, with `var` |
#[derive(Debug, Clone, Default)]
pub(super) struct DelayEstimate {
    mean: f64,
    variation: f64,
    last: f64,
    last_but_one: f64,
    spike: Option<f64>,
}

impl DelayEstimate {
    /// The estimate after the first packet.
    pub(super) fn new(config: &AdaptiveConfig) -> Self {
        let variation = config.initial_delay.as_nanos() as f64 / config.variations.max(1.0);
        Self { variation, ..Self::default() }
    }

    /// Adds the `delay` of another packet.
    pub(super) fn on_delay(&mut self, algorithm: AdaptiveAlgorithm, delay: TimeDelta) {
        let delay = delay.as_nanos() as f64;
        match algorithm {
            AdaptiveAlgorithm::Mean => {
                self.mean = MEAN_WEIGHT * self.mean + (1.0 - MEAN_WEIGHT) * delay;
                self.vary(MEAN_WEIGHT, delay);
            }
            AdaptiveAlgorithm::Spike => self.follow_spikes(delay),
        }
        self.last_but_one = self.last;
        self.last = delay;
    }

    fn follow_spikes(&mut self, delay: f64) {
        if let Some(slope) = self.spike {
            let slope = slope / 2.0 + ((2.0 * delay - self.last - self.last_but_one) / 8.0).abs();
            self.spike = Some(slope);
            if slope <= SPIKE_END_NANOS {
                self.spike = None;
                // This packet ends the spike and does not change the estimate.
                return;
            }
        } else if (delay - self.last).abs() > 2.0 * self.variation.abs() + SPIKE_RISE_NANOS {
            self.spike = Some(0.0);
        }
        self.mean = if self.spike.is_some() {
            self.mean + delay - self.last
        } else {
            SPIKE_WEIGHT * self.mean + (1.0 - SPIKE_WEIGHT) * delay
        };
        self.vary(SPIKE_WEIGHT, delay);
    }

    fn vary(&mut self, weight: f64, delay: f64) {
        self.variation = weight * self.variation + (1.0 - weight) * (self.mean - delay).abs();
    }

    /// The delay at which a talkspurt that starts now is played.
    pub(super) fn playout(&self, variations: f64) -> TimeDelta {
        // Conversion saturates.
        TimeDelta::from_nanos((self.mean + variations * self.variation).round() as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(algorithm: AdaptiveAlgorithm, delays_ms: impl IntoIterator<Item = i64>) -> DelayEstimate {
        let mut estimate = DelayEstimate::new(&AdaptiveConfig::default());
        for delay in delays_ms {
            estimate.on_delay(algorithm, TimeDelta::from_millis(delay));
        }
        estimate
    }

    #[test]
    fn a_constant_delay_is_learned_and_its_variation_decays() {
        for (algorithm, packets) in [(AdaptiveAlgorithm::Mean, 10_000), (AdaptiveAlgorithm::Spike, 200)] {
            let playout = follow(algorithm, std::iter::repeat_n(30, packets)).playout(4.0).as_millis();
            assert!((30.0..30.1).contains(&playout), "{algorithm:?}: {playout}");
        }
    }

    #[test]
    fn algorithm_1_is_the_weighted_mean_of_the_paper() {
        let estimate = follow(AdaptiveAlgorithm::Mean, [100]);
        let mean = 0.001_998 * 100e6;
        assert!((estimate.mean - mean).abs() < 1.0);
        assert!((estimate.variation - (0.998_002 * 10e6 + 0.001_998 * (100e6 - mean))).abs() < 1.0);
    }

    #[test]
    fn algorithm_4_follows_a_spike_up_and_down() {
        let calm = std::iter::repeat_n(0, 100);
        // A jump of 200 ms, above the 100 ms that start a spike, decreasing over 20 packets of 10 ms.
        let spike = (0..20).map(|n| 200 - 10 * n);
        let within = follow(AdaptiveAlgorithm::Spike, calm.clone().chain([200]));
        assert!(within.spike.is_some());
        assert!((within.mean - 200e6).abs() < 1e6, "the mean jumps with the delay: {}", within.mean);
        let behind = follow(AdaptiveAlgorithm::Spike, calm.clone().chain(spike.clone()).chain([0; 50]));
        assert!(behind.spike.is_none());
        assert!(behind.playout(4.0) < TimeDelta::from_millis(5));
        // The mean alone does not detect spikes.
        let slow = follow(AdaptiveAlgorithm::Mean, calm.chain(spike));
        assert!(slow.spike.is_none() && slow.mean < 5e6);
    }

    #[test]
    fn a_spike_starts_above_its_bound_and_ends_at_the_other() {
        let config = AdaptiveConfig { initial_delay: TimeDelta::ZERO, ..AdaptiveConfig::default() };
        let in_spike = |delays: &[i64]| {
            let mut estimate = DelayEstimate::new(&config);
            for delay in delays {
                estimate.on_delay(AdaptiveAlgorithm::Spike, TimeDelta::from_nanos(*delay));
            }
            estimate.spike.is_some()
        };
        assert_eq!([100_000_000, 100_000_001].map(|rise| in_spike(&[rise])), [false, true]);
        let smaller = follow(AdaptiveAlgorithm::Spike, std::iter::repeat_n(0, 100).chain([99]));
        assert!(smaller.spike.is_none() && (smaller.mean - 99e6 / 8.0).abs() < 1e6);
        // The slope is an eighth of 63 ms: twice the second delay less the first.
        assert_eq!([82_000_000, 82_000_001].map(|then| in_spike(&[101_000_000, then])), [false, true]);
    }
}
