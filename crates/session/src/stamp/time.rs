//! Timestamps and error estimates (RFC 8762 §4.2.1).

use giusto_units::{NANOS_PER_SECOND, TimeDelta};

/// Seconds from 1900, where NTP's time begins, to 1970 (RFC 5905 §6, figure 4).
const NTP_TO_UNIX_SECONDS: u32 = 2_208_988_800;

/// A time of day: nanoseconds since 1970 in UTC, without leap seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// The time `nanos` nanoseconds after 1970.
    pub const fn from_unix_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970.
    pub const fn as_unix_nanos(self) -> u64 {
        self.0
    }
}

impl std::ops::Sub for WallTime {
    type Output = TimeDelta;
    fn sub(self, earlier: Self) -> TimeDelta {
        let (later, negative) =
            if self >= earlier { (self.0 - earlier.0, false) } else { (earlier.0 - self.0, true) };
        let nanos = i64::try_from(later).unwrap_or(i64::MAX);
        TimeDelta::from_nanos(if negative { -nanos } else { nanos })
    }
}

/// The format of timestamps: the Z bit of the error estimate (RFC 8186 §2.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TimestampFormat {
    /// NTP: seconds since 1900 in UTC and 2⁻³² s, 32 bits each (RFC 5905 §6).
    #[default]
    Ntp,
    /// PTP, truncated: seconds since 1970 in TAI and nanoseconds, 32 bits each (IEEE 1588-2008 §5.3.3, RFC 8877 §4.3).
    Ptp,
}

/// The clock as the packets describe it: the format of timestamps, their error, and TAI less UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// The clock is synchronised to UTC by an external source (RFC 4656 §4.1.2).
    pub synchronised: bool,
    /// A bound of its error; `None` if it is unknown.
    pub error: Option<TimeDelta>,
    /// TAI less UTC in whole seconds, 37 since 2017; 0 if the system does not know it. Used by the PTP format.
    pub tai_offset_s: i32,
}

impl TimestampFormat {
    /// The 64 bits of `time`; a fraction is rounded down. The seconds wrap every 136 years.
    pub fn write(self, time: WallTime, tai_offset_s: i32) -> u64 {
        let (seconds, nanos) = (time.0 / NANOS_PER_SECOND, time.0 % NANOS_PER_SECOND);
        // Truncation to 32 bits is the wrap.
        match self {
            Self::Ntp => {
                let seconds = (seconds as u32).wrapping_add(NTP_TO_UNIX_SECONDS);
                (u64::from(seconds) << 32) | ((nanos << 32) / NANOS_PER_SECOND)
            }
            Self::Ptp => {
                let seconds = (seconds as u32).wrapping_add_signed(tai_offset_s);
                u64::from(seconds) << 32 | nanos
            }
        }
    }

    /// The time of these 64 bits, between 1970 and 2106; `None` where the nanoseconds of the PTP format make up a second or more.
    pub fn read(self, bits: u64, tai_offset_s: i32) -> Option<WallTime> {
        let (seconds, low) = ((bits >> 32) as u32, bits & 0xffff_ffff);
        let (seconds, nanos) = match self {
            Self::Ntp => {
                (seconds.wrapping_sub(NTP_TO_UNIX_SECONDS), (low * NANOS_PER_SECOND + (1 << 31)) >> 32)
            }
            Self::Ptp if low < NANOS_PER_SECOND => (seconds.wrapping_sub(tai_offset_s as u32), low),
            Self::Ptp => return None,
        };
        Some(WallTime(u64::from(seconds) * NANOS_PER_SECOND + nanos))
    }
}

/// The error estimate of a packet: the clock of its timestamps (RFC 4656 §4.1.2, RFC 8186 §2.3).
///
/// ```text
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
/// |S|Z|   Scale   |   Multiplier  |    error = Multiplier · 2^(Scale − 32) s
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ErrorEstimate {
    /// S: the clock is synchronised to UTC by an external source.
    pub synchronised: bool,
    /// Z: the format of the packet's timestamps.
    pub format: TimestampFormat,
    /// Scale, 0 to 63.
    pub scale: u8,
    /// Multiplier; 0 is not allowed and makes the packet's time meaningless.
    pub multiplier: u8,
}

impl ErrorEstimate {
    const MAX_SCALE: u8 = 63;

    /// The estimate for a clock: the smallest one that is not below its error. An unknown error is the largest.
    pub fn of(clock: &ClockState, format: TimestampFormat) -> Self {
        let largest =
            Self { synchronised: clock.synchronised, format, scale: Self::MAX_SCALE, multiplier: u8::MAX };
        let Some(error) = clock.error else { return largest };
        let nanos = u128::from(error.as_nanos().max(0).unsigned_abs());
        let units = (nanos << 32).div_ceil(u128::from(NANOS_PER_SECOND)).max(1);
        let fitting = (0..=Self::MAX_SCALE)
            .find_map(|scale| Some((scale, u8::try_from(units.div_ceil(1 << scale)).ok()?)));
        fitting.map_or(largest, |(scale, multiplier)| Self { scale, multiplier, ..largest })
    }

    /// From the field.
    pub const fn from_bits(bits: u16) -> Self {
        Self {
            synchronised: bits & 0x8000 != 0,
            format: if bits & 0x4000 == 0 { TimestampFormat::Ntp } else { TimestampFormat::Ptp },
            scale: (bits >> 8) as u8 & Self::MAX_SCALE,
            multiplier: bits as u8,
        }
    }

    /// The field.
    pub const fn to_bits(self) -> u16 {
        let z = matches!(self.format, TimestampFormat::Ptp);
        (self.synchronised as u16) << 15
            | (z as u16) << 14
            | ((self.scale & Self::MAX_SCALE) as u16) << 8
            | self.multiplier as u16
    }

    /// The error, rounded up to a nanosecond; `None` for the multiplier 0, which is not allowed.
    pub fn error(self) -> Option<TimeDelta> {
        if self.multiplier == 0 {
            return None;
        }
        let units = u128::from(self.multiplier) << self.scale;
        let nanos = (units * u128::from(NANOS_PER_SECOND)).div_ceil(1 << 32);
        Some(TimeDelta::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn synchronised_within(error: Option<TimeDelta>) -> ErrorEstimate {
        let clock = ClockState { synchronised: true, error, tai_offset_s: 0 };
        ErrorEstimate::of(&clock, TimestampFormat::Ntp)
    }

    #[test]
    fn times_are_those_of_the_two_standards() {
        // RFC 5905 figure 4: 1 January 1970 is 2,208,988,800 s; a half second is 2³¹.
        let time = WallTime::from_unix_nanos(500_000_000);
        assert_eq!(TimestampFormat::Ntp.write(time, 37), 2_208_988_800 << 32 | 1 << 31);
        assert_eq!(TimestampFormat::Ptp.write(time, 37), (37 << 32) + 500_000_000);
        // Figure 4: the first day of NTP era 1 is 8 February 2036, whose seconds since 1970 are 2,085,978,496.
        let era_1 = WallTime::from_unix_nanos(2_085_978_496_000_000_000);
        assert_eq!(TimestampFormat::Ntp.write(era_1, 0), 0);
        assert_eq!(TimestampFormat::Ntp.read(0, 0), Some(era_1));
        assert_eq!(TimestampFormat::Ptp.read(1_000_000_000, 0), None);
    }

    #[test]
    fn an_error_estimate_has_the_bits_of_rfc_4656() {
        // 1 ms = 4,294,967.296 · 2⁻³² s: 132 (0x84) · 2¹⁵ = 4,325,376 is the next above with 8 bits.
        let estimate = synchronised_within(Some(TimeDelta::from_millis(1)));
        assert_eq!(estimate.to_bits(), 0x8f84);
        assert_eq!(estimate.error(), Some(TimeDelta::from_nanos(1_007_081)));
        let unknown = synchronised_within(None);
        assert_eq!(unknown.to_bits(), 0x8000 | 0x3fff);
        assert_eq!(ErrorEstimate::from_bits(0x4001).format, TimestampFormat::Ptp);
        assert_eq!(ErrorEstimate::from_bits(0x8000).error(), None, "the multiplier 0 is not allowed");
        assert_eq!(synchronised_within(Some(TimeDelta::ZERO)).multiplier, 1);
    }

    proptest! {
        #[test]
        fn a_time_survives_both_formats(nanos in 0_u64..4_294_000_000_000_000_000, tai in -5_i32..50) {
            let time = WallTime::from_unix_nanos(nanos);
            for format in [TimestampFormat::Ntp, TimestampFormat::Ptp] {
                prop_assert_eq!(format.read(format.write(time, tai), tai), Some(time));
            }
        }

        #[test]
        fn an_estimate_bounds_the_error_from_both_sides(nanos in 1_i64..i64::MAX) {
            let error = synchronised_within(Some(TimeDelta::from_nanos(nanos))).error().unwrap();
            prop_assert!(error.as_nanos() >= nanos);
            prop_assert!(error.as_nanos() as f64 <= nanos as f64 * (1.0 + 1.0 / 64.0) + 1.0, "{} {}", error, nanos);
        }

        #[test]
        fn every_field_is_read_and_written(bits: u16) {
            prop_assert_eq!(ErrorEstimate::from_bits(bits).to_bits(), bits);
        }
    }
}
