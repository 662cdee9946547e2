//! A time series in bounded memory: when there would be too many windows, adjacent ones are merged and the
//! length doubles.

use giusto_units::{TimeDelta, Timestamp};

/// The shortest window, in nanoseconds.
const MIN_SPAN_NANOS: u64 = 1_000;

/// The state of one window.
pub(super) trait Merge: Default + Clone {
    /// Adds the content of the next window.
    fn merge(&mut self, next: &Self);
}

/// Consecutive windows of equal length, from the first event on.
#[derive(Debug, Clone)]
pub(super) struct Windows<T> {
    capacity: usize,
    span_nanos: u64,
    origin: Option<Timestamp>,
    /// End of the last window, in nanoseconds since the origin.
    end_nanos: u64,
    kept: Vec<T>,
}

impl<T: Merge> Windows<T> {
    /// No windows yet; there will be at most `capacity`, initially of length `span`, at least 1 µs.
    pub(super) fn new(capacity: usize, span: TimeDelta) -> Self {
        Self {
            capacity: capacity.max(2),
            span_nanos: u64::try_from(span.as_nanos()).unwrap_or(0).max(MIN_SPAN_NANOS),
            origin: None,
            end_nanos: 0,
            kept: Vec::new(),
        }
    }

    /// The window of `at`. A time before the last window belongs to the last one.
    #[inline]
    pub(super) fn at(&mut self, at: Timestamp) -> Option<&mut T> {
        let origin = *self.origin.get_or_insert(at);
        let elapsed = at.as_nanos().saturating_sub(origin.as_nanos());
        if elapsed >= self.end_nanos {
            self.extend_to(elapsed);
        }
        self.kept.last_mut()
    }

    /// Start of the first window.
    pub(super) fn origin(&self) -> Option<Timestamp> {
        self.origin
    }

    /// The current length of a window.
    pub(super) fn span(&self) -> TimeDelta {
        TimeDelta::from_nanos(i64::try_from(self.span_nanos).unwrap_or(i64::MAX))
    }

    /// The windows in order of time, including empty ones.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.kept.iter()
    }

    /// Makes the window that contains `elapsed` the last one. At most 64 mergers, each of which halves the
    /// number of windows.
    fn extend_to(&mut self, elapsed: u64) {
        while elapsed / self.span_nanos >= self.capacity as u64 {
            self.kept = self.kept.chunks(2).map(merged).collect();
            self.span_nanos = self.span_nanos.saturating_mul(2);
        }
        let index = elapsed / self.span_nanos;
        self.kept.resize(self.kept.len().max(index as usize + 1), T::default());
        self.end_nanos = self.span_nanos.saturating_mul(index + 1);
    }
}

fn merged<T: Merge>(neighbours: &[T]) -> T {
    let mut windows = neighbours.iter();
    let mut sum = windows.next().cloned().unwrap_or_default();
    windows.for_each(|next| sum.merge(next));
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default, Clone, PartialEq)]
    struct Count(usize);

    impl Merge for Count {
        fn merge(&mut self, next: &Self) {
            self.0 += next.0;
        }
    }

    #[test]
    fn eight_windows_become_four_of_double_length() {
        let mut windows = Windows::<Count>::new(4, TimeDelta::from_micros(1));
        for micros in [5, 6, 7, 8, 9, 12] {
            windows.at(Timestamp::from_nanos(micros * 1000)).unwrap().0 += 1;
        }
        assert_eq!(windows.span(), TimeDelta::from_micros(2));
        assert_eq!(windows.iter().map(|count| count.0).collect::<Vec<_>>(), [2, 2, 1, 1]);
    }

    proptest! {
        #[test]
        fn any_times_take_bounded_memory_without_loss(
            times in prop::collection::vec(any::<u64>(), 0..100), span: i64, capacity in 0_usize..50,
        ) {
            let mut windows = Windows::<Count>::new(capacity, TimeDelta::from_nanos(span));
            for &time in &times {
                windows.at(Timestamp::from_nanos(time)).unwrap().0 += 1;
            }
            prop_assert!(windows.iter().len() <= capacity.max(2));
            prop_assert_eq!(windows.iter().map(|count| count.0).sum::<usize>(), times.len());
        }
    }
}
