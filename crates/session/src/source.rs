//! How large is the next frame, and when does it come?
//!
//! A [`MediaSource`] stands for an encoder behind a camera or a microphone: it makes frames (their sizes, not their bytes)
//! and follows, as well as its model says, the rate that a congestion controller asks of it.
//!
//! | source | frames | follows the target |
//! |---|---|---|
//! | [`Cbr`] | packets of one size at one rate | never |
//! | [`Audio`] | one for each packet time at one rate | never |
//! | [`PerfectEncoder`] | the target over the frame rate, to the byte; key frames repaid | after a fixed lag |
//! | [`Noisy`] | those of another source, with random deviations in size | as the other one |
//! | [`StatisticalEncoder`] | Laplacian around the target; bursts at abrupt changes (RFC 8593 §5) | damped |
//! | [`TraceEncoder`] | interpolated from a ladder of traces (RFC 8593 §6) | at once |
//! | [`HybridEncoder`] | of a trace; bursts at abrupt changes (RFC 8593 §7) | damped |
//!
//! The RTP timestamp of a frame begins at zero; a sender adds the random offset of RFC 3550 §5.1. What becomes of a frame on
//! its way into packets says [`packetizer`](super::packetizer).
//!
//! # What RFC 8593 leaves open, and how it is read here
//!
//! - §5.1: requests within `tau_v` after a reaction are "simply ignored". A controller that asks only at a change would then
//!   never be heard, so the last of them is remembered by default and acted upon when `tau_v` is over; see [`Meanwhile`].
//! - §5.1 and §5.2: the transient lasts `tau_v` (0.2 s) in one place and `K_d` frames (8 at 30 Hz are 0.27 s) in another.
//!   Here it lasts `K_d` frames; a new reaction may begin another one before, which inherits what is not yet repaid.
//! - §5.2: what an "abrupt" change is stands only in §7: by more than a tenth of the previous target.
//! - §5.2: a burst of 13.5 kB exceeds the whole budget of eight frames below 405 kbit/s. The average is the stated
//!   assumption, so the burst is what gives way: it leaves ten bytes to each frame that follows.
//! - §5.2 and §5.3: noise is defined for the steady state. Frames of a transient have exactly their share, at `1/FPS`.
//! - §5.3: a Laplacian reaches below −1, a frame of negative size. Deviations are clipped at ±0.99: on both sides, so that
//!   the mean stays.
//! - §5.4: "output bitrate" is clipped as the target, not frame by frame: with the example values, a burst frame alone is
//!   3.24 Mbit/s, above the maximum of 1.5.
//! - Nothing is said of the first frame but in §6.1, where it is intra-coded: every encoder here begins with a key frame,
//!   the statistical ones with a transient.
//! - §6.2.1: `t_current` begins at 0 and is updated whenever a frame is due. It is used before it is updated, or else the
//!   key frame at 0 would never be sent.
//! - §6.2.1: case b) multiplies by `factor`, which is not defined: it is the `w` of the line above. With the variable steps
//!   of §6.2.2, `l` is the distance to the next rung.
//! - §7: while the statistical model makes the frames of a transient, the trace goes on, as the scene before a camera does.
//!
//! # Example
//!
//! ```
//! use giusto_session::source::{MediaSource, PerfectConfig, PerfectEncoder};
//! use giusto_units::{DataRate, DataSize, Timestamp};
//!
//! let mut camera = PerfectEncoder::new(PerfectConfig::default(), Timestamp::ZERO)?;
//! camera.set_target(Timestamp::ZERO, DataRate::from_bps(1_200_000));
//!
//! let first = camera.poll_frame(Timestamp::ZERO).expect("the first frame is due at the start");
//! assert!(first.key);
//! assert_eq!(first.size, DataSize::from_bytes(625)); // 150 kbit/s at 30 Hz: the encoder has not yet reacted
//! assert_eq!(camera.next_frame_at(), Some(Timestamp::from_nanos(33_333_333)));
//! # Ok::<(), giusto_session::source::SourceError>(())
//! ```

mod account;
mod audio;
mod cadence;
mod cbr;
mod hybrid;
mod ladder;
mod lag;
mod laplace;
mod limits;
mod noisy;
mod perfect;
mod reaction;
mod statistical;
#[cfg(test)]
mod tests;
mod trace;
mod transient;

pub use self::{
    account::BurstSize,
    audio::{Audio, AudioConfig},
    cadence::FrameRate,
    cbr::Cbr,
    hybrid::HybridEncoder,
    ladder::{SyntheticScene, TraceLadder},
    limits::{RateRange, SourceError},
    noisy::Noisy,
    perfect::{KeyFrames, PerfectConfig, PerfectEncoder},
    reaction::Meanwhile,
    statistical::StatisticalEncoder,
    trace::{TraceConfig, TraceEncoder},
    transient::StatisticalConfig,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

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

/// What an encoder hands to the packetizer: a picture, or a packet time of sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
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

/// An encoder that makes frames at its own times and is asked for a rate.
///
/// Wait until [`next_frame_at`](Self::next_frame_at), then call [`poll_frame`](Self::poll_frame) until it gives nothing more.
/// After that the next moment lies in the future. Calls in any order are safe; time that runs backwards counts as no time;
/// every call takes constant time.
///
/// Who polls late still gets the frames of the last [`LATENESS_MAX`], each with the time at which it was due; older ones are
/// lost, as with a camera, and leave no gap in the ids. A frame that the sender leaves out before encoding it (RFC 8593 §4,
/// "instant frame skipping") is one that it throws away: nothing refers to it, so nobody needs to be told.
pub trait MediaSource: Send + std::fmt::Debug {
    /// When the next frame is due; nothing while the source is paused, and at the end of time.
    fn next_frame_at(&self) -> Option<Timestamp>;

    /// The frame that is due, if one is.
    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame>;

    /// Asks for a rate of media, headers not included; what lies outside the [`limits`](Self::limits) gives the nearer one.
    fn set_target(&mut self, now: Timestamp, target: DataRate);

    /// The rate that was last asked for, within the limits. The encoder may not have reacted to it yet.
    fn target(&self) -> DataRate;

    /// The rates that the encoder can produce.
    fn limits(&self) -> RateRange;

    /// Asks that the next frame be a key frame, as a Full Intra Request does (RFC 5104 §3.5.1). Requests before that frame are
    /// one request; sources without key frames do nothing.
    fn request_key_frame(&mut self, now: Timestamp);

    /// Something encoded was thrown away before it was sent, so what follows refers to what nobody has: asks for a key frame.
    fn on_discarded(&mut self, now: Timestamp) {
        self.request_key_frame(now);
    }

    /// Stops the source or lets it go on (RFC 8867 §5.8). It goes on with a key frame, at once unless the frame before was
    /// less than an interval ago.
    fn set_paused(&mut self, now: Timestamp, paused: bool);
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

    fn on_discarded(&mut self, now: Timestamp) {
        (**self).on_discarded(now);
    }

    fn set_paused(&mut self, now: Timestamp, paused: bool) {
        (**self).set_paused(now, paused);
    }
}
