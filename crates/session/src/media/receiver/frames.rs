//! Reassembles frames from the packets of one source.
//!
//! A frame is complete when all its packets have arrived, from its first to the one with the marker. An RTP
//! header does not mark the first packet of a frame: it is the one after the last packet of the previous
//! frame. If the last packet of a frame is lost, the next frame is therefore dropped too, because the lost
//! packet may have been its first, unless the payload format marks the start. The first frame of a source has no predecessor: it starts with the packet
//! whose sequence number is the lower 16 bits of the timestamp, as our sender sends it.
//!
//! Where the payload format marks the start of a frame ([`PayloadHeader::begins_frame`]), a frame is complete without its predecessor.
//! The packets that are missing before it may be whole frames: they are awaited as long as an incomplete frame.

use std::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use crate::media::{payload::Payload, payload_header::PayloadHeader};

/// Maximum number of frames that are incomplete or wait for others; beyond that the oldest is dropped. Chosen by us: those of a
/// second at 240 frames per second.
const MAX_OPEN: usize = 256;
/// Usual number of frames that are incomplete or wait for others, for which memory is kept. Chosen by us.
const USUAL_OPEN: usize = 8;
/// Maximum time from the first packet of a frame until it is complete, unless playout waits longer; then it is dropped. Chosen by us.
const MAX_WAIT: TimeDelta = TimeDelta::from_seconds(2);
/// Maximum memory of incomplete frames; beyond that the oldest is dropped. Chosen by us: twice the largest
/// frame of our sender.
const MAX_OPEN_BYTES: usize = 16_000_000;
/// Memory of a packet besides its payload, rounded up.
const PIECE_BYTES: usize = 64;

/// A packet of a frame.
#[derive(Debug, Clone)]
pub(super) struct FramePacket {
    /// Its unwrapped sequence number.
    pub(super) number: u64,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: Payload,
    /// Whether its header says that it is the first of its frame; many do not say so.
    pub(super) begins: bool,
    /// Whether it was lost and repaired.
    pub(super) repaired: bool,
}

/// A complete frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WholeFrame {
    /// The number of its first packet.
    pub(super) number: u64,
    pub(super) timestamp: u32,
    /// Arrival time of its last packet.
    pub(super) at: Timestamp,
    pub(super) packets: u64,
    /// Number of the packets that were repaired.
    pub(super) repaired: u64,
    /// Whether decoding can start with it; `None` if the payload format does not say so.
    pub(super) key: Option<bool>,
    pub(super) payload: Payload,
}

/// Reassembles the frames of one source.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// In order of their numbers. Complete frames remain until all earlier ones are complete or dropped.
    open: VecDeque<Open>,
    /// The last number of the frames that are complete or dropped; `None` before the first.
    done: Option<u64>,
    /// The timestamp of the last of these, if it was dropped before its marker arrived: the rest of it may still arrive.
    cut: Option<u32>,
    /// The memory of the frames in `open`.
    bytes: usize,
    complete: u64,
    dropped: u64,
    has_markers: bool,
    /// The last number of a frame that broke its payload format, since [`take_damaged`](Self::take_damaged).
    damaged: Option<u64>,
}

giusto_units::defaults! {
    #[derive(Debug)]
    struct Open {
        timestamp: u32 = packet.timestamp,
        lowest: u64 = packet.number,
        highest: u64 = packet.number,
        /// The number of the packet whose header says that it is the first.
        start: Option<u64> = None,
        /// The number of the packet with the marker.
        end: Option<u64> = None,
        /// In order of their numbers; empty once the frame is complete.
        pieces: Vec<(u64, Payload)> = Vec::new(),
        first_at: Timestamp = now,
        last_at: Timestamp = now,
        /// Number of repaired packets.
        repaired: u64 = 0,
        is_whole: bool = false,
    }
    fn new(now: Timestamp, packet: &FramePacket);
}

impl Open {
    /// Whether the packet belongs to this frame. After the marker, the same timestamp is another frame.
    fn holds(&self, packet: &FramePacket) -> bool {
        self.timestamp == packet.timestamp
            && self.end.is_none_or(|end| packet.number <= end)
            && (!self.is_whole || packet.number >= self.lowest)
    }

    /// Adds a packet. Returns the memory that it takes: zero for a duplicate.
    fn add(&mut self, now: Timestamp, packet: FramePacket) -> usize {
        let FramePacket { number, marker, payload, begins, repaired, .. } = packet;
        if self.is_whole {
            return 0;
        }
        let bytes = payload.len().saturating_add(PIECE_BYTES);
        match self.pieces.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(_) => return 0,
            Err(place) => self.pieces.insert(place, (number, payload)),
        }
        self.lowest = self.lowest.min(number);
        self.highest = self.highest.max(number);
        if marker {
            self.end = Some(number);
        }
        if begins {
            self.start = Some(number);
        }
        self.last_at = now;
        self.repaired += u64::from(repaired);
        bytes
    }

    /// Whether its first packet says that it is the first.
    fn is_marked(&self, header: PayloadHeader) -> bool {
        let first = self.pieces.first().and_then(|(_, payload)| payload.as_bytes());
        self.start == Some(self.lowest) || first.is_some_and(|bytes| header.begins_frame(bytes))
    }

    fn bytes(&self) -> usize {
        self.pieces.iter().map(|(_, payload)| payload.len().saturating_add(PIECE_BYTES)).sum()
    }

    /// Whether it begins where a frame that ends with number `before` ends.
    fn follows(&self, before: Option<u64>) -> bool {
        match before {
            Some(before) => before + 1 == self.lowest,
            None => self.lowest as u16 == self.timestamp as u16,
        }
    }

    /// Whether all packets have arrived, after a frame that ends with number `before`.
    fn is_complete(&self, before: Option<u64>, header: PayloadHeader) -> bool {
        (self.follows(before) || self.is_marked(header))
            && self.end == Some(self.highest)
            && self.pieces.len() as u64 == self.highest - self.lowest + 1
    }
}

impl Frames {
    /// Number of complete frames.
    pub(super) const fn complete_frames(&self) -> u64 {
        self.complete
    }

    /// Number of incomplete frames that were dropped.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The last number of a frame that was dropped because it broke its payload format, since the last call.
    pub(super) fn take_damaged(&mut self) -> Option<u64> {
        self.damaged.take()
    }

    /// Whether a marker ends its frames.
    pub(super) const fn has_markers(&self) -> bool {
        self.has_markers
    }

    /// Handles a packet that is a frame.
    pub(super) fn on_single(&mut self, now: Timestamp, packet: FramePacket) -> WholeFrame {
        self.complete += 1;
        let FramePacket { number, timestamp, payload, repaired, .. } = packet;
        let repaired = u64::from(repaired);
        WholeFrame { number, timestamp, at: now, packets: 1, repaired, key: None, payload }
    }

    /// Whether the frame of the packet with this number is complete or dropped, so that the packet would not be used.
    pub(super) fn is_past(&self, number: u64) -> bool {
        self.done.is_some_and(|done| number <= done)
    }

    /// Handles a packet. Incomplete frames are awaited at least for `playout`. Returns the index of its frame: that one and the next
    /// may now be [complete](Self::complete).
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        packet: FramePacket,
        playout: TimeDelta,
    ) -> Option<usize> {
        self.has_markers = true;
        self.clean(now, playout);
        if self.is_past(packet.number) {
            return None;
        }
        if self.cut == Some(packet.timestamp) {
            self.done = Some(packet.number);
            self.cut = self.cut.filter(|_| !packet.marker);
            return None;
        }
        Some(self.place(now, packet))
    }

    /// Handles the end of the sequence: incomplete frames are dropped.
    pub(super) fn end(&mut self) {
        self.dropped += self.open.iter().filter(|frame| !frame.is_whole).count() as u64;
        self.open.clear();
        (self.done, self.cut, self.bytes) = (None, None, 0);
    }

    /// Adds the packet to its frame. Returns the index of the frame.
    fn place(&mut self, now: Timestamp, packet: FramePacket) -> usize {
        // No frame before one that ends below this number holds it.
        let later =
            self.open.iter().rev().take_while(|frame| frame.end.is_none_or(|end| end >= packet.number));
        let known = later.enumerate().find(|(_, frame)| frame.holds(&packet));
        let known = known.map(|(behind, _)| self.open.len() - 1 - behind);
        let place = known.unwrap_or_else(|| {
            let place = self.open.partition_point(|frame| frame.lowest < packet.number);
            match self.open.get_mut(place) {
                // What it needs not comes before the start that the format marks: supplemental information, say.
                Some(frame) if frame.is_whole && frame.timestamp == packet.timestamp && !packet.marker => {
                    frame.lowest = packet.number;
                }
                _ => self.open.insert(place, Open::new(now, &packet)),
            }
            place
        });
        if let Some(frame) = self.open.get_mut(place) {
            self.bytes += frame.add(now, packet);
        }
        place
    }

    /// The frame at `place`, if it has just become complete.
    pub(super) fn complete(&mut self, place: usize, header: PayloadHeader) -> Option<WholeFrame> {
        let before = match place.checked_sub(1) {
            Some(before) => self.open.get(before).map(|frame| frame.highest),
            None => self.done,
        };
        let frame = self.open.get_mut(place)?;
        if frame.is_whole || !frame.is_complete(before, header) {
            return None;
        }
        frame.is_whole = true;
        self.bytes = self.bytes.saturating_sub(frame.bytes());
        let pieces = std::mem::take(&mut frame.pieces);
        let Some((payload, key)) = header.frame(pieces.iter().map(|(_, payload)| payload)) else {
            self.dropped += 1;
            self.damaged = Some(frame.highest);
            return None;
        };
        self.complete += 1;
        let &mut Open { timestamp, lowest: number, last_at: at, repaired, .. } = frame;
        Some(WholeFrame { number, timestamp, at, packets: pieces.len() as u64, repaired, key, payload })
    }

    /// Removes frames at the front that are complete without a gap before them, too old, or too many. To be called when the frames of a
    /// packet were taken.
    pub(super) fn clean(&mut self, now: Timestamp, playout: TimeDelta) {
        while let Some(frame) = self.open.front() {
            let is_old = now.saturating_since(frame.first_at) > MAX_WAIT.max(playout);
            let is_full = self.open.len() > MAX_OPEN || self.bytes > MAX_OPEN_BYTES;
            let is_next = frame.is_whole && frame.follows(self.done);
            if !(is_next || is_old || is_full) {
                return;
            }
            self.dropped += u64::from(!frame.is_whole);
            self.bytes = self.bytes.saturating_sub(frame.bytes());
            self.done = self.done.max(Some(frame.highest));
            self.cut = frame.end.is_none().then_some(frame.timestamp);
            self.open.pop_front();
        }
        if self.open.capacity() > 2 * USUAL_OPEN && self.open.len() < USUAL_OPEN {
            // Many frames have waited for a lost packet.
            self.open.shrink_to(USUAL_OPEN);
        }
    }
}
