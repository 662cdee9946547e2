//! A delayed target: every request takes effect after a lag.

use giusto_units::{DataRate, TimeDelta, Timestamp};

/// Requests within the lag of an encoder.
///
/// It stores two: the next one to take effect, and the last one. Of many requests within one lag, some in the
/// middle are skipped; the last one always takes effect, exactly one lag after it.
#[derive(Debug, Clone)]
pub(super) struct Lag {
    delay: TimeDelta,
    current: DataRate,
    next: Option<(Timestamp, DataRate)>,
    last: Option<(Timestamp, DataRate)>,
}

impl Lag {
    pub(super) fn new(delay: TimeDelta, current: DataRate) -> Self {
        Self { delay: delay.max(TimeDelta::ZERO), current, next: None, last: None }
    }

    pub(super) fn request(&mut self, now: Timestamp, rate: DataRate) {
        self.rate(now);
        let request = Some((now + self.delay, rate));
        if self.next.is_none() { self.next = request } else { self.last = request }
    }

    /// The rate of the encoder at `now`.
    pub(super) fn rate(&mut self, now: Timestamp) -> DataRate {
        while let Some((_, rate)) = self.next.filter(|(due, _)| *due <= now) {
            self.current = rate;
            self.next = self.last.take();
        }
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_request_takes_effect_after_the_lag() {
        let rate = DataRate::from_bps;
        let mut lag = Lag::new(TimeDelta::from_millis(100), rate(1));
        lag.request(at(0), rate(2));
        lag.request(at(30), rate(3));
        lag.request(at(60), rate(4));
        let steps: Vec<_> = [99, 100, 159, 160, 999].map(|ms| lag.rate(at(ms)).as_bps()).into();
        assert_eq!(steps, [1, 2, 2, 4, 4]);
        let mut none = Lag::new(TimeDelta::ZERO, rate(1));
        none.request(at(5), rate(2));
        assert_eq!(none.rate(at(5)), rate(2));
    }
}
