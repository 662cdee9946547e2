//! Base delay and queueing delay (RFC 8698 §5.1.1).

use alloc::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use crate::base_delay::BaseDelay;

/// The memory of the base delay is divided into so many periods, as in LEDBAT (RFC 6817 §3.4.2: one minute each).
const PERIODS: usize = 20;

/// An increase of the delay from one packet to the next of at least so much may be a jump of a clock. This rule is ours.
const STEP: TimeDelta = TimeDelta::from_millis(500);

/// An increase from one packet to the next: the path paused, or a clock jumped, as after the sender's machine has slept.
#[derive(Debug, Clone, Copy)]
struct Step {
    at: Timestamp,
    size: TimeDelta,
    /// The delay after it.
    delay: TimeDelta,
}

impl Step {
    /// A queue becomes shorter, by a quarter at least, because the sender slows down.
    fn is_queue(&self, delay: TimeDelta) -> bool {
        delay < self.delay - self.size / 4
    }

    /// Packets sent during the pause and before the sender slowed down have arrived: a queue would be shorter by now.
    fn has_lasted(&self, now: Timestamp) -> bool {
        now.saturating_since(self.at) >= self.size * 2 + TimeDelta::from_seconds(2)
    }
}

/// Queueing delay: the one-way delay above the minimum of a long time, then the minimum of the latest samples.
#[derive(Debug, Clone)]
pub(super) struct QueueingDelay {
    minima: BaseDelay,
    samples: usize,
    /// `d_base`: that of the latest packet.
    base: TimeDelta,
    /// The latest samples of the queueing delay.
    recent: VecDeque<TimeDelta>,
    /// The latest one-way delay.
    latest: Option<TimeDelta>,
    step: Option<Step>,
}

impl QueueingDelay {
    pub(super) fn new(memory: TimeDelta, samples: usize) -> Self {
        let period = TimeDelta::from_nanos(memory.as_nanos() / PERIODS as i64).max(TimeDelta::from_millis(1));
        Self {
            // One period more than the memory, since the latest one is not complete.
            minima: BaseDelay::new(period, PERIODS + 1),
            samples: samples.max(1),
            base: TimeDelta::ZERO,
            recent: VecDeque::new(),
            latest: None,
            step: None,
        }
    }

    /// Handles the one-way delay of a packet that arrives at `now`. The clocks may differ by a constant, which may change.
    pub(super) fn on_delay(&mut self, now: Timestamp, delay: TimeDelta) {
        let rise = self.latest.replace(delay).map_or(TimeDelta::ZERO, |latest| delay - latest);
        match self.step {
            Some(step) if step.is_queue(delay) => self.step = None,
            Some(step) if step.has_lasted(now) => {
                self.step = None;
                self.minima.clear();
                self.recent.clear();
            }
            None if rise >= STEP => self.step = Some(Step { at: now, size: rise, delay }),
            _ => {}
        }
        self.minima.on_sample(now, delay);
        self.base = self.minima.get(now).unwrap_or(delay);
        if self.recent.len() >= self.samples {
            self.recent.pop_front();
        }
        self.recent.push_back(self.above_base(delay));
    }

    /// `d_fwd - d_base`.
    pub(super) fn above_base(&self, delay: TimeDelta) -> TimeDelta {
        TimeDelta::from_nanos(delay.as_nanos().saturating_sub(self.base.as_nanos()))
    }

    /// `d_queue`: minimum of the latest samples; `None` before the first packet.
    pub(super) fn filtered(&self) -> Option<TimeDelta> {
        self.recent.iter().copied().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    fn at(seconds: f64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_seconds_f64(seconds)
    }

    #[test]
    fn a_single_spike_does_not_pass_the_filter_but_a_queue_does() {
        let mut delay = QueueingDelay::new(TimeDelta::from_seconds(1200), 15);
        assert_eq!(delay.filtered(), None);
        for packet in 0..20 {
            delay.on_delay(at(f64::from(packet) * 0.01), if packet == 10 { ms(-400) } else { ms(-470) });
        }
        assert_eq!(delay.filtered(), Some(ms(0)));
        // Fourteen samples of a queue are not enough, fifteen are.
        for _ in 0..14 {
            delay.on_delay(at(0.3), ms(-440));
        }
        assert_eq!(delay.filtered(), Some(ms(0)));
        delay.on_delay(at(0.4), ms(-435));
        assert_eq!(delay.filtered(), Some(ms(30)));
        delay.on_delay(at(0.4), ms(-465));
        assert_eq!(delay.filtered(), Some(ms(5)));
    }

    /// The signal 12 s after the delay has risen by 5 s and falls by `falling` each second, of which `then` remains.
    fn after_a_step(falling: i64, then: i64) -> TimeDelta {
        let mut delay = QueueingDelay::new(TimeDelta::from_seconds(1200), 15);
        for packet in 0..1000 {
            delay.on_delay(at(f64::from(packet) * 0.02), ms(-400));
        }
        for packet in 0..700 {
            let above = (5000 - falling * i64::from(packet) / 50).max(then);
            delay.on_delay(at(20.0 + f64::from(packet) * 0.02), ms(above - 400));
            assert!(
                !(15..590).contains(&packet) || delay.filtered() >= Some(ms(then)),
                "{packet}: {delay:?}"
            );
        }
        delay.filtered().unwrap()
    }

    #[test]
    fn a_step_that_stays_is_a_clock_and_one_that_falls_a_queue() {
        assert_eq!(after_a_step(0, 0), ms(0));
        // A quarter in twelve seconds is enough.
        assert_eq!(after_a_step(100, 3900), ms(0));
        assert_eq!(after_a_step(110, 3700), ms(3700));
        assert_eq!(after_a_step(1000, 80), ms(80));
    }

    #[test]
    fn the_base_delay_is_kept_for_its_memory_and_then_forgotten() {
        let mut delay = QueueingDelay::new(TimeDelta::from_seconds(1200), 1);
        delay.on_delay(at(0.0), ms(20));
        let mut forgotten = None;
        for second in 1..1500 {
            delay.on_delay(at(f64::from(second)), ms(100));
            if delay.filtered() == Some(ms(0)) {
                forgotten.get_or_insert(second);
            } else {
                assert_eq!(delay.filtered(), Some(ms(80)));
            }
        }
        assert!(forgotten.is_some_and(|second| (1200..=1260).contains(&second)), "{forgotten:?}");
    }
}
