//! The estimates of Ramjee et al. (INFOCOM 1994) §3 that an adaptive playout delay follows.

use giusto_units::TimeDelta;

/// The weight of the past in algorithm 1: 0.998002, as the paper has it.
const MEAN_WEIGHT: f64 = 0.998_002;
/// The weight of the past in algorithm 4, outside of spikes.
const SPIKE_WEIGHT: f64 = 0.875;
/// A delay that grows by more than this and twice the variation begins a spike: 800 samples of 8 kHz.
const SPIKE_RISE_NANOS: f64 = 100e6;
/// A spike ends where its slope falls to this: 63 samples of 8 kHz.
const SPIKE_END_NANOS: f64 = 7.875e6;

/// How the delay of packets is followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AdaptiveAlgorithm {
    /// Algorithm 1: an exponentially weighted mean over some 500 packets.
    Mean,
    /// Algorithm 4: one over some 8 packets, which jumps with a spike of delay and comes back with it.
    #[default]
    Spike,
}

/// An adaptive playout delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveConfig {
    /// How delays are followed. Default: algorithm 4, the best of the paper's four in its traces.
    pub algorithm: AdaptiveAlgorithm,
    /// How many variations above the mean packets are played. Default: 4, as in the paper.
    pub variations: f64,
    /// How long the first packet waits, and the variation that it stands for. Default: 40 ms, ours; the paper does not say how
    /// to begin.
    pub initial_delay: TimeDelta,
    /// The least delay above that of the fastest packet so far. Default: 20 ms, ours, a packet of the usual length: without it
    /// the algorithms follow a calm network so closely that each ripple makes packets late. The paper has none.
    pub least_delay: TimeDelta,
    /// After how much media time the delay may change. Default: 1 s, ours: the mean talkspurt of ITU-T P.59 is 1.004 s. The
    /// paper changes it in pauses, and our streams have none.
    pub talkspurt: TimeDelta,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self {
            algorithm: AdaptiveAlgorithm::Spike,
            variations: 4.0,
            initial_delay: TimeDelta::from_millis(40),
            least_delay: TimeDelta::from_millis(20),
            talkspurt: TimeDelta::from_seconds(1),
        }
    }
}

/// Mean and variation of the delay, in nanoseconds from the first packet's.
///
/// | field | symbol |
/// |---|---|
/// | `mean` | d̂ |
/// | `variation` | v̂ |
/// | `last`, `last_but_one` | n of the packets before |
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
    /// After the first packet.
    pub(super) fn new(config: &AdaptiveConfig) -> Self {
        let variation = config.initial_delay.as_nanos() as f64 / config.variations.max(1.0);
        Self { variation, ..Self::default() }
    }

    /// Another packet had `delay`.
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
                // This packet ends the spike and moves no estimate.
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

    /// The delay at which a talkspurt that begins now is played.
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
    fn a_constant_delay_is_learned_and_its_variation_dies_away() {
        for (algorithm, packets) in [(AdaptiveAlgorithm::Mean, 10_000), (AdaptiveAlgorithm::Spike, 200)] {
            let playout = follow(algorithm, std::iter::repeat_n(30, packets)).playout(4.0).as_millis();
            assert!((30.0..30.1).contains(&playout), "{algorithm:?}: {playout}");
        }
    }

    #[test]
    fn algorithm_one_is_the_weighted_mean_of_the_paper() {
        let estimate = follow(AdaptiveAlgorithm::Mean, [100]);
        let mean = 0.001_998 * 100e6;
        assert!((estimate.mean - mean).abs() < 1.0);
        assert!((estimate.variation - (0.998_002 * 10e6 + 0.001_998 * (100e6 - mean))).abs() < 1.0);
    }

    #[test]
    fn algorithm_four_follows_a_spike_and_comes_back() {
        let calm = std::iter::repeat_n(0, 100);
        // A jump of 200 ms, above the 100 ms that begin a spike, falling off over 20 packets of 10 ms.
        let spike = (0..20).map(|n| 200 - 10 * n);
        let within = follow(AdaptiveAlgorithm::Spike, calm.clone().chain([200]));
        assert!(within.spike.is_some());
        assert!((within.mean - 200e6).abs() < 1e6, "the mean jumps with the delay: {}", within.mean);
        let behind = follow(AdaptiveAlgorithm::Spike, calm.clone().chain(spike.clone()).chain([0; 50]));
        assert!(behind.spike.is_none());
        assert!(behind.playout(4.0) < TimeDelta::from_millis(5));
        // The mean alone knows no spikes.
        let slow = follow(AdaptiveAlgorithm::Mean, calm.chain(spike));
        assert!(slow.spike.is_none() && slow.mean < 5e6);
    }

    #[test]
    fn a_smaller_jump_is_no_spike() {
        let estimate = follow(AdaptiveAlgorithm::Spike, std::iter::repeat_n(0, 100).chain([99]));
        assert!(estimate.spike.is_none());
        assert!((estimate.mean - 99e6 / 8.0).abs() < 1e6);
    }
}
