//! Real video in a call: where it comes from, and where what arrives is saved.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use giusto_net::encoder::{EncoderError, EncoderProcess};
use giusto_session::{
    media::{Frame, RateRange},
    video::{Clip, ClipError, FileSource, Ladder, LadderError, VideoCodec, VideoSource},
};
use giusto_sim::traffic::encoder::MediaSource;
use giusto_units::{DataRate, TimeDelta, Timestamp};
use serde::{Deserialize, Serialize};

use crate::whole_file::{read_bounded, unreadable};

/// Files that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VideoInputError {
    /// A file cannot be read.
    #[error("{}", unreadable(Path::new(path), source))]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not a video that can be sent.
    #[error("{path}: {source}")]
    Clip {
        /// The file.
        path: String,
        /// Why.
        source: ClipError,
    },
    /// The files do not belong together.
    #[error(transparent)]
    Ladder(#[from] LadderError),
}

/// Where the video of a call comes from.
#[derive(Debug, Clone)]
pub struct VideoInput {
    source: Input,
    counts: Arc<Counts>,
}

#[derive(Debug, Clone)]
enum Input {
    Files(Ladder),
    Encoder(EncoderProcess),
}

/// Real video that an end sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SentVideo {
    /// `file` or `encoder`.
    pub source: String,
    /// Its codec: `vp8`, `vp9`, `h264` or `av1`.
    pub codec: String,
    /// The mean target rate of the encoder, headers not included; `None` without one.
    pub mean_target_bps: Option<f64>,
    /// The rate of its frames, headers not included.
    pub rate_bps: f64,
    /// Frames, those that were skipped included.
    pub frames: u64,
    /// Of these: key frames.
    pub key_frames: u64,
    /// Frames that were not sent, because the queue was too long.
    pub skipped_frames: u64,
    /// Key frames that were requested, by the far end or because packets were discarded.
    pub key_frame_requests: u64,
}

/// What a source has given.
#[derive(Debug, Default)]
struct Counts {
    frames: AtomicU64,
    key_frames: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    key_frame_requests: AtomicU64,
    /// The target rate summed over time, in bits.
    target_bits: AtomicU64,
    /// The time of that sum, in nanoseconds.
    target_nanos: AtomicU64,
}

impl VideoInput {
    /// Files of one video at several rates. Those of H.264 have a frame every `interval`.
    ///
    /// # Errors
    ///
    /// [`VideoInputError`] names the file.
    pub fn files<'a>(
        paths: impl IntoIterator<Item = &'a Path>,
        interval: TimeDelta,
    ) -> Result<Self, VideoInputError> {
        let clip = |path: &Path| {
            let name = || path.display().to_string();
            let bytes =
                read_bounded(path).map_err(|source| VideoInputError::Read { path: name(), source })?;
            Clip::parse(&bytes, interval).map_err(|source| VideoInputError::Clip { path: name(), source })
        };
        let clips = paths.into_iter().map(clip).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { source: Input::Files(Ladder::new(clips)?), counts: Arc::default() })
    }

    /// A running encoder, for one call.
    pub fn encoder(encoder: EncoderProcess) -> Self {
        Self { source: Input::Encoder(encoder), counts: Arc::default() }
    }

    /// The same, with counts of its own.
    pub(crate) fn of_another_call(&self) -> Self {
        Self { source: self.source.clone(), counts: Arc::default() }
    }

    /// `file` or `encoder`.
    pub const fn kind(&self) -> &'static str {
        match self.source {
            Input::Files(_) => "file",
            Input::Encoder(_) => "encoder",
        }
    }

    /// Whether the encoder has ended, and how; never for files.
    pub(crate) fn ended(&self) -> Option<Result<(), EncoderError>> {
        match &self.source {
            Input::Files(_) => None,
            Input::Encoder(encoder) => encoder.ended(),
        }
    }

    /// Ends the encoder.
    pub(crate) fn stop(&self) {
        if let Input::Encoder(encoder) = &self.source {
            encoder.stop();
        }
    }

    /// What was given so far, over `duration`.
    pub(crate) fn figures(&self, duration: TimeDelta) -> SentVideo {
        let Counts { frames, key_frames, bytes, skipped, key_frame_requests, target_bits, target_nanos } =
            &*self.counts;
        let targeted = target_nanos.load(Relaxed) as f64 / 1e9;
        let bits = bytes.load(Relaxed) as f64 * 8.0;
        SentVideo {
            source: self.kind().to_owned(),
            codec: self.codec().name().to_owned(),
            rate_bps: if duration > TimeDelta::ZERO { bits / duration.as_seconds() } else { 0.0 },
            frames: frames.load(Relaxed),
            key_frames: key_frames.load(Relaxed),
            skipped_frames: skipped.load(Relaxed),
            key_frame_requests: key_frame_requests.load(Relaxed),
            mean_target_bps: (targeted > 0.0).then(|| target_bits.load(Relaxed) as f64 / targeted),
        }
    }

    /// The codec.
    pub fn codec(&self) -> VideoCodec {
        match &self.source {
            Input::Files(ladder) => ladder.codec(),
            Input::Encoder(encoder) => encoder.codec(),
        }
    }

    /// The rates that it can produce, headers not included.
    pub fn limits(&self) -> RateRange {
        match &self.source {
            Input::Files(ladder) => ladder.limits(),
            Input::Encoder(encoder) => encoder.limits(),
        }
    }

    /// The source from `start` on.
    ///
    /// # Errors
    ///
    /// [`EncoderError::Taken`] if the encoder serves another call.
    pub(crate) fn source(&self, start: Timestamp, first: DataRate) -> Result<RealVideo, EncoderError> {
        let mut source: Box<dyn VideoSource> = match &self.source {
            Input::Files(ladder) => Box::new(FileSource::new(ladder.clone(), start)),
            Input::Encoder(encoder) => Box::new(encoder.source()?),
        };
        source.set_target(start, first);
        Ok(RealVideo {
            target: source.limits().clamp(first),
            source,
            start,
            summed: start,
            paused: false,
            counts: Arc::clone(&self.counts),
        })
    }
}

/// Real video as one of the encoders of a media flow.
#[derive(Debug)]
pub(crate) struct RealVideo {
    source: Box<dyn VideoSource>,
    start: Timestamp,
    target: DataRate,
    /// Up to here the target is part of its mean.
    summed: Timestamp,
    paused: bool,
    counts: Arc<Counts>,
}

impl RealVideo {
    /// The frame that was polled last is not sent.
    pub(crate) fn skip(&mut self, now: Timestamp) {
        self.counts.skipped.fetch_add(1, Relaxed);
        self.source.on_skipped(now);
    }

    /// Adds the target since the last call to its mean.
    fn sum_target(&mut self, now: Timestamp) {
        let since = now.saturating_since(self.summed);
        self.summed = self.summed.max(now);
        self.counts.target_bits.fetch_add(self.target.size_in(since).as_bits(), Relaxed);
        self.counts.target_nanos.fetch_add(since.as_nanos().unsigned_abs(), Relaxed);
    }
}

impl MediaSource for RealVideo {
    fn next_frame_at(&self) -> Option<Timestamp> {
        if self.paused { None } else { self.source.next_frame_at() }
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        let frame = self.source.poll_frame(now.max(self.start))?;
        self.sum_target(now);
        self.counts.frames.fetch_add(1, Relaxed);
        self.counts.key_frames.fetch_add(frame.key.into(), Relaxed);
        self.counts.bytes.fetch_add(frame.payload.size().as_bytes(), Relaxed);
        Some(frame)
    }

    fn set_target(&mut self, now: Timestamp, target: DataRate) {
        self.sum_target(now);
        self.target = self.limits().clamp(target);
        self.source.set_target(now, self.target);
    }

    fn target(&self) -> DataRate {
        self.target
    }

    fn limits(&self) -> RateRange {
        self.source.limits()
    }

    fn request_key_frame(&mut self, now: Timestamp) {
        self.counts.key_frame_requests.fetch_add(1, Relaxed);
        self.source.request_key_frame(now);
    }

    fn set_paused(&mut self, now: Timestamp, paused: bool) {
        if std::mem::replace(&mut self.paused, paused) && !paused {
            self.source.request_key_frame(now);
        }
    }

    fn on_skipped(&mut self, now: Timestamp, _: &Frame) {
        self.skip(now);
    }
}
