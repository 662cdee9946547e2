//! Reads IVF files, in which encoders leave VP8 frames.

use giusto_rtp::vp8::{FrameTag, Vp8Error};
use giusto_session::media::{MAX_FRAME_SIZE, Payload};
use giusto_units::{DataRate, DataSize, NANOS_PER_SECOND, TimeDelta};

const FILE_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 12;

/// A file that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IvfError {
    /// It is not IVF.
    #[error("not an IVF file: it does not begin with DKIF and a header of 32 B")]
    NotIvf,
    /// It has another codec.
    #[error("the codec is \"{0}\": expected VP80, such as of `ffmpeg -i INPUT -c:v libvpx -g 30 FILE.ivf`")]
    Codec(String),
    /// It ends within a frame.
    #[error("frame {0} is cut off: the file is incomplete")]
    Truncated(usize),
    /// A frame is not VP8, or too large.
    #[error("frame {0}: {1}")]
    Frame(usize, Vp8Error),
    /// A frame is empty or too large.
    #[error("frame {0} has {1} B: expected 1 to 8,000,000")]
    FrameSize(usize, usize),
    /// It begins with another frame than a key frame, or has fewer than two frames.
    #[error("{0} frames, of which the first must be a key frame and at least 2 are needed")]
    Frames(usize),
    /// The times of its frames do not rise.
    #[error("the times of the frames do not rise by a constant step: write it with a constant frame rate")]
    Times,
}

/// A frame of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IvfFrame {
    /// Its bytes.
    pub payload: Payload,
    /// Whether decoding can start with it.
    pub key: bool,
}

/// A VP8 video from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ivf {
    frames: Vec<IvfFrame>,
    interval: TimeDelta,
    rate: DataRate,
}

impl Ivf {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    ///
    /// [`IvfError`] says what is wrong, and in which frame, counted from 0.
    pub fn parse(bytes: &[u8]) -> Result<Self, IvfError> {
        let header =
            bytes.get(..FILE_HEADER_BYTES).filter(|it| it.starts_with(b"DKIF")).ok_or(IvfError::NotIvf)?;
        let length = header.get(6..8).and_then(|it| it.try_into().ok()).map(u16::from_le_bytes);
        let codec = header.get(8..12).unwrap_or_default();
        if codec != b"VP80" {
            return Err(IvfError::Codec(String::from_utf8_lossy(codec).escape_default().to_string()));
        }
        let word = |at: usize| {
            header.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_le_bytes)
        };
        // A time step is `scale / rate` seconds.
        let (rate, scale) = (u64::from(word(16)), u64::from(word(20)));
        let mut rest =
            bytes.get(usize::from(length.unwrap_or(0)).max(FILE_HEADER_BYTES)..).unwrap_or_default();
        let (mut frames, mut times) = (Vec::new(), (0_u64, 0_u64));
        while !rest.is_empty() {
            let index = frames.len();
            let (head, after) =
                rest.split_at_checked(FRAME_HEADER_BYTES).ok_or(IvfError::Truncated(index))?;
            let (size, time) = head.split_at_checked(4).ok_or(IvfError::Truncated(index))?;
            let size = size.try_into().map_or(0, u32::from_le_bytes) as usize;
            let time = time.try_into().map_or(0, u64::from_le_bytes);
            let (frame, after) = after.split_at_checked(size).ok_or(IvfError::Truncated(index))?;
            if frame.is_empty() || frame.len() as u64 > MAX_FRAME_SIZE.as_bytes() {
                return Err(IvfError::FrameSize(index, frame.len()));
            }
            let tag = FrameTag::parse(frame).map_err(|error| IvfError::Frame(index, error))?;
            times = (if index == 0 { time } else { times.0 }, time);
            frames.push(IvfFrame { payload: frame.into(), key: tag.key });
            rest = after;
        }
        let steps = (frames.len() as u64).saturating_sub(1);
        if steps == 0 || !frames.first().is_some_and(|first| first.key) {
            return Err(IvfError::Frames(frames.len()));
        }
        let span =
            u128::from(times.1.saturating_sub(times.0)) * u128::from(scale) * u128::from(NANOS_PER_SECOND);
        let span = span.checked_div(u128::from(rate) * u128::from(steps)).unwrap_or(0);
        let interval = i64::try_from(span).ok().map(TimeDelta::from_nanos);
        // 1 to 1000 frames per second.
        let possible = TimeDelta::from_millis(1)..=TimeDelta::from_seconds(1);
        let interval = interval.filter(|interval| possible.contains(interval)).ok_or(IvfError::Times)?;
        let size = DataSize::from_bytes(frames.iter().map(|frame| frame.payload.len() as u64).sum());
        let rate = DataRate::of(size, interval * (steps as i64 + 1)).ok_or(IvfError::Times)?;
        Ok(Self { frames, interval, rate })
    }

    /// Its frames: at least two, the first a key frame.
    pub fn frames(&self) -> &[IvfFrame] {
        &self.frames
    }

    /// Time between two frames.
    pub fn interval(&self) -> TimeDelta {
        self.interval
    }

    /// Its mean rate, headers not included.
    pub fn rate(&self) -> DataRate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two frames at 25 frames per second, a key frame and an inter frame.
    fn file() -> Vec<u8> {
        let mut bytes = b"DKIF\0\0\x20\0VP80".to_vec();
        bytes.extend([0x40, 1, 0xb4, 0]);
        bytes.extend([25_u32, 1, 2, 0].map(u32::to_le_bytes).concat());
        for (time, frame) in
            [(0_u64, &[0x10, 0, 0, 0x9d, 1, 0x2a, 0x40, 1, 0xb4, 0][..]), (1, &[0x11, 0, 0, 7])]
        {
            bytes.extend((frame.len() as u32).to_le_bytes());
            bytes.extend(time.to_le_bytes());
            bytes.extend(frame);
        }
        bytes
    }

    #[test]
    fn frames_keep_their_bytes_and_the_file_its_rate() {
        let ivf = Ivf::parse(&file()).unwrap();
        assert_eq!(ivf.interval(), TimeDelta::from_millis(40));
        assert_eq!(ivf.rate(), DataRate::from_bps(14 * 8 * 1000 / 80));
        let keys: Vec<_> = ivf.frames().iter().map(|frame| (frame.key, frame.payload.len())).collect();
        assert_eq!(keys, [(true, 10), (false, 4)]);
    }

    #[test]
    fn damaged_files_are_errors() {
        let whole = file();
        for length in 0..whole.len() {
            assert!(Ivf::parse(&whole[..length]).is_err(), "{length} B");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            Ivf::parse(&bytes).unwrap_err()
        };
        assert_eq!(changed(0, b'd'), IvfError::NotIvf);
        assert_eq!(changed(10, b'9'), IvfError::Codec("VP90".to_owned()));
        assert_eq!(changed(44, 0x11), IvfError::Frames(2));
        assert_eq!(changed(47, 0), IvfError::Frame(0, Vp8Error::NoStartCode));
        assert_eq!(changed(16, 0), IvfError::Times);
        assert_eq!(changed(33, 0xff), IvfError::Truncated(0));
    }
}
