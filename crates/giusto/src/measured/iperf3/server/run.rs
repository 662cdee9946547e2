//! A test that runs, at the server.

use std::{
    net::SocketAddr,
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use giusto_net::{UdpSocket, driver::Flow};
use giusto_pace::{HeaderLayer, Limits};
use giusto_session::{
    iperf3::{ErrorCode, Outcome, Parameters, ServerEvent, stream_id},
    probe::payload::PayloadSizes,
};
use giusto_units::{TimeDelta, Timestamp};

use super::{Iperf3Server, Link, Notice};
use crate::measured::{
    interval::SentCounts,
    iperf3::{
        figures::Ended,
        running::{Running, Sending},
    },
    live::Arrived,
    plan::{Layout, Media, Opened, Pacing, ResolvedPlan, StreamPlan, StreamPlanError, Tempo},
    result::{LiveFigures, RunResult},
    send::{self, Sent, Transmission},
};

/// Maximum time between two looks at the stop flag while nothing is received.
const SHORT_LOOK: Duration = Duration::from_millis(10);
/// How far the received rate of all streams may exceed the limit, over a second: clients send in bursts.
const RATE_MARGIN: f64 = 1.1;

/// A test that runs.
pub(super) struct Test<'a> {
    pub(super) parameters: &'a Parameters,
    /// What this end sends, if it does.
    pub(super) plan: Option<&'a ResolvedPlan>,
    pub(super) socket: &'a UdpSocket,
    /// The client's ports: first those that send, then those that receive.
    pub(super) addresses: Vec<SocketAddr>,
}

impl Test<'_> {
    pub(super) fn run(
        &self,
        host: &mut Iperf3Server,
        link: &mut Link,
        stop: &AtomicBool,
        on_notice: &mut impl FnMut(Notice<'_>) -> bool,
    ) -> Vec<RunResult> {
        let clock = host.clock;
        let received = if self.parameters.client_sends() { self.parameters.streams } else { 0 };
        let (sources, targets) = self.addresses.split_at_checked(received).unwrap_or((&self.addresses, &[]));
        let sockets = slice::from_ref(self.socket);
        let sending =
            self.plan.map(|plan| Sending { sockets, streams: targets.len(), header: plan.header() });
        let mut running = Running::new(clock, sockets, self.parameters, sources.len(), sending);
        running.tell_apart_by(sources);
        let start = running.began();
        let flows = self.flows(targets, start).unwrap_or_else(|error| {
            link.server.fail(ErrorCode::PARAMETERS, error.to_string());
            Vec::new()
        });
        // Until then nothing counts, if the client asked for that.
        let omit = self.parameters.omit;
        let mut omit_until = (omit > TimeDelta::ZERO).then_some(start + omit);
        if omit_until.is_none() {
            running.begin_intervals(host.config.interval, start, SentCounts::default());
        }
        let halt = Arc::new(AtomicBool::new(false));
        let (mut ending, mut exchanged, mut client) = (None, false, None);
        let (mut transmission, mut ended) = (None, start);
        thread::scope(|scope| {
            let thread = (!flows.is_empty()).then(|| {
                let (halt, thread) = (&halt, thread::Builder::new());
                thread.spawn_scoped(scope, move || {
                    self.plan.map(|plan| send::send(plan, flows, clock, start, halt))
                })
            });
            let mut thread = thread.transpose().unwrap_or_else(|error| {
                link.server.fail(ErrorCode::THREAD, format!("the system gives no thread: {error}"));
                None
            });
            loop {
                let now = clock.now();
                let heard = running.read(false);
                note(&mut running, link, now, heard);
                host.pump(link, |event| match event {
                    ServerEvent::Ending => ending = Some(now),
                    ServerEvent::Outcome(outcome) => client = Some(outcome),
                    _ => {}
                });
                if omit_until.take_if(|until| now >= *until).is_some() {
                    let sent = running.end_omitted();
                    running.begin_intervals(host.config.interval, now, sent);
                }
                let mut go_on = true;
                if let Some(live) = running.turn(now, ending.is_some()) {
                    if ending.is_none() {
                        check_rate(host, link, live.arrived);
                    }
                    go_on = on_notice(Notice::Live(&live));
                }
                let stopped = link.must_end(stop, go_on);
                if (ending.is_some() || stopped) && transmission.is_none() {
                    halt.store(true, Ordering::Relaxed);
                    let granted = self.socket.granted();
                    let sent = join(thread.take());
                    ended = sent.as_ref().map_or(now, |sent| sent.ended);
                    transmission = sent.map(|sent| sent.unreported(start, granted, false));
                }
                if let Some(client) = client.as_ref().filter(|_| !exchanged) {
                    exchanged = true;
                    let over = ending.unwrap_or(now);
                    exchange(&mut running, link, now, over, client, transmission.as_ref());
                }
                if stopped {
                    break;
                }
                if running.streams.is_empty() || ending.is_some() {
                    running.gatherer.wait_for(&link.connection, SHORT_LOOK);
                } else {
                    running.gatherer.nap();
                }
            }
        });
        // The reason of the end, where it came last.
        link.pump(clock, &mut |_| {});
        let results = self.results(link, &mut running, client.as_ref(), transmission.as_ref());
        if let Some(live) = running.last(ended) {
            // The test is over: there is nothing to end.
            on_notice(Notice::Live(&live));
        }
        results
    }

    fn flows(&self, targets: &[SocketAddr], start: Timestamp) -> Result<Vec<Flow<'_>>, StreamPlanError> {
        let Some(plan) = self.plan else { return Ok(Vec::new()) };
        let streams = targets.len();
        targets
            .iter()
            .enumerate()
            .map(|(index, to)| {
                let flow = plan.flow(self.socket, Opened::NOTHING, start, index, streams)?;
                Ok(Flow { to: Some(*to), ..flow })
            })
            .collect()
    }

    fn results(
        &self,
        link: &Link,
        running: &mut Running<'_>,
        client: Option<&Outcome>,
        transmission: Option<&Transmission>,
    ) -> Vec<RunResult> {
        let program = match self.parameters.version.as_deref() {
            // giusto states its own name.
            Some(version) if version.starts_with(|first: char| first.is_ascii_digit()) => {
                format!("iperf3 {version}")
            }
            Some(version) => version.to_owned(),
            None => "iperf3".to_owned(),
        };
        let failure = link.failure.as_ref().map(ToString::to_string);
        let end = Ended {
            parameters: self.parameters,
            program: &program,
            reported: client,
            cpu_ratio: running.cpu_ratio(running.clock.now()),
            granted: &self.socket.granted(),
            failure: failure.as_deref(),
        };
        let mut results = end.received(&mut running.streams, 0, &self.addresses);
        if let (Some(plan), Some(transmission)) = (self.plan, transmission) {
            let first = results.len();
            let targets = self.addresses.iter().skip(first);
            for (mut result, to) in end.sent(transmission, plan, first).into_iter().zip(targets) {
                result.ended = Some(failure.as_deref().unwrap_or("finished by the receiver").to_owned());
                result.to = Some(to.to_string());
                results.push(result);
            }
        }
        results
    }
}

/// Notes whether datagrams were heard, or why none can be.
fn note(running: &mut Running<'_>, link: &mut Link, now: Timestamp, heard: bool) {
    if heard {
        link.server.on_data(now);
    }
    if let Some(error) = running.failed.take() {
        link.server.fail(ErrorCode::NO_DATA, format!("cannot receive: {error}"));
    }
}

/// Answers the client's figures with ours, of a test that it ended at `over`.
fn exchange(
    running: &mut Running<'_>,
    link: &mut Link,
    now: Timestamp,
    over: Timestamp,
    client: &Outcome,
    transmission: Option<&Transmission>,
) {
    link.finishing = true;
    // What was on its way when the client ended the test has arrived with its figures, if at all.
    let heard = running.drain();
    note(running, link, now, heard);
    for (index, stream) in running.streams.iter_mut().enumerate() {
        if let Some(reported) = client.stream(stream_id(index)) {
            stream.finish(reported.packets);
        }
    }
    let ours = running.outcome(running.cpu_ratio(now), 0, over, transmission);
    link.server.set_outcome(now, &ours);
    link.flush();
}

/// Ends a test that is faster than announced and than permitted.
fn check_rate(host: &Iperf3Server, link: &mut Link, arrived: Option<Arrived>) {
    if let (Some(limit), Some(Arrived::Streams(LiveFigures { rate_bps, .. }))) =
        (host.config.limits.max_rate, arrived)
        && rate_bps > limit.as_bps() as f64 * RATE_MARGIN
    {
        let why = format!("the client sent {rate_bps:.0} bit/s, at most {limit} is allowed");
        link.server.fail(ErrorCode::RATE, why);
    }
}

/// The result of the sending thread; none if it panicked or never began.
fn join(thread: Option<ScopedJoinHandle<'_, Option<Sent>>>) -> Option<Sent> {
    thread.and_then(|thread| thread.join().ok()).flatten()
}

/// What the parameters ask this end to send.
pub(super) fn plan(parameters: &Parameters) -> StreamPlan {
    /// As for the client's own end: iperf3 servers send until the client ends the test.
    const BEYOND: TimeDelta = TimeDelta::from_seconds(40);
    let duration = parameters.duration + parameters.omit + BEYOND;
    StreamPlan {
        media: Media::Filler(
            Layout::Iperf3 { wide_counters: parameters.wide_counters },
            PayloadSizes::Fixed(parameters.size),
        ),
        tempo: parameters.rate.map_or(Tempo::Max, Tempo::Rate),
        layer: HeaderLayer::Payload,
        pacing: Pacing::default(),
        limits: Limits::default().with_duration((parameters.duration > TimeDelta::ZERO).then_some(duration)),
        content: None,
        seed: 1,
        dont_fragment: false,
        mtu_discovery: false,
    }
}
