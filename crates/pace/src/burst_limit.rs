//! `R_max`: a maximum burst rate, for any schedule.

use std::num::NonZeroU64;

use giusto_units::{DataRate, DataSize, Timestamp};

use super::{
    ideal::{Forward, IdealLine},
    plan::PlanError,
    schedule::{Schedule, Slips, Step},
};

/// Keeps another schedule from sending faster than a maximum burst rate, even when it catches up.
///
/// Chiu et al., "Experiences in Programming a Traffic Shaper", §8:
///
/// ```text
/// burstTime = burstSent / burstRate
/// pauseTime = burstTime − (now − burstStart)
/// sleepTime = max(sleepTime, pauseTime)
/// ```
///
/// The text there begins a new burst after *each* sleep; the listing does so only when the pause prevails, and takes the new
/// `burstStart` before the sleep. This follows the text. It also begins a new burst with the next cycle once the last one is
/// paid for (`pauseTime ≤ 0`), slept or not: otherwise a send that blocked, or a schedule that never sleeps, would save up
/// credit and spend it above `R_max`, against §1, where the burst rate is that of "any subsequence of data packets".
///
/// So, with `burstStart` the moment at which [`next`](Schedule::next) hands out the cycle, or at which its data came if it had
/// to [wait](Schedule::on_starved) for them, over any window `w` no more than `R_max · w` and one cycle is sent, measured at
/// those moments.
///
/// To the inner schedule a pause is a sleep that lasted too long, or a send that was slow, so one that makes up for these keeps
/// its average. In the listing the pause becomes the `sleepTime` that is asked for: DT1 and DT2, having taken the shorter sleep
/// off their `lostTime`, would never get back the rest.
///
/// While a burst is not paid for, a send of the inner schedule waits until it is, and a sleep lasts at least as long. A
/// [`LookAgain`](Step::LookAgain) passes: it sends nothing.
#[derive(Debug)]
pub struct BurstLimit {
    inner: Box<dyn Schedule>,
    clock: Forward,
    /// From the latest cycle's hand-out to the moment at which it is paid for.
    burst: IdealLine,
}

impl BurstLimit {
    /// `inner`, at no more than `r_max`. Below the rate of `inner`, `r_max` becomes the rate.
    ///
    /// # Errors
    ///
    /// [`PlanError::RateZero`] if `r_max` is zero, for then nothing could ever be sent.
    pub fn new(inner: Box<dyn Schedule>, r_max: DataRate) -> Result<Self, PlanError> {
        let bps = NonZeroU64::new(r_max.as_bps()).ok_or(PlanError::RateZero { rate: r_max })?;
        let burst = IdealLine::new(bps, Some(Timestamp::ZERO));
        Ok(Self { inner, clock: Forward::default(), burst })
    }
}

impl Schedule for BurstLimit {
    fn next(&mut self, now: Timestamp) -> Step {
        let clamped = self.clock.clamp(now);
        let paid_at = self.burst.due();
        match self.inner.next(now) {
            Step::Send(_) if clamped < paid_at => Step::SleepUntil(paid_at),
            Step::Send(cycle) => {
                self.burst.begin(clamped);
                Step::Send(cycle)
            }
            Step::SleepFor(sleep) => Step::SleepFor(sleep.max(paid_at - clamped)),
            Step::SleepUntil(until) => Step::SleepUntil(until.max(paid_at)),
            step @ (Step::LookAgain | Step::Done) => step,
        }
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        self.clock.clamp(now);
        self.burst.advance(size);
        self.inner.on_sent(now, size);
    }

    fn on_woke(&mut self, now: Timestamp) {
        self.clock.clamp(now);
        self.inner.on_woke(now);
    }

    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        let clamped = self.clock.clamp(now);
        // Later than that only where nothing was handed out, and the burst is still to be paid for.
        if self.burst.due() <= clamped {
            self.burst.begin(clamped);
        }
        self.inner.on_starved(since, now);
    }

    fn on_ended(&mut self, end: Timestamp) {
        self.inner.on_ended(end);
    }

    fn slips(&self) -> Slips {
        self.inner.slips()
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

    /// What leaves from 20 to 45 ms, in microseconds, after a stall from 20.5 to 30.5 ms.
    fn departures(schedule: &mut dyn Schedule) -> Vec<i64> {
        let mut driver = VirtualDriver {
            stall: Some((20 * MILLI + MILLI / 2, 30 * MILLI + MILLI / 2)),
            look_cost: 1000,
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
    fn a_catch_up_burst_is_stretched_to_the_burst_rate() {
        let plan = plan(1_000_000, 125, 1);
        // 125 B at 4 Mbit/s take 250 us.
        let stretched = departures(&mut limited(SendCompare::new(&plan, None), 4_000_000));
        assert_eq!(stretched[..5], [30_500, 30_750, 31_000, 31_250, 31_500]);
        // 10 owed, and 3 more meanwhile: caught up at 33.5 ms.
        assert_eq!(stretched[12..16], [33_500, 34_001, 35_001, 36_001]);
        let sleeping = SendSleep::new(&plan, Deficit::SendTimeAndOversleep, None);
        assert_eq!(departures(&mut limited(sleeping, 2_000_000))[..4], [30_500, 31_000, 31_500, 32_000]);
    }

    #[test]
    fn on_its_own_it_is_a_rate() {
        let at = departures(&mut limited(Unpaced::new(1, None), 500_000));
        assert_eq!(at[..3], [30_500, 32_500, 34_500]);
    }

    #[test]
    fn a_send_that_blocks_saves_up_no_credit() {
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
    fn a_cycle_that_waited_for_data_begins_its_burst_when_they_come() {
        let at = |millis: u64| Timestamp::from_nanos(millis * MILLI);
        let size = DataSize::from_bytes(125);
        let mut schedule = limited(Unpaced::new(1, None), 1_000_000);
        assert!(matches!(schedule.next(at(0)), Step::Send(_)));
        schedule.on_starved(at(0), at(7));
        schedule.on_sent(at(7), size);
        assert_eq!(schedule.next(at(7)), Step::SleepUntil(at(8)));
        // Out of order it forgives nothing.
        schedule.on_starved(at(7), at(7));
        assert_eq!(schedule.next(at(7)), Step::SleepUntil(at(8)));
    }

    #[test]
    fn a_sleep_lasts_at_least_as_long_as_the_pause() {
        // The inner schedule would sleep 1 ms, minus 3 ms of deficit; the pause is 0.5 ms.
        let (plan, size) = (plan(1_000_000, 125, 1), DataSize::from_bytes(125));
        let mut schedule = limited(SendSleep::new(&plan, Deficit::SendTime, None), 2_000_000);
        let at = |micros: i64| Timestamp::ZERO + TimeDelta::from_micros(micros);
        assert!(matches!(schedule.next(at(0)), Step::Send(_)));
        schedule.on_sent(at(1_900), size);
        assert!(matches!(schedule.next(at(1_900)), Step::Send(_)));
        schedule.on_sent(at(1_900), size);
        assert_eq!(schedule.next(at(1_900)), Step::SleepFor(TimeDelta::from_micros(500)));
    }

    #[test]
    fn a_burst_rate_of_zero_is_refused() {
        assert!(BurstLimit::new(Box::new(Unpaced::new(1, None)), DataRate::ZERO).is_err());
    }
}
