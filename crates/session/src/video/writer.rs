//! Writes frames into the containers that [`VideoReader`](super::VideoReader) reads.

use giusto_rtp::{h264, vp8::FrameTag};
use giusto_units::TimeDelta;

use super::{
    VIDEO_CLOCK, VideoCodec, av1_dimensions, h264_dimensions,
    reader::{AV1_DELIMITER, IVF_HEADER_BYTES, IVF_SIGNATURE},
    vp9_dimensions,
};

/// Writes one video: IVF, or a byte stream of Annex B, which has no times.
///
/// Times of IVF are in units of 1/90,000 s, those of RTP. The file's first bytes are to be replaced by [`header`](Self::header) at the
/// end, when the duration is known. A frame of H.264 in IVF is a byte stream, as libwebrtc writes it (`ivf_file_writer.cc`).
#[derive(Debug, Clone)]
pub struct VideoWriter {
    codec: VideoCodec,
    is_ivf: bool,
    frames: u64,
    /// Ticks of the latest frame, and from the one before.
    latest: (u64, u64),
    dimensions: (u16, u16),
}

impl VideoWriter {
    /// A video of this codec without frames, in IVF.
    pub const fn ivf(codec: VideoCodec) -> Self {
        Self { codec, is_ivf: true, frames: 0, latest: (0, 0), dimensions: (0, 0) }
    }

    /// A video of H.264 without frames, in a byte stream of Annex B.
    pub const fn annex_b() -> Self {
        Self { is_ivf: false, ..Self::ivf(VideoCodec::H264) }
    }

    /// What the file begins with: its length does not change.
    pub fn header(&self) -> Vec<u8> {
        if !self.is_ivf {
            return Vec::new();
        }
        let mut header = Vec::with_capacity(IVF_HEADER_BYTES);
        header.extend(IVF_SIGNATURE);
        header.extend([0_u16, IVF_HEADER_BYTES as u16].map(u16::to_le_bytes).concat());
        header.extend(match self.codec {
            VideoCodec::Vp8 => b"VP80",
            VideoCodec::H264 => b"H264",
            VideoCodec::Vp9 => b"VP90",
            VideoCodec::Av1 => b"AV01",
        });
        header.extend([self.dimensions.0, self.dimensions.1].map(u16::to_le_bytes).concat());
        // FFmpeg reads and writes the duration here, in units of the time base; libvpx the number of frames.
        let duration = u32::try_from(self.latest.0 + self.latest.1).unwrap_or(u32::MAX);
        header.extend([VIDEO_CLOCK, 1, duration, 0].map(u32::to_le_bytes).concat());
        header
    }

    /// Appends a frame to `out`, `ticks` of 1/90,000 s after the first. Annex B has no times.
    pub fn write(&mut self, ticks: u64, frame: &[u8], out: &mut Vec<u8>) {
        self.frames += 1;
        self.latest = (ticks, ticks.saturating_sub(self.latest.0));
        if !self.is_ivf {
            for unit in h264::nal_units(frame) {
                out.extend(h264::START_CODE);
                out.extend(unit);
            }
            return;
        }
        if self.dimensions == (0, 0) {
            self.dimensions = dimensions(self.codec, frame).unwrap_or_default();
        }
        // Payloads have no delimiter, with which a unit in a file begins (AV1 Bitstream Specification §7.5).
        let delimiter: &[u8] = match self.codec {
            VideoCodec::Av1 if !frame.starts_with(&AV1_DELIMITER) => &AV1_DELIMITER,
            _ => &[],
        };
        out.extend(((delimiter.len() + frame.len()) as u32).to_le_bytes());
        out.extend(ticks.to_le_bytes());
        out.extend(delimiter);
        out.extend(frame);
    }

    /// The number of frames so far.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// The codec.
    pub const fn codec(&self) -> VideoCodec {
        self.codec
    }

    /// A number of ticks of 1/90,000 s as a time, rounded down to a nanosecond.
    pub fn time(ticks: u64) -> TimeDelta {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(VIDEO_CLOCK);
        TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }
}

/// Width and height of the pictures, if the frame says them: a key frame does.
pub fn dimensions(codec: VideoCodec, frame: &[u8]) -> Option<(u16, u16)> {
    match codec {
        VideoCodec::Vp8 => FrameTag::parse(frame).ok()?.dimensions,
        VideoCodec::H264 => h264_dimensions(frame),
        VideoCodec::Vp9 => vp9_dimensions(frame),
        VideoCodec::Av1 => av1_dimensions(frame),
    }
}
