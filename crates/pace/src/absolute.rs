//! `at0`, `at1`: shapers that use absolute times.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    ideal::IdealLine,
    plan::CyclePlan,
    schedule::{Cycle, LateCycles, Schedule, Step},
};

/// When [`AbsoluteTime`] starts a new session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum SessionRule {
    /// AT0: never. The rate is that of the whole session, including gaps: the file transfer model.
    #[default]
    Whole,
    /// AT1: a gap in the data. The rate is that of each fragment: the live-data model.
    Fragments {
        /// A longer wait for data is a gap. Default: the time of the latest cycle at the rate, as DT0 and DT1
        /// imply.
        gap_threshold: Option<TimeDelta>,
    },
}

/// Sends a cycle, then sleeps until the ideal end of all data sent: the Absolute Time algorithms of Chiu et
/// al., "Experiences in Programming a Traffic Shaper".
///
/// **AT0** (§5):
///
/// ```text
/// next      = start + dataSent / rate
/// sleepTime = next − getTime()
/// ```
///
/// where `getTime()` is the `now` of the call, which may be coarse. The sleep is relative
/// ([`Step::SleepFor`]), as printed. The average rate is exact, whatever the oversleep. After a delay, or
/// after a gap in the data, the missing cycles are sent back to back without limit
/// ([`BurstLimit`](super::BurstLimit) limits them). [`Grid`](super::Grid) uses the same idea with absolute
/// sleeps and its own burst limit.
///
/// **AT1** (§7): if [`on_starved`](Schedule::on_starved) reports a wait for data beyond the threshold,
/// `start = now` and `dataSent = 0`. *Misprints:* the listing measures the wait while the queue is *not*
/// empty, and does not reset `dataSent`, so that the next cycle would wait for the time of all data ever
/// sent.
///
/// `due` is `next`, rounded up to the nanosecond.
#[derive(Debug, Clone)]
pub struct AbsoluteTime {
    line: IdealLine,
    packets: u32,
    cycle: DataSize,
    rule: SessionRule,
    start: Option<Timestamp>,
    /// The time of the latest cycle at the rate.
    transmit_time: TimeDelta,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// A cycle may be sent, or was requested.
    Ready,
    /// A cycle was sent.
    Sent,
    /// A sleep was requested.
    Sleeping { until: Timestamp },
}

impl AbsoluteTime {
    /// Cycles of `plan`, starting at `start` or, without it, at the first call.
    pub fn new(plan: &CyclePlan, rule: SessionRule, start: Option<Timestamp>) -> Self {
        Self {
            line: IdealLine::new(plan.bps(), start),
            packets: plan.packets_per_cycle(),
            cycle: plan.cycle_size(),
            rule,
            start,
            transmit_time: plan.period(),
            state: State::Ready,
        }
    }
}

impl Schedule for AbsoluteTime {
    fn next(&mut self, now: Timestamp) -> Step {
        let now = self.line.on_time(now);
        if let Some(start) = self.start.filter(|&start| now < start) {
            return Step::SleepUntil(start);
        }
        let due = self.line.due();
        match self.state {
            State::Sent if now < due => {
                self.state = State::Sleeping { until: due };
                Step::SleepFor(due - now)
            }
            // The driver called again before it slept: return the rest of the sleep.
            State::Sleeping { until } if now < until => Step::SleepFor(until - now),
            State::Ready | State::Sent | State::Sleeping { .. } => {
                self.state = State::Ready;
                Step::Send(Cycle { packets: self.packets, due })
            }
        }
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        self.line.on_time(now);
        self.transmit_time = self.line.step(size);
        self.state = State::Sent;
    }

    fn on_woke(&mut self, now: Timestamp) {
        self.line.clamp(now);
        if let State::Sleeping { .. } = self.state {
            self.state = State::Ready;
        }
    }

    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        let now = self.line.clamp(now);
        let SessionRule::Fragments { gap_threshold } = self.rule else { return };
        if now.saturating_since(since) > gap_threshold.unwrap_or(self.transmit_time) {
            self.line.begin(now);
        }
    }

    fn on_ended(&mut self, end: Timestamp) {
        self.line.on_ended(end, self.cycle, self.packets);
    }

    fn late_cycles(&self) -> LateCycles {
        self.line.late_cycles()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_driver::{self, VirtualDriver, plan};

    const FRAGMENTS: SessionRule = SessionRule::Fragments { gap_threshold: None };

    fn ms(millis: i64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_millis(millis)
    }

    #[test]
    fn the_sleep_lasts_until_the_ideal_end_of_the_data_sent() {
        // 10 ms per cycle. Sends of 2 ms; the oversleeps are 7, 15, 0 and 0 ms.
        let mut schedule = AbsoluteTime::new(&plan(100_000, 125, 1), SessionRule::Whole, None);
        let mut table = Vec::new();
        let mut now = ms(100);
        for overshoot in [7, 15, 0, 0, 0] {
            let Step::Send(cycle) = schedule.next(now) else { panic!("no send") };
            let sent_at = now;
            now += TimeDelta::from_millis(2);
            schedule.on_sent(now, DataSize::from_bytes(125));
            let sleep = match schedule.next(now) {
                Step::SleepFor(span) => span.as_nanos() / 1_000_000,
                _ => 0,
            };
            if sleep > 0 {
                now += TimeDelta::from_millis(sleep + overshoot);
                schedule.on_woke(now);
            }
            let millis = |at: Timestamp| at.as_nanos() / 1_000_000;
            table.push((millis(sent_at), millis(cycle.due), sleep));
        }
        assert_eq!(table, [(100, 100, 8), (117, 110, 1), (135, 120, 0), (137, 130, 1), (140, 140, 8)]);
    }

    #[test]
    fn the_average_is_exact_at_any_oversleep() {
        let plan = plan(7_000_000, 1200, 1);
        for oversleeps in [vec![0], vec![60_000], vec![3_000_000, 0, 1], vec![10_000_000]] {
            let mut schedule = AbsoluteTime::new(&plan, SessionRule::Whole, None);
            let mut driver = VirtualDriver {
                oversleeps: oversleeps.clone(),
                send_costs: vec![20_000],
                ..VirtualDriver::new(plan.size_on_layer())
            };
            driver.run(&mut schedule, 10_000_000_000);
            let owed = driver.now as f64 * 7e6 / 8e9 - driver.sent().as_bytes() as f64;
            assert!(owed > -1200.1, "{oversleeps:?}: {owed} B ahead");
            assert!(owed < 7e6 / 8.0 * 0.012, "{oversleeps:?}: {owed} B behind");
        }
    }

    /// Departure times of cycles of 10 ms, in ms. The third cycle waits for its data from 20 to 65 ms.
    fn departures_around_a_gap(rule: SessionRule) -> Vec<u64> {
        let mut schedule = AbsoluteTime::new(&plan(100_000, 125, 1), rule, None);
        virtual_driver::departures_around_a_gap(&mut schedule, 8)
    }

    #[test]
    fn after_a_gap_at0_bursts_and_at1_restarts() {
        let bursting = [0, 10, 65, 65, 65, 65, 65, 70];
        assert_eq!(departures_around_a_gap(SessionRule::Whole), bursting);
        assert_eq!(departures_around_a_gap(FRAGMENTS), [0, 10, 65, 75, 85, 95, 105, 115]);
        let at = |millis| SessionRule::Fragments { gap_threshold: Some(TimeDelta::from_millis(millis)) };
        // It waited for 45 ms, counted from its request.
        assert_eq!(departures_around_a_gap(at(45)), bursting);
        assert_eq!(departures_around_a_gap(at(44)), [0, 10, 65, 75, 85, 95, 105, 115]);
    }

    #[test]
    fn an_unfinished_sleep_is_requested_again() {
        let mut schedule = AbsoluteTime::new(&plan(100_000, 125, 1), FRAGMENTS, Some(ms(50)));
        assert_eq!(schedule.next(ms(1)), Step::SleepUntil(ms(50)));
        assert_eq!(schedule.next(ms(51)), Step::Send(Cycle { packets: 1, due: ms(50) }));
        schedule.on_sent(ms(52), DataSize::from_bytes(125));
        assert_eq!(schedule.next(ms(52)), Step::SleepFor(TimeDelta::from_millis(8)));
        assert_eq!(schedule.next(ms(57)), Step::SleepFor(TimeDelta::from_millis(3)));
        assert_eq!(schedule.next(ms(60)), Step::Send(Cycle { packets: 1, due: ms(60) }));
    }
}
