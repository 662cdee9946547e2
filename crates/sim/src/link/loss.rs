//! Packet loss after transmission.

use std::collections::BTreeSet;

use giusto_units::Timestamp;
use rand::RngExt;

use crate::random::Random;

/// The loss model of a link.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Independent losses with this probability, 0 to 1.
    Random(f64),
    /// Independent losses whose probability, 0 to 1, changes at these times, in order. Before the first, there is no loss.
    Steps(Vec<(Timestamp, f64)>),
    /// A channel with a good and a bad state: Gilbert, "Capacity of a Burst-Noise Channel", 1960; Elliott, "Estimates of
    /// Error Rates for Codes on Burst-Noise Channels", 1963. It begins in the good state and may change state after each
    /// packet.
    GilbertElliott {
        /// Transition probability from good to bad per packet (p), 0 to 1.
        to_bad: f64,
        /// Transition probability from bad to good per packet (r), 0 to 1.
        to_good: f64,
        /// Loss probability in the good state (1 − k), 0 to 1.
        good: f64,
        /// Loss probability in the bad state (1 − h), 0 to 1.
        bad: f64,
    },
    /// Loses exactly these packets, numbered from 0 in order of transmission.
    List(BTreeSet<u64>),
}

/// A probability out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{what} must lie between 0 and 1, found {value}")]
pub struct ProbabilityError {
    /// The name of the probability.
    pub what: &'static str,
    /// The value.
    pub value: f64,
}

/// An invalid [`Loss`].
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LossError {
    /// Invalid probability.
    #[error(transparent)]
    Probability(#[from] ProbabilityError),
    /// The list of steps is empty.
    #[error("no steps of loss: give at least one time and its probability")]
    Empty,
    /// A step is not later than the one before.
    #[error("steps of loss must be in order of time, found {after} after {before}: sort them")]
    Backwards {
        /// The earlier step.
        before: Timestamp,
        /// The step after it.
        after: Timestamp,
    },
}

/// Checks that `value` is a probability.
pub(super) fn probability(what: &'static str, value: f64) -> Result<(), ProbabilityError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(ProbabilityError { what, value }) }
}

impl Loss {
    /// Checks that all probabilities are from 0 to 1, and steps in order.
    ///
    /// # Errors
    ///
    /// [`LossError`] names the first that is not.
    pub fn check(&self) -> Result<(), LossError> {
        match *self {
            Self::None | Self::List(_) => Ok(()),
            Self::Random(ratio) => Ok(probability("loss", ratio)?),
            Self::Steps(ref steps) => {
                steps.iter().try_for_each(|&(_, ratio)| probability("loss", ratio))?;
                let (first, later) = steps.split_first().ok_or(LossError::Empty)?;
                let mut before = first.0;
                for &(after, _) in later {
                    if after <= before {
                        return Err(LossError::Backwards { before, after });
                    }
                    before = after;
                }
                Ok(())
            }
            Self::GilbertElliott { to_bad, to_good, good, bad } => {
                probability("the transition probability from good to bad", to_bad)?;
                probability("the transition probability from bad to good", to_good)?;
                probability("the loss probability in the good state", good)?;
                Ok(probability("the loss probability in the bad state", bad)?)
            }
        }
    }

    /// Loss ratio in the long run at `now`; 0 for a list.
    pub fn ratio_at(&self, now: Timestamp) -> f64 {
        let Self::Steps(steps) = self else { return self.mean() };
        let reached = steps.partition_point(|(from, _)| *from <= now).checked_sub(1);
        reached.and_then(|step| steps.get(step)).map_or(0.0, |&(_, ratio)| ratio)
    }

    /// Long-term loss ratio; that of the last step; 0 for a list.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None | Self::List(_) => 0.0,
            Self::Random(ratio) => ratio,
            Self::Steps(ref steps) => steps.last().map_or(0.0, |&(_, ratio)| ratio),
            Self::GilbertElliott { to_bad, to_good, good, bad } => {
                let changes = to_bad + to_good;
                let in_bad = if changes > 0.0 { to_bad / changes } else { 0.0 };
                good * (1.0 - in_bad) + bad * in_bad
            }
        }
    }
}

/// Applies a [`Loss`] model to a sequence of packets.
#[derive(Debug)]
pub(super) struct LossProcess {
    loss: Loss,
    random: Random,
    is_bad: bool,
    transmitted: u64,
}

impl LossProcess {
    pub(super) fn new(loss: Loss, random: Random) -> Self {
        Self { loss, random, is_bad: false, transmitted: 0 }
    }

    /// Whether the next transmitted packet is lost.
    #[inline]
    pub(super) fn is_next_lost(&mut self, now: Timestamp) -> bool {
        !matches!(self.loss, Loss::None) && self.draw(now)
    }

    #[inline(never)]
    fn draw(&mut self, now: Timestamp) -> bool {
        let index = self.transmitted;
        self.transmitted += 1;
        match &self.loss {
            Loss::None => false,
            Loss::Random(ratio) => self.random.random::<f64>() < *ratio,
            steps @ Loss::Steps(_) => self.random.random::<f64>() < steps.ratio_at(now),
            Loss::GilbertElliott { to_bad, to_good, good, bad } => {
                // Always draws twice, so that the states do not depend on the losses.
                let (lost, changes) = (self.random.random::<f64>(), self.random.random::<f64>());
                let (ratio, change) = if self.is_bad { (bad, to_good) } else { (good, to_bad) };
                self.is_bad ^= changes < *change;
                lost < *ratio
            }
            Loss::List(list) => list.contains(&index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    fn losses(loss: Loss, packets: usize) -> Vec<bool> {
        let mut process = LossProcess::new(loss, random::stream(7, "loss"));
        (0..packets).map(|number| process.is_next_lost(Timestamp::from_nanos(number as u64))).collect()
    }

    fn ratio(losses: &[bool]) -> f64 {
        losses.iter().filter(|&&lost| lost).count() as f64 / losses.len() as f64
    }

    #[test]
    fn independent_losses_match_the_ratio_without_memory() {
        let losses = losses(Loss::Random(0.1), 200_000);
        assert!((0.097..0.103).contains(&ratio(&losses)), "{}", ratio(&losses));
        let after_loss: Vec<bool> = losses.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
        assert!((0.09..0.11).contains(&ratio(&after_loss)), "{}", ratio(&after_loss));
    }

    #[test]
    fn gilbert_elliott_bursts_have_the_theoretical_length() {
        let loss = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.25, good: 0.0, bad: 1.0 };
        let mean = loss.mean();
        assert!((mean - 0.01 / 0.26).abs() < 1e-12);
        let losses = losses(loss, 400_000);
        assert!((ratio(&losses) / mean - 1.0).abs() < 0.05, "{}", ratio(&losses));
        // With certain loss in the bad state and none in the good state, the mean burst length is 1/r packets.
        let bursts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let length = losses.iter().filter(|&&lost| lost).count() as f64 / bursts as f64;
        assert!((3.85..4.15).contains(&length), "{length}");
    }

    #[test]
    fn a_list_loses_exactly_the_listed_packets() {
        let lost = losses(Loss::List([0, 3, 4].into()), 6);
        assert_eq!(lost, [true, false, false, true, true, false]);
        assert_eq!(losses(Loss::None, 3), [false; 3]);
    }

    #[test]
    fn steps_change_the_probability_at_their_times() {
        let from = |packet| Timestamp::from_nanos(packet);
        let losses = losses(Loss::Steps(vec![(from(10_000), 0.2), (from(60_000), 0.0)]), 80_000);
        let (before, during, after) = (&losses[..10_000], &losses[10_000..60_000], &losses[60_000..]);
        assert_eq!((ratio(before), ratio(after)), (0.0, 0.0));
        assert!((0.195..0.205).contains(&ratio(during)), "{}", ratio(during));
    }

    #[test]
    fn rejects_steps_out_of_order_and_probabilities_out_of_range() {
        let second = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        assert_eq!(Loss::Steps(Vec::new()).check(), Err(LossError::Empty));
        for (before, after) in [(second(5), second(3)), (second(5), second(5))] {
            let steps = Loss::Steps(vec![(before, 0.5), (after, 0.1)]);
            assert_eq!(steps.check(), Err(LossError::Backwards { before, after }));
        }
        let steps = |last| Loss::Steps(vec![(Timestamp::ZERO, 0.5), (Timestamp::MAX, last)]);
        assert!(steps(0.1).check().is_ok());
        let elliott = Loss::GilbertElliott { to_bad: 0.1, to_good: 0.1, good: 0.0, bad: -0.1 };
        for loss in [Loss::Random(f64::NAN), steps(-0.1), elliott] {
            assert!(loss.check().is_err(), "{loss:?}");
        }
        let message = Loss::Random(1.5).check().unwrap_err().to_string();
        assert_eq!(message, "loss must lie between 0 and 1, found 1.5");
    }
}
