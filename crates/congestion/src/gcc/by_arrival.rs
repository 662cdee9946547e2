//! The packets of a feedback message in order of arrival.

use alloc::vec::Vec;

use giusto_units::{DataSize, PeerTimestamp, Timestamp};

use crate::feedback::PacketReport;

/// A packet that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) arrival: PeerTimestamp,
    pub(super) sent: Timestamp,
    pub(super) sequence: u64,
    pub(super) size: DataSize,
}

/// The packets of one feedback message that have arrived. Kept to reuse the allocation.
#[derive(Debug, Clone, Default)]
pub(super) struct ByArrival {
    packets: Vec<Arrived>,
}

/// Packets move past this many others per packet before the whole message is sorted: most messages are almost in order.
const MOVES: usize = 4;

impl ByArrival {
    /// Takes the arrived packets of a message, in order of arrival. Those that arrived at the same time keep the order of the message.
    pub(super) fn fill(&mut self, packets: &[PacketReport]) {
        self.packets.clear();
        self.packets.extend(packets.iter().filter_map(|report| {
            let (arrival, sent) = (report.arrival?, &report.sent);
            Some(Arrived { arrival, sent: sent.at, sequence: sent.sequence, size: sent.size })
        }));
        let mut moves = self.packets.len().saturating_mul(MOVES);
        for place in 1..self.packets.len() {
            let mut to = place;
            while let Some([earlier, later]) =
                to.checked_sub(1).and_then(|before| self.packets.get_mut(before..=to))
            {
                if earlier.arrival <= later.arrival {
                    break;
                }
                core::mem::swap(earlier, later);
                to -= 1;
                moves -= 1;
                if moves == 0 {
                    return self.packets.sort_by_key(|packet| packet.arrival);
                }
            }
        }
    }

    /// Puts packets that arrived at the same time in the order in which they were sent.
    pub(super) fn order_simultaneous(&mut self) {
        let order = |packet: &Arrived| (packet.arrival, packet.sent, packet.sequence);
        if !self.packets.is_sorted_by_key(order) {
            self.packets.sort_unstable_by_key(order);
        }
    }

    /// The packets.
    pub(super) fn packets(&self) -> &[Arrived] {
        &self.packets
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::feedback::SentPacket;

    proptest! {
        #[test]
        fn packets_are_in_order_of_arrival(arrivals in prop::collection::vec(prop::option::of(0_u64..40), 0..200)) {
            let size = DataSize::from_bytes(100);
            let report = |(place, arrival): (usize, &Option<u64>)| {
                // Sent in another order than reported.
                let sequence = place as u64 ^ 3;
                let at = Timestamp::from_nanos(sequence / 2);
                PacketReport::new(SentPacket::new(sequence, at, size), arrival.map(PeerTimestamp::from_nanos))
            };
            let reports: Vec<_> = arrivals.iter().enumerate().map(report).collect();
            let mut sorted = ByArrival::default();
            sorted.fill(&reports);
            let mut expected: Vec<_> = reports.iter().filter(|report| report.arrival.is_some()).collect();
            expected.sort_by_key(|report| report.arrival);
            let numbers = |packets: &[Arrived]| packets.iter().map(|packet| packet.sequence).collect::<Vec<_>>();
            prop_assert_eq!(numbers(sorted.packets()), expected.iter().map(|one| one.sent.sequence).collect::<Vec<_>>());
            expected.sort_by_key(|report| (report.arrival, report.sent.at, report.sent.sequence));
            sorted.order_simultaneous();
            prop_assert_eq!(numbers(sorted.packets()), expected.iter().map(|one| one.sent.sequence).collect::<Vec<_>>());
        }
    }
}
