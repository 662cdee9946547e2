//! The interface of encoder models.

use giusto_session::media::{Frame, RateRange};
use giusto_units::{DataRate, Timestamp};

/// An encoder that makes frames at its own times and follows a target rate.
///
/// At [`next_frame_at`](Self::next_frame_at), call [`poll_frame`](Self::poll_frame) until it returns `None`.
/// After that the next time is in the future. Calls in any order are safe; time that runs backwards counts as
/// no time; every call takes constant time.
///
/// A late poll still returns the frames of the last [`LATENESS_MAX`](super::LATENESS_MAX), each with its due
/// time. Older ones are lost, as with a camera. If the sender skips a frame before
/// encoding (RFC 8593 §4, "instant frame skipping"), it polls the frame and discards it: no other frame
/// refers to it.
pub trait MediaSource: Send + std::fmt::Debug {
    /// Time of the next frame; `None` while the source is paused, and at the end of the time range.
    fn next_frame_at(&self) -> Option<Timestamp>;

    /// The frame that is due, if one is. Those of models are zeros, and their RTP clock begins at zero with the source.
    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame>;

    /// Sets the target rate of the media, headers not included. A value outside the [`limits`](Self::limits)
    /// gives the nearest limit.
    fn set_target(&mut self, now: Timestamp, target: DataRate);

    /// The latest target, within the limits. The encoder may not have reacted to it yet.
    fn target(&self) -> DataRate;

    /// The rates that the encoder can produce.
    fn limits(&self) -> RateRange;

    /// Requests that the next frame be a key frame, as a Full Intra Request does (RFC 5104 §3.5.1). Several
    /// requests before that frame count as one; sources without key frames ignore them.
    fn request_key_frame(&mut self, now: Timestamp);

    /// Pauses or resumes the source (RFC 8867 §5.8). It resumes with a key frame, at once unless the previous
    /// frame was less than an interval ago.
    fn set_paused(&mut self, now: Timestamp, paused: bool);

    /// The frame that was polled last is not sent. By default nothing refers to it, but a key frame is requested again.
    fn on_skipped(&mut self, now: Timestamp, frame: &Frame) {
        if frame.key {
            self.request_key_frame(now);
        }
    }
}

impl<S: MediaSource + ?Sized> MediaSource for Box<S> {
    fn next_frame_at(&self) -> Option<Timestamp> {
        (**self).next_frame_at()
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        (**self).poll_frame(now)
    }

    fn set_target(&mut self, now: Timestamp, target: DataRate) {
        (**self).set_target(now, target);
    }

    fn target(&self) -> DataRate {
        (**self).target()
    }

    fn limits(&self) -> RateRange {
        (**self).limits()
    }

    fn request_key_frame(&mut self, now: Timestamp) {
        (**self).request_key_frame(now);
    }

    fn set_paused(&mut self, now: Timestamp, paused: bool) {
        (**self).set_paused(now, paused);
    }

    fn on_skipped(&mut self, now: Timestamp, frame: &Frame) {
        (**self).on_skipped(now, frame);
    }
}
