//! Parity packets: FlexFEC (RFC 8627).
//!
//! A repair packet is an RTP packet whose contributing sources are the protected streams (§4.2.1). Its payload is a
//! [`FecHeader`], then the parity of what follows the fixed headers of the protected packets. [`Parity`] adds packets by
//! exclusive or, and recovers the only one that is missing (§6).
//!
//! Retransmissions in this format (§4.2.2.3) are not supported.
//!
//! # Example
//!
//! ```
//! use giusto_rtp::flexfec::{FecHeader, Parity, Protected};
//!
//! let packets: [&[u8]; 2] = [
//!     &[0x80, 96, 0, 7, 0, 0, 0, 1, 0, 0, 0, 9, b'a', b'b'],
//!     &[0x80, 96, 0, 8, 0, 0, 0, 1, 0, 0, 0, 9, b'c'],
//! ];
//! let mut parity = Parity::default();
//! for packet in packets {
//!     parity.add(&[packet], 0)?;
//! }
//! let protected = Protected::of_numbers(7, [7, 8]).expect("within 110 numbers");
//! let mut payload = Vec::new();
//! parity.header(vec![protected]).write(&mut payload)?;
//! payload.extend(parity.payload());
//!
//! // At the receiver, packet 7 is missing.
//! let (header, content) = FecHeader::read(&payload, 1)?;
//! let mut rest = Parity::of_repair(&header, &payload[content..], 0);
//! rest.add(&[packets[1]], 0)?;
//! let (recovered, zeros) = rest.recover(7, 9).expect("the lengths fit");
//! assert_eq!((&recovered[..], zeros), (packets[0], 0));
//! # Ok::<(), giusto_rtp::flexfec::FecError>(())
//! ```

use crate::RTP_HEADER_BYTES;
use alloc::vec::Vec;

/// Bytes of the header before the protected packets: flags, length and timestamp recovery (RFC 8627 §4.2.2.1).
const FIXED_BYTES: usize = 8;
/// Bits of the first mask, of the first two, and of all three (RFC 8627 §4.2.2.1).
const MASK_BITS: [u32; 3] = [15, 46, 110];
/// Bytes of the sequence number base with one, two or three masks.
const MASK_BYTES: [usize; 3] = [4, 8, 16];
/// Maximum span of the packets that a mask protects (RFC 8627 §4.2.2.1).
pub const MAX_SPAN: u16 = 110;
/// The bits R and F (RFC 8627 §4.2.2).
const RETRANSMISSION_BIT: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
/// The recovered bits of the first byte: padding, extension, CSRC count.
const RECOVERED_BITS: u8 = 0x3f;
const VERSION_2: u8 = 0x80;

/// Error of reading or writing parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FecError {
    /// The packet ends within its header.
    #[error("a FlexFEC header of {needed} bytes does not fit the {found} bytes left")]
    Truncated {
        /// Bytes needed.
        needed: usize,
        /// Bytes available.
        found: usize,
    },
    /// A retransmission, or the reserved variant (RFC 8627 §4.2.2).
    #[error("a FlexFEC header with the R bit is not supported")]
    Variant,
    /// The numbers of columns and rows are reserved (RFC 8627 §4.2.2.2, Figure 14).
    #[error("a FlexFEC header with 0 columns is reserved")]
    NoColumns,
    /// Some streams have a mask and others have columns and rows, which one header cannot express.
    #[error("a FlexFEC header cannot hold both masks and columns")]
    Mixed,
    /// A packet is too short to be RTP, or too long for the 16-bit length.
    #[error("a protected packet has 12 to 65547 bytes, found {0}")]
    Length(usize),
}

/// The packets of one stream that a repair packet protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Protected {
    /// A flexible mask (RFC 8627 §4.2.2.1).
    Mask {
        /// The lowest sequence number.
        base: u16,
        /// Bit `j`, counted from the lowest as 0, is set if packet `base + j` is protected; 110 bits.
        mask: u128,
    },
    /// A row or a column (RFC 8627 §4.2.2.2).
    Grid {
        /// The lowest sequence number.
        base: u16,
        /// L: the packets of a row, or the distance of the packets of a column. Above 0.
        columns: u8,
        /// D: 0 for a row without columns, 1 for a row with columns, otherwise the packets of a column.
        rows: u8,
    },
}

impl Protected {
    /// A mask of these packets; `None` if one is not among the 110 numbers from `base` on.
    pub fn of_numbers(base: u16, numbers: impl IntoIterator<Item = u16>) -> Option<Self> {
        let mut mask = 0;
        for number in numbers {
            let bit = number.wrapping_sub(base);
            if bit >= MAX_SPAN {
                return None;
            }
            mask |= 1_u128 << bit;
        }
        Some(Self::Mask { base, mask })
    }

    /// The sequence numbers, in order (RFC 8627 §6.3.1).
    pub fn numbers(self) -> impl Iterator<Item = u16> {
        let (base, mask, count, step) = match self {
            Self::Mask { base, mask } => (base, mask, MAX_SPAN, 1),
            Self::Grid { base, columns, rows: 0 | 1 } => (base, u128::MAX, u16::from(columns), 1),
            Self::Grid { base, columns, rows } => (base, u128::MAX, u16::from(rows), u16::from(columns)),
        };
        let is_protected = move |&place: &u16| mask == u128::MAX || mask >> place & 1 == 1;
        (0..count).filter(is_protected).map(move |place| base.wrapping_add(place.wrapping_mul(step)))
    }

    const fn is_mask(self) -> bool {
        matches!(self, Self::Mask { .. })
    }
}

/// The header of a repair packet (RFC 8627 §4.2.2).
///
/// | bits | field |
/// |---|---|
/// | 1, 1 | R: 0; F: 0 for masks, 1 for columns and rows |
/// | 1, 1, 4, 1, 7 | parity of padding, extension, CSRC count, marker, payload type |
/// | 16, 32 | parity of the lengths and of the timestamps |
/// | for each stream | base (16), then k (1) and mask (15), k (1) and mask (31), mask (64); or columns (8) and rows (8) |
///
/// A mask ends where k is 0 (§4.2.2.1). In libwebrtc it ends where k is 1, as in older drafts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FecHeader {
    /// Parity of the first two bytes, without the version.
    pub flags: [u8; 2],
    /// Parity of the lengths after the fixed header.
    pub length: u16,
    /// Parity of the timestamps.
    pub timestamp: u32,
    /// The protected packets of each stream, in the order of the contributing sources of the RTP header.
    pub protected: Vec<Protected>,
}

impl FecHeader {
    /// Reads the header at the beginning of the `payload` of a packet that protects `streams` streams. Returns it and its
    /// length.
    ///
    /// # Errors
    ///
    /// [`FecError`] if it is truncated, reserved or not supported.
    pub fn read(payload: &[u8], streams: usize) -> Result<(Self, usize), FecError> {
        let found = payload.len();
        let short = |needed| FecError::Truncated { needed, found };
        let &[flags, kind, l0, l1, t0, t1, t2, t3] =
            payload.first_chunk::<FIXED_BYTES>().ok_or_else(|| short(FIXED_BYTES))?;
        if flags & RETRANSMISSION_BIT != 0 {
            return Err(FecError::Variant);
        }
        let mut offset = FIXED_BYTES;
        let mut word = |bytes: usize| {
            let part = payload.get(offset..offset + bytes).ok_or_else(|| short(offset + bytes))?;
            offset += bytes;
            Ok(part.iter().fold(0_u64, |word, &byte| word << 8 | u64::from(byte)))
        };
        let mut protected = Vec::new();
        for _ in 0..streams {
            let base = word(2)? as u16;
            let first = word(2)?;
            if flags & FIXED_BIT != 0 {
                let (columns, rows) = ((first >> 8) as u8, first as u8);
                if columns == 0 {
                    return Err(FecError::NoColumns);
                }
                protected.push(Protected::Grid { base, columns, rows });
                continue;
            }
            let [one, two, three] = MASK_BITS;
            let mut mask = reversed(first, one);
            if first >> one & 1 == 1 {
                let second = word(4)?;
                mask |= reversed(second, two - one) << one;
                if second >> (two - one) & 1 == 1 {
                    mask |= reversed(word(8)?, three - two) << two;
                }
            }
            protected.push(Protected::Mask { base, mask });
        }
        let header = Self {
            flags: [flags & RECOVERED_BITS, kind],
            length: u16::from_be_bytes([l0, l1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            protected,
        };
        Ok((header, offset))
    }

    /// Appends the header to `buffer`, with masks as short as possible.
    ///
    /// # Errors
    ///
    /// [`FecError::Mixed`] if it has both masks and columns, [`FecError::NoColumns`]; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), FecError> {
        let has_masks = self.protected.iter().any(|protected| protected.is_mask());
        if has_masks && !self.protected.iter().all(|protected| protected.is_mask()) {
            return Err(FecError::Mixed);
        }
        if self.protected.iter().any(|protected| matches!(protected, Protected::Grid { columns: 0, .. })) {
            return Err(FecError::NoColumns);
        }
        let [flags, kind] = self.flags;
        let variant = if has_masks || self.protected.is_empty() { 0 } else { FIXED_BIT };
        buffer.extend([flags & RECOVERED_BITS | variant, kind]);
        buffer.extend(self.length.to_be_bytes());
        buffer.extend(self.timestamp.to_be_bytes());
        for &protected in &self.protected {
            match protected {
                Protected::Grid { base, columns, rows } => {
                    buffer.extend(base.to_be_bytes());
                    buffer.extend([columns, rows]);
                }
                Protected::Mask { base, mask } => {
                    let [one, two, three] = MASK_BITS;
                    let (more, most) = (mask >> one != 0, mask >> two != 0);
                    buffer.extend(base.to_be_bytes());
                    let first = forward(mask, one) as u16 | u16::from(more) << one;
                    buffer.extend(first.to_be_bytes());
                    if more {
                        let second = forward(mask >> one, two - one) as u32 | u32::from(most) << (two - one);
                        buffer.extend(second.to_be_bytes());
                    }
                    if most {
                        buffer.extend(forward(mask >> two, three - two).to_be_bytes());
                    }
                }
            }
        }
        Ok(())
    }

    /// Number of bytes that [`write`](Self::write) appends.
    pub fn byte_len(&self) -> usize {
        let of = |protected: &Protected| {
            let [short, middle, long] = MASK_BYTES;
            match *protected {
                Protected::Mask { mask, .. } if mask >> MASK_BITS[1] != 0 => long,
                Protected::Mask { mask, .. } if mask >> MASK_BITS[0] != 0 => middle,
                _ => short,
            }
        };
        FIXED_BYTES + self.protected.iter().map(of).sum::<usize>()
    }
}

/// The lowest `bits` of a word, the most significant of which is packet 0, as a mask whose lowest bit is packet 0.
fn reversed(word: u64, bits: u32) -> u128 {
    u128::from(word.reverse_bits() >> (u64::BITS - bits))
}

/// The lowest `bits` of a mask as a word whose most significant bit is packet 0.
fn forward(mask: u128, bits: u32) -> u64 {
    (mask as u64).reverse_bits() >> (u64::BITS - bits)
}

/// The exclusive or of packets (RFC 8627 §6.2). Bytes that are zero at the end need not be in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parity {
    flags: [u8; 2],
    length: u16,
    timestamp: u32,
    /// The bytes after the fixed headers, as far as they may differ from zero.
    bytes: Vec<u8>,
    /// Number of the bytes after the fixed headers.
    size: usize,
}

impl Parity {
    /// The parity in a repair packet, whose payload after the header is `payload` and `zeros` zero bytes.
    pub fn of_repair(header: &FecHeader, payload: &[u8], zeros: usize) -> Self {
        let &FecHeader { flags, length, timestamp, .. } = header;
        Self { flags, length, timestamp, bytes: payload.to_vec(), size: payload.len().saturating_add(zeros) }
    }

    /// Adds a packet: the bytes of `parts`, the first of which contains at least the fixed header, and `zeros` zero bytes.
    ///
    /// # Errors
    ///
    /// [`FecError::Length`] if the packet is too short or too long; nothing is added.
    pub fn add(&mut self, parts: &[&[u8]], zeros: usize) -> Result<(), FecError> {
        let found = parts.iter().map(|part| part.len()).sum::<usize>().saturating_add(zeros);
        let error = FecError::Length(found);
        let length = found.checked_sub(RTP_HEADER_BYTES).ok_or(error)?;
        let whole = u16::try_from(length).map_err(|_| error)?;
        let (&first, rest) = parts.split_first().ok_or(error)?;
        let (head, begin) = first.split_first_chunk::<RTP_HEADER_BYTES>().ok_or(error)?;
        let &[flags, kind, _, _, t0, t1, t2, t3, ..] = head;
        self.flags = [(self.flags[0] ^ flags) & RECOVERED_BITS, self.flags[1] ^ kind];
        self.length ^= whole;
        self.timestamp ^= u32::from_be_bytes([t0, t1, t2, t3]);
        self.size = self.size.max(length);
        let known = length - zeros;
        if self.bytes.len() < known {
            self.bytes.resize(known, 0);
        }
        let bytes = core::iter::once(begin).chain(rest.iter().copied()).flatten();
        for (sum, byte) in self.bytes.iter_mut().zip(bytes) {
            *sum ^= byte;
        }
        Ok(())
    }

    /// The header of a repair packet with this parity.
    pub fn header(&self, protected: Vec<Protected>) -> FecHeader {
        let &Self { flags, length, timestamp, .. } = self;
        FecHeader { flags, length, timestamp, protected }
    }

    /// The payload of a repair packet after its header. [`zeros`](Self::zeros) zero bytes follow it.
    pub fn payload(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of zero bytes after [`payload`](Self::payload).
    pub fn zeros(&self) -> usize {
        self.size.saturating_sub(self.bytes.len())
    }

    /// The missing packet, if this is the parity of the repair packet and of all other protected packets (RFC 8627 §6.3.2,
    /// §6.3.3): its bytes, and the number of zero bytes after them. `None` if its length exceeds the repair packet's, which
    /// cannot be.
    pub fn recover(mut self, sequence: u16, ssrc: u32) -> Option<(Vec<u8>, usize)> {
        let length = usize::from(self.length);
        if length > self.size {
            return None;
        }
        self.bytes.truncate(length);
        let mut packet = Vec::with_capacity(RTP_HEADER_BYTES + self.bytes.len());
        packet.extend([VERSION_2 | self.flags[0], self.flags[1]]);
        packet.extend(sequence.to_be_bytes());
        packet.extend(self.timestamp.to_be_bytes());
        packet.extend(ssrc.to_be_bytes());
        packet.extend(&self.bytes);
        Some((packet, length - self.bytes.len()))
    }
}

#[cfg(test)]
#[path = "flexfec_tests.rs"]
mod tests;
