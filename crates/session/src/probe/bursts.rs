//! Bursts and gaps of packets that were lost or discarded (RFC 3611 §4.7.2).

use std::collections::VecDeque;

/// A packet may be this many behind the newest one and still count as received.
const WINDOW: u64 = 64;

/// Bursts and gaps since the beginning of a stream.
///
/// A burst begins and ends with a missing packet, has at least two, and fewer than [`GMIN`](Self::GMIN) others between two missing
/// ones. All other packets are in gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BurstMetrics {
    /// Bursts.
    pub(super) bursts: u64,
    /// Packets in them.
    pub(super) burst_packets: u64,
    /// Packets missing in them.
    pub(super) burst_missing: u64,
    /// Gaps.
    pub(super) gaps: u64,
    /// Packets in them.
    pub(super) gap_packets: u64,
    /// Packets missing in them.
    pub(super) gap_missing: u64,
}

impl BurstMetrics {
    /// The number of packets in a row that ends a burst: the value that RFC 3611 §4.7.2 recommends.
    pub(super) const GMIN: u8 = 16;
}

/// Finds the bursts of a stream, with bounded work for each packet.
#[derive(Debug, Clone, Default)]
pub(super) struct BurstCounter {
    /// Packets before the window.
    settled: u64,
    /// The packets from there on: whether each is there.
    window: VecDeque<bool>,
    missing: u64,
    /// The latest missing packets that may be a burst: the first, the last, and how many.
    open: Option<(u64, u64, u64)>,
    bursts: u64,
    burst_packets: u64,
    burst_missing: u64,
    /// Where the latest burst ended, and whether the first one began with the stream.
    burst_end: u64,
    begins_with_burst: bool,
}

impl BurstCounter {
    /// The packet with this ordinal was there in time.
    pub(super) fn on_packet(&mut self, ordinal: u64) {
        let Some(place) = ordinal.checked_sub(self.settled) else { return };
        // After a long gap only its end is in the window.
        for _ in WINDOW..=place {
            let Some(is_there) = self.window.pop_front() else {
                self.settle_missing(ordinal - (WINDOW - 1) - self.settled);
                break;
            };
            self.settle(is_there);
        }
        let place = usize::try_from(ordinal - self.settled).unwrap_or(0);
        while self.window.len() <= place {
            self.window.push_back(false);
        }
        if let Some(is_there) = self.window.get_mut(place) {
            *is_there = true;
        }
    }

    /// The bursts and gaps of a stream of `expected` packets.
    pub(super) fn metrics(&self, expected: u64) -> BurstMetrics {
        let mut all = self.clone();
        for is_there in std::mem::take(&mut all.window) {
            all.settle(is_there);
        }
        all.settle_missing(expected.saturating_sub(all.settled));
        all.close();
        let gaps = if all.bursts == 0 {
            u64::from(all.settled > 0)
        } else {
            all.bursts - 1 + u64::from(!all.begins_with_burst) + u64::from(all.burst_end < all.settled)
        };
        BurstMetrics {
            bursts: all.bursts,
            burst_packets: all.burst_packets,
            burst_missing: all.burst_missing,
            gaps,
            gap_packets: all.settled - all.burst_packets,
            gap_missing: all.missing - all.burst_missing,
        }
    }

    fn settle(&mut self, is_there: bool) {
        if is_there {
            self.settled += 1;
        } else {
            self.settle_missing(1);
        }
    }

    /// The next `count` packets are missing.
    fn settle_missing(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        let first = self.settled;
        self.settled += count;
        self.missing += count;
        let last = self.settled - 1;
        match &mut self.open {
            Some((_, end, missing)) if first - *end <= u64::from(BurstMetrics::GMIN) => {
                *end = last;
                *missing += count;
            }
            _ => {
                self.close();
                self.open = Some((first, last, count));
            }
        }
    }

    /// The open burst has ended, if it is one.
    fn close(&mut self) {
        if let Some((first, last, missing)) = self.open.take().filter(|(.., missing)| *missing > 1) {
            self.begins_with_burst |= first == 0;
            self.bursts += 1;
            self.burst_packets += last + 1 - first;
            self.burst_missing += missing;
            self.burst_end = last + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> BurstMetrics {
        let mut counter = BurstCounter::default();
        let pattern: Vec<_> = pattern.chars().collect();
        for (ordinal, _) in pattern.iter().enumerate().filter(|(_, packet)| **packet == '1') {
            counter.on_packet(ordinal as u64);
        }
        counter.metrics(pattern.len() as u64)
    }

    /// RFC 3611 §4.7.2: "Received 1111 0111 … (X lost or discarded)" with 10 ms packets and Gmin 16.
    #[test]
    fn the_example_of_the_rfc_is_reproduced() {
        let all = of(&"11110111111111111111111X111X1011110111111111111111111X111111111".replace('X', "0"));
        assert_eq!((all.bursts, all.burst_packets, all.burst_missing), (1, 12, 4), "{all:?}");
        assert_eq!((all.gaps, all.gap_packets, all.gap_missing), (2, 51, 2), "{all:?}");
    }

    #[test]
    fn bursts_end_after_sixteen_packets_in_a_row() {
        let row = |count| "1".repeat(count);
        let near = of(&format!("{}0{}0{}", row(20), row(15), row(20)));
        assert_eq!((near.bursts, near.burst_packets, near.burst_missing, near.gaps), (1, 17, 2, 2));
        let far = of(&format!("{}0{}0{}", row(20), row(16), row(20)));
        assert_eq!((far.bursts, far.gaps, far.gap_packets, far.gap_missing), (0, 1, 58, 2));
        let ends = of(&format!("00{}000", row(100)));
        assert_eq!((ends.bursts, ends.burst_packets, ends.gaps, ends.gap_packets), (2, 5, 1, 100));
        assert_eq!(of(""), BurstMetrics::default());
        let long = of(&format!("1{}1", "0".repeat(1_000)));
        assert_eq!((long.bursts, long.burst_missing, long.gaps, long.gap_packets), (1, 1_000, 2, 2));
    }

    #[test]
    fn reordered_packets_are_there() {
        let mut counter = BurstCounter::default();
        for ordinal in [0, 3, 2, 1, 70, 8, 6, u64::MAX / 2] {
            counter.on_packet(ordinal);
        }
        let all = counter.metrics(0);
        // 8 was in the window, 6 was not.
        assert_eq!(all.burst_missing + all.gap_missing, u64::MAX / 2 + 1 - 7);
        assert_eq!(all.burst_packets + all.gap_packets, u64::MAX / 2 + 1);
    }
}
