//! Random deviations in the frame sizes of any source.

use giusto_session::media::{Frame, Payload, RateRange};
use giusto_units::{DataRate, DataSize, Timestamp};
use rand::Rng;

use super::{
    error::SourceError,
    frame::FRAME_MIN,
    laplace::{check_scale, deviation},
    model::MediaSource,
};

/// A source that changes the frame sizes of another source by random deviations.
///
/// The deviations are independent and Laplacian (RFC 8593 §5.3), so the mean rate does not change. No frame
/// is reduced below [`FRAME_MIN`].
#[derive(Debug, Clone)]
pub struct Noisy<S, R> {
    source: S,
    scale: f64,
    rng: R,
}

impl<S: MediaSource, R: Rng> Noisy<S, R> {
    /// `source` with deviations of this `scale`, 0 to 1; 0.15 in RFC 8593 §5, Figure 2.
    ///
    /// # Errors
    ///
    /// [`SourceError::Parameter`] if the scale is out of range.
    pub fn new(source: S, scale: f64, rng: R) -> Result<Self, SourceError> {
        check_scale("scale of frame sizes", scale)?;
        Ok(Self { source, scale, rng })
    }
}

impl<S: MediaSource, R: Rng + Send + std::fmt::Debug> MediaSource for Noisy<S, R> {
    fn next_frame_at(&self) -> Option<Timestamp> {
        self.source.next_frame_at()
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        let frame = self.source.poll_frame(now)?;
        let before = frame.payload.size();
        let bytes = (before.as_bytes() as f64 * (1.0 + deviation(self.scale, &mut self.rng))).round();
        let size = DataSize::from_bytes(bytes as u64).max(FRAME_MIN.min(before));
        Some(Frame { payload: Payload::zeros(size), ..frame })
    }

    fn set_target(&mut self, now: Timestamp, target: DataRate) {
        self.source.set_target(now, target);
    }

    fn target(&self) -> DataRate {
        self.source.target()
    }

    fn limits(&self) -> RateRange {
        self.source.limits()
    }

    fn request_key_frame(&mut self, now: Timestamp) {
        self.source.request_key_frame(now);
    }

    fn set_paused(&mut self, now: Timestamp, paused: bool) {
        self.source.set_paused(now, paused);
    }
}
