//! A FIFO with tail drop.

use std::collections::VecDeque;

use giusto_units::{DataRate, DataSize, Timestamp};

use super::{discipline::Queue, limit::Limit};
use crate::packet::{DropReason, Dropped, Packet};

/// A FIFO that drops an arriving packet when it is full.
#[derive(Debug)]
pub struct DropTail {
    limit: Limit,
    drain: DataRate,
    packets: VecDeque<Packet>,
    size: DataSize,
}

impl DropTail {
    /// Creates an empty queue. With [`Limit::Time`] it admits no packet until [`Queue::on_rate`] has been called.
    pub fn new(limit: Limit) -> Self {
        Self { limit, drain: DataRate::ZERO, packets: VecDeque::new(), size: DataSize::ZERO }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) {
        if self.limit.admits(&packet, self.packets.len(), self.size, self.drain) {
            self.size += packet.size();
            self.packets.push_back(Packet { queued: now, ..packet });
        } else {
            drops.push(Dropped { packet, reason: DropReason::Overflow });
        }
    }

    fn dequeue(&mut self, _now: Timestamp, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.size = self.size.saturating_sub(packet.size());
        Some(packet)
    }

    fn pass(&mut self, _now: Timestamp, packet: &mut Packet, drops: &mut Vec<Dropped>) -> bool {
        let passes = self.limit.admits(packet, 0, DataSize::ZERO, self.drain);
        if !passes {
            drops.push(Dropped { packet: *packet, reason: DropReason::Overflow });
        }
        passes
    }

    fn packets(&self) -> usize {
        self.packets.len()
    }

    fn size(&self) -> DataSize {
        self.size
    }

    fn on_rate(&mut self, _now: Timestamp, drain: DataRate) {
        self.drain = drain;
    }
}
