//! Runs one schedule on one machine.

use giusto_pace::{Schedule, Step};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::model::Machine;

/// The arrival of the data to send (§6 of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// The file transfer model: all data is available at the start.
    File {
        /// Number of packets.
        packets: u64,
    },
    /// The live-data model: a fragment arrives at the start of every interval.
    Live {
        /// Number of packets per fragment.
        packets: u64,
        /// Time between fragments.
        interval: TimeDelta,
        /// Number of fragments.
        fragments: u64,
    },
}

impl Data {
    /// Total number of packets.
    pub const fn packets(&self) -> u64 {
        match *self {
            Self::File { packets } => packets,
            Self::Live { packets, fragments, .. } => packets.saturating_mul(fragments),
        }
    }

    /// Arrival time of packet `index`, from 0; `None` after the last packet.
    pub fn arrival(&self, index: u64) -> Option<Timestamp> {
        if index >= self.packets() {
            return None;
        }
        match *self {
            Self::File { .. } => Some(Timestamp::ZERO),
            Self::Live { packets, interval, .. } => {
                let fragment = index.checked_div(packets).unwrap_or(0);
                Some(Timestamp::ZERO + interval * i64::try_from(fragment).unwrap_or(i64::MAX))
            }
        }
    }
}

/// The departure of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Start of its sending, in true time.
    pub at: Timestamp,
    /// Time at which an ideal sender would have sent its cycle, by the schedule's clock.
    pub due: Timestamp,
}

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// All departures, in order.
    pub departures: Vec<Departure>,
    /// Number of sleeps.
    pub sleeps: u64,
    /// Total requested duration of the sleeps.
    pub requested_sleep: TimeDelta,
    /// Total actual duration of the sleeps.
    pub actual_sleep: TimeDelta,
    /// Number of cycles that were delayed by missing data.
    pub starvations: u64,
    /// End of the run, including the last sleep.
    pub ended: Timestamp,
}

impl Record {
    /// Total actual minus total requested duration of the sleeps.
    pub fn oversleep(&self) -> TimeDelta {
        self.actual_sleep - self.requested_sleep
    }

    /// Rate of all packets of `size` over the duration of the run. A run that ends with a sleep has as many cycles as
    /// intervals. `None` if the duration is zero.
    pub fn rate(&self, size: DataSize) -> Option<DataRate> {
        DataRate::of(size * self.departures.len() as u64, self.ended - Timestamp::ZERO)
    }
}

impl Machine {
    /// Runs `schedule` with packets of `size` from time zero until all of `data` is sent, the schedule is done, or a sleep
    /// would end after `until`.
    ///
    /// A cycle with too little data starts when its last packet has arrived, and [`Schedule::on_starved`] is called. The
    /// last cycle is truncated to the remaining data.
    pub fn run(&self, schedule: &mut dyn Schedule, data: &Data, size: DataSize, until: Timestamp) -> Record {
        /// Bounds the initial allocation.
        const MAX_INITIAL_CAPACITY: u64 = 1 << 16;
        let total = data.packets();
        let mut record = Record {
            departures: Vec::with_capacity(total.min(MAX_INITIAL_CAPACITY) as usize),
            ..Record::default()
        };
        let mut now = Timestamp::ZERO;
        while now <= until {
            record.ended = now;
            let then = match schedule.next(self.clock(now)) {
                Step::Send(cycle) => {
                    let sent = record.departures.len() as u64;
                    let packets = total.saturating_sub(sent).min(cycle.packets.into());
                    let Some(arrival) = data.arrival((sent + packets).saturating_sub(1)) else { break };
                    if packets == 0 {
                        break;
                    }
                    if arrival > now {
                        let asked = now;
                        now = arrival;
                        if now > until {
                            break;
                        }
                        record.starvations += 1;
                        schedule.on_starved(self.clock(asked), self.clock(now));
                    }
                    for _ in 0..packets {
                        record.departures.push(Departure { at: now, due: cycle.due });
                        now = self.sent(now, 1);
                    }
                    schedule.on_sent(self.clock(now), size * packets);
                    record.ended = now;
                    continue;
                }
                Step::SleepFor(span) => {
                    let woke = self.wake(now, span);
                    if woke > until {
                        break;
                    }
                    record.note_sleep(span, woke - now);
                    woke
                }
                Step::SleepUntil(moment) => {
                    let woke = self.wake_at(now, moment);
                    if woke > until {
                        break;
                    }
                    record.note_sleep(moment.saturating_since(self.clock(now)), woke - now);
                    woke
                }
                Step::Poll => {
                    now = self.polled(now);
                    continue;
                }
                // `Step::Done`, or an unknown step.
                _ => break,
            };
            // Time must advance even if a sleep has no length.
            now = if then > now { then } else { self.polled(now) };
            schedule.on_woke(self.clock(now));
        }
        record
    }
}

impl Record {
    fn note_sleep(&mut self, requested: TimeDelta, actual: TimeDelta) {
        self.sleeps += 1;
        self.requested_sleep += requested;
        self.actual_sleep += actual;
    }
}

#[cfg(test)]
mod tests {
    use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy, StrategyOptions};

    use super::*;
    use crate::machine::SleepModel;

    const TEN_SECONDS: TimeDelta = TimeDelta::from_seconds(10);

    /// 100 kB a second.
    fn schedule(strategy: Strategy, size: u64, packets: u32) -> Box<dyn Schedule> {
        let (rate, size) = (DataRate::from_bps(800_000), DataSize::from_bytes(size));
        let rule = CycleRule::Given(packets);
        let plan = CyclePlan::new(rate, size, HeaderLayer::Payload, IpVersion::V4, rule).unwrap();
        strategy.build(&plan, StrategyOptions::default()).unwrap()
    }

    fn run(machine: Machine, strategy: Strategy, size: u64, data: Data) -> Record {
        let mut schedule = schedule(strategy, size, 1);
        machine.run(&mut *schedule, &data, DataSize::from_bytes(size), Timestamp::MAX)
    }

    fn millis(departures: &[Departure]) -> Vec<u64> {
        departures.iter().map(|departure| departure.at.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn dt0_with_500_b_sleeps_in_every_other_cycle() {
        // By hand: each send takes 2 ms; the first sleep requests 5 ms, every other one 3 ms.
        let data = Data::File { packets: 6 };
        let rounds_up = run(Machine::SUN_LABS, Strategy::Dt0, 500, data);
        assert_eq!(millis(&rounds_up.departures), [0, 12, 14, 26, 28, 40]);
        let ticks = Machine { sleep_model: SleepModel::Ticks, ..Machine::SUN_LABS };
        let ticks = run(ticks, Strategy::Dt0, 500, data);
        assert_eq!(millis(&ticks.departures), [0, 20, 22, 40, 42, 60]);
        for (record, slept) in [(rounds_up, 30), (ticks, 18 + 16 + 16)] {
            assert_eq!(record.sleeps, 3);
            assert_eq!(record.requested_sleep, TimeDelta::from_millis(5 + 3 + 3));
            assert_eq!(record.actual_sleep, TimeDelta::from_millis(slept));
            assert_eq!(record.oversleep(), TimeDelta::from_millis(slept - 11));
            assert_eq!(record.ended, Timestamp::ZERO + TimeDelta::from_millis(slept + 12));
        }
    }

    #[test]
    fn strategies_keep_the_rate_on_an_ideal_machine() {
        let size = DataSize::from_bytes(1000);
        for strategy in Strategy::ALL.into_iter().filter(|&strategy| strategy != Strategy::Unpaced) {
            let record = run(Machine::default(), strategy, 1000, Data::File { packets: 500 });
            let last = record.departures.last().unwrap().at;
            // 10 ms per packet; a strategy that busy-waits is late by one iteration.
            assert!((4.99..4.9901).contains(&last.as_seconds()), "{strategy}: {last}");
            if strategy != Strategy::SendCompare {
                assert!(record.rate(size).unwrap().as_bps().abs_diff(800_000) <= 1700, "{strategy}");
            }
        }
    }

    #[test]
    fn schedules_wait_for_live_data() {
        let data = Data::Live { packets: 3, interval: TEN_SECONDS, fragments: 2 };
        assert_eq!(data.arrival(2), Some(Timestamp::ZERO));
        assert_eq!(data.arrival(3), Some(Timestamp::ZERO + TEN_SECONDS));
        assert_eq!(data.arrival(6), None);
        let at0 = run(Machine::SUN_LABS, Strategy::At0, 1000, data);
        assert_eq!(millis(&at0.departures), [0, 12, 24, 10_000, 10_002, 10_004]);
        assert_eq!(at0.starvations, 1);
        let at1 = run(Machine::SUN_LABS, Strategy::At1, 1000, data);
        assert_eq!(millis(&at1.departures), [0, 12, 24, 10_000, 10_012, 10_024]);
    }

    #[test]
    fn cycles_wait_for_their_last_packet() {
        let mut schedule = schedule(Strategy::At1, 1000, 2);
        let data = Data::Live { packets: 5, interval: TEN_SECONDS, fragments: 1 };
        let machine = Machine { send_cost: TimeDelta::from_millis(1), ..Machine::default() };
        let record = machine.run(&mut *schedule, &data, DataSize::from_bytes(1000), Timestamp::MAX);
        assert_eq!(millis(&record.departures), [0, 1, 20, 21, 40]);
    }

    #[test]
    fn a_run_ends_at_its_limit() {
        let mut schedule = schedule(Strategy::At0, 1000, 1);
        let until = Timestamp::ZERO + TimeDelta::from_millis(35);
        let data = Data::File { packets: u64::MAX };
        let record = Machine::default().run(&mut *schedule, &data, DataSize::from_bytes(1000), until);
        assert_eq!(millis(&record.departures), [0, 10, 20, 30]);
        assert_eq!(record.ended, Timestamp::ZERO + TimeDelta::from_millis(30));
        let none = Data::File { packets: 0 };
        assert_eq!(run(Machine::default(), Strategy::Unpaced, 1, none), Record::default());
    }
}
