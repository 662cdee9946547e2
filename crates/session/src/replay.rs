//! The replay window: which numbers were received before.

/// The numbers of received messages, as in RFC 4303 §3.4.3: the latest 64 × `WORDS` one by one; all earlier ones count as received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplayWindow<const WORDS: usize> {
    highest: u64,
    /// Number n is the bit n % 64 of the word n / 64 % `WORDS`.
    seen: [u64; WORDS],
}

impl<const WORDS: usize> Default for ReplayWindow<WORDS> {
    fn default() -> Self {
        Self { highest: 0, seen: [0; WORDS] }
    }
}

impl<const WORDS: usize> ReplayWindow<WORDS> {
    const SIZE: u64 = 64 * WORDS as u64;

    /// The highest number so far; 0 before there is one.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// Whether a number was received before, as far as it is known.
    pub(crate) fn has(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        (1..=self.highest).contains(&number)
            && self.highest - number < Self::SIZE
            && self.seen.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Records a number; false if it was received before, or may have been. Numbers begin at 1.
    pub(crate) fn admits(&mut self, number: u64) -> bool {
        if number == 0 || self.highest.saturating_sub(number) >= Self::SIZE {
            return false;
        }
        if number > self.highest {
            // The numbers between are new, so their places are cleared: at most all of them.
            for skipped in (self.highest + 1).max(number.saturating_sub(Self::SIZE - 1))..=number {
                let (word, bit) = Self::place(skipped);
                if let Some(word) = self.seen.get_mut(word) {
                    *word &= !bit;
                }
            }
            self.highest = number;
        }
        let (word, bit) = Self::place(number);
        let Some(word) = self.seen.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    const fn place(number: u64) -> (usize, u64) {
        ((number / 64 % WORDS as u64) as usize, 1 << (number % 64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn check<const WORDS: usize>(numbers: Vec<u64>) -> Result<(), TestCaseError> {
        let (mut window, mut seen) = (ReplayWindow::<WORDS>::default(), BTreeSet::new());
        for number in numbers {
            let highest = seen.last().copied().unwrap_or(0);
            let size = 64 * WORDS as u64;
            let expected = number > 0 && number + size > highest && !seen.contains(&number);
            prop_assert_eq!(window.admits(number), expected, "{} after {:?}", number, seen);
            if expected {
                seen.insert(number);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn a_number_is_admitted_at_most_once(numbers in prop::collection::vec(0_u64..700, 0..300)) {
            check::<1>(numbers.clone())?;
            check::<4>(numbers)?;
        }
    }

    #[test]
    fn the_highest_number_is_no_special_case() {
        let mut window = ReplayWindow::<2>::default();
        assert!(window.admits(u64::MAX) && !window.admits(u64::MAX) && window.admits(u64::MAX - 127));
        assert!(!window.admits(u64::MAX - 128));
    }
}
