//! Loss detection and loss rate.

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

giusto_units::defaults! {
    /// Configuration of the losses.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct LossesConfig {
        /// Maximum of the reordering window, which adapts to late packets. Default 30 ms, as in the authors'
        /// implementation: §"Detecting Lost Data Units" gives no limit, and one very late packet would slow the
        /// sender down for ever.
        pub reordering: TimeDelta = TimeDelta::from_millis(30),
        /// Up to this loss rate, losses are attributed to the link and not to congestion, while the queue is
        /// short. Default 1 % (§"Link layer losses and rate policers", `LOSS_RATE_THRESHOLD`). Zero: each loss
        /// counts, as in §"Reference Window Reduction" without that section.
        pub threshold: f64 = 0.01,
        /// Above this loss rate a policer is detected, if the queue is short. Default 1, never: the text of -02 has no such rule. In -01 it
        /// is 10 % (`LOSS_RATE_THRESHOLD_POLICER`).
        pub policer_threshold: f64 = 1.0,
        /// Factor on the window when a policer is detected; the result becomes a limit. Default 0.9
        /// (`BETA_LOSS_POLICER`).
        pub policer_beta: f64 = 0.9,
        /// Relative increase of that limit per RTT. Default 0.001 (same section, "for instance").
        pub policer_lift: f64 = 0.001,
    }
}

/// Maximum number of missing packets that are not yet regarded as lost; beyond that, the oldest are regarded
/// as lost.
const MAX: usize = 1024;

/// Missing packets, and the loss rate.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    config: LossesConfig,
    /// Packets that may still arrive, and since when they have been missing.
    missing: VecDeque<(u64, Timestamp)>,
    /// Packets recently regarded as lost: if they arrive, the window was too short.
    given_up: VecDeque<(u64, Timestamp)>,
    /// The highest packet that was ever missing: no packet above it was.
    highest: Option<u64>,
    window: TimeDelta,
    rate: f64,
}

impl Losses {
    /// No packets are missing.
    pub(super) fn new(config: LossesConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Handles a packet that is reported as not received.
    pub(super) fn on_missing(&mut self, now: Timestamp, sequence: u64) {
        self.missing.push_back((sequence, now));
        self.highest = self.highest.max(Some(sequence));
    }

    /// Handles a packet that is reported as received; `share` is the weight of one packet in the average.
    pub(super) fn on_arrival(&mut self, now: Timestamp, sequence: u64, share: f64) {
        self.rate -= self.share(share) * self.rate;
        if self.highest < Some(sequence) {
            return;
        }
        for late in [&mut self.missing, &mut self.given_up] {
            if let Some(place) = late.iter().position(|&(missed, _)| missed == sequence)
                && let Some((_, since)) = late.remove(place)
            {
                let took = now.saturating_since(since);
                self.window = self.window.max(took).min(self.config.reordering);
            }
        }
    }

    /// Declares packets lost that have been missing for the reordering window. Returns whether there were
    /// any. `share` is the weight of one packet.
    pub(super) fn update(&mut self, now: Timestamp, share: f64) -> bool {
        let share = self.share(share);
        let mut any = false;
        while let Some(&(sequence, since)) = self.missing.front() {
            if now.saturating_since(since) < self.window && self.missing.len() <= MAX {
                break;
            }
            self.missing.pop_front();
            self.given_up.push_back((sequence, since));
            self.rate += share * (1.0 - self.rate);
            any = true;
        }
        while self.given_up.len() > MAX {
            self.given_up.pop_front();
        }
        any
    }

    /// Weight of one packet: an average over two RTTs, and over enough packets that a single loss stays below
    /// the threshold (§"Link layer losses and rate policers").
    fn share(&self, share: f64) -> f64 {
        let max = if self.config.threshold > 0.0 { self.config.threshold / 4.0 } else { 0.0025 };
        (share / 2.0).min(max)
    }

    /// The average loss rate (`loss_rate`), 0 to 1.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether the loss rate indicates congestion.
    pub(super) fn is_congestion(&self) -> bool {
        self.config.threshold <= 0.0 || self.rate > self.config.threshold
    }

    /// Whether the loss rate, with a short queue, indicates a policer.
    pub(super) fn is_policer(&self) -> bool {
        self.rate > self.config.policer_threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn loss_of_3_percent_is_congestion_and_0_1_percent_is_not() {
        for (every, congestion) in [(1000, false), (33, true)] {
            let mut losses = Losses::new(LossesConfig::default());
            let (mut sum, mut exceeded) = (0.0, 0);
            for n in 1..=10_000 {
                if n % every == 0 {
                    losses.on_missing(at(n), n);
                } else {
                    losses.on_arrival(at(n), n, 0.1);
                }
                losses.update(at(n), 0.1);
                if n > 5000 {
                    sum += losses.rate();
                    exceeded += u64::from(losses.is_congestion());
                }
                assert!(!losses.is_policer());
            }
            assert_eq!(exceeded, if congestion { 5000 } else { 0 });
            let ratio = sum / 5000.0 * every as f64;
            assert!((0.95..1.05).contains(&ratio), "{every}: {ratio}");
        }
    }

    #[test]
    fn one_loss_is_below_the_threshold_and_five_exceed_it() {
        // A quarter of the threshold each.
        let mut losses = Losses::new(LossesConfig::default());
        for n in 0..5 {
            assert!(!losses.is_congestion(), "{n}");
            losses.on_missing(at(0), n);
            assert!(losses.update(at(0), 1.0));
        }
        assert!(losses.is_congestion());
    }

    #[test]
    fn late_packets_widen_the_window_up_to_its_maximum() {
        let mut losses = Losses::new(LossesConfig::default());
        losses.on_missing(at(0), 1);
        assert!(losses.update(at(0), 0.1), "at first nothing is waited for");
        losses.on_arrival(at(20), 1, 0.1);
        losses.on_missing(at(30), 2);
        assert!(!losses.update(at(49), 0.1));
        assert!(losses.clone().update(at(50), 0.1));
        // A packet within the window is not lost.
        let (mut early, rate) = (losses.clone(), losses.rate());
        early.on_arrival(at(45), 2, 0.1);
        assert!(!early.update(at(1000), 0.1) && early.rate() < rate);
        losses.update(at(50), 0.1);
        losses.on_arrival(at(1050), 2, 0.1);
        losses.on_missing(at(2000), 3);
        assert!(!losses.update(at(2029), 0.1));
        assert!(losses.update(at(2030), 0.1));
    }
}
