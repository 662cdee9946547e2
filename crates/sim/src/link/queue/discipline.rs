//! The interfaces of a queue and of its configuration.

use std::fmt;

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{error::QueueError, limit::Limit};
use crate::{
    packet::{Dropped, Packet},
    random::Random,
};

/// The configuration of a queue discipline.
pub trait Discipline: fmt::Debug {
    /// Name of the discipline.
    fn name(&self) -> &'static str;

    /// Capacity of its queue.
    fn limit(&self) -> Limit;

    /// Checks that every field is within its range.
    ///
    /// # Errors
    ///
    /// If a field is out of range.
    fn validate(&self) -> Result<(), QueueError> {
        Ok(())
    }

    /// An empty queue, which takes its random numbers from `random` if it needs any. With [`Limit::Time`] it admits no packet until
    /// [`Queue::on_rate`] has been called.
    ///
    /// # Errors
    ///
    /// If a field is out of range.
    fn queue(&self, random: &dyn Fn() -> Random) -> Result<Box<dyn Queue>, QueueError>;

    /// Name and capacity: `CoDel, 1000 packets`.
    fn describe(&self) -> String {
        format!("{}, {}", self.name(), self.limit())
    }
}

/// A queue and its discipline.
///
/// `now` never decreases. The work of each call is bounded by the number of packets that it returns or drops.
pub trait Queue: Send + fmt::Debug {
    /// Adds `packet` to the queue, possibly marked, and sets [`Packet::queued`] to `now`. Appends every packet that is
    /// dropped, `packet` or others, to `drops`.
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>);

    /// Removes the next packet to transmit, possibly marked. Appends every packet that is dropped on departure to `drops`.
    fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Option<Packet>;

    /// Enqueues and immediately dequeues `packet`, possibly marked. The queue is empty and the link is idle, so the packet is not
    /// delayed and [`Packet::queued`] need not be set. Returns whether the packet passed; otherwise it was dropped.
    fn pass(&mut self, now: Timestamp, packet: &mut Packet, drops: &mut Vec<Dropped>) -> bool {
        self.enqueue(now, *packet, drops);
        let passed = self.dequeue(now, drops);
        *packet = passed.unwrap_or(*packet);
        passed.is_some()
    }

    /// Size in bytes up to which the empty queue always [passes](Self::pass) a packet as it is and does not change, so that the link
    /// need not ask; `None` if it must.
    fn free_pass(&self) -> Option<u32> {
        None
    }

    /// Number of queued packets.
    fn packets(&self) -> usize;

    /// Total size of the queued packets.
    fn size(&self) -> DataSize;

    /// Whether no packet is queued.
    fn is_empty(&self) -> bool {
        self.packets() == 0
    }

    /// Number of packets marked since the start: those whose codepoint the discipline changed to [`Ecn::Ce`]. Packets that
    /// arrived with that codepoint do not count.
    fn marked(&self) -> u64 {
        0
    }

    /// Time of the next [`on_timer`](Self::on_timer) call; `None` if the discipline has no periodic update. Any call may
    /// change it.
    fn next_timer(&self) -> Option<Timestamp> {
        None
    }

    /// Runs the periodic update if it is due.
    fn on_timer(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// Sets the rate at which the link drains the queue from now on, for disciplines and limits that depend on it.
    fn on_rate(&mut self, now: Timestamp, drain: DataRate) {
        let _ = (now, drain);
    }
}

/// Time since `packet` entered its current queue.
pub(crate) fn sojourn(now: Timestamp, packet: &Packet) -> TimeDelta {
    now.saturating_since(packet.queued)
}

/// Marks `packet` if it is ECN-capable. Returns whether it now carries a mark; increments `marked` if the codepoint changed.
pub(crate) fn mark(packet: &mut Packet, marked: &mut u64) -> bool {
    if !packet.ecn.is_capable() {
        return false;
    }
    if packet.ecn != Ecn::Ce {
        packet.ecn = Ecn::Ce;
        *marked += 1;
    }
    true
}
