//! Average loss interval (RFC 8698 §4.2, after RFC 5348 §5.4).

use alloc::collections::VecDeque;

/// Weights of the latest intervals (RFC 5348 §5.4, n = 8).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Loss intervals in packets.
#[derive(Debug, Clone, Default)]
pub(super) struct LossIntervals {
    /// Packets since the first packet lost in the latest gap, that packet included; before the first loss, all packets.
    open: u64,
    /// Complete intervals, the latest first.
    closed: VecDeque<u64>,
    /// Packets that arrived since the latest gap.
    since: u64,
}

impl LossIntervals {
    /// Handles a packet that arrives after `missing` lost ones.
    pub(super) fn on_packet(&mut self, missing: u64) {
        if missing > 0 {
            self.closed.push_front(self.open);
            self.closed.truncate(WEIGHTS.len());
            (self.open, self.since) = (missing, 0);
        }
        self.open = self.open.saturating_add(1);
        self.since = self.since.saturating_add(1);
    }

    /// `loss_int`: average interval, at least 1; `None` before the first loss. The open interval counts only if it raises the average.
    pub(super) fn average(&self) -> Option<f64> {
        if self.closed.is_empty() {
            return None;
        }
        let weighted = |intervals: &mut dyn Iterator<Item = u64>| {
            intervals.zip(WEIGHTS).map(|(interval, weight)| interval as f64 * weight).sum::<f64>()
        };
        let with_open = weighted(
            &mut core::iter::once(self.open).chain(self.closed.iter().copied()).take(self.closed.len()),
        );
        let without = weighted(&mut self.closed.iter().copied());
        let total: f64 = WEIGHTS.iter().take(self.closed.len()).sum();
        Some((with_open.max(without) / total).max(1.0))
    }

    /// Packets that arrived since the latest loss.
    pub(super) fn since_loss(&self) -> u64 {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(gaps: &[(u64, u64)]) -> LossIntervals {
        let mut intervals = LossIntervals::default();
        for &(missing, arrived) in gaps {
            intervals.on_packet(missing);
            (1..arrived).for_each(|_| intervals.on_packet(0));
        }
        intervals
    }

    #[test]
    fn the_average_is_that_of_rfc5348() {
        assert_eq!(after(&[(0, 500)]).average(), None);
        // One complete interval: 100 packets. The open one is shorter and does not count.
        assert_eq!(after(&[(0, 100), (1, 49)]).average(), Some(100.0));
        // It is longer: 200 packets, of which one was lost.
        assert_eq!(after(&[(0, 100), (1, 199)]).average(), Some(200.0));
        // Intervals 10, 20, …, 80, then one packet: (80 + 70 + 60 + 50 + 0.8 × 40 + 0.6 × 30 + 0.4 × 20 + 0.2 × 10) / 6 = 320 / 6.
        let gaps: Vec<(u64, u64)> =
            [(0, 10)].into_iter().chain((2..=8).map(|tens| (2, tens * 10 - 2))).chain([(1, 1)]).collect();
        let average = after(&gaps).average().unwrap();
        assert!((average - 320.0 / 6.0).abs() < 1e-9, "{average}");
        // A ninth interval displaces the first.
        let gaps: Vec<(u64, u64)> = [(0, 1000)].into_iter().chain(vec![(1, 9); 8]).chain([(1, 1)]).collect();
        assert_eq!(after(&gaps).average(), Some(10.0));
    }

    #[test]
    fn packets_since_the_loss_are_counted_from_the_first_that_arrives() {
        let intervals = after(&[(0, 100), (5, 30)]);
        assert_eq!(intervals.since_loss(), 30);
        assert_eq!(after(&[(0, 7)]).since_loss(), 7);
    }
}
