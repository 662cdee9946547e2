//! Unwraps sequence numbers of 16 or 32 bits to 64 bits.

/// Unwraps a sequence number.
///
/// Each number is interpreted as the one nearest to the previous number. Up to half of the range may
/// therefore be lost, or late, at a time: 32 768 packets with 16 bits (the number space of RTP, RFC 3550
/// §5.1).
///
/// # Example
///
/// ```
/// use giusto_rtp::SequenceUnwrapper;
///
/// let mut unwrapper = SequenceUnwrapper::new();
/// let unwrapped = [65_534, 0, 65_535, 1].map(|sequence| unwrapper.unwrap_u16(sequence));
/// assert_eq!(unwrapped, [Some(65_534), Some(65_536), Some(65_535), Some(65_537)]);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SequenceUnwrapper {
    latest: Option<u64>,
}

impl SequenceUnwrapper {
    /// The first number is taken without change.
    #[inline]
    pub const fn new() -> Self {
        Self { latest: None }
    }

    /// Unwraps 16 bits. `None` if the number is before zero: sent before the first one received, across a
    /// wrap.
    #[inline]
    pub fn unwrap_u16(&mut self, sequence: u16) -> Option<u64> {
        self.unwrap(u64::from(sequence), |latest| i64::from(sequence.wrapping_sub(latest as u16) as i16))
    }

    /// Unwraps 32 bits. `None` if the number is before zero: sent before the first one received, across a
    /// wrap.
    #[inline]
    pub fn unwrap_u32(&mut self, sequence: u32) -> Option<u64> {
        self.unwrap(u64::from(sequence), |latest| i64::from(sequence.wrapping_sub(latest as u32) as i32))
    }

    fn unwrap(&mut self, first: u64, step_from: impl FnOnce(u64) -> i64) -> Option<u64> {
        let unwrapped = match self.latest {
            None => first,
            Some(latest) => latest.checked_add_signed(step_from(latest))?,
        };
        self.latest = Some(unwrapped);
        Some(unwrapped)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_before_zero_are_rejected_without_effect() {
        let mut unwrapper = SequenceUnwrapper::new();
        assert_eq!(unwrapper.unwrap_u16(3), Some(3));
        assert_eq!(unwrapper.unwrap_u16(65_535), None);
        assert_eq!(unwrapper.unwrap_u16(4), Some(4));
    }

    proptest! {
        #[test]
        fn steps_below_half_the_range_are_unwrapped(
            start: u16, steps in prop::collection::vec(-30_000_i64..32_767, 0..300)
        ) {
            let (mut narrow, mut wide) = (SequenceUnwrapper::new(), SequenceUnwrapper::new());
            let mut sequence = u64::from(start);
            prop_assert_eq!(narrow.unwrap_u16(start), Some(sequence));
            prop_assert_eq!(wide.unwrap_u32(u32::from(start)), Some(sequence));
            for step in steps {
                sequence = sequence.saturating_add_signed(step);
                prop_assert_eq!(narrow.unwrap_u16(sequence as u16), Some(sequence));
                prop_assert_eq!(wide.unwrap_u32(sequence as u32), Some(sequence));
            }
        }
    }
}
