//! Waking on time: an absolute sleep that ends early by the machine's usual wake latency, then a short spin.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use giusto_pace::{SleepMode, WakeConfig, WakePlanner};
use giusto_units::{NANOS_PER_SECOND, TimeDelta, Timestamp};
use hdrhistogram::Histogram;
#[cfg(feature = "emulate")]
use nix::poll::{PollFd, ppoll};
use nix::{
    sys::{prctl, time::TimeSpec},
    time::{ClockId, ClockNanosleepFlags, clock_nanosleep},
};
use serde::Serialize;

use crate::{
    clock::Clock,
    realtime::RealtimeBudget,
    sys,
    system::{Asked, Granted, ThreadCpu},
};

/// The configuration of a [`Sleeper`].
#[derive(Debug, Clone, Default)]
pub struct SleeperConfig {
    /// How much CPU time it spends on precision. Default: balanced.
    pub mode: SleepMode,
    /// Priority for the real-time class `SCHED_FIFO`, 1 to 99, if it is to be requested. Default: `None`.
    pub realtime_priority: Option<u8>,
    /// Ends every sleep within 100 ms once it is true. Default: `None`, sleeps are not interrupted.
    pub stop: Option<Arc<AtomicBool>>,
}

/// Wakes one thread on time.
///
/// A [`WakePlanner`] decides when each sleep ends and how long the thread spins afterwards. Larger errors are caused by other
/// threads on the processor; a short time slice helps against them, see [`adopt`](Self::adopt).
#[derive(Debug)]
pub struct Sleeper {
    config: SleeperConfig,
    slack_ns: Option<u64>,
    slice_ns: Option<u64>,
    priority: Option<Asked<u8>>,
    /// With the real-time class: how long it is kept.
    budget: Option<(RealtimeBudget, ThreadCpu)>,
    turns_for_others: u64,
    planner: WakePlanner,
    latencies: Histogram<u64>,
    sleeps: u64,
    late_entries: u64,
    spun: TimeDelta,
}

impl Sleeper {
    /// The minimum time slice that the kernel accepts, in nanoseconds: `sched-eevdf.rst`.
    const TIME_SLICE_NS: u64 = 100_000;
    /// A sleep with a stop flag is cut into pieces of this length ...
    const SLICE: TimeDelta = TimeDelta::from_millis(40);
    /// ... while more than this remains. The flag is thus noticed within the longer of the two.
    const UNSLICED: TimeDelta = TimeDelta::from_millis(80);

    /// A sleeper for the calling thread, which it [adopts](Self::adopt).
    pub fn new(config: SleeperConfig) -> Self {
        let planner = WakePlanner::new(WakeConfig::default().with_mode(config.mode));
        let mut sleeper = Self {
            config,
            slack_ns: None,
            slice_ns: None,
            priority: None,
            budget: None,
            turns_for_others: 0,
            planner,
            latencies: no_latencies(),
            sleeps: 0,
            late_entries: 0,
            spun: TimeDelta::ZERO,
        };
        sleeper.adopt();
        sleeper
    }

    /// Prepares the calling thread. Call it if the sleeper was created in another thread.
    /// [`describe`](Self::describe) reports what was not granted, which is not an error.
    ///
    /// - Timer slack of 1 ns instead of the usual 50 µs; 0 would restore the default.
    /// - A time slice of 100 µs, the shortest possible: the scheduler (EEVDF) runs a thread with a short slice sooner when it
    ///   wakes. With other light work on the processor the 99th percentile of the error fell from over a millisecond to 36 µs.
    /// - The real-time class, if requested. It makes the other two unnecessary. A thread that is always busy leaves it for 7 ms of
    ///   each 100 ms: the kernel would stop it for 50 ms of each second.
    pub fn adopt(&mut self) {
        self.slack_ns = prctl::set_timerslack(1)
            .and_then(|()| prctl::get_timerslack())
            .ok()
            .and_then(|slack| u64::try_from(slack).ok());
        // Before the real-time class is requested: a slice belongs to the ordinary class.
        self.slice_ns = sys::ask_slice(Self::TIME_SLICE_NS).ok();
        self.priority = self
            .config
            .realtime_priority
            .map(|asked| Asked { asked, granted: if sys::ask_realtime(asked).is_ok() { asked } else { 0 } });
        self.budget = None;
    }

    /// Gives other threads a turn where a thread of the real-time class has been busy for too long. All that waits here calls it; a loop
    /// that does not wait has to.
    pub fn share(&mut self, clock: Clock) {
        let Some(priority) = self.priority.map(|asked| asked.granted).filter(|&granted| granted > 0) else {
            return;
        };
        let now = clock.now();
        let (budget, cpu) = self
            .budget
            .get_or_insert_with(|| (RealtimeBudget::new(now, TimeDelta::ZERO), ThreadCpu::start()));
        if !budget.is_due(now) {
            return;
        }
        // It fails only where the right to it was taken away meanwhile.
        let _ = match budget.poll(now, cpu.used()) {
            Some(true) => sys::ask_realtime(priority),
            Some(false) => {
                self.turns_for_others += 1;
                // The ordinary class begins with its defaults.
                sys::leave_realtime().and_then(|()| {
                    let _ = prctl::set_timerslack(1);
                    sys::ask_slice(Self::TIME_SLICE_NS).map(drop)
                })
            }
            None => Ok(()),
        };
    }

    /// Returns at `deadline`, or at once if it has passed. Returns the current time.
    ///
    /// It is before the deadline only where the stop flag ended the sleep. Except in `Eco` it is less than a microsecond after
    /// the deadline, unless the machine woke the thread later than its lead.
    ///
    /// On a busy machine it neither wakes early nor spins, and sleeps for at least [`WakePlanner::BUSY_SLEEP`].
    pub fn until(&mut self, clock: Clock, deadline: Timestamp) -> Timestamp {
        self.share(clock);
        let mut now = clock.now();
        let Some(wake) = self.planner.plan(now, deadline) else {
            self.late_entries += 1;
            return now;
        };
        if wake.at > now {
            let Some(woken) = self.sleep_until(clock, now, wake.at) else { return clock.now() };
            now = woken;
            self.note(now.saturating_since(wake.at));
            self.planner.on_woke(wake, now);
        }
        if let Some(end) = wake.spin_until.filter(|&end| now < end) {
            now = self.spin_until(clock, now, end);
            self.planner.on_spun(wake, now);
        }
        now
    }

    /// Sleeps until `deadline`, neither less nor with a spin, whatever the planner knows of the machine. Returns the current time.
    pub(crate) fn until_tick(&mut self, clock: Clock, deadline: Timestamp) -> Timestamp {
        self.share(clock);
        let now = clock.now();
        if now >= deadline {
            self.late_entries += 1;
            return now;
        }
        let Some(now) = self.sleep_until(clock, now, deadline) else { return clock.now() };
        self.note(now.saturating_since(deadline));
        now
    }

    /// Waits until `deadline` as [`until`](Self::until) does, or until one of `ready` is readable, whichever is first. The spin takes
    /// at most `longest_spin`. Unlike `until` it takes no longer on a busy machine.
    #[cfg(feature = "emulate")]
    pub(crate) fn until_ready(
        &mut self,
        clock: Clock,
        deadline: Timestamp,
        ready: &mut [PollFd<'_>],
        longest_spin: TimeDelta,
    ) {
        self.share(clock);
        let now = clock.now();
        let Some(wake) = self.planner.plan(now, deadline) else { return };
        // A busy planner would wake after the deadline.
        let at = wake.at.clamp(deadline - longest_spin, deadline);
        if at > now {
            let limit = TimeSpec::from_duration((at - now).to_std());
            // A signal ends the sleep early, like a packet: the caller looks.
            if ppoll(ready, Some(limit), None) != Ok(0) {
                return;
            }
            let now = clock.now();
            self.note(now.saturating_since(at));
            if at == wake.at {
                self.planner.on_woke(wake, now);
            }
        }
        let begin = clock.now();
        let mut now = begin;
        while now < deadline && ppoll(ready, Some(TimeSpec::new(0, 0)), None) == Ok(0) {
            now = clock.now();
        }
        self.spun += now - begin;
    }

    /// A plain relative sleep without correction of the wake latency, as published strategies use it. Returns
    /// the current time.
    pub fn for_span(&mut self, clock: Clock, span: TimeDelta) -> Timestamp {
        self.share(clock);
        let begin = clock.now();
        let end = begin + span;
        let mut now = begin;
        while self.config.stop.is_some() && end - now > Self::UNSLICED && !self.stopped() {
            sleep(ClockNanosleepFlags::empty(), &TimeSpec::from_duration(Self::SLICE.to_std()));
            now = clock.now();
        }
        if end > now && !self.stopped() {
            sleep(ClockNanosleepFlags::empty(), &TimeSpec::from_duration((end - now).to_std()));
            now = clock.now();
            self.note(now.saturating_since(end));
        }
        now
    }

    /// Sleeps and wakes until shortly before `end`, to learn the wake latency in advance; calls `work` after each wake-up.
    pub fn rehearse(&mut self, clock: Clock, end: Timestamp, mut work: impl FnMut()) {
        const LONG: TimeDelta = TimeDelta::from_millis(20);
        const SHORT: TimeDelta = TimeDelta::from_millis(1);
        loop {
            let now = clock.now();
            let left = end - now;
            let length = if left > LONG * 2 { LONG } else { SHORT };
            if left <= length * 2 || self.stopped() {
                break;
            }
            self.until(clock, now + length);
            work();
        }
        // The leads are kept; the statistics start again.
        self.latencies.reset();
        (self.sleeps, self.late_entries, self.spun) = (0, 0, TimeDelta::ZERO);
    }

    /// Spins for a duration. Returns the current time.
    pub fn spin_for(&mut self, clock: Clock, span: TimeDelta) -> Timestamp {
        self.share(clock);
        let now = clock.now();
        self.spin_until(clock, now, now + span)
    }

    /// The leads, the wake latencies and the time spent spinning.
    pub fn report(&self) -> SleeperReport {
        let quantile = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1e3;
        let [short, middle, long] = self.planner.leads();
        SleeperReport {
            mode: self.config.mode,
            short_sleep_lead_us: short.as_micros(),
            lead_us: middle.as_micros(),
            long_sleep_lead_us: long.as_micros(),
            wake_latency_p50_us: quantile(0.5),
            wake_latency_p90_us: quantile(0.9),
            wake_latency_p99_us: quantile(0.99),
            wake_latency_max_us: self.latencies.max() as f64 / 1e3,
            sleeps: self.sleeps,
            late_entries: self.late_entries,
            spun_ms: self.spun.as_millis(),
            turns_for_others: self.turns_for_others,
        }
    }

    /// Adds what the system granted to the thread.
    pub fn describe(&self, granted: &mut Granted) {
        granted.timer_slack_ns = self.slack_ns;
        granted.time_slice_ns = self.slice_ns;
        granted.realtime_priority = self.priority;
    }

    fn stopped(&self) -> bool {
        self.config.stop.as_ref().is_some_and(|stop| stop.load(Relaxed))
    }

    /// Sleeps until `wake` and returns the time of waking; `None` if the stop flag ended the sleep.
    fn sleep_until(&self, clock: Clock, mut now: Timestamp, wake: Timestamp) -> Option<Timestamp> {
        let sliced = self.config.stop.is_some();
        while now < wake {
            if self.stopped() {
                return None;
            }
            let piece = if sliced && wake - now > Self::UNSLICED { now + Self::SLICE } else { wake };
            sleep(ClockNanosleepFlags::TIMER_ABSTIME, &clock.monotonic(piece));
            now = clock.now();
        }
        (!self.stopped()).then_some(now)
    }

    fn spin_until(&mut self, clock: Clock, begin: Timestamp, deadline: Timestamp) -> Timestamp {
        let mut now = begin;
        while now < deadline {
            std::hint::spin_loop();
            now = clock.now();
        }
        self.spun += now - begin;
        now
    }

    fn note(&mut self, late: TimeDelta) {
        self.sleeps += 1;
        self.latencies.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(0));
    }
}

/// The leads of a [`Sleeper`], the wake latencies of the system, and the time spent spinning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SleeperReport {
    /// The mode of the sleeper.
    pub mode: SleepMode,
    /// The lead of a sleep of up to 200 µs, in microseconds.
    pub short_sleep_lead_us: f64,
    /// The lead of a sleep of 200 µs to 5 ms, in microseconds.
    pub lead_us: f64,
    /// The lead of a longer sleep, in microseconds.
    pub long_sleep_lead_us: f64,
    /// The median wake latency, in microseconds.
    pub wake_latency_p50_us: f64,
    /// The 90th percentile of the wake latency, in microseconds.
    pub wake_latency_p90_us: f64,
    /// The 99th percentile of the wake latency, in microseconds.
    pub wake_latency_p99_us: f64,
    /// The maximum wake latency, in microseconds.
    pub wake_latency_max_us: f64,
    /// The number of sleeps.
    pub sleeps: u64,
    /// The number of deadlines that had already passed.
    pub late_entries: u64,
    /// Time spent spinning, in milliseconds.
    pub spun_ms: f64,
    /// How often the thread left the real-time class for some milliseconds, because it was always busy.
    pub turns_for_others: u64,
}

/// Sleeps. A signal may end the sleep early: callers check the clock.
fn sleep(flags: ClockNanosleepFlags, time: &TimeSpec) {
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, time);
}

fn no_latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NANOS_PER_SECOND, 2)
        .expect("bounds of 1 ns and 1 s and two digits are what a histogram takes")
}
