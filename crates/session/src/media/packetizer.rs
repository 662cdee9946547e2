//! Divides frames into packets.
//!
//! # Example
//!
//! ```
//! use giusto_session::media::Packetizer;
//! use giusto_units::DataSize;
//!
//! let pieces = Packetizer::default().pieces(DataSize::from_bytes(2500));
//! let sizes: Vec<_> = pieces.map(|piece| piece.size.as_bytes()).collect();
//! assert_eq!(sizes, [833, 833, 834]);
//! ```

use giusto_units::DataSize;

use super::{payload::Payload, payload_header::PayloadHeader};

/// The default maximum payload: with the headers of RTP, UDP, IPv6 and some extensions it stays below the
/// 1280 bytes that every IPv6 path supports (RFC 8200 §5).
pub const DEFAULT_MAX_PAYLOAD: DataSize = DataSize::from_bytes(1200);

/// Divides frames into as few packets as possible, with sizes that differ by at most one byte. The larger ones come last, as in
/// libwebrtc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packetizer {
    max_payload: DataSize,
    header: PayloadHeader,
}

impl Default for Packetizer {
    /// Packets of at most [`DEFAULT_MAX_PAYLOAD`].
    fn default() -> Self {
        Self { max_payload: DEFAULT_MAX_PAYLOAD, header: PayloadHeader::None }
    }
}

impl Packetizer {
    /// Packets of at most `max_payload`, headers not included; `None` if that is zero.
    pub fn new(max_payload: DataSize) -> Option<Self> {
        (max_payload > DataSize::ZERO).then_some(Self { max_payload, header: PayloadHeader::None })
    }

    /// The same with a header in each packet, within the largest payload; `None` if that has no room for it.
    pub fn with_header(self, header: PayloadHeader) -> Option<Self> {
        (self.max_payload.as_bytes() > header.size()).then_some(Self { header, ..self })
    }

    /// The largest payload of a packet.
    pub const fn max_payload(&self) -> DataSize {
        self.max_payload
    }

    /// The pieces of a frame of `size`, in order, if only its size is known. A frame without bytes has none.
    pub fn pieces(&self, size: DataSize) -> Pieces {
        let (total, max) = (size.as_bytes(), self.max_payload.as_bytes() - self.header.size());
        let count = total.div_ceil(max);
        let (smaller, larger) =
            (total.checked_div(count).unwrap_or(0), total.checked_rem(count).unwrap_or(0));
        Pieces { left: count, offset: 0, total, smaller, larger }
    }
}

impl Packetizer {
    /// The payloads of a frame's packets, in order. Without a header, no bytes are copied. A frame of H.264 without units has none,
    /// and one of AV1 without OBUs.
    pub fn payloads(&self, frame: &Payload) -> Vec<Payload> {
        let part = |piece: Piece| {
            let from = piece.offset as usize;
            frame.part(from..from + piece.size.as_bytes() as usize)
        };
        let pieces = self.pieces(frame.size());
        if self.header == PayloadHeader::None {
            return pieces.map(part).collect();
        }
        let max = usize::try_from(self.max_payload.as_bytes()).unwrap_or(usize::MAX);
        self.header.payloads(frame, max, || pieces.map(|piece| (piece.offset == 0, piece.last, part(piece))))
    }
}

/// The part of a frame in one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its position in the frame, in bytes.
    pub offset: u64,
    /// Its size; never zero.
    pub size: DataSize,
    /// Whether it is the last of its frame.
    pub last: bool,
}

/// The pieces of one frame.
#[derive(Debug, Clone)]
pub struct Pieces {
    /// Number of pieces left.
    left: u64,
    offset: u64,
    total: u64,
    /// The size of all pieces except the last `larger` ones, which have one byte more.
    smaller: u64,
    larger: u64,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let following = self.left.checked_sub(1)?;
        let size = (self.smaller + u64::from(following < self.larger)).min(self.total - self.offset);
        let piece = Piece { offset: self.offset, size: DataSize::from_bytes(size), last: following == 0 };
        self.offset += size;
        self.left = following;
        Some(piece)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Pieces {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_frame_has_no_packets_and_no_packet_is_empty() {
        assert_eq!(Packetizer::default().pieces(DataSize::ZERO).count(), 0);
        assert_eq!(Packetizer::new(DataSize::ZERO), None);
        let tiny = Packetizer::new(DataSize::from_bytes(1)).unwrap();
        assert_eq!(tiny.with_header(PayloadHeader::Vp8), None, "no room for a descriptor");
    }

    proptest! {
        #[test]
        fn pieces_cover_the_frame_and_the_last_is_marked(
            bytes in 1_u64..200_000, max in 1_u64..3000,
        ) {
            let pieces = Packetizer::new(DataSize::from_bytes(max)).unwrap().pieces(DataSize::from_bytes(bytes));
            let (announced, pieces) = (pieces.len(), pieces.collect::<Vec<_>>());
            let sizes: Vec<_> = pieces.iter().map(|piece| piece.size.as_bytes()).collect();
            let (smallest, largest) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
            prop_assert_eq!(sizes.iter().sum::<u64>(), bytes);
            prop_assert!(smallest > 0 && largest <= max);
            prop_assert_eq!((announced, sizes.len() as u64), (sizes.len(), bytes.div_ceil(max)));
            let mut end = 0;
            for piece in &pieces {
                prop_assert_eq!(piece.offset, end);
                end += piece.size.as_bytes();
                prop_assert_eq!(piece.last, end == bytes);
            }
            prop_assert!(largest - smallest <= 1 && sizes.is_sorted());
        }
    }
}
