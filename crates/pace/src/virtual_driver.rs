//! A driver on a virtual clock, for tests.

use alloc::vec::Vec;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    layer::{HeaderLayer, IpVersion},
    plan::{CyclePlan, CycleRule},
    schedule::{Schedule, Step},
};

/// A cycle that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Departure {
    /// Time at which `next` returned it, or at which its data came, on the driver's clock.
    pub(super) at: Timestamp,
    pub(super) due: Timestamp,
    pub(super) packets: u32,
    pub(super) size: DataSize,
}

impl Departure {
    pub(super) fn error(self) -> TimeDelta {
        self.at - self.due
    }
}

giusto_units::defaults! {
    /// Executes the steps of a schedule like a machine with these properties.
    #[derive(Debug, Clone)]
    pub(super) struct VirtualDriver {
        /// True time in nanoseconds.
        pub(super) now: u64 = 0,
        pub(super) packet_size: DataSize = packet_size,
        /// Oversleep of each sleep in turn, cyclically, in nanoseconds.
        pub(super) oversleeps: Vec<u64> = vec![0],
        /// Time to send one datagram, in turn, cyclically, in nanoseconds.
        pub(super) send_costs: Vec<u64> = vec![0],
        /// Time that each cycle waits for its data, in turn, cyclically, in nanoseconds.
        pub(super) data_waits: Vec<u64> = vec![0],
        /// Time of one poll of the clock, in nanoseconds.
        pub(super) poll_cost: u64 = 100,
        /// Resolution of the clock, in nanoseconds.
        pub(super) granularity: u64 = 1,
        /// The machine is stalled from this true time until that one.
        pub(super) stall: Option<(u64, u64)> = None,
        pub(super) departures: Vec<Departure> = Vec::new(),
        pub(super) sleeps: usize = 0,
        /// The longest time from the moment at which a sleep should have ended to the next sleep, in nanoseconds.
        pub(super) longest_hold: u64 = 0,
        /// When the last sleep should have ended, in nanoseconds.
        pub(super) should_run_from: u64 = 0,
    }
    pub(super) fn new(packet_size: DataSize);
}

impl VirtualDriver {
    pub(super) fn clock(&self) -> Timestamp {
        Timestamp::from_nanos(self.now - self.now % self.granularity)
    }

    /// Runs `schedule` until true time `end`, in nanoseconds, or until its end. Panics if it makes no
    /// progress.
    pub(super) fn run(&mut self, schedule: &mut dyn Schedule, end: u64) {
        let mut idle = 0;
        while self.now < end {
            let (before, sent) = (self.now, self.departures.len());
            self.longest_hold = self.longest_hold.max(self.now.saturating_sub(self.should_run_from));
            match schedule.next(self.clock()) {
                Step::Send(cycle) => {
                    assert!(cycle.packets > 0);
                    let size = self.packet_size * u64::from(cycle.packets);
                    let wait = self.data_waits[sent % self.data_waits.len()];
                    if wait > 0 {
                        let since = self.clock();
                        self.pass(wait);
                        schedule.on_starved(since, self.clock());
                    }
                    self.departures.push(Departure {
                        at: self.clock(),
                        due: cycle.due,
                        packets: cycle.packets,
                        size,
                    });
                    let cost = self.send_costs[sent % self.send_costs.len()] * u64::from(cycle.packets);
                    self.pass(cost);
                    schedule.on_sent(self.clock(), size);
                }
                Step::SleepFor(span) => {
                    assert!(span > TimeDelta::ZERO);
                    self.sleep_until(schedule, self.now + span.as_nanos().unsigned_abs());
                }
                Step::SleepUntil(time) => {
                    assert!(time > self.clock(), "asked to sleep until what has passed");
                    self.sleep_until(schedule, time.as_nanos());
                }
                Step::Poll => self.pass(self.poll_cost),
                Step::Done => return,
            }
            idle = if self.now > before || self.departures.len() > sent { 0 } else { idle + 1 };
            assert!(idle < 3, "no progress at {before} ns");
        }
    }

    fn sleep_until(&mut self, schedule: &mut dyn Schedule, time: u64) {
        let oversleep = self.oversleeps[self.sleeps % self.oversleeps.len()];
        self.sleeps += 1;
        self.should_run_from = time;
        self.pass(time.saturating_sub(self.now) + oversleep);
        schedule.on_woke(self.clock());
    }

    fn pass(&mut self, nanos: u64) {
        let then = self.now + nanos;
        self.now = match self.stall {
            Some((from, until)) if (self.now..=then).contains(&from) && self.now < until => then.max(until),
            _ => then,
        };
    }

    pub(super) fn sent(&self) -> DataSize {
        self.departures.iter().map(|departure| departure.size).sum()
    }

    /// The mean rate from the first departure to the last, in bit/s: `N − 1` cycles in `N − 1` intervals.
    pub(super) fn mean_rate(&self) -> f64 {
        let (first, last) = (self.departures[0], self.departures[self.departures.len() - 1]);
        let bits = (self.sent().as_bytes() - last.size.as_bytes()) as f64 * 8.0;
        bits / (last.at - first.at).as_seconds()
    }

    /// Maximum excess over `bps` times the window, over all windows, both ends included, in bytes.
    pub(super) fn burst_above(&self, bps: u64) -> f64 {
        // With x the running excess, that of each window is a difference x_j − x_i, so the maximum needs only
        // one pass.
        let (mut lowest, mut max, mut sent) = (f64::MAX, 0.0_f64, 0.0);
        for departure in &self.departures {
            let line = departure.at.as_nanos() as f64 * bps as f64 / 8e9;
            lowest = lowest.min(sent - line);
            sent += departure.size.as_bytes() as f64;
            max = max.max(sent - line - lowest);
        }
        max
    }
}

/// A plan of `packets` datagrams of `payload` bytes per cycle at `bps` bit/s, headers aside.
pub(super) fn plan(bps: u64, payload: u64, packets: u32) -> CyclePlan {
    let (rate, payload) = (DataRate::from_bps(bps), DataSize::from_bytes(payload));
    CyclePlan::new(rate, payload, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(packets)).unwrap()
}

/// Departure times of the first `cycles`, in ms. They take no time to send, and the third one waits for its
/// data until 65 ms. Sleeps are exact.
pub(super) fn departures_around_a_gap(schedule: &mut dyn Schedule, cycles: usize) -> Vec<u64> {
    let data_come = Timestamp::from_nanos(65_000_000);
    let (mut now, mut departures) = (Timestamp::ZERO, Vec::new());
    while departures.len() < cycles {
        match schedule.next(now) {
            Step::Send(_) => {
                if departures.len() == 2 {
                    schedule.on_starved(now, data_come);
                    now = data_come;
                }
                departures.push(now.as_nanos() / 1_000_000);
                schedule.on_sent(now, DataSize::from_bytes(125));
            }
            Step::SleepFor(span) => {
                now += span;
                schedule.on_woke(now);
            }
            step => panic!("{step:?}"),
        }
    }
    departures
}
