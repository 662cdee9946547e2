//! Encoders whose frames are due at the times of a cadence.

use giusto_session::media::{Frame, RateRange};
use giusto_units::{DataRate, Timestamp};

use super::{cadence::Cadence, model::MediaSource};

/// What an encoder makes of the frames that are due.
pub trait Model {
    /// The frame that is due, at the latest target.
    fn frame(&mut self, now: Timestamp, target: DataRate) -> Made;

    /// Processes a new target, within the limits.
    fn on_target(&mut self, now: Timestamp, target: DataRate) {
        let _ = (now, target);
    }

    /// Begins with a key frame, after a request or a pause, if the model has key frames.
    fn restart(&mut self) {}
}

/// A frame of a [`Model`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Made {
    pub(super) bytes: u64,
    pub(super) key: bool,
    /// Factor on the interval to the next frame, if that varies.
    pub(super) stretch: Option<f64>,
}

impl Made {
    pub(super) const fn new(bytes: u64, key: bool) -> Self {
        Self { bytes, key, stretch: None }
    }
}

/// An encoder whose model makes a frame at each time of a cadence.
#[derive(Debug, Clone)]
pub struct OnCadence<M> {
    cadence: Cadence,
    limits: RateRange,
    target: DataRate,
    pub(super) model: M,
}

impl<M> OnCadence<M> {
    /// `target` is the first one, within the limits.
    pub(super) const fn of(model: M, cadence: Cadence, limits: RateRange, target: DataRate) -> Self {
        Self { cadence, limits, target, model }
    }
}

impl<M: Model + Send + std::fmt::Debug> MediaSource for OnCadence<M> {
    fn next_frame_at(&self) -> Option<Timestamp> {
        self.cadence.next_frame_at()
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        let now = self.cadence.observe(now);
        self.cadence.is_due(now).then(|| {
            let Made { bytes, key, stretch } = self.model.frame(now, self.target);
            let frame = self.cadence.frame(bytes, key);
            match stretch {
                Some(factor) => self.cadence.advance_by(factor),
                None => self.cadence.advance(),
            }
            frame
        })
    }

    fn set_target(&mut self, now: Timestamp, target: DataRate) {
        let now = self.cadence.observe(now);
        self.target = self.limits.clamp(target);
        self.model.on_target(now, self.target);
    }

    fn target(&self) -> DataRate {
        self.target
    }

    fn limits(&self) -> RateRange {
        self.limits
    }

    fn request_key_frame(&mut self, now: Timestamp) {
        self.cadence.observe(now);
        self.model.restart();
    }

    fn set_paused(&mut self, now: Timestamp, paused: bool) {
        if self.cadence.set_paused(now, paused) {
            self.model.restart();
        }
    }
}
