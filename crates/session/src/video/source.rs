//! Frames at their times.

use giusto_units::{DataRate, NANOS_PER_SECOND, TimeDelta, Timestamp};

use super::{VIDEO_CLOCK, VideoCodec, clip::Ladder};
use crate::media::{Frame, RateRange};

/// A source that is asked later than this gives its frames later from then on, without making up for the time. Chosen by us.
const LATENESS_MAX: TimeDelta = TimeDelta::from_millis(100);

/// A source of encoded frames whose rate can be changed: files, or an encoder.
///
/// At [`next_frame_at`](Self::next_frame_at), call [`poll_frame`](Self::poll_frame) until it returns `None`.
pub trait VideoSource: std::fmt::Debug + Send {
    /// The codec of its frames.
    fn codec(&self) -> VideoCodec;

    /// The rates that it can produce, headers not included.
    fn limits(&self) -> RateRange;

    /// When to ask for the next frame; `None`: there are no more.
    fn next_frame_at(&self) -> Option<Timestamp>;

    /// The frame that is due, if one is.
    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame>;

    /// Sets its rate from now on, headers not included.
    fn set_target(&mut self, now: Timestamp, rate: DataRate);

    /// Requests a key frame, as soon as possible.
    fn request_key_frame(&mut self, now: Timestamp);

    /// The frame that was polled last is not sent: later frames must not refer to it.
    fn on_skipped(&mut self, now: Timestamp);
}

/// A time as ticks of the RTP clock of video, rounded to the nearest, from `start` on; it wraps.
pub fn media_timestamp(start: Timestamp, at: Timestamp) -> u32 {
    let nanos = i128::from((at - start).as_nanos());
    let second = i128::from(NANOS_PER_SECOND);
    ((nanos * i128::from(VIDEO_CLOCK) + second / 2).div_euclid(second)) as u32
}

/// Files of one video, from a start time on.
///
/// A frame that is skipped is given again at the time of the next: the video stands still, since later frames refer to it. At a jump to
/// a key frame it goes on from there.
#[derive(Debug, Clone)]
pub struct FileSource {
    ladder: Ladder,
    start: Timestamp,
    due: Timestamp,
}

impl FileSource {
    /// The files of `ladder`; the first frame is due at `start`.
    pub const fn new(ladder: Ladder, start: Timestamp) -> Self {
        Self { ladder, start, due: start }
    }
}

impl VideoSource for FileSource {
    fn codec(&self) -> VideoCodec {
        self.ladder.codec()
    }

    fn limits(&self) -> RateRange {
        self.ladder.limits()
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        Some(self.due)
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        if now < self.due {
            return None;
        }
        if now.saturating_since(self.due) > LATENESS_MAX {
            self.due = now;
        }
        let captured = self.due;
        let (frame, step) = self.ladder.next_frame()?;
        let (payload, key) = (frame.payload.clone(), frame.key);
        self.due = captured + step;
        Some(Frame { captured, media_timestamp: media_timestamp(self.start, captured), payload, key })
    }

    fn set_target(&mut self, _: Timestamp, rate: DataRate) {
        self.ladder.set_rate(rate);
    }

    fn request_key_frame(&mut self, _: Timestamp) {
        self.ladder.request_key_frame();
    }

    fn on_skipped(&mut self, _: Timestamp) {
        self.ladder.step_back();
    }
}
