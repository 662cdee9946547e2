//! Objective function: how well a candidate path explains the observations.
//!
//! The path loses a share of all packets at any rate, its *inherent loss*, and everything beyond its
//! *bandwidth*. With the send rate `s`, the inherent loss `i` and the bandwidth `b`, a packet is lost with
//! the probability
//!
//! ```text
//! p = i                      where s ≤ b
//! p = i + (1 - i)(s - b)/s   where s > b
//! ```
//!
//! limited to 10⁻⁶ to 1 - 10⁻⁶. The lost (`l`) and received (`r`) data of an observation then have the
//! log-likelihood `l ln p + r ln (1 - p)`. The objective is the sum of these over all observations, weighted
//! by age, plus a bias for higher bandwidth.

use giusto_units::{DataRate, math};

use super::{config::ModelConfig, observations::Observations};

/// Assumed properties of the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Path {
    /// Share that it loses at any rate, 0 to 1.
    pub(super) inherent_loss: f64,
    /// Rate beyond which it loses everything.
    pub(super) bandwidth: DataRate,
}

impl Path {
    /// Probability that a packet is lost at this send rate.
    fn loss_probability(self, send_rate: DataRate) -> f64 {
        let inherent = self.inherent_loss.clamp(0.0, 1.0);
        let beyond = send_rate.as_bps().saturating_sub(self.bandwidth.as_bps());
        let share = if beyond > 0 { beyond as f64 / send_rate.as_bps() as f64 } else { 0.0 };
        (inherent + (1.0 - inherent) * share).clamp(NEVER, 1.0 - NEVER)
    }
}

/// Minimum probability of both loss and arrival. libwebrtc (`GetLossProbability`): 10⁻⁶.
const NEVER: f64 = 1e-6;

/// The derivatives of the log-likelihood with respect to the loss *probability*.
///
/// If the send rate is below the bandwidth, this is the inherent loss. Above it, the derivative with respect
/// to the inherent loss would be smaller by `b/s` (and the second one by its square). libwebrtc ignores that
/// factor, and so do we.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Derivatives {
    first: f64,
    second: f64,
}

/// The objective over given observations.
#[derive(Debug, Clone, Copy)]
pub(super) struct Objective<'a> {
    pub(super) config: &'a ModelConfig,
    pub(super) observations: &'a Observations,
}

impl Objective<'_> {
    /// The objective. A higher value means that `path` explains the observations better.
    pub(super) fn value(&self, path: Path) -> f64 {
        let bias = self.bias(path.bandwidth);
        let mut sum = 0.0;
        // Below the bandwidth the loss probability is constant: its logarithms are computed once.
        let (mut known, mut logarithms) = (None, (0.0, 0.0));
        for (weight, observation) in self.observations.weighted() {
            let counts = observation.counts;
            let probability = path.loss_probability(observation.send_rate);
            if known != Some(probability.to_bits()) {
                known = Some(probability.to_bits());
                logarithms = (math::ln(probability), math::ln(1.0 - probability));
            }
            sum += weight * (counts.lost * logarithms.0 + counts.received * logarithms.1);
            sum += weight * bias * counts.all;
        }
        sum
    }

    /// `path` with a better inherent loss, after some Newton steps towards the maximum.
    pub(super) fn refined(&self, mut path: Path) -> Path {
        if self.observations.made() == 0 {
            return path;
        }
        for _ in 0..self.config.newton_steps {
            let slope = self.derivatives(path);
            path.inherent_loss -= self.config.newton_step_size * slope.first / slope.second;
            path = self.feasible(path);
        }
        path
    }

    /// `path` with its inherent loss within the bounds. The upper bound falls as the bandwidth grows: at high
    /// bandwidth, losses are not attributed to the path.
    pub(super) fn feasible(&self, path: Path) -> Path {
        let config = self.config;
        let max = if path.bandwidth == DataRate::ZERO {
            1.0
        } else {
            let balance = config.inherent_loss_balance.as_bps() as f64 / path.bandwidth.as_bps() as f64;
            (config.inherent_loss_offset + balance).min(1.0)
        };
        Path { inherent_loss: path.inherent_loss.max(config.inherent_loss_min).min(max), ..path }
    }

    fn derivatives(&self, path: Path) -> Derivatives {
        let mut slope = Derivatives { first: 0.0, second: 0.0 };
        for (weight, observation) in self.observations.weighted() {
            let counts = observation.counts;
            let lost = path.loss_probability(observation.send_rate);
            let received = 1.0 - lost;
            slope.first += weight * (counts.lost / lost - counts.received / received);
            slope.second -= weight * (counts.lost / (lost * lost) + counts.received / (received * received));
        }
        // Only if nothing was sent at all.
        if slope.second >= 0.0 {
            slope.second = -NEVER;
        }
        slope
    }

    /// Bias of `bandwidth` per unit of data: positive at low loss, negative at high loss.
    fn bias(&self, bandwidth: DataRate) -> f64 {
        let kbps = (bandwidth.as_bps().saturating_add(500) / 1000) as f64;
        let distance = self.config.preference_threshold - self.observations.average_loss();
        let liking = distance / (self.config.preference_smoothing + distance.abs());
        liking * (self.config.bias * kbps + self.config.log_bias * math::ln(1.0 + kbps))
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "what is compared is computed in the same way or exact")]
mod tests {
    use giusto_units::{TimeDelta, Timestamp};
    use proptest::prelude::*;

    use super::*;
    use crate::gcc::loss::model::{Measure, tests::packet};

    /// Observations of 250 ms: number of packets of 1000 bytes, and how many of them are lost.
    fn observed(config: &ModelConfig, seen: &[(u64, u64)]) -> Observations {
        let mut observations = Observations::new(config);
        let first = packet(0, Timestamp::ZERO, 0, true);
        assert!(!observations.take(config, &[first]));
        for (i, &(packets, lost)) in seen.iter().enumerate() {
            let at = Timestamp::ZERO + TimeDelta::from_millis(250) * (i as i64 + 1);
            let reports: Vec<_> =
                (0..packets).map(|j| packet(1000 * (i as u64 + 1) + j, at, 1000, j >= lost)).collect();
            assert!(observations.take(config, &reports));
        }
        observations
    }

    fn path(inherent_loss: f64, kbps: u64) -> Path {
        Path { inherent_loss, bandwidth: DataRate::from_bps(kbps * 1000) }
    }

    #[test]
    fn the_loss_is_inherent_below_the_bandwidth_and_total_beyond_it() {
        let rate = |kbps: u64| DataRate::from_bps(kbps * 1000);
        assert_eq!(path(0.1, 500).loss_probability(rate(500)), 0.1);
        // Half of the packets exceed the bandwidth: 0.1 + 0.9 × 0.5.
        assert!((path(0.1, 500).loss_probability(rate(1000)) - 0.55).abs() < 1e-12);
        assert_eq!(path(0.0, 500).loss_probability(rate(100)), 1e-6);
        assert_eq!(path(1.0, 0).loss_probability(rate(100)), 1.0 - 1e-6);
        assert_eq!(path(f64::INFINITY, 0).loss_probability(DataRate::ZERO), 1.0 - 1e-6);
    }

    #[test]
    fn the_objective_matches_a_manual_calculation() {
        // Two of 20 packets lost, then none of 10, at 640 and 320 kbit/s, with an assumed 5 % at 1000 kbit/s.
        let config = ModelConfig { bias: 0.0, log_bias: 0.0, ..ModelConfig::default() };
        let observations = observed(&config, &[(20, 2), (10, 0)]);
        let objective = Objective { config: &config, observations: &observations };
        let (lost, kept) = (0.05_f64.ln(), 0.95_f64.ln());
        let expected = 0.9 * (2.0 * lost + 18.0 * kept) + 10.0 * kept;
        assert!((expected - -6.736_202).abs() < 1e-6, "{expected}"); // 1.8 × -2.995732 + 26.2 × -0.051293
        assert!((objective.value(path(0.05, 1000)) - expected).abs() < 1e-9);

        // The bias by hand: the average loss is 1.8 / 28, so the preference is d / (0.002 + d) with d = 0.2 -
        // 1.8/28.
        let config = ModelConfig::default();
        let objective = Objective { config: &config, observations: &observations };
        let distance = 0.2 - 1.8 / 28.0;
        let bias = distance / (0.002 + distance) * (0.0002 * 1000.0 + 0.02 * 1001_f64.ln());
        assert!((objective.value(path(0.05, 1000)) - expected - 28.0 * bias).abs() < 1e-9);
    }

    #[test]
    fn the_bias_changes_sign_at_20_percent_loss() {
        let config = ModelConfig::default();
        let bias = |lost: u64| {
            let observations = observed(&config, &[(100, lost)]);
            Objective { config: &config, observations: &observations }.bias(DataRate::from_bps(1_000_000))
        };
        assert!(bias(19) > 0.0);
        assert!(bias(20).abs() < 1e-9);
        assert!(bias(21) < 0.0);
    }

    #[test]
    fn the_inherent_loss_limit_falls_with_the_bandwidth() {
        let config = ModelConfig::default();
        let observations = Observations::new(&config);
        let objective = Objective { config: &config, observations: &observations };
        let feasible = |loss, kbps| objective.feasible(path(loss, kbps)).inherent_loss;
        assert_eq!(feasible(0.5, 1000), 0.05 + 0.1);
        assert_eq!(feasible(0.5, 10_000), 0.05 + 0.01);
        assert_eq!(feasible(0.5, 100), 0.5);
        assert_eq!(feasible(2.0, 0), 1.0);
        assert_eq!(feasible(0.0, 1000), 0.001);
    }

    #[test]
    fn newton_converges_to_the_loss_ratio() {
        // Below the bandwidth the maximum is where the inherent loss equals the loss ratio: 8 of 100.
        let config = ModelConfig { newton_steps: 60, ..ModelConfig::default() };
        let observations = observed(&config, &[(100, 8)]);
        let objective = Objective { config: &config, observations: &observations };
        let found = objective.refined(path(0.01, 4000)).inherent_loss;
        assert!((found - 0.05 - 0.025).abs() < 1e-9, "bounded by 5 % + 100/4000: {found}");
        let config = ModelConfig { inherent_loss_offset: 0.5, ..config };
        let objective = Objective { config: &config, observations: &observations };
        let found = objective.refined(path(0.01, 4000)).inherent_loss;
        assert!((found - 0.08).abs() < 1e-9, "{found}");
        // One step of 0.75 from 1 %, by hand: f' = 8/0.01 - 92/0.99, f'' = -(8/0.01² + 92/0.99²).
        let config = ModelConfig::default();
        let objective = Objective { config: &config, observations: &observations };
        let first = 8.0 / 0.01 - 92.0 / 0.99;
        let second = 8.0 / 0.0001 + 92.0 / 0.9801;
        let found = objective.refined(path(0.01, 4000)).inherent_loss;
        assert!((found - (0.01 + 0.75 * first / second)).abs() < 1e-12, "{found}");
    }

    #[test]
    fn above_the_bandwidth_the_derivative_is_by_the_probability() {
        // 640 kbit/s sent over 320 kbit/s: the true derivative is half as large.
        let config = ModelConfig { bias: 0.0, log_bias: 0.0, ..ModelConfig::default() };
        let observations = observed(&config, &[(20, 12)]);
        let objective = Objective { config: &config, observations: &observations };
        let (at, h) = (path(0.1, 320), 1e-5);
        let value = |inherent_loss| objective.value(Path { inherent_loss, ..at });
        let numeric = (value(0.1 + h) - value(0.1 - h)) / (2.0 * h);
        assert!((objective.derivatives(at).first * 0.5 - numeric).abs() < 1e-5 * numeric.abs());
    }

    proptest! {
        #[test]
        fn the_derivatives_are_those_of_the_likelihood(
            seen in prop::collection::vec((1_u64..50, 0.0..1.0_f64), 1..20),
            inherent_loss in 0.01..0.9_f64,
            packets: bool,
        ) {
            let measure = if packets { Measure::Packets } else { Measure::Bytes };
            let config = ModelConfig { bias: 0.0, log_bias: 0.0, measure, ..ModelConfig::default() };
            let seen: Vec<_> =
                seen.into_iter().map(|(packets, share)| (packets, (packets as f64 * share) as u64)).collect();
            let observations = observed(&config, &seen);
            let objective = Objective { config: &config, observations: &observations };
            // At most 50 packets of 1000 bytes in 250 ms: 1.6 Mbit/s.
            let at = path(inherent_loss, 2000);
            let value = |inherent_loss: f64| objective.value(Path { inherent_loss, ..at });
            let h = 1e-4 * inherent_loss.min(1.0 - inherent_loss);
            let first = (value(inherent_loss + h) - value(inherent_loss - h)) / (2.0 * h);
            let second = (value(inherent_loss + h) - 2.0 * value(inherent_loss) + value(inherent_loss - h)) / (h * h);
            let slope = objective.derivatives(at);
            prop_assert!((slope.first - first).abs() < 1e-4 * (first.abs() + slope.second.abs() * inherent_loss));
            prop_assert!((slope.second - second).abs() < 1e-2 * second.abs(), "{} {}", slope.second, second);
        }
    }
}
