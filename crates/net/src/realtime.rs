//! How long a thread keeps the real-time class.

use giusto_units::{TimeDelta, Timestamp};

/// The time of which a part is for other threads. Chosen by us.
const WINDOW: TimeDelta = TimeDelta::from_millis(100);
/// The CPU time in each window after which the thread leaves the class: 93 %, where the kernel allows 95 % of a second
/// (`sched_rt_runtime_us`, sched-rt-group.rst). Chosen by us.
const BUDGET: TimeDelta = TimeDelta::from_millis(93);
/// The shortest time between two looks at the CPU time: with it, 94 %.
const LOOK: TimeDelta = TimeDelta::from_millis(1);

/// Decides when a busy thread of the real-time class gives others a turn.
///
/// The kernel stops real-time threads that leave nothing to others for 50 ms of each second: the thread stalls. One that
/// leaves the class by itself at the end of each window goes on meanwhile, and waits for others only where they want its processor.
#[derive(Debug)]
pub(crate) struct RealtimeBudget {
    begun: Timestamp,
    /// CPU time at the beginning of the window.
    used: TimeDelta,
    look_at: Timestamp,
    /// Whether the thread is to have the class.
    pub(crate) is_realtime: bool,
}

impl RealtimeBudget {
    /// The budget of a thread that has got the class now, after `used` of CPU time.
    pub(crate) const fn new(now: Timestamp, used: TimeDelta) -> Self {
        Self { begun: now, used, look_at: now, is_realtime: true }
    }

    /// Whether [`poll`](Self::poll) would look at the CPU time.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.look_at
    }

    /// Returns whether the thread is to have the class from now on, if that changes; `used` is its CPU time so far.
    pub(crate) fn poll(&mut self, now: Timestamp, used: TimeDelta) -> Option<bool> {
        self.look_at = now + LOOK;
        let before = self.is_realtime;
        if now.saturating_since(self.begun) >= WINDOW {
            (self.begun, self.used, self.is_realtime) = (now, used, true);
        } else if used - self.used >= BUDGET {
            self.is_realtime = false;
        }
        (self.is_realtime != before).then_some(self.is_realtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CPU time in the real-time class in each second, of a thread that works for so many of each ten milliseconds.
    fn seconds(busy_of_ten: i64) -> Vec<i64> {
        let mut budget = RealtimeBudget::new(Timestamp::ZERO, TimeDelta::ZERO);
        let (mut used, mut seconds) = (0, vec![0; 5]);
        for ms in 0..5_000 {
            let now = Timestamp::ZERO + TimeDelta::from_millis(ms);
            if budget.is_due(now) {
                budget.poll(now, TimeDelta::from_millis(used));
            }
            if ms % 10 < busy_of_ten {
                used += 1;
                seconds[ms as usize / 1000] += i64::from(budget.is_realtime);
            }
        }
        seconds
    }

    #[test]
    fn a_busy_thread_leaves_the_kernel_no_reason_to_stop_it() {
        // The kernel stops it after 950 ms of a second.
        assert!(seconds(10).iter().all(|ms| (920..=945).contains(ms)), "{:?}", seconds(10));
        // One that leaves enough keeps the class.
        assert_eq!(seconds(9), [900; 5]);
    }
}
