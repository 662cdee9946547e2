//! The loop that gives links a clock and packets.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use giusto_measure::ErrorHistogram;
use giusto_sim::trace::Observer;
use giusto_units::{TimeDelta, Timestamp};
use nix::poll::PollFd;

use super::emulator::{Arrival, Delivery, Emulator};
use crate::{
    clock::Clock,
    sleeper::{Sleeper, SleeperConfig, SleeperReport},
    system::Granted,
};

/// The maximum time of spinning before a deadline.
const LONGEST_SPIN: TimeDelta = TimeDelta::from_micros(100);
/// Maximum time between two checks of the stop flag.
const LOOK: TimeDelta = TimeDelta::from_millis(50);

/// Receives the packets that enter the links, and sends those that come out.
pub trait Shell {
    /// What it has to remember of a packet.
    type Tag: Copy;

    /// Adds the descriptors that are readable when packets arrive.
    fn descriptors<'a>(&'a self, ready: &mut Vec<PollFd<'a>>);

    /// Reads packets that have arrived, without waiting and a bounded number of them, and passes each with its time of arrival and its
    /// content to `arrive`. Returns whether there were any.
    fn receive(&mut self, clock: Clock, arrive: impl FnMut(Timestamp, Arrival<Self::Tag>, &[u8])) -> bool;

    /// Sends a packet, or holds it until [`flush`](Self::flush).
    fn send(&mut self, delivery: &mut Delivery<Self::Tag>) -> Sent;

    /// Sends what is held. Returns the number of packets that were held at any time since the last call and that the system did not
    /// accept.
    fn flush(&mut self) -> u64 {
        0
    }
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The system accepted it.
    Accepted,
    /// The system did not accept it.
    Refused,
    /// It is sent with others by the next [`Shell::flush`] or before.
    Held,
}

/// When the time of the links begins.
#[derive(Debug, Clone, Default)]
pub enum Start {
    /// With the call of [`run`].
    #[default]
    AtOnce,
    /// With the first packet whose content this accepts. Those before it pass at once, unseen by the links and the observer.
    First(fn(&[u8]) -> bool),
    /// With the call of [`run`], unless `is_opening` accepts the content of the first packet: then as for [`First`](Self::First), with
    /// `is_first`.
    Opening {
        /// Whether a packet opens a session whose data begin the time.
        is_opening: fn(&[u8]) -> bool,
        /// Whether it is one of these data.
        is_first: fn(&[u8]) -> bool,
    },
    /// When `start` is set. Before, and after the end of the duration, packets pass at once, unseen by the links and the observer;
    /// the run goes on until it is stopped. So a session can begin and end outside the time of the links.
    Signal {
        /// The start.
        start: StartSignal,
        /// Of which packets the links are, by their content. The others pass at once at any time.
        crosses: fn(&[u8]) -> bool,
    },
}

/// A start that another thread sets.
#[derive(Debug, Clone, Default)]
pub struct StartSignal(Arc<AtomicU64>);

impl StartSignal {
    /// The start is at `at` on `clock`. Only the first call counts.
    pub fn set(&self, clock: Clock, at: Timestamp) {
        let nanos = clock.origin_monotonic_nanos().saturating_add(at.as_nanos());
        let _ = self.0.compare_exchange(0, nanos, Relaxed, Relaxed);
    }

    /// The start on `clock`, once it is set.
    fn get(&self, clock: Clock) -> Option<Timestamp> {
        let nanos = Some(self.0.load(Relaxed)).filter(|nanos| *nanos != 0)?;
        Some(Timestamp::from_nanos(nanos.saturating_sub(clock.origin_monotonic_nanos())))
    }
}

/// The configuration of [`run`].
#[derive(Debug, Clone, Default)]
pub struct LiveConfig {
    /// When the time of the links begins. Default: at once.
    pub start: Start,
    /// The time of the links at which the run ends. Default: `None`, no end.
    pub duration: Option<TimeDelta>,
    /// Ends the run within 100 ms once it is true. Default: `None`.
    pub stop: Option<Arc<AtomicBool>>,
    /// How often `watch` is called. Default: 0, which is 50 ms.
    pub watch_interval: TimeDelta,
    /// The clock; one that converts the stamps of arrivals must be the same. Default: `None`, one that begins with the run.
    pub clock: Option<Clock>,
    /// How the thread wakes.
    pub sleeper: SleeperConfig,
}

/// The state of a run in real time.
#[derive(Debug, Clone)]
pub struct LiveReport {
    /// The time of the links.
    pub now: Timestamp,
    /// Whether that began with the data of a session: see [`Start::Opening`].
    pub opened: bool,
    /// Time from the moment at which a packet left the last link until it was passed to the system.
    pub lateness: ErrorHistogram,
    /// Packets passed to the system.
    pub sent_packets: u64,
    /// Packets that the system did not accept.
    pub unsent_packets: u64,
    /// Wake-ups and time spent spinning.
    pub sleeper: SleeperReport,
    /// What the system granted to the thread.
    pub granted: Granted,
}

/// Drives `emulator` in real time with the packets of `shell`, until `watch` ends it or the configuration does. The calling thread
/// is [prepared](Sleeper::adopt) for punctual wake-ups.
///
/// `watch` is called now and then; its argument is the time of the links.
pub fn run<S: Shell>(
    shell: &mut S,
    emulator: &mut Emulator<S::Tag>,
    observer: &mut impl Observer,
    config: &LiveConfig,
    mut watch: impl FnMut(Timestamp, &Emulator<S::Tag>, &ErrorHistogram) -> ControlFlow<()>,
) -> LiveReport {
    let clock = config.clock.unwrap_or_else(Clock::start);
    let mut sleeper = Sleeper::new(config.sleeper.clone());
    let mut origin = matches!(config.start, Start::AtOnce | Start::Opening { .. }).then(|| clock.now());
    // Until the first packet has come, it is not known which one begins the time, if `is_opening` asks for that.
    let (signal, is_first, mut is_opening) = match &config.start {
        Start::AtOnce => (None, None, None),
        Start::First(is_first) => (None, Some(is_first), None),
        Start::Opening { is_opening, is_first } => (None, Some(is_first), Some(is_opening)),
        Start::Signal { start, crosses } => (Some((start, crosses)), None, None),
    };
    let mut opened = false;
    let end = config.duration.map(|duration| Timestamp::ZERO + duration);
    let mut lateness = ErrorHistogram::new();
    let (mut sent_packets, mut unsent_packets) = (0_u64, 0_u64);
    let mut held: Vec<Timestamp> = Vec::new();
    let interval = if config.watch_interval > TimeDelta::ZERO { config.watch_interval } else { LOOK };
    let mut watch_at = clock.now() + interval;
    loop {
        let any = shell.receive(clock, |at, arrival, content| {
            if is_opening.take().is_some_and(|is_opening| is_opening(content)) {
                (origin, opened) = (None, true);
            }
            let start = match signal {
                Some((signal, _)) => origin.or_else(|| signal.get(clock)),
                None => origin.or_else(|| is_first.is_some_and(|is_first| is_first(content)).then_some(at)),
            };
            origin = start;
            let link_at = start.map(|start| since(start, at));
            let crosses = |at: &Timestamp| {
                signal.is_none_or(|(_, crosses)| crosses(content) && end.is_none_or(|end| *at < end))
            };
            match link_at.filter(crosses) {
                Some(at) => _ = emulator.offer(at, arrival, content, observer),
                None => emulator.pass(link_at.unwrap_or_default(), arrival, content),
            }
        });
        let now = clock.now();
        origin = origin.or_else(|| signal?.0.get(clock));
        let link_now = origin.map_or(Timestamp::ZERO, |origin| since(origin, now));
        // A run does not go on after its end, however late the thread is.
        let is_over = end.is_some_and(|end| link_now >= end);
        // Links cannot go back to their beginning.
        if is_opening.is_none() {
            emulator.advance(end.map_or(link_now, |end| link_now.min(end)), observer);
        }
        let begin = origin.unwrap_or_default();
        let is_live = origin.is_some() && !(signal.is_some() && is_over);
        let mut record = |due| {
            if is_live {
                lateness.record(since(begin, clock.now()).saturating_since(due));
            }
        };
        while let Some(mut delivery) = emulator.poll_delivery() {
            match shell.send(&mut delivery) {
                Sent::Held => held.push(delivery.due),
                sent => {
                    record(delivery.due);
                    sent_packets += u64::from(sent == Sent::Accepted);
                    unsent_packets += u64::from(sent == Sent::Refused);
                }
            }
            emulator.recycle(delivery);
        }
        if !held.is_empty() {
            let refused = shell.flush();
            unsent_packets += refused;
            sent_packets += (held.len() as u64).saturating_sub(refused);
            held.drain(..).for_each(record);
        }
        let stopped = config.stop.as_ref().is_some_and(|stop| stop.load(Relaxed));
        if is_over && signal.is_none() || stopped {
            break;
        }
        if now >= watch_at {
            watch_at = now + interval;
            if watch(link_now, emulator, &lateness).is_break() {
                break;
            }
        }
        if any {
            sleeper.share(clock);
            continue;
        }
        let begin = origin.unwrap_or(now);
        let due = |at: Timestamp| begin + (at - Timestamp::ZERO);
        let runs = origin.is_some() && !is_over;
        let next = emulator.next_event().filter(|_| runs && is_opening.is_none()).map(due);
        let end = end.filter(|_| runs).map(due);
        let pause = [end, Some(watch_at)].into_iter().flatten().fold(now + LOOK, Timestamp::min);
        // Only packets are worth spinning for.
        let (deadline, spin) =
            next.filter(|&next| next <= pause).map_or((pause, TimeDelta::ZERO), |next| (next, LONGEST_SPIN));
        let mut ready = Vec::with_capacity(8);
        shell.descriptors(&mut ready);
        sleeper.until_ready(clock, deadline, &mut ready, spin);
    }
    let mut granted = Granted::of_this_system();
    sleeper.describe(&mut granted);
    let now = origin.map_or(Timestamp::ZERO, |origin| since(origin, clock.now()));
    let now = config.duration.map_or(now, |duration| now.min(Timestamp::ZERO + duration));
    if is_opening.is_some() {
        emulator.advance(now, observer);
    }
    LiveReport { now, opened, lateness, sent_packets, unsent_packets, sleeper: sleeper.report(), granted }
}

/// `at` as time since `origin`; zero before it.
fn since(origin: Timestamp, at: Timestamp) -> Timestamp {
    Timestamp::ZERO + at.saturating_since(origin)
}
