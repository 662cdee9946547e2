//! Sent packets, and whether each has arrived.

use alloc::collections::VecDeque;

use giusto_units::{DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};

use super::outgoing::OutgoingPacket;
use crate::feedback::{PacketReport, SentPacket};

/// Time for which a packet is stored. libwebrtc (`transport_feedback_adapter.cc`, `kSendTimeHistoryWindow`):
/// 60 s.
const MEMORY: TimeDelta = TimeDelta::from_seconds(60);

/// Maximum number of stored packets: half of the range of a 16-bit sequence number.
const MAX: u64 = 1 << 15;

/// Maximum number of stored packets that are not in flight and have not arrived: so many losses later, an arrival is no longer of use.
const MAX_MISSING: usize = 256;
/// The number of missing packets by which their memory grows.
pub(super) const MORE_MISSING: usize = 16;

/// The packets sent in the last minute that may still be reported, numbered in sending order from 0. A packet that has arrived is
/// reported once, so it is kept only while it is in flight.
#[derive(Debug, Clone, Default)]
pub(super) struct Packets {
    entries: VecDeque<Entry>,
    /// The number of the first of them.
    first: u64,
    /// Packets before them that have not arrived, in order.
    missing: VecDeque<Entry>,
    in_flight: DataSize,
    /// Packets below this number are not in flight: they were reported, or a later packet was.
    settled: u64,
    reported: Reported,
}

/// What feedback has reported so far of the packets that were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Reported {
    /// Packets that have arrived.
    pub packets: u64,
    /// Their size, headers included.
    pub size: DataSize,
    /// Packets that were reported as lost and not as arrived afterwards.
    pub lost_packets: u64,
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

impl Packets {
    /// The number of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Bytes of packets that are not reported, and after which no packet is reported.
    pub(super) fn in_flight(&self) -> DataSize {
        self.in_flight
    }

    pub(super) fn reported(&self) -> Reported {
        self.reported
    }

    /// The number of the oldest packet in flight. Of the earlier ones only the missing ones are stored.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the oldest packet that is stored.
    pub(super) fn oldest(&self) -> u64 {
        self.missing.front().map_or(self.first, |entry| entry.sent.sequence)
    }

    /// Whether packet `number` has not arrived, although a later one has.
    pub(super) fn is_missing(&self, number: u64) -> bool {
        self.missing_place(number).is_some()
    }

    fn missing_place(&self, number: u64) -> Option<usize> {
        // Most packets are later than all that are missing.
        self.missing.back().filter(|last| number <= last.sent.sequence)?;
        self.missing.binary_search_by_key(&number, |entry| entry.sent.sequence).ok()
    }

    /// Records a sent packet.
    pub(super) fn on_sent(&mut self, now: Timestamp, packet: &OutgoingPacket) -> SentPacket {
        let OutgoingPacket { size, probe, .. } = *packet;
        self.forget(now);
        while self.next() - self.oldest() >= MAX {
            self.forget_oldest();
        }
        self.in_flight += size;
        let sent = SentPacket { sequence: self.next(), at: now, size, probe, in_flight: self.in_flight };
        self.entries.push_back(Entry { sent, fate: Fate::Unknown });
        sent
    }

    /// Discards packets sent more than a minute ago. Returns whether there were any.
    pub(super) fn forget(&mut self, now: Timestamp) -> bool {
        let before = self.oldest();
        while self.oldest_entry().is_some_and(|oldest| now.saturating_since(oldest.sent.at) > MEMORY) {
            self.forget_oldest();
        }
        self.oldest() != before
    }

    /// When the oldest packet will be discarded.
    pub(super) fn forgets_at(&self) -> Option<Timestamp> {
        self.oldest_entry().map(|oldest| oldest.sent.at + MEMORY + TimeDelta::from_nanos(1))
    }

    fn oldest_entry(&self) -> Option<&Entry> {
        self.missing.front().or(self.entries.front())
    }

    fn forget_oldest(&mut self) {
        if self.missing.pop_front().is_none()
            && let Some(oldest) = self.entries.pop_front()
        {
            if oldest.sent.sequence >= self.settled {
                self.in_flight = self.in_flight.saturating_sub(oldest.sent.size);
            }
            self.first = oldest.sent.sequence + 1;
            self.settled = self.settled.max(self.first);
        }
    }

    /// Discards all packets. Later reports of them are ignored.
    pub(super) fn clear(&mut self) {
        self.first = self.next();
        self.settled = self.first;
        self.entries.clear();
        self.missing.clear();
        self.in_flight = DataSize::ZERO;
    }

    /// Handles the report of packet `sequence`. Returns the report if it is new: the first report of the
    /// packet, or the first one that it has arrived.
    pub(super) fn on_report(
        &mut self,
        sequence: u64,
        arrival: Option<PeerTimestamp>,
        ecn: Ecn,
    ) -> Option<PacketReport> {
        let missing = if sequence < self.first { self.missing_place(sequence) } else { None };
        let entry = if let Some(place) = sequence.checked_sub(self.first) {
            self.entries.get_mut(usize::try_from(place).ok()?)?
        } else {
            self.missing.get_mut(missing?)?
        };
        let fate = if arrival.is_some() { Fate::Arrived } else { Fate::Lost };
        if entry.fate != Fate::Unknown && (entry.fate, fate) != (Fate::Lost, Fate::Arrived) {
            return None;
        }
        if fate == Fate::Arrived {
            self.reported.packets += 1;
            self.reported.size += entry.sent.size;
            self.reported.lost_packets -= u64::from(entry.fate == Fate::Lost);
        } else {
            self.reported.lost_packets += 1;
        }
        entry.fate = fate;
        let report = PacketReport { sent: entry.sent, arrival, ecn };
        if sequence < self.first {
            if fate == Fate::Arrived {
                missing.and_then(|place| self.missing.remove(place));
            }
        } else {
            self.settle(sequence + 1);
        }
        Some(report)
    }

    /// Packets below `sequence` are no longer in flight: as in libwebrtc, a packet before a reported one has
    /// arrived or is lost.
    fn settle(&mut self, sequence: u64) {
        let from = usize::try_from(self.settled.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let count = usize::try_from(sequence.saturating_sub(self.settled)).unwrap_or(usize::MAX);
        let newly = self.entries.iter().skip(from).take(count);
        let size = newly.fold(DataSize::ZERO, |sum, entry| sum + entry.sent.size);
        self.in_flight = self.in_flight.saturating_sub(size);
        self.settled = self.settled.max(sequence);
        while self.first < self.settled
            && let Some(entry) = self.entries.pop_front()
        {
            if entry.fate != Fate::Arrived {
                if self.missing.len() >= MAX_MISSING {
                    self.missing.pop_front();
                }
                if self.missing.len() == self.missing.capacity() {
                    // They stay for up to a minute, so little is kept free.
                    self.missing.reserve_exact(MORE_MISSING);
                }
                self.missing.push_back(entry);
            }
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, peer_at};

    const SIZE: DataSize = DataSize::from_bytes(1000);
    const PACKET: OutgoingPacket =
        OutgoingPacket { transport_sequence: None, rtp: None, size: SIZE, probe: None };

    fn sent(count: u64) -> Packets {
        let mut history = Packets::default();
        for number in 0..count {
            assert_eq!(history.on_sent(at(number), &PACKET).sequence, number);
        }
        history
    }

    #[test]
    fn only_missing_packets_are_stored_after_the_flight() {
        let mut history = sent(10);
        history.on_report(0, Some(peer_at(9)), Ecn::NotEct);
        history.on_report(8, Some(peer_at(10)), Ecn::NotEct);
        assert_eq!((history.first(), history.oldest(), history.entries.len()), (9, 1, 1));
        assert_eq!(history.missing.len(), 7);
        assert!(history.is_missing(7) && !history.is_missing(8));
        assert!(history.on_report(3, None, Ecn::NotEct).is_some());
        assert!(history.on_report(3, Some(peer_at(11)), Ecn::NotEct).is_some());
        assert_eq!((history.is_missing(3), history.missing.len()), (false, 6));
        // Those sent at 1 and 2 ms are forgotten.
        assert!(history.forget(at(60_003)));
        assert_eq!((history.oldest(), history.in_flight()), (4, SIZE));
    }

    #[test]
    fn old_packets_leave_the_flight() {
        let mut history = sent(5);
        history.on_sent(at(60_003), &PACKET);
        assert_eq!((history.first(), history.in_flight()), (3, SIZE * 3));
        assert_eq!(history.on_report(2, Some(peer_at(60_004)), Ecn::NotEct), None);
        let mut many = sent(MAX + 10);
        assert_eq!((many.first(), many.in_flight()), (10, SIZE * MAX));
        many.on_report(MAX + 9, Some(peer_at(1)), Ecn::NotEct);
        assert_eq!(many.in_flight(), DataSize::ZERO);
    }
}
