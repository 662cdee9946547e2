//! Adjusts the delay target to flows that compete for the queue (RFC 8298 §4.1.2.3).

use giusto_units::math;

use alloc::collections::VecDeque;

/// Number of samples of the variance. The mean uses the last 50.
///
/// `qdelay_norm_hist` holds 100 samples in §4.1.1.2; the pseudo-code takes the variance of 200.
const HISTORY: usize = 200;
const MEAN: usize = 50;
/// Share of round trips with losses above which the target follows 1.5 times the delay.
const LOSS_EVENTS: f64 = 0.002;
/// Variance of the normalised delay below which it is "reasonably safe" to let the target follow.
const CALM: f64 = 0.2;

/// Factor on the target per sample without evidence of other flows. Source: the authors' implementation of
/// December 2017, `ScreamTx.cpp`.
const FADING: f64 = 0.999;

/// The queue delay target, in seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct DelayTarget {
    min: f64,
    max: f64,
    compensates: bool,
    evidence: Option<f64>,
    samples: VecDeque<f64>,
    target: f64,
}

impl DelayTarget {
    /// A target between the two limits, in seconds. It stays at the minimum unless `compensate` is set. With
    /// `evidence` it rises only while the mean delay exceeds that multiple of it.
    pub(super) fn new(min: f64, max: f64, compensates: bool, evidence: Option<f64>) -> Self {
        let min = min.max(1e-3);
        let samples = VecDeque::from([0.0; HISTORY]);
        Self { min, max: max.max(min), compensates, evidence, samples, target: min }
    }

    /// `adjust_qdelay_target`: `delay` is the queueing delay in seconds, and `loss_events` the share of round
    /// trips with losses.
    pub(super) fn on_sample(&mut self, delay: f64, loss_events: f64) {
        if !self.compensates {
            return;
        }
        self.samples.pop_front();
        self.samples.push_back(delay / self.min);
        let recent = self.samples.iter().rev().take(MEAN).sum::<f64>() / MEAN as f64;
        let evident = self.evidence.is_none_or(|min| recent * self.min > min * self.target);
        let faded = if self.evidence.is_some() { FADING * self.target } else { 0.0 };
        self.target = if evident { self.followed(recent, loss_events, faded) } else { faded };
        self.target = self.target.min(self.max).max(self.min);
    }

    /// The target that follows the delay, whose normalised mean over the last samples is `recent`; `faded`: without other flows.
    fn followed(&self, recent: f64, loss_events: f64, faded: f64) -> f64 {
        let mean = self.samples.iter().sum::<f64>() / HISTORY as f64;
        let variance =
            self.samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum::<f64>() / HISTORY as f64;
        let wanted = (recent + math::sqrt(variance)) * self.min;
        if loss_events > LOSS_EVENTS {
            (1.5 * wanted).max(faded)
        } else if variance < CALM {
            wanted.max(faded)
        } else if self.evidence.is_some() {
            faded
        } else if wanted < self.min {
            (0.5 * self.target).max(wanted)
        } else {
            0.9 * self.target
        }
    }

    /// `qdelay_target`, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.target
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn after(samples: impl IntoIterator<Item = f64>, loss_events: f64) -> DelayTarget {
        let mut target = DelayTarget::new(0.1, 0.4, true, None);
        for sample in samples {
            target.on_sample(sample, loss_events);
        }
        target
    }

    #[test]
    fn a_constant_delay_becomes_the_target() {
        // Mean 2.5, variance zero: 0.25 s.
        let mut target = after([0.25; 200], 0.0);
        assert!((target.seconds() - 0.25).abs() < 1e-9, "{}", target.seconds());
        for _ in 0..200 {
            target.on_sample(0.01, 0.0);
        }
        assert_eq!(target.seconds(), 0.1);
        assert_eq!(after([5.0; 200], 0.0).seconds(), 0.4);
    }

    #[test]
    fn losses_raise_the_target_to_1_5_times_the_delay() {
        let target = after([0.2; 200], 0.01);
        assert!((target.seconds() - 0.3).abs() < 1e-9, "{}", target.seconds());
    }

    #[test]
    fn a_varying_delay_only_reduces_the_target() {
        // Mean 2, variance 1: too large. 0.1 s is the minimum, so it stays there.
        let varies = (0..400).map(|n| if n / 10 % 2 == 0 { 0.1 } else { 0.3 });
        assert_eq!(after(varies, 0.0).seconds(), 0.1);
    }

    #[test]
    fn only_a_delay_well_above_the_target_is_evidence() {
        let with = |delay: f64| {
            let mut target = DelayTarget::new(0.1, 0.4, true, Some(1.1));
            (0..400).for_each(|n| target.on_sample(delay + if n % 2 == 0 { 0.01 } else { -0.01 }, 0.0));
            target.seconds()
        };
        assert_eq!(with(0.105), 0.1);
        // From the mean and its deviation of 10 ms down to where the mean is evidence again: lower by a
        // factor of 1.1.
        assert!((0.2 / 1.1 - 1e-3..=0.211).contains(&with(0.2)), "{}", with(0.2));
        // As published, it is at the target plus one deviation.
        let literal = after((0..400).map(|n| if n % 2 == 0 { 0.115 } else { 0.095 }), 0.0);
        assert!((literal.seconds() - 0.115).abs() < 1e-6, "{}", literal.seconds());
    }

    #[test]
    fn without_other_flows_it_falls_by_0_1_percent_per_sample() {
        let mut target = DelayTarget::new(0.1, 0.4, true, Some(1.1));
        (0..400).for_each(|_| target.on_sample(0.3, 0.0));
        let high = target.seconds();
        assert!((0.27..=0.33).contains(&high), "{high}");
        (0..400).for_each(|_| target.on_sample(0.0, 0.0));
        assert!((target.seconds() / high / 0.999_f64.powi(400) - 1.0).abs() < 0.1, "{}", target.seconds());
        (0..2000).for_each(|_| target.on_sample(0.0, 0.0));
        assert_eq!(target.seconds(), 0.1);
    }

    #[test]
    fn the_adjustment_can_be_disabled() {
        let mut target = DelayTarget::new(0.1, 0.4, false, None);
        target.on_sample(5.0, 1.0);
        assert_eq!(target.seconds(), 0.1);
    }
}
