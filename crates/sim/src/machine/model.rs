//! The timing model of a machine.
//!
//! "The paper" is Chiu et al. 1999, see the [parent module](super).

use giusto_units::{TimeDelta, Timestamp};

/// How sleeps are quantised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SleepModel {
    /// The length is rounded up to whole steps: `wake = now + ⌈span / step⌉ · step`. This is the model of the paper (§3):
    /// with a granularity of 10 ms, `sleep(2 ms)` takes 10 ms, and a sleep of 3 ms oversleeps by 7 ms.
    #[default]
    RoundsUp,
    /// The sleep ends on a system tick. Its length in ticks, rounded up, counts from the next tick on, as in a timeout table
    /// that is processed once per tick and never wakes early: `wake = ⌈now / step⌉ · step + ⌈span / step⌉ · step`. A sleep
    /// that begins between two ticks is also longer by the rest of its tick. A sleep that begins on a tick, such as each of
    /// several consecutive sleeps, lasts as long as with [`RoundsUp`](Self::RoundsUp). (A kernel that counts a sleep begun
    /// just after its tick from the next one would take 20 ms, which contradicts Figure 5 of the paper.)
    Ticks,
}

giusto_units::names!(SleepModel { RoundsUp = "rounds up", Ticks = "ticks" });

/// An interval in which the machine is suspended. Work and wake-ups in it are postponed to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Start.
    pub from: Timestamp,
    /// End.
    pub until: Timestamp,
}

/// The timing model of a machine: clock resolution, sleep granularity and processing times. The default is an ideal machine.
///
/// All methods are pure functions of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Machine {
    /// Clock resolution: readings are rounded down to a multiple of this. Default: zero; zero or less is exact.
    pub clock_step: TimeDelta,
    /// Sleep granularity. Default: zero; with zero or less sleeps are exact.
    pub sleep_step: TimeDelta,
    /// How sleeps are quantised. Default: [`SleepModel::RoundsUp`].
    pub sleep_model: SleepModel,
    /// Processing time to send one packet. The packet leaves at the start of that time. Default: zero.
    pub send_cost: TimeDelta,
    /// Time of one iteration of a busy-wait loop ([`Step::Poll`](giusto_pace::Step::Poll)). Default: zero; zero or
    /// less means 1 µs, since time must advance.
    pub look_cost: TimeDelta,
    /// Optional suspension. Default: none.
    pub stall: Option<Stall>,
}

impl Machine {
    /// The experimental platform of the paper: a clock resolution of 1 ms and a sleep granularity of 10 ms (§3, §4), and a
    /// dummy send of 2 ms (§3). The schedules of the paper do not busy-wait; the 50 µs for those that do are our choice.
    pub const SUN_LABS: Self = Self {
        clock_step: TimeDelta::from_millis(1),
        sleep_step: TimeDelta::from_millis(10),
        sleep_model: SleepModel::RoundsUp,
        send_cost: TimeDelta::from_millis(2),
        look_cost: TimeDelta::from_micros(50),
        stall: None,
    };

    /// Clock reading at true time `now`.
    pub fn clock(&self, now: Timestamp) -> Timestamp {
        let nanos = now.as_nanos();
        step_nanos(self.clock_step).map_or(now, |step| Timestamp::from_nanos(nanos - nanos % step))
    }

    /// End of a sleep of `span` that begins at `now`, in true time. A `span` of zero or less ends at once.
    pub fn wake(&self, now: Timestamp, span: TimeDelta) -> Timestamp {
        if span <= TimeDelta::ZERO {
            return now;
        }
        let Some(step) = step_nanos(self.sleep_step) else { return self.awake(now + span) };
        let rounded = |nanos: u64| nanos.div_ceil(step).saturating_mul(step);
        let begin = match self.sleep_model {
            SleepModel::RoundsUp => now.as_nanos(),
            SleepModel::Ticks => rounded(now.as_nanos()),
        };
        let span = rounded(span.as_nanos().unsigned_abs());
        self.awake(Timestamp::from_nanos(begin.saturating_add(span)))
    }

    /// End of a sleep until the clock shows `time`. The machine has only relative sleeps: this one lasts for the remaining
    /// time by its clock.
    pub fn wake_at(&self, now: Timestamp, time: Timestamp) -> Timestamp {
        self.wake(now, time.saturating_since(self.clock(now)))
    }

    /// Time at which the sending of `packets`, begun at `now`, is complete.
    pub fn sent(&self, now: Timestamp, packets: u32) -> Timestamp {
        self.worked(now, self.send_cost.max(TimeDelta::ZERO) * i64::from(packets))
    }

    /// Time at which a busy-wait iteration begun at `now` is complete.
    pub fn polled(&self, now: Timestamp) -> Timestamp {
        const MIN_COST: TimeDelta = TimeDelta::from_micros(1);
        let cost = if self.look_cost > TimeDelta::ZERO { self.look_cost } else { MIN_COST };
        self.worked(now, cost)
    }

    /// Time at which work of `span` begun at `now` is complete. A stall interrupts the work.
    fn worked(&self, now: Timestamp, span: TimeDelta) -> Timestamp {
        let done = self.awake(now) + span;
        match self.stall {
            Some(Stall { from, until }) if now < from && done > from => done + until.saturating_since(from),
            _ => done,
        }
    }

    /// Earliest time from `now` on at which the machine is not suspended.
    fn awake(&self, now: Timestamp) -> Timestamp {
        match self.stall {
            Some(Stall { from, until }) if now >= from && now < until => until,
            _ => now,
        }
    }
}

/// The step in nanoseconds, if it is above zero.
fn step_nanos(step: TimeDelta) -> Option<u64> {
    u64::try_from(step.as_nanos()).ok().filter(|&step| step > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::at as ms;

    const fn span(millis: i64) -> TimeDelta {
        TimeDelta::from_millis(millis)
    }

    fn with(sleep_model: SleepModel) -> Machine {
        Machine { sleep_model, ..Machine::SUN_LABS }
    }

    #[test]
    fn the_models_differ_for_sleeps_between_ticks() {
        // Begin, span, and end with each model, in ms.
        for (begin, length, rounds_up, ticks) in [
            (4, 3, 14, 20),
            (4, 10, 14, 20),
            (4, 11, 24, 30),
            (10, 3, 20, 20),
            (19, 1, 29, 30),
            (0, 20, 20, 20),
        ] {
            let ends = [SleepModel::RoundsUp, SleepModel::Ticks]
                .map(|model| with(model).wake(ms(begin), span(length)));
            assert_eq!(ends, [rounds_up, ticks].map(ms), "{length} ms from {begin} ms");
        }
    }

    #[test]
    fn an_ideal_machine_is_exact() {
        let (machine, now) = (Machine::default(), Timestamp::from_nanos(1_234_567));
        assert_eq!(machine.clock(now), now);
        assert_eq!(machine.wake(now, TimeDelta::from_nanos(3)), Timestamp::from_nanos(1_234_570));
        assert_eq!(machine.sent(now, 7), now);
        assert_eq!(machine.polled(now) - now, TimeDelta::from_micros(1));
    }

    #[test]
    fn wake_at_sleeps_for_the_time_left_by_the_clock() {
        let machine = Machine { sleep_step: TimeDelta::ZERO, ..Machine::SUN_LABS };
        // At 4.9 ms the clock shows 4 ms, so 6 ms remain.
        let now = Timestamp::from_nanos(4_900_000);
        assert_eq!(machine.clock(now), ms(4));
        assert_eq!(machine.wake_at(now, ms(10)), Timestamp::from_nanos(10_900_000));
        assert_eq!(machine.wake_at(now, ms(4)), now);
    }

    #[test]
    fn a_stall_postpones_work_and_wake_ups() {
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
        fn wakes_never_early_and_at_most_two_steps_late(
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
