//! Maps 16-bit sequence numbers to packets of the history.

use std::collections::VecDeque;

/// Maximum number of stored sequence numbers: half of the 16-bit range, so that a lookup is unambiguous.
const MAX: usize = 1 << 15;
/// A sequence number that was never sent.
const NONE: u64 = u64::MAX;
/// The first sequence number is unwrapped as the one in the second cycle, so that numbers before it exist.
const FIRST_CYCLE: u64 = 1 << 16;

/// The packets sent with consecutive sequence numbers of 16 bits.
#[derive(Debug, Clone)]
pub(super) struct Numbers {
    /// Number in the history of each sequence number from `first` on; [`NONE`] where it was skipped.
    packets: VecDeque<u64>,
    first: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { packets: VecDeque::new(), first: FIRST_CYCLE }
    }
}

impl Numbers {
    /// Records that packet `number` was sent with `sequence`.
    pub(super) fn push(&mut self, sequence: u16, number: u64) {
        let next = self.next();
        let ahead = usize::from(sequence.wrapping_sub(next as u16));
        if self.packets.is_empty() {
            self.first = next + ahead as u64;
            self.packets.push_back(number);
        } else if ahead < MAX {
            self.packets.extend(std::iter::repeat_n(NONE, ahead));
            self.packets.push_back(number);
            let excess = self.packets.len().saturating_sub(MAX);
            self.packets.drain(..excess);
            self.first += excess as u64;
        } else if let Some(packet) = self.index(next - (FIRST_CYCLE - ahead as u64)) {
            // Sent again, or out of order: reports refer to the latest packet with this number.
            if let Some(packet) = self.packets.get_mut(packet) {
                *packet = number;
            }
        }
    }

    /// Discards sequence numbers whose packets have numbers below `first`.
    pub(super) fn forget_before(&mut self, first: u64) {
        while self.packets.front().is_some_and(|&number| number < first || number == NONE) {
            self.packets.pop_front();
            self.first += 1;
        }
    }

    /// Discards all packets and continues with the next sequence number.
    pub(super) fn clear(&mut self) {
        self.first = self.next();
        self.packets.clear();
    }

    /// The unwrapped sequence number after the latest one.
    pub(super) fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// `sequence` unwrapped, as the latest one sent or one before it.
    pub(super) fn unwrap(&self, sequence: u16) -> u64 {
        let latest = self.next() - 1;
        latest.saturating_sub(u64::from((latest as u16).wrapping_sub(sequence)))
    }

    /// The packet sent with this unwrapped sequence number, if it is stored.
    pub(super) fn packet(&self, unwrapped: u64) -> Option<u64> {
        let packet = *self.packets.get(self.index(unwrapped)?)?;
        (packet != NONE).then_some(packet)
    }

    fn index(&self, unwrapped: u64) -> Option<usize> {
        usize::try_from(unwrapped.checked_sub(self.first)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn find(numbers: &Numbers, sequence: u16) -> Option<u64> {
        numbers.packet(numbers.unwrap(sequence))
    }

    #[test]
    fn sequence_numbers_may_wrap_and_skip() {
        let mut numbers = Numbers::default();
        for (number, sequence) in [65_534, 65_535, 2, 3].into_iter().enumerate() {
            numbers.push(sequence, number as u64);
        }
        assert_eq!(
            [65_533, 65_534, 65_535, 0, 1, 2, 3, 4].map(|n| find(&numbers, n)),
            [None, Some(0), Some(1), None, None, Some(2), Some(3), None]
        );
        numbers.forget_before(2);
        assert_eq!([65_535, 2].map(|n| find(&numbers, n)), [None, Some(2)]);
    }

    #[test]
    fn a_number_sent_again_means_the_latest_packet() {
        let mut numbers = Numbers::default();
        for (number, sequence) in [10, 11, 12, 10].into_iter().enumerate() {
            numbers.push(sequence, number as u64);
        }
        assert_eq!([10, 11, 12].map(|n| find(&numbers, n)), [Some(3), Some(1), Some(2)]);
    }

    #[test]
    fn memory_is_bounded_whatever_is_skipped() {
        let mut numbers = Numbers::default();
        for number in 0..100_u64 {
            numbers.push((number * 20_000) as u16, number);
            assert!(numbers.packets.len() <= MAX, "{}", numbers.packets.len());
            assert_eq!(find(&numbers, (number * 20_000) as u16), Some(number));
        }
    }

    proptest! {
        #[test]
        fn lookups_agree_with_a_map(first: u16, steps in prop::collection::vec(1_u16..50, 1..200)) {
            let mut numbers = Numbers::default();
            let mut model = BTreeMap::new();
            let mut sequence = first;
            for (number, step) in steps.into_iter().enumerate() {
                numbers.push(sequence, number as u64);
                model.insert(sequence, number as u64);
                sequence = sequence.wrapping_add(step);
            }
            for sequence in 0..=u16::MAX {
                prop_assert_eq!(find(&numbers, sequence), model.get(&sequence).copied());
            }
        }
    }
}
