//! The size of the pictures: of H.264 from its sequence parameter set (ITU-T H.264 §7.3.2.1.1), of VP9 from the header of a key frame
//! (VP9 Bitstream Specification §6.2).

use giusto_rtp::{h264::nal_units, vp9};

use crate::bits::Bits;

/// The unit of a sequence parameter set.
const SEQUENCE_PARAMETERS: u8 = 7;
/// The profiles whose sets begin with a chroma format (ITU-T H.264 §7.3.2.1.1).
const WITH_CHROMA: [u8; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

/// Width and height of the pictures in pixels, if the frame (a byte stream) has a sequence parameter set that says them.
pub(super) fn h264_dimensions(frame: &[u8]) -> Option<(u16, u16)> {
    let is_set = |unit: &&[u8]| unit.first().is_some_and(|byte| byte & 0x1f == SEQUENCE_PARAMETERS);
    let set = nal_units(frame).find(is_set)?;
    dimensions(set.get(1..)?)
}

/// The format of the samples of H.264 by a sequence parameter set, as `AVCDecoderConfigurationRecord` ends with it for the profiles above
/// Extended (ISO/IEC 14496-15 §5.3.3.1): chroma format, bit depths of luma and chroma above 8. `None` for the other profiles.
pub fn h264_sample_format(set: &[u8]) -> Option<[u8; 3]> {
    let mut bits = Bits::of(set.get(1..)?);
    let profile = bits.take(8)?;
    bits.take(16)?;
    bits.unsigned()?;
    if !WITH_CHROMA.iter().any(|&known| u32::from(known) == profile) {
        return None;
    }
    let chroma = bits.unsigned()?;
    if chroma == 3 {
        bits.take(1)?;
    }
    let format = [chroma, bits.unsigned()?, bits.unsigned()?];
    (format.iter().zip([4, 8, 8]).all(|(value, limit)| *value < limit))
        .then(|| format.map(|value| value as u8))
}

fn dimensions(set: &[u8]) -> Option<(u16, u16)> {
    let mut bits = Bits::of(set);
    let profile = bits.take(8)?;
    // Constraints, level, and the number of the set.
    bits.take(16)?;
    bits.unsigned()?;
    let mut chroma = 1;
    if WITH_CHROMA.iter().any(|&known| u32::from(known) == profile) {
        chroma = bits.unsigned()?;
        let is_separate = chroma == 3 && bits.take(1)? == 1;
        // Depths of both kinds of samples, and lossless coding.
        bits.unsigned()?;
        bits.unsigned()?;
        bits.take(1)?;
        if bits.take(1)? == 1 {
            for list in 0..if chroma == 3 { 12 } else { 8 } {
                if bits.take(1)? == 1 {
                    bits.skip_scaling_list(if list < 6 { 16 } else { 64 })?;
                }
            }
        }
        if is_separate {
            chroma = 0;
        }
    }
    bits.unsigned()?;
    match bits.unsigned()? {
        0 => {
            bits.unsigned()?;
        }
        1 => {
            bits.take(1)?;
            bits.unsigned()?;
            bits.unsigned()?;
            for _ in 0..bits.unsigned().filter(|&count| count <= 255)? {
                bits.unsigned()?;
            }
        }
        _ => {}
    }
    bits.unsigned()?;
    bits.take(1)?;
    let [width, height] = [bits.unsigned()?, bits.unsigned()?].map(|units| (u64::from(units) + 1) * 16);
    let fields = 2 - u64::from(bits.take(1)?);
    if fields == 2 {
        bits.take(1)?;
    }
    bits.take(1)?;
    // §7.4.2.1.1, CropUnitX and CropUnitY.
    let (unit_x, unit_y) = match chroma {
        1 => (2, 2 * fields),
        2 => (2, fields),
        _ => (1, fields),
    };
    let (mut crop_x, mut crop_y) = (0, 0);
    if bits.take(1)? == 1 {
        let [left, right, top, bottom] =
            [bits.unsigned()?, bits.unsigned()?, bits.unsigned()?, bits.unsigned()?].map(u64::from);
        (crop_x, crop_y) = (unit_x * (left + right), unit_y * (top + bottom));
    }
    let [width, height] = [width.checked_sub(crop_x)?, (height * fields).checked_sub(crop_y)?];
    let size = (u16::try_from(width).ok()?, u16::try_from(height).ok()?);
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// Width and height of the pictures, if the frame is a key frame of VP9.
pub(super) fn vp9_dimensions(frame: &[u8]) -> Option<(u16, u16)> {
    const SYNC_CODE: u32 = 0x49_83_42;
    const SRGB: u32 = 7;
    if !vp9::is_key(frame) {
        return None;
    }
    let mut bits = Bits::new(frame.get(..frame.len().min(16))?);
    bits.take(2)?;
    let (low, high) = (bits.take(1)?, bits.take(1)?);
    let profile = high << 1 | low;
    // A reserved bit; then which frame is shown, its kind, whether it is shown, and resilience to errors.
    bits.take(if profile == 3 { 5 } else { 4 })?;
    if bits.take(24)? != SYNC_CODE {
        return None;
    }
    // §6.2.1: depth, colour space, range and subsampling.
    if profile >= 2 {
        bits.take(1)?;
    }
    let is_full = profile & 1 == 1;
    if bits.take(3)? == SRGB {
        bits.take(usize::from(is_full))?;
    } else {
        bits.take(if is_full { 4 } else { 1 })?;
    }
    size(bits.take(16)?, bits.take(16)?)
}

/// A size of which both numbers are one less.
pub(super) fn size(width: u32, height: u32) -> Option<(u16, u16)> {
    Some((u16::try_from(width + 1).ok()?, u16::try_from(height + 1).ok()?))
}

/// What H.264 and VP9 have beside.
impl Bits<'_> {
    /// The bits of a unit, without the bytes that prevent start codes (ITU-T H.264 §7.4.1).
    fn of(unit: &[u8]) -> Self {
        let (mut bytes, mut zeros) = (Vec::with_capacity(unit.len()), 0);
        for &byte in unit {
            if zeros >= 2 && byte == 3 {
                zeros = 0;
                continue;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            bytes.push(byte);
        }
        Self::new(bytes)
    }

    /// An Exp-Golomb code (§9.1).
    pub(super) fn unsigned(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.take(1)? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let rest = self.take(zeros)?;
        ((1_u64 << zeros) - 1 + u64::from(rest)).try_into().ok()
    }

    /// A signed Exp-Golomb code (§9.1.1).
    fn signed(&mut self) -> Option<i64> {
        let code = i64::from(self.unsigned()?);
        Some(if code % 2 == 1 { (code + 1) / 2 } else { -code / 2 })
    }

    /// A scaling list of this many values (§7.3.2.1.1.1).
    fn skip_scaling_list(&mut self, count: usize) -> Option<()> {
        let (mut last, mut next) = (8, 8);
        for _ in 0..count {
            if next != 0 {
                next = (last + self.signed()?).rem_euclid(256);
            }
            last = if next == 0 { last } else { next };
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        testing::Film,
        video::{
            Clip, VideoCodec,
            av1::{Sequence, av1_dimensions},
            dimensions,
            references::is_droppable,
        },
    };

    fn parsed(size: &str) -> Option<(u16, u16)> {
        let (width, height) = size.split_once('x')?;
        Some((width.parse().ok()?, height.parse().ok()?))
    }

    #[test]
    fn the_size_is_that_of_the_picture() {
        let tiny = include_bytes!("../../tests/data/tiny.h264");
        assert_eq!(h264_dimensions(tiny), Some((96, 64)));
        // Sizes that are no multiples of 16, with and without fields, and all chroma formats.
        for (size, arguments) in [
            ("150x98", "-pix_fmt yuv420p"),
            ("1920x1080", "-pix_fmt yuv420p"),
            ("66x50", "-pix_fmt yuv422p"),
            ("35x37", "-pix_fmt yuv444p"),
            ("35x37", "-pix_fmt gray"),
            ("150x98", "-pix_fmt yuv420p -profile:v baseline"),
            ("150x100", "-pix_fmt yuv420p -x264-params interlaced=1"),
            ("64x64", "-pix_fmt yuv420p -x264-params cqm=jvt"),
        ] {
            let arguments = format!("-frames:v 1 {arguments}");
            let Some(film) = Film::encoded(".h264", size, "libx264", &arguments) else { return };
            let found = h264_dimensions(&film.bytes());
            assert!(found.is_some() && found == parsed(size), "{size} {arguments}: {found:?}");
        }
    }

    #[test]
    fn key_frames_of_vp9_and_av1_have_their_size() {
        for (codec, of, size, format) in [
            ("libvpx-vp9", VideoCodec::Vp9, "150x98", "yuv420p"),
            ("libvpx-vp9", VideoCodec::Vp9, "640x360", "yuv444p"),
            ("libvpx-vp9", VideoCodec::Vp9, "66x50", "yuv420p10le"),
            ("libaom-av1", VideoCodec::Av1, "150x98", "yuv420p"),
        ] {
            let arguments = format!("-frames:v 3 -pix_fmt {format} -cpu-used 8 -strict -2");
            let Some(film) = Film::encoded(".ivf", size, codec, &arguments) else { continue };
            let clip = Clip::parse(&film.bytes(), TimeDelta::from_millis(200)).unwrap();
            let keys: Vec<bool> = clip.frames().iter().map(|frame| frame.key).collect();
            assert_eq!((clip.codec(), &keys[..]), (of, &[true, false, false][..]), "{codec} {size}");
            let sizes = clip.frames().iter().map(|frame| dimensions(of, &frame.payload.to_vec()));
            assert_eq!(sizes.collect::<Vec<_>>(), [parsed(size), None, None], "{codec} {size} {format}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for codec in VideoCodec::ALL {
                is_droppable(codec, &bytes, Sequence::of(&bytes).as_ref());
            }
            bytes.splice(0..0, [0, 0, 1, 0x67]);
            if let Some((width, height)) = h264_dimensions(&bytes) {
                prop_assert!(width > 0 && height > 0);
            }
            // The beginnings of a key frame of VP9 and of a sequence header of AV1.
            bytes.splice(0..4, [0x82, 0x49, 0x83, 0x42]);
            vp9_dimensions(&bytes);
            bytes.splice(0..4, [0x0a, 40]);
            av1_dimensions(&bytes);
            is_droppable(VideoCodec::Av1, &bytes, Sequence::of(&bytes).as_ref());
        }
    }
}
