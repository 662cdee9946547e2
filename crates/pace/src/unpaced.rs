//! `unpaced`: as fast as possible.

use giusto_units::{DataSize, Timestamp};

use super::{
    ideal::Forward,
    schedule::{Cycle, LateCycles, Schedule, Step},
};

/// Always sends: `--rate max`.
///
/// Every cycle is due when it is requested, so there is no schedule error.
#[derive(Debug, Clone)]
pub struct Unpaced {
    packets: u32,
    start: Option<Timestamp>,
    clock: Forward,
}

impl Unpaced {
    /// `packets` datagrams per cycle (at least one), starting at `start` or, without it, at the first call.
    ///
    /// [`CycleRule::unpaced_packets`](super::CycleRule::unpaced_packets) gives the number if there is no
    /// plan.
    #[inline]
    pub fn new(packets: u32, start: Option<Timestamp>) -> Self {
        Self { packets: packets.max(1), start, clock: Forward::default() }
    }
}

impl Schedule for Unpaced {
    fn next(&mut self, now: Timestamp) -> Step {
        let now = self.clock.clamp(now);
        match self.start {
            Some(start) if now < start => Step::SleepUntil(start),
            _ => Step::Send(Cycle { packets: self.packets, due: now }),
        }
    }

    fn on_sent(&mut self, now: Timestamp, _size: DataSize) {
        self.clock.clamp(now);
    }

    fn on_woke(&mut self, now: Timestamp) {
        self.clock.clamp(now);
    }

    fn late_cycles(&self) -> LateCycles {
        LateCycles { clock_reversals: self.clock.reversals(), ..LateCycles::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_always_sends_from_the_start_on() {
        let at = Timestamp::from_nanos;
        let mut unpaced = Unpaced::new(0, Some(at(5)));
        assert_eq!(unpaced.next(at(4)), Step::SleepUntil(at(5)));
        assert_eq!(unpaced.next(at(5)), Step::Send(Cycle { packets: 1, due: at(5) }));
        unpaced.on_sent(at(6), DataSize::from_bytes(1200));
        assert_eq!(unpaced.next(at(6)), Step::Send(Cycle { packets: 1, due: at(6) }));
        assert_eq!(unpaced.next(at(3)), Step::Send(Cycle { packets: 1, due: at(6) }));
        assert_eq!(unpaced.late_cycles().clock_reversals, 1);
        // It does not sleep again for a start at which it has woken.
        let mut unpaced = Unpaced::new(0, Some(at(5)));
        unpaced.on_woke(at(5));
        assert_eq!(unpaced.next(at(4)), Step::Send(Cycle { packets: 1, due: at(5) }));
    }
}
