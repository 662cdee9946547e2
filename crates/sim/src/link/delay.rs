//! How long a packet is on its way once it is transmitted.

use giusto_units::{TimeDelta, Timestamp};
use rand::RngExt;
use rand_distr::{Distribution, Normal};

use crate::random::Random;

/// The one-way propagation delay: each holds from its moment on, before the first moment the first one.
///
/// A delay that shrinks reorders nothing: who left earlier arrives no later. (With a jitter that may reorder, it may.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayProfile {
    steps: Vec<(Timestamp, TimeDelta)>,
}

impl From<TimeDelta> for DelayProfile {
    /// The same delay at all times.
    fn from(delay: TimeDelta) -> Self {
        Self { steps: vec![(Timestamp::ZERO, delay)] }
    }
}

impl DelayProfile {
    /// Delays from their moments on.
    ///
    /// # Errors
    ///
    /// [`DelayError`]: a negative delay, no delay at all, moments out of order.
    pub fn steps(steps: Vec<(Timestamp, TimeDelta)>) -> Result<Self, DelayError> {
        let profile = Self { steps };
        profile.check()?;
        Ok(profile)
    }

    /// Checks that there are delays, that none is negative and that their moments are in order.
    ///
    /// # Errors
    ///
    /// [`DelayError`]: a negative delay, no delay at all, moments out of order.
    pub fn check(&self) -> Result<(), DelayError> {
        let Self { steps } = self;
        if steps.is_empty() {
            return Err(DelayError::Empty);
        }
        if let Some(&(_, delay)) = steps.iter().find(|&&(_, delay)| delay < TimeDelta::ZERO) {
            return Err(DelayError::Negative { delay });
        }
        let pairs = steps.iter().zip(steps.iter().skip(1)).map(|(before, after)| (before.0, after.0));
        if let Some((before, after)) = pairs.into_iter().find(|(before, after)| after <= before) {
            return Err(DelayError::Backwards { before, after });
        }
        Ok(())
    }

    /// Its steps, in order.
    pub fn as_steps(&self) -> &[(Timestamp, TimeDelta)] {
        &self.steps
    }
}

/// Why a delay or a jitter cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DelayError {
    /// There is no delay in it.
    #[error("no delays: give at least one moment and its delay")]
    Empty,
    /// A time is negative.
    #[error("a delay cannot be negative, found \"{delay}\"")]
    Negative {
        /// The delay.
        delay: TimeDelta,
    },
    /// A moment lies before the one that precedes it.
    #[error("time runs backwards, from {before} to {after}: sort by time")]
    Backwards {
        /// The earlier entry.
        before: Timestamp,
        /// The later entry.
        after: Timestamp,
    },
    /// The bound of a distribution is no positive number.
    #[error("the bound of the jitter must be above 0 standard deviations, found {bound}")]
    Bound {
        /// The bound.
        bound: f64,
    },
}

/// What is added to the delay of each packet, drawn anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// `|clamp(N(0, std²), ±bound·std)|`, RFC 8868 §4.5 (std 5 ms, bound 3 there). The text calls it zero-mean; with the
    /// absolute value its mean is some 0.8 std.
    TruncatedGaussian {
        /// Standard deviation before it is folded.
        std: TimeDelta,
        /// Where it is cut off, in standard deviations.
        bound: f64,
    },
    /// Anything from zero to `max`, evenly.
    Uniform {
        /// The largest.
        max: TimeDelta,
    },
}

impl Jitter {
    /// RFC 8868 §4.5 with its recommended parameters.
    pub const RFC8868: Self = Self::TruncatedGaussian { std: TimeDelta::from_millis(5), bound: 3.0 };

    /// Whether its parameters make sense.
    ///
    /// # Errors
    ///
    /// [`DelayError`]: a negative time, a bound that is not above zero.
    pub fn check(self) -> Result<(), DelayError> {
        let (delay, bound) = match self {
            Self::TruncatedGaussian { std, bound } => (std, bound),
            Self::Uniform { max } => (max, 1.0),
        };
        if delay < TimeDelta::ZERO {
            return Err(DelayError::Negative { delay });
        }
        if bound.is_finite() && bound > 0.0 { Ok(()) } else { Err(DelayError::Bound { bound }) }
    }

    fn draw(self, random: &mut Random) -> TimeDelta {
        match self {
            Self::TruncatedGaussian { std, bound } => {
                let Ok(normal) = Normal::new(0.0, 1.0) else { return TimeDelta::ZERO };
                let deviations: f64 = normal.sample(random);
                TimeDelta::from_seconds_f64(std.as_seconds() * deviations.abs().min(bound))
            }
            Self::Uniform { max } => TimeDelta::from_nanos(random.random_range(0..=max.as_nanos().max(0))),
        }
    }
}

/// The way between the two ends of a link.
#[derive(Debug)]
pub(super) struct Propagation {
    delay: DelayProfile,
    next: usize,
    jitter: Option<Jitter>,
    reorder: bool,
    random: Random,
    latest: Timestamp,
}

impl Propagation {
    pub(super) fn new(delay: DelayProfile, jitter: Option<Jitter>, reorder: bool, random: Random) -> Self {
        Self { delay, next: 1, jitter, reorder, random, latest: Timestamp::ZERO }
    }

    /// Whether a packet may arrive before one that left earlier.
    pub(super) fn may_reorder(&self) -> bool {
        self.reorder && self.jitter.is_some()
    }

    /// When a packet arrives that is transmitted at `sent`; `serialisation` is how long that took.
    ///
    /// Without reordering this is NR-BPDV of RFC 8868 §4.5: who would overtake follows at the distance that the link's rate sets.
    /// These are ends of packets: so it is the serialisation of this one, where the RFC, for beginnings, has that of the one before.
    pub(super) fn arrival(&mut self, sent: Timestamp, serialisation: TimeDelta) -> Timestamp {
        while self.delay.steps.get(self.next).is_some_and(|&(from, _)| from <= sent) {
            self.next += 1;
        }
        let delay = self.delay.steps.get(self.next - 1).map_or(TimeDelta::ZERO, |&(_, delay)| delay);
        let Some(jitter) = self.jitter else {
            self.latest = self.latest.max(sent + delay);
            return self.latest;
        };
        let arrival = sent + delay + jitter.draw(&mut self.random);
        if self.reorder {
            return arrival;
        }
        let earliest = if self.latest == Timestamp::ZERO { arrival } else { self.latest + serialisation };
        self.latest = arrival.max(earliest);
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    const MILLI: u64 = 1_000_000;

    fn arrivals(jitter: Option<Jitter>, reorder: bool) -> Vec<(Timestamp, Timestamp)> {
        let delay = DelayProfile::from(TimeDelta::from_millis(50));
        let mut way = Propagation::new(delay, jitter, reorder, random::stream(1, "jitter"));
        (1..20_000)
            .map(|k| {
                let sent = Timestamp::from_nanos(k * MILLI);
                (sent, way.arrival(sent, TimeDelta::from_micros(100)))
            })
            .collect()
    }

    #[test]
    fn jitter_of_rfc_8868_has_the_mean_and_bounds_of_a_folded_gaussian() {
        let waits: Vec<f64> = arrivals(Some(Jitter::RFC8868), true)
            .iter()
            .map(|&(sent, arrived)| (arrived - sent).as_millis() - 50.0)
            .collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        // E|N(0, 5²)| = 5·sqrt(2/π) = 3.989; the cut at 3 deviations takes 0.004 off.
        assert!((3.93..4.04).contains(&mean), "{mean}");
        assert!(waits.iter().all(|wait| (0.0..=15.0).contains(wait)));
        assert!(waits.iter().any(|&wait| wait > 14.99) && waits.iter().any(|&wait| wait < 0.01));
    }

    #[test]
    fn without_reordering_packets_keep_their_order_and_distance() {
        let ordered = arrivals(Some(Jitter::RFC8868), false);
        let gaps = || ordered.windows(2).map(|pair| pair[1].1 - pair[0].1);
        assert!(gaps().all(|gap| gap >= TimeDelta::from_micros(100)));
        assert!(gaps().any(|gap| gap == TimeDelta::from_micros(100)));
        let reordered = arrivals(Some(Jitter::RFC8868), true);
        assert!(reordered.windows(2).any(|pair| pair[1].1 < pair[0].1));
        // Never earlier than the draw itself.
        assert!(ordered.iter().zip(&reordered).all(|(ordered, drawn)| ordered.1 >= drawn.1));
    }

    #[test]
    fn a_delay_that_shrinks_reorders_nothing() {
        let at = |millis: u64| Timestamp::from_nanos(millis * MILLI);
        let steps = vec![(at(0), TimeDelta::from_millis(100)), (at(10), TimeDelta::from_millis(20))];
        let delay = DelayProfile::steps(steps).unwrap();
        let mut way = Propagation::new(delay, None, false, random::stream(1, "none"));
        let arrival = |way: &mut Propagation, millis| way.arrival(at(millis), TimeDelta::ZERO);
        assert_eq!(arrival(&mut way, 9), at(109));
        assert_eq!(arrival(&mut way, 10), at(109));
        assert_eq!(arrival(&mut way, 100), at(120));
    }

    #[test]
    fn delays_that_cannot_be_are_refused() {
        let at = Timestamp::from_nanos;
        let ms = TimeDelta::from_millis;
        assert_eq!(DelayProfile::steps(vec![]), Err(DelayError::Empty));
        assert!(DelayProfile::steps(vec![(at(0), ms(-1))]).is_err());
        assert!(DelayProfile::steps(vec![(at(5), ms(1)), (at(5), ms(1))]).is_err());
        assert!(Jitter::TruncatedGaussian { std: ms(5), bound: 0.0 }.check().is_err());
        assert!(Jitter::RFC8868.check().is_ok());
    }
}
