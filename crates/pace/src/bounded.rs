//! A schedule that ends.

use alloc::boxed::Box;
use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    ideal::Forward,
    schedule::{Cycle, LateCycles, Schedule, Step},
};

giusto_units::defaults! {
    /// When [`Bounded`] ends: at the first limit that is reached. Default: no limits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Limits {
        /// Start of the duration. Default: the first call. Use the schedule's own start, if it has one.
        pub start: Option<Timestamp> = None,
        /// Only cycles that are due before `start + duration` are sent.
        pub duration: Option<TimeDelta> = None,
        /// Time after `start + duration` in which late cycles are still sent. Without a limit, a sender that
        /// cannot reach its rate would continue until it has sent all its cycles. Default 250 ms.
        pub overtime: TimeDelta = TimeDelta::from_millis(250),
        /// Maximum number of datagrams. The last cycle is shortened.
        pub packets: Option<u64> = None,
        /// Maximum number of bytes, at the layer that the plan counts. The last cycle is shortened.
        pub size: Option<DataSize> = None,
    }
}

giusto_units::setters!(Limits {
    /// The same, with this start of the duration.
    with_start(start: into Timestamp);
    /// The same, with this duration.
    with_duration(duration: into TimeDelta);
    /// The same, with this time for late cycles.
    with_overtime(overtime: TimeDelta);
    /// The same, with at most this number of datagrams.
    with_packets(packets: into u64);
    /// The same, with at most this number of bytes.
    with_size(size: into DataSize);
});

giusto_units::defaults! {
    /// Ends another schedule after a duration, a number of datagrams or a number of bytes.
    #[derive(Debug)]
    pub struct Bounded {
        inner: Box<dyn Schedule> = inner,
        limits: Limits = limits,
        packet_size: DataSize = packet_size,
        clock: Forward = Forward::default(),
        asked: u32 = 0,
        sent_packets: u64 = 0,
        sent: DataSize = DataSize::ZERO,
        done: bool = false,
    }
    /// `inner` within `limits`. `packet_size` is the counted size of one datagram
    /// ([`CyclePlan::size_on_layer`](super::CyclePlan::size_on_layer)), by which the last cycle is shortened.
    pub fn new(inner: Box<dyn Schedule>, packet_size: DataSize, limits: Limits);
}

impl Bounded {
    /// Datagrams sent so far.
    #[inline]
    pub fn sent_packets(&self) -> u64 {
        self.sent_packets
    }

    /// Bytes sent so far, at the layer that the plan counts.
    #[inline]
    pub fn sent(&self) -> DataSize {
        self.sent
    }

    /// Number of datagrams that may still be sent.
    fn remaining(&self) -> u64 {
        let packets = self.limits.packets.map(|limit| limit.saturating_sub(self.sent_packets));
        let by_size = self.limits.size.map(|limit| {
            let rest = limit.as_bytes().saturating_sub(self.sent.as_bytes());
            rest.div_ceil(self.packet_size.as_bytes().max(1))
        });
        [packets, by_size].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    fn give_up(&mut self, end: Timestamp) -> Step {
        self.inner.on_ended(end);
        Step::Done
    }

    fn step(&mut self, now: Timestamp) -> Step {
        let start = *self.limits.start.get_or_insert(now);
        let end = self.limits.duration.map_or(Timestamp::MAX, |duration| start + duration);
        let last_call = if end == Timestamp::MAX { end } else { end + self.limits.overtime };
        let remaining = self.remaining();
        if remaining == 0 {
            return Step::Done;
        }
        if now > last_call {
            return self.give_up(end);
        }
        match self.inner.next(now) {
            Step::Send(cycle) if cycle.due >= end => Step::Done,
            Step::Send(cycle) => {
                self.asked = u32::try_from(remaining).unwrap_or(u32::MAX).min(cycle.packets);
                Step::Send(Cycle { packets: self.asked, ..cycle })
            }
            Step::SleepFor(sleep) if now + sleep > last_call => self.give_up(end),
            Step::SleepUntil(until) if until > last_call => self.give_up(end),
            step => step,
        }
    }
}

impl Schedule for Bounded {
    fn next(&mut self, now: Timestamp) -> Step {
        let now = self.clock.clamp(now);
        if self.done {
            return Step::Done;
        }
        self.asked = 0;
        let step = self.step(now);
        self.done = step == Step::Done;
        step
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        self.clock.clamp(now);
        let asked = core::mem::take(&mut self.asked);
        if size > DataSize::ZERO {
            self.sent_packets += u64::from(asked);
            self.sent += size;
        }
        self.inner.on_sent(now, size);
    }

    fn on_woke(&mut self, now: Timestamp) {
        self.clock.clamp(now);
        self.inner.on_woke(now);
    }

    fn on_starved(&mut self, since: Timestamp, now: Timestamp) {
        self.clock.clamp(now);
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
    use super::*;
    use crate::{
        BurstBound, Deficit, Grid, GridConfig, Replay, SendSleep, Strategy, StrategyOptions, Unpaced,
        virtual_driver::{VirtualDriver, plan},
    };

    const MILLI: u64 = 1_000_000;
    const FOREVER: u64 = 100_000 * MILLI;

    /// Cycles of 4 x 125 B, one in 4 ms.
    fn run(limits: Limits, driver: impl FnOnce(VirtualDriver) -> VirtualDriver) -> (VirtualDriver, Bounded) {
        let plan = plan(1_000_000, 125, 4);
        let config = GridConfig { burst_bound: BurstBound::Packets(8), ..GridConfig::default() };
        let grid = Box::new(Grid::new(&plan, config));
        let mut schedule = Bounded::new(grid, plan.size_on_layer(), limits);
        let mut driver = driver(VirtualDriver::new(plan.size_on_layer()));
        driver.run(&mut schedule, FOREVER);
        (driver, schedule)
    }

    #[test]
    fn cycles_due_before_the_end_are_sent() {
        for (millis, cycles) in [(0, 0), (1, 1), (4, 1), (5, 2), (1000, 250)] {
            let duration = Some(TimeDelta::from_millis(millis));
            let (driver, schedule) = run(Limits { duration, ..Limits::default() }, |driver| driver);
            assert_eq!(schedule.sent_packets(), 4 * cycles, "{millis} ms");
            assert!(driver.now < FOREVER);
        }
    }

    #[test]
    fn the_last_cycle_is_trimmed() {
        let (driver, schedule) = run(Limits { packets: Some(10), ..Limits::default() }, |driver| driver);
        assert!(driver.departures.iter().map(|departure| departure.packets).eq([4, 4, 2]));
        assert_eq!((driver.now, schedule.sent_packets()), (8 * MILLI, 10));
        for (bytes, packets) in [(0, 0), (1, 1), (1250, 10), (1251, 11)] {
            let size = Some(DataSize::from_bytes(bytes));
            let (_, schedule) = run(Limits { size, ..Limits::default() }, |driver| driver);
            assert_eq!(schedule.sent_packets(), packets);
            assert_eq!(schedule.sent(), DataSize::from_bytes(125 * packets));
        }
    }

    #[test]
    fn the_first_limit_reached_ends_it() {
        let limits = Limits {
            duration: Some(TimeDelta::from_millis(20)),
            packets: Some(19),
            size: Some(DataSize::from_bytes(125 * 18)),
            ..Limits::default()
        };
        assert_eq!(run(limits, |driver| driver).1.sent_packets(), 18);
        assert_eq!(run(Limits { size: None, ..limits }, |driver| driver).1.sent_packets(), 19);
        assert_eq!(run(Limits { size: None, packets: None, ..limits }, |driver| driver).1.sent_packets(), 20);
    }

    #[test]
    fn late_cycles_are_sent_for_a_limited_time_after_the_end() {
        let limits = Limits { duration: Some(TimeDelta::from_millis(100)), ..Limits::default() };
        let stalled = |driver| VirtualDriver { stall: Some((90 * MILLI, 130 * MILLI)), ..driver };
        assert_eq!(run(limits, stalled).1.sent_packets(), 100);
        // 2 ms per datagram: half of the rate, so half of the cycles are late at the end.
        let (driver, schedule) =
            run(Limits { duration: Some(TimeDelta::from_seconds(10)), ..limits }, |driver| VirtualDriver {
                send_costs: vec![2 * MILLI],
                ..driver
            });
        assert!((10_250 * MILLI..10_260 * MILLI).contains(&driver.now), "{}", driver.now);
        assert!((5_100..5_150).contains(&schedule.sent_packets()), "{}", schedule.sent_packets());
        // What was due and is not sent is skipped: together they are the 10 000 of the plan.
        assert_eq!(schedule.sent_packets() + schedule.late_cycles().skipped_packets, 10_000);
    }

    #[test]
    fn what_a_stopped_sender_never_sends_is_counted() {
        // Stopped for 2.6 s: early enough to catch up at twice the rate, too late for all of it, and beyond the end.
        let limits = Limits { duration: Some(TimeDelta::from_seconds(10)), ..Limits::default() };
        for (stopped_ms, skipped) in [(1000, 0..=0), (7000, 1650..=1750), (9000, 1000..=1000)] {
            let stall = Some((stopped_ms * MILLI, (stopped_ms + 2600) * MILLI));
            let (driver, schedule) = run(limits, |driver| VirtualDriver { stall, ..driver });
            let late = schedule.late_cycles();
            assert!(skipped.contains(&late.skipped_packets), "{late:?}");
            assert_eq!(schedule.sent_packets() + late.skipped_packets, 10_000);
            // Afterwards the sleeps end on time: no burst is above the bound.
            assert!(late.largest_burst_packets <= 8, "{late:?}");
            assert!(driver.now <= 11_600 * MILLI + 4 * MILLI);
        }
    }

    #[test]
    fn a_strategy_that_owes_its_rate_counts_what_it_never_sends() {
        let plan = plan(1_000_000, 125, 1);
        let limits = Limits { duration: Some(TimeDelta::from_seconds(10)), ..Limits::default() };
        for strategy in Strategy::ALL {
            let inner = strategy.build(&plan, StrategyOptions::default()).unwrap();
            let mut schedule = Bounded::new(inner, plan.size_on_layer(), limits);
            // 2 ms for each datagram: half of the rate.
            let mut driver =
                VirtualDriver { send_costs: vec![2 * MILLI], ..VirtualDriver::new(plan.size_on_layer()) };
            driver.run(&mut schedule, FOREVER);
            let skipped = schedule.late_cycles().skipped_packets;
            match strategy {
                // Lost time is lost, or there is no schedule.
                Strategy::SendSleep
                | Strategy::SendSleepDeficit
                | Strategy::Dt0
                | Strategy::Dt1
                | Strategy::Unpaced => assert_eq!(skipped, 0, "{strategy}"),
                _ => assert_eq!(schedule.sent_packets() + skipped, 10_000, "{strategy}"),
            }
        }
        // One recorded datagram per millisecond.
        let recorded: Vec<_> = (0..20_000).map(TimeDelta::from_millis).collect();
        let replay = Box::new(Replay::new(recorded.into(), None));
        let mut schedule = Bounded::new(replay, plan.size_on_layer(), limits);
        let mut driver =
            VirtualDriver { send_costs: vec![2 * MILLI], ..VirtualDriver::new(plan.size_on_layer()) };
        driver.run(&mut schedule, FOREVER);
        assert_eq!(schedule.sent_packets() + schedule.late_cycles().skipped_packets, 10_000);
    }

    #[test]
    fn no_sleep_starts_that_lasts_beyond_the_end() {
        let plan = plan(1_000_000, 125_000 / 5, 5);
        let limits = Limits { duration: Some(TimeDelta::from_millis(300)), ..Limits::default() };
        for inner in [
            Box::new(SendSleep::new(&plan, Deficit::None, None)) as Box<dyn Schedule>,
            Box::new(Grid::new(&plan, GridConfig::default())),
        ] {
            let mut driver = VirtualDriver::new(plan.size_on_layer());
            driver.run(&mut Bounded::new(inner, plan.size_on_layer(), limits), FOREVER);
            assert_eq!((driver.departures.len(), driver.now), (1, 0));
        }
    }

    #[test]
    fn once_done_it_stays_done() {
        let limits = Limits { packets: Some(1), ..Limits::default() };
        let mut schedule = Bounded::new(Box::new(Unpaced::new(9, None)), DataSize::from_bytes(10), limits);
        let at = Timestamp::from_nanos;
        assert_eq!(schedule.next(at(0)), Step::Send(Cycle { packets: 1, due: at(0) }));
        // Nothing could be sent: the datagram remains.
        schedule.on_sent(at(0), DataSize::ZERO);
        assert_eq!(schedule.next(at(1)), Step::Send(Cycle { packets: 1, due: at(1) }));
        schedule.on_sent(at(1), DataSize::from_bytes(10));
        assert_eq!(schedule.next(at(2)), Step::Done);
        schedule.on_woke(at(3));
        assert_eq!(schedule.next(at(0)), Step::Done);
    }
}
