//! Whether the machine is busy, from the latest wake-ups.

use giusto_units::{TimeDelta, Timestamp};

/// Number of stored wake-ups.
const WINDOW: usize = 256;
/// A wake-up this late met another thread on the processor: no idle processor takes so long.
const VERY_LATE: TimeDelta = TimeDelta::from_millis(1);
/// The machine becomes busy when more than one in this many of the latest wake-ups is very late ...
const SHARE: usize = 16;
/// ... or this many of those since it was busy: a busy machine looks quiet while the sender takes little of it.
const ON_PROBATION: usize = 3;
/// A machine without a very late wake-up for this long is not busy, however few wake-ups there were.
const MEMORY: TimeDelta = TimeDelta::from_millis(500);

giusto_units::defaults! {
    /// Judges the machine by the wake-ups of one thread.
    #[derive(Debug, Clone)]
    pub(super) struct LoadDetector {
        window: [bool; WINDOW] = [false; WINDOW],
        next: usize = 0,
        filled: usize = 0,
        very_late: usize = 0,
        last_very_late: Timestamp = Timestamp::ZERO,
        busy: bool = false,
        /// Fewer wake-ups than the window holds since the machine was busy.
        on_probation: bool = false,
    }
    pub(super) fn new();
}

impl LoadDetector {
    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    /// Records a wake-up at `now` that was `late`.
    pub(super) fn on_woke(&mut self, now: Timestamp, late: TimeDelta) {
        let very_late = late >= VERY_LATE;
        if let Some(oldest) = self.window.get_mut(self.next) {
            self.very_late -= usize::from(core::mem::replace(oldest, very_late));
        }
        self.very_late += usize::from(very_late);
        self.next = (self.next + 1) % WINDOW;
        self.filled = (self.filled + 1).min(WINDOW);
        if very_late {
            self.last_very_late = now;
        }
        if self.busy {
            let few = self.very_late * SHARE <= self.filled;
            if few || now.saturating_since(self.last_very_late) >= MEMORY {
                *self = Self { on_probation: true, ..Self::new() };
            }
        } else {
            self.on_probation &= self.filled < WINDOW;
            // One more than the share: the first wake-up of a pattern does not count double.
            let many = self.very_late * SHARE > self.filled.max(SHARE) + SHARE;
            self.busy = many || self.on_probation && self.very_late >= ON_PROBATION;
        }
    }

    /// Records a spin that ended `late` at `now`: very late only if the thread lost the processor.
    pub(super) fn on_spun(&mut self, now: Timestamp, late: TimeDelta) {
        if late >= VERY_LATE {
            self.on_woke(now, late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_millis(millis)
    }

    #[test]
    fn more_than_one_very_late_wake_up_in_sixteen_means_busy() {
        for (every, expected) in [(17, false), (15, true)] {
            let mut busy = LoadDetector::new();
            for n in 0..1024 {
                let late = if n % every == 0 { VERY_LATE } else { VERY_LATE - TimeDelta::from_nanos(1) };
                busy.on_woke(at(n), late);
            }
            assert_eq!(busy.is_busy(), expected, "one in {every}");
        }
    }

    #[test]
    fn a_spin_counts_only_if_it_lost_the_processor() {
        let mut busy = LoadDetector::new();
        for n in 0..1000 {
            busy.on_spun(at(n), VERY_LATE - TimeDelta::from_nanos(1));
        }
        assert!(!busy.is_busy() && busy.filled == 0);
        for n in 0..3 {
            assert!(!busy.is_busy());
            busy.on_spun(at(n), VERY_LATE);
        }
        assert!(busy.is_busy());
    }

    #[test]
    fn half_a_second_without_late_wake_ups_ends_it() {
        let mut busy = LoadDetector::new();
        for n in 0..100 {
            busy.on_woke(at(n * 20), VERY_LATE);
        }
        busy.on_woke(at(1980 + 499), TimeDelta::ZERO);
        assert!(busy.is_busy());
        busy.on_woke(at(1980 + 500), TimeDelta::ZERO);
        assert!(!busy.is_busy());
    }

    #[test]
    fn soon_after_a_busy_time_three_late_wake_ups_suffice() {
        // Of 200 wake-ups three are far below the share.
        for (was_busy, between, expected) in [(true, 50, true), (true, 300, false), (false, 50, false)] {
            let mut busy = LoadDetector::new();
            let mut now = at(0);
            let mut wake = |late: bool, busy: &mut LoadDetector| {
                now += TimeDelta::from_millis(2);
                busy.on_woke(now, if late { VERY_LATE } else { TimeDelta::ZERO });
            };
            for _ in 0..20 {
                wake(was_busy, &mut busy);
            }
            while busy.is_busy() {
                wake(false, &mut busy);
            }
            for n in 0..3 * between {
                wake(n % between == between - 1, &mut busy);
            }
            assert_eq!(busy.is_busy(), expected, "{was_busy} {between}");
        }
    }
}
