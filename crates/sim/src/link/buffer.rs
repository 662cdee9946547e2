//! A queue with cached length, timer and mark count.

use giusto_units::{DataRate, Ecn, Timestamp};

use super::queue::Queue;
use crate::{
    packet::{Dropped, Packet},
    trace::Waiting,
};

/// Caches the values that the link reads at every event, which avoids virtual calls.
#[derive(Debug)]
pub(super) struct Buffer {
    queue: Box<dyn Queue>,
    waiting: Waiting,
    timer: Option<Timestamp>,
    marked: u64,
}

/// The result of removing a packet from a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dequeued {
    pub(super) packet: Option<Packet>,
    /// Whether this call marked the packet.
    pub(super) marked: bool,
}

impl Buffer {
    pub(super) fn new(queue: Box<dyn Queue>) -> Self {
        let (waiting, timer, marked) = (counted(&*queue), queue.next_timer(), queue.marked());
        Self { queue, waiting, timer, marked }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.packets == 0
    }

    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        self.timer
    }

    pub(super) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Packets and bytes by the queue's own count.
    pub(super) fn counted(&self) -> Waiting {
        counted(&*self.queue)
    }

    /// Enqueues `packet`. Returns whether this call marked it.
    pub(super) fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) -> bool {
        let before = drops.len();
        self.queue.enqueue(now, packet, drops);
        self.waiting.packets += 1;
        self.waiting.size += packet.size();
        self.remove(drops.get(before..).unwrap_or_default().iter().map(|dropped| &dropped.packet));
        self.timer = self.queue.next_timer();
        packet.ecn.is_capable() && self.has_marked()
    }

    pub(super) fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Dequeued {
        let before = drops.len();
        let packet = self.queue.dequeue(now, drops);
        self.remove(packet.as_ref());
        self.remove(drops.get(before..).unwrap_or_default().iter().map(|dropped| &dropped.packet));
        self.timer = self.queue.next_timer();
        let marked = packet.is_some_and(|packet| packet.ecn == Ecn::Ce) && self.has_marked();
        Dequeued { packet, marked }
    }

    /// See [`Queue::pass`].
    pub(super) fn pass(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) -> Dequeued {
        let packet = self.queue.pass(now, packet, drops);
        if packet.is_none() {
            self.waiting = self.counted();
        }
        self.timer = self.queue.next_timer();
        let marked = packet.is_some_and(|packet| packet.ecn == Ecn::Ce) && self.has_marked();
        Dequeued { packet, marked }
    }

    pub(super) fn on_timer(&mut self, now: Timestamp) {
        self.queue.on_timer(now);
        self.timer = self.queue.next_timer();
    }

    pub(super) fn on_rate(&mut self, now: Timestamp, drain: DataRate) {
        self.queue.on_rate(now, drain);
        self.timer = self.queue.next_timer();
    }

    fn remove<'a>(&mut self, packets: impl IntoIterator<Item = &'a Packet>) {
        for packet in packets {
            self.waiting.packets = self.waiting.packets.saturating_sub(1);
            self.waiting.size = self.waiting.size.saturating_sub(packet.size());
        }
    }

    fn has_marked(&mut self) -> bool {
        let before = std::mem::replace(&mut self.marked, self.queue.marked());
        self.marked > before
    }
}

fn counted(queue: &dyn Queue) -> Waiting {
    Waiting { packets: queue.packets() as u64, size: queue.size() }
}
