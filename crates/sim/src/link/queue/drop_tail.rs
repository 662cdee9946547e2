//! A FIFO with tail drop.

use super::prelude::*;

/// A FIFO that drops an arriving packet when it is full.
#[derive(Debug)]
pub struct DropTail(Fifo);

/// Tail drop has no other parameter than its limit.
impl Discipline for Limit {
    fn name(&self) -> &'static str {
        "drop-tail"
    }

    fn limit(&self) -> Limit {
        *self
    }

    fn queue(&self, _random: &dyn Fn() -> Random) -> Result<Box<dyn Queue>, QueueError> {
        Ok(Box::new(DropTail::new(*self)))
    }
}

impl DropTail {
    /// Creates an empty queue. With [`Limit::Time`] it admits no packet until [`Queue::on_rate`] has been called.
    pub fn new(limit: Limit) -> Self {
        Self(Fifo::new(limit))
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) {
        self.0.admit(now, packet, drops);
    }

    fn dequeue(&mut self, _now: Timestamp, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        self.0.pop()
    }

    fn pass(&mut self, _now: Timestamp, packet: &mut Packet, drops: &mut Vec<Dropped>) -> bool {
        let passes = self.0.admits(packet);
        if !passes {
            drops.push(Dropped { packet: *packet, reason: DropReason::Overflow });
        }
        passes
    }

    fn free_pass(&self) -> Option<u32> {
        self.0.limit().always_admits()
    }

    fn packets(&self) -> usize {
        self.0.len()
    }

    fn size(&self) -> DataSize {
        self.0.size()
    }

    fn on_rate(&mut self, _now: Timestamp, drain: DataRate) {
        self.0.set_drain(drain);
    }
}
