//! Errors of encoder models.

use giusto_session::media::RateRangeError;
use giusto_units::{DataRate, DataSize};

use super::frame::FRAME_MIN;

/// An invalid media source.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Invalid limits.
    #[error(transparent)]
    Rates(#[from] RateRangeError),
    /// The frame rate is outside 1 to 1000 Hz.
    #[error("frame rate must be 1 to 1000 Hz, found {0} Hz")]
    FrameRate(f64),
    /// Frames at the lowest rate would be smaller than the minimum frame size.
    #[error(
        "{rate} at {hertz} Hz gives frames below {FRAME_MIN}: raise the lowest rate, or lower the frame rate"
    )]
    FrameTooSmall {
        /// The lowest rate.
        rate: DataRate,
        /// Frames per second.
        hertz: f64,
    },
    /// The interval of packets of this size at this rate is out of range.
    #[error("packets of {size} at {rate}: the size must be 1 to 65535 B, and the interval 1 us to 1 h")]
    Packets {
        /// The size of one packet.
        size: DataSize,
        /// The rate.
        rate: DataRate,
    },
    /// A number is outside its range.
    #[error("{what} must be {range}, found {found}")]
    Parameter {
        /// Name of the parameter.
        what: &'static str,
        /// Its value.
        found: f64,
        /// Its valid range.
        range: &'static str,
    },
    /// The traces do not form a ladder.
    #[error("invalid ladder of traces: {0}")]
    Ladder(&'static str),
}

/// `found`, if it is in the range.
pub(super) fn parameter(
    what: &'static str,
    found: f64,
    range: std::ops::RangeInclusive<f64>,
    words: &'static str,
) -> Result<f64, SourceError> {
    if range.contains(&found) { Ok(found) } else { Err(SourceError::Parameter { what, found, range: words }) }
}
