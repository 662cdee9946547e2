//! The contents of the packets in the network.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    link::Link,
    packet::BodyId,
    traffic::{Body, tcp::Segment},
};

/// The contents of the packets in the network.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    /// TCP segments, apart from the others: to overwrite one, nothing need be read or freed. With many flows, the place of a segment is
    /// not in the processor's cache when it is used again.
    segments: Places<Segment>,
    others: Places<Body>,
    /// For the contents of duplicated packets: the number of packets that refer to them, by [`BodyId`].
    copies: BTreeMap<u32, u32>,
}

/// Contents of a kind.
#[derive(Debug)]
struct Places<T> {
    kept: Vec<T>,
    /// Unused places. The one unused for longest is used next: so packets that follow one another have neighbouring places, which is
    /// faster with many packets.
    free: VecDeque<u32>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), free: VecDeque::new() }
    }
}

impl<T> Places<T> {
    #[inline]
    fn keep(&mut self, content: T) -> u32 {
        if let Some(place) = self.free.pop_front() {
            if let Some(kept) = self.kept.get_mut(place as usize) {
                *kept = content;
            }
            return place;
        }
        self.kept.push(content);
        self.kept.len() as u32 - 1
    }
}

impl Bodies {
    /// The flag of a segment in a [`BodyId`]; the rest is its place.
    const SEGMENT: u32 = 1 << 31;

    /// Stores `body` for a packet, and leaves none.
    #[inline]
    pub(super) fn keep(&mut self, body: &mut Body) -> BodyId {
        match body {
            Body::None => BodyId::NONE,
            Body::Tcp(segment) => BodyId(self.segments.keep(*segment) | Self::SEGMENT),
            Body::Datagram { .. } => BodyId(self.others.keep(std::mem::take(body))),
        }
    }

    /// Counts the packets that `link` has duplicated.
    #[cold]
    #[inline(never)]
    pub(super) fn copy(&mut self, link: &mut Link) {
        while let Some(id) = link.poll_duplicated() {
            if id != BodyId::NONE {
                *self.copies.entry(id.0).or_insert(1) += 1;
            }
        }
    }

    /// Counts the packets that `link` has duplicated, and releases those that it has dropped.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&mut self, link: &mut Link) {
        self.copy(link);
        while let Some(dropped) = link.poll_dropped() {
            self.release(dropped.packet.body);
        }
    }

    /// Calls `read` with the content of a packet.
    #[inline]
    pub(super) fn read(&self, id: BodyId, read: impl FnOnce(&Body)) {
        if id == BodyId::NONE {
            return read(&Body::None);
        }
        if id.0 & Self::SEGMENT == 0 {
            return read(self.others.kept.get(id.0 as usize).unwrap_or(&Body::None));
        }
        let segment = self.segments.kept.get((id.0 & !Self::SEGMENT) as usize);
        read(&segment.map_or(Body::None, |segment| Body::Tcp(*segment)));
    }

    /// Releases the content of a packet that has left the network.
    #[inline]
    pub(super) fn release(&mut self, id: BodyId) {
        if id == BodyId::NONE || (!self.copies.is_empty() && self.is_copied(id)) {
            return;
        }
        if id.0 & Self::SEGMENT != 0 {
            self.segments.free.push_back(id.0 & !Self::SEGMENT);
        } else {
            self.others.free.push_back(id.0);
            if let Some(kept) = self.others.kept.get_mut(id.0 as usize) {
                // Frees its memory.
                *kept = Body::None;
            }
        }
    }

    /// Whether other packets still refer to the content of a packet that has left the network.
    #[cold]
    #[inline(never)]
    fn is_copied(&mut self, id: BodyId) -> bool {
        let Some(copies) = self.copies.get_mut(&id.0) else { return false };
        *copies -= 1;
        if *copies == 1 {
            self.copies.remove(&id.0);
        }
        true
    }
}

#[cfg(test)]
impl Bodies {
    /// Panics if a packet still has a segment.
    pub(super) fn assert_released(self) {
        let Places { kept, mut free } = self.segments;
        free.make_contiguous().sort_unstable();
        assert!(free.into_iter().eq(0..kept.len() as u32), "each is free, and once");
        assert!(self.copies.is_empty(), "{:?}", self.copies);
    }
}
