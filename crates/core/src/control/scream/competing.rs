//! How long may packets queue, if others fill the queue? (RFC 8298 §4.1.2.3)

use std::collections::VecDeque;

/// The variance is that of so many samples, the mean that of the last fifty.
///
/// `qdelay_norm_hist` holds 100 samples in §4.1.1.2; the pseudo-code takes the variance of 200.
const HISTORY: usize = 200;
const MEAN: usize = 50;
/// Above this share of round trips with losses, the target follows the delay and half as much again.
const LOSS_EVENTS: f64 = 0.002;
/// Below this variance of the normalised delay it is "reasonably safe" to let the target follow.
const CALM: f64 = 0.2;

/// The target of the queue delay, in seconds.
#[derive(Debug, Clone)]
pub(super) struct DelayTarget {
    least: f64,
    most: f64,
    compensates: bool,
    samples: VecDeque<f64>,
    target: f64,
}

impl DelayTarget {
    /// Between two targets, in seconds. It stays at the least unless it `compensates`.
    pub(super) fn new(least: f64, most: f64, compensates: bool) -> Self {
        let least = least.max(1e-3);
        let samples = VecDeque::from([0.0; HISTORY]);
        Self { least, most: most.max(least), compensates, samples, target: least }
    }

    /// `adjust_qdelay_target`: packets have queued for `delay` seconds, and `loss_events` is the share of round trips with losses.
    pub(super) fn on_sample(&mut self, delay: f64, loss_events: f64) {
        if !self.compensates {
            return;
        }
        self.samples.pop_front();
        self.samples.push_back(delay / self.least);
        let mean = self.samples.iter().sum::<f64>() / HISTORY as f64;
        let variance =
            self.samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum::<f64>() / HISTORY as f64;
        let recent = self.samples.iter().rev().take(MEAN).sum::<f64>() / MEAN as f64;
        let wanted = (recent + variance.sqrt()) * self.least;
        self.target = if loss_events > LOSS_EVENTS {
            1.5 * wanted
        } else if variance < CALM {
            wanted
        } else if wanted < self.least {
            (0.5 * self.target).max(wanted)
        } else {
            0.9 * self.target
        };
        self.target = self.target.min(self.most).max(self.least);
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
        let mut target = DelayTarget::new(0.1, 0.4, true);
        for sample in samples {
            target.on_sample(sample, loss_events);
        }
        target
    }

    #[test]
    fn a_steady_long_queue_becomes_the_target_and_a_short_one_the_least() {
        // Mean 2.5, variance none: 0.25 s.
        let mut target = after([0.25; 200], 0.0);
        assert!((target.seconds() - 0.25).abs() < 1e-9, "{}", target.seconds());
        for _ in 0..200 {
            target.on_sample(0.01, 0.0);
        }
        assert_eq!(target.seconds(), 0.1);
        assert_eq!(after([5.0; 200], 0.0).seconds(), 0.4);
    }

    #[test]
    fn losses_let_it_follow_half_as_much_again() {
        let target = after([0.2; 200], 0.01);
        assert!((target.seconds() - 0.3).abs() < 1e-9, "{}", target.seconds());
    }

    #[test]
    fn where_the_delay_varies_it_only_falls() {
        // Mean 2, variance 1: not calm. 0.1 s is the least, so it stays there.
        let varies = (0..400).map(|n| if n / 10 % 2 == 0 { 0.1 } else { 0.3 });
        assert_eq!(after(varies, 0.0).seconds(), 0.1);
    }

    #[test]
    fn it_can_be_turned_off() {
        let mut target = DelayTarget::new(0.1, 0.4, false);
        target.on_sample(5.0, 1.0);
        assert_eq!(target.seconds(), 0.1);
    }
}
