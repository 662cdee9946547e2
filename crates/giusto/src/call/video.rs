//! Real video in a call: where it comes from, and where what arrives is saved.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use giusto_session::{
    media::{Payload, RateRange},
    video::{Clip, ClipError, FileSource, Ladder, LadderError, VideoCodec, VideoSource},
};
use giusto_sim::traffic::encoder::{EncodedFrame, MediaSource};
use giusto_units::{DataRate, TimeDelta, Timestamp};

/// Files that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VideoInputError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
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
}

/// What a source has given.
#[derive(Debug, Default)]
struct Counts {
    frames: AtomicU64,
    key_frames: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    key_frame_requests: AtomicU64,
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
                std::fs::read(path).map_err(|source| VideoInputError::Read { path: name(), source })?;
            Clip::parse(&bytes, interval).map_err(|source| VideoInputError::Clip { path: name(), source })
        };
        let clips = paths.into_iter().map(clip).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { source: Input::Files(Ladder::new(clips)?), counts: Arc::default() })
    }

    /// The codec.
    pub fn codec(&self) -> VideoCodec {
        match &self.source {
            Input::Files(ladder) => ladder.codec(),
        }
    }

    /// The rates that it can produce, headers not included.
    pub fn limits(&self) -> RateRange {
        match &self.source {
            Input::Files(ladder) => ladder.limits(),
        }
    }

    /// The source from `start` on.
    pub(crate) fn source(&self, start: Timestamp, first: DataRate) -> RealVideo {
        let mut source: Box<dyn VideoSource> = match &self.source {
            Input::Files(ladder) => Box::new(FileSource::new(ladder.clone(), start)),
        };
        source.set_target(start, first);
        RealVideo {
            target: source.limits().clamp(first),
            source,
            start,
            frames: 0,
            payload: None,
            paused: false,
            counts: Arc::clone(&self.counts),
        }
    }
}

/// Real video as one of the encoders of a media flow.
#[derive(Debug)]
pub(crate) struct RealVideo {
    source: Box<dyn VideoSource>,
    start: Timestamp,
    target: DataRate,
    frames: u64,
    payload: Option<Payload>,
    paused: bool,
    counts: Arc<Counts>,
}

impl MediaSource for RealVideo {
    fn next_frame_at(&self) -> Option<Timestamp> {
        if self.paused { None } else { self.source.next_frame_at() }
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<EncodedFrame> {
        let frame = self.source.poll_frame(now.max(self.start))?;
        let size = frame.payload.size();
        self.counts.frames.fetch_add(1, Relaxed);
        self.counts.key_frames.fetch_add(frame.key.into(), Relaxed);
        self.counts.bytes.fetch_add(size.as_bytes(), Relaxed);
        self.payload = Some(frame.payload);
        self.frames += 1;
        Some(EncodedFrame {
            id: self.frames - 1,
            captured: frame.captured,
            media_timestamp: frame.media_timestamp,
            size,
            key: frame.key,
        })
    }

    fn set_target(&mut self, now: Timestamp, target: DataRate) {
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

    fn take_payload(&mut self) -> Option<Payload> {
        self.payload.take()
    }

    fn on_skipped(&mut self, now: Timestamp, _: &EncodedFrame) {
        self.counts.skipped.fetch_add(1, Relaxed);
        self.source.on_skipped(now);
    }
}
