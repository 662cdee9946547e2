//! The sending end.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use giusto_net::{
    Clock, ReceiveBatch, SocketConfig, TrafficClass, UdpSocket, Wait,
    driver::{AnswerDriver, stamp_clock},
};
use giusto_session::{
    probe::{Content, Outgoing},
    stamp::{
        Answers, Departures, ProbeSource,
        time::{ErrorEstimate, WallTime},
    },
};
use giusto_units::{TimeDelta, Timestamp};
use rand::{TryRng, rngs::SysRng};

use super::{
    interval::{SenderIntervals, StampInterval},
    plan::StampPlan,
    result::{Observed, StampResult},
};
use crate::measured::{
    RunError,
    plan::Opened,
    send::{RUN_UP, RaisedOnDrop, send},
};

/// Maximum time between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two calls with live figures.
const LIVE: TimeDelta = TimeDelta::from_millis(50);
/// Time between two updates of the error estimate.
const CLOCK_INTERVAL: TimeDelta = TimeDelta::from_seconds(1);
/// The shortest and the longest time for which answers are awaited after the last packet.
const GRACE: [TimeDelta; 2] = [TimeDelta::from_seconds(2), TimeDelta::from_seconds(10)];
/// A run ends early after this time if nothing has come but "port unreachable".
const GIVE_UP: TimeDelta = TimeDelta::from_seconds(2);

/// The state of a run in progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct StampLive {
    /// Packets handed to the system.
    pub sent_packets: u64,
    /// Packets with an answer.
    pub answered_packets: u64,
    /// The median round-trip time so far.
    pub round_trip: Option<TimeDelta>,
    /// An interval that has ended.
    pub interval: Option<StampInterval>,
}

/// The reflector, and how the run is watched.
#[derive(Debug, Clone, Copy)]
pub struct StampTarget {
    /// The reflector's address.
    pub to: SocketAddr,
    /// DSCP and ECN of every packet.
    pub traffic_class: TrafficClass,
    /// The length of the intervals of [`StampLive::interval`]; `None`: there are none.
    pub interval: Option<TimeDelta>,
}

/// Sends as planned until the limits are reached or `stop` is set, and measures the answers.
///
/// `on_live` is called several times a second from the calling thread, and at the end with the last interval.
///
/// # Errors
///
/// [`RunError`] where the run could not begin. A run without answers is a result.
pub fn run(
    plan: &StampPlan,
    target: &StampTarget,
    stop: &AtomicBool,
    mut on_live: impl FnMut(StampLive),
) -> Result<StampResult, RunError> {
    let StampTarget { to, traffic_class, interval } = *target;
    let config = SocketConfig {
        traffic_class,
        dont_fragment: plan.stream().plan().dont_fragment,
        ..SocketConfig::default()
    };
    let socket = UdpSocket::connected(to, &config)?;
    let clock = Clock::start();
    let source = probe_source(plan, clock)?;
    let local = socket.local_addr().ip();
    let mut answers = Answers::new(source.clone(), to.ip().is_loopback() || to.ip() == local);
    let mut check = CountCheck::open(to, &config, clock, probe_source(plan, clock)?)?;

    let start = clock.now() + RUN_UP;
    let mut flow = plan.stream().flow(&socket, Opened::NOTHING, start, (0, 1))?;
    let content = Content::Stamp { source: Box::new(source.clone()), size: plan.stream().size() };
    flow.outgoing = Outgoing::new(content, plan.stream().plan().seed);
    flow.outgoing.prepare(1);

    let halt = Arc::new(AtomicBool::new(false));
    let done = AtomicBool::new(false);
    let mut driver = AnswerDriver::new(&socket, clock);
    let mut next_clock = clock.now() + CLOCK_INTERVAL;
    let mut next_live = Timestamp::ZERO;
    let mut intervals = interval.map(|interval| SenderIntervals::new(interval, start));
    let sent_packets = || socket.send_counters().run_datagrams;
    let mut turn = |answers: &mut Answers, driver: &mut AnswerDriver<'_>, intervals: &mut Option<_>, wait| {
        let intervals: Option<&mut SenderIntervals> = intervals.as_mut();
        let now = clock.now();
        let due = intervals.as_ref().map(|all| all.due().saturating_since(now).to_std());
        driver.turn(answers, due.map_or(wait, |due| due.min(wait)))?;
        check.turn(answers);
        let now = clock.now();
        if now >= next_clock {
            next_clock = now + CLOCK_INTERVAL;
            source.departures.set_error(ErrorEstimate::of(&stamp_clock(), plan.format));
        }
        let sent = sent_packets();
        let interval = intervals.and_then(|all| all.on_turn(now, sent, answers));
        if now >= next_live || interval.is_some() {
            next_live = now + LIVE;
            on_live(live(sent, answers, interval));
        }
        Ok::<_, RunError>(())
    };

    let mut received = Ok(());
    let sent = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let _ends_the_loop = RaisedOnDrop(&done);
            send(plan.stream(), vec![flow], clock, start, &halt)
        });
        while !done.load(Ordering::Relaxed) && received.is_ok() {
            received = turn(&mut answers, &mut driver, &mut intervals, LOOK);
            let silent = answers.counters().answered == 0 && driver.unreachable() > 0;
            if stop.load(Ordering::Relaxed) || (silent && clock.now() - start > GIVE_UP) {
                halt.store(true, Ordering::Relaxed);
            }
        }
        halt.store(true, Ordering::Relaxed);
        sending.join().map_err(|_| RunError::Thread("sending"))
    })?;

    let packets = sent.flows.iter().map(|flow| flow.packets).sum();
    let longest = answers.round_trips().max().unwrap_or_default();
    let [shortest_grace, longest_grace] = GRACE;
    let grace = (longest + longest).clamp(shortest_grace, longest_grace);
    let until = clock.now() + grace;
    let silent = answers.counters().answered == 0 && driver.unreachable() > 0;
    while received.is_ok() && !silent && answers.counters().answered < packets && clock.now() < until {
        // The last interval ends with the last packet.
        received = turn(&mut answers, &mut driver, &mut None, LOOK.min((until - clock.now()).to_std()));
    }
    // A socket that failed has nothing more.
    let dropped = driver.drain(&mut answers).unwrap_or(0);
    if let Some(last) = intervals.and_then(|all| all.finish(sent.ended, packets, &mut answers)) {
        on_live(live(packets, &answers, Some(last)));
    }
    let failure = received.err().map(|error| error.to_string());
    let observed = Observed {
        to,
        ssid: source.ssid,
        answers: &answers,
        unreachable: driver.unreachable(),
        dropped,
        clock_steps: driver.clock_steps(),
        duration: sent.ended.saturating_since(start),
        sender_cpu_ratio: sent.cpu_ratio,
        interrupted: stop.load(Ordering::Relaxed),
        failure,
    };
    Ok(StampResult::of(plan, sent.flows.first(), &observed))
}

fn live(sent_packets: u64, answers: &Answers, interval: Option<StampInterval>) -> StampLive {
    StampLive {
        sent_packets,
        answered_packets: answers.counters().answered,
        round_trip: answers.round_trips().quantile(0.5),
        interval,
    }
}

/// The source of a new session.
fn probe_source(plan: &StampPlan, clock: Clock) -> Result<ProbeSource, RunError> {
    let state = stamp_clock();
    // Not 0, which is no identifier (RFC 8972 §3).
    let ssid = (SysRng.try_next_u32().map_err(RunError::Random)? as u16).max(1);
    Ok(ProbeSource {
        ssid,
        keys: plan.keys.clone(),
        origin: WallTime::from_unix_nanos(clock.origin_realtime_nanos()),
        tai_offset_s: state.tai_offset_s,
        departures: Departures::new(ErrorEstimate::of(&state, plan.format)),
    })
}

/// Finds out whether the reflector counts.
///
/// As long as no packet is lost on the way there, the numbers of a stateful reflector are those of a stateless one. So a session of
/// its own begins with the number 2, as if two packets had been lost: the answer has the number 0 or the number 2.
struct CountCheck {
    socket: UdpSocket,
    clock: Clock,
    source: ProbeSource,
    answers: Answers,
    batch: ReceiveBatch,
    sequence: u64,
    next: Timestamp,
}

impl CountCheck {
    const INTERVAL: TimeDelta = TimeDelta::from_seconds(1);
    const ATTEMPTS: u64 = 3;

    fn open(
        to: SocketAddr,
        config: &SocketConfig,
        clock: Clock,
        source: ProbeSource,
    ) -> Result<Self, RunError> {
        let socket = UdpSocket::connected(to, config)?;
        let answers = Answers::new(source.clone(), false);
        let batch = ReceiveBatch::new(4, 2048);
        Ok(Self { socket, clock, source, answers, batch, sequence: 2, next: Timestamp::ZERO })
    }

    /// Sends a packet that is due, and passes the finding on to `main`.
    fn turn(&mut self, main: &mut Answers) {
        if self.answers.counters().answered > 0 {
            return;
        }
        let now = self.clock.now();
        if now >= self.next && self.sequence <= 2 * Self::ATTEMPTS {
            self.next = now + Self::INTERVAL;
            let mut packet = vec![0; self.source.mode().base_bytes()];
            self.source.write(now, self.sequence, &mut packet);
            self.sequence += 2;
            // A packet that cannot be sent is tried again; the main session reports the error.
            let _ = self.socket.send(&packet);
        }
        // The main session reports an error.
        let _ = self.socket.recv_batch(&mut self.batch, Wait::Never);
        for received in self.batch.iter() {
            self.answers.on_datagram(now, received.bytes);
        }
        if self.answers.counters().answered > 0 {
            main.set_stateful(self.answers.stateful() == Some(true));
        }
    }
}
