//! `send-compare`: sends whenever the average rate is below the target.

use giusto_units::{DataSize, NANOS_PER_SECOND, Timestamp};

use super::{
    ideal::IdealLine,
    plan::CyclePlan,
    schedule::{Cycle, LateCycles, Schedule, Step},
};

/// Compares the average rate since the start with the target and sends while it is lower; otherwise polls the
/// clock, and so keeps a processor busy.
///
/// "Constant Bit Rate Streaming - Practical Implementations", Send and Compare:
///
/// ```text
/// rate = byte_count · 8 · 10⁹ / (now − start_time_nanos)
/// if rate < target_rate:  byte_count += send(datagrams)
/// ```
///
/// with two misprints corrected: there `byte_count` is overwritten instead of added to, and the rate is
/// divided by 10⁹ instead of multiplied. The comparison uses integers, `bytes · 8 · 10⁹ < target · elapsed`,
/// so there is no rounding. The average is zero before anything is sent, so the first cycle is sent at the
/// start.
///
/// The comparison is strict: a cycle is sent after its ideal time, by up to one tick of the clock. After a
/// delay all late cycles are sent back to back, without limit; [`BurstLimit`](super::BurstLimit) limits them.
#[derive(Debug, Clone)]
pub struct SendCompare {
    line: IdealLine,
    packets: u32,
    cycle: DataSize,
    start: Option<Timestamp>,
    sent: DataSize,
}

impl SendCompare {
    /// Cycles of `plan`, starting at `start` or, without it, at the first call.
    pub fn new(plan: &CyclePlan, start: Option<Timestamp>) -> Self {
        Self {
            line: IdealLine::new(plan.bps(), start),
            packets: plan.packets_per_cycle(),
            cycle: plan.cycle_size(),
            start,
            sent: DataSize::ZERO,
        }
    }

    fn is_below_target(&self, start: Timestamp, now: Timestamp) -> bool {
        let elapsed = u128::from(now.as_nanos().saturating_sub(start.as_nanos()));
        let sent = u128::from(self.sent.as_bytes()) * 8 * u128::from(NANOS_PER_SECOND);
        sent == 0 || sent < u128::from(self.line.rate().as_bps()) * elapsed
    }
}

impl Schedule for SendCompare {
    fn next(&mut self, now: Timestamp) -> Step {
        let now = self.line.on_time(now);
        let start = *self.start.get_or_insert(now);
        if now < start {
            Step::SleepUntil(start)
        } else if self.is_below_target(start, now) {
            Step::Send(Cycle { packets: self.packets, due: self.line.due() })
        } else {
            Step::Poll
        }
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        let now = self.line.on_time(now);
        self.start.get_or_insert(now);
        self.line.advance(size);
        self.sent += size;
    }

    fn on_woke(&mut self, now: Timestamp) {
        self.line.clamp(now);
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
    use crate::virtual_driver::{VirtualDriver, plan};

    #[test]
    fn cycles_are_sent_while_the_average_is_below_the_target() {
        // 71 x 200 B at 1 Mbit/s: 113.6 ms.
        let plan = plan(1_000_000, 200, 71);
        let mut driver = VirtualDriver::new(plan.size_on_layer());
        driver.run(&mut SendCompare::new(&plan, None), 10_000_000_000);
        assert_eq!(driver.departures.len(), 89, "cycles begun in 10 s");
        for (departure, k) in driver.departures.iter().zip(0_u64..) {
            assert_eq!((departure.packets, departure.due.as_nanos()), (71, k * 113_600_000));
            // The strict comparison: one poll later than due.
            assert_eq!(departure.error().as_nanos(), if k == 0 { 0 } else { 100 });
        }
    }

    #[test]
    fn a_coarse_clock_gives_bursts() {
        let plan = plan(1_000_000, 125, 1);
        let mut driver =
            VirtualDriver { granularity: 10_000_000, ..VirtualDriver::new(plan.size_on_layer()) };
        driver.run(&mut SendCompare::new(&plan, None), 1_000_000_000);
        // At the tick of 10 ms the cycles due at 1 to 9 ms are sent; for the one due exactly then, the
        // average is not yet below the target.
        for (at, expected) in [(10_000_000, 9), (20_000_000, 10)] {
            let count = driver.departures.iter().filter(|departure| departure.at.as_nanos() == at).count();
            assert_eq!(count, expected, "{at} ns");
        }
    }

    #[test]
    fn it_sleeps_until_its_start() {
        let at = Timestamp::from_nanos;
        let mut schedule = SendCompare::new(&plan(1_000_000, 125, 1), Some(at(7)));
        assert_eq!(schedule.next(at(0)), Step::SleepUntil(at(7)));
        // The clock runs backwards after the sleep, which counts as no time.
        schedule.on_woke(at(8));
        assert_eq!(schedule.next(at(6)), Step::Send(Cycle { packets: 1, due: at(7) }));
        schedule.on_sent(at(9), DataSize::from_bytes(125));
        assert_eq!(schedule.next(at(1_000_007)), Step::Poll);
        assert_eq!(schedule.next(at(1_000_008)), Step::Send(Cycle { packets: 1, due: at(1_000_007) }));
    }
}
