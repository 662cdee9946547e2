//! How coarse the clock and the sleeps of a machine are, and what sending costs it.

use giusto_units::{TimeDelta, Timestamp};

/// How the length of a sleep comes to be a matter of steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SleepModel {
    /// The length is rounded up to whole steps: `wake = now + ⌈span / step⌉ · step`. These are the paper's words (§3): a
    /// granularity of 10 ms, by which `sleep(2 ms)` takes 10 ms, and a sleep of 3 ms oversleeps by 7 ms.
    #[default]
    RoundsUp,
    /// The sleep ends on a tick of the system. It is counted in whole ticks, rounded up, from the next tick on, as a timeout
    /// table does that is walked once per tick and must wake nobody early: `wake = ⌈now / step⌉ · step + ⌈span / step⌉ · step`.
    /// So a sleep that begins between two ticks overshoots by what is left of its tick as well. One that begins on a tick, as
    /// does each of several sleeps in a row, lasts as with [`RoundsUp`](Self::RoundsUp). (A kernel that counts a sleep begun
    /// just after its tick from the next one would make that 20 ms, against Figure 5 of the paper.)
    Ticks,
}

impl SleepModel {
    /// Both.
    pub const ALL: [Self; 2] = [Self::RoundsUp, Self::Ticks];

    /// The name, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundsUp => "rounds up",
            Self::Ticks => "ticks",
        }
    }
}

/// A time in which the machine stands still: whatever would have happened then happens later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// From this moment on ...
    pub from: Timestamp,
    /// ... until this one.
    pub until: Timestamp,
}

/// How coarse a machine is. By default it is ideal: whatever is zero does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machine {
    /// The clock shows whole multiples of this, rounded down. Zero or less: it is exact.
    pub clock_step: TimeDelta,
    /// Sleeps end in steps of this, as the model says. Zero or less: they are exact.
    pub sleep_step: TimeDelta,
    /// In which way.
    pub sleep_model: SleepModel,
    /// What sending one packet takes. The packet leaves at the beginning of that time. Default: nothing.
    pub send_cost: TimeDelta,
    /// What a look at the clock takes where a schedule watches it ([`Step::LookAgain`](giusto_pace::Step::LookAgain)).
    /// Zero or less: 1 µs, for otherwise no time would pass.
    pub look_cost: TimeDelta,
    /// When it stands still, if it does.
    pub stall: Option<Stall>,
}

impl Machine {
    /// The experimental platform of the paper: a clock in steps of 1 ms and sleeps in steps of 10 ms (§3, §4), and a dummy
    /// send of 2 ms (§3). Its schedules never watch the clock; for those that do, a look of 50 µs is ours.
    pub const SUN_LABS: Self = Self {
        clock_step: TimeDelta::from_millis(1),
        sleep_step: TimeDelta::from_millis(10),
        sleep_model: SleepModel::RoundsUp,
        send_cost: TimeDelta::from_millis(2),
        look_cost: TimeDelta::from_micros(50),
        stall: None,
    };

    /// What the clock shows at `now`.
    pub fn clock(&self, now: Timestamp) -> Timestamp {
        let nanos = now.as_nanos();
        steps(self.clock_step).map_or(now, |step| Timestamp::from_nanos(nanos - nanos % step))
    }

    /// When a sleep of `span` ends that begins at `now`, both in true time. Nobody sleeps for no time.
    pub fn wake(&self, now: Timestamp, span: TimeDelta) -> Timestamp {
        if span <= TimeDelta::ZERO {
            return now;
        }
        let Some(step) = steps(self.sleep_step) else { return self.awake(now + span) };
        let rounded = |nanos: u64| nanos.div_ceil(step).saturating_mul(step);
        let begin = match self.sleep_model {
            SleepModel::RoundsUp => now.as_nanos(),
            SleepModel::Ticks => rounded(now.as_nanos()),
        };
        let span = rounded(span.as_nanos().unsigned_abs());
        self.awake(Timestamp::from_nanos(begin.saturating_add(span)))
    }

    /// When a sleep until the clock shows `moment` ends. The machine has relative sleeps alone: this is one of what is left by
    /// its clock.
    pub fn wake_at(&self, now: Timestamp, moment: Timestamp) -> Timestamp {
        self.wake(now, moment.saturating_since(self.clock(now)))
    }

    /// When `packets` have been sent that are begun at `now`.
    pub fn sent(&self, now: Timestamp, packets: u32) -> Timestamp {
        self.worked(now, self.send_cost.max(TimeDelta::ZERO) * i64::from(packets))
    }

    /// When a look at the clock is done that is begun at `now`.
    pub fn looked(&self, now: Timestamp) -> Timestamp {
        const LEAST: TimeDelta = TimeDelta::from_micros(1);
        let cost = if self.look_cost > TimeDelta::ZERO { self.look_cost } else { LEAST };
        self.worked(now, cost)
    }

    /// When work of `span` is done that is begun at `now`: a stall interrupts it.
    fn worked(&self, now: Timestamp, span: TimeDelta) -> Timestamp {
        let done = self.awake(now) + span;
        match self.stall {
            Some(Stall { from, until }) if now < from && done > from => done + until.saturating_since(from),
            _ => done,
        }
    }

    /// The moment from `now` on at which the machine does not stand still.
    fn awake(&self, now: Timestamp) -> Timestamp {
        match self.stall {
            Some(Stall { from, until }) if now >= from && now < until => until,
            _ => now,
        }
    }
}

/// Nanoseconds of a step, if there is one.
fn steps(step: TimeDelta) -> Option<u64> {
    u64::try_from(step.as_nanos()).ok().filter(|&step| step > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    const fn span(millis: i64) -> TimeDelta {
        TimeDelta::from_millis(millis)
    }

    fn with(sleep_model: SleepModel) -> Machine {
        Machine { sleep_model, ..Machine::SUN_LABS }
    }

    #[test]
    fn a_sleep_of_2_ms_takes_10_ms_where_sleeps_follow_each_other() {
        for model in SleepModel::ALL {
            let machine = with(model);
            // Wherever the first begins, it ends in phase with what is to come.
            let first = machine.wake(ms(3), span(2));
            let second = machine.wake(first, span(2));
            assert_eq!(second - first, span(10), "{}", model.name());
        }
    }

    #[test]
    fn the_models_part_where_a_sleep_begins_between_ticks() {
        // Begin, span, end with each model, in ms.
        for (begin, length, rounds_up, ticks) in [
            (4, 3, 14, 20),
            (4, 10, 14, 20),
            (4, 11, 24, 30),
            (10, 3, 20, 20),
            (19, 1, 29, 30),
            (0, 20, 20, 20),
        ] {
            assert_eq!(with(SleepModel::RoundsUp).wake(ms(begin), span(length)), ms(rounds_up));
            assert_eq!(with(SleepModel::Ticks).wake(ms(begin), span(length)), ms(ticks));
        }
    }

    #[test]
    fn an_ideal_machine_is_exact() {
        let (machine, now) = (Machine::default(), Timestamp::from_nanos(1_234_567));
        assert_eq!(machine.clock(now), now);
        assert_eq!(machine.wake(now, TimeDelta::from_nanos(3)), Timestamp::from_nanos(1_234_570));
        assert_eq!(machine.sent(now, 7), now);
        assert_eq!(machine.looked(now) - now, TimeDelta::from_micros(1));
    }

    #[test]
    fn a_sleep_until_is_a_sleep_of_what_the_clock_leaves() {
        let machine = Machine { sleep_step: TimeDelta::ZERO, ..Machine::SUN_LABS };
        // At 4.9 ms the clock shows 4: 6 ms are left.
        let now = Timestamp::from_nanos(4_900_000);
        assert_eq!(machine.clock(now), ms(4));
        assert_eq!(machine.wake_at(now, ms(10)), Timestamp::from_nanos(10_900_000));
        assert_eq!(machine.wake_at(now, ms(4)), now);
    }

    #[test]
    fn a_stall_holds_up_what_would_happen_in_it() {
        let machine = Machine {
            send_cost: span(2),
            stall: Some(Stall { from: ms(10), until: ms(50) }),
            ..Machine::default()
        };
        assert_eq!(machine.wake(ms(0), span(9)), ms(9));
        assert_eq!(machine.wake(ms(0), span(10)), ms(50));
        assert_eq!(machine.wake(ms(0), span(60)), ms(60));
        assert_eq!(machine.sent(ms(9), 1), ms(51));
        assert_eq!(machine.sent(ms(8), 1), ms(10));
        assert_eq!(machine.sent(ms(60), 3), ms(66));
    }

    proptest! {
        #[test]
        fn nobody_is_woken_early_or_more_than_two_steps_late(
            now in any::<u64>(), length in any::<i64>(), step in 0_i64..1_000_000_000, ticks: bool,
        ) {
            let machine = Machine {
                sleep_step: TimeDelta::from_nanos(step),
                sleep_model: if ticks { SleepModel::Ticks } else { SleepModel::RoundsUp },
                ..Machine::default()
            };
            let (now, length) = (Timestamp::from_nanos(now), TimeDelta::from_nanos(length));
            let end = machine.wake(now, length);
            prop_assert!(end >= now + length || end == now && length <= TimeDelta::ZERO);
            prop_assert!(end <= now + length.max(TimeDelta::ZERO) + TimeDelta::from_nanos(2 * step));
        }
    }
}
