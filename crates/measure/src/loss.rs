//! Packet loss and its pattern.

/// Packet loss and how it clusters: RFC 3357's loss periods, as counts and their mean.
///
/// A *loss period* is a run of lost packets with consecutive sequence numbers (RFC 3357 §4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LossSummary {
    /// Packets that should have arrived: from the first to the highest sequence number, or as many as the
    /// sender reported.
    pub expected: u64,
    /// Packets received, without duplicates.
    pub received: u64,
    /// Packets lost: `expected − received`.
    pub lost: u64,
    /// Number of loss periods: Type-P-One-Way-Loss-Period-Total, RFC 3357 §6.2.
    pub periods: u64,
    /// Packets in the longest loss period.
    pub longest_period: u64,
    /// Loss periods by their length (RFC 3357 §6.3): of 1, 2, 3, 4, of 5 to 9, and of 10 packets or more.
    pub period_lengths: [u64; 6],
}

impl LossSummary {
    /// Lost packets divided by expected packets, 0 to 1; 0 if none was expected.
    #[inline]
    pub fn ratio(&self) -> f64 {
        if self.expected == 0 { 0.0 } else { self.lost as f64 / self.expected as f64 }
    }

    /// Mean length of a loss period in packets (RFC 3357 §6.3); `None` without loss.
    #[inline]
    pub fn mean_period(&self) -> Option<f64> {
        (self.periods > 0).then(|| self.lost as f64 / self.periods as f64)
    }
}

/// Counts runs of lost packets, in order of sequence number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossRuns {
    /// Packets processed so far.
    position: u64,
    /// Length of the current run.
    run: u64,
    lost: u64,
    periods: u64,
    longest: u64,
    lengths: [u64; 6],
}

impl LossRuns {
    /// Adds `count` received packets.
    pub(super) fn received(&mut self, count: u64) {
        if count > 0 {
            self.close();
            self.position += count;
        }
    }

    /// Adds `count` lost packets.
    pub(super) fn lost(&mut self, count: u64) {
        if count > 0 {
            self.position += count;
            self.run += count;
            self.lost += count;
        }
    }

    /// Adds `count` packets, at most 64. A set bit, from the lowest on, is a received packet.
    pub(super) fn word(&mut self, mut arrived: u64, mut count: u32) {
        while count > 0 {
            let ones = arrived.trailing_ones().min(count);
            let zeros = if ones == 64 { 0 } else { (arrived >> ones).trailing_zeros().min(count - ones) };
            self.received(u64::from(ones));
            self.lost(u64::from(zeros));
            count -= ones + zeros;
            arrived = arrived.checked_shr(ones + zeros).unwrap_or(0);
        }
    }

    /// The counts, including the current run.
    pub(super) fn summary(mut self, received: u64) -> LossSummary {
        self.close();
        LossSummary {
            expected: self.position,
            received,
            lost: self.lost,
            periods: self.periods,
            longest_period: self.longest,
            period_lengths: self.lengths,
        }
    }

    fn close(&mut self) {
        if self.run > 0 {
            let class = match self.run {
                1..=4 => self.run as usize - 1,
                5..=9 => 4,
                _ => 5,
            };
            if let Some(count) = self.lengths.get_mut(class) {
                *count += 1;
            }
            self.periods += 1;
            self.longest = self.longest.max(self.run);
            self.run = 0;
        }
    }
}

/// `BurstR`: the mean length of loss bursts divided by that of random losses at the same ratio (G.107 §7.5).
///
/// Random losses come in runs of 1 / (1 − loss ratio) packets on average, so the result is
/// `mean_burst_packets` · (1 − `loss_ratio`): 1 for random loss, more for bursts. If there are no losses, or
/// only losses, it is 1.
pub fn burst_ratio(mean_burst_packets: f64, loss_ratio: f64) -> f64 {
    let ratio = mean_burst_packets * (1.0 - loss_ratio);
    if ratio.is_finite() && ratio > 0.0 { ratio } else { 1.0 }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    fn summary_of(pattern: &str) -> LossSummary {
        let mut runs = LossRuns::default();
        for packet in pattern.chars() {
            if packet == 'r' { runs.received(1) } else { runs.lost(1) }
        }
        runs.summary(pattern.matches('r').count() as u64)
    }

    #[test]
    fn the_loss_periods_of_rfc_3357_section_4_are_found() {
        let summary = summary_of("rrrxrrxxxrxrrxxx");
        assert_eq!((summary.expected, summary.received, summary.lost), (16, 8, 8));
        assert_eq!(summary.periods, 4);
        assert_eq!(summary.period_lengths, [2, 0, 2, 0, 0, 0]);
        assert_eq!(summary.longest_period, 3);
        assert_eq!(summary.mean_period(), Some(2.0));
    }

    #[test]
    fn without_loss_there_are_no_means() {
        let summary = summary_of("rrr");
        assert_eq!(summary.ratio(), 0.0);
        assert_eq!(summary.mean_period(), None);
        assert_eq!(LossSummary::default().ratio(), 0.0);
    }

    #[test]
    fn loss_periods_are_classified_by_length() {
        let runs = [1, 2, 3, 4, 5, 9, 10, 500].map(|length| "x".repeat(length) + "r").concat();
        assert_eq!(summary_of(&runs).period_lengths, [1, 1, 1, 1, 2, 2]);
    }

    #[test]
    fn a_word_equals_its_single_bits() {
        for (bits, count) in
            [(u64::MAX, 64), (0, 64), (0b1011, 4), (0b1011, 64), (u64::MAX << 63, 64), (1, 1), (5, 0)]
        {
            let mut by_word = LossRuns::default();
            by_word.word(bits, count);
            let mut by_bit = LossRuns::default();
            (0..count).for_each(|i| if bits >> i & 1 == 1 { by_bit.received(1) } else { by_bit.lost(1) });
            assert_eq!(by_word.summary(0), by_bit.summary(0), "{bits:b} {count}");
        }
    }
}
