//! FQ-CoDel: deficit round robin over per-flow queues with `CoDel` (RFC 8290).

use rand::RngExt;

use self::store::{List, Store};
use super::{
    codel::{Backlog, Control, Law},
    prelude::*,
};
use crate::packet::FlowId;

mod store;

/// Maximum number of queues, as in Linux.
const MAX_QUEUES: u32 = 65_536;
/// RFC 8290 §4.1: maximum number of packets dropped on one overflow.
const MAX_BATCH: u32 = 64;

giusto_units::defaults! {
    /// Configuration of an [`FqCodel`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct FqCodelConfig {
        /// As [`CoDelConfig::target`](super::CoDelConfig::target). Default: 5 ms (RFC 8290 §5.2.2).
        pub target: TimeDelta = TimeDelta::from_millis(5),
        /// As [`CoDelConfig::interval`](super::CoDelConfig::interval). Default: 100 ms (RFC 8290 §5.2.1).
        pub interval: TimeDelta = TimeDelta::from_millis(100),
        /// As [`CoDelConfig::max_packet`](super::CoDelConfig::max_packet), compared with the total size of all queues (RFC 8289
        /// §4.4). Default: 1500 B.
        pub max_packet: DataSize = DataSize::from_bytes(1500),
        /// Whether to mark ECN-capable packets instead of dropping them. Default: yes (RFC 8290 §5.2.6).
        pub ecn: bool = true,
        /// If set, every ECN-capable packet with a longer sojourn time is marked, in addition to the signals of `CoDel`; at
        /// least 0. Default: not set (RFC 8290 §5.2.7).
        pub ce_threshold: Option<TimeDelta> = None,
        /// Number of queues, 1 to 65 536. Default: 1024 (RFC 8290 §5.2.5).
        pub queues: u32 = 1024,
        /// Bytes that a queue may send in each round, above 0. Default: 1514 B (RFC 8290 §5.2.4).
        pub quantum: DataSize = DataSize::from_bytes(1514),
        /// Capacity of all queues together in packets, 1 to 4 294 967 292. Default: 10 240 (RFC 8290 §5.2.3).
        pub limit: u32 = 10_240,
        /// Capacity of all queues together in bytes. Default: not limited; the RFC has no such limit.
        pub memory: Option<DataSize> = None,
    }
}

/// The scheduler of RFC 8290 §4 over queues with the control law of RFC 8289.
///
/// A salted hash of the [`FlowId`], which represents the five-tuple, selects the queue of a packet. Two flows may share a
/// queue (§5.3). A queue's turn ends when its credits are zero or less (§3; §4.2 says "negative", which is equivalent given
/// its "at least a quantum").
///
/// A departure takes constant time on average. An overflow examines each queue once and drops half of the longest (§4.1).
#[derive(Debug)]
pub struct FqCodel {
    config: FqCodelConfig,
    law: Law,
    salt: u64,
    /// One for each queue.
    controls: Vec<Control>,
    store: Store,
    new: List,
    old: List,
}

impl Discipline for FqCodelConfig {
    fn name(&self) -> &'static str {
        "FQ-CoDel"
    }

    fn limit(&self) -> Limit {
        Limit::Packets(self.limit.into())
    }

    fn queue(&self, random: &dyn Fn() -> Random) -> Result<Box<dyn Queue>, QueueError> {
        Ok(Box::new(FqCodel::new(*self, random())?))
    }

    fn validate(&self) -> Result<(), QueueError> {
        let check = Check(self.name());
        self.law()?;
        if let Some(threshold) = self.ce_threshold {
            check.time("ce_threshold", threshold)?;
        }
        let queues_fit = (1..=MAX_QUEUES).contains(&self.queues);
        check.number("queues", queues_fit, "from 1 to 65536", f64::from(self.queues))?;
        check.positive_size("quantum", self.quantum)?;
        // The links of the store reserve two numbers.
        let limit_fits = (1..u32::MAX - 2).contains(&self.limit);
        check.number("limit", limit_fits, "from 1 to 4294967292 packets", f64::from(self.limit))
    }
}

impl FqCodelConfig {
    fn law(&self) -> Result<Law, QueueError> {
        let Self { target, interval, max_packet, ecn, .. } = *self;
        Law::new(self.name(), Law { target, interval, max_packet, ecn })
    }
}

impl FqCodel {
    /// Creates an empty queue; `random` salts the hash.
    ///
    /// # Errors
    ///
    /// [`QueueError::Range`] for a field that is out of range.
    pub fn new(config: FqCodelConfig, mut random: Random) -> Result<Self, QueueError> {
        config.validate()?;
        let law = config.law()?;
        Ok(Self {
            config,
            law,
            salt: random.random(),
            controls: vec![Control::default(); config.queues as usize],
            store: Store::new(config.queues),
            new: List::EMPTY,
            old: List::EMPTY,
        })
    }

    fn quantum(&self) -> i64 {
        i64::try_from(self.config.quantum.as_bytes()).unwrap_or(i64::MAX)
    }

    /// RFC 8290 §4.1, with the output function of Steele, Lea & Flood, "Fast Splittable Pseudorandom Number Generators",
    /// OOPSLA 2014, instead of Jenkins' hash.
    fn queue_of(&self, flow: FlowId) -> u32 {
        let mut hash = u64::from(flow.0).wrapping_add(self.salt);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        // Scales the high half of the hash to the number of queues without a division.
        (((hash >> 32) * u64::from(self.config.queues)) >> 32) as u32
    }

    fn is_over_limit(&self) -> bool {
        self.store.packets() > self.config.limit
            || self.config.memory.is_some_and(|memory| self.store.size() > memory)
    }

    /// RFC 8290 §4.1: drops half of the packets of the longest queue from its head.
    fn drop_batch(&mut self, drops: &mut Vec<Dropped>) {
        let longest = self.store.longest();
        let batch = (self.store.packets_of(longest) / 2).clamp(1, MAX_BATCH);
        for _ in 0..batch {
            if let Some(packet) = self.store.pop(longest) {
                drops.push(Dropped { packet, reason: DropReason::Overflow });
            }
        }
    }

    /// The queue to serve next (RFC 8290 §4.2), and whether it is in the list of new queues.
    fn choose(&mut self) -> Option<(u32, bool)> {
        let quantum = self.quantum();
        let mut skipped = 0;
        loop {
            let (list, is_new) =
                if self.new.is_empty() { (&mut self.old, false) } else { (&mut self.new, true) };
            let queue = list.head()?;
            let flow = self.store.flow_mut(queue);
            if flow.credits > 0 {
                return Some((queue, is_new));
            }
            flow.credits = flow.credits.saturating_add(quantum);
            list.pop(&mut self.store);
            self.old.push(queue, &mut self.store);
            skipped += 1;
            if skipped > self.config.queues {
                self.skip_rounds(quantum);
                skipped = 0;
            }
        }
    }

    /// Adds the credits of all further rounds without a departure at once, which bounds the work for a packet of many
    /// quanta.
    fn skip_rounds(&mut self, quantum: i64) {
        let mut rounds = i64::MAX;
        self.old.for_each(&mut self.store, |flow| {
            let missing = flow.credits.saturating_neg().max(0);
            rounds = rounds.min(missing / quantum);
        });
        self.old.for_each(&mut self.store, |flow| {
            flow.credits = flow.credits.saturating_add(rounds.saturating_mul(quantum));
        });
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) {
        let queue = self.queue_of(packet.flow);
        self.store.push(queue, Packet { queued: now, ..packet });
        if !self.store.is_listed(queue) {
            self.store.flow_mut(queue).credits = self.quantum();
            self.new.push(queue, &mut self.store);
        }
        while self.is_over_limit() {
            self.drop_batch(drops);
        }
    }

    fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Option<Packet> {
        loop {
            let (queue, is_new) = self.choose()?;
            let control = self.controls.get_mut(queue as usize).expect("there are as many as queues");
            let mut backlog = FlowQueue { store: &mut self.store, queue, drops };
            let place = control.dequeue(now, &self.law, &mut backlog);
            if let Some(place) = place {
                let packet = *self.store.popped(place);
                if self.config.ce_threshold.is_some_and(|threshold| sojourn(now, &packet) > threshold) {
                    self.store.mark(place);
                }
                let flow = self.store.flow_mut(queue);
                flow.credits = flow.credits.saturating_sub(i64::from(packet.bytes));
                return Some(*self.store.popped(place));
            }
            if is_new {
                // It moves behind the old queues before it can be new again, which prevents starvation.
                self.new.pop(&mut self.store);
                self.old.push(queue, &mut self.store);
            } else {
                self.old.pop(&mut self.store);
            }
        }
    }

    fn packets(&self) -> usize {
        self.store.packets() as usize
    }

    fn size(&self) -> DataSize {
        self.store.size()
    }

    fn marked(&self) -> u64 {
        self.store.marked
    }
}

struct FlowQueue<'a> {
    store: &'a mut Store,
    queue: u32,
    drops: &'a mut Vec<Dropped>,
}

impl Backlog for FlowQueue<'_> {
    /// The place of the packet in the store, valid until another one is enqueued.
    type Popped = u32;

    fn pop(&mut self) -> Option<u32> {
        self.store.pop_place(self.queue)
    }

    fn queued(&self, &place: &u32) -> Timestamp {
        self.store.popped(place).queued
    }

    fn size(&self) -> DataSize {
        self.store.size()
    }

    fn mark(&mut self, &mut place: &mut u32) -> bool {
        self.store.mark(place)
    }

    fn discard(&mut self, place: u32) {
        self.drops.push(Dropped { packet: *self.store.popped(place), reason: DropReason::Aqm });
    }
}

#[cfg(test)]
mod tests;
