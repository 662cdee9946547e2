//! `dt0`, `dt1`, `dt2`, `dt2-live`: shapers that measure durations cycle by cycle.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    ideal::IdealLine,
    plan::CyclePlan,
    schedule::{Cycle, LateCycles, Schedule, Step},
};

/// The published algorithm that a [`DifferentialTime`] implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum DifferentialRule {
    /// DT0 according to its text and Figure 6: the excess time of a cycle shortens only the next sleep.
    Dt0,
    /// DT0 according to its listing (Figure 3), for comparison: a negative sleep is also subtracted.
    Dt0AsPrinted,
    /// DT1: an oversleep shortens the following sleeps.
    Dt1,
    /// DT2: the excess time of a cycle, sends included, shortens the following sleeps.
    Dt2,
    /// DT2 that restarts after a gap in the data.
    Dt2Live {
        /// A longer wait for data is a gap. Default: the time of the latest cycle at the rate, as DT0 and DT1
        /// imply.
        gap_threshold: Option<TimeDelta>,
    },
}

giusto_units::defaults! {
    /// Sends a cycle, then sleeps for the rest of its time, using only durations: the Differential Time
    /// algorithms of Chiu et al., "Experiences in Programming a Traffic Shaper".
    ///
    /// | symbol there | here |
    /// |---|---|
    /// | `transmitTime` | the size sent over the rate |
    /// | `sendTime` | from the end of one cycle to the end of the next send, including waits for data |
    /// | `sleepTime` | the duration of [`Step::SleepFor`] |
    /// | `getTime()` | the `now` of the call, which may be coarse |
    ///
    /// **DT0** (§2): `sleepTime = max(transmitTime − sendTime, 0)`, where `sendTime` is that of the previous
    /// cycle: its duration minus the requested sleep, so that an oversleep counts as sending. An excess beyond
    /// one transmit time is lost. *Misprint:* the listing does not clamp `sleepTime` before
    /// `sendTime = end − start − sleepTime`. A negative sleep is then carried on to the next cycle, which carries
    /// the rest on again, and the average becomes exact. This contradicts §3, by which the oversleep "cannot be
    /// compensated even if sleeping is skipped in the subsequent cycle", and Figures 6 and 7. The formula of §2
    /// has the maximum, so it is clamped here; [`DifferentialRule::Dt0AsPrinted`] implements the listing.
    ///
    /// **DT1** (§4): `sleepTime = transmitTime − sendTime`, with the `sendTime` of this cycle. The oversleep,
    /// `lostTime = end − wakeUpAt`, is subtracted from the following sleeps until it is compensated. The excess
    /// of a send over its transmit time is lost. *Misprint:* the listing assigns `ostTime` instead of `lostTime`.
    ///
    /// **DT2** (§4): `sleepTime = transmitTime`, minus `lostTime = end − start − sleepTime` of the previous
    /// cycles, which includes sending and oversleeping. *Misprint:* the listing adds to `size` and never clears
    /// it. Here it is cleared once its time has passed, by a sleep or by a reduction of `lostTime`, so it is the
    /// size of one cycle. (Clearing it after each sleep, and leaving `lostTime` unchanged until then, gives the
    /// same sleeps.)
    ///
    /// **DT2 for live data** (§7, "can be applied to DT2 in a similar manner"): if
    /// [`on_starved`](Schedule::on_starved) reports a wait beyond the threshold, `start = now` and
    /// `lostTime = 0`.
    ///
    /// DT0 and DT1 need no threshold (§6): a wait for data is part of `sendTime`, and the excess over the
    /// transmit time is lost. After a gap two cycles are therefore sent together, and then the shaper is in its
    /// initial state. DT2 compensates the whole gap, back to back and without limit;
    /// [`BurstLimit`](super::BurstLimit) limits it.
    ///
    /// A coarse clock measures durations too long as often as too short. DT1 and DT2 compensate the former and
    /// clamp the latter. If the clock's steps are not small compared with a cycle, they therefore exceed the
    /// rate; [`AbsoluteTime`](super::AbsoluteTime) does not.
    ///
    /// `due` is the time at which an ideal sender would send the cycle, `start + bits / rate`. Time that is not
    /// compensated appears as a growing schedule error. Only `dt2-live` moves it, on a restart.
    #[derive(Debug, Clone)]
    pub struct DifferentialTime {
        line: IdealLine = IdealLine::new(plan.bps(), start),
        packets: u32 = plan.packets_per_cycle(),
        cycle: DataSize = plan.cycle_size(),
        rule: DifferentialRule = rule,
        /// End of the previous cycle: `start` in the listing. `None` before the first call.
        cycle_start: Option<Timestamp> = None,
        /// The time of the latest cycle at the rate.
        transmit_time: TimeDelta = plan.period(),
        /// DT0: send time of the latest cycle.
        send_time: TimeDelta = TimeDelta::ZERO,
        /// DT1 and DT2: time by which the following sleeps are still to be shortened.
        lost: TimeDelta = TimeDelta::ZERO,
        state: State = start.map_or(State::Ready, |until| State::Waiting { until }),
    }
    /// Cycles of `plan`, starting at `start` or, without it, at the first call.
    pub fn new(plan: &CyclePlan, rule: DifferentialRule, start: Option<Timestamp>);
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Before the start.
    Waiting { until: Timestamp },
    /// A cycle may be sent.
    Ready,
    /// A cycle was requested.
    Sending,
    /// A sleep must be requested.
    Sent { sleep: TimeDelta },
    /// A sleep was requested.
    Sleeping { until: Timestamp, sleep: TimeDelta },
}

impl DifferentialTime {
    /// The sleep after a send that ended at `now`. Negative only with DT0 as printed.
    fn sleep_after_send(&mut self, now: Timestamp) -> TimeDelta {
        let transmit_time = self.transmit_time;
        match self.rule {
            DifferentialRule::Dt0 => (transmit_time - self.send_time).max(TimeDelta::ZERO),
            DifferentialRule::Dt0AsPrinted => transmit_time - self.send_time,
            DifferentialRule::Dt1 => {
                let send_time = self.since_cycle_start(now);
                self.repaid((transmit_time - send_time).max(TimeDelta::ZERO))
            }
            DifferentialRule::Dt2 | DifferentialRule::Dt2Live { .. } => self.repaid(transmit_time),
        }
    }

    /// `sleep`, shortened by the lost time as far as possible.
    fn repaid(&mut self, sleep: TimeDelta) -> TimeDelta {
        let repaid = self.lost.min(sleep);
        self.lost -= repaid;
        sleep - repaid
    }

    /// Ends the cycle at `now`, after a requested sleep of `sleep`, or without one if that is not above zero.
    fn end_cycle(&mut self, now: Timestamp, sleep: TimeDelta, wake_up_at: Timestamp) {
        let cycle_time = self.since_cycle_start(now);
        match self.rule {
            DifferentialRule::Dt0 | DifferentialRule::Dt0AsPrinted => {
                self.send_time = (cycle_time - sleep).max(TimeDelta::ZERO);
            }
            DifferentialRule::Dt1 if sleep > TimeDelta::ZERO => {
                self.lost = now.saturating_since(wake_up_at);
            }
            DifferentialRule::Dt2 | DifferentialRule::Dt2Live { .. } if sleep > TimeDelta::ZERO => {
                self.lost = (cycle_time - sleep).max(TimeDelta::ZERO);
            }
            // DT2 measures from sleep to sleep.
            DifferentialRule::Dt2 | DifferentialRule::Dt2Live { .. } => return,
            DifferentialRule::Dt1 => {}
        }
        self.cycle_start = Some(now);
    }

    fn since_cycle_start(&self, now: Timestamp) -> TimeDelta {
        self.cycle_start.map_or(TimeDelta::ZERO, |start| now.saturating_since(start))
    }
}

impl Schedule for DifferentialTime {
    fn next(&mut self, now: Timestamp) -> Step {
        let now = self.line.on_time(now);
        match self.state {
            State::Waiting { until } if now < until => return Step::SleepUntil(until),
            State::Sent { sleep } if sleep > TimeDelta::ZERO => {
                self.state = State::Sleeping { until: now + sleep, sleep };
                return Step::SleepFor(sleep);
            }
            // The driver called again before it slept: return the rest of the sleep.
            State::Sleeping { until, .. } if now < until => return Step::SleepFor(until - now),
            State::Sleeping { .. } => self.on_woke(now),
            State::Waiting { .. } | State::Ready | State::Sending | State::Sent { .. } => {}
        }
        self.cycle_start.get_or_insert(now);
        self.state = State::Sending;
        Step::Send(Cycle { packets: self.packets, due: self.line.due() })
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        let now = self.line.on_time(now);
        let transmit_time = self.line.step(size);
        self.state = match self.state {
            State::Ready | State::Sending => {
                self.transmit_time = transmit_time;
                let sleep = self.sleep_after_send(now);
                if sleep <= TimeDelta::ZERO {
                    self.end_cycle(now, sleep, now);
                }
                State::Sent { sleep }
            }
            // Sent without a request: the sleep grows by its time.
            State::Sent { sleep } => State::Sent { sleep: sleep.max(TimeDelta::ZERO) + transmit_time },
            State::Sleeping { until, sleep } => {
                State::Sleeping { until: until + transmit_time, sleep: sleep + transmit_time }
            }
            State::Waiting { until } => State::Waiting { until: until + transmit_time },
        };
    }

    fn on_woke(&mut self, now: Timestamp) {
        let now = self.line.clamp(now);
        if let State::Sleeping { until, sleep } = self.state {
            self.end_cycle(now, sleep, until);
            self.state = State::Ready;
        }
    }

    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        let now = self.line.clamp(now);
        let DifferentialRule::Dt2Live { gap_threshold } = self.rule else { return };
        if now.saturating_since(since) > gap_threshold.unwrap_or(self.transmit_time) {
            self.line.begin(now);
            self.cycle_start = Some(now);
            self.lost = TimeDelta::ZERO;
        }
    }

    /// What DT0 and DT1 do not compensate is lost by design, and is no cycle that was due.
    fn on_ended(&mut self, end: Timestamp) {
        if let DifferentialRule::Dt2 | DifferentialRule::Dt2Live { .. } = self.rule {
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
    use crate::virtual_driver::{self, plan};

    const LIVE: DifferentialRule = DifferentialRule::Dt2Live { gap_threshold: None };

    fn ms(millis: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_millis(millis)
    }

    /// The requested sleep after each of `cycles`, in ms. A cycle has a send duration and an oversleep, and
    /// takes 10 ms at the rate.
    fn sleeps(rule: DifferentialRule, cycles: &[(i64, i64)]) -> Vec<i64> {
        let mut schedule = DifferentialTime::new(&plan(100_000, 125, 1), rule, None);
        let mut now = ms(0);
        cycles
            .iter()
            .map(|&(send, overshoot)| {
                assert!(matches!(schedule.next(now), Step::Send(_)));
                now += TimeDelta::from_millis(send);
                schedule.on_sent(now, DataSize::from_bytes(125));
                match schedule.next(now) {
                    Step::SleepFor(span) => {
                        now += span + TimeDelta::from_millis(overshoot);
                        schedule.on_woke(now);
                        span.as_nanos() / 1_000_000
                    }
                    Step::Send(_) => 0,
                    step => panic!("{step:?}"),
                }
            })
            .collect()
    }

    #[test]
    fn dt0_shortens_only_the_next_sleep() {
        // By hand: sendTime after each cycle is 2, 8, 5 + 2, 2, 32, 2, 2.
        let cycles = [(2, 0), (2, 6), (2, 5), (2, 0), (2, 30), (2, 0), (2, 0)];
        assert_eq!(sleeps(DifferentialRule::Dt0, &cycles), [10, 8, 2, 3, 8, 0, 8]);
    }

    #[test]
    fn dt0_as_printed_carries_a_negative_sleep() {
        // sendTime: 2, 32, 2 + 22, 2 + 14, 2 + 6, 2. The 30 ms are fully compensated: 22 + 14 + 6 = 3 · 8 + …
        let cycles = [(2, 0), (2, 30), (2, 0), (2, 0), (2, 0), (2, 0), (2, 0)];
        assert_eq!(sleeps(DifferentialRule::Dt0AsPrinted, &cycles), [10, 8, 0, 0, 0, 2, 8]);
        assert_eq!(sleeps(DifferentialRule::Dt0, &cycles), [10, 8, 0, 8, 8, 8, 8]);
    }

    #[test]
    fn dt1_compensates_oversleep_but_not_slow_sends() {
        // lostTime after each cycle: 7, 0, 20, 12, 4, 4 (no sleep to subtract it from), 0.
        let cycles = [(2, 7), (2, 20), (2, 0), (2, 0), (15, 0), (2, 0), (2, 0)];
        assert_eq!(sleeps(DifferentialRule::Dt1, &cycles), [8, 1, 0, 0, 0, 4, 8]);
    }

    #[test]
    fn dt2_compensates_all_excess_time() {
        // lostTime after each sleep is the time since the previous sleep minus the requested sleep: 2 + 7 =
        // 9; 1 of 10 requested, 2 + 20 too long = 22; that reduces the next three by 10, 10 and 2, where 15
        // ms of sending are included in what follows.
        let cycles = [(2, 7), (2, 20), (2, 0), (2, 0), (15, 0), (2, 0), (2, 0), (2, 0)];
        assert_eq!(sleeps(DifferentialRule::Dt2, &cycles), [10, 1, 0, 0, 8, 0, 1, 6]);
        assert_eq!(sleeps(LIVE, &cycles), [10, 1, 0, 0, 8, 0, 1, 6]);
    }

    /// Departure times of cycles that take no time to send, in ms. The third cycle waits for its data from 20
    /// to 65 ms.
    fn departures_around_a_gap(rule: DifferentialRule) -> Vec<u64> {
        let mut schedule = DifferentialTime::new(&plan(100_000, 125, 1), rule, None);
        virtual_driver::departures_around_a_gap(&mut schedule, 9)
    }

    #[test]
    fn after_a_gap_all_but_dt2_restart() {
        assert_eq!(
            departures_around_a_gap(DifferentialRule::Dt1),
            [0, 10, 65, 65, 75, 85, 95, 105, 115],
            "as §6 says, and with one sleep skipped"
        );
        // DT0 detects the gap one cycle later.
        assert_eq!(departures_around_a_gap(DifferentialRule::Dt0), [0, 10, 65, 75, 75, 85, 95, 105, 115]);
        // 45 ms give four cycles back to back and half of one.
        assert_eq!(departures_around_a_gap(DifferentialRule::Dt2), [0, 10, 65, 75, 75, 75, 75, 75, 80]);
        assert_eq!(departures_around_a_gap(LIVE), [0, 10, 65, 75, 85, 95, 105, 115, 125]);
        let patient = DifferentialRule::Dt2Live { gap_threshold: Some(TimeDelta::from_millis(45)) };
        assert_eq!(departures_around_a_gap(patient), departures_around_a_gap(DifferentialRule::Dt2));
    }

    #[test]
    fn a_coarse_clock_is_used_as_it_is() {
        // 500 B at 100 kB/s, sends of 2 ms, sleeps of 10 ms, a clock in ms: the example of the paper.
        let mut schedule = DifferentialTime::new(&plan(800_000, 500, 1), DifferentialRule::Dt0, Some(ms(3)));
        assert_eq!(schedule.next(ms(0)), Step::SleepUntil(ms(3)));
        schedule.on_woke(ms(5));
        let mut asked = Vec::new();
        let mut now = ms(5);
        for _ in 0..6 {
            assert!(matches!(schedule.next(now), Step::Send(_)));
            now += TimeDelta::from_millis(2);
            schedule.on_sent(now, DataSize::from_bytes(500));
            if let Step::SleepFor(span) = schedule.next(now) {
                asked.push(span.as_nanos() / 1_000_000);
                now += TimeDelta::from_millis(10);
                assert!(matches!(schedule.next(now), Step::Send(_)), "the sleep ended without on_woke");
            }
        }
        // At the first sleep no send is known; afterwards every other cycle sleeps for 3 ms.
        assert_eq!(asked, [5, 3, 3]);
        assert_eq!(schedule.lost, TimeDelta::ZERO);
    }
}
