//! Observers that condense the stream of events: into figures, and into series over time.
//!
//! | type | answers |
//! |---|---|
//! | [`Summary`] | what did each flow get, and what did each link do, over the whole run? |
//! | [`Timeline`] | how did that go, window by window? |
//!
//! Both take a bounded time per event, and no memory per packet. To have both, pass a pair: `&mut (summary, timeline)`.

mod fates;
mod media;
mod summary;
mod timeline;

use giusto_units::DataSize;

pub use media::{MediaSeries, MediaWindow, leave_out_smallest};
pub use summary::{FlowSummary, LinkSummary, Summary};
pub use timeline::{FlowWindow, Gauge, LinkWindow, Timeline};

use crate::packet::{DropReason, Packet};

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub packets: u64,
    /// Their sizes on the wire, all headers included.
    pub size: DataSize,
}

impl Tally {
    #[inline]
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.size += packet.size();
    }

    #[inline]
    fn remove(&mut self, packet: &Packet) {
        self.packets = self.packets.saturating_sub(1);
        self.size = self.size.saturating_sub(packet.size());
    }
}

/// Dropped packets, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// The queue was full.
    pub overflow_packets: u64,
    /// Active queue management dropped them.
    pub aqm_packets: u64,
    /// Lost on the wire.
    pub lost_packets: u64,
}

impl Drops {
    /// For whatever reason.
    pub const fn packets(&self) -> u64 {
        self.overflow_packets + self.aqm_packets + self.lost_packets
    }

    #[inline]
    fn add(&mut self, reason: DropReason) {
        match reason {
            DropReason::Overflow => self.overflow_packets += 1,
            DropReason::Aqm => self.aqm_packets += 1,
            DropReason::Loss => self.lost_packets += 1,
        }
    }
}

/// The entry at `place`, with all entries before it, made where they are missing.
#[inline]
fn entry<T>(entries: &mut Vec<T>, place: u32, make: impl FnMut() -> T) -> &mut T {
    let place = place as usize;
    if place >= entries.len() {
        entries.resize_with(place + 1, make);
    }
    entries.get_mut(place).expect("made just before, if it was missing")
}

#[cfg(test)]
mod tests;
