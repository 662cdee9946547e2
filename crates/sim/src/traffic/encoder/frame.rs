//! The frames of an encoder model.

use giusto_units::{DataSize, TimeDelta, Timestamp};

/// The RTP clock of video (RFC 3551 §5, table 5).
pub const VIDEO_CLOCK: u32 = 90_000;
/// The smallest frame (RFC 8593 §6.2.1, `fs_min`).
pub const FRAME_MIN: DataSize = DataSize::from_bytes(10);
/// The largest frame of a trace (RFC 8593 §6.2.1, `fs_max`).
pub const FRAME_MAX: DataSize = DataSize::from_bytes(1_000_000);
/// How late a frame may be asked for: what was due longer ago, and has a successor that is due as well, was never captured.
///
/// Our own: three frames at 30 Hz, and well above what an ordinary scheduler takes away from a thread.
pub const LATENESS_MAX: TimeDelta = TimeDelta::from_millis(100);

/// A frame of an encoder model: a picture of video, or one packet time of audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EncodedFrame {
    /// Counts the frames of its source from zero, without gaps.
    pub id: u64,
    /// When it was captured: the moment at which it was due.
    pub captured: Timestamp,
    /// The capture time on the media's RTP clock; zero at the source's start, and wraps.
    pub media_timestamp: u32,
    /// Its size; never zero.
    pub size: DataSize,
    /// Whether a decoder that has nothing before can begin with it. Sources without key frames say no.
    pub key: bool,
}
