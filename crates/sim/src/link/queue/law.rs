//! What every queue does.

use std::fmt;

use giusto_units::{DataSize, Ecn, TimeDelta, Timestamp};

use crate::packet::{Dropped, Packet};

/// A queue and its law.
///
/// `now` never runs backwards. Each call does an amount of work bounded by the packets that it takes or drops.
pub trait Queue: Send + fmt::Debug {
    /// Takes `packet`, marked if the law says so, with [`Packet::queued`] set to `now`, or drops it, or others in its place: every
    /// packet that will not leave any more is appended to `drops`.
    fn enqueue(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>);

    /// The packet that leaves next, marked if the law says so; packets that the law drops on the way are appended to `drops`.
    fn dequeue(&mut self, now: Timestamp, drops: &mut Vec<Dropped>) -> Option<Packet>;

    /// `packet` comes to the empty queue of a link that is free to transmit it: taken in and out again at once. It does
    /// not wait, so [`Packet::queued`] need not be set.
    fn pass(&mut self, now: Timestamp, packet: Packet, drops: &mut Vec<Dropped>) -> Option<Packet> {
        self.enqueue(now, packet, drops);
        self.dequeue(now, drops)
    }

    /// How many packets wait.
    fn packets(&self) -> usize;

    /// How many bytes wait.
    fn size(&self) -> DataSize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.packets() == 0
    }

    /// How many packets the law has marked so far: those whose codepoint it changed to [`Ecn::Ce`], not those that came with
    /// it. Whoever compares it around a call knows whether that call marked.
    fn marked(&self) -> u64 {
        0
    }

    /// When the law wants to compute anew, if it keeps time: call [`on_timer`](Self::on_timer) then. Any call may change it.
    fn next_timer(&self) -> Option<Timestamp> {
        None
    }

    /// The law computes anew if its time has come.
    fn on_timer(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// The rate at which the link now drains the queue, for laws that reckon in time.
    fn on_rate(&mut self, now: Timestamp, drain: giusto_units::DataRate) {
        let _ = (now, drain);
    }
}

/// How long `packet` has waited in the queue that it is in.
pub(crate) fn sojourn(now: Timestamp, packet: &Packet) -> TimeDelta {
    now.saturating_since(packet.queued)
}

/// Marks `packet` if its transport can make use of it, and says whether it now bears a mark; `marked` counts what changed.
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
