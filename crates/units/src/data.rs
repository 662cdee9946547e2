//! Rates and sizes of data.

use crate::{
    declare::{assigning, operator},
    time::{NANOS_PER_SECOND, TimeDelta},
};

/// A rate in bits per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct DataRate(u64);

impl DataRate {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// A rate of `bps` bits per second.
    #[inline]
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// The transmission time of `size` at this rate, rounded up to a nanosecond; `None` at a rate of zero.
    #[inline]
    pub fn time_for(self, size: DataSize) -> Option<TimeDelta> {
        let bits_nanos = u128::from(size.0) * 8 * u128::from(NANOS_PER_SECOND);
        let nanos = divided(bits_nanos.checked_add(u128::from(self.0).checked_sub(1)?)?, u128::from(self.0));
        Some(TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX)))
    }

    /// The data that can be sent in `time` at this rate, rounded down to a byte; zero for a negative time.
    #[inline]
    pub fn size_in(self, time: TimeDelta) -> DataSize {
        let nanos = u128::try_from(time.as_nanos()).unwrap_or(0);
        let bytes = divided(u128::from(self.0) * nanos, 8 * u128::from(NANOS_PER_SECOND));
        DataSize(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The rate of `size` in `time`, rounded to 1 bit/s; `None` unless `time` is above zero.
    #[inline]
    pub fn of(size: DataSize, time: TimeDelta) -> Option<Self> {
        let nanos = u128::try_from(time.as_nanos()).ok().filter(|&nanos| nanos > 0)?;
        let bits_nanos = u128::from(size.0) * 8 * u128::from(NANOS_PER_SECOND);
        Some(Self(u64::try_from(divided(bits_nanos + nanos / 2, nanos)).unwrap_or(u64::MAX)))
    }
}

/// `dividend` over a `divisor` above zero, rounded down. Usual values fit in 64 bits, whose division is much faster.
#[inline]
fn divided(dividend: u128, divisor: u128) -> u128 {
    match (u64::try_from(dividend), u64::try_from(divisor)) {
        (Ok(dividend), Ok(divisor)) => u128::from(dividend / divisor),
        _ => dividend / divisor,
    }
}

/// A size in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct DataSize(u64);

impl DataSize {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// A size of `bytes` bytes.
    #[inline]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes.
    #[inline]
    pub const fn as_bytes(self) -> u64 {
        self.0
    }

    /// Bits.
    #[inline]
    pub const fn as_bits(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// The difference; zero if `other` is larger.
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

operator!(Add::add(DataSize, DataSize) -> DataSize: |a, b| DataSize(a.0.saturating_add(b.0)));
operator!(Mul::mul(DataSize, u64) -> DataSize: |size, factor| DataSize(size.0.saturating_mul(factor)));
assigning!(AddAssign::add_assign(DataSize, DataSize): +);

impl core::iter::Sum for DataSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, core::ops::Add::add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn serialisation_time_rounds_up_and_budgets_round_down() {
        let rate = DataRate::from_bps(3);
        assert_eq!(rate.time_for(DataSize::from_bytes(1)), Some(TimeDelta::from_nanos(2_666_666_667)));
        assert_eq!(rate.size_in(TimeDelta::from_nanos(2_666_666_666)), DataSize::ZERO);
        assert_eq!(rate.size_in(TimeDelta::from_nanos(2_666_666_667)), DataSize::from_bytes(1));
        assert_eq!(DataRate::ZERO.time_for(DataSize::from_bytes(1)), None);
        assert_eq!(DataRate::of(DataSize::from_bytes(1), TimeDelta::ZERO), None);
    }

    proptest! {
        #[test]
        fn a_budget_never_exceeds_its_time(bps in 1_u64..1_000_000_000_000, bytes in 1_u64..1_000_000_000) {
            let (rate, size) = (DataRate::from_bps(bps), DataSize::from_bytes(bytes));
            let time = rate.time_for(size).unwrap();
            prop_assert!(rate.size_in(time) >= size);
            prop_assert!(rate.size_in(time - TimeDelta::from_nanos(1)) < size);
        }
    }
}
