//! Encoded video as frames: containers, files, and sources whose rate can be changed.
//!
//! | item | holds |
//! |---|---|
//! | [`VideoReader`] | the frames of a byte stream: IVF with VP8, or H.264 of ITU-T H.264 Annex B |
//! | [`VideoWriter`] | the same containers, written |
//! | [`Clip`], [`Ladder`] | a whole file, and files of one video at several rates |
//! | [`VideoSource`] | frames at their times: [`FileSource`], or [`LiveVideo`] of a running encoder |
//! | [`Arrivals`] | received frames in order, and the gaps between them |
//!
//! Nothing here reads a file, a clock or a socket.

mod arrivals;
mod clip;
mod live;
mod reader;
mod source;
mod writer;

use serde::{Deserialize, Serialize};

pub use arrivals::{Arrivals, Gap, OrderedFrame};
pub use clip::{Clip, ClipError, Ladder, LadderError};
pub use live::{EncoderCommand, LiveVideo, RATE_INTERVAL, RATE_STEP};
pub use reader::{VideoError, VideoReader};
pub use source::{FileSource, SourceFrame, VideoSource, media_timestamp};
pub use writer::VideoWriter;

use crate::media::{Payload, PayloadHeader};

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
}

impl VideoCodec {
    /// Its name in records: `vp8` or `h264`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vp8 => "vp8",
            Self::H264 => "h264",
        }
    }

    /// Its payload format: RFC 7741, or RFC 6184 with packetization mode 1.
    pub const fn payload_header(self) -> PayloadHeader {
        match self {
            Self::Vp8 => PayloadHeader::Vp8,
            Self::H264 => PayloadHeader::H264,
        }
    }
}

impl std::fmt::Display for VideoCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Vp8 => "VP8",
            Self::H264 => "H.264",
        })
    }
}

/// An encoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VideoFrame {
    /// Its bytes: a VP8 frame, or the units of an H.264 access unit with their start codes.
    pub payload: Payload,
    /// Whether decoding can start with it.
    pub key: bool,
    /// Its time by the container; `None` if the container has none.
    pub time: Option<giusto_units::TimeDelta>,
}
