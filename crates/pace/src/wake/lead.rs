//! The lead of sleeps: a quantile of the latest wake latencies.

use giusto_units::math;

/// Number of stored wake-ups: enough for a quantile of 0.9, and few enough to follow changes of the machine's
/// load.
const REMEMBERED: usize = 256;
/// Number of wake-ups between two computations of the quantile. One takes about a microsecond.
const BETWEEN_LOOKS: usize = 16;
/// Number of times the lead may leave no time for a sleep before a sleep is tried in spite of it. Otherwise a
/// lead that is too long for a short period would never shrink; one in 128 affects no quantile below 0.992.
const SPINS_BETWEEN_DARES: u32 = 128;

giusto_units::defaults! {
    /// A quantile of the latest wake latencies, in nanoseconds.
    ///
    /// Unlike a mean, a quantile does not change when a few wake-ups are late by milliseconds. After a fixed
    /// number of wake-ups such a period has no effect at all, unlike in a decaying sum.
    #[derive(Debug, Clone)]
    pub(super) struct Lead {
        quantile: f64 = quantile,
        longest: u32 = longest,
        nanos: u32 = first.min(longest),
        recent: [u32; REMEMBERED] = [0; REMEMBERED],
        next: usize = 0,
        filled: usize = 0,
        spins: u32 = 0,
    }
    /// The `quantile`, at most `longest` nanoseconds; `first` before any wake-up.
    pub(super) fn new(quantile: f64, first: u32, longest: u32);
}

impl Lead {
    /// How early to wake if `left` nanoseconds are left: all of it if a sleep would be too short.
    pub(super) fn before(&mut self, left: u64) -> u64 {
        if u64::from(self.nanos) < left {
            return self.nanos.into();
        }
        self.spins += 1;
        if self.spins < SPINS_BETWEEN_DARES {
            return left;
        }
        self.spins = 0;
        left / 2
    }

    pub(super) const fn nanos(&self) -> u32 {
        self.nanos
    }

    /// Records a wake-up that was `late` nanoseconds late.
    pub(super) fn learn(&mut self, late: u32) {
        if let Some(oldest) = self.recent.get_mut(self.next) {
            *oldest = late;
        }
        self.next = (self.next + 1) % REMEMBERED;
        self.filled = (self.filled + 1).min(REMEMBERED);
        if self.next.is_multiple_of(BETWEEN_LOOKS) {
            let mut latencies = self.recent;
            let latencies = latencies.get_mut(..self.filled).unwrap_or_default();
            let rank = math::round(latencies.len().saturating_sub(1) as f64 * self.quantile) as usize;
            let (_, &mut latency, _) = latencies.select_nth_unstable(rank);
            self.nanos = latency.min(self.longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_becomes_the_quantile_of_the_latencies() {
        let mut lead = Lead::new(0.9, 50_000, 1_000_000);
        for late in (0..1024_u32).map(|n| 30_000 + n % 100 * 100) {
            lead.learn(late);
        }
        assert!((38_500..=39_500).contains(&lead.nanos()), "{}", lead.nanos());
    }

    #[test]
    fn the_lead_follows_a_changing_machine() {
        let mut lead = Lead::new(0.9, 50_000, 500_000);
        for (late, expected) in [(90_000, 90_000), (1_000_000, 500_000), (10_000, 10_000)] {
            for _ in 0..REMEMBERED {
                lead.learn(late);
            }
            assert_eq!(lead.nanos(), expected);
        }
    }

    #[test]
    fn a_lead_without_time_to_sleep_is_reduced() {
        let mut lead = Lead::new(0.9, 50_000, 1_000_000);
        let mut sleeps = 0;
        for _ in 0..10 * SPINS_BETWEEN_DARES * BETWEEN_LOOKS as u32 {
            if lead.before(25_000) < 25_000 {
                sleeps += 1;
                lead.learn(5_000);
            }
        }
        assert_eq!(lead.nanos(), 5_000);
        assert!(sleeps > 8 * SPINS_BETWEEN_DARES, "{sleeps}");
    }

    #[test]
    fn a_period_too_short_for_sleeps_is_spun() {
        let mut lead = Lead::new(0.9, 50_000, 1_000_000);
        let sleeps = (0..128_000).filter(|_| {
            let dared = lead.before(25_000) < 25_000;
            if dared {
                lead.learn(40_000);
            }
            dared
        });
        assert_eq!(sleeps.count(), 1000);
    }
}
