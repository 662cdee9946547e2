//! VP8 over RTP (RFC 7741): the payload descriptor, and the frame header of RFC 6386.
//!
//! # Example
//!
//! ```
//! use giusto_rtp::vp8::{FrameTag, Vp8Descriptor};
//!
//! let mut payload = Vec::new();
//! Vp8Descriptor { start: true, ..Vp8Descriptor::default() }.write(&mut payload);
//! payload.extend([0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xb4, 0x00]);
//! let (descriptor, frame) = Vp8Descriptor::parse(&payload)?;
//! assert!(descriptor.start);
//! assert_eq!(FrameTag::parse(frame)?.dimensions, Some((320, 180)));
//! # Ok::<(), giusto_rtp::vp8::Vp8Error>(())
//! ```

use alloc::vec::Vec;

/// A damaged payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Vp8Error {
    /// It ends within the descriptor, or there is nothing after it.
    #[error("the VP8 payload ends after {0} B, within its descriptor")]
    Short(usize),
    /// A frame ends within its header.
    #[error("the VP8 frame ends after {0} B, within its header")]
    ShortFrame(usize),
    /// A key frame lacks the start code 9d 01 2a (RFC 6386 §9.1).
    #[error("the VP8 key frame has no start code: this is not VP8")]
    NoStartCode,
}

/// The payload descriptor (RFC 7741 §4.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Vp8Descriptor {
    /// N: no other frame refers to this one.
    pub non_reference: bool,
    /// S: the payload begins a partition. The first packet of a frame has it, with partition 0.
    pub start: bool,
    /// PID: index of the partition, 0 to 7.
    pub partition: u8,
    /// I: the number of the frame, 7 or 15 bits; it wraps.
    pub picture_id: Option<u16>,
    /// L: the running index of temporal base-layer frames, 8 bits.
    pub tl0_picture_index: Option<u8>,
    /// T: temporal layer 0 to 3, and whether the frame depends only on the base layer (Y).
    pub temporal_layer: Option<(u8, bool)>,
    /// K: temporal key-frame index, 5 bits.
    pub key_index: Option<u8>,
}

impl Vp8Descriptor {
    /// Appends the descriptor to `payload`: one byte, or up to six with the optional fields. The number of a frame is written
    /// with 15 bits; excess bits of any field are dropped.
    pub fn write(&self, payload: &mut Vec<u8>) {
        let extended = self.picture_id.is_some()
            || self.tl0_picture_index.is_some()
            || self.temporal_layer.is_some()
            || self.key_index.is_some();
        let bit = |is: bool, place: u8| u8::from(is) << place;
        payload.push(
            bit(extended, 7) | bit(self.non_reference, 5) | bit(self.start, 4) | (self.partition & 0b111),
        );
        if !extended {
            return;
        }
        payload.push(
            bit(self.picture_id.is_some(), 7)
                | bit(self.tl0_picture_index.is_some(), 6)
                | bit(self.temporal_layer.is_some(), 5)
                | bit(self.key_index.is_some(), 4),
        );
        if let Some(id) = self.picture_id {
            payload.extend((id | 0x8000).to_be_bytes());
        }
        payload.extend(self.tl0_picture_index);
        if self.temporal_layer.is_some() || self.key_index.is_some() {
            let (layer, base_only) = self.temporal_layer.unwrap_or_default();
            payload.push((layer & 3) << 6 | bit(base_only, 5) | self.key_index.unwrap_or(0) & 0x1f);
        }
    }

    /// Reads the descriptor at the start of `payload`; returns it and the rest.
    ///
    /// # Errors
    ///
    /// [`Vp8Error::Short`].
    pub fn parse(payload: &[u8]) -> Result<(Self, &[u8]), Vp8Error> {
        let mut rest = payload;
        let mut next = || {
            let (&byte, after) = rest.split_first().ok_or(Vp8Error::Short(payload.len()))?;
            rest = after;
            Ok(byte)
        };
        let first = next()?;
        let mut descriptor = Self {
            non_reference: first & 0x20 != 0,
            start: first & 0x10 != 0,
            partition: first & 0b111,
            ..Self::default()
        };
        if first & 0x80 != 0 {
            let flags = next()?;
            if flags & 0x80 != 0 {
                let high = next()?;
                descriptor.picture_id = Some(if high & 0x80 == 0 {
                    u16::from(high)
                } else {
                    u16::from_be_bytes([high & 0x7f, next()?])
                });
            }
            if flags & 0x40 != 0 {
                descriptor.tl0_picture_index = Some(next()?);
            }
            if flags & 0x30 != 0 {
                let byte = next()?;
                descriptor.temporal_layer = (flags & 0x20 != 0).then_some((byte >> 6, byte & 0x20 != 0));
                descriptor.key_index = (flags & 0x10 != 0).then_some(byte & 0x1f);
            }
        }
        if rest.is_empty() { Err(Vp8Error::Short(payload.len())) } else { Ok((descriptor, rest)) }
    }
}

/// The uncompressed header of a frame (RFC 6386 §9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FrameTag {
    /// Whether decoding can start with the frame.
    pub key: bool,
    /// Whether the frame is displayed.
    pub shown: bool,
    /// Width and height in pixels, without scaling; only key frames have them.
    pub dimensions: Option<(u16, u16)>,
}

impl FrameTag {
    /// Reads the header of `frame`.
    ///
    /// # Errors
    ///
    /// [`Vp8Error`] if the frame is too short, or is not VP8.
    pub fn parse(frame: &[u8]) -> Result<Self, Vp8Error> {
        let &[first, _, _, ref rest @ ..] = frame else { return Err(Vp8Error::ShortFrame(frame.len())) };
        let (key, shown) = (first & 1 == 0, first & 0x10 != 0);
        if !key {
            return Ok(Self { key, shown, dimensions: None });
        }
        match *rest {
            [0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..] => {
                let pixels = |low, high| u16::from_le_bytes([low, high]) & 0x3fff;
                Ok(Self { key, shown, dimensions: Some((pixels(w0, w1), pixels(h0, h1))) })
            }
            [_, _, _, _, _, _, _, ..] => Err(Vp8Error::NoStartCode),
            _ => Err(Vp8Error::ShortFrame(frame.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(bytes: &[u8]) -> Vp8Descriptor {
        let mut payload = bytes.to_vec();
        payload.push(0xaa);
        let (descriptor, rest) = Vp8Descriptor::parse(&payload).unwrap();
        assert_eq!(rest, [0xaa]);
        descriptor
    }

    #[test]
    fn descriptors_have_the_bits_of_rfc_7741() {
        // RFC 7741 §4.2, Figure 2: X R N S R PID; then I L T K; PictureID with M; TL0PICIDX; TID Y KEYIDX.
        assert_eq!(descriptor(&[0x10]), Vp8Descriptor { start: true, ..Vp8Descriptor::default() });
        let other = Vp8Descriptor { non_reference: true, partition: 5, ..Vp8Descriptor::default() };
        assert_eq!(descriptor(&[0x25]), other);
        assert_eq!(descriptor(&[0x90, 0x80, 0x11]).picture_id, Some(17));
        let full = Vp8Descriptor {
            start: true,
            picture_id: Some(0x1234),
            tl0_picture_index: Some(7),
            temporal_layer: Some((2, true)),
            key_index: Some(9),
            ..Vp8Descriptor::default()
        };
        assert_eq!(descriptor(&[0x90, 0xf0, 0x92, 0x34, 0x07, 0xa9]), full);
        let mut written = Vec::new();
        full.write(&mut written);
        assert_eq!(written, [0x90, 0xf0, 0x92, 0x34, 0x07, 0xa9]);
    }

    #[test]
    fn short_payloads_are_errors() {
        for bytes in
            [&[][..], &[0x10], &[0x80], &[0x80, 0x80], &[0x80, 0x80, 0x80], &[0x90, 0xf0, 0x92, 0x34, 0x07]]
        {
            assert_eq!(Vp8Descriptor::parse(bytes), Err(Vp8Error::Short(bytes.len())), "{bytes:x?}");
        }
    }

    #[test]
    fn key_frames_have_their_dimensions() {
        // A key frame of 176 x 144 with vertical scaling 1, and an inter frame.
        let key = [0x10, 0, 0, 0x9d, 0x01, 0x2a, 176, 0, 144, 0x40];
        let tag = FrameTag::parse(&key).unwrap();
        assert_eq!(tag, FrameTag { key: true, shown: true, dimensions: Some((176, 144)) });
        assert_eq!(
            FrameTag::parse(&[0x11, 0, 0]).unwrap(),
            FrameTag { key: false, shown: true, dimensions: None }
        );
        assert_eq!(FrameTag::parse(&[0x10, 0]), Err(Vp8Error::ShortFrame(2)));
        assert_eq!(FrameTag::parse(&[0x10; 10]), Err(Vp8Error::NoStartCode));
    }
}
