//! Maps 16-bit sequence numbers to packets of the history.

use alloc::collections::VecDeque;

use super::packets::{MORE_MISSING, Packets};

/// Maximum number of stored sequence numbers: half of the 16-bit range, so that a lookup is unambiguous.
const MAX: usize = 1 << 15;
/// So many sequence numbers before the packets in flight are stored: the highest one of a message of
/// draft-johansson-rmcat-scream-cc-00 may have been reported before, and a message covers 32 before it.
const KEPT: usize = 128;
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
    /// Earlier ones whose packets may still be reported: unwrapped, in order, each with the number in the history.
    earlier: VecDeque<(u64, u64)>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { packets: VecDeque::new(), first: FIRST_CYCLE, earlier: VecDeque::new() }
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
            self.packets.extend(core::iter::repeat_n(NONE, ahead));
            self.packets.push_back(number);
            let excess = self.packets.len().saturating_sub(MAX);
            self.packets.drain(..excess);
            self.first += excess as u64;
        } else {
            // Sent again, or out of order: reports refer to the latest packet with this number.
            let unwrapped = next - (FIRST_CYCLE - ahead as u64);
            if let Some(packet) = self.index(unwrapped).and_then(|place| self.packets.get_mut(place)) {
                *packet = number;
            } else {
                match self.earlier.binary_search_by_key(&unwrapped, |&(unwrapped, _)| unwrapped) {
                    Ok(place) => self.earlier.get_mut(place).into_iter().for_each(|entry| entry.1 = number),
                    Err(place) => self.earlier.insert(place, (unwrapped, number)),
                }
            }
        }
    }

    /// Discards sequence numbers whose packets will not be reported any more.
    pub(super) fn forget(&mut self, packets: &Packets) {
        let first = packets.first();
        while self.packets.get(KEPT).is_some_and(|&number| number < first || number == NONE)
            && let Some(number) = self.packets.pop_front()
        {
            if packets.is_missing(number) {
                if self.earlier.len() == self.earlier.capacity() {
                    self.earlier.reserve_exact(MORE_MISSING);
                }
                self.earlier.push_back((self.first, number));
            }
            self.first += 1;
        }
        let oldest = packets.oldest();
        while self.earlier.front().is_some_and(|&(_, number)| number < oldest) {
            self.earlier.pop_front();
        }
    }

    /// Discards all packets and continues with the next sequence number.
    pub(super) fn clear(&mut self) {
        self.first = self.next();
        self.packets.clear();
        self.earlier.clear();
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
        let Some(place) = self.index(unwrapped) else {
            let place = self.earlier.binary_search_by_key(&unwrapped, |&(unwrapped, _)| unwrapped).ok()?;
            return self.earlier.get(place).map(|&(_, number)| number);
        };
        let packet = *self.packets.get(place)?;
        (packet != NONE).then_some(packet)
    }

    fn index(&self, unwrapped: u64) -> Option<usize> {
        usize::try_from(unwrapped.checked_sub(self.first)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use giusto_units::{Ecn, PeerTimestamp, Timestamp};
    use proptest::prelude::*;

    use super::*;
    use crate::history::outgoing::OutgoingPacket;

    fn find(numbers: &Numbers, sequence: u16) -> Option<u64> {
        numbers.packet(numbers.unwrap(sequence))
    }

    #[test]
    fn numbers_of_arrived_packets_are_forgotten() {
        let (mut numbers, mut packets) = (Numbers::default(), Packets::default());
        for number in 0..300_u16 {
            packets.on_sent(Timestamp::ZERO, &OutgoingPacket::default());
            numbers.push(65_500_u16.wrapping_add(number), number.into());
        }
        for number in (0..290).filter(|&number| number != 10) {
            packets.on_report(number, Some(PeerTimestamp::from_nanos(1)), Ecn::NotEct);
        }
        numbers.forget(&packets);
        let find = |number: u16| find(&numbers, 65_500_u16.wrapping_add(number));
        // Packet 10 is missing; 128 numbers are kept before packet 290.
        assert_eq!([9, 10, 11, 161].map(find), [None, Some(10), None, None]);
        assert_eq!([162, 290, 299, 300].map(find), [Some(162), Some(290), Some(299), None]);
        packets.on_sent(Timestamp::MAX, &OutgoingPacket::default());
        numbers.forget(&packets);
        assert_eq!((numbers.earlier.len(), numbers.packets.len()), (0, KEPT));
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
