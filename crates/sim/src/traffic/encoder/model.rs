//! The interface of encoder models.

use giusto_session::media::RateRange;
use giusto_units::{DataRate, Timestamp};

use super::frame::EncodedFrame;

/// An encoder that makes frames at its own times and is asked for a rate.
///
/// Wait until [`next_frame_at`](Self::next_frame_at), then call [`poll_frame`](Self::poll_frame) until it gives nothing more.
/// After that the next moment lies in the future. Calls in any order are safe; time that runs backwards counts as no time;
/// every call takes constant time.
///
/// Who polls late still gets the frames of the last [`LATENESS_MAX`](super::LATENESS_MAX), each with the time at which it was due; older ones are
/// lost, as with a camera, and leave no gap in the ids. A frame that the sender leaves out before encoding it (RFC 8593 §4,
/// "instant frame skipping") is one that it throws away: nothing refers to it, so nobody needs to be told.
pub trait MediaSource: Send + std::fmt::Debug {
    /// When the next frame is due; nothing while the source is paused, and at the end of time.
    fn next_frame_at(&self) -> Option<Timestamp>;

    /// The frame that is due, if one is.
    fn poll_frame(&mut self, now: Timestamp) -> Option<EncodedFrame>;

    /// Asks for a rate of media, headers not included; what lies outside the [`limits`](Self::limits) gives the nearer one.
    fn set_target(&mut self, now: Timestamp, target: DataRate);

    /// The rate that was last asked for, within the limits. The encoder may not have reacted to it yet.
    fn target(&self) -> DataRate;

    /// The rates that the encoder can produce.
    fn limits(&self) -> RateRange;

    /// Asks that the next frame be a key frame, as a Full Intra Request does (RFC 5104 §3.5.1). Requests before that frame are
    /// one request; sources without key frames do nothing.
    fn request_key_frame(&mut self, now: Timestamp);

    /// Stops the source or lets it go on (RFC 8867 §5.8). It goes on with a key frame, at once unless the frame before was
    /// less than an interval ago.
    fn set_paused(&mut self, now: Timestamp, paused: bool);
}

impl<S: MediaSource + ?Sized> MediaSource for Box<S> {
    fn next_frame_at(&self) -> Option<Timestamp> {
        (**self).next_frame_at()
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<EncodedFrame> {
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
}
