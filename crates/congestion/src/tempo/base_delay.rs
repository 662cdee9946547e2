//! Base delay: the delay of the path without queues.

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

/// Length of one period of the memory. A memory of `n` periods forgets a minimum after `n - 1` to `n` periods.
const PERIOD: TimeDelta = TimeDelta::from_seconds(1);

/// Minimum of a delay over the latest periods. The clocks of sender and receiver may differ by a constant.
#[derive(Debug, Clone, Default)]
pub(super) struct BaseDelay {
    /// Begin and minimum of each period, the latest last.
    minima: VecDeque<(Timestamp, TimeDelta)>,
    base: Option<TimeDelta>,
}

impl BaseDelay {
    /// Handles a delay that was reported at `now`.
    pub(super) fn on_delay(&mut self, now: Timestamp, delay: TimeDelta) {
        match self.minima.back_mut() {
            Some((since, minimum)) if now.saturating_since(*since) < PERIOD => *minimum = delay.min(*minimum),
            _ => self.minima.push_back((now, delay)),
        }
        self.base = Some(self.base.map_or(delay, |base| base.min(delay)));
    }

    /// Forgets all but the latest `periods` periods.
    pub(super) fn keep(&mut self, periods: usize) {
        while self.minima.len() > periods.max(1) {
            self.minima.pop_front();
        }
        self.base = self.minima.iter().map(|&(_, minimum)| minimum).min();
    }

    /// The route is longer by at least this: earlier minima are forgotten, and `base` holds from now on.
    pub(super) fn restart(&mut self, now: Timestamp, base: TimeDelta) {
        self.minima.clear();
        self.minima.push_back((now, base));
        self.base = Some(base);
    }

    /// The minimum; `None` before the first delay.
    pub(super) fn base(&self) -> Option<TimeDelta> {
        self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_seconds(seconds)
    }

    #[test]
    fn a_minimum_is_kept_for_the_periods_and_then_forgotten() {
        let mut base = BaseDelay::default();
        assert_eq!(base.base(), None);
        let ms = TimeDelta::from_millis;
        for second in 0..20 {
            base.on_delay(at(second), if second == 3 { ms(-20) } else { ms(30) });
            base.keep(15);
            let expected = match second {
                0..=2 | 18.. => ms(30),
                _ => ms(-20),
            };
            assert_eq!(base.base(), Some(expected), "{second}");
        }
    }

    #[test]
    fn a_restart_raises_the_base_at_once() {
        let ms = TimeDelta::from_millis;
        let mut base = BaseDelay::default();
        base.on_delay(at(0), ms(30));
        base.restart(at(1), ms(90));
        base.on_delay(at(1), ms(95));
        base.keep(15);
        assert_eq!(base.base(), Some(ms(90)));
    }
}
