//! The velocity (NSDI 2018 §2.1, step 4).

use core::cmp::Ordering;

/// Speeds up the changes of the window while they have one direction.
#[derive(Debug, Clone)]
pub(super) struct Velocity {
    value: f64,
    /// Direction of the latest window; equal if it did not change.
    direction: Ordering,
    /// Windows in this direction.
    windows: u32,
    /// The window that is measured: the first packet that was not yet sent at its start, and the congestion window then.
    end: u64,
    start: f64,
    /// Number of the next packet to be sent.
    next: u64,
}

impl Velocity {
    pub(super) fn new() -> Self {
        Self { value: 1.0, direction: Ordering::Equal, windows: 0, end: 0, start: 0.0, next: 0 }
    }

    pub(super) fn on_sent(&mut self, sequence: u64) {
        self.next = self.next.max(sequence.saturating_add(1));
    }

    /// Restarts at 1, with a congestion window of `window` bytes.
    pub(super) fn restart(&mut self, window: f64) {
        *self = Self { end: self.next, start: window, next: self.next, ..Self::new() };
    }

    /// Handles an acknowledged packet. Once per window, the window is compared with that at the time at which the packet was sent.
    pub(super) fn on_acked(&mut self, sequence: u64, window: f64, steady_windows: u32) {
        if sequence < self.end {
            return;
        }
        let direction = window.total_cmp(&self.start);
        if direction == self.direction && direction != Ordering::Equal {
            self.windows = self.windows.saturating_add(1);
            if self.windows > steady_windows {
                self.value *= 2.0;
            }
        } else {
            (self.value, self.direction, self.windows) = (1.0, direction, 1);
        }
        (self.end, self.start) = (self.next.max(self.end.saturating_add(1)), window);
    }

    /// The velocity, at most `max`, which also bounds its further growth.
    pub(super) fn at_most(&mut self, max: f64) -> f64 {
        self.value = self.value.min(max).max(1.0);
        self.value
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    /// The velocity after each of these windows, of four packets each.
    fn after(windows: &[f64]) -> Vec<f64> {
        let mut velocity = Velocity::new();
        let mut sequence = 0;
        velocity.restart(10.0);
        let mut found = Vec::new();
        for &window in windows {
            for _ in 0..4 {
                velocity.on_sent(sequence);
                sequence += 1;
            }
            for acked in sequence - 4..sequence {
                velocity.on_acked(acked, window, 3);
            }
            found.push(velocity.at_most(1e9));
        }
        found
    }

    #[test]
    fn it_doubles_once_per_window_after_three_in_one_direction() {
        let up = [11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 15.0, 14.0, 13.0, 12.0, 13.0];
        assert_eq!(after(&up), [1.0, 1.0, 1.0, 2.0, 4.0, 8.0, 1.0, 1.0, 1.0, 2.0, 1.0]);
    }

    #[test]
    fn a_window_that_does_not_change_has_no_direction() {
        assert_eq!(
            after(&[11.0, 12.0, 13.0, 14.0, 14.0, 14.0, 14.0, 14.0]),
            [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0]
        );
    }

    #[test]
    fn its_bound_limits_its_growth() {
        let mut velocity = Velocity { value: 64.0, ..Velocity::new() };
        assert_eq!((velocity.at_most(5.0), velocity.at_most(100.0)), (5.0, 5.0));
        assert_eq!(velocity.at_most(0.0), 1.0);
    }
}
