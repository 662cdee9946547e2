//! Packets in transmission or propagation.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use giusto_units::{TimeDelta, Timestamp};

use crate::packet::Packet;

/// Packets ordered by arrival time. If packets cannot be reordered, a FIFO suffices.
#[derive(Debug)]
pub(super) enum InFlight {
    InOrder(VecDeque<(Timestamp, Packet)>),
    Reordered { arrivals: BinaryHeap<Reverse<(Timestamp, u64)>>, packets: BTreeMap<u64, Packet>, pushed: u64 },
}

impl InFlight {
    pub(super) fn new(reordered: bool) -> Self {
        if reordered {
            Self::Reordered { arrivals: BinaryHeap::new(), packets: BTreeMap::new(), pushed: 0 }
        } else {
            Self::InOrder(VecDeque::new())
        }
    }

    /// Adds `packet`, which was queued for `sojourn` and arrives at the far end at `arrival`.
    #[inline]
    pub(super) fn push(&mut self, arrival: Timestamp, packet: Packet, sojourn: TimeDelta) {
        // Updated in place: to modify a packet before it is moved costs more than the rest of this function.
        let arrive = |packet: &mut Packet| {
            packet.hop = packet.hop.saturating_add(1);
            packet.queue_delay_ns += sojourn.as_nanos().unsigned_abs();
        };
        match self {
            Self::InOrder(packets) => {
                packets.push_back((arrival, packet));
                packets.back_mut().into_iter().for_each(|(_, packet)| arrive(packet));
            }
            Self::Reordered { arrivals, packets, pushed } => {
                arrivals.push(Reverse((arrival, *pushed)));
                arrive(packets.entry(*pushed).or_insert(packet));
                *pushed += 1;
            }
        }
    }

    /// Time of the next arrival.
    #[inline]
    pub(super) fn next(&self) -> Option<Timestamp> {
        match self {
            Self::InOrder(packets) => packets.front().map(|&(arrival, _)| arrival),
            Self::Reordered { arrivals, .. } => arrivals.peek().map(|Reverse((arrival, _))| *arrival),
        }
    }

    /// Removes the next packet if it has arrived by `now`.
    #[inline]
    pub(super) fn pop_until(&mut self, now: Timestamp) -> Option<Packet> {
        if self.next()? > now {
            return None;
        }
        match self {
            Self::InOrder(packets) => packets.pop_front().map(|(_, packet)| packet),
            Self::Reordered { arrivals, packets, .. } => {
                let Reverse((_, order)) = arrivals.pop()?;
                packets.remove(&order)
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::InOrder(packets) => packets.len(),
            Self::Reordered { packets, .. } => packets.len(),
        }
    }
}
