//! Whole files of video.

use giusto_units::{DataRate, DataSize, TimeDelta};

use super::{
    VideoCodec, VideoFrame,
    reader::{VideoError, VideoReader},
};
use crate::media::RateRange;

/// A lower rate is not awaited until the next key frame if the target is below this share of the present rate; instead the video
/// jumps ahead to a key frame. Chosen by us.
const URGENT_RATIO: f64 = 0.75;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 16;

/// A file that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClipError {
    /// It is not video, or damaged.
    #[error(transparent)]
    Video(#[from] VideoError),
    /// It begins with another frame than a key frame, or has fewer than two frames.
    #[error("{0} frames, of which the first must be a key frame and at least 2 are needed")]
    Frames(usize),
    /// The times of its frames do not rise.
    #[error("the time of frame {0} is not above that of the one before: write the file with rising times")]
    Times(usize),
    /// Its frame rate is impossible.
    #[error("a frame every {0} on average: expected 1 ms to 1 s")]
    Interval(TimeDelta),
}

/// A video from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clip {
    codec: VideoCodec,
    frames: Vec<VideoFrame>,
    /// The time of each frame since the first.
    times: Vec<TimeDelta>,
    interval: TimeDelta,
    rate: DataRate,
    /// The rate without the frames to which no other refers.
    base_rate: DataRate,
}

impl Clip {
    /// Reads the bytes of a file: IVF, or H.264 of Annex B. The latter has no times: its frames follow each other by `interval`.
    ///
    /// # Errors
    ///
    /// [`ClipError`] says what is wrong, and in which frame, counted from 0.
    pub fn parse(bytes: &[u8], interval: TimeDelta) -> Result<Self, ClipError> {
        let mut reader = VideoReader::default();
        let mut frames = Vec::new();
        for chunk in bytes.chunks(CHUNK) {
            reader.push(chunk);
            while let Some(frame) = reader.poll_frame()? {
                frames.push(frame);
            }
        }
        frames.extend(reader.finish()?);
        let codec = reader.codec().ok_or(VideoError::Truncated(0))?;
        Self::new(codec, frames, interval)
    }

    fn new(codec: VideoCodec, frames: Vec<VideoFrame>, interval: TimeDelta) -> Result<Self, ClipError> {
        let steps = frames.len().saturating_sub(1) as i64;
        if steps == 0 || !frames.first().is_some_and(|first| first.key) {
            return Err(ClipError::Frames(frames.len()));
        }
        let zero = frames.first().and_then(|first| first.time);
        let times: Vec<TimeDelta> = (0..)
            .zip(&frames)
            .map(|(index, frame)| frame.time.zip(zero).map_or(interval * index, |(time, zero)| time - zero))
            .collect();
        if let Some(wrong) = times.windows(2).position(|two| matches!(two, [one, two] if one >= two)) {
            return Err(ClipError::Times(wrong + 1));
        }
        let interval = times.last().copied().unwrap_or_default() / steps;
        // 1 to 1000 frames per second.
        if !(TimeDelta::from_millis(1)..=TimeDelta::from_seconds(1)).contains(&interval) {
            return Err(ClipError::Interval(interval));
        }
        let rate = |counts: fn(&&VideoFrame) -> bool| {
            let counted = frames.iter().filter(counts).map(|frame| frame.payload.len() as u64);
            DataRate::of(DataSize::from_bytes(counted.sum()), interval * (steps + 1))
        };
        let (rate, base_rate) =
            rate(|_| true).zip(rate(|frame| !frame.droppable)).ok_or(ClipError::Interval(interval))?;
        Ok(Self { codec, frames, times, interval, rate, base_rate })
    }

    /// Its codec.
    pub const fn codec(&self) -> VideoCodec {
        self.codec
    }

    /// Its frames: at least two, the first a key frame.
    pub fn frames(&self) -> &[VideoFrame] {
        &self.frames
    }

    /// The time from the frame with this index to the next; from the last to the first, which follows it, the mean.
    pub fn step(&self, index: usize) -> TimeDelta {
        match (self.times.get(index), self.times.get(index + 1)) {
            (Some(&this), Some(&next)) => next - this,
            _ => self.interval,
        }
    }

    /// Mean time between two frames.
    pub const fn interval(&self) -> TimeDelta {
        self.interval
    }

    /// The share of its droppable frames for which there is room in this rate.
    fn kept_share(&self, rate: DataRate) -> f64 {
        let above = |rate: DataRate| rate.as_bps().saturating_sub(self.base_rate.as_bps()) as f64;
        let (room, all) = (above(rate), above(self.rate));
        if room >= all { 1.0 } else { room / all }
    }

    /// Its mean rate, headers not included.
    pub const fn rate(&self) -> DataRate {
        self.rate
    }
}

/// Files that cannot be sent together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LadderError {
    /// There is none.
    #[error("no file: name at least one")]
    Empty,
    /// Their frame rates differ.
    #[error("file {0} has a frame every {1}, the first every {2}: encode all with one frame rate")]
    Interval(usize, TimeDelta, TimeDelta),
    /// Their codecs differ.
    #[error("file {0} is {1}, the first is {2}: encode all with one codec")]
    Codec(usize, VideoCodec, VideoCodec),
}

/// Files of the same video at several rates. It follows the target by changing files at key frames, and begins again at the end. Where
/// the target is below the rate of a file, as many of the frames to which no other refers are left out: those of the highest temporal
/// layer.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// By rising rate.
    files: Vec<Clip>,
    current: usize,
    wanted: usize,
    /// Index of the next frame, and of the one that was taken last.
    position: usize,
    taken: usize,
    /// The target rate.
    rate: DataRate,
    /// Of the frames that can be left out, the share that the next one would complete.
    share: f64,
    /// The next frame must be a key frame.
    jump: bool,
}

impl Ladder {
    /// A ladder that begins with the lowest rate.
    ///
    /// # Errors
    ///
    /// [`LadderError`] if there is no file, if codecs differ, or frame rates by more than 1 %.
    pub fn new(mut files: Vec<Clip>) -> Result<Self, LadderError> {
        let first = files.first().ok_or(LadderError::Empty)?;
        let (codec, interval) = (first.codec(), first.interval());
        for (index, file) in files.iter().enumerate() {
            if file.codec() != codec {
                return Err(LadderError::Codec(index + 1, file.codec(), codec));
            }
            if (file.interval() - interval).as_nanos().abs() > interval.as_nanos() / 100 {
                return Err(LadderError::Interval(index + 1, file.interval(), interval));
            }
        }
        files.sort_by_key(Clip::rate);
        Ok(Self {
            files,
            current: 0,
            wanted: 0,
            position: 0,
            taken: 0,
            rate: DataRate::from_bps(u64::MAX),
            share: 0.0,
            jump: false,
        })
    }

    /// The codec of all files.
    pub fn codec(&self) -> VideoCodec {
        self.files.first().map_or(VideoCodec::Vp8, Clip::codec)
    }

    /// The rates of its files, rising.
    pub fn rates(&self) -> impl Iterator<Item = DataRate> + '_ {
        self.files.iter().map(Clip::rate)
    }

    /// The lowest rate, of the frames that others need, and the highest.
    pub fn limits(&self) -> RateRange {
        let lowest = self.files.iter().map(|file| file.base_rate).min().unwrap_or_default();
        RateRange::new(lowest, self.files.last().map_or(DataRate::ZERO, Clip::rate)).unwrap_or_default()
    }

    /// Mean time between two frames.
    pub fn interval(&self) -> TimeDelta {
        self.files.first().map_or(TimeDelta::from_millis(33), Clip::interval)
    }

    /// Selects the file with the highest rate up to `rate`, or the lowest, from the next key frame on.
    pub fn set_rate(&mut self, rate: DataRate) {
        self.rate = rate;
        self.wanted = self.files.iter().rposition(|file| file.rate() <= rate).unwrap_or(0);
        let current = self.files.get(self.current).map_or(DataRate::ZERO, |file| file.base_rate);
        let is_urgent = (rate.as_bps() as f64) < current.as_bps() as f64 * URGENT_RATIO;
        self.jump |= self.wanted < self.current && is_urgent;
    }

    /// The next frame is the next key frame of the video.
    pub fn request_key_frame(&mut self) {
        self.jump = true;
    }

    /// Takes the next frame, and the time until the one after it.
    pub fn next_frame(&mut self) -> Option<(&VideoFrame, TimeDelta)> {
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
        let file = self.files.get(self.current)?;
        let at = self.position.checked_rem(file.frames().len())?;
        // Files that are shorter than others begin again; the position of all is the same.
        (self.taken, self.position) = (self.position, self.position + 1);
        let (frame, mut step) = (file.frames().get(at)?, file.step(at));
        let kept = file.kept_share(self.rate);
        while let Some(at) = self.position.checked_rem(file.frames().len())
            && file.frames().get(at).is_some_and(|next| next.droppable)
            && (self.wanted == self.current || !self.is_key(self.wanted, self.position))
        {
            self.share += kept;
            if self.share >= 1.0 {
                self.share -= 1.0;
                break;
            }
            self.position += 1;
            step += file.step(at);
        }
        Some((frame, step))
    }

    /// The frame that was taken last is taken again, if others refer to it.
    pub fn step_back(&mut self) {
        let Some(file) = self.files.get(self.current) else { return };
        let at = self.taken.checked_rem(file.frames().len()).unwrap_or(0);
        if !file.frames().get(at).is_some_and(|frame| frame.droppable) {
            self.position = self.taken;
        }
    }

    fn is_key(&self, file: usize, position: usize) -> bool {
        let frames = self.files.get(file).map(Clip::frames).unwrap_or_default();
        let position = position.checked_rem(frames.len()).unwrap_or(0);
        frames.get(position).is_some_and(|frame| frame.key)
    }
}
