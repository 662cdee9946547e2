//! The video that is published.

use std::time::Duration;

use bytes::Bytes;
use giusto_session::video::{Clip, Ladder, VideoCodec};
use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::Error;

/// Frames between key frames of a made film, and those in a second.
const GROUP: u64 = 30;
const FRAMES_PER_SECOND: u64 = 30;
/// The size of a key frame, in sizes of the mean frame.
const KEY_FRAME: f64 = 3.0;

/// Video whose rate can be changed.
pub(crate) enum Film {
    /// Files of the same video at several rates: the rate changes at key frames.
    Files(Ladder),
    /// Frames of the size that the rate allows: structure without a picture.
    Made { next: u64, is_key: bool },
}

/// An encoded frame.
pub(crate) struct Encoded {
    pub(crate) bytes: Bytes,
    pub(crate) is_key: bool,
}

impl Film {
    pub(crate) fn made() -> Self {
        Self::Made { next: 0, is_key: true }
    }

    /// Files that are shorter than the film begin again.
    pub(crate) fn of_files(files: &[Vec<u8>]) -> Result<Self, Error> {
        let interval = TimeDelta::from_seconds(1) / FRAMES_PER_SECOND as i64;
        let clips = files.iter().map(|file| Clip::parse(file, interval)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::Files(Ladder::new(clips)?))
    }

    /// Time from frame to frame.
    pub(crate) fn interval(&self) -> Duration {
        match self {
            Self::Files(ladder) => Duration::from_nanos(ladder.interval().as_nanos().max(1) as u64),
            Self::Made { .. } => Duration::from_secs(1) / FRAMES_PER_SECOND as u32,
        }
    }

    /// The next frame, at a rate of at most `rate`.
    pub(crate) fn next_frame(&mut self, rate: DataRate) -> Option<Encoded> {
        match self {
            Self::Files(ladder) => {
                ladder.set_rate(rate);
                let (frame, _) = ladder.next_frame()?;
                Some(Encoded { bytes: frame.payload.to_vec().into(), is_key: frame.key })
            }
            Self::Made { next, is_key } => {
                let is_key = std::mem::take(is_key) || next.is_multiple_of(GROUP);
                *next += 1;
                let factor =
                    if is_key { KEY_FRAME } else { (GROUP as f64 - KEY_FRAME) / (GROUP as f64 - 1.0) };
                let size = rate.as_bps() as f64 / 8.0 / FRAMES_PER_SECOND as f64 * factor;
                let frame = VideoCodec::Vp8.synthetic_frame(DataSize::from_bytes(size as u64), is_key);
                Some(Encoded { bytes: frame.to_vec().into(), is_key })
            }
        }
    }

    /// A frame is left out. A film of files goes on with its next key frame, since later frames of the group need those before; an
    /// encoder can go on.
    pub(crate) fn skip(&mut self) {
        match self {
            Self::Files(ladder) => ladder.request_key_frame(),
            Self::Made { next, .. } => *next += 1,
        }
    }

    /// The next frame is a key frame.
    pub(crate) fn request_key_frame(&mut self) {
        match self {
            Self::Files(ladder) => ladder.request_key_frame(),
            Self::Made { is_key, .. } => *is_key = true,
        }
    }
}
