//! How does a frame fit into packets?
//!
//! A [`Packetizer`] cuts a [`Frame`] into packets: sizes and what goes into RTP headers, no bytes. Sequence numbers and
//! headers are the sender's.
//!
//! # Example
//!
//! ```
//! use giusto_session::{packetizer::Packetizer, source::Frame};
//! use giusto_units::{DataSize, Timestamp};
//!
//! let size = DataSize::from_bytes(2500);
//! let frame = Frame { id: 0, captured: Timestamp::ZERO, media_timestamp: 0, size, key: true };
//! let sizes: Vec<_> = Packetizer::default().packets(&frame).map(|packet| packet.size.as_bytes()).collect();
//! assert_eq!(sizes, [833, 833, 834]);
//! ```

use giusto_units::DataSize;

use super::source::Frame;

/// The largest payload where none is given: with headers of RTP, UDP and IPv6 and some extensions below the 1280 bytes that
/// every IPv6 path carries (RFC 8200 §5).
pub const DEFAULT_MAX_PAYLOAD: DataSize = DataSize::from_bytes(1200);

/// How a frame is cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// As few packets as possible, alike to the byte; the larger ones last, as libwebrtc does.
    #[default]
    Even,
    /// Full packets, and what remains in the last one.
    Fill,
}

/// Cuts frames into packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packetizer {
    max_payload: DataSize,
    cut: Cut,
}

impl Default for Packetizer {
    /// Even packets of at most [`DEFAULT_MAX_PAYLOAD`].
    fn default() -> Self {
        Self { max_payload: DEFAULT_MAX_PAYLOAD, cut: Cut::Even }
    }
}

impl Packetizer {
    /// Packets of at most `max_payload`, headers not included; `None` for a payload of zero.
    pub fn new(max_payload: DataSize, cut: Cut) -> Option<Self> {
        (max_payload > DataSize::ZERO).then_some(Self { max_payload, cut })
    }

    /// The packets of `frame`, first to last. A frame without bytes has none.
    pub fn packets(&self, frame: &Frame) -> Packets {
        let (total, most) = (frame.size.as_bytes(), self.max_payload.as_bytes());
        let count = total.div_ceil(most);
        let (smaller, larger) = match self.cut {
            Cut::Even => (total.checked_div(count).unwrap_or(0), total.checked_rem(count).unwrap_or(0)),
            Cut::Fill => (most, 0),
        };
        Packets { frame: *frame, count, index: 0, left: total, smaller, larger }
    }
}

/// One packet of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaPacket {
    /// The frame it belongs to.
    pub frame: Frame,
    /// Which packet of its frame it is, from zero.
    pub index: u64,
    /// Its payload, headers not included; never zero.
    pub size: DataSize,
    /// Whether it is the last one of its frame: in video the RTP marker (RFC 3551 §5). Sound uses that bit otherwise (§4.1).
    pub last: bool,
}

/// The packets of one frame.
#[derive(Debug, Clone)]
pub struct Packets {
    frame: Frame,
    count: u64,
    index: u64,
    /// Bytes not yet in a packet.
    left: u64,
    /// The size of all packets but the last `larger` ones, which have a byte more.
    smaller: u64,
    larger: u64,
}

impl Iterator for Packets {
    type Item = MediaPacket;

    fn next(&mut self) -> Option<MediaPacket> {
        let following = self.count.checked_sub(self.index + 1)?;
        let size = (self.smaller + u64::from(following < self.larger)).min(self.left);
        self.left -= size;
        let packet = MediaPacket {
            frame: self.frame,
            index: self.index,
            size: DataSize::from_bytes(size),
            last: following == 0,
        };
        self.index += 1;
        Some(packet)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.count - self.index).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Packets {}

#[cfg(test)]
mod tests {
    use giusto_units::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn frame(bytes: u64) -> Frame {
        let size = DataSize::from_bytes(bytes);
        Frame { id: 7, captured: Timestamp::from_nanos(9), media_timestamp: 90, size, key: true }
    }

    fn sizes(bytes: u64, cut: Cut) -> Vec<u64> {
        let packetizer = Packetizer::new(DataSize::from_bytes(1200), cut).unwrap();
        packetizer.packets(&frame(bytes)).map(|packet| packet.size.as_bytes()).collect()
    }

    #[test]
    fn frames_are_cut_evenly_or_filled() {
        assert_eq!(sizes(1200, Cut::Even), [1200]);
        assert_eq!(sizes(1201, Cut::Even), [600, 601]);
        assert_eq!(sizes(3500, Cut::Even), [1166, 1167, 1167]);
        assert_eq!(sizes(3500, Cut::Fill), [1200, 1200, 1100]);
        assert_eq!(sizes(2400, Cut::Fill), [1200, 1200]);
        assert!(sizes(0, Cut::Even).is_empty() && sizes(0, Cut::Fill).is_empty());
        assert_eq!(Packetizer::new(DataSize::ZERO, Cut::Even), None);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_nothing_is_too_large_and_the_last_is_marked(
            bytes in 1_u64..200_000, most in 1_u64..3000, fill: bool,
        ) {
            let cut = if fill { Cut::Fill } else { Cut::Even };
            let packets = Packetizer::new(DataSize::from_bytes(most), cut).unwrap().packets(&frame(bytes));
            let (told, packets) = (packets.len(), packets.collect::<Vec<_>>());
            let sizes: Vec<_> = packets.iter().map(|packet| packet.size.as_bytes()).collect();
            let (smallest, largest) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
            prop_assert_eq!(sizes.iter().sum::<u64>(), bytes);
            prop_assert!(smallest > 0 && largest <= most);
            prop_assert_eq!((told, sizes.len() as u64), (sizes.len(), bytes.div_ceil(most)));
            prop_assert!((0..).zip(&packets).all(|(n, packet)| packet.index == n && packet.frame == frame(bytes)));
            prop_assert!(packets.iter().rev().enumerate().all(|(n, packet)| packet.last == (n == 0)));
            if fill {
                prop_assert!(sizes.iter().rev().skip(1).all(|&size| size == most));
            } else {
                prop_assert!(largest - smallest <= 1 && sizes.is_sorted());
            }
        }
    }
}
