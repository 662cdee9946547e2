//! Arrivals by sequence number, from the first unreported one.

use std::collections::VecDeque;

/// The first number of a sequence is treated as if it had wrapped once, so that earlier numbers that arrive
/// late are above zero.
pub(super) const FIRST_CYCLE: u64 = 1 << 16;
/// Maximum number of stored numbers: half of the 16-bit range (libwebrtc, `packet_arrival_map.h`).
const MAX_SPAN: u64 = 1 << 15;
/// Number of consecutive packets below the stored range after which the sender is assumed to have restarted
/// its numbering.
const MAX_TOO_OLD: u32 = 64;

/// Unwraps a number of 16 bits: the value nearest to the `highest` so far.
pub(super) fn widened(highest: Option<u64>, sequence: u16) -> u64 {
    let first = FIRST_CYCLE + u64::from(sequence);
    highest.map_or(first, |near| {
        near.saturating_add_signed(i64::from(sequence.wrapping_sub(near as u16) as i16))
    })
}

/// Result of recording an arrival.
#[derive(Debug)]
pub(super) enum Noted<'a, T> {
    /// It is the first one with its number.
    New,
    /// A duplicate; this is the first arrival.
    Again(u64, &'a mut T),
    /// It is so late that it is unknown whether it is a duplicate.
    TooOld,
}

/// Arrivals by number, and up to where they were reported.
///
/// At most 32 768 numbers are stored; beyond that the oldest are discarded, reported or not.
#[derive(Debug, Clone)]
pub(super) struct ArrivalWindow<T> {
    /// In order of their numbers.
    kept: VecDeque<(u64, T)>,
    highest: Option<u64>,
    /// The first number to report.
    next: u64,
    /// Arrivals below this may have been discarded.
    floor: u64,
    too_old: u32,
}

impl<T> ArrivalWindow<T> {
    pub(super) const fn new() -> Self {
        Self { kept: VecDeque::new(), highest: None, next: 0, floor: 0, too_old: 0 }
    }

    /// Records the arrival of a packet with this number.
    pub(super) fn note(&mut self, sequence: u16, arrival: T) -> Noted<'_, T> {
        let mut number = widened(self.highest, sequence);
        if number < self.floor {
            self.too_old += 1;
            if self.too_old < MAX_TOO_OLD {
                return Noted::TooOld;
            }
            *self = Self::new();
            number = widened(None, sequence);
        }
        self.too_old = 0;
        if self.highest.is_none_or(|highest| number > highest) {
            self.kept.push_back((number, arrival));
        } else {
            match self.kept.binary_search_by_key(&number, |&(number, _)| number) {
                Ok(place) => {
                    return self
                        .kept
                        .get_mut(place)
                        .map_or(Noted::TooOld, |(_, before)| Noted::Again(number, before));
                }
                Err(place) => self.kept.insert(place, (number, arrival)),
            }
        }
        // Late packets are reported by feedback that begins at their number (libwebrtc,
        // `remote_estimator_proxy.cc`).
        self.next = if self.highest.is_some() { self.next.min(number) } else { number };
        let highest = self.highest.map_or(number, |highest| highest.max(number));
        self.highest = Some(highest);
        while let Some(&(oldest, _)) = self.kept.front().filter(|(oldest, _)| highest - oldest >= MAX_SPAN) {
            self.floor = oldest + 1;
            self.kept.pop_front();
        }
        self.next = self.next.max(self.floor);
        Noted::New
    }

    /// Whether there are unreported arrivals.
    pub(super) fn has_unreported(&self) -> bool {
        self.highest.is_some_and(|highest| highest >= self.next)
    }

    /// The first number to report.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// The highest received number.
    pub(super) const fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// The arrivals from `first` on, in order.
    pub(super) fn from(&self, first: u64) -> impl Iterator<Item = (u64, &T)> {
        let place = self.kept.partition_point(|&(number, _)| number < first);
        self.kept.range(place..).map(|(number, arrival)| (*number, arrival))
    }

    /// Reports everything from `number` on again, as far as it is stored.
    pub(super) fn report_again(&mut self, number: u64) {
        self.next = self.next.min(number).max(self.floor);
    }

    /// Marks everything as reported, and discards the oldest arrivals while `is_old`.
    pub(super) fn on_reported(&mut self, is_old: impl Fn(&T) -> bool) {
        let Some(highest) = self.highest else { return };
        self.next = highest + 1;
        while let Some(&(oldest, _)) = self.kept.front().filter(|(_, arrival)| is_old(arrival)) {
            self.floor = oldest + 1;
            self.kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(window: &mut ArrivalWindow<u32>) -> Vec<u64> {
        let numbers = window.from(window.next()).map(|(number, _)| number - FIRST_CYCLE).collect();
        window.on_reported(|at| *at < 100);
        numbers
    }

    #[test]
    fn late_packets_are_ignored_until_the_numbering_restarts() {
        let mut window = ArrivalWindow::new();
        for number in 1000..1010 {
            assert!(matches!(window.note(number, 0), Noted::New));
        }
        assert!(matches!(window.note(1003, 0), Noted::Again(..)));
        assert_eq!(reported(&mut window), (1000..1010).collect::<Vec<_>>());
        for number in 500..563 {
            assert!(matches!(window.note(number, 200), Noted::TooOld));
            assert!(!window.has_unreported());
        }
        assert!(matches!(window.note(563, 200), Noted::New));
        assert_eq!((window.has_unreported(), reported(&mut window)), (true, vec![563]));
    }

    #[test]
    fn memory_is_at_most_half_of_the_numbers() {
        let mut window = ArrivalWindow::new();
        for number in 0..100_000_u32 {
            window.note(number as u16, number);
        }
        assert_eq!(window.kept.len(), 1 << 15);
        assert_eq!(reported(&mut window), (100_000 - (1 << 15)..100_000).collect::<Vec<_>>());
        // All in one jump: older numbers are discarded, reported or not.
        window.note((100_000_u32 + 20_000) as u16, 0);
        window.note((100_000_u32 + 50_000) as u16, 0);
        assert_eq!(reported(&mut window), [120_000, 150_000]);
    }

    #[test]
    fn numbers_before_the_first_are_above_zero() {
        let first = widened(None, 3);
        assert_eq!(widened(Some(first), 65_535), first - 4);
        assert_eq!(widened(Some(first), 4), first + 1);
    }
}
