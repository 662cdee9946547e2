//! A bounded FIFO, the storage of most queue disciplines.

use std::{collections::VecDeque, fmt};

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    discipline::{Queue, mark, sojourn},
    limit::Limit,
};
use crate::packet::{DropReason, Dropped, Packet};

/// What a discipline does with the packets that arrive at its FIFO and leave it.
pub trait Law: Send + fmt::Debug {
    /// Adds `packet`, or drops it or others; by default drops it if there is no room.
    fn arrive(&mut self, now: Timestamp, packet: Packet, fifo: &mut Fifo, drops: &mut Vec<Dropped>) {
        fifo.admit(now, packet, drops);
    }

    /// Removes the packet to transmit; by default the oldest.
    fn depart(&mut self, now: Timestamp, fifo: &mut Fifo, drops: &mut Vec<Dropped>) -> Option<Packet> {
        let _ = (now, drops);
        fifo.pop()
    }

    /// As [`Queue::next_timer`].
    fn next_timer(&self) -> Option<Timestamp> {
        None
    }

    /// As [`Queue::on_timer`].
    fn on_timer(&mut self, now: Timestamp, fifo: &Fifo) {
        let _ = (now, fifo);
    }
}

/// A queue of one FIFO that obeys a law.
#[derive(Debug)]
pub struct FifoQueue<L> {
    pub(super) law: L,
    pub(super) fifo: Fifo,
}

impl<L: Law> FifoQueue<L> {
    pub(super) fn of(law: L, limit: Limit) -> Self {
        Self { law, fifo: Fifo::new(limit) }
    }
}

impl<L: Law> Queue for FifoQueue<L> {
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) {
        self.law.arrive(now, packet, &mut self.fifo, drops);
    }

    fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Option<Packet> {
        self.law.depart(now, &mut self.fifo, drops)
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }

    fn size(&self) -> DataSize {
        self.fifo.size()
    }

    fn marked(&self) -> u64 {
        self.fifo.marked
    }

    fn next_timer(&self) -> Option<Timestamp> {
        self.law.next_timer()
    }

    fn on_timer(&mut self, now: Timestamp) {
        self.law.on_timer(now, &self.fifo);
    }

    fn on_rate(&mut self, _now: Timestamp, drain: DataRate) {
        self.fifo.set_drain(drain);
    }
}

/// A bounded FIFO that tracks its size in bytes.
#[derive(Debug)]
pub struct Fifo {
    packets: VecDeque<Packet>,
    size: DataSize,
    limit: Limit,
    drain: DataRate,
    marked: u64,
}

impl Fifo {
    pub(super) fn new(limit: Limit) -> Self {
        Self { packets: VecDeque::new(), size: DataSize::ZERO, limit, drain: DataRate::ZERO, marked: 0 }
    }

    /// Whether there is room for `packet`.
    pub(super) fn admits(&self, packet: &Packet) -> bool {
        self.limit.admits(packet, self.packets.len(), self.size, self.drain)
    }

    /// Appends `packet`, or drops it if there is no room.
    pub(super) fn admit(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) {
        if self.admits(&packet) {
            self.push(now, packet);
        } else {
            drops.push(Dropped { packet, reason: DropReason::Overflow });
        }
    }

    /// Appends `packet` without checking the limit.
    pub(super) fn push(&mut self, now: Timestamp, packet: Packet) {
        self.size += packet.size();
        self.packets.push_back(Packet { queued: now, ..packet });
    }

    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.size = self.size.saturating_sub(packet.size());
        Some(packet)
    }

    /// Marks and counts a packet that arrives or leaves, if it is ECN-capable. Returns whether it now carries a mark.
    pub(super) fn mark(&mut self, packet: &mut Packet) -> bool {
        mark(packet, &mut self.marked)
    }

    /// Sojourn time of the head packet; zero if the queue is empty.
    pub(super) fn head_sojourn(&self, now: Timestamp) -> TimeDelta {
        self.packets.front().map_or(TimeDelta::ZERO, |head| sojourn(now, head))
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn size(&self) -> DataSize {
        self.size
    }

    /// Number of packets marked so far.
    pub(super) fn marked(&self) -> u64 {
        self.marked
    }

    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    pub(super) fn drain(&self) -> DataRate {
        self.drain
    }

    pub(super) fn set_drain(&mut self, drain: DataRate) {
        self.drain = drain;
    }
}
