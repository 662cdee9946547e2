//! Arrivals by sequence number, from the first that is not reported yet.

use std::collections::BTreeMap;

/// The first number of a sequence is taken as if it had wrapped once, so that earlier ones that come late lie above zero.
pub(super) const FIRST_CYCLE: u64 = 1 << 16;
/// So many numbers are remembered at most: half of what 16 bits tell apart (libwebrtc, `packet_arrival_map.h`).
const LONGEST_SPAN: u64 = 1 << 15;
/// So many in a row below what is remembered, and the sender has begun to count anew.
const MOST_STRAYS: u32 = 64;

/// A number of 16 bits made wide: the one nearest to the `highest` so far.
pub(super) fn widened(highest: Option<u64>, sequence: u16) -> u64 {
    let first = FIRST_CYCLE + u64::from(sequence);
    highest.map_or(first, |near| {
        near.saturating_add_signed(i64::from(sequence.wrapping_sub(near as u16) as i16))
    })
}

/// The result of noting an arrival.
#[derive(Debug)]
pub(super) enum Noted<'a, T> {
    /// It is the first with its number.
    New,
    /// One with its number came before: this.
    Again(u64, &'a mut T),
    /// It is so late that nobody knows whether one with its number came before.
    Forgotten,
}

/// Arrivals by number, and how far they were told.
///
/// At most 32 768 numbers are remembered, whatever arrives; beyond them what is oldest is forgotten, told or not.
#[derive(Debug, Clone)]
pub(super) struct ArrivalWindow<T> {
    kept: BTreeMap<u64, T>,
    highest: Option<u64>,
    /// The first that is to be told.
    next: u64,
    /// Below it, arrivals may have been forgotten.
    floor: u64,
    strays: u32,
}

impl<T> ArrivalWindow<T> {
    pub(super) const fn new() -> Self {
        Self { kept: BTreeMap::new(), highest: None, next: 0, floor: 0, strays: 0 }
    }

    /// A packet with this number came.
    pub(super) fn note(&mut self, sequence: u16, arrival: T) -> Noted<'_, T> {
        let mut number = widened(self.highest, sequence);
        if number < self.floor {
            self.strays += 1;
            if self.strays < MOST_STRAYS {
                return Noted::Forgotten;
            }
            *self = Self::new();
            number = widened(None, sequence);
        }
        self.strays = 0;
        if self.kept.contains_key(&number) {
            return match self.kept.get_mut(&number) {
                Some(before) => Noted::Again(number, before),
                None => Noted::Forgotten,
            };
        }
        self.kept.insert(number, arrival);
        // Late packets are told by feedback that begins at their number (libwebrtc, `remote_estimator_proxy.cc`).
        self.next = if self.highest.is_some() { self.next.min(number) } else { number };
        let highest = self.highest.map_or(number, |highest| highest.max(number));
        self.highest = Some(highest);
        while let Some(oldest) =
            self.kept.first_entry().filter(|oldest| highest - *oldest.key() >= LONGEST_SPAN)
        {
            self.floor = *oldest.key() + 1;
            oldest.remove();
        }
        self.next = self.next.max(self.floor);
        Noted::New
    }

    /// Whether anything came that has not been told.
    pub(super) fn has_untold(&self) -> bool {
        self.highest.is_some_and(|highest| highest >= self.next)
    }

    /// The first number that is to be told.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// The highest number that came.
    pub(super) const fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// The arrivals from `first` on, in order.
    pub(super) fn from(&self, first: u64) -> impl Iterator<Item = (u64, &T)> {
        self.kept.range(first..).map(|(number, arrival)| (*number, arrival))
    }

    /// All is to be told again from `number` on, as far as it is remembered.
    pub(super) fn tell_again(&mut self, number: u64) {
        self.next = self.next.min(number).max(self.floor);
    }

    /// All has been told; of that, the oldest is forgotten while `is_old`.
    pub(super) fn told(&mut self, is_old: impl Fn(&T) -> bool) {
        let Some(highest) = self.highest else { return };
        self.next = highest + 1;
        while let Some(oldest) = self.kept.first_entry().filter(|oldest| is_old(oldest.get())) {
            self.floor = *oldest.key() + 1;
            oldest.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(window: &mut ArrivalWindow<u32>) -> Vec<u64> {
        let numbers = window.from(window.next()).map(|(number, _)| number - FIRST_CYCLE).collect();
        window.told(|at| *at < 100);
        numbers
    }

    #[test]
    fn what_is_too_late_is_not_told_until_the_sender_is_seen_to_count_anew() {
        let mut window = ArrivalWindow::new();
        for number in 1000..1010 {
            assert!(matches!(window.note(number, 0), Noted::New));
        }
        assert!(matches!(window.note(1003, 0), Noted::Again(..)));
        assert_eq!(told(&mut window), (1000..1010).collect::<Vec<_>>());
        for number in 500..563 {
            assert!(matches!(window.note(number, 200), Noted::Forgotten));
            assert!(!window.has_untold());
        }
        assert!(matches!(window.note(563, 200), Noted::New));
        assert_eq!((window.has_untold(), told(&mut window)), (true, vec![563]));
    }

    #[test]
    fn memory_is_half_the_numbers_at_most() {
        let mut window = ArrivalWindow::new();
        for number in 0..100_000_u32 {
            window.note(number as u16, number);
        }
        assert_eq!(window.kept.len(), 1 << 15);
        assert_eq!(told(&mut window), (100_000 - (1 << 15)..100_000).collect::<Vec<_>>());
        // All in one jump: what lies beyond is gone, told or not.
        window.note((100_000_u32 + 20_000) as u16, 0);
        window.note((100_000_u32 + 50_000) as u16, 0);
        assert_eq!(told(&mut window), [120_000, 150_000]);
    }

    #[test]
    fn numbers_before_the_first_lie_above_zero() {
        let first = widened(None, 3);
        assert_eq!(widened(Some(first), 65_535), first - 4);
        assert_eq!(widened(Some(first), 4), first + 1);
    }
}
