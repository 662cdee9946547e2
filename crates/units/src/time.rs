//! Times on two clocks, and durations.

use crate::{
    declare::{assigning, operator},
    math,
};

/// Nanoseconds per second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A time on the local clock: nanoseconds since the run started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Timestamp(u64);

impl Timestamp {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// The latest representable time, about 584 years after the start.
    pub const MAX: Self = Self(u64::MAX);

    /// The time of `instant` in a run that began at `origin`; the start of the run if it was earlier.
    #[cfg(feature = "std")]
    pub fn from_instant(origin: std::time::Instant, instant: std::time::Instant) -> Self {
        let nanos = instant.saturating_duration_since(origin).as_nanos();
        Self(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The minimum of optional deadlines.
    #[inline]
    pub fn earliest<const N: usize>(deadlines: [Option<Self>; N]) -> Option<Self> {
        let mut earliest = None;
        for deadline in deadlines {
            earliest = match (earliest, deadline) {
                (Some(earliest), Some(deadline)) => Some(Self::min(earliest, deadline)),
                (earliest, deadline) => earliest.or(deadline),
            };
        }
        earliest
    }

    /// The time `nanos` nanoseconds after the start of the run.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of the run.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run.
    #[inline]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    #[inline]
    pub fn saturating_since(self, earlier: Self) -> TimeDelta {
        TimeDelta(self.0.saturating_sub(earlier.0).min(i64::MAX.unsigned_abs()) as i64)
    }
}

operator!(Add::add(Timestamp, TimeDelta) -> Timestamp: |time, delta| Timestamp(time.0.saturating_add_signed(delta.0)));
operator!(Sub::sub(Timestamp, TimeDelta) -> Timestamp: |time, delta| time + -delta);
operator!(Sub::sub(Timestamp, Timestamp) -> TimeDelta: |time, earlier| TimeDelta(difference(time.0, earlier.0)));
assigning!(AddAssign::add_assign(Timestamp, TimeDelta): +);

/// A time on the *remote* clock: nanoseconds since an unknown start.
///
/// It has no arithmetic with [`Timestamp`]: the difference of two clocks includes their unknown offset, so
/// there is an explicit method for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct PeerTimestamp(u64);

impl PeerTimestamp {
    /// The time `nanos` nanoseconds after the remote clock's start.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the remote clock's start.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Local time minus remote time: the delay between the two plus the unknown offset of the clocks.
    #[inline]
    pub fn apparent_delay(self, ours: Timestamp) -> TimeDelta {
        TimeDelta(difference(ours.0, self.0))
    }
}

operator!(Sub::sub(PeerTimestamp, PeerTimestamp) -> TimeDelta: |time, earlier| TimeDelta(difference(time.0, earlier.0)));

#[inline]
fn difference(later: u64, earlier: u64) -> i64 {
    if later >= earlier {
        i64::try_from(later - earlier).unwrap_or(i64::MAX)
    } else {
        i64::try_from(earlier - later).map_or(i64::MIN, i64::wrapping_neg)
    }
}

/// A duration in nanoseconds. It may be negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct TimeDelta(i64);

impl TimeDelta {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// The longest representable duration, about 292 years.
    pub const MAX: Self = Self(i64::MAX);

    /// A duration of `nanos` nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A duration of `micros` microseconds.
    #[inline]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A duration of `millis` milliseconds.
    #[inline]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A duration of `seconds` seconds.
    #[inline]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// A duration of `seconds` seconds, rounded to a nanosecond. Values out of range are clamped; NaN gives
    /// zero.
    #[inline]
    pub fn from_seconds_f64(seconds: f64) -> Self {
        Self(math::round(seconds * NANOS_PER_SECOND as f64) as i64)
    }

    /// Nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Microseconds.
    #[inline]
    pub fn as_micros(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Milliseconds.
    #[inline]
    pub fn as_millis(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds.
    #[inline]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The absolute value.
    #[must_use]
    #[inline]
    pub const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// Converts to the standard library's type; a negative duration gives zero.
    #[inline]
    pub fn to_std(self) -> core::time::Duration {
        core::time::Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// Converts from the standard library's type; values out of range are clamped.
    #[inline]
    pub fn from_std(duration: core::time::Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

operator!(Add::add(TimeDelta, TimeDelta) -> TimeDelta: |a, b| TimeDelta(a.0.saturating_add(b.0)));
operator!(Sub::sub(TimeDelta, TimeDelta) -> TimeDelta: |a, b| TimeDelta(a.0.saturating_sub(b.0)));
operator!(Mul::mul(TimeDelta, i64) -> TimeDelta: |time, factor| TimeDelta(time.0.saturating_mul(factor)));
operator!(
    /// Rounds towards zero; a division by zero gives the longest duration.
    Div::div(TimeDelta, i64) -> TimeDelta: |time, divisor| time.0.checked_div(divisor).map_or(TimeDelta::MAX, TimeDelta)
);
assigning!(AddAssign::add_assign(TimeDelta, TimeDelta): +);
assigning!(SubAssign::sub_assign(TimeDelta, TimeDelta): -);

impl core::ops::Neg for TimeDelta {
    type Output = Self;
    #[inline]
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "std")]
    #[test]
    #[allow(clippy::disallowed_methods, reason = "there is no other instant")]
    fn an_instant_is_a_time_since_the_origin() {
        let origin = std::time::Instant::now();
        let later = origin + std::time::Duration::from_micros(1500);
        assert_eq!(Timestamp::from_instant(origin, later), Timestamp::from_nanos(1_500_000));
        assert_eq!(Timestamp::from_instant(later, origin), Timestamp::ZERO);
    }

    #[test]
    fn time_before_the_start_is_clamped() {
        assert_eq!(Timestamp::from_nanos(5) - TimeDelta::from_nanos(9), Timestamp::ZERO);
        assert_eq!(Timestamp::ZERO - Timestamp::MAX, TimeDelta::from_nanos(i64::MIN));
    }
}
