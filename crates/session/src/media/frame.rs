//! Encoded frames as input of the session.

use giusto_units::{DataSize, Timestamp};

use super::payload::Payload;

/// Maximum size of a frame. Chosen by us: eight times the largest of RFC 8593 §6.2.1.
pub const MAX_FRAME_SIZE: DataSize = DataSize::from_bytes(8_000_000);

/// An encoded frame: a video frame, or one packet time of audio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Capture time.
    pub captured: Timestamp,
    /// Capture time on the stream's RTP clock, with any origin; it wraps. It must differ from that of the
    /// previous frame. The sender adds the stream's random offset.
    pub media_timestamp: u32,
    /// Its bytes, at least one.
    pub payload: Payload,
    /// Whether decoding can start with it (key frame).
    pub key: bool,
}

/// Error of pushing a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The sender has no such stream.
    #[error("no stream {0}: streams are numbered from 0 in their order at the sender")]
    NoStream(usize),
    /// The frame has no bytes.
    #[error("the frame is empty: push at least 1 B")]
    Empty,
    /// The frame exceeds the maximum size.
    #[error("a frame of {size} does not fit: push at most {max}")]
    TooLarge {
        /// Its size.
        size: DataSize,
        /// The largest size: [`MAX_FRAME_SIZE`] or 16 384 packets; one packet with [`Framing::Packet`](super::Framing::Packet).
        max: DataSize,
    },
    /// The frame has no unit of its codec.
    #[error("the frame has no H.264 unit: expected a byte stream with start codes (ITU-T H.264 Annex B)")]
    NoUnits,
    /// The session was stopped.
    #[error("the session was stopped: nothing more is sent")]
    Stopped,
}
