//! Where frames come from.

use giusto_session::media::{Payload, RateRange};
use giusto_units::{DataRate, TimeDelta};

use crate::ivf::Ivf;

/// A lower rate is not awaited until the next key frame if the target is below this share of the present rate; instead the video
/// jumps ahead to a key frame. Chosen by us.
const URGENT_RATIO: f64 = 0.75;

/// An encoded frame of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its bytes.
    pub payload: Payload,
    /// Whether decoding can start with it.
    pub key: bool,
}

/// A source of VP8 frames whose rate can be changed: files, or an encoder.
pub trait FrameSource: std::fmt::Debug + Send {
    /// The rates that it can produce, headers not included.
    fn limits(&self) -> RateRange;

    /// Time between two frames.
    fn interval(&self) -> TimeDelta;

    /// Sets its rate from now on, headers not included.
    fn set_rate(&mut self, rate: DataRate);

    /// Asks for a key frame, as soon as possible.
    fn request_key_frame(&mut self);

    /// The frame that is due; `None` if there is none this time.
    fn next_frame(&mut self) -> Option<SourceFrame>;

    /// The frame that is due is not sent.
    fn skip_frame(&mut self);
}

/// The files cannot be sent together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LadderError {
    /// There is none.
    #[error("no file: name at least one")]
    Empty,
    /// Their frame rates differ.
    #[error("file {0} has a frame every {1}, the first every {2}: encode all with one frame rate")]
    Interval(usize, TimeDelta, TimeDelta),
}

/// Files of the same video at several rates. It follows the target by changing files at key frames, and begins again at the end.
///
/// A frame cannot be left out of a file, since the next ones refer to it: while frames are skipped, the video stands still.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// By rising rate.
    files: Vec<Ivf>,
    current: usize,
    wanted: usize,
    /// Index of the next frame.
    position: usize,
    /// The next frame must be a key frame.
    jump: bool,
}

impl Ladder {
    /// A source that begins with the lowest rate.
    ///
    /// # Errors
    ///
    /// [`LadderError`] if there is no file, or if frame rates differ by more than 1 %.
    pub fn new(mut files: Vec<Ivf>) -> Result<Self, LadderError> {
        let first = files.first().ok_or(LadderError::Empty)?.interval();
        for (index, file) in files.iter().enumerate() {
            if (file.interval() - first).as_nanos().abs() > first.as_nanos() / 100 {
                return Err(LadderError::Interval(index + 1, file.interval(), first));
            }
        }
        files.sort_by_key(Ivf::rate);
        Ok(Self { files, current: 0, wanted: 0, position: 0, jump: false })
    }

    /// The rates of its files, rising.
    pub fn rates(&self) -> impl Iterator<Item = DataRate> + '_ {
        self.files.iter().map(Ivf::rate)
    }

    fn is_key(&self, file: usize, position: usize) -> bool {
        let frames = self.files.get(file).map(Ivf::frames).unwrap_or_default();
        let position = position.checked_rem(frames.len()).unwrap_or(0);
        frames.get(position).is_some_and(|frame| frame.key)
    }
}

impl FrameSource for Ladder {
    fn limits(&self) -> RateRange {
        let rate = |file: Option<&Ivf>| file.map_or(DataRate::ZERO, Ivf::rate);
        RateRange::new(rate(self.files.first()), rate(self.files.last())).unwrap_or_default()
    }

    fn interval(&self) -> TimeDelta {
        self.files.first().map_or(TimeDelta::from_millis(33), Ivf::interval)
    }

    fn set_rate(&mut self, rate: DataRate) {
        self.wanted = self.files.iter().rposition(|file| file.rate() <= rate).unwrap_or(0);
        let current = self.files.get(self.current).map_or(DataRate::ZERO, Ivf::rate);
        let is_urgent = (rate.as_bps() as f64) < current.as_bps() as f64 * URGENT_RATIO;
        self.jump |= self.wanted < self.current && is_urgent;
    }

    fn request_key_frame(&mut self) {
        self.jump = true;
    }

    fn next_frame(&mut self) -> Option<SourceFrame> {
        if std::mem::take(&mut self.jump) {
            self.current = self.wanted;
            let length = self.files.get(self.current).map_or(0, |file| file.frames().len());
            // The first frame of a file is a key frame.
            self.position = (self.position..self.position + length)
                .find(|&position| self.is_key(self.current, position))
                .unwrap_or(0);
        } else if self.wanted != self.current && self.is_key(self.wanted, self.position) {
            self.current = self.wanted;
        }
        let frames = self.files.get(self.current)?.frames();
        let at = self.position.checked_rem(frames.len())?;
        // Files that are shorter than others begin again; the position of all is the same.
        self.position += 1;
        let frame = frames.get(at)?;
        Some(SourceFrame { payload: frame.payload.clone(), key: frame.key })
    }

    fn skip_frame(&mut self) {}
}
