//! `dt0`, `dt1`, `dt2`, `dt2-live`: shapers that measure durations, cycle by cycle.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    ideal::{Forward, IdealLine},
    plan::CyclePlan,
    schedule::{Cycle, Schedule, Slips, Step},
};

/// Which of the published algorithms a [`DifferentialTime`] follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DifferentialRule {
    /// DT0, as its text and Figure 6 mean it: what one cycle took too long shortens the next sleep, and only the next.
    Dt0,
    /// DT0 as its listing (Figure 3) computes it, to be compared: a sleep that would be negative is subtracted all the same.
    Dt0AsPrinted,
    /// DT1: what a sleep overshoots is made good by the sleeps to come.
    Dt1,
    /// DT2: what a cycle takes too long, sends included, is made good by the sleeps to come.
    Dt2,
    /// DT2 that begins anew after a gap in the data.
    Dt2Live {
        /// A longer wait for data is a gap. By default the time that the latest cycle takes at the rate, which is what DT0 and
        /// DT1 imply.
        gap_threshold: Option<TimeDelta>,
    },
}

/// Sends a cycle, then sleeps for what remains of its time, by durations alone: the Differential Time algorithms of Chiu et
/// al., "Experiences in Programming a Traffic Shaper".
///
/// | symbol there | here |
/// |---|---|
/// | `transmitTime` | the size sent over the rate |
/// | `sendTime` | from the end of one cycle to the end of the next send; data that is waited for counts |
/// | `sleepTime` | what [`Step::SleepFor`] asks for |
/// | `getTime()` | the `now` of the call; it may be coarse |
///
/// **DT0** (§2): `sleepTime = max(transmitTime − sendTime, 0)`, where `sendTime` is that of the cycle before: its duration
/// less the sleep asked for, so that what that sleep overshot counts as sending. A surplus beyond one transmit time is lost.
/// *Misprint:* the listing does not clamp `sleepTime` before `sendTime = end − start − sleepTime`. Then a negative sleep is
/// carried on to the next cycle, which carries its rest on again, and the average becomes exact: against §3, by which the
/// oversleep "cannot be compensated even if sleeping is skipped in the subsequent cycle", and against Figures 6 and 7. The
/// formula of §2 has the maximum, so it is clamped here; [`DifferentialRule::Dt0AsPrinted`] has the listing.
///
/// **DT1** (§4): `sleepTime = transmitTime − sendTime`, with the `sendTime` of this cycle. What a sleep overshoots,
/// `lostTime = end − wakeUpAt`, is taken off the sleeps to come until it is made good. Sending that takes longer than its
/// transmit time is lost. *Misprint:* the listing assigns `ostTime` instead of `lostTime`.
///
/// **DT2** (§4): `sleepTime = transmitTime`, less `lostTime = end − start − sleepTime` of the cycles before, which holds both
/// sending and oversleeping. *Misprint:* the listing adds to `size` and never clears it. Cleared once its time is paid, slept
/// or taken off `lostTime`, it is the size of one cycle, as here. (To clear it after each sleep instead, and to leave
/// `lostTime` alone until then, gives the same sleeps.)
///
/// **DT2 for live data** (§7, "can be applied to DT2 in a similar manner"): where [`on_starved`](Schedule::on_starved) tells
/// of a wait beyond the threshold, `start = now` and `lostTime = 0`.
///
/// DT0 and DT1 need no threshold (§6): a wait for data is part of `sendTime`, and what exceeds the transmit time is
/// forgotten. So after a gap two cycles leave together, and then the shaper is as new. DT2 makes the whole gap good, back to
/// back and without bound; [`BurstLimit`](super::BurstLimit) bounds it.
///
/// A coarse clock reads durations too long as often as too short. DT1 and DT2 make good the former and clamp away the latter,
/// so where the steps of the clock are not small against a cycle they run ahead of the rate;
/// [`AbsoluteTime`](super::AbsoluteTime) does not.
///
/// `due` is the moment at which an ideal sender would send the cycle, `start + bits / rate`; time lost for good shows as a
/// growing schedule error. Only `dt2-live` moves it, when it begins anew.
#[derive(Debug, Clone)]
pub struct DifferentialTime {
    line: IdealLine,
    clock: Forward,
    packets: u32,
    rule: DifferentialRule,
    /// When the cycle before ended: `start` there. Nothing before the first call.
    cycle_start: Option<Timestamp>,
    /// The time that the latest cycle took at the rate.
    transmit_time: TimeDelta,
    /// DT0: of the latest cycle.
    send_time: TimeDelta,
    /// DT1 and DT2: what the sleeps to come are still shortened by.
    lost: TimeDelta,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The start is still to come.
    Waiting { until: Timestamp },
    /// A cycle may be sent.
    Ready,
    /// A cycle was asked for.
    Sending,
    /// A sleep is to be asked for.
    Sent { sleep: TimeDelta },
    /// A sleep was asked for.
    Sleeping { until: Timestamp, sleep: TimeDelta },
}

impl DifferentialTime {
    /// Cycles of `plan`, from `start` on, or else from the first call on.
    pub fn new(plan: &CyclePlan, rule: DifferentialRule, start: Option<Timestamp>) -> Self {
        Self {
            line: IdealLine::new(plan.bps(), start),
            clock: Forward::default(),
            packets: plan.packets_per_cycle(),
            rule,
            cycle_start: None,
            transmit_time: plan.period(),
            send_time: TimeDelta::ZERO,
            lost: TimeDelta::ZERO,
            state: start.map_or(State::Ready, |until| State::Waiting { until }),
        }
    }

    /// The time by which the next sleeps are shortened: always zero with DT0, which has no such account.
    #[inline]
    pub fn lost_time(&self) -> TimeDelta {
        self.lost
    }

    /// The sleep after a send that ended at `now`; negative only where DT0 is followed as printed.
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

    /// `sleep` less what was lost, as far as it goes.
    fn repaid(&mut self, sleep: TimeDelta) -> TimeDelta {
        let repaid = self.lost.min(sleep);
        self.lost -= repaid;
        sleep - repaid
    }

    /// The cycle ends at `now`, after a sleep of which `sleep` had been asked for, or without one where that is not above zero.
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
        let now = self.clock.clamp(now);
        self.line.ensure_begun(now);
        match self.state {
            State::Waiting { until } if now < until => return Step::SleepUntil(until),
            State::Sent { sleep } if sleep > TimeDelta::ZERO => {
                self.state = State::Sleeping { until: now + sleep, sleep };
                return Step::SleepFor(sleep);
            }
            // The driver asks again before it slept: the rest of the sleep.
            State::Sleeping { until, .. } if now < until => return Step::SleepFor(until - now),
            State::Sleeping { .. } => self.on_woke(now),
            State::Waiting { .. } | State::Ready | State::Sending | State::Sent { .. } => {}
        }
        self.cycle_start.get_or_insert(now);
        self.state = State::Sending;
        Step::Send(Cycle { packets: self.packets, due: self.line.due() })
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        let now = self.clock.clamp(now);
        self.line.ensure_begun(now);
        // The exact line's steps, so that the fractions of a nanosecond are not lost either.
        let before = self.line.due();
        self.line.advance(size);
        let transmit_time = self.line.due() - before;
        self.state = match self.state {
            State::Ready | State::Sending => {
                self.transmit_time = transmit_time;
                let sleep = self.sleep_after_send(now);
                if sleep <= TimeDelta::ZERO {
                    self.end_cycle(now, sleep, now);
                }
                State::Sent { sleep }
            }
            // Sent without being asked for: the wait grows by its time.
            State::Sent { sleep } => State::Sent { sleep: sleep.max(TimeDelta::ZERO) + transmit_time },
            State::Sleeping { until, sleep } => {
                State::Sleeping { until: until + transmit_time, sleep: sleep + transmit_time }
            }
            State::Waiting { until } => State::Waiting { until: until + transmit_time },
        };
    }

    fn on_woke(&mut self, now: Timestamp) {
        let now = self.clock.clamp(now);
        if let State::Sleeping { until, sleep } = self.state {
            self.end_cycle(now, sleep, until);
            self.state = State::Ready;
        }
    }

    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        let now = self.clock.clamp(now);
        let DifferentialRule::Dt2Live { gap_threshold } = self.rule else { return };
        if now.saturating_since(since) > gap_threshold.unwrap_or(self.transmit_time) {
            self.line.begin(now);
            self.cycle_start = Some(now);
            self.lost = TimeDelta::ZERO;
        }
    }

    fn slips(&self) -> Slips {
        Slips { clock_reversals: self.clock.reversals(), ..Slips::default() }
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

    /// The sleep asked for, in ms, after each of `cycles`: how long its send took, and by how much its sleep, if there was
    /// one, overshot. A cycle is 10 ms.
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
    fn dt0_takes_what_one_cycle_took_too_long_off_the_next_sleep_alone() {
        // By hand: sendTime after each cycle is 2, 8, 5 + 2, 2, 32, 2, 2.
        let cycles = [(2, 0), (2, 6), (2, 5), (2, 0), (2, 30), (2, 0), (2, 0)];
        assert_eq!(sleeps(DifferentialRule::Dt0, &cycles), [10, 8, 2, 3, 8, 0, 8]);
    }

    #[test]
    fn dt0_as_printed_carries_a_negative_sleep_on() {
        // sendTime: 2, 32, 2 + 22, 2 + 14, 2 + 6, 2. The 30 ms are made good: 22 + 14 + 6 = 3 · 8 + …, to the last.
        let cycles = [(2, 0), (2, 30), (2, 0), (2, 0), (2, 0), (2, 0), (2, 0)];
        assert_eq!(sleeps(DifferentialRule::Dt0AsPrinted, &cycles), [10, 8, 0, 0, 0, 2, 8]);
        assert_eq!(sleeps(DifferentialRule::Dt0, &cycles), [10, 8, 0, 8, 8, 8, 8]);
    }

    #[test]
    fn dt1_makes_oversleep_good_and_not_slow_sends() {
        // lostTime after each cycle: 7, 0, 20, 12, 4, 4 (no sleep to take it off), 0.
        let cycles = [(2, 7), (2, 20), (2, 0), (2, 0), (15, 0), (2, 0), (2, 0)];
        assert_eq!(sleeps(DifferentialRule::Dt1, &cycles), [8, 1, 0, 0, 0, 4, 8]);
    }

    #[test]
    fn dt2_makes_all_good_that_a_cycle_took_too_long() {
        // lostTime after each sleep is the time since the sleep before, less the sleep asked for: 2 + 7 = 9; 1 asked of 10,
        // 2 + 20 too long = 22; that is 10, 10 and 2 off the next three, 15 ms of sending included in what follows.
        let cycles = [(2, 7), (2, 20), (2, 0), (2, 0), (15, 0), (2, 0), (2, 0), (2, 0)];
        assert_eq!(sleeps(DifferentialRule::Dt2, &cycles), [10, 1, 0, 0, 8, 0, 1, 6]);
        assert_eq!(sleeps(LIVE, &cycles), [10, 1, 0, 0, 8, 0, 1, 6]);
    }

    /// When cycles leave, in ms, that take no time to send, of which the third waits from 20 to 65 ms for its data.
    fn departures_around_a_gap(rule: DifferentialRule) -> Vec<u64> {
        let mut schedule = DifferentialTime::new(&plan(100_000, 125, 1), rule, None);
        virtual_driver::departures_around_a_gap(&mut schedule, 9)
    }

    #[test]
    fn after_a_gap_all_but_dt2_begin_anew() {
        assert_eq!(
            departures_around_a_gap(DifferentialRule::Dt1),
            [0, 10, 65, 65, 75, 85, 95, 105, 115],
            "as §6 says, and with one sleep skipped"
        );
        // DT0 learns of the gap one cycle later.
        assert_eq!(departures_around_a_gap(DifferentialRule::Dt0), [0, 10, 65, 75, 75, 85, 95, 105, 115]);
        // 45 ms make four cycles back to back and half of one.
        assert_eq!(departures_around_a_gap(DifferentialRule::Dt2), [0, 10, 65, 75, 75, 75, 75, 75, 80]);
        assert_eq!(departures_around_a_gap(LIVE), [0, 10, 65, 75, 85, 95, 105, 115, 125]);
        let patient = DifferentialRule::Dt2Live { gap_threshold: Some(TimeDelta::from_millis(45)) };
        assert_eq!(departures_around_a_gap(patient), departures_around_a_gap(DifferentialRule::Dt2));
    }

    #[test]
    fn a_coarse_clock_is_taken_at_its_word() {
        // 500 B at 100 kB/s, sends of 2 ms, sleeps that last 10 ms, a clock in ms: the paper's own case.
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
                assert!(matches!(schedule.next(now), Step::Send(_)), "it is over without being told");
            }
        }
        // The first sleep knows of no send yet, then every other cycle sleeps for 3 ms.
        assert_eq!(asked, [5, 3, 3]);
        assert_eq!(schedule.lost_time(), TimeDelta::ZERO);
    }
}
