//! Repeats recorded departures.

use alloc::sync::Arc;

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    ideal::Forward,
    schedule::{Cycle, LateCycles, Schedule, Step},
};

/// Sends one datagram at each of a list of times, and ends with the list. A late datagram is sent at once: a
/// recording is repeated with its bursts, and [`BurstLimit`](super::BurstLimit) can limit them.
#[derive(Debug)]
pub struct Replay {
    /// Times since the start, in increasing order.
    departures: Arc<[TimeDelta]>,
    next: usize,
    start: Option<Timestamp>,
    clock: Forward,
    skipped: u64,
}

impl Replay {
    /// A schedule that sends at `departures` after `start` or, without it, after the first call.
    #[inline]
    pub fn new(departures: Arc<[TimeDelta]>, start: Option<Timestamp>) -> Self {
        Self { departures, next: 0, start, clock: Forward::default(), skipped: 0 }
    }
}

impl Schedule for Replay {
    fn next(&mut self, now: Timestamp) -> Step {
        let now = self.clock.clamp(now);
        let start = *self.start.get_or_insert(now);
        match self.departures.get(self.next).map(|departure| start + *departure) {
            None => Step::Done,
            Some(due) if due > now => Step::SleepUntil(due),
            Some(due) => Step::Send(Cycle { packets: 1, due }),
        }
    }

    fn on_sent(&mut self, now: Timestamp, size: DataSize) {
        self.clock.clamp(now);
        if size > DataSize::ZERO {
            self.next = self.next.saturating_add(1).min(self.departures.len());
        }
    }

    fn on_woke(&mut self, now: Timestamp) {
        self.clock.clamp(now);
    }

    fn on_ended(&mut self, end: Timestamp) {
        let (Some(start), Some(rest)) = (self.start, self.departures.get(self.next..)) else { return };
        self.skipped = rest.partition_point(|departure| start + *departure < end) as u64;
    }

    fn late_cycles(&self) -> LateCycles {
        LateCycles {
            skipped_packets: self.skipped,
            clock_reversals: self.clock.reversals(),
            ..LateCycles::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_datagram_has_its_recorded_time() {
        let ms = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
        let departures = [0, 20, 20, 50].map(TimeDelta::from_millis);
        let mut replay = Replay::new(departures.into(), Some(ms(100)));
        let size = DataSize::from_bytes(1);
        let send = |due| Step::Send(Cycle { packets: 1, due });
        assert_eq!(replay.next(ms(0)), Step::SleepUntil(ms(100)));
        // The clock runs backwards after the sleep, which counts as no time.
        replay.on_woke(ms(101));
        assert_eq!(replay.next(ms(99)), send(ms(100)));
        replay.on_sent(ms(101), size);
        assert_eq!(replay.next(ms(101)), Step::SleepUntil(ms(120)));
        // Late: both due datagrams are sent at once, each with its own due time.
        assert_eq!(replay.next(ms(130)), send(ms(120)));
        replay.on_sent(ms(130), size);
        assert_eq!(replay.next(ms(130)), send(ms(120)));
        replay.on_sent(ms(130), size);
        assert_eq!(replay.next(ms(150)), send(ms(150)));
        replay.on_sent(ms(150), size);
        assert_eq!(replay.next(ms(151)), Step::Done);
    }
}
