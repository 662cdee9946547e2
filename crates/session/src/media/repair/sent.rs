//! The packets of a stream that were sent and can be sent again.

use std::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use crate::media::payload::Payload;

/// Maximum number of stored packets of a stream (libwebrtc, `rtp_packet_history.h`, `kMaxCapacity`).
const MAX_PACKETS: usize = 9600;
/// Maximum memory of the stored packets of a stream. Chosen by us: 1 s at 64 Mbit/s.
const MAX_BYTES: usize = 8_000_000;
/// Memory of a packet besides its payload, rounded up.
const PACKET_BYTES: usize = 64;

/// A packet that was sent.
#[derive(Debug, Clone)]
pub(super) struct SentPacket {
    /// The media timestamp of its frame.
    pub(super) media_timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: Payload,
    /// Time at which its frame was pushed.
    pub(super) since: Timestamp,
    /// Time at which it was last sent again.
    pub(super) repeated_at: Option<Timestamp>,
    /// Whether it is in the queue of retransmissions.
    pub(super) queued: bool,
}

/// The latest packets of a stream, which have consecutive numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct SentPackets {
    packets: VecDeque<SentPacket>,
    /// The number of the packet after the latest.
    next: u64,
    bytes: usize,
}

impl SentPackets {
    /// Stores the packet with this number. Packets whose frames were pushed longer ago than `keep` are removed.
    pub(super) fn push(&mut self, now: Timestamp, number: u64, packet: SentPacket, keep: TimeDelta) {
        if number != self.next {
            self.packets.clear();
            self.bytes = 0;
        }
        self.next = number + 1;
        self.bytes += Self::size_of(&packet);
        self.packets.push_back(packet);
        while let Some(oldest) = self.packets.front() {
            let is_old = now.saturating_since(oldest.since) > keep;
            if !is_old && self.packets.len() <= MAX_PACKETS && self.bytes <= MAX_BYTES {
                return;
            }
            self.bytes -= Self::size_of(oldest);
            self.packets.pop_front();
        }
    }

    /// The stored packet with this sequence number, and its number.
    pub(super) fn find(&mut self, sequence: u16) -> Option<(u64, &mut SentPacket)> {
        let behind = (self.next as u16).wrapping_sub(sequence);
        let number = self.next.checked_sub(u64::from(behind)).filter(|_| behind > 0)?;
        self.packet(number).map(|packet| (number, packet))
    }

    /// The stored packet with this number.
    pub(super) fn packet(&mut self, number: u64) -> Option<&mut SentPacket> {
        let behind = usize::try_from(self.next.checked_sub(number)?).ok()?;
        let place = self.packets.len().checked_sub(behind)?;
        self.packets.get_mut(place)
    }

    fn size_of(packet: &SentPacket) -> usize {
        packet.payload.len().saturating_add(PACKET_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::DataSize;

    use super::*;

    fn push(sent: &mut SentPackets, ms: u64, number: u64, bytes: u64) {
        let now = Timestamp::from_nanos(ms * 1_000_000);
        let packet = SentPacket {
            media_timestamp: number as u32,
            marker: false,
            payload: Payload::zeros(DataSize::from_bytes(bytes)),
            since: now,
            repeated_at: None,
            queued: false,
        };
        sent.push(now, number, packet, TimeDelta::from_millis(400));
    }

    fn found(sent: &mut SentPackets, sequence: u16) -> Option<u64> {
        sent.find(sequence).map(|(number, packet)| {
            assert_eq!(packet.media_timestamp, number as u32);
            number
        })
    }

    #[test]
    fn packets_are_found_by_their_sequence_number() {
        let mut sent = SentPackets::default();
        assert_eq!(found(&mut sent, 0), None);
        for number in 65_530..65_540 {
            push(&mut sent, 0, number, 1000);
        }
        assert_eq!(
            [65_529, 65_530, 65_535, 0, 3, 4, 40_000].map(|sequence| found(&mut sent, sequence)),
            [None, Some(65_530), Some(65_535), Some(65_536), Some(65_539), None, None]
        );
    }

    #[test]
    fn memory_is_bounded_in_time_packets_and_bytes() {
        let mut sent = SentPackets::default();
        for number in 0..1000 {
            push(&mut sent, number, number, 1000);
        }
        assert_eq!((found(&mut sent, 598), found(&mut sent, 599)), (None, Some(599)));
        for number in 1000..20_000 {
            push(&mut sent, 1000, number, 10);
        }
        assert_eq!((sent.packets.len(), found(&mut sent, 10_400)), (MAX_PACKETS, Some(10_400)));
        for number in 20_000..20_100 {
            push(&mut sent, 1000, number, 999_936);
        }
        assert_eq!((sent.packets.len(), sent.bytes), (8, MAX_BYTES));
    }
}
