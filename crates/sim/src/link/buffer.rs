//! A queue with cached length, timer and mark count.

use giusto_units::{DataRate, Ecn, Timestamp};

use super::queue::Queue;
use crate::{
    packet::{Dropped, Packet},
    trace::Backlog,
};

/// Caches the values that the link reads at every event, which avoids virtual calls.
#[derive(Debug)]
pub(super) struct Buffer {
    queue: Box<dyn Queue>,
    /// See [`Queue::free_pass`].
    free_pass: Option<u32>,
    backlog: Backlog,
    timer: Option<Timestamp>,
    marked: u64,
}

impl Buffer {
    #[inline]
    pub(super) fn new(queue: Box<dyn Queue>) -> Self {
        let (backlog, timer, marked) = (counted(&*queue), queue.next_timer(), queue.marked());
        let free_pass = queue.free_pass();
        Self { queue, free_pass, backlog, timer, marked }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.backlog.packets == 0
    }

    #[inline]
    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        self.timer
    }

    #[inline]
    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Packets and bytes by the queue's own count.
    #[inline]
    pub(super) fn counted(&self) -> Backlog {
        counted(&*self.queue)
    }

    /// Enqueues `packet`. Returns whether this call marked it.
    #[inline]
    pub(super) fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) -> bool {
        let before = drops.len();
        self.queue.enqueue(now, packet, drops);
        self.backlog.packets += 1;
        self.backlog.size += packet.size();
        self.remove(drops.get(before..).unwrap_or_default().iter().map(|dropped| &dropped.packet));
        self.timer = self.queue.next_timer();
        packet.ecn.is_capable() && self.has_marked()
    }

    #[inline]
    pub(super) fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Option<Packet> {
        let before = drops.len();
        let packet = self.queue.dequeue(now, drops);
        self.remove(packet.as_ref());
        self.remove(drops.get(before..).unwrap_or_default().iter().map(|dropped| &dropped.packet));
        self.timer = self.queue.next_timer();
        packet
    }

    /// Whether the call that returned `packet`, the last one, marked it.
    #[inline]
    pub(super) fn marks(&mut self, packet: &Packet) -> bool {
        packet.ecn == Ecn::Ce && self.has_marked()
    }

    /// See [`Queue::pass`]. Returns whether this call marked the packet; `None` if it was dropped.
    #[inline]
    pub(super) fn pass(
        &mut self,
        now: Timestamp,
        packet: &mut Packet,
        drops: &mut Vec<Dropped>,
    ) -> Option<bool> {
        if self.free_pass.is_some_and(|most| packet.bytes <= most) {
            return Some(false);
        }
        let passed = self.queue.pass(now, packet, drops);
        self.timer = self.queue.next_timer();
        if !passed {
            self.backlog = self.counted();
            return None;
        }
        Some(self.marks(packet))
    }

    #[inline]
    pub(super) fn on_timer(&mut self, now: Timestamp) {
        self.queue.on_timer(now);
        self.timer = self.queue.next_timer();
    }

    #[inline]
    pub(super) fn on_rate(&mut self, now: Timestamp, drain: DataRate) {
        self.queue.on_rate(now, drain);
        self.timer = self.queue.next_timer();
    }

    fn remove<'a>(&mut self, packets: impl IntoIterator<Item = &'a Packet>) {
        for packet in packets {
            self.backlog.packets = self.backlog.packets.saturating_sub(1);
            self.backlog.size = self.backlog.size.saturating_sub(packet.size());
        }
    }

    fn has_marked(&mut self) -> bool {
        let before = std::mem::replace(&mut self.marked, self.queue.marked());
        self.marked > before
    }
}

fn counted(queue: &dyn Queue) -> Backlog {
    Backlog { packets: queue.packets() as u64, size: queue.size() }
}
