//! When a stream is due. All times are since the Unix epoch.

use giusto_units::{TimeDelta, Timestamp};

/// The slots of a stream: one in each interval, at the same place in it. The intervals of all hosts begin together.
///
/// # Example
///
/// ```
/// use giusto_monitor::schedule::Slots;
/// use giusto_units::{TimeDelta, Timestamp};
///
/// let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds(seconds);
/// let mut slots = Slots::new(TimeDelta::from_seconds(60), TimeDelta::from_seconds(20));
/// assert_eq!(slots.take(at(130)), None); // Begun at 80: too late.
/// assert_eq!(slots.due(), Some(at(140)));
/// assert_eq!(slots.take(at(141)), Some(at(120)));
/// assert_eq!(slots.take(at(142)), None);
/// ```
#[derive(Debug, Clone)]
pub struct Slots {
    interval: u64,
    phase: u64,
    /// The number of the next slot; `None` before the first look at the clock.
    next: Option<u64>,
    /// Slots whose time passed while the machine slept or was too busy.
    missed: u64,
    /// How often the clock was set back by more than an interval.
    set_back: u64,
}

impl Slots {
    /// A slot in each `interval`, `phase` behind its beginning.
    pub fn new(interval: TimeDelta, phase: TimeDelta) -> Self {
        let nanos = |time: TimeDelta| u64::try_from(time.as_nanos()).unwrap_or(0);
        let interval = nanos(interval).max(1);
        Self { interval, phase: nanos(phase) % interval, next: None, missed: 0, set_back: 0 }
    }

    /// The beginning of the interval whose slot has come, once for each.
    pub fn take(&mut self, now: Timestamp) -> Option<Timestamp> {
        let passed = now.as_nanos().checked_sub(self.phase)?;
        let (number, late) = (passed / self.interval, passed % self.interval);
        // A slot is taken in the first half of its interval: a stream lasts at most for the other half.
        let in_time = late < self.interval / 2;
        let next = *self.next.get_or_insert(if in_time { number } else { number + 1 });
        // A correction of the clock may lead into the slot before the last one.
        if number + 2 < next {
            // The clock was set back: the results of that time are measured again.
            self.set_back += 1;
            self.next = Some(number + 1);
            return None;
        }
        if number < next {
            return None;
        }
        self.missed += number - next + u64::from(!in_time);
        self.next = Some(number + 1);
        in_time.then(|| Timestamp::from_nanos(number * self.interval))
    }

    /// When the next slot comes; `None` before the first look at the clock.
    pub fn due(&self) -> Option<Timestamp> {
        self.next
            .map(|next| Timestamp::from_nanos(next.saturating_mul(self.interval).saturating_add(self.phase)))
    }

    /// Slots whose time passed unused.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// How often the clock was set back by more than an interval.
    pub fn set_back(&self) -> u64 {
        self.set_back
    }

    /// Goes on where `earlier` was, at its place in the interval, if both have the same interval.
    pub(crate) fn continue_from(&mut self, earlier: &Self) {
        if self.interval == earlier.interval {
            *self = earlier.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_seconds(seconds)
    }

    fn minutes() -> Slots {
        Slots::new(TimeDelta::from_seconds(60), TimeDelta::from_seconds(5))
    }

    #[test]
    fn each_interval_has_one_slot_and_what_sleep_has_missed_is_counted() {
        let mut slots = minutes();
        let taken: Vec<_> = (0..3600).filter_map(|second| slots.take(at(second))).collect();
        assert_eq!(taken, (0..60).map(|minute| at(60 * minute)).collect::<Vec<_>>());
        assert_eq!((slots.missed(), slots.set_back()), (0, 0));
        let mut slots = minutes();
        assert_eq!(slots.take(at(6)), Some(at(0)));
        // Slots at 65 s and 125 s have passed; that of 185 s begins late, but in its first half.
        assert_eq!(slots.take(at(200)), Some(at(180)));
        assert_eq!(slots.missed(), 2);
        assert_eq!(slots.take(at(290)), None);
        assert_eq!(slots.missed(), 3);
        assert_eq!(slots.due(), Some(at(305)));
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nothing() {
        let mut slots = minutes();
        assert_eq!(slots.take(at(7205)), Some(at(7200)));
        // A correction of a few seconds repeats no slot.
        assert_eq!((slots.take(at(7203)), slots.take(at(7206))), (None, None));
        assert_eq!(slots.set_back(), 0);
        // An hour: the next slot is that of the next minute.
        assert_eq!(slots.take(at(3610)), None);
        assert_eq!((slots.set_back(), slots.due()), (1, Some(at(3665))));
        assert_eq!(slots.take(at(3665)), Some(at(3660)));
    }
}
