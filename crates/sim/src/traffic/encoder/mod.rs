//! Models of video and audio encoders.
//!
//! A [`MediaSource`] models an encoder with a camera or a microphone: it makes frames (their sizes, not their
//! bytes) and follows the rate that a congestion controller sets, as its model defines.
//!
//! | source | frames | follows the target |
//! |---|---|---|
//! | [`Cbr`] | packets of constant size at a constant rate | never |
//! | [`Audio`] | one per packet time at a constant rate | never |
//! | [`PerfectEncoder`] | the target over the frame rate, to the byte; key frames repaid | after a fixed lag |
//! | [`Noisy`] | those of another source, with random deviations in size | as the other source |
//! | [`StatisticalEncoder`] | Laplacian around the target; bursts at abrupt changes (RFC 8593 §5) | damped |
//! | [`RecordedEncoder`] | of recorded sizes, one after the other | at once, or never |
//! | [`TraceEncoder`] | interpolated from a ladder of traces (RFC 8593 §6) | at once |
//! | [`HybridEncoder`] | of a trace; bursts at abrupt changes (RFC 8593 §7) | damped |
//!
//! The RTP timestamp of a frame starts at zero; a sender adds the random offset of RFC 3550 §5.1. A
//! [`Media`](super::Media) agent pushes the frames into a [`giusto_session::media`] session.
//!
//! # What RFC 8593 leaves open, and our choices
//!
//! - §5.1: requests within `tau_v` after a reaction are "simply ignored". The request of a controller that
//!   sets a rate only once would then be lost. By default the last of them is therefore stored and takes
//!   effect after `tau_v`; see [`Meanwhile`].
//! - §5.1 and §5.2: the transient lasts `tau_v` (0.2 s) in one place and `K_d` frames (8 at 30 Hz are 0.27 s)
//!   in another. Here it lasts `K_d` frames; a new reaction may start another one earlier, which inherits
//!   what is not yet repaid.
//! - §5.2: an "abrupt" change is defined only in §7: by more than a tenth of the previous target.
//! - §5.2: a burst of 13.5 kB exceeds the whole budget of eight frames below 405 kbit/s. The average rate is
//!   the stated assumption, so the burst is reduced: it leaves ten bytes for each frame that follows.
//! - §5.2 and §5.3: noise is defined for the steady state. Frames of a transient have exactly their share, at `1/FPS`.
//! - §5.3: a Laplacian variable may be below −1, a frame of negative size. Deviations are limited to ±0.99,
//!   symmetrically, so that the mean is preserved.
//! - §5.4: "output bitrate" is limited by the target, not frame by frame: with the example values, a burst
//!   frame alone is 3.24 Mbit/s, above the maximum of 1.5.
//! - The first frame is specified only in §6.1, where it is intra-coded: every encoder here starts with a key
//!   frame, the statistical ones with a transient.
//! - §6.2.1: `t_current` starts at 0 and is updated whenever a frame is due. It is used before it is updated;
//!   otherwise the key frame at 0 would never be sent.
//! - §6.2.1: case b) multiplies by `factor`, which is not defined: it is the `w` of the line above. With the
//!   variable steps of §6.2.2, `l` is the distance to the next rung.
//! - §7: while the statistical model makes the frames of a transient, the trace advances, like the scene
//!   before a camera.
//!
//! # Example
//!
//! ```
//! use giusto_sim::traffic::encoder::{MediaSource, PerfectConfig, PerfectEncoder};
//! use giusto_units::{DataRate, DataSize, Timestamp};
//!
//! let mut camera = PerfectEncoder::new(PerfectConfig::default(), Timestamp::ZERO)?;
//! camera.set_target(Timestamp::ZERO, DataRate::from_bps(1_200_000));
//!
//! let first = camera.poll_frame(Timestamp::ZERO).expect("the first frame is due at the start");
//! assert!(first.key);
//! assert_eq!(first.payload.size(), DataSize::from_bytes(625)); // 150 kbit/s at 30 Hz: the encoder has not yet reacted
//! assert_eq!(camera.next_frame_at(), Some(Timestamp::from_nanos(33_333_333)));
//! # Ok::<(), giusto_sim::traffic::encoder::SourceError>(())
//! ```

mod account;
mod audio;
mod cadence;
mod cbr;
mod coded;
mod error;
mod frame;
mod hybrid;
mod ladder;
mod lag;
mod laplace;
mod model;
mod noisy;
mod on_cadence;
mod perfect;
mod reaction;
mod recorded;
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
    coded::Coded,
    error::SourceError,
    frame::{FRAME_MAX, FRAME_MIN, LATENESS_MAX},
    hybrid::HybridEncoder,
    ladder::{SyntheticScene, TraceLadder},
    model::MediaSource,
    noisy::Noisy,
    perfect::{KeyFrames, PerfectConfig, PerfectEncoder},
    reaction::Meanwhile,
    recorded::{FrameSizes, RecordedConfig, RecordedEncoder},
    statistical::StatisticalEncoder,
    trace::{TraceConfig, TraceEncoder},
    transient::StatisticalConfig,
};
