//! Data acknowledged in bursts (draft §5.5.9). Here it mainly allows for the interval of feedback.

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

/// `extra_acked`: the maximum, over some rounds, of what was acknowledged beyond the expected, in bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct Aggregation {
    since: Timestamp,
    delivered: f64,
    /// Round and value, decreasing in value.
    samples: VecDeque<(u64, f64)>,
}

impl Aggregation {
    /// Begins an interval at `now`: at the start, and after an idle time (`HandleRestartFromIdle`).
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.since = now;
    }

    /// `UpdateACKAggregation`: `acked` bytes at `now` in `round`, at a bandwidth of `rate`. The maximum is that of `rounds`, and each
    /// sample at most `window`.
    pub(super) fn on_acked(
        &mut self,
        now: Timestamp,
        rate: f64,
        acked: f64,
        window: f64,
        rounds: (u64, u64),
    ) {
        let (round, memory) = rounds;
        let time = |since| -> TimeDelta { now.saturating_since(since) };
        let mut expected = rate * time(self.since).as_seconds();
        if self.delivered <= expected {
            (self.since, self.delivered) = (now, 0.0);
            expected = 0.0;
        }
        self.delivered += acked;
        let extra = (self.delivered - expected).min(window);
        while self.samples.back().is_some_and(|&(_, last)| last <= extra) {
            self.samples.pop_back();
        }
        self.samples.push_back((round, extra));
        while self.samples.front().is_some_and(|&(at, _)| at + memory < round) {
            self.samples.pop_front();
        }
    }

    pub(super) fn bytes(&self) -> f64 {
        self.samples.front().map_or(0.0, |&(_, extra)| extra)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_data_of_one_interval_of_feedback() {
        // 100 kB/s in reports of 50 ms: 5 kB at once.
        let mut aggregation = Aggregation::default();
        for report in 1..100 {
            let now = Timestamp::from_nanos(report * 50_000_000);
            aggregation.on_acked(now, 100e3, 5e3, 1e6, (report / 2, 10));
        }
        assert!((aggregation.bytes() - 5e3).abs() < 1.0, "{}", aggregation.bytes());
        // A burst is remembered for ten rounds, and bounded by the window.
        aggregation.on_acked(Timestamp::from_nanos(5_000_000_000), 100e3, 50e3, 20e3, (50, 10));
        assert!((aggregation.bytes() - 20e3).abs() < 1.0, "{}", aggregation.bytes());
        for round in 51..=61 {
            let now = Timestamp::from_nanos((round - 1) * 100_000_000 + 600_000_000);
            aggregation.on_acked(now, 100e3, 5e3, 20e3, (round, 10));
        }
        assert!((aggregation.bytes() - 5e3).abs() < 1.0, "{}", aggregation.bytes());
    }
}
