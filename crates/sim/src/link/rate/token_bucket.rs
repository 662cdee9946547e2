//! Token-bucket shaper.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{RateError, WORK_PER_BYTE, above_zero, fixed::FixedRate};

/// A token-bucket shaper: tokens for bytes accumulate at `rate` up to `burst`, and a packet takes as many as it has bytes.
///
/// A packet without enough tokens waits, as with `tc-tbf(8)` of Linux; it is not dropped, as a policer would. It leaves when the
/// tokens cover its last byte and the peak rate has carried it. A packet larger than `burst` leaves at the token rate. The bucket
/// is full at the start. The packet that waits for tokens counts as in transmission, those behind it wait in the queue.
///
/// In any interval of length *t* the link carries at most `burst + rate · t` bytes, and one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Token rate, above 0: the rate in the long term.
    pub rate: DataRate,
    /// Size of the bucket, at least 1 B.
    pub burst: DataSize,
    /// Rate of transmission while there are tokens, above `rate`. `None`: transmission takes no time.
    pub peak: Option<DataRate>,
}

impl TokenBucket {
    /// Checks the ranges.
    pub(super) fn check(&self) -> Result<(), RateError> {
        let Self { rate, burst, peak } = *self;
        above_zero(rate)?;
        if burst == DataSize::ZERO {
            return Err(RateError::Burst { burst });
        }
        match peak {
            Some(peak) if peak <= rate => Err(RateError::Peak { rate, peak }),
            _ => Ok(()),
        }
    }

    /// The most work that can be done from the start until `end`, in bit·ns/s.
    pub(super) fn work_until(&self, end: Timestamp) -> u128 {
        if end == Timestamp::ZERO {
            return 0;
        }
        let at = |rate: DataRate| u128::from(rate.as_bps()) * u128::from(end.as_nanos());
        let tokens = work(self.burst).saturating_add(at(self.rate));
        self.peak.map_or(tokens, |peak| tokens.min(at(peak)))
    }
}

fn work(size: DataSize) -> u128 {
    u128::from(size.as_bytes()) * u128::from(WORK_PER_BYTE)
}

/// The state of a token bucket.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    config: TokenBucket,
    /// Tokens at `at`, in bit·ns/s, so that their rate is a whole number.
    tokens: u128,
    at: Timestamp,
    /// The wire at the peak rate.
    wire: Option<FixedRate>,
}

impl Bucket {
    pub(super) fn new(config: TokenBucket) -> Self {
        let wire = config.peak.map(FixedRate::new);
        Self { tokens: work(config.burst), config, at: Timestamp::ZERO, wire }
    }

    pub(super) fn rate(&self) -> DataRate {
        self.config.rate
    }

    /// Adds the tokens since the last call.
    fn fill(&mut self, now: Timestamp) {
        let elapsed = u128::from(now.saturating_since(self.at).as_nanos().unsigned_abs());
        self.tokens = self.tokens.saturating_add(elapsed * u128::from(self.config.rate.as_bps()));
        self.at = self.at.max(now);
    }

    /// Transmits `bytes` from `start` on, when the packet before has left. Returns the end.
    pub(super) fn transmit(&mut self, start: Timestamp, bytes: u32) -> Timestamp {
        self.fill(start);
        self.tokens = self.tokens.min(work(self.config.burst));
        let whole = work(DataSize::from_bytes(bytes.into()));
        let missing = whole.saturating_sub(self.tokens);
        let wait = missing.div_ceil(u128::from(self.config.rate.as_bps()).max(1));
        let covered = start + TimeDelta::from_nanos(i64::try_from(wait).unwrap_or(i64::MAX));
        let carried = self.wire.as_mut().map_or(start, |wire| wire.transmit(start, bytes));
        let end = carried.max(covered);
        // The bucket does not overflow while it is being emptied, unless the peak rate is close to the token rate.
        self.fill(end);
        self.tokens = self.tokens.saturating_sub(whole).min(work(self.config.burst));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::rate::{RateProfile, Transmitter};

    fn transmitter(bps: u64, burst: u64, peak: Option<u64>) -> Transmitter {
        let peak = peak.map(DataRate::from_bps);
        let bucket = TokenBucket { rate: DataRate::from_bps(bps), burst: DataSize::from_bytes(burst), peak };
        Transmitter::new(&RateProfile::TokenBucket(bucket)).unwrap()
    }

    fn ends(transmitter: &mut Transmitter, from: u64, sizes: &[u32]) -> Vec<u64> {
        let send = |&bytes| transmitter.transmit(Timestamp::from_nanos(from), bytes).as_nanos();
        sizes.iter().map(send).collect()
    }

    #[test]
    fn a_full_bucket_passes_a_burst_and_then_its_rate() {
        // 1000 B take 1 ms at 8 Mbit/s. The bucket holds two and a half.
        let mut shaper = transmitter(8_000_000, 2500, None);
        assert_eq!(ends(&mut shaper, 0, &[1000; 5]), [0, 0, 500_000, 1_500_000, 2_500_000]);
        // It is full again 2.5 ms later, and no fuller after a minute.
        assert_eq!(ends(&mut shaper, 5_000_000, &[1000; 3]), [5_000_000, 5_000_000, 5_500_000]);
        let minute = 60_000_000_000;
        assert_eq!(ends(&mut shaper, minute, &[1000; 3]), [minute, minute, minute + 500_000]);
        // A packet larger than the bucket leaves at the token rate: 2500 B at once, 2500 B in 2.5 ms.
        assert_eq!(ends(&mut shaper, 2 * minute, &[5000]), [2 * minute + 2_500_000]);
    }

    #[test]
    fn the_peak_rate_bounds_a_burst() {
        // 1000 B take 0.25 ms at the peak rate, in which 250 B of tokens arrive.
        let mut shaper = transmitter(8_000_000, 2500, Some(32_000_000));
        // Tokens after each: 1750, 1000, 250, then 0: 2500 + t · 1000 B/ms = 4000 B at 1.5 ms.
        assert_eq!(ends(&mut shaper, 0, &[1000; 5]), [250_000, 500_000, 750_000, 1_500_000, 2_500_000]);
    }

    #[test]
    fn rounding_errors_do_not_accumulate() {
        // 1000 B at 3 Mbit/s take 2 666 666.6… ns.
        let mut shaper = transmitter(3_000_000, 1000, None);
        let last = ends(&mut shaper, 0, &[1000; 3001]).pop();
        assert_eq!(last, Some(8_000_000_000));
    }

    #[test]
    fn an_interval_carries_at_most_the_burst_and_the_rate() {
        // Sizes and pauses from a fixed pattern, not random, so that a failure repeats.
        let (bps, burst) = (2_000_000, 9000);
        let mut shaper = transmitter(bps, burst, Some(50_000_000));
        let mut sent: Vec<(u64, u64)> = Vec::new();
        let mut now = 0;
        for number in 0_u64..400 {
            let bytes = 100 + number * 7919 % 1400;
            now += number * 104_729 % 9_000_000;
            sent.push((shaper.transmit(Timestamp::from_nanos(now), bytes as u32).as_nanos(), bytes));
        }
        let mut fullest = 0.0_f64;
        for first in 0..sent.len() {
            let mut sum = 0;
            for &(at, bytes) in &sent[first..] {
                sum += bytes;
                // The first packet ends at the beginning of the interval.
                let (begin, size) = sent[first];
                let allowed = burst as f64 + (at - begin) as f64 * bps as f64 / 8e9 + size as f64;
                fullest = fullest.max(sum as f64 / allowed);
            }
        }
        assert!((0.8..=1.0).contains(&fullest), "{fullest}");
    }

    #[test]
    fn rejects_invalid_buckets() {
        let rate = DataRate::from_bps(8_000_000);
        let bucket = TokenBucket { rate, burst: DataSize::from_bytes(1500), peak: None };
        for (invalid, reason) in [
            (TokenBucket { rate: DataRate::ZERO, ..bucket }, "rate must be above 0 bit/s"),
            (TokenBucket { burst: DataSize::ZERO, ..bucket }, "burst must be at least 1 B"),
            (TokenBucket { peak: Some(rate), ..bucket }, "must be above the token rate, 8 Mbit/s"),
        ] {
            let message = RateProfile::TokenBucket(invalid).check().unwrap_err().to_string();
            assert!(message.contains(reason), "{message}");
        }
        assert_eq!(RateProfile::TokenBucket(bucket).check(), Ok(()));
    }

    #[test]
    fn capacity_is_the_burst_and_the_rate_below_the_peak() {
        let rate = DataRate::from_bps(8_000_000);
        let peak = Some(DataRate::from_bps(16_000_000));
        let bucket = RateProfile::TokenBucket(TokenBucket { rate, burst: DataSize::from_bytes(3000), peak });
        let bytes =
            |millis: u64| bucket.capacity(Timestamp::from_nanos(millis * 1_000_000)).unwrap().as_bytes();
        assert_eq!([bytes(0), bytes(2), bytes(3), bytes(10)], [0, 4000, 6000, 13_000]);
        // Without a peak rate too, a window from the start has the first burst, and a later one what follows.
        let bucket =
            RateProfile::TokenBucket(TokenBucket { rate, burst: DataSize::from_bytes(3000), peak: None });
        let bits = |from, to| bucket.bits_between(Timestamp::from_nanos(from), Timestamp::from_nanos(to));
        assert_eq!([bits(0, 10_000_000), bits(10_000_000, 20_000_000)], [Some(104_000.0), Some(80_000.0)]);
    }
}
