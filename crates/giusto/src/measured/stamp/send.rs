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
    Clock, SocketConfig, UdpSocket,
    driver::{Driver, Link, Roam, stamp_clock},
};
use giusto_pace::IpVersion;
use giusto_session::{
    probe::{Content, Outgoing},
    stamp::{
        Answers, CountCheck, Departures, ProbeSource,
        time::{ErrorEstimate, WallTime},
    },
};
use giusto_units::{TimeDelta, Timestamp};
use rand::{TryRng, rngs::SysRng};

use super::{
    interval::SenderIntervals,
    plan::{StampClient, StampPlan},
    result::Observed,
};
use crate::measured::{
    RunError,
    interval::{Interval, StampInterval},
    live::{Arrived, Client, Live, Outcome, Results},
    plan::{Opened, StreamPlanError},
    race::{Hello, choose, first_to_answer, first_with_route},
    result::StampResult,
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
/// The longest packet.
const LONGEST: usize = 65_535;
/// Turns that empty a socket: more than a receive buffer of 4 MB holds. A far end that sends without end does not hold the caller.
const MAX_TURNS: usize = 128;
/// A run ends early after this time if nothing has come but "port unreachable".
const GIVE_UP: TimeDelta = TimeDelta::from_seconds(2);

impl Client for StampClient {
    /// A run without answers is a result.
    fn run(
        &self,
        addresses: &[SocketAddr],
        stop: &AtomicBool,
        on_live: &mut dyn FnMut(&Live),
    ) -> Result<(SocketAddr, Outcome), RunError> {
        let far_end = ("STAMP reflector", "giusto recv --accept stamp");
        let to = choose(addresses, far_end, |all| first_reflector(self, all, stop), stop)?;
        let plan = StampPlan::new(self, IpVersion::of(to.ip()))?;
        Ok((to, run(self, &plan, to, stop, on_live)?))
    }
}

impl Hello for CountCheck {
    fn is_answered(&self) -> Option<bool> {
        Self::is_answered(self)
    }
}

/// The address whose reflector answers first; where none does, the first one, whose run shows that.
fn first_reflector(
    asked: &StampClient,
    addresses: &[SocketAddr],
    stop: &AtomicBool,
) -> Result<Option<SocketAddr>, RunError> {
    let Some(first) = addresses.first() else { return Ok(None) };
    let plan = StampPlan::new(asked, IpVersion::of(first.ip()))?;
    let greet = |clock, random| CountCheck::new(probe_source(&plan, clock, random as u16));
    let answered = first_to_answer(addresses, &asked.path, greet, stop).map_err(RunError::Random)?;
    let is_over = stop.load(Ordering::Relaxed);
    Ok(answered.or_else(|| first_with_route(addresses, &asked.path).filter(|_| !is_over)))
}

/// Follows a reflector whose name leads elsewhere while it is silent, and an own address that changes.
struct Follow {
    roam: Roam,
    answered: u64,
    /// When the latest answer came.
    heard_at: Timestamp,
}

impl Follow {
    fn look(&mut self, now: Timestamp, socket: &UdpSocket, answers: &Answers) {
        let answered = answers.counters().answered;
        if std::mem::replace(&mut self.answered, answered) < answered {
            self.heard_at = now;
        }
        // Where the reflector then counts anew, its numbers show that.
        self.roam.look(now, socket, now.saturating_since(self.heard_at));
    }
}

fn run(
    asked: &StampClient,
    plan: &StampPlan,
    to: SocketAddr,
    stop: &AtomicBool,
    on_live: &mut dyn FnMut(&Live),
) -> Result<Outcome, RunError> {
    let config = socket_config(asked, plan);
    let socket = UdpSocket::connected(to, &config)?;
    let clock = Clock::start();
    let source = new_session(plan, clock)?;
    let local = socket.local_addr().ip();
    let answers = Answers::new(source.clone(), to.ip().is_loopback() || to.ip() == local);
    let mut main = Link::new(&socket, answers);
    let check_socket = UdpSocket::connected(to, &config)?;
    let mut check = Link::new(&check_socket, CountCheck::new(new_session(plan, clock)?));

    let start = clock.now() + RUN_UP;
    let mut flow =
        plan.stream().flow(&socket, Opened::NOTHING, start, 0, 1).map_err(StreamPlanError::from)?;
    let content = Content::Stamp { source: Box::new(source.clone()), size: plan.stream().size() };
    flow.outgoing = Outgoing::new(content, plan.stream().plan().seed);
    flow.outgoing.prepare(1);

    let halt = Arc::new(AtomicBool::new(false));
    let done = AtomicBool::new(false);
    let mut driver = Driver::new(clock, LONGEST);
    let mut next_clock = clock.now() + CLOCK_INTERVAL;
    let mut next_live = Timestamp::ZERO;
    let mut intervals = asked.interval.map(|interval| SenderIntervals::new(interval, start));
    let sent_packets = || socket.send_counters().run_datagrams;
    let mut is_checked = false;
    let mut follow =
        Follow { roam: Roam::with_resolver(asked.resolver.clone()), answered: 0, heard_at: start };
    let mut turn =
        |driver: &mut Driver, main: &mut Link<'_, Answers>, intervals: &mut Option<SenderIntervals>, wait| {
            let due = intervals.as_ref().map(|all| all.due().saturating_since(clock.now()).to_std());
            driver.wait([&*main], due.map_or(wait, |due| due.min(wait)));
            driver.turn(main)?;
            // The main session reports an error.
            let _ = driver.turn(&mut check);
            if !is_checked && let Some(counts) = check.session.counts() {
                is_checked = true;
                main.session.set_stateful(counts);
            }
            let now = clock.now();
            follow.look(now, &socket, &main.session);
            if now >= next_clock {
                next_clock = now + CLOCK_INTERVAL;
                source.departures.set_error(ErrorEstimate::of(&stamp_clock(), plan.format));
            }
            let sent = sent_packets();
            let interval = intervals.as_mut().and_then(|all| all.on_turn(now, sent, &mut main.session));
            if now >= next_live || interval.is_some() {
                next_live = now + LIVE;
                on_live(&live(sent, &main.session, interval));
            }
            Ok::<_, RunError>(())
        };
    let is_silent =
        |answers: &Answers| answers.counters().answered == 0 && answers.counters().unreachable > 0;

    let mut received = Ok(());
    let sent = thread::scope(|scope| {
        let sending = thread::Builder::new().spawn_scoped(scope, || {
            let _ends_the_loop = RaisedOnDrop(&done);
            send(plan.stream(), vec![flow], clock, start, &halt)
        });
        let sending = sending.map_err(|_| RunError::Thread("sending"))?;
        while !done.load(Ordering::Relaxed) && received.is_ok() {
            received = turn(&mut driver, &mut main, &mut intervals, LOOK);
            if stop.load(Ordering::Relaxed) || (is_silent(&main.session) && clock.now() - start > GIVE_UP) {
                halt.store(true, Ordering::Relaxed);
            }
        }
        halt.store(true, Ordering::Relaxed);
        sending.join().map_err(|_| RunError::Thread("sending"))
    })?;

    let packets = sent.flows.iter().map(|flow| flow.packets).sum();
    let until = clock.now() + grace(&main.session);
    let silent = is_silent(&main.session);
    while received.is_ok() && !silent && main.session.counters().answered < packets && clock.now() < until {
        // The last interval ends with the last packet.
        let wait = LOOK.min((until - clock.now()).to_std());
        received = turn(&mut driver, &mut main, &mut None, wait);
    }
    // All of what has arrived. A socket that failed has nothing more.
    for _ in 0..MAX_TURNS {
        if !matches!(driver.turn(&mut main), Ok(true)) {
            break;
        }
    }
    let dropped = main.dropped();
    let mut answers = main.session;
    if let Some(last) = intervals.and_then(|all| all.finish(sent.ended, packets, &mut answers)) {
        on_live(&live(packets, &answers, Some(last)));
    }
    let failure = received.err().map(|error| error.to_string());
    let observed = Observed {
        to: socket.peer().unwrap_or(to),
        ssid: source.ssid,
        answers: &answers,
        dropped,
        clock_steps: driver.clock_steps(),
        duration: sent.ended.saturating_since(start),
        sender_cpu_ratio: sent.cpu_ratio,
        interrupted: stop.load(Ordering::Relaxed),
        failure,
    };
    let result = StampResult::of(plan, sent.flows.first(), &observed);
    let failure = result.silence(plan.mode()).map(ToOwned::to_owned);
    Ok(Outcome { results: Results::Stamp(Box::new(result)), failure })
}

fn socket_config(asked: &StampClient, plan: &StampPlan) -> SocketConfig {
    SocketConfig {
        traffic_class: asked.traffic_class,
        path: asked.path.clone(),
        dont_fragment: plan.stream().plan().dont_fragment,
        ..SocketConfig::default()
    }
}

/// How long answers are awaited after the last packet.
fn grace(answers: &Answers) -> TimeDelta {
    let longest = answers.rtts().max().unwrap_or_default();
    let [at_least, at_most] = GRACE;
    (longest + longest).clamp(at_least, at_most)
}

fn live(sent_packets: u64, answers: &Answers, interval: Option<StampInterval>) -> Live {
    let arrived = Arrived::Answers(answers.counters().answered, answers.rtts().quantile(0.5));
    Live { sent_packets: Some(sent_packets), arrived: Some(arrived), interval: interval.map(Interval::Stamp) }
}

/// The source of a new session.
fn new_session(plan: &StampPlan, clock: Clock) -> Result<ProbeSource, RunError> {
    Ok(probe_source(plan, clock, SysRng.try_next_u32().map_err(RunError::Random)? as u16))
}

/// The source of a session; `random` makes its identifier.
fn probe_source(plan: &StampPlan, clock: Clock, random: u16) -> ProbeSource {
    let state = stamp_clock();
    ProbeSource {
        // Not 0, which is no identifier (RFC 8972 §3).
        ssid: random.max(1),
        keys: plan.keys.clone(),
        origin: WallTime::from_unix_nanos(clock.origin_realtime_nanos()),
        tai_offset_s: state.tai_offset_s,
        departures: Departures::new(ErrorEstimate::of(&state, plan.format)),
    }
}
