//! The frames of an encoder model.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// The RTP clock of video (RFC 3551 §5, table 5).
pub const VIDEO_CLOCK: u32 = 90_000;
/// Minimum frame size (RFC 8593 §6.2.1, `fs_min`).
pub const FRAME_MIN: DataSize = DataSize::from_bytes(10);
/// Maximum frame size of a trace (RFC 8593 §6.2.1, `fs_max`).
pub const FRAME_MAX: DataSize = DataSize::from_bytes(1_000_000);
/// Maximum lateness of a poll: older frames with a due successor are skipped.
///
/// Chosen by us: three frames at 30 Hz, and well above the delays of an ordinary scheduler.
pub const LATENESS_MAX: TimeDelta = TimeDelta::from_millis(100);

/// A frame of an encoder model: a video frame, or one packet time of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EncodedFrame {
    /// Number of the frame in its source, from zero, without gaps.
    pub id: u64,
    /// Capture time: the time at which it was due.
    pub captured: Timestamp,
    /// The capture time on the media's RTP clock; zero at the source's start, and wraps.
    pub media_timestamp: u32,
    /// Its size; never zero.
    pub size: DataSize,
    /// Whether decoding can start with it. Always false for sources without key frames.
    pub key: bool,
}
