//! Which frames are whole? Packets with one timestamp, put together.
//!
//! A frame of several packets is whole once all packets from its first to the one with the marker have come. Which packet is its
//! first, an RTP header does not say: it is the one behind the last packet of the frame before. So where the packet between two
//! frames is lost, neither is whole, for it may have been of either. The first packet of a source counts as a beginning.

use std::collections::VecDeque;

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// So many frames are put together at once; the oldest are given up.
const MOST_OPEN: usize = 64;
/// A frame that is not whole so long after its first packet came is given up.
const LONGEST_OPEN: TimeDelta = TimeDelta::from_seconds(2);

/// A packet of a frame, come for the first time.
#[derive(Debug, Clone, Copy)]
pub(super) struct FramePacket {
    /// Its sequence number, made wide.
    pub(super) number: u64,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) size: DataSize,
}

/// A frame whose packets have all come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WholeFrame {
    pub(super) timestamp: u32,
    /// When the last of them came.
    pub(super) at: Timestamp,
    pub(super) packets: u64,
    pub(super) size: DataSize,
}

/// Puts the frames of one source together.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// In the order of their numbers.
    open: VecDeque<Open>,
    /// The last number of what was done with; `None` before the first.
    done: Option<u64>,
    whole: u64,
    given_up: u64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    timestamp: u32,
    lowest: u64,
    highest: u64,
    marked: bool,
    packets: u64,
    size: DataSize,
    first_at: Timestamp,
    last_at: Timestamp,
    is_whole: bool,
}

impl Frames {
    /// Frames that came whole.
    pub(super) const fn whole(&self) -> u64 {
        self.whole
    }

    /// Frames of which something came, and not all.
    pub(super) const fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Each packet is a frame.
    pub(super) fn on_single(&mut self, now: Timestamp, packet: FramePacket) -> WholeFrame {
        self.whole += 1;
        WholeFrame { timestamp: packet.timestamp, at: now, packets: 1, size: packet.size }
    }

    /// A packet came; gives what is whole by it: at most the frame that it is of, and the one behind it.
    pub(super) fn on_packet(&mut self, now: Timestamp, packet: FramePacket) -> [Option<WholeFrame>; 2] {
        self.clean(now);
        if self.done.is_some_and(|done| packet.number <= done) {
            return [None, None];
        }
        let place = self.place(now, packet);
        let found = [self.complete(place), self.complete(place + 1)];
        self.clean(now);
        found
    }

    /// What is open is given up: the sequence has ended.
    pub(super) fn end(&mut self) {
        self.given_up += self.open.iter().filter(|frame| !frame.is_whole).count() as u64;
        self.open.clear();
        self.done = None;
    }

    /// Adds the packet to its frame; gives the frame's place.
    fn place(&mut self, now: Timestamp, packet: FramePacket) -> usize {
        let known = self.open.iter().rposition(|frame| frame.timestamp == packet.timestamp);
        if let Some((place, frame)) = known.and_then(|place| Some((place, self.open.get_mut(place)?))) {
            frame.lowest = frame.lowest.min(packet.number);
            frame.highest = frame.highest.max(packet.number);
            frame.marked |= packet.marker;
            frame.packets += 1;
            frame.size += packet.size;
            frame.last_at = now;
            return place;
        }
        let place = self.open.partition_point(|frame| frame.lowest < packet.number);
        self.open.insert(
            place,
            Open {
                timestamp: packet.timestamp,
                lowest: packet.number,
                highest: packet.number,
                marked: packet.marker,
                packets: 1,
                size: packet.size,
                first_at: now,
                last_at: now,
                is_whole: false,
            },
        );
        place
    }

    /// The frame at `place`, if it has become whole.
    fn complete(&mut self, place: usize) -> Option<WholeFrame> {
        let before = match place.checked_sub(1) {
            Some(before) => self.open.get(before).map(|frame| frame.highest),
            None => self.done,
        };
        let frame = self.open.get_mut(place)?;
        let begins = before.is_none_or(|before| before + 1 == frame.lowest);
        let is_whole = begins && frame.marked && frame.packets == frame.highest - frame.lowest + 1;
        if frame.is_whole || !is_whole {
            return None;
        }
        frame.is_whole = true;
        self.whole += 1;
        let &mut Open { timestamp, last_at: at, packets, size, .. } = frame;
        Some(WholeFrame { timestamp, at, packets, size })
    }

    /// What is at the front leaves: whole, or too old, or one too many.
    fn clean(&mut self, now: Timestamp) {
        while let Some(frame) = self.open.front() {
            let is_old = now.saturating_since(frame.first_at) > LONGEST_OPEN;
            if !frame.is_whole && !is_old && self.open.len() <= MOST_OPEN {
                return;
            }
            self.given_up += u64::from(!frame.is_whole);
            self.done = self.done.max(Some(frame.highest));
            self.open.pop_front();
        }
    }
}
