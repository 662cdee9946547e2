//! Received rate, as libwebrtc's receiver measures it.

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// A bucket counts the bytes of one millisecond (libwebrtc, `rate_statistics.cc`).
const BUCKET: TimeDelta = TimeDelta::from_millis(1);
/// Maximum window, so that memory stays bounded.
const LONGEST_WINDOW: TimeDelta = TimeDelta::from_seconds(60);

/// Data received in the last window, divided by the window, or by the time since the first arrival while that
/// is shorter (libwebrtc, `rate_statistics.cc`).
///
/// Memory is one bucket per millisecond of the window, independent of the packets. An arrival earlier than
/// the latest one counts as if it came at the same time.
///
/// # Example
///
/// ```
/// use giusto_congestion::gcc::receive_side::IncomingRate;
/// use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
///
/// let mut rate = IncomingRate::new(TimeDelta::from_seconds(1));
/// let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
/// for packet in 0..100 {
///     rate.on_packet(at(packet * 20), DataSize::from_bytes(125));
/// }
/// assert_eq!(rate.rate(at(1999)), Some(DataRate::from_bps(50_000)));
/// ```
#[derive(Debug, Clone)]
pub struct IncomingRate {
    /// In milliseconds.
    window: u64,
    /// Time of the oldest arrival that the rate includes.
    since: Option<u64>,
    /// In order of time.
    buckets: VecDeque<Bucket>,
    sum: u64,
    packets: u64,
}

/// Data received in one millisecond.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    at: u64,
    bytes: u64,
    packets: u64,
}

impl IncomingRate {
    /// A meter with this `window`, between 1 ms and 60 s.
    pub fn new(window: TimeDelta) -> Self {
        let window = window.clamp(BUCKET, LONGEST_WINDOW);
        Self {
            window: (window.as_nanos() / BUCKET.as_nanos()).unsigned_abs(),
            since: None,
            buckets: VecDeque::new(),
            sum: 0,
            packets: 0,
        }
    }

    /// Handles the arrival of a packet of `size`.
    pub fn on_packet(&mut self, now: Timestamp, size: DataSize) {
        let now = self.latest(now);
        self.forget(now);
        if self.buckets.is_empty() {
            self.since = Some(now);
        }
        let bytes = size.as_bytes();
        match self.buckets.back_mut() {
            Some(bucket) if bucket.at == now => {
                bucket.bytes = bucket.bytes.saturating_add(bytes);
                bucket.packets += 1;
            }
            _ => self.buckets.push_back(Bucket { at: now, bytes, packets: 1 }),
        }
        self.sum = self.sum.saturating_add(bytes);
        self.packets += 1;
    }

    /// The rate at `now`; `None` if the window is empty, contains one packet in less than a full window, or
    /// spans at most one millisecond.
    pub fn rate(&mut self, now: Timestamp) -> Option<DataRate> {
        let now = self.latest(now);
        self.forget(now);
        let active = (now - self.since?).saturating_add(1).min(self.window);
        let too_little = self.packets == 0 || active <= 1 || self.packets <= 1 && active < self.window;
        let time = TimeDelta::from_millis(i64::try_from(active).unwrap_or(i64::MAX));
        if too_little { None } else { DataRate::of(DataSize::from_bytes(self.sum), time) }
    }

    /// Data received in the last window, divided by `time` however short the time since the first arrival is.
    pub(super) fn over(&mut self, now: Timestamp, time: TimeDelta) -> DataRate {
        let now = self.latest(now);
        self.forget(now);
        DataRate::of(DataSize::from_bytes(self.sum), time).unwrap_or_default()
    }

    /// The millisecond of `now`, or of the latest arrival if that is later.
    fn latest(&self, now: Timestamp) -> u64 {
        let now = now.as_nanos() / BUCKET.as_nanos().unsigned_abs();
        self.buckets.back().map_or(now, |latest| now.max(latest.at))
    }

    fn forget(&mut self, now: u64) {
        while let Some(&leaving) = self.buckets.front().filter(|bucket| now - bucket.at >= self.window) {
            self.buckets.pop_front();
            self.sum = self.sum.saturating_sub(leaving.bytes);
            self.packets = self.packets.saturating_sub(leaving.packets);
        }
        if self.buckets.is_empty() {
            (self.sum, self.packets, self.since) = (0, 0, None);
        }
    }
}
