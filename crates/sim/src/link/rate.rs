//! Link rates: how a rate changes over time, and how much it carries.

mod fixed;
mod opportunities;
mod steps;
mod token_bucket;
mod transmitter;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use steps::Segments;
pub use token_bucket::TokenBucket;
pub use transmitter::Transmitter;

/// Work to transmit one byte, in bit·ns/s, so that `work / rate` is a time in nanoseconds.
const WORK_PER_BYTE: u64 = 8_000_000_000;

/// The rate of a link over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateProfile {
    /// Unlimited rate: transmission takes no time.
    Unlimited,
    /// Constant rate, above 0.
    Fixed(DataRate),
    /// A step function of time, repeated with an optional period. Before the first step, the first rate applies.
    ///
    /// A rate of 0 is an outage: the transmission under way pauses and continues when the outage ends, and packets wait in the
    /// queue.
    Steps {
        /// Times, strictly increasing, and rates. A rate above 0 must follow each rate of 0.
        steps: Vec<(Timestamp, DataRate)>,
        /// Period, longer than the last time.
        period: Option<TimeDelta>,
    },
    /// Delivery opportunities of a fixed number of bytes, repeated with the time of the last one as the period: the traces
    /// of Mahimahi (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015, §4; its `mm-link`
    /// manual).
    Opportunities {
        /// Times since the start, in order; the last one is the period.
        at: Vec<Timestamp>,
        /// Bytes per opportunity, above 0; Mahimahi: 1504.
        bytes: u32,
    },
    /// A token-bucket shaper: bursts at the peak rate, the token rate in the long term.
    TokenBucket(TokenBucket),
}

/// An invalid [`RateProfile`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// A rate is zero.
    #[error("rate must be above 0 bit/s, found \"{rate}\": leave the link out, or give a loss of 1")]
    Zero {
        /// The rate.
        rate: DataRate,
    },
    /// The last rate is zero and nothing follows.
    #[error("rate is 0 bit/s for ever from {from} on: end the outage with a later rate above 0 bit/s")]
    Ends {
        /// The time of the last rate.
        from: Timestamp,
    },
    /// The bucket holds no token.
    #[error("burst must be at least 1 B, found \"{burst}\": a packet or more is usual")]
    Burst {
        /// The size of the bucket.
        burst: DataSize,
    },
    /// The peak rate does not exceed the token rate.
    #[error(
        "the peak rate must be above the token rate, {rate}, found \"{peak}\": raise it, or leave it out"
    )]
    Peak {
        /// The token rate.
        rate: DataRate,
        /// The peak rate.
        peak: DataRate,
    },
    /// The list of rates or opportunities is empty.
    #[error("no rates: give at least one time and its rate")]
    Empty,
    /// Times are not increasing.
    #[error("each time must be later than the one before, found {after} behind {before}: sort by time")]
    Backwards {
        /// The earlier entry.
        before: Timestamp,
        /// The later entry.
        after: Timestamp,
    },
    /// The period is not longer than the last time, or an opportunity has no bytes.
    #[error(
        "it repeats after {period}: the period must be above 0 and longer than the last time, and opportunities must have bytes"
    )]
    NoPeriod {
        /// The period.
        period: TimeDelta,
    },
}

impl RateProfile {
    /// Checks that the rate is not zero for ever and that all times are in order.
    ///
    /// # Errors
    ///
    /// [`RateError`] names the first problem.
    pub fn check(&self) -> Result<(), RateError> {
        match self {
            Self::Unlimited => Ok(()),
            Self::Fixed(rate) => above_zero(*rate),
            Self::Steps { steps, period } => {
                let last = in_order(steps.iter().map(|&(at, _)| at), true)?;
                above_zero(steps.iter().map(|&(_, rate)| rate).max().unwrap_or_default())?;
                match period {
                    None if steps.last().is_some_and(|&(_, rate)| rate == DataRate::ZERO) => {
                        Err(RateError::Ends { from: last })
                    }
                    Some(period) if *period <= last - Timestamp::ZERO => {
                        Err(RateError::NoPeriod { period: *period })
                    }
                    _ => Ok(()),
                }
            }
            Self::Opportunities { at, bytes } => {
                let last = in_order(at.iter().copied(), false)?;
                if last == Timestamp::ZERO || *bytes == 0 {
                    return Err(RateError::NoPeriod { period: last - Timestamp::ZERO });
                }
                Ok(())
            }
            Self::TokenBucket(bucket) => bucket.check(),
        }
    }

    /// Capacity in bytes from the start until `end`; `None` if unlimited. That of a token bucket includes its first burst.
    pub fn capacity(&self, end: Timestamp) -> Option<DataSize> {
        Some(DataSize::from_bytes((self.work_until(end)? / u128::from(WORK_PER_BYTE)) as u64))
    }

    /// Capacity in bits from `from` until `to`; `None` if unlimited. An opportunity at `from` counts, one at `to` does not.
    pub fn bits_between(&self, from: Timestamp, to: Timestamp) -> Option<f64> {
        let work_before = |time: Timestamp| match (self, time.as_nanos().checked_sub(1)) {
            (Self::Opportunities { .. }, None) => Some(0),
            (Self::Opportunities { .. }, Some(before)) => self.work_until(Timestamp::from_nanos(before)),
            _ => self.work_until(time),
        };
        let work = work_before(to)?.saturating_sub(work_before(from)?);
        Some(work as f64 / (WORK_PER_BYTE / 8) as f64)
    }

    /// Capacity from the start until `end`, in bit·ns/s; `None` if unlimited.
    fn work_until(&self, end: Timestamp) -> Option<u128> {
        Some(match self {
            Self::Unlimited => return None,
            Self::Fixed(rate) => u128::from(rate.as_bps()) * u128::from(end.as_nanos()),
            Self::Steps { steps, period } => {
                let mut segments = Segments::new(steps.clone(), *period);
                let (mut sum, mut now) = (0, Timestamp::ZERO);
                while now < end {
                    segments.seek(now);
                    let until = segments.until.min(end);
                    sum += u128::from(segments.rate.as_bps())
                        * u128::from((until - now).as_nanos().unsigned_abs());
                    now = until;
                }
                sum
            }
            Self::Opportunities { at, bytes } => {
                let period = opportunities::period(at);
                let (rounds, rest) = (end.as_nanos() / period, end.as_nanos() % period);
                let partial = at.partition_point(|moment| moment.as_nanos() <= rest);
                let count = u128::from(rounds) * at.len() as u128 + partial as u128;
                count * u128::from(*bytes) * u128::from(WORK_PER_BYTE)
            }
            Self::TokenBucket(bucket) => bucket.work_until(end),
        })
    }
}

fn above_zero(rate: DataRate) -> Result<(), RateError> {
    if rate == DataRate::ZERO { Err(RateError::Zero { rate }) } else { Ok(()) }
}

/// Checks the order and returns the last time.
fn in_order(moments: impl Iterator<Item = Timestamp>, strictly: bool) -> Result<Timestamp, RateError> {
    let mut before = None;
    for after in moments {
        if let Some(before) = before.filter(|&before| after < before || strictly && after == before) {
            return Err(RateError::Backwards { before, after });
        }
        before = Some(after);
    }
    before.ok_or(RateError::Empty)
}

#[cfg(test)]
mod tests;
