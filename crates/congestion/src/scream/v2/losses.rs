//! Is a packet lost, or only late? And how many are?

use std::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

/// What is settable of [`Losses`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossesConfig {
    /// The reordering window, which follows what is seen, is at most so long. Default 30 ms, as in the authors' implementation:
    /// §"Detecting Lost Data Units" names no bound, and a packet that is late once would make the sender slow for ever.
    pub reordering: TimeDelta,
    /// Up to this share, losses are taken for the link's own, while the queue is short. Default 1 % (§"Link layer losses and rate
    /// policers", `LOSS_RATE_THRESHOLD`). Zero: each loss counts, as in §"Reference Window Reduction" without it.
    pub threshold: f64,
    /// Above this share a policer is at work, if the queue is short. Default 10 % (`LOSS_RATE_THRESHOLD_POLICER`).
    pub policer_threshold: f64,
    /// What a policer leaves of the window, as its limit. Default 0.9 (`BETA_LOSS_POLICER`).
    pub policer_beta: f64,
    /// By how much that limit is lifted each round trip. Default 0.001 (same section, "for instance").
    pub policer_lift: f64,
}

impl Default for LossesConfig {
    fn default() -> Self {
        Self {
            reordering: TimeDelta::from_millis(30),
            threshold: 0.01,
            policer_threshold: 0.1,
            policer_beta: 0.9,
            policer_lift: 0.001,
        }
    }
}

/// So many packets may be missing and not yet given up; of more, the oldest are given up.
const MOST: usize = 1024;

/// Packets that are missing, and the share that stays so.
#[derive(Debug, Clone)]
pub struct Losses {
    config: LossesConfig,
    /// Those that may yet come, and since when they are missed.
    missing: VecDeque<(u64, Timestamp)>,
    /// Those that were given up lately: they may yet show that it was too early.
    given_up: VecDeque<(u64, Timestamp)>,
    /// The highest that was ever missed: what is above it was not.
    highest: Option<u64>,
    window: TimeDelta,
    rate: f64,
}

impl Losses {
    /// Nothing is missed.
    pub fn new(config: LossesConfig) -> Self {
        Self {
            config,
            missing: VecDeque::new(),
            given_up: VecDeque::new(),
            highest: None,
            window: TimeDelta::ZERO,
            rate: 0.0,
        }
    }

    /// A packet is reported as not received.
    pub fn on_missing(&mut self, now: Timestamp, sequence: u64) {
        self.missing.push_back((sequence, now));
        self.highest = self.highest.max(Some(sequence));
    }

    /// A packet is reported as received; `share` is that of one packet in the average.
    pub fn on_arrival(&mut self, now: Timestamp, sequence: u64, share: f64) {
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

    /// Gives up what has been missed for the reordering window, and says whether that was anything. `share` is that of one packet.
    pub fn update(&mut self, now: Timestamp, share: f64) -> bool {
        let share = self.share(share);
        let mut any = false;
        while let Some(&(sequence, since)) = self.missing.front() {
            if now.saturating_since(since) < self.window && self.missing.len() <= MOST {
                break;
            }
            self.missing.pop_front();
            self.given_up.push_back((sequence, since));
            self.rate += share * (1.0 - self.rate);
            any = true;
        }
        while self.given_up.len() > MOST {
            self.given_up.pop_front();
        }
        any
    }

    /// The weight of one packet: that of an average over two round trips, and over so many packets at least that one loss alone
    /// stays below the threshold (§"Link layer losses and rate policers").
    fn share(&self, share: f64) -> f64 {
        let most = if self.config.threshold > 0.0 { self.config.threshold / 4.0 } else { 0.0025 };
        (share / 2.0).min(most)
    }

    /// The average share of lost packets (`loss_rate`), 0 to 1.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether losses are more than the link's own.
    pub fn is_congestion(&self) -> bool {
        self.config.threshold <= 0.0 || self.rate > self.config.threshold
    }

    /// Whether losses are so many that, with a short queue, they are a policer's.
    pub fn is_policer(&self) -> bool {
        self.rate > self.config.policer_threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn one_packet_in_a_thousand_is_the_links_own_and_three_in_a_hundred_are_not() {
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
    fn a_single_loss_stays_below_the_threshold_and_five_at_once_exceed_it() {
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
    fn what_comes_late_teaches_to_wait_and_no_longer_than_the_bound() {
        let mut losses = Losses::new(LossesConfig::default());
        losses.on_missing(at(0), 1);
        assert!(losses.update(at(0), 0.1), "at first nothing is waited for");
        losses.on_arrival(at(20), 1, 0.1);
        losses.on_missing(at(30), 2);
        assert!(!losses.update(at(49), 0.1));
        assert!(losses.update(at(50), 0.1));
        losses.on_arrival(at(1050), 2, 0.1);
        losses.on_missing(at(2000), 3);
        assert!(!losses.update(at(2029), 0.1));
        assert!(losses.update(at(2030), 0.1));
    }

    #[test]
    fn what_comes_in_the_window_is_no_loss() {
        let mut losses = Losses::new(LossesConfig::default());
        losses.on_missing(at(0), 1);
        losses.update(at(0), 0.1);
        losses.on_arrival(at(20), 1, 0.1);
        let rate = losses.rate();
        losses.on_missing(at(30), 2);
        losses.on_arrival(at(45), 2, 0.1);
        assert!(!losses.update(at(1000), 0.1));
        assert!(losses.rate() < rate);
    }
}
