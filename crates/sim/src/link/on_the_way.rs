//! What left the queue and has not arrived.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

use giusto_units::{TimeDelta, Timestamp};

use crate::packet::Packet;

/// In the order in which it left, or by arrival where that may differ.
#[derive(Debug)]
pub(super) enum OnTheWay {
    InOrder { arrivals: VecDeque<Timestamp>, packets: VecDeque<Packet> },
    Reordered { arrivals: BinaryHeap<Reverse<(Timestamp, u64)>>, packets: BTreeMap<u64, Packet>, pushed: u64 },
}

impl OnTheWay {
    pub(super) fn new(reordered: bool) -> Self {
        if reordered {
            Self::Reordered { arrivals: BinaryHeap::new(), packets: BTreeMap::new(), pushed: 0 }
        } else {
            Self::InOrder { arrivals: VecDeque::new(), packets: VecDeque::new() }
        }
    }

    /// `packet`, which waited for `sojourn`, will have come one link further at `arrival`.
    pub(super) fn push(&mut self, arrival: Timestamp, packet: Packet, sojourn: TimeDelta) {
        // Written where it lies: to change a packet and then to move it costs more than the whole of the rest.
        let arrive = |packet: &mut Packet| {
            packet.hop = packet.hop.saturating_add(1);
            packet.waited_ns += sojourn.as_nanos().unsigned_abs();
        };
        match self {
            Self::InOrder { arrivals, packets } => {
                arrivals.push_back(arrival);
                packets.push_back(packet);
                packets.back_mut().into_iter().for_each(arrive);
            }
            Self::Reordered { arrivals, packets, pushed } => {
                arrivals.push(Reverse((arrival, *pushed)));
                arrive(packets.entry(*pushed).or_insert(packet));
                *pushed += 1;
            }
        }
    }

    /// When the next one arrives.
    pub(super) fn next(&self) -> Option<Timestamp> {
        match self {
            Self::InOrder { arrivals, .. } => arrivals.front().copied(),
            Self::Reordered { arrivals, .. } => arrivals.peek().map(|Reverse((arrival, _))| *arrival),
        }
    }

    /// The next one, if it has arrived.
    pub(super) fn pop_until(&mut self, now: Timestamp) -> Option<Packet> {
        if self.next()? > now {
            return None;
        }
        match self {
            Self::InOrder { arrivals, packets } => {
                arrivals.pop_front();
                packets.pop_front()
            }
            Self::Reordered { arrivals, packets, .. } => {
                let Reverse((_, number)) = arrivals.pop()?;
                packets.remove(&number)
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::InOrder { packets, .. } => packets.len(),
            Self::Reordered { packets, .. } => packets.len(),
        }
    }
}
