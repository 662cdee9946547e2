//! Minimum of the samples of a time window.

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

/// Minimum of the samples of a window that may change its length. The latest sample stays however old it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct WindowedMinimum {
    /// Increasing in time and in value: a sample is dropped when a later one is not above it.
    samples: VecDeque<(Timestamp, TimeDelta)>,
}

impl WindowedMinimum {
    /// Handles a sample; `now` must not run backwards. Samples older than `window` are forgotten.
    pub(crate) fn on_sample(&mut self, now: Timestamp, value: TimeDelta, window: TimeDelta) {
        while self.samples.back().is_some_and(|&(_, last)| last >= value) {
            self.samples.pop_back();
        }
        self.samples.push_back((now, value));
        while self.samples.len() > 1
            && self.samples.front().is_some_and(|&(at, _)| now.saturating_since(at) > window)
        {
            self.samples.pop_front();
        }
    }

    /// The minimum; `None` before the first sample.
    pub(crate) fn get(&self) -> Option<TimeDelta> {
        self.samples.front().map(|&(_, value)| value)
    }
}

/// Maximum of the samples of a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct WindowedMaximum(WindowedMinimum);

impl WindowedMaximum {
    /// As [`WindowedMinimum::on_sample`].
    pub(crate) fn on_sample(&mut self, now: Timestamp, value: TimeDelta, window: TimeDelta) {
        self.0.on_sample(now, -value, window);
    }

    /// The maximum; `None` before the first sample.
    pub(crate) fn get(&self) -> Option<TimeDelta> {
        self.0.get().map(|value| -value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_are_those_of_a_plain_search() {
        let window = TimeDelta::from_millis(50);
        let (mut min, mut max) = (WindowedMinimum::default(), WindowedMaximum::default());
        assert_eq!((min.get(), max.get()), (None, None));
        let value = |n: i64| TimeDelta::from_millis(n * 7919 % 101 - 50);
        for n in 0..300_i64 {
            let now = Timestamp::ZERO + TimeDelta::from_millis(n * 3);
            min.on_sample(now, value(n), window);
            max.on_sample(now, value(n), window);
            // Samples of the latest 50 ms: 17 of 3 ms each.
            let recent = || ((n - 16).max(0)..=n).map(value);
            assert_eq!((min.get(), max.get()), (recent().min(), recent().max()), "{n}");
        }
        // After a pause the latest sample counts, and only that.
        let late = Timestamp::from_nanos(60_000_000_000);
        min.on_sample(late, TimeDelta::from_millis(99), window);
        assert_eq!(min.get(), Some(TimeDelta::from_millis(99)));
    }
}
