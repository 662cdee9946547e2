//! The trace-driven model of RFC 8593 §6.

use giusto_session::{media::RateRange, video::VIDEO_CLOCK};
use giusto_units::{DataRate, DataSize, Timestamp};

use super::{
    cadence::Cadence,
    error::SourceError,
    ladder::TraceLadder,
    on_cadence::{Made, Model, OnCadence},
};

giusto_units::defaults! {
    /// Configuration of a [`TraceEncoder`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TraceConfig {
        /// Range of the target, which may exceed the ladder. Default: 150 kbit/s to 1.5 Mbit/s.
        pub limits: RateRange = RateRange::default(),
        /// The initial target, clamped to the limits. Default: 150 kbit/s (RFC 8867 §4.3).
        pub start_rate: DataRate = DataRate::from_bps(150_000),
        /// Number of frames at the start of the traces that are skipped in every repetition, so that there is no
        /// periodic key frame. Default: 20 (RFC 8593 §6.2.1, `SkipFrames`).
        pub skip_frames: usize = 20,
    }
}

/// Current position in the traces: `t_current` of RFC 8593 §6.2.1.
#[derive(Debug, Clone)]
pub struct Player {
    ladder: TraceLadder,
    skip: usize,
    position: usize,
}

impl Player {
    pub(super) fn new(ladder: TraceLadder, skip: usize) -> Result<Self, SourceError> {
        if skip >= ladder.frames() {
            return Err(SourceError::Ladder("it has only skipped frames"));
        }
        Ok(Self { ladder, skip, position: 0 })
    }

    /// The next frame at `rate`, and whether it is the key frame at the start of the traces.
    pub(super) fn next(&mut self, rate: DataRate) -> (DataSize, bool) {
        let (size, key) = (self.ladder.size(rate, self.position), self.position == 0);
        let next = self.position + 1;
        self.position = if next < self.ladder.frames() { next } else { self.skip };
        (size, key)
    }
}

/// The trace-driven model of a live video encoder (RFC 8593 §6).
///
/// It follows the target at once, as in §6.2.1; its rate varies as the traces do. A requested key frame
/// restarts the traces (§6.2.2).
pub type TraceEncoder = OnCadence<Player>;

impl TraceEncoder {
    /// An encoder whose first frame is due at `start`.
    ///
    /// # Errors
    ///
    /// [`SourceError::Ladder`] if the traces are not longer than the skipped frames.
    pub fn new(config: TraceConfig, ladder: TraceLadder, start: Timestamp) -> Result<Self, SourceError> {
        let TraceConfig { limits, start_rate, skip_frames } = config;
        let cadence = Cadence::new(start, ladder.frame_rate().period(), VIDEO_CLOCK);
        Ok(Self::of(Player::new(ladder, skip_frames)?, cadence, limits, limits.clamp(start_rate)))
    }
}

impl Model for Player {
    fn frame(&mut self, _now: Timestamp, target: DataRate) -> Made {
        let (size, key) = self.next(target);
        Made::new(size.as_bytes(), key)
    }

    /// Returns to the key frame (RFC 8593 §6.2.2).
    fn restart(&mut self) {
        self.position = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FrameRate, MediaSource, tests};
    use super::*;

    fn encoder(skip_frames: usize) -> TraceEncoder {
        let sizes = |factor: u64| (0..5).map(|n| DataSize::from_bytes((100 + n) * factor)).collect();
        let rate = |kbps: u64| DataRate::from_bps(kbps * 1000);
        let ladder =
            TraceLadder::new(FrameRate::HZ_25, vec![(rate(100), sizes(1)), (rate(300), sizes(3))]).unwrap();
        let config = TraceConfig { start_rate: rate(200), skip_frames, ..TraceConfig::default() };
        TraceEncoder::new(config, ladder, Timestamp::ZERO).unwrap()
    }

    fn frames(encoder: &mut TraceEncoder, count: usize) -> Vec<(u64, bool)> {
        let frames = tests::frames(encoder, count);
        frames.iter().map(|frame| (frame.payload.size().as_bytes(), frame.key)).collect()
    }

    #[test]
    fn the_traces_repeat_without_the_skipped_frames() {
        let indices = |skip, count| -> Vec<u64> {
            frames(&mut encoder(skip), count).iter().map(|(size, _)| size / 2 - 100).collect()
        };
        assert_eq!(indices(0, 11), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0]);
        assert_eq!(indices(2, 11), [0, 1, 2, 3, 4, 2, 3, 4, 2, 3, 4]);
        assert_eq!(indices(4, 8), [0, 1, 2, 3, 4, 4, 4, 4]);
    }

    #[test]
    fn a_requested_key_frame_restarts_the_traces() {
        let mut encoder = encoder(2);
        assert_eq!(frames(&mut encoder, 4), [(200, true), (202, false), (204, false), (206, false)]);
        encoder.request_key_frame(Timestamp::ZERO);
        assert_eq!(frames(&mut encoder, 2), [(200, true), (202, false)]);
    }

    #[test]
    fn a_new_target_applies_to_the_next_frame() {
        let mut encoder = encoder(0);
        encoder.set_target(Timestamp::ZERO, DataRate::from_bps(600_000));
        assert_eq!(frames(&mut encoder, 1), [(600, true)]);
        encoder.set_target(Timestamp::ZERO, DataRate::ZERO); // the limit, 150 kbit/s
        assert_eq!(frames(&mut encoder, 1), [(152, false)]); // 151.5
    }

    #[test]
    fn traces_without_remaining_frames_are_rejected() {
        let ladder = encoder(0).model.ladder;
        let config = TraceConfig { skip_frames: 5, ..TraceConfig::default() };
        assert!(TraceEncoder::new(config, ladder, Timestamp::ZERO).is_err());
    }
}
