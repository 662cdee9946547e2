//! One sending run: open the streams, send on time, hear what arrived.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use giusto_measure::{ClockEstimate, ErrorHistogram};
use giusto_net::{
    Clock, Granted, Sleeper, SleeperConfig, SleeperReport, SocketConfig, SocketError, ThreadCpu,
    TrafficClass, UdpSocket,
    driver::{
        Conversation, ConversationEvent, Flow, FlowEnd, FlowOutcome, clock_identity, rehearse, transmit,
    },
};
use giusto_pace::PlanError;
use giusto_session::probe::{
    SenderConfig, SenderError, SenderEvent,
    wire::{Report, SenderFigures, StreamToken},
};
use giusto_units::{TimeDelta, Timestamp};
use rand::{TryRng, rngs::SysRng};

use crate::measured::plan::ResolvedPlan;

/// How long before its first datagram the sending thread begins to practise waking, so that the first is as punctual as the
/// others.
const RUN_UP: TimeDelta = TimeDelta::from_millis(120);

/// Where streams go, and how many of them.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The receiver.
    pub to: SocketAddr,
    /// How many streams, each from a port of its own.
    pub streams: usize,
    /// Nobody is asked and nothing is heard: for receivers that are not ours.
    pub one_way: bool,
    /// DSCP and ECN of every datagram.
    pub traffic_class: TrafficClass,
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransmissionError {
    /// A socket could not be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The receiver would not take the stream, or is not there.
    #[error("{to}: {said}; is `giusto recv` running there? To send to anything else, add --one-way")]
    Refused {
        /// The receiver.
        to: SocketAddr,
        /// What it said.
        said: SenderError,
    },
    /// The run was ended before it began.
    #[error("interrupted before the first datagram")]
    Interrupted,
    /// The system gave no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
    /// The parts of the plan do not fit.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The sending thread broke off: a defect.
    #[error("the sending thread broke off; please report this")]
    Thread,
}

/// What is known while a run goes on.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Time since the first datagram was due.
    pub elapsed: TimeDelta,
    /// Datagrams handed to the system, of all streams.
    pub sent_packets: u64,
    /// The latest report of each stream.
    pub reports: Vec<Option<Box<Report>>>,
}

/// How one stream's run went.
#[derive(Debug)]
pub struct StreamOutcome {
    /// The sender's own figures.
    pub sent: FlowOutcome,
    /// The far end's last report, where one came.
    pub report: Option<Box<Report>>,
    /// The two clocks.
    pub clock: Option<ClockEstimate>,
    /// The round trips.
    pub round_trips: ErrorHistogram,
    /// Why the stream was given up, if it was.
    pub lost: Option<SenderError>,
}

impl StreamOutcome {
    /// What went wrong, in words, if anything did.
    pub fn trouble(&self) -> Option<String> {
        match (&self.lost, &self.sent.end) {
            (Some(error), _) => Some(error.to_string()),
            (None, FlowEnd::Failed(error)) => Some(error.to_string()),
            _ => None,
        }
    }
}

/// How a run went.
#[derive(Debug)]
pub struct Transmission {
    /// One for each stream.
    pub streams: Vec<StreamOutcome>,
    /// From the first datagram's time to the end of sending.
    pub duration: TimeDelta,
    /// Processor time of the sending thread over that time.
    pub sender_cpu_ratio: f64,
    /// How much earlier than needed it had itself woken from sleeps of the length that the plan asks for, in µs.
    pub wake_lead_us: f64,
    /// How the sending thread slept.
    pub sleeper: SleeperReport,
    /// What the system granted to the sending side.
    pub granted: Granted,
    /// A person asked for the end.
    pub interrupted: bool,
}

/// Sends as `plan` says until its limits are reached, `stop` is set, or a receiver is gone.
///
/// `on_live` is called some times a second from the calling thread.
///
/// # Errors
///
/// [`TransmissionError`] where the run could not begin. What happens later stands in the outcome, beside what was measured.
pub fn run(
    plan: &ResolvedPlan,
    destination: &Destination,
    stop: &AtomicBool,
    mut on_live: impl FnMut(&Live),
) -> Result<Transmission, TransmissionError> {
    let config = SocketConfig { traffic_class: destination.traffic_class, ..SocketConfig::default() };
    let sockets = (0..destination.streams)
        .map(|_| UdpSocket::connected(destination.to, &config))
        .collect::<Result<Vec<_>, _>>()?;
    let clock = Clock::start();
    let request = plan.request(clock_identity(clock));
    let mut nonces = Vec::with_capacity(sockets.len());
    for _ in &sockets {
        nonces.push(SysRng.try_next_u64().map_err(|error| TransmissionError::Random(error.to_string()))?);
    }
    let configs = nonces.iter().map(|nonce| SenderConfig::new(request.clone(), *nonce));
    let asked = if destination.one_way { 0 } else { sockets.len() };
    let mut conversation = Conversation::new(clock, sockets.iter().zip(configs).take(asked));
    let mut tokens = conversation.open(stop).map_err(|error| match error {
        Some(said) => TransmissionError::Refused { to: destination.to, said },
        None => TransmissionError::Interrupted,
    })?;
    tokens.resize(sockets.len(), StreamToken(0));

    let start = clock.now() + RUN_UP;
    let mut flows = Vec::with_capacity(sockets.len());
    for (index, (socket, token)) in sockets.iter().zip(&tokens).enumerate() {
        flows.push(Flow {
            schedule: plan.schedule(start, index, sockets.len())?,
            outgoing: plan.outgoing(*token, index),
            socket,
            grouping: plan.grouping(),
            spin: plan.plan().pacing.spin,
            layer: plan.plan().layer,
            ip: plan.ip(),
        });
    }

    let halt = Arc::new(AtomicBool::new(false));
    let done = AtomicBool::new(false);
    let mut lost: Vec<Option<SenderError>> = vec![None; sockets.len()];
    let mut live = Live { reports: vec![None; sockets.len()], ..Live::default() };
    let sent = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let _ends_the_conversation = RaisedOnDrop(&done);
            send(plan, flows, clock, start, &halt)
        });
        conversation.accompany(&done, |event| {
            if let Some(event) = event {
                take(event, &mut live.reports, &mut lost);
            }
            if stop.load(Ordering::Relaxed) || lost.iter().any(Option::is_some) {
                halt.store(true, Ordering::Relaxed);
            }
            live.elapsed = clock.now().saturating_since(start);
            live.sent_packets = sockets.iter().map(|socket| socket.send_counters().datagrams).sum();
            on_live(&live);
        });
        sending.join().map_err(|_| TransmissionError::Thread)
    })?;
    conversation.finish(sent.flows.iter().map(|flow| figures(flow, sent.cpu_ratio)), |event| {
        take(event, &mut live.reports, &mut lost);
    });

    let mut granted = sockets.first().map_or_else(Granted::of_this_system, |socket| socket.granted().clone());
    sent.sleeper.describe(&mut granted);
    let streams = sent.flows.into_iter().zip(live.reports).zip(lost).enumerate();
    let streams = streams.map(|(index, ((sent, report), lost))| StreamOutcome {
        sent,
        report,
        clock: conversation.clock_estimate(index),
        round_trips: conversation.round_trips(index),
        lost,
    });
    Ok(Transmission {
        streams: streams.collect(),
        duration: sent.ended.saturating_since(start),
        sender_cpu_ratio: sent.cpu_ratio,
        wake_lead_us: lead_for(&sent.sleeper.report(), plan.period()),
        sleeper: sent.sleeper.report(),
        granted,
        interrupted: stop.load(Ordering::Relaxed),
    })
}

/// A flag that is raised when a part of the program is left, in whatever way: who waits for it never waits in vain.
pub struct RaisedOnDrop<'a>(pub &'a AtomicBool);

impl Drop for RaisedOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the sending thread brings back.
struct Sent {
    flows: Vec<FlowOutcome>,
    sleeper: Sleeper,
    cpu_ratio: f64,
    ended: Timestamp,
}

/// The sending thread.
fn send(
    plan: &ResolvedPlan,
    flows: Vec<Flow<'_>>,
    clock: Clock,
    start: Timestamp,
    halt: &Arc<AtomicBool>,
) -> Sent {
    let mut sleeper =
        Sleeper::new(SleeperConfig { stop: Some(Arc::clone(halt)), ..plan.plan().pacing.sleeper() });
    rehearse(&mut sleeper, clock, start);
    let (began, cpu) = (clock.now(), ThreadCpu::start());
    let flows = transmit(flows, clock, &mut sleeper, halt);
    let ended = clock.now();
    let passed = (ended - began).as_seconds().max(1e-9);
    Sent { flows, sleeper, cpu_ratio: cpu.used().as_seconds() / passed, ended }
}

/// The lead of the sleeps between cycles: there is one for each class of lengths.
fn lead_for(sleeper: &SleeperReport, period: Option<TimeDelta>) -> f64 {
    let [short, middle] = Sleeper::CLASSES;
    match period {
        Some(period) if period <= short => sleeper.short_sleep_lead_us,
        Some(period) if period > middle => sleeper.long_sleep_lead_us,
        _ => sleeper.lead_us,
    }
}

/// What the receiver is told at the end.
fn figures(sent: &FlowOutcome, cpu_ratio: f64) -> SenderFigures {
    SenderFigures {
        packets: sent.packets,
        bytes: sent.payload.as_bytes(),
        schedule_error: sent.schedule_error.quantiles(),
        rate_bps: sent.rate.rate(),
        cpu_ratio: Some(cpu_ratio as f32),
    }
}

fn take(happened: ConversationEvent, reports: &mut [Option<Box<Report>>], lost: &mut [Option<SenderError>]) {
    let ConversationEvent { stream, event } = happened;
    match (event, reports.get_mut(stream), lost.get_mut(stream)) {
        (SenderEvent::Report(report), Some(place), _) => *place = Some(report),
        (SenderEvent::Ended(Err(error)), _, Some(place)) => *place = Some(error),
        _ => {}
    }
}
