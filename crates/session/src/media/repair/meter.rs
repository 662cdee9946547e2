//! Measures the rate of repair packets.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// Number of intervals in the window.
const INTERVALS: u64 = 10;
/// Width of an interval. The window is 1 s, as that of the sent rates in libwebrtc (`rtp_sender_egress.cc`).
const INTERVAL: TimeDelta = TimeDelta::from_millis(100);

/// The rate of packets over the last second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    bytes: [u64; INTERVALS as usize],
    /// The number of the latest interval.
    latest: u64,
}

impl Meter {
    pub(super) fn on_packet(&mut self, now: Timestamp, size: DataSize) {
        self.advance(now);
        if let Some(bytes) = self.bytes.get_mut((self.latest % INTERVALS) as usize) {
            *bytes += size.as_bytes();
        }
    }

    /// Bytes of the last second, over a second.
    pub(super) fn rate(&mut self, now: Timestamp) -> DataRate {
        self.advance(now);
        DataRate::from_bps(self.bytes.iter().sum::<u64>() * 8)
    }

    fn advance(&mut self, now: Timestamp) {
        let interval = now.as_nanos() / INTERVAL.as_nanos().unsigned_abs();
        for passed in (self.latest + 1..=interval).take(INTERVALS as usize) {
            if let Some(bytes) = self.bytes.get_mut((passed % INTERVALS) as usize) {
                *bytes = 0;
            }
        }
        self.latest = self.latest.max(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        let mut meter = Meter::default();
        assert_eq!(meter.rate(at(0)), DataRate::ZERO);
        for ms in 0..3000 {
            meter.on_packet(at(ms), DataSize::from_bytes(125));
        }
        // 1000 packets of 1000 bits, in ten intervals.
        assert_eq!(meter.rate(at(2999)), DataRate::from_bps(1_000_000));
        assert_eq!(meter.rate(at(3499)), DataRate::from_bps(500_000));
        assert_eq!(meter.rate(at(3900)), DataRate::ZERO);
        meter.on_packet(at(1_000_000), DataSize::from_bytes(125));
        assert_eq!(meter.rate(at(1_000_000)), DataRate::from_bps(1000));
    }
}
