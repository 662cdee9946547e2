//! `send-sleep`: sends a cycle, then sleeps for the rest of its period.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    ideal::IdealLine,
    plan::CyclePlan,
    schedule::{Cycle, LateCycles, Schedule, Step},
};

/// The lost time that [`SendSleep`] compensates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Deficit {
    /// None: each cycle is independent.
    #[default]
    None,
    /// The excess of a send over its period.
    SendTime,
    /// That, and the oversleep.
    SendTimeAndOversleep,
}

/// Sends a cycle, measures the duration, and sleeps for the rest of the period. Each cycle starts when the
/// previous one has ended.
///
/// "Constant Bit Rate Transmission - An Adaptive Send and Sleep Approach" (and, without the counter, "Constant Bit Rate
/// Streaming - Practical Implementations", Send and Sleep):
///
/// ```text
/// send_duration = now − send_start_time
/// if send_duration > period:  sleep_time = 0;  deficit += send_duration − period
/// else:                       sleep_time = period − send_duration
///                             repaid = min(deficit, sleep_time);  sleep_time −= repaid;  deficit −= repaid
/// ```
///
/// where the printed loop subtracts `send_time`, a misprint for `send_duration`. [`Deficit`] defines what the
/// counter counts:
///
/// - [`Deficit::None`] has no counter: the oversleep, and the excess of a send over the period, are lost.
/// - [`Deficit::SendTime`] is the counter as printed.
/// - [`Deficit::SendTimeAndOversleep`] also implements the sentence below it: "Measure the sleep duration and
///   adjust the deficit if you overslept."
///
/// A sleep ends when [`on_woke`](Schedule::on_woke) is called. The period is that of the size actually sent
/// ("a specific (possibly variable) amount of data being sent each cycle"). Time outside of sends and sleeps
/// is lost in all three. `due` is the time at which an ideal sender would send the cycle,
/// `start + bits / rate`, so lost time appears as a growing schedule error. The deficit is repaid without
/// limit; [`BurstLimit`](super::BurstLimit) limits it.
#[derive(Debug, Clone)]
pub struct SendSleep {
    line: IdealLine,
    packets: u32,
    cycle: DataSize,
    deficit: Deficit,
    owed: TimeDelta,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Before the start.
    Waiting { until: Timestamp },
    /// A cycle may be sent.
    Ready,
    /// A cycle was requested.
    Sending { since: Timestamp },
    /// A sleep must be requested.
    Sent { sleep: TimeDelta },
    /// A sleep was requested.
    Sleeping { until: Timestamp },
}

impl SendSleep {
    /// Cycles of `plan`, starting at `start` or, without it, at the first call.
    pub fn new(plan: &CyclePlan, deficit: Deficit, start: Option<Timestamp>) -> Self {
        Self {
            line: IdealLine::new(plan.bps(), start),
            packets: plan.packets_per_cycle(),
            cycle: plan.cycle_size(),
            deficit,
            owed: TimeDelta::ZERO,
            state: start.map_or(State::Ready, |until| State::Waiting { until }),
        }
    }

    /// The time by which the following sleeps are shortened.
    #[inline]
    pub fn deficit(&self) -> TimeDelta {
        self.owed
    }

    /// The sleep that follows a send of `duration` in a cycle of `period`.
    fn sleep_after(&mut self, duration: TimeDelta, period: TimeDelta) -> TimeDelta {
        if duration > period {
            if self.deficit != Deficit::None {
                self.owed += duration - period;
            }
            return TimeDelta::ZERO;
        }
        let sleep = period - duration;
        let repaid = self.owed.min(sleep);
        self.owed -= repaid;
        sleep - repaid
    }
}

impl Schedule for SendSleep {
    fn next(&mut self, now: Timestamp) -> Step {
        let now = self.line.on_time(now);
        match self.state {
            State::Waiting { until } if now < until => return Step::SleepUntil(until),
            State::Sent { sleep } if sleep > TimeDelta::ZERO => {
                self.state = State::Sleeping { until: now + sleep };
                return Step::SleepFor(sleep);
            }
            // The driver called again before it slept: return the rest of the sleep.
            State::Sleeping { until } if now < until => return Step::SleepFor(until - now),
            State::Sleeping { .. } => self.on_woke(now),
            State::Waiting { .. } | State::Ready | State::Sending { .. } | State::Sent { .. } => {}
        }
        self.state = State::Sending { since: now };
        Step::Send(Cycle { packets: self.packets, due: self.line.due() })
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        let now = self.line.on_time(now);
        let period = self.line.step(size);
        self.state = match self.state {
            State::Sending { since } => State::Sent { sleep: self.sleep_after(now - since, period) },
            // Sent without a request: the sleep grows by its period.
            State::Ready => State::Sent { sleep: period },
            State::Sent { sleep } => State::Sent { sleep: sleep + period },
            State::Sleeping { until } => State::Sleeping { until: until + period },
            State::Waiting { until } => State::Waiting { until: until + period },
        };
    }

    fn on_woke(&mut self, now: Timestamp) {
        let now = self.line.clamp(now);
        if let State::Sleeping { until } = self.state {
            if self.deficit == Deficit::SendTimeAndOversleep {
                self.owed += now.saturating_since(until);
            }
            self.state = State::Ready;
        }
    }

    /// What the counter does not compensate is lost by design, and is no cycle that was due.
    fn on_ended(&mut self, end: Timestamp) {
        if self.deficit == Deficit::SendTimeAndOversleep {
            self.line.on_ended(end, self.cycle, self.packets);
        }
    }

    fn late_cycles(&self) -> LateCycles {
        self.line.late_cycles()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_driver::{Departure, VirtualDriver, plan};

    const MILLI: u64 = 1_000_000;

    /// One datagram per millisecond for a second.
    fn run(
        deficit: Deficit,
        driver: impl FnOnce(VirtualDriver) -> VirtualDriver,
    ) -> (Vec<Departure>, SendSleep) {
        let plan = plan(1_000_000, 125, 1);
        let mut schedule = SendSleep::new(&plan, deficit, None);
        let mut driver = driver(VirtualDriver::new(plan.size_on_layer()));
        driver.run(&mut schedule, 1000 * MILLI);
        (driver.departures, schedule)
    }

    #[test]
    fn without_a_counter_it_is_slow_by_exactly_the_oversleep() {
        for deficit in [Deficit::None, Deficit::SendTime] {
            let (departures, _) = run(deficit, |driver| VirtualDriver {
                oversleeps: vec![60_000],
                send_costs: vec![20_000],
                ..driver
            });
            for (departure, k) in departures.iter().zip(0_i64..) {
                assert_eq!(departure.error(), TimeDelta::from_nanos(60_000 * k));
            }
            assert_eq!(departures.len(), 944);
        }
    }

    #[test]
    fn only_the_counter_repays_a_long_send() {
        let slow = |driver| VirtualDriver {
            send_costs: vec![10_000],
            stall: Some((100 * MILLI + 5_000, 104 * MILLI + MILLI / 2)),
            ..driver
        };
        let last_error = |deficit| {
            let (departures, _) = run(deficit, slow);
            departures[departures.len() - 1].error()
        };
        // The stall is in a send: it ends 3.5 ms after the period.
        assert_eq!(last_error(Deficit::None), TimeDelta::from_micros(3_500));
        assert_eq!(last_error(Deficit::SendTime), TimeDelta::ZERO);
        assert_eq!(last_error(Deficit::SendTimeAndOversleep), TimeDelta::ZERO);
    }

    #[test]
    fn the_counter_matches_the_printed_loop() {
        let (period, at) =
            (TimeDelta::from_millis(10), |millis: i64| Timestamp::ZERO + TimeDelta::from_millis(millis));
        let mut schedule = SendSleep::new(&plan(100_000, 125, 1), Deficit::SendTime, None);
        let mut cycle = |begin: i64, end: i64| {
            assert!(matches!(schedule.next(at(begin)), Step::Send(_)));
            schedule.on_sent(at(end), DataSize::from_bytes(125));
            (schedule.next(at(end)), schedule.deficit())
        };
        // 25 ms over: no sleep, and two later sleeps are skipped to repay it, the third one in part.
        assert_eq!(cycle(0, 10 + 25).1, period * 5 / 2);
        assert_eq!(cycle(35, 36).1, TimeDelta::from_millis(16));
        assert_eq!(cycle(36, 37).1, TimeDelta::from_millis(7));
        assert_eq!(cycle(37, 38), (Step::SleepFor(TimeDelta::from_millis(2)), TimeDelta::ZERO));
    }

    #[test]
    fn measured_oversleep_is_repaid_by_the_extension() {
        let (departures, schedule) = run(Deficit::SendTimeAndOversleep, |driver| VirtualDriver {
            oversleeps: vec![60_000, 4 * MILLI, 0],
            send_costs: vec![20_000],
            ..driver
        });
        // Never early, and never later than the longest oversleep.
        assert!(departures.iter().all(|departure| departure.error() >= TimeDelta::ZERO));
        assert!(departures.iter().all(|departure| departure.error() <= TimeDelta::from_millis(5)));
        assert!((996..=1000).contains(&departures.len()), "{}", departures.len());
        assert!(schedule.deficit() <= TimeDelta::from_millis(5));
    }

    #[test]
    fn an_unfinished_sleep_is_requested_again() {
        let at = Timestamp::from_nanos;
        let mut schedule =
            SendSleep::new(&plan(1_000_000, 125, 1), Deficit::SendTimeAndOversleep, Some(at(10)));
        assert_eq!(schedule.next(at(3)), Step::SleepUntil(at(10)));
        schedule.on_woke(at(4));
        assert_eq!(schedule.next(at(4)), Step::SleepUntil(at(10)));
        assert!(matches!(schedule.next(at(10)), Step::Send(_)));
        schedule.on_sent(at(10), DataSize::from_bytes(125));
        assert_eq!(schedule.next(at(10)), Step::SleepFor(TimeDelta::from_millis(1)));
        assert_eq!(schedule.next(at(400_010)), Step::SleepFor(TimeDelta::from_micros(600)));
        assert_eq!(schedule.next(at(1_000_017)), Step::Send(Cycle { packets: 1, due: at(1_000_010) }));
        assert_eq!(schedule.deficit(), TimeDelta::from_nanos(7));
    }
}
