//! Which rates an encoder can produce, and why there is no such source.

use giusto_units::{DataRate, DataSize};

use super::{FRAME_MIN, FrameRate};

/// Why there is no such media source.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The limits leave no rate.
    #[error("the lowest rate, {min}, must be above 0 bit/s and not above the highest, {max}")]
    Rates {
        /// The lowest rate.
        min: DataRate,
        /// The highest rate.
        max: DataRate,
    },
    /// The frame rate is outside 1 to 1000 Hz.
    #[error("a frame rate of {0} Hz: it must be 1 to 1000 Hz")]
    FrameRate(f64),
    /// Frames at the lowest rate would be smaller than the smallest frame.
    #[error(
        "{rate} at {frame_rate} leaves less than {FRAME_MIN} to a frame: raise the lowest rate, or lower the frame rate"
    )]
    FrameTooSmall {
        /// The lowest rate.
        rate: DataRate,
        /// The frame rate.
        frame_rate: FrameRate,
    },
    /// Packets of this size at this rate come too fast, too slowly, or do not exist.
    #[error("packets of {size} at {rate}: write 1 to 65535 B, and a rate that sends one every 1 us to 1 h")]
    Packets {
        /// The size of one packet.
        size: DataSize,
        /// The rate.
        rate: DataRate,
    },
    /// A number is outside its range.
    #[error("{what} of {found}: it must be {range}")]
    Parameter {
        /// What the number is.
        what: &'static str,
        /// The number.
        found: f64,
        /// The range in words.
        range: &'static str,
    },
    /// The traces do not make a ladder.
    #[error("the ladder of traces is of no use: {0}")]
    Ladder(&'static str),
}

/// The rates that an encoder can produce, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateRange {
    min: DataRate,
    max: DataRate,
}

impl Default for RateRange {
    /// 150 kbit/s to 1.5 Mbit/s (RFC 8593 §5, Figure 2; RFC 8867 §4.3).
    fn default() -> Self {
        Self { min: DataRate::from_bps(150_000), max: DataRate::from_bps(1_500_000) }
    }
}

impl RateRange {
    /// Rates from `min` to `max`.
    ///
    /// # Errors
    ///
    /// [`SourceError::Rates`] where `min` is zero or above `max`.
    pub fn new(min: DataRate, max: DataRate) -> Result<Self, SourceError> {
        if min == DataRate::ZERO || min > max {
            Err(SourceError::Rates { min, max })
        } else {
            Ok(Self { min, max })
        }
    }

    /// One rate alone, for a source that follows no target.
    pub(super) const fn only(rate: DataRate) -> Self {
        Self { min: rate, max: rate }
    }

    /// The lowest rate.
    pub const fn min(&self) -> DataRate {
        self.min
    }

    /// The highest rate.
    pub const fn max(&self) -> DataRate {
        self.max
    }

    /// `rate`, or the end of the range that is nearer to it.
    #[must_use]
    pub fn clamp(&self, rate: DataRate) -> DataRate {
        rate.clamp(self.min, self.max)
    }

    /// That even the lowest rate gives every frame its smallest size.
    pub(super) fn check_frames(&self, frame_rate: FrameRate) -> Result<(), SourceError> {
        if frame_rate.share(self.min) < i128::from(FRAME_MIN.as_bytes()) * frame_rate.share_of_a_byte() {
            return Err(SourceError::FrameTooSmall { rate: self.min, frame_rate });
        }
        Ok(())
    }
}

/// `found` where it lies in the range.
pub(super) fn parameter(
    what: &'static str,
    found: f64,
    range: std::ops::RangeInclusive<f64>,
    words: &'static str,
) -> Result<f64, SourceError> {
    if range.contains(&found) { Ok(found) } else { Err(SourceError::Parameter { what, found, range: words }) }
}
