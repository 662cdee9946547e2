//! What is lost on the wire, and what arrives twice.

use std::collections::BTreeSet;

use rand::RngExt;

use crate::random::Random;

/// Which packets are lost after they have been transmitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with this probability, independent of the others.
    Random(f64),
    /// A channel that is good or bad: Gilbert, "Capacity of a Burst-Noise Channel", 1960; Elliott, "Estimates of Error Rates
    /// for Codes on Burst-Noise Channels", 1963. It begins good, and may change its state after each packet.
    GilbertElliott {
        /// Probability of turning bad after a packet (p).
        to_bad: f64,
        /// Probability of turning good after a packet (r).
        to_good: f64,
        /// Loss while good (1 − k).
        good: f64,
        /// Loss while bad (1 − h).
        bad: f64,
    },
    /// Exactly these, counted from 0 in the order in which the link transmits them.
    List(BTreeSet<u64>),
}

/// A probability that is none.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{what} must lie between 0 and 1, found {value}")]
pub struct ProbabilityError {
    /// What it is the probability of.
    pub what: &'static str,
    /// The value.
    pub value: f64,
}

/// Whether `value` is a probability.
pub(super) fn probability(what: &'static str, value: f64) -> Result<(), ProbabilityError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(ProbabilityError { what, value }) }
}

impl Loss {
    /// Whether its probabilities are some.
    ///
    /// # Errors
    ///
    /// [`ProbabilityError`] names the first that is none.
    pub fn check(&self) -> Result<(), ProbabilityError> {
        match *self {
            Self::None | Self::List(_) => Ok(()),
            Self::Random(ratio) => probability("loss", ratio),
            Self::GilbertElliott { to_bad, to_good, good, bad } => {
                probability("the probability of turning bad", to_bad)?;
                probability("the probability of turning good", to_good)?;
                probability("the loss while good", good)?;
                probability("the loss while bad", bad)
            }
        }
    }

    /// The share of packets that it takes in the long run; of a list, none.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None | Self::List(_) => 0.0,
            Self::Random(ratio) => ratio,
            Self::GilbertElliott { to_bad, to_good, good, bad } => {
                let changes = to_bad + to_good;
                let in_bad = if changes > 0.0 { to_bad / changes } else { 0.0 };
                good * (1.0 - in_bad) + bad * in_bad
            }
        }
    }
}

/// Decides for each packet.
#[derive(Debug)]
pub(super) struct LossProcess {
    loss: Loss,
    random: Random,
    bad: bool,
    seen: u64,
}

impl LossProcess {
    pub(super) fn new(loss: Loss, random: Random) -> Self {
        Self { loss, random, bad: false, seen: 0 }
    }

    /// Whether the packet transmitted now is lost.
    pub(super) fn takes_next(&mut self) -> bool {
        let index = self.seen;
        self.seen += 1;
        match &self.loss {
            Loss::None => false,
            Loss::Random(ratio) => self.random.random::<f64>() < *ratio,
            Loss::GilbertElliott { to_bad, to_good, good, bad } => {
                // Always two draws, so that the states do not depend on the losses.
                let (lost, changes) = (self.random.random::<f64>(), self.random.random::<f64>());
                let (ratio, change) = if self.bad { (bad, to_good) } else { (good, to_bad) };
                self.bad ^= changes < *change;
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
        (0..packets).map(|_| process.takes_next()).collect()
    }

    fn ratio(losses: &[bool]) -> f64 {
        losses.iter().filter(|&&lost| lost).count() as f64 / losses.len() as f64
    }

    #[test]
    fn independent_losses_have_their_ratio_and_no_memory() {
        let losses = losses(Loss::Random(0.1), 200_000);
        assert!((0.097..0.103).contains(&ratio(&losses)), "{}", ratio(&losses));
        let after_loss: Vec<bool> = losses.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
        assert!((0.09..0.11).contains(&ratio(&after_loss)), "{}", ratio(&after_loss));
    }

    #[test]
    fn a_gilbert_elliott_channel_loses_in_bursts_of_the_length_that_theory_says() {
        let loss = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.25, good: 0.0, bad: 1.0 };
        let mean = loss.mean();
        assert!((mean - 0.01 / 0.26).abs() < 1e-12);
        let losses = losses(loss, 400_000);
        assert!((ratio(&losses) / mean - 1.0).abs() < 0.05, "{}", ratio(&losses));
        // With all lost while bad and none while good a burst lasts 1/r packets.
        let bursts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let length = losses.iter().filter(|&&lost| lost).count() as f64 / bursts as f64;
        assert!((3.85..4.15).contains(&length), "{length}");
    }

    #[test]
    fn a_list_loses_exactly_what_it_names() {
        let lost = losses(Loss::List([0, 3, 4].into()), 6);
        assert_eq!(lost, [true, false, false, true, true, false]);
        assert_eq!(losses(Loss::None, 3), [false; 3]);
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        assert!(Loss::Random(f64::NAN).check().is_err());
        let complaint = Loss::Random(1.5).check().unwrap_err().to_string();
        assert_eq!(complaint, "loss must lie between 0 and 1, found 1.5");
        assert!(Loss::GilbertElliott { to_bad: 0.1, to_good: 0.1, good: 0.0, bad: -0.1 }.check().is_err());
    }
}
