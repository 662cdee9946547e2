//! Token-bucket policer in front of a tail-drop queue.

use super::prelude::*;

/// Work of a byte, in bit·ns/s, so that the tokens of a whole number of nanoseconds are a whole number.
const WORK_PER_BYTE: u128 = 8 * 1_000_000_000;

/// Configuration of a [`Policer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicerConfig {
    /// Token rate, above 0 bit/s.
    pub rate: DataRate,
    /// Size of the bucket, above 0 B. It is full at the start.
    pub burst: DataSize,
    /// Capacity of the queue behind it. Default: 1000 packets, our choice.
    pub limit: Limit,
}

impl PolicerConfig {
    /// A policer with the default queue behind it.
    pub const fn new(rate: DataRate, burst: DataSize) -> Self {
        Self { rate, burst, limit: Limit::Packets(1000) }
    }
}

impl Discipline for PolicerConfig {
    discipline!("policer", |config, _random| Policer::new(config));

    /// Rate and size of the bucket: `policer, 5 Mbit/s, burst 30 kB`.
    fn describe(&self) -> String {
        format!("{}, {}, burst {}", self.name(), self.rate, self.burst)
    }

    fn validate(&self) -> Result<(), QueueError> {
        let check = Check(self.name());
        check.positive_rate("rate", self.rate)?;
        check.positive_size("burst", self.burst)
    }
}

/// Drops each arriving packet for which there are too few tokens, as policers of access networks do (Flach et al., "An
/// Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016, §2.1). Packets never wait for tokens. Those with tokens enter a FIFO with
/// tail drop.
///
/// A token bucket that lets packets wait is a rate of the link:
/// [`RateProfile::TokenBucket`](crate::link::rate::RateProfile::TokenBucket).
pub type Policer = FifoQueue<Bucket>;

/// The law of a [`Policer`].
#[derive(Debug)]
pub struct Bucket {
    config: PolicerConfig,
    /// Tokens at `at`, in bit·ns/s.
    tokens: u128,
    at: Timestamp,
}

impl Policer {
    /// Creates an empty queue behind a full bucket. With [`Limit::Time`] it admits no packet until [`Queue::on_rate`] has been called.
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] if a rate or a size is zero.
    pub fn new(config: PolicerConfig) -> Result<Self, QueueError> {
        config.validate()?;
        let tokens = work(config.burst);
        Ok(Self::of(Bucket { config, tokens, at: Timestamp::ZERO }, config.limit))
    }
}

impl Bucket {
    /// Takes the tokens of `size`, if there are enough.
    fn take(&mut self, now: Timestamp, size: DataSize) -> bool {
        let elapsed =
            u128::from(now.saturating_since(self.at).max(TimeDelta::ZERO).as_nanos().unsigned_abs());
        let filled = self.tokens.saturating_add(elapsed * u128::from(self.config.rate.as_bps()));
        self.tokens = filled.min(work(self.config.burst));
        self.at = self.at.max(now);
        let left = self.tokens.checked_sub(work(size));
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}

fn work(size: DataSize) -> u128 {
    u128::from(size.as_bytes()) * WORK_PER_BYTE
}

impl Law for Bucket {
    fn arrive(&mut self, now: Timestamp, packet: Packet, fifo: &mut Fifo, drops: &mut Vec<Dropped>) {
        if fifo.admits(&packet) && self.take(now, packet.size()) {
            fifo.push(now, packet);
        } else {
            drops.push(Dropped { packet, reason: DropReason::Overflow });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(policer: &mut Policer, millis: u64, bytes: u32) -> bool {
        let (now, mut drops) = (Timestamp::from_nanos(millis * 1_000_000), Vec::new());
        policer.enqueue(now, Packet { bytes, ..Packet::default() }, &mut drops);
        policer.dequeue(now, &mut drops).is_some() && drops.is_empty()
    }

    #[test]
    fn a_packet_without_tokens_is_dropped_and_costs_none() {
        // 1000 B of tokens each millisecond, at most 2500 B.
        let config = PolicerConfig::new(DataRate::from_bps(8_000_000), DataSize::from_bytes(2500));
        let mut policer = Policer::new(config).unwrap();
        let passed = [0, 0, 0, 1, 1, 1].map(|at| offer(&mut policer, at, 1000));
        assert_eq!(passed, [true, true, false, true, false, false]);
        // 500 B were left and 1000 B come in each millisecond: full after two, and no fuller after a minute.
        let passed = [60_000; 4].map(|at| offer(&mut policer, at, 1000));
        assert_eq!(passed, [true, true, false, false]);
        // A packet above the size of the bucket never passes.
        assert!(!offer(&mut policer, 120_000, 2501));
        assert!(offer(&mut policer, 120_000, 2500));
    }

    #[test]
    fn it_carries_its_rate_in_the_long_term() {
        let config = PolicerConfig::new(DataRate::from_bps(3_000_000), DataSize::from_bytes(15_000));
        let mut policer = Policer::new(config).unwrap();
        // Twice the rate for ten seconds: 1000 B in each millisecond and a third.
        let passed = (0..7500).filter(|packet| offer(&mut policer, packet * 4 / 3, 1000)).count();
        // 3.75 MB and the first burst.
        assert!((3749..=3766).contains(&passed), "{passed}");
    }
}
