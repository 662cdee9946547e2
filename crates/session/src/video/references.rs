//! Frames to which no other refers, such as those of the highest of several temporal layers: they can be left out alone.

use giusto_rtp::{h264, vp8::FrameTag, vp9};

use super::{VideoCodec, av1::Sequence};

/// Whether no other frame refers to this one; `sequence` is that of AV1.
pub(super) fn is_droppable(codec: VideoCodec, frame: &[u8], sequence: Option<&Sequence>) -> bool {
    match codec {
        VideoCodec::Vp8 => vp8_changes_nothing(frame).unwrap_or(false),
        VideoCodec::Vp9 => vp9_changes_nothing(frame),
        // ITU-T H.264 §7.4.1: nal_ref_idc of its slices.
        VideoCodec::H264 => {
            let mut slices = h264::nal_units(frame)
                .filter_map(|unit| unit.first())
                .filter(|&&first| h264::NalType::of(first).is_slice())
                .peekable();
            slices.peek().is_some() && slices.all(|first| first & 0x60 == 0)
        }
        VideoCodec::Av1 => sequence.is_some_and(|sequence| sequence.changes_nothing(frame)),
    }
}

/// VP9 Bitstream Specification §6.2: `refresh_frame_flags` of a frame that is shown are 0.
fn vp9_changes_nothing(frame: &[u8]) -> bool {
    let [first, second, third, ..] = *frame else { return false };
    let bits = u32::from_be_bytes([first, second, third, 0]);
    // A reserved bit follows profile 3; then four flags, of which resilience to errors leaves out two bits.
    let bits = bits << if first & 0x30 == 0x30 { 5 } else { 4 };
    let [is_existing, is_inter, is_shown, is_resilient] =
        [31, 30, 29, 28].map(|place| bits >> place & 1 == 1);
    let flags = bits << if is_resilient { 4 } else { 6 } >> 24;
    first >> 6 == 2 && !vp9::is_key(frame) && !is_existing && is_inter && is_shown && flags == 0
}

/// RFC 6386 §9.3 to §9.7 and §9.10: the frame replaces no reference, and changes neither segments nor probabilities that later frames
/// keep. They keep deltas of the loop filter too, but libvpx repeats these in each frame where frames may be lost.
fn vp8_changes_nothing(frame: &[u8]) -> Option<bool> {
    if FrameTag::parse(frame).ok()?.key {
        return Some(false);
    }
    let mut bits = BoolDecoder::of(frame.get(3..)?)?;
    if bits.flag() {
        let (has_map, has_values) = (bits.flag(), bits.flag());
        if has_map || has_values {
            return Some(false);
        }
    }
    // Kind, level and sharpness of the loop filter, and its deltas.
    bits.literal(1 + 6 + 3);
    if bits.flag() && bits.flag() {
        for _ in 0..8 {
            if bits.flag() {
                bits.literal(7);
            }
        }
    }
    // Partitions, and the quantiser with five deltas of four bits and a sign.
    bits.literal(2 + 7);
    for _ in 0..5 {
        if bits.flag() {
            bits.literal(5);
        }
    }
    let (golden, alternate) = (bits.flag(), bits.flag());
    let copies = [golden, alternate].map(|is_replaced| if is_replaced { 0 } else { bits.literal(2) });
    // The signs of two references' vectors.
    bits.literal(2);
    let (probabilities, last) = (bits.flag(), bits.flag());
    Some(!golden && !alternate && copies == [0, 0] && !probabilities && !last)
}

/// The decoder of RFC 6386 §7.3, of bits that are as likely 0 as 1. Behind the end are zeros.
struct BoolDecoder<'a> {
    rest: std::slice::Iter<'a, u8>,
    value: u32,
    range: u32,
    shifts: u32,
}

impl<'a> BoolDecoder<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk::<2>()?;
        Some(Self { rest: rest.iter(), value: u16::from_be_bytes(*first).into(), range: 255, shifts: 0 })
    }

    fn flag(&mut self) -> bool {
        let split = 1 + (((self.range - 1) * 128) >> 8);
        let is_set = self.value >= split << 8;
        if is_set {
            self.range -= split;
            self.value -= split << 8;
        } else {
            self.range = split;
        }
        while self.range < 128 {
            self.value <<= 1;
            self.range <<= 1;
            self.shifts += 1;
            if self.shifts == 8 {
                self.shifts = 0;
                self.value |= u32::from(self.rest.next().copied().unwrap_or(0));
            }
        }
        is_set
    }

    fn literal(&mut self, count: u32) -> u32 {
        (0..count).fold(0, |value, _| value << 1 | u32::from(self.flag()))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use giusto_units::TimeDelta;

    use super::*;
    use crate::{
        testing::Film,
        video::{Clip, VideoWriter},
    };

    /// What ffmpeg decodes of frames: number and hash of each picture, and the errors that it prints.
    fn pictures(film: &Film, codec: VideoCodec, frames: &[(u64, Vec<u8>)]) -> (Vec<(u64, String)>, String) {
        let mut writer = VideoWriter::ivf(codec);
        let mut file = writer.header();
        for (number, frame) in frames {
            writer.write(*number * 3_000, frame, &mut file);
        }
        std::fs::write(&film.0, file).unwrap();
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-i", &film.0, "-fps_mode", "passthrough", "-f", "framemd5", "-"]);
        let output = command.output().unwrap();
        let [printed, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let lines = printed.lines().filter(|line| !line.starts_with('#'));
        let fields = lines.map(|line| line.split(',').map(str::trim).collect::<Vec<_>>());
        let pictures = fields.map(|all| (all[2].parse::<u64>().unwrap() / 3_000, all[5].to_owned()));
        (pictures.collect(), errors)
    }

    /// Films of two temporal layers, of which the higher one can be left out, and of AV1 with frames that are no reference.
    #[test]
    fn frames_that_are_no_reference_can_be_left_out() {
        let layers = "-deadline realtime -cpu-used 8 -error-resilient 1 -lag-in-frames 0 -b:v 200k -ts-parameters \
                      ts_number_layers=2:ts_target_bitrate=120,200:ts_rate_decimator=2,1:ts_periodicity=2:\
                      ts_layer_id=0,1:ts_layering_mode=2";
        for (codec, encoder, arguments, least, most) in [
            // Each second frame, less one that the encoder may use to begin.
            (VideoCodec::Vp8, "libvpx", layers, 8, 10),
            (VideoCodec::Vp9, "libvpx-vp9", layers, 8, 10),
            (VideoCodec::Av1, "libsvtav1", "-preset 12 -b:v 100k", 4, 14),
        ] {
            let arguments = format!("-frames:v 20 -pix_fmt yuv420p {arguments}");
            let Some(film) = Film::encoded("-layers.ivf", "96x64", encoder, &arguments) else { continue };
            let clip = Clip::parse(&film.bytes(), TimeDelta::ZERO).unwrap();
            let droppable: Vec<bool> = clip.frames().iter().map(|frame| frame.droppable).collect();
            let count = droppable.iter().filter(|is| **is).count();
            assert!((least..=most).contains(&count) && !droppable[0], "{encoder}: {droppable:?}");
            let decoded = |is_left_out: &dyn Fn(usize) -> bool| {
                let all = (0..).zip(clip.frames().iter().map(|frame| frame.payload.to_vec()));
                let kept: Vec<_> = all.filter(|(at, _)| !is_left_out(*at as usize)).collect();
                pictures(&film, codec, &kept)
            };
            let (whole, errors) = decoded(&|_| false);
            assert_eq!((whole.len(), errors.as_str()), (20, ""), "{encoder}");
            let (thinned, errors) = decoded(&|at| droppable[at]);
            assert_eq!((thinned.len(), errors.as_str()), (20 - count, ""), "{encoder}");
            assert!(thinned.iter().all(|one| whole.contains(one)), "{encoder}: {thinned:?} {whole:?}");
            // A frame that others need cannot be left out.
            let needed = (1..20).find(|at| !droppable[*at]).unwrap();
            let (broken, errors) = decoded(&|at| at == needed);
            assert!(!errors.is_empty() || !broken.iter().all(|one| whole.contains(one)), "{encoder}");
        }
    }

    #[test]
    fn slices_that_are_no_reference_can_be_left_out() {
        let unit = |first: u8| [0, 0, 1, first, 0x9a, 1];
        let is = |frame: &[u8]| is_droppable(VideoCodec::H264, frame, None);
        assert!(is(&unit(0x01)) && is(&[unit(0x06), unit(0x01), unit(0x01)].concat()));
        assert!(!is(&unit(0x21)) && !is(&unit(0x65)) && !is(&[unit(0x01), unit(0x41)].concat()));
        assert!(!is(&unit(0x06)));
    }
}
