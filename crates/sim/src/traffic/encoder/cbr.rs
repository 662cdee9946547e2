//! Packets of constant size at a constant rate.

use giusto_session::{media::RateRange, video::VIDEO_CLOCK};
use giusto_units::{DataRate, DataSize, Timestamp};

use super::{
    cadence::{Cadence, Period},
    error::SourceError,
    on_cadence::{Made, Model, OnCadence},
};

/// A source of packets of constant size at a constant rate, which ignores its target.
///
/// A baseline without rate adaptation: the sender of Hoang Thanh Tam, "An Implementation of Receiver-Side
/// Real-Time Congestion Control for Simulations Using `SimPy`", 2017, §3.4.3.2, always sends at 7.2 Mbit/s.
/// Also the background UDP of RFC 8868 §5.3. Its times are on an exact grid.
///
/// # Example
///
/// ```
/// use giusto_sim::traffic::encoder::{Cbr, MediaSource};
/// use giusto_units::{DataRate, DataSize, Timestamp};
///
/// let mut source = Cbr::new(DataRate::from_bps(7_200_000), DataSize::from_bytes(900), Timestamp::ZERO)?;
/// source.set_target(Timestamp::ZERO, DataRate::from_bps(1));
/// assert_eq!(source.target(), DataRate::from_bps(7_200_000));
/// assert_eq!(source.poll_frame(Timestamp::ZERO).map(|frame| frame.payload.size()), Some(DataSize::from_bytes(900)));
/// assert_eq!(source.next_frame_at(), Some(Timestamp::from_nanos(1_000_000)));
/// # Ok::<(), giusto_sim::traffic::encoder::SourceError>(())
/// ```
pub type Cbr = OnCadence<Constant>;

/// Frames of one size.
#[derive(Debug, Clone, Copy)]
pub struct Constant(DataSize);

impl Cbr {
    /// Packets of `size` at `rate`, the first at `start`; timestamps on the video clock.
    ///
    /// # Errors
    ///
    /// [`SourceError::Packets`] unless `size` is 1 to 65535 bytes and the interval is 1 µs to 1 h.
    pub fn new(rate: DataRate, size: DataSize, start: Timestamp) -> Result<Self, SourceError> {
        let cadence = Cadence::new(start, Period::of(size, rate)?, VIDEO_CLOCK);
        Ok(Self::of(Constant(size), cadence, RateRange::fixed(rate), rate))
    }
}

impl Model for Constant {
    fn frame(&mut self, _now: Timestamp, _target: DataRate) -> Made {
        Made::new(self.0.as_bytes(), false)
    }
}
