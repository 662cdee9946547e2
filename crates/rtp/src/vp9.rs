//! VP9 over RTP (RFC 9628): the payload descriptor, and the start of the frame header (VP9 Bitstream Specification §6.2).
//!
//! # Example
//!
//! ```
//! use giusto_rtp::vp9::{Vp9Descriptor, is_key};
//!
//! let mut payload = Vec::new();
//! let mut descriptor = Vp9Descriptor::default();
//! (descriptor.start, descriptor.end) = (true, true);
//! descriptor.write(&mut payload);
//! payload.extend([0x82, 0x49, 0x83, 0x42]);
//! let (descriptor, frame) = Vp9Descriptor::parse(&payload)?;
//! assert!(descriptor.start && !descriptor.predicted && is_key(frame));
//! # Ok::<(), giusto_rtp::vp9::Vp9Error>(())
//! ```

use alloc::vec::Vec;

/// A damaged payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Vp9Error {
    /// It ends within the descriptor, or there is nothing after it.
    #[error("the VP9 payload ends after {0} B, within its descriptor")]
    Short(usize),
}

/// Bits of the first byte (RFC 9628 §4.2): I P L F B E V Z.
const I: u8 = 0x80;
const P: u8 = 0x40;
const L: u8 = 0x20;
const F: u8 = 0x10;
const B: u8 = 0x08;
const E: u8 = 0x04;
const V: u8 = 0x02;
const Z: u8 = 0x01;

/// The payload descriptor (RFC 9628 §4.2), without its scalability structure, which is skipped.
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the descriptor")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Vp9Descriptor {
    /// I: the number of the picture, 7 or 15 bits; it wraps.
    pub picture_id: Option<u16>,
    /// P: the frame refers to earlier pictures.
    pub predicted: bool,
    /// B: the payload begins a frame.
    pub start: bool,
    /// E: the payload ends a frame.
    pub end: bool,
    /// Z: no higher spatial layer refers to the frame.
    pub no_upper_reference: bool,
    /// L: temporal layer, switching up point, spatial layer, inter-layer dependency: one byte.
    pub layers: Option<u8>,
}

impl Vp9Descriptor {
    /// Appends the descriptor to `payload`, in non-flexible mode without layers: one byte, or three with a number.
    pub fn write(&self, payload: &mut Vec<u8>) {
        let bit = |is: bool, bit: u8| if is { bit } else { 0 };
        payload.push(
            bit(self.picture_id.is_some(), I)
                | bit(self.predicted, P)
                | bit(self.start, B)
                | bit(self.end, E)
                | bit(self.no_upper_reference, Z),
        );
        if let Some(id) = self.picture_id {
            payload.extend((id | 0x8000).to_be_bytes());
        }
    }

    /// Reads the descriptor at the start of `payload`; returns it and the rest.
    ///
    /// # Errors
    ///
    /// [`Vp9Error::Short`].
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), Vp9Error> {
        let mut rest = payload;
        let mut next = || {
            let (&byte, after) = rest.split_first().ok_or(Vp9Error::Short(payload.len()))?;
            rest = after;
            Ok(byte)
        };
        let flags = next()?;
        let mut descriptor = Self {
            predicted: flags & P != 0,
            start: flags & B != 0,
            end: flags & E != 0,
            no_upper_reference: flags & Z != 0,
            ..Self::default()
        };
        if flags & I != 0 {
            let high = next()?;
            let long = high & 0x80 != 0;
            let id = u16::from(high & 0x7f);
            descriptor.picture_id = Some(if long { id << 8 | u16::from(next()?) } else { id });
        }
        if flags & L != 0 {
            descriptor.layers = Some(next()?);
            if flags & F == 0 {
                // TL0PICIDX
                next()?;
            }
        }
        if flags & (F | P) == F | P {
            // Up to three reference indices, each with a bit that says whether another follows.
            for _ in 0..3 {
                if next()? & 1 == 0 {
                    break;
                }
            }
        }
        if flags & V != 0 {
            let structure = next()?;
            if structure & 0x10 != 0 {
                for _ in 0..4 * (u32::from(structure >> 5) + 1) {
                    next()?;
                }
            }
            if structure & 0x08 != 0 {
                for _ in 0..next()? {
                    let references = next()? >> 2 & 3;
                    for _ in 0..references {
                        next()?;
                    }
                }
            }
        }
        if rest.is_empty() { Err(Vp9Error::Short(payload.len())) } else { Ok((descriptor, rest)) }
    }

    /// The spatial layer: 0 without layers.
    pub const fn spatial_layer(&self) -> u8 {
        match self.layers {
            Some(layers) => layers >> 1 & 7,
            None => 0,
        }
    }
}

/// Whether decoding can start with this frame (VP9 Bitstream Specification §6.2: `show_existing_frame` and `frame_type` are 0).
pub fn is_key(frame: &[u8]) -> bool {
    let Some(&first) = frame.first() else { return false };
    // Profile 3 has a reserved bit before these two.
    let shift = u32::from(first & 0x30 == 0x30);
    first >> 6 == 2 && first << shift & 0x0c == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_have_the_bits_of_rfc_9628() {
        let of = |bytes: &[u8]| {
            Vp9Descriptor::parse(&[bytes, &[0xaa]].concat()).map(|(found, rest)| (found, rest.len()))
        };
        let start = Vp9Descriptor { start: true, end: true, ..Vp9Descriptor::default() };
        assert_eq!(of(&[0x0c]), Ok((start, 1)));
        let numbered =
            Vp9Descriptor { picture_id: Some(0x1234), predicted: true, ..Vp9Descriptor::default() };
        assert_eq!(of(&[0xc0, 0x92, 0x34]), Ok((numbered, 1)));
        assert_eq!(of(&[0xc0, 0x12]).map(|(found, _)| found.picture_id), Ok(Some(0x12)));
        // Layers with TL0PICIDX: temporal 1, spatial 2.
        assert_eq!(of(&[0x28, 0x24, 7]).map(|(found, _)| found.spatial_layer()), Ok(2));
        // Flexible mode: two references. A structure: one layer with its size, one picture with two references.
        assert_eq!(of(&[0x58, 0x03, 0x02]).map(|(_, rest)| rest), Ok(1));
        assert_eq!(of(&[0x0a, 0x18, 1, 64, 0, 180, 1, 0x08, 1, 2]).map(|(_, rest)| rest), Ok(1));
        let mut written = Vec::new();
        numbered.write(&mut written);
        assert_eq!(written, [0xc0, 0x92, 0x34]);
        for short in [&[][..], &[0x80], &[0x80, 0x80], &[0x50], &[0x02, 0x10, 1, 2], &[0x0c]] {
            assert_eq!(Vp9Descriptor::parse(short), Err(Vp9Error::Short(short.len())), "{short:x?}");
        }
    }

    #[test]
    fn key_frames_are_recognised_in_each_profile() {
        // Marker 10, profile bits, [reserved bit in profile 3], show_existing_frame, frame_type.
        for key in [0b1000_0010, 0b1010_0010, 0b1001_0000, 0b1011_0001] {
            assert!(is_key(&[key]), "{key:b}");
        }
        for other in [0b1000_0110, 0b1000_1000, 0b1011_0010, 0b1011_0100, 0b0100_0000] {
            assert!(!is_key(&[other]), "{other:b}");
        }
        assert!(!is_key(&[]));
    }
}
