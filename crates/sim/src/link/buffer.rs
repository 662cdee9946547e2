//! A queue, with what its link asks at every event kept at hand.

use giusto_core::{
    ecn::Ecn,
    units::{DataRate, Timestamp},
};

use super::queue::Queue;
use crate::{
    packet::{Dropped, Packet},
    trace::Waiting,
};

/// A queue whose emptiness, timer and marks need no virtual call.
#[derive(Debug)]
pub(super) struct Buffer {
    queue: Box<dyn Queue>,
    packets: usize,
    timer: Option<Timestamp>,
    marked: u64,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) packet: Option<Packet>,
    /// Whether this very call marked it.
    pub(super) marked: bool,
}

impl Buffer {
    pub(super) fn new(queue: Box<dyn Queue>) -> Self {
        let (packets, timer, marked) = (queue.packets(), queue.next_timer(), queue.marked());
        Self { queue, packets, timer, marked }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        self.timer
    }

    /// By the queue's own count.
    pub(super) fn waiting(&self) -> Waiting {
        Waiting { packets: self.queue.packets() as u64, size: self.queue.size() }
    }

    /// Whether `packet` was marked by this call.
    pub(super) fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) -> bool {
        let before = drops.len();
        self.queue.enqueue(now, packet, drops);
        self.packets = (self.packets + 1).saturating_sub(drops.len() - before);
        self.timer = self.queue.next_timer();
        packet.ecn.is_capable() && self.has_marked()
    }

    pub(super) fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Taken {
        let before = drops.len();
        let packet = self.queue.dequeue(now, drops);
        self.packets = self.packets.saturating_sub(usize::from(packet.is_some()) + drops.len() - before);
        self.timer = self.queue.next_timer();
        let marked = packet.is_some_and(|packet| packet.ecn == Ecn::Ce) && self.has_marked();
        Taken { packet, marked }
    }

    /// Through the empty queue, to a transmitter that is free.
    pub(super) fn pass(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) -> Taken {
        let packet = self.queue.pass(now, packet, drops);
        self.packets = if packet.is_some() { 0 } else { self.queue.packets() };
        self.timer = self.queue.next_timer();
        let marked = packet.is_some_and(|packet| packet.ecn == Ecn::Ce) && self.has_marked();
        Taken { packet, marked }
    }

    pub(super) fn on_timer(&mut self, now: Timestamp) {
        self.queue.on_timer(now);
        self.timer = self.queue.next_timer();
    }

    pub(super) fn on_rate(&mut self, now: Timestamp, drain: DataRate) {
        self.queue.on_rate(now, drain);
        self.timer = self.queue.next_timer();
    }

    fn has_marked(&mut self) -> bool {
        let before = std::mem::replace(&mut self.marked, self.queue.marked());
        self.marked > before
    }
}
