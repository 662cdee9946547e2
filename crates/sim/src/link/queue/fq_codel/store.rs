//! Packet storage of all queues: one array of packets and one of queues, linked by index.

use giusto_units::DataSize;

use super::super::discipline::mark;
use crate::packet::Packet;

/// The end of a list.
const NONE: u32 = u32::MAX;
/// The link of a queue that is in no list.
const UNLISTED: u32 = u32::MAX - 1;

/// One queue. Its size in bytes is stored separately, for a fast search on overflow.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// Bytes that it may still send in this round.
    pub(super) credits: i64,
    head: u32,
    tail: u32,
    packets: u32,
    /// The next queue of its list.
    next: u32,
}

#[derive(Debug)]
struct Slot {
    packet: Packet,
    next: u32,
}

/// All queues and their packets. Slots are reused: nothing is allocated after the maximum backlog has been reached.
#[derive(Debug)]
pub(super) struct Store {
    slots: Vec<Slot>,
    free: u32,
    flows: Vec<Flow>,
    /// Size of each queue in bytes.
    backlogs: Vec<u64>,
    packets: u32,
    size: u64,
    pub(super) marked: u64,
}

impl Store {
    pub(super) fn new(queues: u32) -> Self {
        let flow = Flow { credits: 0, head: NONE, tail: NONE, packets: 0, next: UNLISTED };
        Self {
            slots: Vec::new(),
            free: NONE,
            flows: vec![flow; queues as usize],
            backlogs: vec![0; queues as usize],
            packets: 0,
            size: 0,
            marked: 0,
        }
    }

    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    pub(super) fn size(&self) -> DataSize {
        DataSize::from_bytes(self.size)
    }

    pub(super) fn packets_of(&self, queue: u32) -> u32 {
        self.flows.get(queue as usize).map_or(0, |flow| flow.packets)
    }

    /// The queue with the most bytes; the first one if several are equal.
    pub(super) fn longest(&self) -> u32 {
        let mut longest = (0, 0);
        for (queue, &bytes) in self.backlogs.iter().enumerate() {
            if bytes > longest.1 {
                longest = (queue, bytes);
            }
        }
        longest.0 as u32
    }

    pub(super) fn is_listed(&self, queue: u32) -> bool {
        self.flows.get(queue as usize).is_some_and(|flow| flow.next != UNLISTED)
    }

    pub(super) fn flow_mut(&mut self, queue: u32) -> &mut Flow {
        self.flows.get_mut(queue as usize).expect("the scaled hash is below the number of queues")
    }

    pub(super) fn push(&mut self, queue: u32, packet: Packet) {
        let index = self.put(packet);
        let flow = self.flow_mut(queue);
        flow.packets += 1;
        let last = std::mem::replace(&mut flow.tail, index);
        if last == NONE {
            flow.head = index;
        } else {
            self.slot_mut(last).next = index;
        }
        self.packets += 1;
        self.size += u64::from(packet.bytes);
        *self.backlog_mut(queue) += u64::from(packet.bytes);
    }

    pub(super) fn pop(&mut self, queue: u32) -> Option<Packet> {
        self.pop_place(queue).map(|place| *self.popped(place))
    }

    /// Removes the next packet of a queue. Returns its place, which keeps it until the next [`push`](Self::push).
    pub(super) fn pop_place(&mut self, queue: u32) -> Option<u32> {
        let index = self.flow_mut(queue).head;
        if index == NONE {
            return None;
        }
        let free = std::mem::replace(&mut self.free, index);
        let slot = self.slot_mut(index);
        let bytes = u64::from(slot.packet.bytes);
        let next = std::mem::replace(&mut slot.next, free);
        let flow = self.flow_mut(queue);
        flow.head = next;
        flow.packets -= 1;
        if next == NONE {
            flow.tail = NONE;
        }
        self.packets -= 1;
        self.size -= bytes;
        *self.backlog_mut(queue) -= bytes;
        Some(index)
    }

    /// The packet that was removed from this place.
    pub(super) fn popped(&self, place: u32) -> &Packet {
        &self.slots.get(place as usize).expect("slots are never removed").packet
    }

    /// Marks the packet that was removed from this place if it is ECN-capable. Returns whether it carries a mark.
    pub(super) fn mark(&mut self, place: u32) -> bool {
        let slot = self.slots.get_mut(place as usize).expect("slots are never removed");
        mark(&mut slot.packet, &mut self.marked)
    }

    fn put(&mut self, packet: Packet) -> u32 {
        let index = self.free;
        if index == NONE {
            self.slots.push(Slot { packet, next: NONE });
            return (self.slots.len() - 1) as u32;
        }
        let slot = self.slot_mut(index);
        slot.packet = packet;
        let free = std::mem::replace(&mut slot.next, NONE);
        self.free = free;
        index
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot {
        self.slots
            .get_mut(index as usize)
            .expect("links point to existing slots, and slots are never removed")
    }

    fn backlog_mut(&mut self, queue: u32) -> &mut u64 {
        self.backlogs.get_mut(queue as usize).expect("there are as many backlogs as queues")
    }
}

/// A linked list of queues in service order.
#[derive(Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(super) fn push(&mut self, queue: u32, store: &mut Store) {
        store.flow_mut(queue).next = NONE;
        let last = std::mem::replace(&mut self.tail, queue);
        if last == NONE {
            self.head = queue;
        } else {
            store.flow_mut(last).next = queue;
        }
    }

    /// Removes the head.
    pub(super) fn pop(&mut self, store: &mut Store) {
        if let Some(queue) = self.head() {
            self.head = std::mem::replace(&mut store.flow_mut(queue).next, UNLISTED);
            if self.head == NONE {
                self.tail = NONE;
            }
        }
    }

    pub(super) fn for_each(&self, store: &mut Store, mut act: impl FnMut(&mut Flow)) {
        let mut next = self.head;
        while next != NONE {
            let flow = store.flow_mut(next);
            act(flow);
            next = flow.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Ecn;

    use super::*;
    use crate::link::queue::{codel::Control, tests::packet};

    #[test]
    fn a_queue_takes_at_most_64_bytes_and_slots_are_reused() {
        // RFC 8290 §5.4: "less than 64 bytes per queue", here including the state of CoDel and the backlog.
        let bytes = size_of::<Flow>() + size_of::<Control>() + size_of::<u64>();
        assert!(bytes <= 64, "{bytes}");
        let mut store = Store::new(4);
        for round in 0..100 {
            for index in 0..10 {
                store.push(index % 4, packet(index % 4, round * 10 + u64::from(index), 100, Ecn::NotEct));
            }
            for index in 0..10 {
                assert_eq!(store.pop(index % 4).unwrap().sequence, round * 10 + u64::from(index));
            }
        }
        assert_eq!((store.slots.len(), store.packets(), store.size()), (10, 0, DataSize::ZERO));
        assert!(store.pop(0).is_none());
    }
}
