//! A processor that a fair scheduler shares between a sender and busy threads.

use giusto_pace::{Schedule, Step, WakePlanner};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use rand::RngExt;

use super::run::Departure;
use crate::random::{self, Random};

giusto_units::defaults! {
    /// A machine on which threads that never sleep compete with the sender.
    ///
    /// The sender shares its core with `busy_threads / cores` of them, rounded down: the scheduler puts it on the core that has
    /// fewest. All threads have the same weight. The scheduler is EEVDF (Stoica and Abdel-Wahab, "Earliest Eligible Virtual Deadline
    /// First", 1995) as Linux has it since 6.6 (`Documentation/scheduler/sched-eevdf.rst`, `kernel/sched/fair.c`):
    ///
    /// - The virtual runtime of a thread grows with the time that it runs; its *lag* is the mean virtual runtime of all runnable
    ///   threads less its own. A thread with a lag of zero or more is eligible: it had no more than its share.
    /// - Of the eligible threads the one with the earliest virtual deadline runs: its virtual runtime at the last request plus its
    ///   slice. It runs on until a tick of the system finds that it has used its slice.
    /// - A thread that wakes, is eligible and has an earlier deadline takes the core at once.
    /// - A thread that sleeps keeps its lag, at most one tick or two slices of it. One that had more than its share stays in the queue
    ///   while it sleeps, until the others have caught up.
    ///
    /// So a sender that uses less than its share wakes on time whatever the load, and one that spins is late by the slices of all
    /// others.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy, StrategyOptions, WakeConfig, WakePlanner};
    /// use giusto_sim::machine::SharedMachine;
    /// use giusto_units::{TimeDelta, Timestamp};
    ///
    /// let (rate, size) = ("1 Mbit/s".parse()?, "200 B".parse()?);
    /// let plan = CyclePlan::new(rate, size, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(1))?;
    /// let mut schedule = Strategy::Grid.build(&plan, StrategyOptions::default())?;
    /// let mut planner = WakePlanner::new(WakeConfig::default());
    ///
    /// let machine = SharedMachine { busy_threads: 12, ..SharedMachine::default() };
    /// let end = Timestamp::ZERO + TimeDelta::from_seconds(2);
    /// let record = machine.run(&mut *schedule, &mut planner, size, end);
    /// assert!(record.departures.len() > 1200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SharedMachine {
        /// Number of cores, at least 1. Default: 2.
        pub cores: u32 = 2,
        /// Threads that never sleep. Default: 0.
        pub busy_threads: u32 = 0,
        /// The busy threads run from this time on. Default: zero.
        pub busy_from: Timestamp = Timestamp::ZERO,
        /// The busy threads end at this time. Default: never.
        pub busy_until: Timestamp = Timestamp::MAX,
        /// Slice of a busy thread. Default: 3 ms, that of Linux with eight cores or more.
        pub slice: TimeDelta = TimeDelta::from_millis(3),
        /// Slice of the sender. Default: 100 µs, the shortest that Linux grants.
        pub sender_slice: TimeDelta = TimeDelta::from_micros(100),
        /// Time between two ticks, at which a thread that has used its slice loses the core. Default: 4 ms, 250 ticks a second.
        pub tick: TimeDelta = TimeDelta::from_millis(4),
        /// Minimum time from the end of a sleep to the first instruction on an idle core. Default: 3 µs.
        pub min_wake_latency: TimeDelta = TimeDelta::from_micros(3),
        /// Its maximum; it is uniformly distributed. Default: 25 µs.
        pub max_wake_latency: TimeDelta = TimeDelta::from_micros(25),
        /// CPU time of a sleep and its wake-up. Default: 3 µs.
        pub sleep_cost: TimeDelta = TimeDelta::from_micros(3),
        /// CPU time to send the datagrams of one cycle. Default: 3 µs.
        pub send_cost: TimeDelta = TimeDelta::from_micros(3),
        /// CPU time of one look at the clock. Default: 100 ns.
        pub look_cost: TimeDelta = TimeDelta::from_nanos(100),
        /// Seed of the wake latencies and of the phases of ticks and slices. Default: 1.
        pub seed: u64 = 1,
    }
}

/// The result of a run on a [`SharedMachine`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedRecord {
    /// All departures, in order.
    pub departures: Vec<Departure>,
    /// Number of sleeps.
    pub sleeps: u64,
    /// CPU time of the sender.
    pub cpu: TimeDelta,
    /// The part of it that was spent spinning.
    pub spun: TimeDelta,
    /// End of the run.
    pub ended: Timestamp,
}

impl SharedRecord {
    /// CPU time per time.
    pub fn cpu_ratio(&self) -> f64 {
        self.cpu.as_seconds() / (self.ended - Timestamp::ZERO).as_seconds().max(1e-9)
    }
}

impl SharedMachine {
    /// The number of busy threads on the sender's core while they run.
    pub fn rivals(&self) -> u32 {
        self.busy_threads / self.cores.max(1)
    }

    /// Runs `schedule` with packets of `size` from time zero until it is done or `until` has come. `planner` decides when to
    /// wake for a [`Step::SleepUntil`]; a [`Step::SleepFor`] is a plain sleep.
    pub fn run(
        &self,
        schedule: &mut dyn Schedule,
        planner: &mut WakePlanner,
        size: DataSize,
        until: Timestamp,
    ) -> SharedRecord {
        let mut core = Core::new(*self);
        let mut record = SharedRecord::default();
        while core.now <= until {
            core.work(self.look_cost.max(TimeDelta::from_nanos(1)));
            match schedule.next(core.now) {
                Step::Send(cycle) => {
                    let departure = Departure { at: core.now, due: cycle.due };
                    record.departures.extend((0..cycle.packets).map(|_| departure));
                    core.work(self.send_cost);
                    schedule.on_sent(core.now, size * u64::from(cycle.packets));
                }
                Step::SleepFor(span) => {
                    record.sleeps += 1;
                    core.sleep_until(core.now + span);
                    schedule.on_woke(core.now);
                }
                Step::SleepUntil(deadline) => {
                    if let Some(wake) = planner.plan(core.now, deadline) {
                        if wake.at > core.now {
                            record.sleeps += 1;
                            core.sleep_until(wake.at);
                            planner.on_woke(wake, core.now);
                        }
                        if let Some(end) = wake.spin_until.filter(|&end| core.now < end) {
                            let before = core.cpu;
                            core.spin_until(end);
                            record.spun += core.cpu - before;
                            planner.on_spun(wake, core.now);
                        }
                    }
                    schedule.on_woke(core.now);
                }
                Step::Poll => record.spun += self.look_cost,
                // `Step::Done`, or an unknown step.
                _ => break,
            }
        }
        SharedRecord { cpu: core.cpu, ended: core.now, ..record }
    }
}

/// A thread in the queue of the core.
#[derive(Debug, Clone, Copy)]
struct Thread {
    /// Virtual runtime in nanoseconds: the time that it ran, since all weights are equal.
    runtime: i64,
    /// Virtual deadline in nanoseconds.
    deadline: i64,
    slice: i64,
}

impl Thread {
    /// Requests another slice if the last one is used, and says whether it is.
    fn renew(&mut self) -> bool {
        let used = self.runtime >= self.deadline;
        if used {
            self.deadline = self.runtime + self.slice;
        }
        used
    }
}

/// Where the sender is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// It runs, or waits for the core.
    Runnable,
    /// It sleeps but stays in the queue, because it had more than its share.
    Leaving,
    /// It sleeps with this lag, in nanoseconds.
    Away(i64),
}

/// The core on which the sender runs.
#[derive(Debug)]
struct Core {
    machine: SharedMachine,
    now: Timestamp,
    random: Random,
    /// The sender comes first.
    threads: Vec<Thread>,
    sender: Sender,
    /// The index of the thread that has the core; `None` on an idle core.
    running: Option<usize>,
    /// The phase of the ticks.
    phase: TimeDelta,
    cpu: TimeDelta,
    loaded: bool,
}

/// The index of the sender in the queue.
const SENDER: usize = 0;

impl Core {
    fn new(machine: SharedMachine) -> Self {
        let mut random = random::stream(machine.seed, "shared machine");
        let tick = machine.tick.max(TimeDelta::from_micros(1));
        let phase = TimeDelta::from_nanos(random.random_range(0..tick.as_nanos()));
        let slice = machine.sender_slice.as_nanos().max(1);
        let sender = Thread { runtime: 0, deadline: slice, slice };
        let machine = SharedMachine { tick, ..machine };
        let (threads, running) = (vec![sender], Some(SENDER));
        let mut core = Self {
            machine,
            now: Timestamp::ZERO,
            random,
            threads,
            sender: Sender::Runnable,
            running,
            phase,
            cpu: TimeDelta::ZERO,
            loaded: false,
        };
        core.follow_load();
        core
    }

    /// The sender computes for `span`.
    fn work(&mut self, span: TimeDelta) {
        let end = self.cpu + span;
        while self.cpu < end {
            self.wait();
            self.run_sender(self.now + (end - self.cpu));
        }
    }

    /// The sender spins until `time`.
    fn spin_until(&mut self, time: Timestamp) {
        self.wait();
        while self.now < time {
            self.run_sender(time);
            self.wait();
        }
    }

    /// The sender sleeps until `time`, and runs again when it gets the core.
    fn sleep_until(&mut self, time: Timestamp) {
        self.work(self.machine.sleep_cost);
        if time <= self.now {
            return;
        }
        self.leave();
        while self.now < time {
            self.pass(time);
        }
        let shortest = self.machine.min_wake_latency;
        // A core that runs another thread need not wake.
        let longest = if self.running.is_none() { self.machine.max_wake_latency } else { shortest };
        let latency = self.random.random_range(shortest.as_nanos()..=longest.max(shortest).as_nanos());
        self.enter();
        self.wait();
        // The latency of waking is no thread's CPU time: an idle core wakes, or an interrupt is handled.
        self.now += TimeDelta::from_nanos(latency);
    }

    /// The sender, which has the core, runs until `time` at the longest.
    fn run_sender(&mut self, time: Timestamp) {
        let end = time.min(self.next_change());
        let span = end - self.now;
        self.now = end;
        self.cpu += span;
        self.charge(SENDER, span);
        self.look_at_the_clock();
    }

    /// Waits until the sender has the core.
    fn wait(&mut self) {
        while self.running != Some(SENDER) {
            self.pass(Timestamp::MAX);
        }
    }

    /// The other threads run, or the core is idle, until `time` at the latest.
    fn pass(&mut self, time: Timestamp) {
        let end = time.min(self.next_change());
        if let Some(thread) = self.running {
            self.charge(thread, end - self.now);
        }
        self.now = end;
        self.look_at_the_clock();
    }

    fn charge(&mut self, thread: usize, span: TimeDelta) {
        if let Some(thread) = self.threads.get_mut(thread) {
            thread.runtime += span.as_nanos();
        }
    }

    /// The next tick, or the next begin or end of the load.
    fn next_change(&self) -> Timestamp {
        let since = (self.now - Timestamp::ZERO + self.machine.tick - self.phase).as_nanos();
        let tick = self.machine.tick.as_nanos();
        let tick = self.now + TimeDelta::from_nanos(tick - since % tick);
        let changes = [self.machine.busy_from, self.machine.busy_until];
        changes.into_iter().filter(|&change| change > self.now).fold(tick, Timestamp::min)
    }

    /// At a tick, a thread that has used its slice loses the core; the load begins and ends.
    fn look_at_the_clock(&mut self) {
        self.follow_load();
        let at_tick =
            (self.now - Timestamp::ZERO - self.phase).as_nanos() % self.machine.tick.as_nanos() == 0;
        let used =
            at_tick && self.running.and_then(|index| self.threads.get_mut(index)).is_some_and(Thread::renew);
        if used || self.running.is_none() {
            self.choose();
        }
    }

    fn follow_load(&mut self) {
        let loaded = (self.machine.busy_from..self.machine.busy_until).contains(&self.now);
        if loaded == self.loaded {
            return;
        }
        self.loaded = loaded;
        self.threads.truncate(1);
        if loaded {
            let Some(&sender) = self.threads.first() else { return };
            let slice = self.machine.slice.as_nanos().max(1);
            for _ in 0..self.machine.rivals() {
                // They are somewhere in their slices.
                let deadline = sender.runtime + self.random.random_range(1..=slice);
                self.threads.push(Thread { runtime: sender.runtime, deadline, slice });
            }
        }
        if self.sender == Sender::Leaving {
            self.sender = Sender::Away(0);
        }
        if self.running != Some(SENDER) {
            self.choose();
        }
    }

    /// The threads in the queue, with their indices.
    fn queue(&self) -> impl Iterator<Item = (usize, &Thread)> {
        let present = !matches!(self.sender, Sender::Away(_));
        self.threads.iter().enumerate().skip(usize::from(!present))
    }

    /// The lag of a virtual runtime times the number of threads in the queue.
    fn scaled_lag(&self, runtime: i64) -> i64 {
        self.queue().map(|(_, thread)| thread.runtime - runtime).sum()
    }

    /// The eligible thread with the earliest deadline gets the core.
    fn choose(&mut self) {
        loop {
            let eligible = self.queue().filter(|(_, thread)| self.scaled_lag(thread.runtime) >= 0);
            let first = eligible.min_by_key(|(_, thread)| thread.deadline).map(|(index, _)| index);
            if first == Some(SENDER) && self.sender == Sender::Leaving {
                // The others have caught up.
                self.sender = Sender::Away(0);
                continue;
            }
            self.running = first;
            return;
        }
    }

    /// The sender begins to sleep.
    fn leave(&mut self) {
        let Some(&sender) = self.threads.first() else { return };
        let count = self.queue().count() as i64;
        let lag = self.scaled_lag(sender.runtime) / count.max(1);
        let limit = self.machine.tick.as_nanos().max(2 * sender.slice);
        self.sender = if lag < 0 && count > 1 { Sender::Leaving } else { Sender::Away(lag.min(limit)) };
        self.running = None;
        self.choose();
    }

    /// The sender is runnable again.
    fn enter(&mut self) {
        if let Sender::Away(lag) = self.sender {
            let others = self.threads.get(1..).unwrap_or_default();
            let count = others.len() as i64;
            let mean = others.iter().map(|thread| thread.runtime).sum::<i64>().checked_div(count);
            if let (Some(mean), Some(sender)) = (mean, self.threads.first_mut()) {
                // Its own return moves the mean: with this its lag is again what it was.
                sender.runtime = mean - lag * (count + 1) / count.max(1);
                sender.deadline = sender.runtime + sender.slice;
            }
        }
        self.sender = Sender::Runnable;
        let deadline = |index: Option<usize>| self.threads.get(index?).map(|thread| thread.deadline);
        let eligible = self.threads.first().is_some_and(|sender| self.scaled_lag(sender.runtime) >= 0);
        let earlier = deadline(Some(SENDER)) < deadline(self.running);
        if self.running.is_none() || eligible && earlier {
            self.running = Some(SENDER);
        }
    }
}
