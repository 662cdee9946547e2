//! Headers of AV1 (AV1 Bitstream Specification): the size of the pictures, and whether other frames refer to one.

use giusto_rtp::av1;

use super::picture_size::size;
use crate::bits::Bits;

/// OBU types (§6.2.2).
const SEQUENCE_HEADER: u8 = 1;
const FRAME_HEADER: u8 = 3;
const FRAME: u8 = 6;
/// Values of a sequence header that leave the choice to each frame (§3).
const SELECT: u32 = 2;
/// Types of frames (§6.8.2).
const KEY_FRAME: u32 = 0;
const INTRA_ONLY_FRAME: u32 = 2;
const SWITCH_FRAME: u32 = 3;
/// The bytes of a frame header that are looked at.
const HEADER_BYTES: usize = 32;

/// What the headers of frames need of a sequence header (§5.5.1).
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    size: (u16, u16),
    profile: u32,
    /// Of the first operating point.
    level: u32,
    tier: u32,
    /// The seven bits about samples in an `AV1CodecConfigurationRecord`; `None` for still pictures.
    samples: Option<u32>,
    /// What follows is not read, since frames would have times of a decoder model, or are still pictures.
    frames: Option<FrameSyntax>,
}

#[derive(Debug, Clone, Copy)]
struct FrameSyntax {
    /// Bits of `current_frame_id`, if frames have one.
    id_bits: usize,
    screen_content_tools: u32,
    integer_mv: u32,
    order_hint_bits: usize,
}

/// Whether the temporal unit has a sequence header, with which decoding can start: encoders write it before key frames.
pub(super) fn begins_sequence(unit: &[u8]) -> bool {
    av1::obus(unit).any(|obu| kind(&obu) == Some(SEQUENCE_HEADER))
}

/// Width and height of the largest pictures, if the temporal unit has a sequence header.
pub(super) fn av1_dimensions(unit: &[u8]) -> Option<(u16, u16)> {
    Sequence::of(unit).map(|sequence| sequence.size)
}

/// The `AV1CodecConfigurationRecord` of a temporal unit (AV1 Codec ISO Media File Format Binding §2.3), with which files of AV1 begin;
/// `None` without a sequence header.
pub fn av1_configuration(unit: &[u8]) -> Option<Vec<u8>> {
    let header = av1::obus(unit).find(|obu| kind(obu) == Some(SEQUENCE_HEADER))?;
    let content = body(&header)?;
    let Sequence { profile, level, tier, samples, .. } = Sequence::of(unit)?;
    let mut record = vec![0x81, (profile << 5 | level) as u8, (tier << 7 | samples?) as u8, 0];
    // The sequence header as an OBU with its size.
    record.push(SEQUENCE_HEADER << 3 | 2);
    av1::push_size(content.len(), &mut record);
    record.extend(content);
    Some(record)
}

fn kind(obu: &[u8]) -> Option<u8> {
    obu.first().map(|byte| byte >> 3 & 0xf)
}

/// The bytes after the header of an OBU.
fn body(obu: &[u8]) -> Option<&[u8]> {
    obu.get(1 + usize::from(obu.first()? >> 2 & 1)..)
}

impl Sequence {
    /// That of a temporal unit, if it has one.
    pub(super) fn of(unit: &[u8]) -> Option<Self> {
        let header = av1::obus(unit).find(|obu| kind(obu) == Some(SEQUENCE_HEADER))?;
        let mut bits = Bits::new(body(&header)?);
        let profile = bits.take(3)?;
        // A still picture, and its reduced header.
        bits.take(1)?;
        let is_reduced = bits.take(1)? == 1;
        let mut has_decoder_model = false;
        let mut first = None;
        if is_reduced {
            first = Some((bits.take(5)?, 0));
        } else {
            let mut delay_bits = None;
            if bits.take(1)? == 1 {
                // Timing: units, scale, and equal intervals.
                bits.take(32)?;
                bits.take(32)?;
                if bits.take(1)? == 1 {
                    bits.unsigned()?;
                }
                if bits.take(1)? == 1 {
                    has_decoder_model = true;
                    delay_bits = Some(bits.take(5)? as usize + 1);
                    bits.take(32)?;
                    bits.take(10)?;
                }
            }
            let has_display_delay = bits.take(1)? == 1;
            for _ in 0..=bits.take(5)? {
                bits.take(12)?;
                let level = bits.take(5)?;
                let tier = if level > 7 { bits.take(1)? } else { 0 };
                first.get_or_insert((level, tier));
                if let Some(delay_bits) = delay_bits
                    && bits.take(1)? == 1
                {
                    bits.take(delay_bits)?;
                    bits.take(delay_bits)?;
                    bits.take(1)?;
                }
                if has_display_delay && bits.take(1)? == 1 {
                    bits.take(4)?;
                }
            }
        }
        let (width_bits, height_bits) = (bits.take(4)? as usize + 1, bits.take(4)? as usize + 1);
        let size = size(bits.take(width_bits)?, bits.take(height_bits)?)?;
        let frames = if is_reduced { None } else { FrameSyntax::read(&mut bits) };
        let samples = frames.and_then(|_| samples(&mut bits, profile));
        let (level, tier) = first?;
        let frames = frames.filter(|_| !has_decoder_model);
        Some(Self { size, profile, level, tier, samples, frames })
    }

    /// Whether all frames of a temporal unit of this sequence are shown, and none is kept as a reference.
    pub(super) fn changes_nothing(&self, unit: &[u8]) -> bool {
        let Some(syntax) = self.frames else { return false };
        let mut has_frame = false;
        for obu in av1::obus(unit) {
            match kind(&obu) {
                Some(SEQUENCE_HEADER) => return false,
                Some(FRAME_HEADER | FRAME) => {
                    has_frame = true;
                    if body(&obu).and_then(|header| syntax.refreshed(header)) != Some(0) {
                        return false;
                    }
                }
                _ => {}
            }
        }
        has_frame
    }
}

/// The part of a sequence header about samples, after the syntax of frames (§5.5.1, §5.5.2): bit depth of two bits, monochrome,
/// subsampling of two bits, position of two bits.
fn samples(bits: &mut Bits<'_>, profile: u32) -> Option<u32> {
    /// Colour primaries BT.709, transfer sRGB, matrix identity (§6.4.2).
    const RGB: (u32, u32, u32) = (1, 13, 0);
    // Super-resolution, and two filters.
    bits.take(3)?;
    let high = bits.take(1)?;
    let twelve = if profile == 2 && high == 1 { bits.take(1)? } else { 0 };
    let mono = if profile == 1 { 0 } else { bits.take(1)? };
    let described = bits.take(1)? == 1;
    let color = if described { (bits.take(8)?, bits.take(8)?, bits.take(8)?) } else { (2, 2, 2) };
    let mut subsampling = (0, 0);
    let mut position = 0;
    if mono == 1 {
        subsampling = (1, 1);
    } else if color != RGB {
        // The range.
        bits.take(1)?;
        subsampling = match profile {
            0 => (1, 1),
            1 => (0, 0),
            _ if twelve == 1 => {
                let x = bits.take(1)?;
                (x, if x == 1 { bits.take(1)? } else { 0 })
            }
            _ => (1, 0),
        };
        if subsampling == (1, 1) {
            position = bits.take(2)?;
        }
    }
    Some(high << 6 | twelve << 5 | mono << 4 | subsampling.0 << 3 | subsampling.1 << 2 | position)
}

impl FrameSyntax {
    /// The rest of a sequence header, after the size of the pictures.
    fn read(bits: &mut Bits<'_>) -> Option<Self> {
        let id_bits =
            if bits.take(1)? == 1 { bits.take(4)? as usize + 2 + bits.take(3)? as usize + 1 } else { 0 };
        // Superblocks, two intra filters, and four tools of prediction.
        bits.take(3 + 4)?;
        let has_order = bits.take(1)? == 1;
        if has_order {
            bits.take(2)?;
        }
        let screen_content_tools = if bits.take(1)? == 1 { SELECT } else { bits.take(1)? };
        let integer_mv = if screen_content_tools > 0 && bits.take(1)? == 0 { bits.take(1)? } else { SELECT };
        let order_hint_bits = if has_order { bits.take(3)? as usize + 1 } else { 0 };
        Some(Self { id_bits, screen_content_tools, integer_mv, order_hint_bits })
    }

    /// `refresh_frame_flags` of a frame that is shown and coded here (§5.9.2).
    fn refreshed(self, header: &[u8]) -> Option<u32> {
        let mut bits = Bits::new(header.get(..header.len().min(HEADER_BYTES))?);
        let shows_existing = bits.take(1)? == 1;
        let (kind, is_shown) = (bits.take(2)?, bits.take(1)? == 1);
        if shows_existing || !is_shown || kind == KEY_FRAME || kind == SWITCH_FRAME {
            return None;
        }
        let is_resilient = bits.take(1)? == 1;
        // Whether probabilities stay as they are.
        bits.take(1)?;
        let tools =
            if self.screen_content_tools == SELECT { bits.take(1)? } else { self.screen_content_tools };
        if tools == 1 && self.integer_mv == SELECT {
            bits.take(1)?;
        }
        bits.take(self.id_bits)?;
        // Another size than that of the sequence.
        bits.take(1)?;
        bits.take(self.order_hint_bits)?;
        if kind != INTRA_ONLY_FRAME && !is_resilient {
            bits.take(3)?;
        }
        bits.take(8)
    }
}
