//! The packets that quinn has sent and neither acknowledged nor given up.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use giusto_congestion::SentPacket;

/// Quinn names an acknowledged packet by its time of departure and its size, and lost ones by the latest time of departure and the sum of
/// their sizes. This finds them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// In order of departure.
    packets: VecDeque<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Instant,
    /// Bytes as quinn counts them: without the headers of UDP and IP.
    bytes: u64,
    packet: SentPacket,
    /// When it arrived, by the peer's clock.
    arrival: Option<Duration>,
}

impl Ledger {
    pub(crate) fn push(&mut self, at: Instant, bytes: u64, packet: SentPacket) {
        self.packets.push_back(Entry { at, bytes, packet, arrival: None });
    }

    /// The place of the packet that left at `sent` with `bytes` bytes, among those that `counts` accepts. Of several equal ones, the first:
    /// quinn reports them in order. Where none has this size, because a datagram held two packets, the first that left then.
    fn place(&self, sent: Instant, bytes: u64, counts: impl Fn(&Entry) -> bool) -> Option<usize> {
        let first = self.packets.partition_point(|entry| entry.at < sent);
        let same_time = self.packets.iter().enumerate().skip(first).take_while(|(_, entry)| entry.at == sent);
        let mut same_time = same_time.filter(|(_, entry)| counts(entry));
        let place = same_time.clone().find(|(_, entry)| entry.bytes == bytes).or_else(|| same_time.next());
        place.map(|(place, _)| place)
    }

    /// Notes the arrival of the packet that left at `sent` with `bytes` bytes.
    pub(crate) fn set_arrival(&mut self, sent: Instant, bytes: u64, at: Duration) {
        let place = self.place(sent, bytes, |entry| entry.arrival.is_none());
        if let Some(entry) = place.and_then(|place| self.packets.get_mut(place)) {
            entry.arrival = Some(at);
        }
    }

    /// Takes the packet that left at `sent` with `bytes` bytes, with its arrival if that is known.
    pub(crate) fn take_acknowledged(
        &mut self,
        sent: Instant,
        bytes: u64,
    ) -> Option<(SentPacket, Option<Duration>)> {
        let place = self.place(sent, bytes, |_| true)?;
        self.packets.remove(place).map(|entry| (entry.packet, entry.arrival))
    }

    /// Takes the packets of `bytes` bytes that were lost, of which the last left at `sent`. RFC 9002 §6.1 gives up all packets up to
    /// that one. Others among them have only acknowledgements, which no loss is declared of: the smallest ones.
    pub(crate) fn take_lost(&mut self, sent: Instant, bytes: u64) -> Vec<SentPacket> {
        let end = self.packets.partition_point(|entry| entry.at <= sent);
        let mut by_size: Vec<(usize, u64)> =
            self.packets.iter().take(end).enumerate().map(|(place, entry)| (place, entry.bytes)).collect();
        // The largest first; of equal ones, the first to leave.
        by_size.sort_by_key(|&(place, bytes)| (std::cmp::Reverse(bytes), place));
        let mut left = bytes;
        let mut places = Vec::new();
        for (place, bytes) in by_size {
            if bytes <= left {
                left -= bytes;
                places.push(place);
            }
        }
        places.sort_unstable();
        let lost =
            places.iter().filter_map(|&place| self.packets.get(place)).map(|entry| entry.packet).collect();
        for place in places.into_iter().rev() {
            self.packets.remove(place);
        }
        lost
    }

    /// Forgets packets that left before `time`: they had only acknowledgements, or their keys were discarded.
    pub(crate) fn forget_before(&mut self, time: Instant) {
        while self.packets.front().is_some_and(|entry| entry.at < time) {
            self.packets.pop_front();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataSize, Timestamp};

    use super::*;
    use crate::testing::{after, origin};

    /// Packets that left at these milliseconds with these bytes, numbered from 0.
    fn ledger(start: Instant, packets: &[(u64, u64)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (number, &(at, bytes)) in packets.iter().enumerate() {
            let sent = Timestamp::from_nanos(at * 1_000_000);
            let packet = SentPacket::new(number as u64, sent, DataSize::from_bytes(bytes));
            ledger.push(after(start, at), bytes, packet);
        }
        ledger
    }

    fn numbers(packets: impl IntoIterator<Item = SentPacket>) -> Vec<u64> {
        packets.into_iter().map(|packet| packet.sequence).collect()
    }

    #[test]
    fn packets_of_one_instant_are_told_apart_by_size_and_order() {
        let start = origin();
        let mut ledger = ledger(start, &[(0, 1200), (0, 1200), (0, 300), (5, 1200)]);
        let mut take =
            |at, bytes| ledger.take_acknowledged(after(start, at), bytes).map(|(packet, _)| packet.sequence);
        assert_eq!(take(0, 300), Some(2));
        assert_eq!((take(0, 1200), take(0, 1200), take(0, 1200)), (Some(0), Some(1), None));
        assert_eq!((take(4, 1200), take(5, 700)), (None, Some(3)), "a part of a datagram stands for it");
        assert_eq!(ledger.len(), 0);
    }

    #[test]
    fn arrivals_are_those_of_their_packets() {
        let start = origin();
        let mut ledger = ledger(start, &[(0, 1200), (0, 1200), (5, 1200)]);
        for (sent, at) in [(0, 30), (0, 31), (0, 32), (4, 33)] {
            ledger.set_arrival(after(start, sent), 1200, Duration::from_millis(at));
        }
        let mut take = |at| {
            let (packet, arrival) = ledger.take_acknowledged(after(start, at), 1200).unwrap();
            (packet.sequence, arrival.map(|at| at.as_millis()))
        };
        assert_eq!([take(0), take(0), take(5)], [(0, Some(30)), (1, Some(31)), (2, None)]);
    }

    #[test]
    fn lost_packets_are_the_earliest_but_for_acknowledgements() {
        let start = origin();
        let sent = [(0, 1200), (1, 45), (2, 1200), (2, 800), (2, 1200), (3, 1200)];
        let mut lost = ledger(start, &sent);
        assert_eq!(numbers(lost.take_lost(after(start, 2), 1200 + 1200 + 800)), [0, 2, 3]);
        assert_eq!(lost.len(), 3, "the acknowledgement and those that left at and after the last lost one");
        assert_eq!(numbers(lost.take_lost(after(start, 9), 2400)), [4, 5]);
        lost.forget_before(after(start, 2));
        assert_eq!(lost.len(), 0);
        assert_eq!(numbers(lost.take_lost(after(start, 9), 2400)), []);
    }
}
