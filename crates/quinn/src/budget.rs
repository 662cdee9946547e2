//! Bytes that a rate permits.

use std::time::{Duration, Instant};

use giusto_units::DataRate;

/// A bucket that a rate fills and departures empty.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    bytes: f64,
    at: Option<Instant>,
}

/// What a rate permits within this time is kept for later, and at least a packet: an application looks every few milliseconds.
const KEPT: Duration = Duration::from_millis(20);
const PACKET: f64 = 1500.0;
/// What was sent too much counts for no longer than this: a frame is often larger than its share.
const OWED: Duration = Duration::from_millis(200);

impl Budget {
    /// Bytes that `rate` leaves now.
    pub(crate) fn left(&mut self, now: Instant, rate: DataRate) -> u64 {
        let bytes_per_second = rate.as_bps() as f64 / 8.0;
        let elapsed = now.saturating_duration_since(self.at.unwrap_or(now));
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
        let bytes = self.bytes + bytes_per_second * elapsed.as_secs_f64();
        let most = (bytes_per_second * KEPT.as_secs_f64()).max(PACKET);
        self.bytes = bytes.clamp(-bytes_per_second * OWED.as_secs_f64(), most);
        self.bytes.max(0.0) as u64
    }

    pub(crate) fn on_sent(&mut self, bytes: u64) {
        self.bytes -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{after, origin};

    #[test]
    fn a_budget_is_the_rate_less_what_was_sent() {
        let (start, rate) = (origin(), DataRate::from_bps(800_000));
        let mut budget = Budget::default();
        assert_eq!(budget.left(start, rate), 0);
        assert_eq!(budget.left(after(start, 10), rate), 1000);
        budget.on_sent(4000);
        assert_eq!(budget.left(after(start, 30), rate), 0);
        assert_eq!(budget.left(after(start, 45), rate), 500);
        assert_eq!(budget.left(after(start, 5000), rate), 2000, "20 ms are kept");
        budget.on_sent(1_000_000);
        assert_eq!(budget.left(after(start, 5000), rate), 0);
        assert_eq!(budget.left(after(start, 5210), rate), 1000, "200 ms are owed");
    }
}
