//! `R_max`: a maximum burst rate for any schedule.

use alloc::boxed::Box;
use core::num::NonZeroU64;

use giusto_units::{DataRate, DataSize, Timestamp};

use super::{
    ideal::IdealLine,
    plan::PlanError,
    schedule::{LateCycles, Schedule, Step},
};

/// Limits another schedule to a maximum burst rate, even while it catches up.
///
/// Chiu et al., "Experiences in Programming a Traffic Shaper", §8:
///
/// ```text
/// burstTime = burstSent / burstRate
/// pauseTime = burstTime − (now − burstStart)
/// sleepTime = max(sleepTime, pauseTime)
/// ```
///
/// According to the text, a new burst starts after *each* sleep. In the listing it starts only when the pause
/// is the longer sleep, and the new `burstStart` is taken before the sleep. We follow the text. A new burst
/// also starts with the next cycle once the previous burst has had its time (`pauseTime ≤ 0`), with or
/// without a sleep. Otherwise a blocked send, or a schedule that never sleeps, would accumulate credit and
/// spend it above `R_max`. That would contradict §1, which defines the burst rate over "any subsequence of
/// data packets".
///
/// `burstStart` is the time at which [`next`](Schedule::next) returns the cycle, or at which its data came if
/// it had to [wait](Schedule::on_starved). Over any window `w`, measured at these times, at most `R_max · w`
/// plus one cycle is sent.
///
/// The inner schedule sees a pause as an oversleep or as a slow send, so a schedule that compensates for
/// these keeps its average. In the listing the pause replaces `sleepTime`: DT1 and DT2, which have subtracted
/// the shorter sleep from their `lostTime`, would never regain the rest.
///
/// Until a burst has had its time, a send of the inner schedule is delayed, and a sleep lasts at least until
/// then. A [`Poll`](Step::Poll) is passed on, because it sends nothing.
#[derive(Debug)]
pub struct BurstLimit {
    inner: Box<dyn Schedule>,
    /// From the request of the latest cycle to the end of its time at `r_max`.
    burst: IdealLine,
}

impl BurstLimit {
    /// Limits `inner` to `r_max`. If `r_max` is below the rate of `inner`, `r_max` becomes the rate.
    ///
    /// # Errors
    ///
    /// [`PlanError::RateZero`] if `r_max` is zero, because then nothing could be sent.
    pub fn new(inner: Box<dyn Schedule>, r_max: DataRate) -> Result<Self, PlanError> {
        let bps = NonZeroU64::new(r_max.as_bps()).ok_or(PlanError::RateZero { rate: r_max })?;
        let burst = IdealLine::new(bps, Some(Timestamp::ZERO));
        Ok(Self { inner, burst })
    }
}

impl Schedule for BurstLimit {
    fn next(&mut self, now: Timestamp) -> Step {
        let clamped = self.burst.clamp(now);
        let paid_at = self.burst.due();
        match self.inner.next(now) {
            Step::Send(_) if clamped < paid_at => Step::SleepUntil(paid_at),
            Step::Send(cycle) => {
                self.burst.begin(clamped);
                Step::Send(cycle)
            }
            Step::SleepFor(sleep) => Step::SleepFor(sleep.max(paid_at - clamped)),
            Step::SleepUntil(until) => Step::SleepUntil(until.max(paid_at)),
            step @ (Step::Poll | Step::Done) => step,
        }
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        self.burst.clamp(now);
        self.burst.advance(size);
        self.inner.on_sent(now, size);
    }

    fn on_woke(&mut self, now: Timestamp) {
        self.burst.clamp(now);
        self.inner.on_woke(now);
    }

    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        let clamped = self.burst.clamp(now);
        // It is later only if no cycle was returned and the burst has not had its time.
        if self.burst.due() <= clamped {
            self.burst.begin(clamped);
        }
        self.inner.on_starved(since, now);
    }

    fn on_ended(&mut self, end: Timestamp) {
        self.inner.on_ended(end);
    }

    fn late_cycles(&self) -> LateCycles {
        self.inner.late_cycles()
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;
    use crate::{
        Deficit, SendCompare, SendSleep, Unpaced,
        virtual_driver::{VirtualDriver, plan},
    };

    const MILLI: u64 = 1_000_000;

    fn limited(inner: impl Schedule + 'static, bps: u64) -> BurstLimit {
        BurstLimit::new(Box::new(inner), DataRate::from_bps(bps)).unwrap()
    }

    /// Departures from 20 to 45 ms, in microseconds, after a stall from 20.5 to 30.5 ms.
    fn departures(schedule: &mut dyn Schedule) -> Vec<i64> {
        let mut driver = VirtualDriver {
            stall: Some((20 * MILLI + MILLI / 2, 30 * MILLI + MILLI / 2)),
            poll_cost: 1000,
            ..VirtualDriver::new(DataSize::from_bytes(125))
        };
        driver.run(schedule, 45 * MILLI);
        driver
            .departures
            .iter()
            .map(|departure| departure.at.as_nanos() as i64 / 1000)
            .filter(|&at| at > 20_100)
            .collect()
    }

    #[test]
    fn a_catch_up_burst_is_limited_to_the_burst_rate() {
        let plan = plan(1_000_000, 125, 1);
        // 125 B at 4 Mbit/s take 250 us.
        let stretched = departures(&mut limited(SendCompare::new(&plan, None), 4_000_000));
        assert_eq!(stretched[..5], [30_500, 30_750, 31_000, 31_250, 31_500]);
        // 10 late cycles, and 3 more in the meantime: caught up at 33.5 ms.
        assert_eq!(stretched[12..16], [33_500, 34_001, 35_001, 36_001]);
        let sleeping = SendSleep::new(&plan, Deficit::SendTimeAndOversleep, None);
        assert_eq!(departures(&mut limited(sleeping, 2_000_000))[..4], [30_500, 31_000, 31_500, 32_000]);
    }

    #[test]
    fn without_a_schedule_it_limits_the_rate() {
        let at = departures(&mut limited(Unpaced::new(1, None), 500_000));
        assert_eq!(at[..3], [30_500, 32_500, 34_500]);
    }

    #[test]
    fn a_blocked_send_accumulates_no_credit() {
        let at = |millis: u64| Timestamp::from_nanos(millis * MILLI);
        let size = DataSize::from_bytes(125);
        let mut schedule = limited(Unpaced::new(1, None), 1_000_000);
        assert!(matches!(schedule.next(at(0)), Step::Send(_)));
        schedule.on_sent(at(10), size);
        assert!(matches!(schedule.next(at(10)), Step::Send(_)));
        schedule.on_sent(at(10), size);
        assert_eq!(schedule.next(at(10)), Step::SleepUntil(at(11)));
    }

    #[test]
    fn a_burst_starts_when_the_data_arrives() {
        let at = |millis: u64| Timestamp::from_nanos(millis * MILLI);
        let size = DataSize::from_bytes(125);
        let mut schedule = limited(Unpaced::new(1, None), 1_000_000);
        assert!(matches!(schedule.next(at(0)), Step::Send(_)));
        schedule.on_starved(at(0), at(7));
        schedule.on_sent(at(7), size);
        assert_eq!(schedule.next(at(7)), Step::SleepUntil(at(8)));
        // Calls out of order have no effect.
        schedule.on_starved(at(7), at(7));
        assert_eq!(schedule.next(at(7)), Step::SleepUntil(at(8)));
    }

    #[test]
    fn a_sleep_lasts_at_least_as_long_as_the_pause() {
        // The inner schedule would sleep 1 ms minus 3 ms of deficit; the pause is 0.5 ms.
        let (plan, size) = (plan(1_000_000, 125, 1), DataSize::from_bytes(125));
        let mut schedule = limited(SendSleep::new(&plan, Deficit::SendTime, None), 2_000_000);
        let at = |micros: i64| Timestamp::ZERO + TimeDelta::from_micros(micros);
        assert!(matches!(schedule.next(at(0)), Step::Send(_)));
        schedule.on_sent(at(1_900), size);
        assert!(matches!(schedule.next(at(1_900)), Step::Send(_)));
        schedule.on_sent(at(1_900), size);
        assert_eq!(schedule.next(at(1_900)), Step::SleepFor(TimeDelta::from_micros(500)));
    }
}
