//! The sending end of a run: opens the streams, sends on time, collects the receiver's reports.

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

use crate::measured::{
    plan::ResolvedPlan,
    result::{LiveFigures, Quantiles, RunResult, SlipFigures, SystemGranted},
};

/// The time before the first datagram in which the sending thread practises waking, so that the first datagram is as punctual
/// as the others.
const RUN_UP: TimeDelta = TimeDelta::from_millis(120);

/// The receiver, and how it is addressed.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The receiver's address.
    pub to: SocketAddr,
    /// The number of streams, each from a port of its own.
    pub streams: usize,
    /// Send without asking the receiver and without its reports: for receivers other than giusto.
    pub one_way: bool,
    /// DSCP and ECN of every datagram.
    pub traffic_class: TrafficClass,
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransmissionError {
    /// The socket could not be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The receiver refused the stream, or did not answer.
    #[error("{to}: {reason}; is `giusto recv` running there? To send to another receiver, add --one-way")]
    Refused {
        /// The receiver's address.
        to: SocketAddr,
        /// Why the stream was not opened.
        reason: SenderError,
    },
    /// The run was interrupted before it began.
    #[error("interrupted before the first datagram")]
    Interrupted,
    /// The system gave no random numbers.
    #[error("cannot read random numbers from the system: {0}")]
    Random(String),
    /// The schedule could not be built.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The sending thread panicked: a defect of giusto.
    #[error("the sending thread failed; please report this")]
    Thread,
}

/// The state of a run in progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Live {
    /// Datagrams handed to the system, of all streams.
    pub sent_packets: u64,
    /// The receiver's figures, once a report has come.
    pub far_end: Option<LiveFigures>,
}

/// One stream of a run.
#[derive(Debug)]
pub struct StreamOutcome {
    /// The sender's own figures.
    pub sent: FlowOutcome,
    /// The receiver's last report, if one came.
    pub report: Option<Box<Report>>,
    /// The receiver's clock against ours.
    pub clock: Option<ClockEstimate>,
    /// Round-trip times.
    pub round_trips: ErrorHistogram,
    /// Why the stream was given up, if it was.
    pub lost: Option<SenderError>,
}

impl StreamOutcome {
    /// The error that ended the stream early, if one did.
    pub fn failure(&self) -> Option<String> {
        match (&self.lost, &self.sent.end) {
            (Some(error), _) => Some(error.to_string()),
            (None, FlowEnd::Failed(error)) => Some(error.to_string()),
            _ => None,
        }
    }
}

/// A run, as the sending end knows it.
#[derive(Debug)]
pub struct Transmission {
    /// The streams.
    pub streams: Vec<StreamOutcome>,
    /// From the first datagram's scheduled time to the end of sending.
    pub duration: TimeDelta,
    /// CPU time of the sending thread over that time.
    pub sender_cpu_ratio: f64,
    /// How much earlier than its deadline the thread asked to be woken from sleeps between cycles, in µs.
    pub wake_lead_us: f64,
    /// How the sending thread slept.
    pub sleeper: SleeperReport,
    /// What the system granted to the sending end.
    pub granted: Granted,
    /// The run was interrupted.
    pub interrupted: bool,
}

impl Transmission {
    /// The error that ended a stream early, if one did: then the results cover a part of the run.
    pub fn failure(&self) -> Option<String> {
        self.streams.iter().find_map(StreamOutcome::failure)
    }

    /// The result of each stream: the sender's own figures and the receiver's report.
    pub fn results(&self, plan: &ResolvedPlan) -> Vec<RunResult> {
        self.streams.iter().map(|stream| self.result(plan, stream)).collect()
    }

    fn result(&self, plan: &ResolvedPlan, stream: &StreamOutcome) -> RunResult {
        let FlowOutcome { packets, rate, schedule_error, late_cycles: slips, .. } = &stream.sent;
        let mut result = plan.blank_result();
        if let Some(report) = &stream.report {
            result.add_received(&report.summary);
            result.receiver_cpu_ratio = report.cpu_ratio.map(f64::from);
            result.voice = report.voice.as_ref().map(Into::into);
        }
        result.sent_packets = Some(*packets);
        result.tx_rate_bps = rate.rate();
        // The sender has counted every datagram; the report only those whose times travelled.
        result.schedule_error_us = Quantiles::micros(schedule_error.quantiles().as_ref());
        result.slips = Some(SlipFigures {
            caught_up_packets: slips.caught_up_packets,
            skipped_packets: slips.skipped_packets,
            reanchors: slips.reanchors,
        });
        result.duration_s = Some(self.duration.as_seconds());
        result.sender_cpu_ratio = Some(self.sender_cpu_ratio);
        result.ended = Some(stream.failure().unwrap_or_else(|| {
            let why = match stream.sent.end {
                FlowEnd::Stopped if self.interrupted => "interrupted",
                FlowEnd::Stopped => "another stream failed",
                _ => "all sent",
            };
            why.to_owned()
        }));
        result.system = Some(self.system());
        result.clock = stream.clock.as_ref().map(Into::into);
        result.round_trip_ms = Quantiles::millis(&stream.round_trips);
        result
    }

    fn system(&self) -> SystemGranted {
        let sleeper = &self.sleeper;
        let slept = sleeper.sleeps > 0;
        SystemGranted {
            wake_latency_us: slept.then_some(Quantiles {
                p50: Some(sleeper.wake_latency_p50_us),
                p99: Some(sleeper.wake_latency_p99_us),
                max: Some(sleeper.wake_latency_max_us),
                ..Quantiles::default()
            }),
            wake_lead_us: slept.then_some(self.wake_lead_us),
            spun_ratio: Some(sleeper.spun_ms / 1e3 / self.duration.as_seconds().max(1e-9)),
            ..SystemGranted::from(&self.granted)
        }
    }
}

/// Sends as planned until the limits are reached, `stop` is set, or a receiver is gone.
///
/// `on_live` is called several times a second from the calling thread.
///
/// # Errors
///
/// [`TransmissionError`] where the run could not begin. Later errors are part of the outcome, beside what was measured.
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
    let mut configs = Vec::with_capacity(sockets.len());
    for _ in &sockets {
        let nonce = SysRng.try_next_u64().map_err(|error| TransmissionError::Random(error.to_string()))?;
        configs.push(SenderConfig::new(request.clone(), nonce));
    }
    let asked = if destination.one_way { 0 } else { sockets.len() };
    let mut conversation = Conversation::new(clock, sockets.iter().zip(configs).take(asked));
    let mut tokens = conversation.open(stop).map_err(|error| match error {
        Some(reason) => TransmissionError::Refused { to: destination.to, reason },
        None => TransmissionError::Interrupted,
    })?;
    tokens.resize(sockets.len(), StreamToken(0));

    let start = clock.now() + RUN_UP;
    let mut flows = Vec::with_capacity(sockets.len());
    for (index, (socket, token)) in sockets.iter().zip(&tokens).enumerate() {
        flows.push(plan.flow(socket, *token, start, (index, sockets.len()))?);
    }

    let halt = Arc::new(AtomicBool::new(false));
    let done = AtomicBool::new(false);
    let mut heard = Heard { reports: vec![None; sockets.len()], lost: vec![None; sockets.len()] };
    let sent = thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let _ends_the_conversation = RaisedOnDrop(&done);
            send(plan, flows, clock, start, &halt)
        });
        conversation.accompany(&done, |event| {
            if let Some(event) = event {
                heard.take(event);
            }
            if stop.load(Ordering::Relaxed) || heard.lost.iter().any(Option::is_some) {
                halt.store(true, Ordering::Relaxed);
            }
            let sent_packets = sockets.iter().map(|socket| socket.send_counters().datagrams).sum();
            on_live(&Live { sent_packets, far_end: heard.live() });
        });
        sending.join().map_err(|_| TransmissionError::Thread)
    })?;
    conversation
        .finish(sent.flows.iter().map(|flow| figures(flow, sent.cpu_ratio)), |event| heard.take(event));

    let mut granted = sockets.first().map_or_else(Granted::of_this_system, |socket| socket.granted().clone());
    sent.sleeper.describe(&mut granted);
    let streams = sent.flows.into_iter().zip(heard.reports).zip(heard.lost).enumerate();
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

/// Sets the flag when it is dropped, also by a panic, so that the thread that waits for the flag goes on.
pub(super) struct RaisedOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for RaisedOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The latest report of each stream, and why it was given up.
struct Heard {
    reports: Vec<Option<Box<Report>>>,
    lost: Vec<Option<SenderError>>,
}

impl Heard {
    fn take(&mut self, ConversationEvent { stream, event }: ConversationEvent) {
        match (event, self.reports.get_mut(stream), self.lost.get_mut(stream)) {
            (SenderEvent::Report(report), Some(place), _) => *place = Some(report),
            (SenderEvent::Ended(Err(error)), _, Some(place)) => *place = Some(error),
            _ => {}
        }
    }

    fn live(&self) -> Option<LiveFigures> {
        let mut all = LiveFigures::default();
        for summary in self.reports.iter().flatten().map(|report| &report.summary) {
            all.streams += 1;
            all.received_packets += summary.received_packets;
            all.lost_packets += summary.lost_packets;
            all.rate_bps += summary.rate_bps.unwrap_or(0.0);
            all.gap_error_p99 = all.gap_error_p99.max(summary.gap_error.map(|gap| gap.p99));
        }
        (all.streams > 0).then_some(all)
    }
}

/// The result of the sending thread.
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

/// The lead of the sleeps between cycles: there is one for each class of sleep lengths.
fn lead_for(sleeper: &SleeperReport, period: Option<TimeDelta>) -> f64 {
    let [short, middle] = Sleeper::CLASSES;
    match period {
        Some(period) if period <= short => sleeper.short_sleep_lead_us,
        Some(period) if period > middle => sleeper.long_sleep_lead_us,
        _ => sleeper.lead_us,
    }
}

/// The sender's figures that the receiver gets at the end.
fn figures(sent: &FlowOutcome, cpu_ratio: f64) -> SenderFigures {
    SenderFigures {
        packets: sent.packets,
        bytes: sent.payload.as_bytes(),
        schedule_error: sent.schedule_error.quantiles(),
        rate_bps: sent.rate.rate(),
        cpu_ratio: Some(cpu_ratio as f32),
    }
}
