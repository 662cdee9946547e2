//! Propagation delay and jitter.

use giusto_units::{TimeDelta, Timestamp};
use rand::RngExt;
use rand_distr::{Distribution, Normal};

use crate::random::Random;

/// One-way propagation delay as a step function of time. Before the first step, the first delay applies.
///
/// A decreasing delay does not reorder packets: a packet arrives no earlier than the one before it. Only jitter can reorder,
/// if the link permits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayProfile {
    steps: Vec<(Timestamp, TimeDelta)>,
}

impl From<TimeDelta> for DelayProfile {
    /// A constant delay.
    fn from(delay: TimeDelta) -> Self {
        Self { steps: vec![(Timestamp::ZERO, delay)] }
    }
}

impl DelayProfile {
    /// A step function: each delay, at least 0, applies from its time on.
    ///
    /// # Errors
    ///
    /// [`DelayError`]: a negative delay, no delay at all, moments out of order.
    pub fn steps(steps: Vec<(Timestamp, TimeDelta)>) -> Result<Self, DelayError> {
        let profile = Self { steps };
        profile.check()?;
        Ok(profile)
    }

    /// Checks that there are delays, that none is negative and that their times are in order.
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

    /// The steps in order of time.
    pub fn as_steps(&self) -> &[(Timestamp, TimeDelta)] {
        &self.steps
    }
}

/// An invalid delay or jitter.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DelayError {
    /// The list of delays is empty.
    #[error("no delays: give at least one time and its delay")]
    Empty,
    /// A delay is negative.
    #[error("a delay cannot be negative, found \"{delay}\"")]
    Negative {
        /// The delay.
        delay: TimeDelta,
    },
    /// Times are not increasing.
    #[error("each time must be later than the one before, found {after} behind {before}: sort by time")]
    Backwards {
        /// The earlier entry.
        before: Timestamp,
        /// The later entry.
        after: Timestamp,
    },
    /// The bound of a distribution is not a positive number.
    #[error("the bound of the jitter must be above 0 standard deviations, found {bound}")]
    Bound {
        /// The bound.
        bound: f64,
    },
}

/// Random delay added to each packet, drawn independently.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// `|clamp(N(0, std²), ±bound·std)|`, RFC 8868 §4.5 (there std 5 ms, bound 3). The RFC calls it zero-mean, but the
    /// absolute value has a mean of about 0.8 std.
    TruncatedGaussian {
        /// Standard deviation of the normal distribution, at least 0.
        std: TimeDelta,
        /// Truncation bound in standard deviations, above 0.
        bound: f64,
    },
    /// Uniform from zero to `max`.
    Uniform {
        /// Maximum, at least 0.
        max: TimeDelta,
    },
}

impl Jitter {
    /// RFC 8868 §4.5 with its recommended parameters.
    pub const RFC8868: Self = Self::TruncatedGaussian { std: TimeDelta::from_millis(5), bound: 3.0 };

    /// Checks the parameters.
    ///
    /// # Errors
    ///
    /// [`DelayError`] if a time is negative or the bound is not above zero.
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

/// Computes arrival times from transmission times.
#[derive(Debug)]
pub(super) struct Propagation {
    delay: DelayProfile,
    /// Index of the next step and its time, and the delay until then.
    next: usize,
    next_at: Timestamp,
    current: TimeDelta,
    jitter: Option<Jitter>,
    reorder: bool,
    random: Random,
    latest: Timestamp,
}

impl Propagation {
    pub(super) fn new(delay: DelayProfile, jitter: Option<Jitter>, reorder: bool, random: Random) -> Self {
        let (next_at, current) = (Timestamp::ZERO, TimeDelta::ZERO);
        let latest = Timestamp::ZERO;
        let mut propagation = Self { delay, next: 1, next_at, current, jitter, reorder, random, latest };
        propagation.seek(Timestamp::ZERO);
        propagation
    }

    /// Advances to the step that applies at `sent`.
    #[inline(never)]
    fn seek(&mut self, sent: Timestamp) {
        while self.delay.steps.get(self.next).is_some_and(|&(from, _)| from <= sent) {
            self.next += 1;
        }
        self.next_at = self.delay.steps.get(self.next).map_or(Timestamp::MAX, |&(from, _)| from);
        self.current = self.delay.steps.get(self.next - 1).map_or(TimeDelta::ZERO, |&(_, delay)| delay);
    }

    /// Whether a packet may arrive before one that was sent earlier.
    pub(super) fn may_reorder(&self) -> bool {
        self.reorder && self.jitter.is_some()
    }

    /// Arrival time of a packet whose transmission ended at `sent` and took `serialisation`.
    ///
    /// Without reordering this is NR-BPDV of RFC 8868 §4.5: a packet that would overtake arrives one serialisation time
    /// after the packet before it. Times here are those of the last bit, so the serialisation time is that of this packet;
    /// the RFC uses the first bit and the preceding packet.
    #[inline]
    pub(super) fn arrival(&mut self, sent: Timestamp, serialisation: TimeDelta) -> Timestamp {
        if sent >= self.next_at {
            self.seek(sent);
        }
        let arrival = sent + self.current;
        if let Some(jitter) = self.jitter {
            return self.delayed(arrival, jitter, serialisation);
        }
        self.latest = self.latest.max(arrival);
        self.latest
    }

    #[inline(never)]
    fn delayed(&mut self, arrival: Timestamp, jitter: Jitter, serialisation: TimeDelta) -> Timestamp {
        let arrival = arrival + jitter.draw(&mut self.random);
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
    use crate::{
        random,
        testing::{at, mean},
    };

    fn arrivals(jitter: Option<Jitter>, reorder: bool) -> Vec<(Timestamp, Timestamp)> {
        let delay = DelayProfile::from(TimeDelta::from_millis(50));
        let mut propagation = Propagation::new(delay, jitter, reorder, random::stream(1, "jitter"));
        (1..20_000)
            .map(|k| {
                let sent = at(k);
                (sent, propagation.arrival(sent, TimeDelta::from_micros(100)))
            })
            .collect()
    }

    #[test]
    fn rfc_8868_jitter_has_the_mean_of_a_folded_gaussian() {
        let arrivals = arrivals(Some(Jitter::RFC8868), true).into_iter();
        let jitters: Vec<f64> = arrivals.map(|(sent, arrived)| (arrived - sent).as_millis() - 50.0).collect();
        let mean = mean(&jitters);
        // E|N(0, 5²)| = 5·sqrt(2/π) = 3.989; the truncation at 3 standard deviations subtracts 0.004.
        assert!((3.93..4.04).contains(&mean), "{mean}");
        assert!(jitters.iter().all(|jitter| (0.0..=15.0).contains(jitter)));
        assert!(jitters.iter().any(|&jitter| jitter > 14.99) && jitters.iter().any(|&jitter| jitter < 0.01));
    }

    #[test]
    fn without_reordering_packets_keep_order_and_spacing() {
        let ordered = arrivals(Some(Jitter::RFC8868), false);
        let gaps = || ordered.windows(2).map(|pair| pair[1].1 - pair[0].1);
        assert!(gaps().all(|gap| gap >= TimeDelta::from_micros(100)));
        assert!(gaps().any(|gap| gap == TimeDelta::from_micros(100)));
        let reordered = arrivals(Some(Jitter::RFC8868), true);
        assert!(reordered.windows(2).any(|pair| pair[1].1 < pair[0].1));
        // Never earlier than with the jitter alone.
        assert!(ordered.iter().zip(&reordered).all(|(ordered, drawn)| ordered.1 >= drawn.1));
    }

    #[test]
    fn a_decreasing_delay_does_not_reorder() {
        let steps = vec![(at(0), TimeDelta::from_millis(100)), (at(10), TimeDelta::from_millis(20))];
        let delay = DelayProfile::steps(steps).unwrap();
        let mut propagation = Propagation::new(delay, None, false, random::stream(1, "none"));
        for (sent, arrival) in [(9, 109), (10, 109), (100, 120)] {
            assert_eq!(propagation.arrival(at(sent), TimeDelta::ZERO), at(arrival));
        }
    }

    #[test]
    fn rejects_invalid_delays() {
        let ms = TimeDelta::from_millis;
        assert_eq!(DelayProfile::steps(vec![]), Err(DelayError::Empty));
        assert!(DelayProfile::steps(vec![(at(0), ms(-1))]).is_err());
        assert!(DelayProfile::steps(vec![(at(5), ms(1)), (at(5), ms(1))]).is_err());
        assert!(Jitter::TruncatedGaussian { std: ms(5), bound: 0.0 }.check().is_err());
        assert!(Jitter::RFC8868.check().is_ok());
    }
}
