//! Absolute send time in an RTP header extension of three bytes (libwebrtc, `abs-send-time`).

use giusto_units::{PeerTimestamp, Timestamp};

use crate::{extension::ExtensionError, ntp::NtpTimestamp, unwrapper::SequenceUnwrapper};

/// Bits of an NTP timestamp's fraction that are not written (libwebrtc, `abs-send-time`).
const NTP_SHIFT: u32 = 14;
/// Ticks per second: 18 bits of fraction (libwebrtc, `abs-send-time`).
const TICKS_PER_SECOND: u128 = 1 << 18;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
const MASK: u32 = 0x00ff_ffff;
/// Difference between the 32 bits of an unwrapper and the 24 bits of the field.
const FREE_BITS: u32 = 8;

/// Seconds modulo 64 as 6.18 fixed point: ticks of 3.8 µs.
///
/// | bits | meaning |
/// |---|---|
/// | 6 | whole seconds of the sender's clock, modulo 64 |
/// | 18 | fraction of a second |
///
/// # Example
///
/// ```
/// use giusto_rtp::{AbsSendTime, AbsSendTimeUnwrapper};
/// use giusto_units::{PeerTimestamp, Timestamp};
///
/// let sent = AbsSendTime::from_timestamp(Timestamp::from_nanos(65_500_000_000));
/// assert_eq!(sent.to_bytes(), [0b0000_0110, 0, 0]); // 1.5 s
/// let unwrapped = AbsSendTimeUnwrapper::new().unwrap(sent);
/// assert_eq!(unwrapped, Some(PeerTimestamp::from_nanos(1_500_000_000)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AbsSendTime(u32);

impl AbsSendTime {
    /// `time` rounded down, by omitting bits of an NTP timestamp (libwebrtc, `abs-send-time`).
    #[inline]
    pub const fn from_timestamp(time: Timestamp) -> Self {
        Self((NtpTimestamp::from_timestamp(time).to_bits() >> NTP_SHIFT) as u32 & MASK)
    }

    /// Ticks of 2^-18 s, 24 bits.
    #[inline]
    pub const fn ticks(self) -> u32 {
        self.0
    }

    /// The three bytes of the element.
    #[inline]
    pub const fn to_bytes(self) -> [u8; 3] {
        let [_, first, second, third] = self.0.to_be_bytes();
        [first, second, third]
    }

    /// Reads the data of the element that signalling assigned to the send time.
    ///
    /// # Errors
    ///
    /// [`ExtensionError::Length`] unless there are three bytes.
    pub fn parse(data: &[u8]) -> Result<Self, ExtensionError> {
        match *data {
            [first, second, third] => Ok(Self(u32::from_be_bytes([0, first, second, third]))),
            _ => Err(ExtensionError::Length { what: "an absolute send time", found: data.len() }),
        }
    }
}

/// Unwraps a sender's time, which wraps at 64 s.
///
/// Each time is interpreted as the one nearest to the previous time. The gap between two packets, or the
/// delay of a reordered packet, may therefore be up to 32 s.
#[derive(Debug, Clone, Copy, Default)]
pub struct AbsSendTimeUnwrapper(SequenceUnwrapper);

impl AbsSendTimeUnwrapper {
    /// The first time is taken without change, below 64 s.
    #[inline]
    pub const fn new() -> Self {
        Self(SequenceUnwrapper::new())
    }

    /// The time on the sender's clock minus an unknown multiple of 64 s, rounded up to a nanosecond. `None`
    /// if it is before zero: the packet was sent before the first one received, across a wrap.
    #[inline]
    pub fn unwrap(&mut self, time: AbsSendTime) -> Option<PeerTimestamp> {
        let ticks = u128::from(self.0.unwrap_u32(time.0 << FREE_BITS)? >> FREE_BITS);
        // Rounded up, so that writing it again, which rounds down, gives the same ticks.
        let nanos = (ticks * NANOS_PER_SECOND).div_ceil(TICKS_PER_SECOND);
        Some(PeerTimestamp::from_nanos(nanos as u64))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticks(nanos: u64) -> u32 {
        AbsSendTime::from_timestamp(Timestamp::from_nanos(nanos)).ticks()
    }

    /// By hand: 2^-18 s are 3814.697 ns.
    #[test]
    fn times_are_rounded_down_and_wrap_at_64_s() {
        assert_eq!([ticks(0), ticks(3_814), ticks(3_815), ticks(7_629), ticks(7_630)], [0, 0, 1, 1, 2]);
        assert_eq!(ticks(1_000_000_000), 1 << 18);
        assert_eq!(
            [ticks(63_999_996_000), ticks(63_999_999_999), ticks(64_000_000_000)],
            [MASK - 1, MASK, 0]
        );
        // 18 446 744 073.709 551 615 s: 9 modulo 64, and 186 004.7 ticks.
        assert_eq!(ticks(u64::MAX), (9 << 18) + 186_004);
    }

    #[test]
    fn a_send_time_has_three_bytes() {
        assert_eq!(AbsSendTime::parse(&[1, 2, 3]).map(AbsSendTime::ticks), Ok(0x01_02_03));
        for found in [0, 2, 4] {
            let error = ExtensionError::Length { what: "an absolute send time", found };
            assert_eq!(AbsSendTime::parse(&vec![0; found]), Err(error));
        }
    }

    #[test]
    fn a_time_before_the_first_wrap_is_rejected() {
        let mut unwrapper = AbsSendTimeUnwrapper::new();
        assert_eq!(unwrapper.unwrap(AbsSendTime(3)).map(PeerTimestamp::as_nanos), Some(11_445));
        assert_eq!(unwrapper.unwrap(AbsSendTime(MASK)), None);
        assert_eq!(unwrapper.unwrap(AbsSendTime(2)).map(PeerTimestamp::as_nanos), Some(7_630));
    }

    proptest! {
        #[test]
        fn times_are_unwrapped_to_a_tick(
            start in 0_u64..64_000_000_000, steps in prop::collection::vec(-31_000_000_000_i64..31_999_000_000, 1..50),
        ) {
            let mut unwrapper = AbsSendTimeUnwrapper::new();
            let mut now = start;
            for step in std::iter::once(0).chain(steps) {
                now = now.saturating_add_signed(step);
                let sent = AbsSendTime::from_timestamp(Timestamp::from_nanos(now));
                prop_assert_eq!(AbsSendTime::parse(&sent.to_bytes()), Ok(sent));
                let read = unwrapper.unwrap(sent).unwrap().as_nanos();
                prop_assert!(read <= now && now - read < 3_815, "{} for {}", read, now);
            }
        }
    }
}
