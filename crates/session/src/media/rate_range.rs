//! The rates that an encoder can produce.

use giusto_units::DataRate;

/// An invalid range: the lowest rate is zero, or above the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lowest rate, {min}, must be above 0 bit/s and not above the highest, {max}")]
pub struct RateRangeError {
    /// The lowest rate.
    pub min: DataRate,
    /// The highest rate.
    pub max: DataRate,
}

giusto_units::defaults! {
    /// The rates that an encoder can produce, both ends included.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RateRange {
        min: DataRate = DataRate::from_bps(150_000),
        max: DataRate = DataRate::from_bps(1_500_000),
    }
}

impl RateRange {
    /// Rates from `min` to `max`.
    ///
    /// # Errors
    ///
    /// [`RateRangeError`] if `min` is zero or above `max`.
    pub fn new(min: DataRate, max: DataRate) -> Result<Self, RateRangeError> {
        if min == DataRate::ZERO || min > max {
            Err(RateRangeError { min, max })
        } else {
            Ok(Self { min, max })
        }
    }

    /// A single rate, of an encoder that does not follow a target.
    pub const fn fixed(rate: DataRate) -> Self {
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

    /// Whether the encoder has only one rate.
    pub fn is_fixed(&self) -> bool {
        self.min == self.max
    }

    /// `rate`, or the nearest limit of the range.
    #[must_use]
    pub fn clamp(&self, rate: DataRate) -> DataRate {
        rate.clamp(self.min, self.max)
    }
}
