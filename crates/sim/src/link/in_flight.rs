//! Packets in transmission or propagation.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use giusto_units::{TimeDelta, Timestamp};

use crate::packet::Packet;

/// Packets ordered by arrival time.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Time of the next arrival; [`Timestamp::MAX`] if there is none.
    next: Timestamp,
    packets: Packets,
}

/// If packets cannot be reordered, a FIFO suffices.
#[derive(Debug)]
enum Packets {
    InOrder(VecDeque<(Timestamp, Packet)>),
    Reordered(Box<Reordered>),
}

#[derive(Debug, Default)]
struct Reordered {
    arrivals: BinaryHeap<Reverse<(Timestamp, u64)>>,
    packets: BTreeMap<u64, Packet>,
    pushed: u64,
}

impl InFlight {
    pub(super) fn new(reordered: bool) -> Self {
        let packets =
            if reordered { Packets::Reordered(Box::default()) } else { Packets::InOrder(VecDeque::new()) };
        Self { next: Timestamp::MAX, packets }
    }

    /// Adds `packet`, which was queued for `sojourn` and arrives at the far end at `arrival`.
    #[inline]
    pub(super) fn push(&mut self, arrival: Timestamp, packet: &Packet, sojourn: TimeDelta) {
        self.next = self.next.min(arrival);
        match &mut self.packets {
            Packets::InOrder(packets) => {
                // Updated in place: to modify a packet before it is moved costs more than the rest of this function.
                packets.push_back((arrival, *packet));
                packets.back_mut().into_iter().for_each(|(_, packet)| arrive(packet, sojourn));
            }
            Packets::Reordered(packets) => packets.push(arrival, packet, sojourn),
        }
    }

    /// Time of the next arrival; [`Timestamp::MAX`] if there is none.
    #[inline]
    pub(super) fn next(&self) -> Timestamp {
        self.next
    }

    /// Removes the next packet if it has arrived by `now`, and copies it to `packet`. Returns whether it did.
    #[inline]
    pub(super) fn pop_until(&mut self, now: Timestamp, packet: &mut Packet) -> bool {
        if self.next > now {
            return false;
        }
        match &mut self.packets {
            Packets::InOrder(packets) => {
                let Some((_, first)) = packets.front() else { return false };
                *packet = *first;
                packets.pop_front();
                self.next = packets.front().map_or(Timestamp::MAX, |&(arrival, _)| arrival);
            }
            Packets::Reordered(packets) => {
                *packet = packets.pop().unwrap_or(*packet);
                self.next = packets.arrivals.peek().map_or(Timestamp::MAX, |Reverse((arrival, _))| *arrival);
            }
        }
        true
    }

    pub(super) fn len(&self) -> usize {
        match &self.packets {
            Packets::InOrder(packets) => packets.len(),
            Packets::Reordered(packets) => packets.packets.len(),
        }
    }
}

impl Reordered {
    #[inline(never)]
    fn push(&mut self, arrival: Timestamp, packet: &Packet, sojourn: TimeDelta) {
        self.arrivals.push(Reverse((arrival, self.pushed)));
        arrive(self.packets.entry(self.pushed).or_insert(*packet), sojourn);
        self.pushed += 1;
    }

    #[inline(never)]
    fn pop(&mut self) -> Option<Packet> {
        let Reverse((_, order)) = self.arrivals.pop()?;
        self.packets.remove(&order)
    }
}

/// Counts the link and the queueing delay.
#[inline]
fn arrive(packet: &mut Packet, sojourn: TimeDelta) {
    packet.hop = packet.hop.saturating_add(1);
    packet.queue_delay_ns += sojourn.as_nanos().unsigned_abs();
}
