//! What was sent, and what became of it.

use std::collections::VecDeque;

use giusto_congestion::{PacketReport, SentPacket};
use giusto_units::{DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

/// For how long a packet is remembered. libwebrtc (`transport_feedback_adapter.cc`, `kSendTimeHistoryWindow`): 60 s.
const MEMORY: TimeDelta = TimeDelta::from_seconds(60);

/// How many packets are remembered: half of what a sequence number of 16 bits tells apart.
const MOST: usize = 1 << 15;

/// The packets that were sent lately, by their number on the transport.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    packets: VecDeque<Entry>,
    /// The number of the first of them.
    first: u64,
    in_flight: DataSize,
    /// Below this number everything is accounted for: it arrived, or something later did.
    settled: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    sent: SentPacket,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unknown,
    Lost,
    Arrived,
}

impl History {
    /// The number of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// What was sent and is not yet accounted for.
    pub(super) fn in_flight(&self) -> DataSize {
        self.in_flight
    }

    /// The number of the oldest packet that is remembered.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// A packet of `size` leaves, as part of `probe` if of any.
    pub(super) fn on_sent(&mut self, now: Timestamp, size: DataSize, probe: Option<u32>) -> SentPacket {
        self.forget(now);
        while self.packets.len() >= MOST {
            self.forget_oldest();
        }
        self.in_flight += size;
        let sent = SentPacket { sequence: self.next(), at: now, size, probe, in_flight: self.in_flight };
        self.packets.push_back(Entry { sent, fate: Fate::Unknown });
        sent
    }

    /// Forgets what left too long ago; says whether anything did.
    pub(super) fn forget(&mut self, now: Timestamp) -> bool {
        let before = self.first;
        while self.packets.front().is_some_and(|oldest| now.saturating_since(oldest.sent.at) > MEMORY) {
            self.forget_oldest();
        }
        self.first != before
    }

    /// When the oldest will be forgotten.
    pub(super) fn forgets_at(&self) -> Option<Timestamp> {
        self.packets.front().map(|oldest| oldest.sent.at + MEMORY + TimeDelta::from_nanos(1))
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.packets.pop_front() {
            if oldest.sent.sequence >= self.settled {
                self.in_flight = self.in_flight.saturating_sub(oldest.sent.size);
            }
            self.first = oldest.sent.sequence + 1;
            self.settled = self.settled.max(self.first);
        }
    }

    /// The far end tells of packet `sequence`. What is new in that is given: a packet told of for the first time, or one that
    /// arrived after all.
    pub(super) fn on_report(
        &mut self,
        sequence: u64,
        arrival: Option<PeerTimestamp>,
        ecn: Ecn,
    ) -> Option<PacketReport> {
        let place = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        let entry = self.packets.get_mut(place)?;
        let fate = if arrival.is_some() { Fate::Arrived } else { Fate::Lost };
        let told = match (entry.fate, fate) {
            (Fate::Unknown, _) | (Fate::Lost, Fate::Arrived) => {
                entry.fate = fate;
                Some(PacketReport { sent: entry.sent, arrival, ecn })
            }
            _ => None,
        };
        if told.is_some() {
            self.settle(sequence + 1);
        }
        told
    }

    /// All below `sequence` is in flight no more: as in libwebrtc, what comes before a packet that is told of was not sent in vain,
    /// or is lost.
    fn settle(&mut self, sequence: u64) {
        let from = usize::try_from(self.settled.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let count = usize::try_from(sequence.saturating_sub(self.settled)).unwrap_or(usize::MAX);
        let newly = self.packets.iter().skip(from).take(count);
        let size = newly.fold(DataSize::ZERO, |sum, entry| sum + entry.sent.size);
        self.in_flight = self.in_flight.saturating_sub(size);
        self.settled = self.settled.max(sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: DataSize = DataSize::from_bytes(1000);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn arrived(ms: u64) -> PeerTimestamp {
        PeerTimestamp::from_nanos(ms * 1_000_000)
    }

    fn sent(count: u64) -> History {
        let mut history = History::default();
        for number in 0..count {
            assert_eq!(history.on_sent(at(number), SIZE, None).sequence, number);
        }
        history
    }

    #[test]
    fn a_packet_is_told_once_and_again_if_it_came_after_all() {
        let mut history = sent(3);
        assert_eq!(history.on_report(1, None, Ecn::NotEct).unwrap().sent.sequence, 1);
        assert_eq!(history.on_report(1, None, Ecn::NotEct), None);
        assert_eq!(history.on_report(1, Some(arrived(50)), Ecn::NotEct).unwrap().arrival, Some(arrived(50)));
        assert_eq!(history.on_report(1, Some(arrived(50)), Ecn::NotEct), None);
        assert_eq!(history.on_report(1, None, Ecn::NotEct), None, "what has arrived is not lost");
    }

    #[test]
    fn what_was_never_sent_says_nothing() {
        let mut history = sent(3);
        assert_eq!(history.on_report(3, Some(arrived(1)), Ecn::NotEct), None);
        assert_eq!(history.on_report(u64::MAX, Some(arrived(1)), Ecn::NotEct), None);
        assert_eq!(history.in_flight(), SIZE * 3);
    }

    #[test]
    fn what_is_told_of_is_in_flight_no_more_and_neither_is_what_went_before() {
        let mut history = sent(5);
        assert_eq!(history.in_flight(), SIZE * 5);
        history.on_report(2, Some(arrived(10)), Ecn::NotEct);
        assert_eq!(history.in_flight(), SIZE * 2);
        history.on_report(0, Some(arrived(11)), Ecn::NotEct);
        assert_eq!(history.in_flight(), SIZE * 2);
        history.on_report(4, None, Ecn::NotEct);
        assert_eq!(history.in_flight(), DataSize::ZERO);
    }

    #[test]
    fn old_packets_are_forgotten_and_their_bytes_with_them() {
        let mut history = sent(5);
        history.on_sent(at(60_003), SIZE, None);
        assert_eq!((history.first(), history.in_flight()), (3, SIZE * 3));
        assert_eq!(history.on_report(2, Some(arrived(60_004)), Ecn::NotEct), None);
        let mut many = sent(MOST as u64 + 10);
        assert_eq!((many.first(), many.in_flight()), (10, SIZE * MOST as u64));
        many.on_report(MOST as u64 + 9, Some(arrived(1)), Ecn::NotEct);
        assert_eq!(many.in_flight(), DataSize::ZERO);
    }
}
