//! Time in the NTP format of RTCP (RFC 3550 §4).
//!
//! | type | format | wraps after | resolution |
//! |---|---|---|---|
//! | [`NtpTimestamp`] | 32.32 s | 136 years | 0.23 ns |
//! | [`NtpShort`] | 16.16 s, the middle of the above | 18.2 hours | 15.3 µs |
//! | [`NtpDelay`] | 16.16 s, a span | – | 15.3 µs |
//!
//! The local clock counts from the start of the run. RFC 3550 §6.4.1 allows such a clock if the time of day
//! is not known.

use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use crate::unwrapper::SequenceUnwrapper;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Seconds from the epoch of NTP, 1 January 1900, to that of Unix time (RFC 5905, figure 4).
const UNIX_EPOCH_SECONDS: u64 = 2_208_988_800;
/// Units of [`NtpShort`] per second (RFC 3550 §4).
const SHORT_PER_SECOND: u64 = 1 << 16;

/// Seconds as 32.32 fixed point: the time in a sender report (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NtpTimestamp(u64);

impl NtpTimestamp {
    /// From the 64 bits as written.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// `time` as seconds since the run started, rounded down.
    #[inline]
    pub const fn from_timestamp(time: Timestamp) -> Self {
        let (seconds, nanos) = (time.as_nanos() / NANOS_PER_SECOND, time.as_nanos() % NANOS_PER_SECOND);
        Self(seconds << 32 | ((nanos << 32) / NANOS_PER_SECOND))
    }

    /// Nanoseconds since 1 January 1970, without leap seconds; until 7 February 2036, when the format wraps.
    #[inline]
    pub const fn from_unix_nanos(nanos: u64) -> Self {
        let seconds = nanos / NANOS_PER_SECOND + UNIX_EPOCH_SECONDS;
        Self(seconds << 32 | (((nanos % NANOS_PER_SECOND) << 32) / NANOS_PER_SECOND))
    }

    /// Nanoseconds since 1 January 1970, to the nearest one; `None` for an earlier time, such as that of a clock that counts
    /// from its start.
    #[inline]
    pub fn to_unix_nanos(self) -> Option<u64> {
        self.to_peer().as_nanos().checked_sub(UNIX_EPOCH_SECONDS * NANOS_PER_SECOND)
    }

    /// The 64 bits to write.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The middle 32 bits, by which reports refer to this time.
    #[inline]
    pub const fn short(self) -> NtpShort {
        NtpShort((self.0 >> 16) as u32)
    }

    /// The time on the clock of the writer, to the nearest nanosecond.
    #[inline]
    pub const fn to_peer(self) -> PeerTimestamp {
        let fraction = ((self.0 & 0xffff_ffff) * NANOS_PER_SECOND + (1 << 31)) >> 32;
        PeerTimestamp::from_nanos((self.0 >> 32) * NANOS_PER_SECOND + fraction)
    }
}

/// Seconds modulo 65 536 as 16.16 fixed point: a report's reference to a time (RFC 3550 §4).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NtpShort(u32);

impl NtpShort {
    /// From the 32 bits as written.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// `time` as seconds since the run started, rounded down.
    #[inline]
    pub const fn from_timestamp(time: Timestamp) -> Self {
        NtpTimestamp::from_timestamp(time).short()
    }

    /// The 32 bits to write.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }
}

/// A duration as 16.16 fixed point: the delay since the last sender report (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NtpDelay(u32);

impl NtpDelay {
    /// From the 32 bits as written.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// `delay` rounded down and limited to zero to 65 536 s.
    #[inline]
    pub fn from_delta(delay: TimeDelta) -> Self {
        let nanos = u128::from(delay.max(TimeDelta::ZERO).as_nanos().unsigned_abs());
        let units = nanos * u128::from(SHORT_PER_SECOND) / u128::from(NANOS_PER_SECOND);
        Self(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// The 32 bits to write.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The duration, rounded up to a nanosecond.
    #[inline]
    pub fn to_delta(self) -> TimeDelta {
        TimeDelta::from_nanos(nanos_of(u64::from(self.0)) as i64)
    }
}

/// Unwraps the short format, which wraps at 65 536 s.
///
/// Each time is interpreted as the one nearest to the previous time.
#[derive(Debug, Clone, Copy, Default)]
pub struct NtpShortUnwrapper(SequenceUnwrapper);

impl NtpShortUnwrapper {
    /// The first time is taken without change, below 65 536 s.
    #[inline]
    pub const fn new() -> Self {
        Self(SequenceUnwrapper::new())
    }

    /// The time on the clock of the writer minus an unknown multiple of 65 536 s, rounded up to a nanosecond.
    /// `None` if it is before zero: written before the first one received, across a wrap.
    #[inline]
    pub fn unwrap(&mut self, time: NtpShort) -> Option<PeerTimestamp> {
        self.0.unwrap_u32(time.0).map(|units| PeerTimestamp::from_nanos(nanos_of(units)))
    }
}

/// Rounded up, so that writing it again, which rounds down, gives the same units.
fn nanos_of(units: u64) -> u64 {
    (u128::from(units) * u128::from(NANOS_PER_SECOND)).div_ceil(u128::from(SHORT_PER_SECOND)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 3550 §6.4.1: 10 Nov 1995 11:33:25.125 UTC, and the middle of it.
    #[test]
    fn the_example_of_rfc_3550_is_read() {
        let report = NtpTimestamp::from_bits(0xb44d_b705_2000_0000);
        assert_eq!(report.short().to_bits(), 0xb705_2000);
        assert_eq!(report.to_peer().as_nanos(), 0xb44d_b705 * NANOS_PER_SECOND + 125_000_000);
        assert_eq!(NtpDelay::from_bits(0x0005_4000).to_delta(), TimeDelta::from_millis(5250));
    }

    /// The same example: 1995-11-10 11:33:25.125 UTC is 816 003 205.125 s of Unix time (`date -u -d ... +%s`).
    #[test]
    fn unix_time_is_that_of_the_example() {
        let report = NtpTimestamp::from_bits(0xb44d_b705_2000_0000);
        assert_eq!(report.to_unix_nanos(), Some(816_003_205_125_000_000));
        assert_eq!(NtpTimestamp::from_unix_nanos(816_003_205_125_000_000), report);
        assert_eq!(NtpTimestamp::from_timestamp(Timestamp::from_nanos(9)).to_unix_nanos(), None);
    }

    #[test]
    fn delays_are_limited_to_the_range_of_the_field() {
        assert_eq!(NtpDelay::from_delta(TimeDelta::from_nanos(-1)).to_bits(), 0);
        assert_eq!(NtpDelay::from_delta(TimeDelta::from_nanos(15_258)).to_bits(), 0);
        assert_eq!(NtpDelay::from_delta(TimeDelta::from_nanos(15_259)).to_bits(), 1);
        assert_eq!(NtpDelay::from_delta(TimeDelta::from_seconds(65_536)).to_bits(), u32::MAX);
        assert_eq!(NtpDelay::from_delta(TimeDelta::MAX).to_bits(), u32::MAX);
    }

    proptest! {
        #[test]
        fn times_are_kept_to_their_resolution(nanos in 0..u64::MAX / 5) {
            let time = Timestamp::from_nanos(nanos);
            // The 32 bits of seconds wrap after 136 years.
            let nanos = nanos % (NANOS_PER_SECOND << 32);
            prop_assert_eq!(NtpTimestamp::from_timestamp(time).to_peer().as_nanos(), nanos);
            let read = NtpShortUnwrapper::new().unwrap(NtpShort::from_timestamp(time)).unwrap().as_nanos();
            let expected = nanos % (NANOS_PER_SECOND << 16);
            prop_assert!(read <= expected && expected - read < 15_259, "{} for {}", read, expected);
        }

        #[test]
        fn the_short_format_is_unwrapped(
            start in 0_u64..65_536, steps in prop::collection::vec(0_u64..32_767, 0..50),
        ) {
            let mut unwrapper = NtpShortUnwrapper::new();
            let mut seconds = start;
            for step in std::iter::once(0).chain(steps) {
                seconds += step;
                let time = Timestamp::from_nanos(seconds * NANOS_PER_SECOND);
                let read = unwrapper.unwrap(NtpShort::from_timestamp(time));
                prop_assert_eq!(read, Some(PeerTimestamp::from_nanos(time.as_nanos())));
            }
        }

        #[test]
        fn units_are_written_as_they_were_read(bits: u32) {
            prop_assert_eq!(NtpDelay::from_delta(NtpDelay::from_bits(bits).to_delta()).to_bits(), bits);
            let read = NtpShortUnwrapper::new().unwrap(NtpShort::from_bits(bits)).unwrap();
            prop_assert_eq!(NtpShort::from_timestamp(Timestamp::from_nanos(read.as_nanos())).to_bits(), bits);
        }
    }
}
