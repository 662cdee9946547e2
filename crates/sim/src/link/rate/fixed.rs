//! A constant rate, whose rounding errors do not accumulate.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::WORK_PER_BYTE;

/// A line of constant rate. Its packets have at most 2^30 bytes.
#[derive(Debug, Clone)]
pub(super) struct FixedRate {
    /// In bit/s, above 0.
    rate: u64,
    /// Work left over from rounding up the end of the last transmission.
    credit: u64,
    free_at: Timestamp,
}

impl FixedRate {
    pub(super) fn new(rate: DataRate) -> Self {
        Self { rate: rate.as_bps(), credit: 0, free_at: Timestamp::ZERO }
    }

    pub(super) fn rate(&self) -> DataRate {
        DataRate::from_bps(self.rate)
    }

    /// Transmits a packet from `now` on, or when the one before has left. Returns the end.
    #[inline]
    pub(super) fn transmit(&mut self, now: Timestamp, bytes: u32) -> Timestamp {
        let start = self.free_at.max(now);
        let (work, spare) = work(bytes, if start == self.free_at { self.credit } else { 0 });
        let nanos = work.div_ceil(self.rate);
        self.credit = nanos * self.rate - work + spare;
        self.free_at = start + TimeDelta::from_nanos(nanos as i64);
        self.free_at
    }
}

/// The work to transmit a packet of `bytes` if `saved` was done before, and what is left of `saved`. A rounding error is saved only
/// if there was no pause; it exceeds the work of a packet only if packets take less than a nanosecond.
#[inline]
pub(super) fn work(bytes: u32, saved: u64) -> (u64, u64) {
    let whole = u64::from(bytes) * WORK_PER_BYTE;
    (whole.saturating_sub(saved), saved.saturating_sub(whole))
}
