//! The limits of a stream.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::wire::{StreamLimit, StreamRequest};

/// The limits of one stream. Default: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamLimits {
    /// Streams that announce a higher rate, or none, are rejected; streams whose payload is faster are ended.
    pub rate: Option<DataRate>,
    /// Streams that carry more payload are ended.
    pub size: Option<DataSize>,
    /// Streams end after this time.
    pub lifetime: Option<TimeDelta>,
}

/// How much a stream has used of the receiver. Copies of datagrams are not counted, so that a replay
/// does not end a stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    opened: Timestamp,
    total: DataSize,
    /// Bytes beyond the maximum rate, as in a leaky bucket, at `drained`.
    excess: f64,
    drained: Timestamp,
    /// The present window, and what came in it.
    window: (Timestamp, DataSize),
    /// The rate of the window before, in bit/s.
    before_bps: Option<f64>,
}

impl Usage {
    /// The length of a window: also the time for which a new stream keeps its slot in any case.
    const WINDOW: TimeDelta = TimeDelta::from_seconds(2);
    /// What a sender that was delayed may catch up at once, in seconds of the maximum rate. As long as the time after which a
    /// stream is idle, by default.
    const CATCH_UP_S: f64 = 5.0;
    /// The same in bytes: some datagrams at any rate.
    const CATCH_UP_BYTES: f64 = 262_144.0;
    /// Clocks and rounding: two clocks differ by less than 200 ppm, a fixed size by less than a percent from the rate.
    const TOLERANCE: f64 = 1.01;
    /// A stream below this share of its announced rate may lose its slot.
    const NEEDED_SHARE: f64 = 0.1;
    /// Streams that announce less, or nothing, are judged as if they announced this.
    const LOWEST_ANNOUNCED_BPS: f64 = 8_000.0;

    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            opened: now,
            total: DataSize::ZERO,
            excess: 0.0,
            drained: now,
            window: (now, DataSize::ZERO),
            before_bps: None,
        }
    }

    pub(super) fn add(&mut self, now: Timestamp, size: DataSize) {
        self.total += size;
        self.excess += size.as_bytes() as f64;
        if now.saturating_since(self.window.0) >= Self::WINDOW {
            self.before_bps = self.recent_bps(now);
            self.window = (now, DataSize::ZERO);
        }
        self.window.1 += size;
    }

    /// The limit that the stream has passed, if any.
    pub(super) fn exceeded(&mut self, now: Timestamp, limits: &StreamLimits) -> Option<StreamLimit> {
        if limits.size.is_some_and(|limit| self.total > limit) {
            return Some(StreamLimit::Size);
        }
        if self.ends_at(limits).is_some_and(|end| now >= end) {
            return Some(StreamLimit::Lifetime);
        }
        let bytes_per_s = limits.rate?.as_bps() as f64 / 8.0 * Self::TOLERANCE;
        let drained = now.saturating_since(self.drained).as_seconds() * bytes_per_s;
        self.drained = self.drained.max(now);
        self.excess = (self.excess - drained).max(0.0);
        let is_faster = self.excess > bytes_per_s * Self::CATCH_UP_S + Self::CATCH_UP_BYTES;
        is_faster.then_some(StreamLimit::Rate)
    }

    /// When its lifetime ends.
    pub(super) fn ends_at(&self, limits: &StreamLimits) -> Option<Timestamp> {
        limits.lifetime.map(|lifetime| self.opened + lifetime)
    }

    /// The share of its announced rate at which a stream comes that does not need its slot; `None` if it needs it.
    pub(super) fn unneeded(&self, now: Timestamp, request: Option<&StreamRequest>) -> Option<f64> {
        let announced = request.and_then(|request| request.rate_bps).unwrap_or(0) as f64;
        let share = self.recent_bps(now)? / announced.max(Self::LOWEST_ANNOUNCED_BPS);
        (share < Self::NEEDED_SHARE).then_some(share)
    }

    /// The rate of the last complete window, in bit/s; `None` while the first one lasts.
    pub(super) fn recent_bps(&self, now: Timestamp) -> Option<f64> {
        let (since, size) = self.window;
        let passed = now.saturating_since(since);
        if passed < Self::WINDOW {
            return self.before_bps;
        }
        Some(size.as_bytes() as f64 * 8.0 / passed.as_seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_stream_at_the_maximum_rate_goes_on_and_a_faster_one_ends() {
        // 800 kbit/s are 100 bytes a millisecond.
        let limits = StreamLimits { rate: Some(DataRate::from_bps(800_000)), ..StreamLimits::default() };
        let ends_at = |bytes_per_ms: u64, stall_ms: u64| {
            let mut usage = Usage::new(at(0));
            (0..600_000_u64).find(|&ms| {
                // The sender is stopped at 60 s, and then sends what it owes at once.
                let bytes = match ms.checked_sub(60_000) {
                    Some(passed) if passed < stall_ms => 0,
                    Some(passed) if passed == stall_ms => bytes_per_ms * (stall_ms + 1),
                    _ => bytes_per_ms,
                };
                usage.add(at(ms), DataSize::from_bytes(bytes));
                usage.exceeded(at(ms), &limits).is_some()
            })
        };
        assert_eq!(ends_at(100, 0), None);
        assert_eq!(ends_at(100, 5_000), None, "a delayed sender catches up");
        // 505 kB and 262 kB above the rate of 101 bytes a millisecond.
        let ms = ends_at(200, 0).unwrap();
        assert!((7_700..7_800).contains(&ms), "{ms}");
        // Fast after an idle minute: no more than the same.
        assert!(ends_at(100, 20_000).is_some_and(|ms| ms == 80_000));
    }

    #[test]
    fn a_slot_is_needed_at_a_tenth_of_the_announced_rate() {
        let needed = |bytes_per_s: u64, until_ms: u64, now_ms: u64| {
            let mut usage = Usage::new(at(0));
            for ms in (0..until_ms).step_by(100) {
                usage.add(at(ms), DataSize::from_bytes(bytes_per_s / 10));
            }
            usage.unneeded(at(now_ms), None).is_none()
        };
        // Nothing announced: a tenth of 8 kbit/s are 100 bytes a second.
        assert!(needed(110, 10_000, 10_000) && !needed(90, 10_000, 10_000));
        assert!(needed(0, 1_000, 1_999), "a new stream keeps its slot");
        assert!(!needed(0, 1_000, 2_000));
        assert!(!needed(1_000, 2_000, 60_000), "what it sent long ago does not count");
    }
}
