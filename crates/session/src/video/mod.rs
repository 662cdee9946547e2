//! Encoded video as frames: containers, files, and sources whose rate can be changed.
//!
//! | item | holds |
//! |---|---|
//! | [`VideoReader`] | the frames of a byte stream: IVF, H.264 of ITU-T H.264 Annex B, or AV1 in OBUs |
//! | [`VideoWriter`] | the same containers, written |
//! | [`Clip`], [`Ladder`] | a whole file, and files of one video at several rates |
//! | [`VideoSource`] | frames at their times: [`FileSource`], or [`LiveVideo`] of a running encoder |
//! | [`Arrivals`] | received frames in order, and the gaps between them |
//!
//! Nothing here reads a file, a clock or a socket.

mod arrivals;
mod av1;
mod clip;
mod live;
mod picture_size;
mod reader;
mod references;
mod source;
mod writer;

use giusto_units::DataSize;
use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, Gap, OrderedFrame};
pub use av1::av1_configuration;
use av1::av1_dimensions;
pub use clip::{Clip, ClipError, Ladder, LadderError};
pub use live::{EncoderCommand, LiveVideo, RATE_INTERVAL, RATE_STEP};
pub use picture_size::h264_sample_format;
use picture_size::{h264_dimensions, vp9_dimensions};
pub use reader::{VideoError, VideoReader};
pub use source::{FileSource, VideoSource, media_timestamp};
pub use writer::{VideoWriter, dimensions};

use crate::media::{MAX_FRAME_SIZE, Payload, PayloadHeader};

/// Units of the RTP clock of video per second (RFC 7741 §4.1, RFC 6184 §5.1).
pub const VIDEO_CLOCK: u32 = 90_000;

/// A video codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VideoCodec {
    /// VP8 (RFC 6386).
    Vp8,
    /// H.264 (ITU-T H.264).
    H264,
    /// VP9 (VP9 Bitstream & Decoding Process Specification).
    Vp9,
    /// AV1 (AV1 Bitstream & Decoding Process Specification).
    Av1,
}

giusto_units::names!(VideoCodec { Vp8 = "vp8", H264 = "h264", Vp9 = "vp9", Av1 = "av1" });

impl VideoCodec {
    /// Its payload format: RFC 7741, RFC 6184 with packetization mode 1, RFC 9628, or the RTP Payload Format For AV1.
    pub const fn payload_header(self) -> PayloadHeader {
        match self {
            Self::Vp8 => PayloadHeader::Vp8,
            Self::H264 => PayloadHeader::H264,
            Self::Vp9 => PayloadHeader::Vp9,
            Self::Av1 => PayloadHeader::Av1,
        }
    }

    /// Whether its key frames begin with units of their own that all later frames need.
    #[cfg(test)]
    pub(crate) const fn has_parameter_sets(self) -> bool {
        matches!(self, Self::H264 | Self::Av1)
    }

    /// A frame of about this size with the structure of the codec, which no decoder can show: the payload format, and the parts of it
    /// that say what is a key frame, are real; the rest is filler. It is larger than `size` only if that has no room for the structure,
    /// at most 40 bytes.
    pub fn synthetic_frame(self, size: DataSize, key: bool) -> Payload {
        let bytes =
            usize::try_from(size.as_bytes()).unwrap_or(usize::MAX).min(MAX_FRAME_SIZE.as_bytes() as usize);
        let mut frame: Vec<u8> = match (self, key) {
            // RFC 6386 §9.1: version 0, shown, 16 x 16.
            (Self::Vp8, true) => vec![0x10, 0, 0, 0x9d, 0x01, 0x2a, 16, 0, 16, 0],
            (Self::Vp8, false) => vec![0x11, 0, 0],
            // ITU-T H.264 Table 7-1: parameter sets, then a slice that begins a picture.
            (Self::H264, true) => {
                vec![0, 0, 0, 1, 0x67, FILLER, 0, 0, 0, 1, 0x68, FILLER, 0, 0, 0, 1, 0x65, FILLER]
            }
            (Self::H264, false) => vec![0, 0, 0, 1, 0x41, FILLER],
            // VP9 Bitstream Specification §6.2: profile 0, shown.
            (Self::Vp9, true) => vec![0x82, 0x49, 0x83, 0x42],
            (Self::Vp9, false) => vec![0x86],
            // AV1 Bitstream Specification §5.3.2: OBUs with sizes, a sequence header before the frame.
            (Self::Av1, key) => {
                let mut unit = if key { vec![0x0a, 2, FILLER, FILLER] } else { Vec::new() };
                let size_bytes = bytes.max(1).ilog2() as usize / 7 + 1;
                let body = bytes.saturating_sub(unit.len() + 1 + size_bytes).max(1);
                unit.push(0x32);
                giusto_rtp::av1::push_size(body, &mut unit);
                unit.extend(std::iter::repeat_n(FILLER, body));
                return unit.into();
            }
        };
        frame.resize(bytes.max(frame.len()), FILLER);
        frame.into()
    }
}

/// Neither zero, so that H.264 needs no emulation prevention, nor a start code.
const FILLER: u8 = 0xff;

impl std::fmt::Display for VideoCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Vp8 => "VP8",
            Self::H264 => "H.264",
            Self::Vp9 => "VP9",
            Self::Av1 => "AV1",
        })
    }
}

/// An encoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VideoFrame {
    /// Its bytes: a frame of VP8 or VP9, the units of an H.264 access unit with their start codes, or a temporal unit of AV1.
    pub payload: Payload,
    /// Whether decoding can start with it.
    pub key: bool,
    /// Whether no other frame refers to it, as those of the highest of several temporal layers: it can be left out alone.
    pub droppable: bool,
    /// Its time by the container; `None` if the container has none.
    pub time: Option<giusto_units::TimeDelta>,
}
