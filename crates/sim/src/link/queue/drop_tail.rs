//! The plain queue: first in, first out, and no room for more than its limit.

use std::collections::VecDeque;

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::law::Queue;
use crate::packet::{DropReason, Dropped, Packet};

/// How much a queue may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many packets.
    Packets(u64),
    /// So many bytes.
    Bytes(DataSize),
    /// What the link drains in so much time at the rate that it has now.
    Time(TimeDelta),
    /// Whatever comes.
    Unlimited,
}

impl Limit {
    /// Whether `packet` fits behind `packets` packets of `size` in all, on a link that drains at `drain`.
    pub(crate) fn admits(self, packet: &Packet, packets: usize, size: DataSize, drain: DataRate) -> bool {
        match self {
            Self::Packets(limit) => (packets as u64) < limit,
            Self::Bytes(limit) => size + packet.size() <= limit,
            Self::Time(limit) => size + packet.size() <= drain.size_in(limit),
            Self::Unlimited => true,
        }
    }
}

/// First in, first out; what does not fit is dropped on arrival.
#[derive(Debug)]
pub struct DropTail {
    limit: Limit,
    drain: DataRate,
    waiting: VecDeque<Packet>,
    size: DataSize,
}

impl DropTail {
    /// An empty queue. A [`Limit::Time`] admits nothing before the link has told its rate ([`Queue::on_rate`]).
    pub fn new(limit: Limit) -> Self {
        Self { limit, drain: DataRate::ZERO, waiting: VecDeque::new(), size: DataSize::ZERO }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) {
        if self.limit.admits(&packet, self.waiting.len(), self.size, self.drain) {
            self.size += packet.size();
            self.waiting.push_back(Packet { queued: now, ..packet });
        } else {
            drops.push(Dropped { packet, reason: DropReason::Overflow });
        }
    }

    fn dequeue(&mut self, _now: Timestamp, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.size = self.size.saturating_sub(packet.size());
        Some(packet)
    }

    fn pass(&mut self, _now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) -> Option<Packet> {
        if self.limit.admits(&packet, 0, DataSize::ZERO, self.drain) {
            return Some(packet);
        }
        drops.push(Dropped { packet, reason: DropReason::Overflow });
        None
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn size(&self) -> DataSize {
        self.size
    }

    fn on_rate(&mut self, _now: Timestamp, drain: DataRate) {
        self.drain = drain;
    }
}
