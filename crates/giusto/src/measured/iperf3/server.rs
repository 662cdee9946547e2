//! giusto as a server of iperf3 clients.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ScopedJoinHandle},
    time::Duration,
};

use giusto_net::{
    Clock, SocketConfig, ThreadCpu, TrafficClass, UdpSocket,
    driver::{ControlConnection, ControlListener, Flow, Gatherer, LEAVING},
};
use giusto_pace::{HeaderLayer, IpVersion, Limits};
use giusto_session::{
    iperf3::{
        ErrorCode, Greeting, Incoming, IncomingConfig, Outcome, Parameters, Server, ServerConfig,
        ServerError, ServerEvent, is_greeting, stream_id,
    },
    probe::{Inbound, Prefixes, payload::PayloadSizes},
};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    client::take,
    figures::{self, Reception},
};
use crate::measured::{
    RunError,
    interval::{IntervalFigures, LocalIntervals, SentCounts},
    live::{Arrived, Live},
    plan::{Layout, Media, Opened, Pacing, ResolvedPlan, StreamPlan, StreamPlanError, Tempo},
    result::{LiveFigures, RunResult},
    send::{self, Sent, Transmission},
};

/// Attempts to find a port that is free for both protocols.
const PORT_ATTEMPTS: usize = 32;

/// Maximum time between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(100);
/// The same while streams are opened or only sent.
const SHORT_LOOK: Duration = Duration::from_millis(10);
/// Time between two calls with live figures.
const LIVE: TimeDelta = TimeDelta::from_millis(200);
/// How long no connection is accepted after the system had no room for one.
const BACK_OFF: TimeDelta = TimeDelta::from_millis(100);
/// A further lack of room within this time after the last one is not reported again.
const SAME_LACK: TimeDelta = TimeDelta::from_seconds(60);
/// How many refused connections are kept until their clients have read why.
const MAX_LEAVING: usize = 16;
/// How many clients may take their time for their parameters. A further one takes the place of the first of the host that has most.
const MAX_WAITING: usize = 16;
/// How far the received rate of all streams may exceed the limit, over a second: clients send in bursts.
const RATE_MARGIN: f64 = 1.1;

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct Iperf3ServerConfig {
    /// The address of the control connection; the streams use its port, too.
    pub address: SocketAddr,
    /// The kernel may hand over runs of datagrams at once (GRO).
    pub offload: bool,
    /// The addresses that are served. Others get no answer: their connections are closed.
    pub prefixes: Prefixes,
    /// The limits of a test.
    pub limits: ServerConfig,
    /// The length of the intervals of [`Live::interval`]; `None`: there are none.
    pub interval: Option<TimeDelta>,
}

/// The events of a running server.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A test begins.
    Opened {
        /// The client.
        from: SocketAddr,
        /// What it asked for.
        parameters: &'a Parameters,
    },
    /// The state of the test.
    Live(&'a Live),
    /// Nothing new: several times a second while no client is served.
    Waiting,
    /// The system has no room for another connection, such as no file descriptors; clients wait until it has.
    NoRoom(&'a io::Error),
    /// A client was refused, or its test failed before it ran.
    Refused {
        /// The client.
        from: SocketAddr,
        /// Why.
        error: &'a ServerError,
    },
    /// A test has ended.
    Closed {
        /// The streams received, then those sent.
        results: Vec<RunResult>,
        /// The error that ended the test early, if one did.
        failure: Option<ServerError>,
    },
}

/// A server that serves one test at a time and refuses other clients as busy.
#[derive(Debug)]
pub struct Iperf3Server {
    listener: ControlListener,
    address: SocketAddr,
    config: Iperf3ServerConfig,
    clock: Clock,
    /// Connections that are closed on our side.
    leaving: Vec<(ControlConnection, Timestamp)>,
    denied: u64,
    /// Until then no connection is accepted, because the system had no room for one.
    no_room_until: Option<Timestamp>,
    /// The system's error, once for each time without room.
    no_room: Option<io::Error>,
}

impl Iperf3Server {
    /// Listens.
    ///
    /// # Errors
    ///
    /// [`RunError::Listen`] where the TCP or the UDP port is not available.
    pub fn open(config: &Iperf3ServerConfig) -> Result<Self, RunError> {
        let bind = || {
            let listen = |source| RunError::Listen { address: config.address, source };
            let listener = ControlListener::bind(config.address).map_err(listen)?;
            let address = listener.local_addr().map_err(listen)?;
            // Streams get a socket with each test: here only whether there can be one.
            UdpSocket::bind(address, &SocketConfig::default())?;
            Ok((listener, address))
        };
        let mut bound = bind();
        // The system chooses a port that is free for TCP. It need not be free for UDP.
        for _ in 1..PORT_ATTEMPTS {
            if config.address.port() != 0 || !matches!(bound, Err(RunError::Socket(_))) {
                break;
            }
            bound = bind();
        }
        let (listener, address) = bound?;
        Ok(Self {
            listener,
            address,
            config: config.clone(),
            clock: Clock::start(),
            leaving: Vec::new(),
            denied: 0,
            no_room_until: None,
            no_room: None,
        })
    }

    /// Its address.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Its clock.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Connections from addresses that are not served.
    pub const fn denied(&self) -> u64 {
        self.denied
    }

    /// The next connection of an address that is served, if there is one.
    fn accept(&mut self) -> Option<ControlConnection> {
        let now = self.clock.now();
        if self.no_room_until.is_some_and(|until| now < until) {
            return None;
        }
        let connection = match self.listener.accept() {
            Ok(connection) => connection?,
            Err(error) => {
                // Soon after the last time it is the same lack.
                let again = self.no_room_until.is_some_and(|until| now < until + SAME_LACK);
                self.no_room = Some(error).filter(|_| !again).or(self.no_room.take());
                self.no_room_until = Some(now + BACK_OFF);
                return None;
            }
        };
        let admitted = self.config.prefixes.admit(connection.peer_addr().ip());
        self.denied += u64::from(!admitted);
        Some(connection).filter(|_| admitted)
    }

    /// Serves one client after the other until `stop` is set or `on_notice` returns false. What it returns during a test ends
    /// the test, as `stop` does. The first client that has sent its parameters is the next one; then the others are refused.
    pub fn run(&mut self, stop: &AtomicBool, mut on_notice: impl FnMut(Notice<'_>) -> bool) {
        let mut waiting = Vec::new();
        let mut go_on = true;
        while go_on && !stop.load(Ordering::Relaxed) && on_notice(Notice::Waiting) {
            if self.no_room_until.is_some_and(|until| self.clock.now() < until) {
                self.listener.back_off(LOOK);
            } else {
                self.listener.wait(waiting.iter().map(|link: &Link| &link.connection), LOOK);
            }
            self.forget_left();
            self.take_in(&mut waiting);
            if let Some(error) = self.no_room.take() {
                on_notice(Notice::NoRoom(&error));
            }
            if let Some((index, parameters)) = self.first_request(&mut waiting) {
                let mut link = waiting.swap_remove(index);
                waiting.drain(..).for_each(|other| self.refuse(other.connection));
                let results = self.serve(&mut link, &parameters, stop, &mut on_notice);
                go_on = self.dismiss(link, results, &mut on_notice);
            }
            for link in waiting.extract_if(.., |link| link.over) {
                go_on &= self.dismiss(link, None, &mut on_notice);
            }
        }
        for mut link in waiting {
            link.server.stop();
            link.flush();
        }
    }

    /// Accepts clients, which may be slow to say what they want.
    fn take_in(&mut self, waiting: &mut Vec<Link>) {
        for _ in 0..MAX_WAITING {
            let Some(connection) = self.accept() else { break };
            let ip = |link: &Link| link.connection.peer_addr().ip();
            let held = |of: &Link| waiting.iter().filter(|link| ip(link) == ip(of)).count();
            let crowded =
                waiting.iter().map(held).enumerate().max_by_key(|(index, held)| (*held, Reverse(*index)));
            if let Some((first, _)) = crowded.filter(|_| waiting.len() >= MAX_WAITING) {
                self.refuse(waiting.remove(first).connection);
            }
            waiting.push(Link {
                server: Server::new(self.clock.now(), self.config.limits),
                connection,
                failure: None,
                over: false,
                finishing: false,
            });
        }
    }

    /// The index of the first client that has sent its parameters.
    fn first_request(&self, waiting: &mut [Link]) -> Option<(usize, Parameters)> {
        waiting.iter_mut().enumerate().find_map(|(index, link)| {
            let mut asked = None;
            link.pump(self.clock, &mut |event| {
                if let ServerEvent::OpenStreams(parameters) = event {
                    asked = Some(parameters);
                }
            });
            Some((index, asked.filter(|_| !link.over)?))
        })
    }

    /// Closes a connection, and says how it ended. Returns whether to go on.
    fn dismiss(
        &mut self,
        mut link: Link,
        results: Option<Vec<RunResult>>,
        on_notice: &mut impl FnMut(Notice<'_>) -> bool,
    ) -> bool {
        let from = link.connection.peer_addr();
        link.connection.close();
        self.leave(link.connection, self.clock.now());
        match (results, &link.failure) {
            (Some(results), _) => on_notice(Notice::Closed { results, failure: link.failure.clone() }),
            (None, Some(error)) => on_notice(Notice::Refused { from, error }),
            (None, None) => true,
        }
    }

    /// Refuses a client as busy.
    fn refuse(&mut self, mut connection: ControlConnection) {
        // A client that has disconnected needs no answer.
        let _ = connection.send(&Server::busy());
        connection.close();
        self.leave(connection, self.clock.now());
    }

    fn leave(&mut self, connection: ControlConnection, now: Timestamp) {
        if self.leaving.len() >= MAX_LEAVING {
            self.leaving.remove(0);
        }
        self.leaving.push((connection, now + LEAVING));
    }

    fn forget_left(&mut self) {
        let now = self.clock.now();
        self.leaving.retain_mut(|(connection, until)| now < *until && !connection.discard());
    }

    /// Refuses further clients as busy.
    fn turn_away(&mut self) {
        self.forget_left();
        // A limited number in one turn: endless connection attempts do not delay the measurement.
        for _ in 0..MAX_LEAVING {
            let Some(connection) = self.accept() else { break };
            self.refuse(connection);
        }
    }

    /// Moves bytes and time of the control connection; further clients are turned away.
    fn pump(&mut self, link: &mut Link, mut on_event: impl FnMut(ServerEvent)) {
        link.pump(self.clock, &mut on_event);
        // After its results a test is as good as over: the next client waits.
        if !link.over && !link.finishing {
            self.turn_away();
        }
    }

    /// Serves one client. Returns the results of a test that ran.
    fn serve(
        &mut self,
        link: &mut Link,
        parameters: &Parameters,
        stop: &AtomicBool,
        on_notice: &mut impl FnMut(Notice<'_>) -> bool,
    ) -> Option<Vec<RunResult>> {
        let prepared = self.prepare(link, parameters);
        let (socket, plan) = match prepared {
            Ok(prepared) => prepared,
            Err((code, why)) => {
                link.server.fail(code, why);
                link.pump(self.clock, &mut |_| {});
                return None;
            }
        };
        link.send_state_of_streams();
        let addresses = self.greet(link, &socket, parameters, stop, on_notice)?;
        on_notice(Notice::Opened { from: link.connection.peer_addr(), parameters });
        let test = Test { parameters, plan: plan.as_ref(), socket: &socket, addresses };
        Some(test.run(self, link, stop, on_notice))
    }

    /// The socket of the streams, and the plan of what this end sends.
    fn prepare(
        &self,
        link: &Link,
        parameters: &Parameters,
    ) -> Result<(UdpSocket, Option<ResolvedPlan>), (ErrorCode, String)> {
        // The address that the client has connected to, so that it accepts our datagrams.
        let local = SocketAddr::new(link.connection.local_addr().ip(), self.address.port());
        let local = match (link.connection.local_addr(), local) {
            (SocketAddr::V6(scoped), SocketAddr::V6(mut v6)) => {
                v6.set_scope_id(scoped.scope_id());
                SocketAddr::V6(v6)
            }
            (_, local) => local,
        };
        let config = SocketConfig {
            gro: self.config.offload,
            traffic_class: TrafficClass::from_byte(parameters.traffic_class),
            ..SocketConfig::default()
        };
        let socket =
            UdpSocket::bind(local, &config).map_err(|error| (ErrorCode::STREAM_LISTEN, error.to_string()))?;
        let plan = parameters.client_receives().then(|| {
            let plan = plan(parameters).resolve(IpVersion::of(local.ip()));
            plan.map_err(|error| (ErrorCode::PARAMETERS, format!("refused: {error}")))
        });
        Ok((socket, plan.transpose()?))
    }

    /// Answers the greetings of all streams. Returns their addresses, in the order of their greetings.
    fn greet(
        &mut self,
        link: &mut Link,
        socket: &UdpSocket,
        parameters: &Parameters,
        stop: &AtomicBool,
        on_notice: &mut impl FnMut(Notice<'_>) -> bool,
    ) -> Option<Vec<SocketAddr>> {
        let host = link.connection.peer_addr().ip();
        let mut addresses: Vec<SocketAddr> = Vec::with_capacity(parameters.all_streams());
        let mut gatherer = Gatherer::new([socket], self.clock);
        while addresses.len() < parameters.all_streams() {
            let all = parameters.all_streams();
            let read = gatherer.read(|_, inbound| {
                // Only the client's own host: a test never sends to a third party.
                let known = addresses.contains(&inbound.from);
                if inbound.from.ip() != host
                    || !is_greeting(inbound.bytes)
                    || (addresses.len() >= all && !known)
                {
                    return;
                }
                if !known {
                    addresses.push(inbound.from);
                }
                // A lost answer ends the client's test, as with iperf3.
                let _ = socket.send_to(&Greeting::Reply.bytes(), inbound.from);
            });
            if let Err(error) = read {
                link.server.fail(ErrorCode::STREAM_ACCEPT, format!("cannot receive: {error}"));
            }
            self.pump(link, |_| {});
            if link.must_end(stop, on_notice(Notice::Waiting)) {
                link.pump(self.clock, &mut |_| {});
                return None;
            }
            if addresses.len() < all {
                gatherer.nap();
            }
        }
        link.server.on_streams_open(self.clock.now());
        Some(addresses)
    }
}

/// What the parameters ask this end to send.
fn plan(parameters: &Parameters) -> StreamPlan {
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

/// A control connection and its state machine.
struct Link {
    server: Server,
    connection: ControlConnection,
    failure: Option<ServerError>,
    over: bool,
    /// Our results have been sent.
    finishing: bool,
}

impl Link {
    fn pump(&mut self, clock: Clock, on_event: &mut impl FnMut(ServerEvent)) {
        self.connection.pump(clock, &mut self.server);
        while let Some(event) = self.server.poll_event() {
            if let ServerEvent::Ended(how) = event {
                self.over = true;
                self.failure = how.err();
            } else {
                on_event(event);
            }
        }
    }

    fn flush(&mut self) {
        self.connection.flush(&mut self.server);
    }

    /// The streams can be opened.
    fn send_state_of_streams(&mut self) {
        self.server.on_ready();
        self.flush();
    }

    /// Whether the client has disconnected, or the server is to stop, of which the client is informed.
    fn must_end(&mut self, stop: &AtomicBool, go_on: bool) -> bool {
        if !self.over && (stop.load(Ordering::Relaxed) || !go_on) {
            self.server.stop();
            self.flush();
        }
        self.over || stop.load(Ordering::Relaxed) || !go_on
    }
}

/// A test that runs.
struct Test<'a> {
    parameters: &'a Parameters,
    /// What this end sends, if it does.
    plan: Option<&'a ResolvedPlan>,
    socket: &'a UdpSocket,
    /// The client's ports: first those that send, then those that receive.
    addresses: Vec<SocketAddr>,
}

/// Where a test stands.
struct Running<'a> {
    gatherer: Gatherer<'a>,
    by_address: HashMap<SocketAddr, usize>,
    streams: Vec<Incoming>,
    start: Timestamp,
    /// Until then nothing counts, if the client asked for that.
    omit_until: Option<Timestamp>,
    /// Datagrams that each stream had sent by then.
    omitted_sent: u64,
    /// From the end of the omitted time on.
    intervals: Option<LocalIntervals>,
    cpu: ThreadCpu,
    ending: bool,
    client: Option<Outcome>,
    exchanged: bool,
}

impl Running<'_> {
    /// Reads datagrams that have arrived; `all`: until the socket is empty.
    fn read(&mut self, link: &mut Link, now: Timestamp, all: bool) {
        let mut heard = false;
        let Self { streams, by_address, gatherer, .. } = self;
        let mut on_datagrams = |_, inbound: &Inbound<'_>| {
            let index = by_address.get(&inbound.from);
            if let Some(stream) = index.and_then(|index| streams.get_mut(*index)) {
                heard |= take(stream, inbound);
            }
        };
        let read = if all { gatherer.drain(&mut on_datagrams) } else { gatherer.read(&mut on_datagrams) };
        if heard {
            link.server.on_data(now);
        }
        if let Err(error) = read {
            link.server.fail(ErrorCode::NO_DATA, format!("cannot receive: {error}"));
        }
    }

    /// Reads all that has arrived, and how much the socket has dropped until now.
    fn drain(&mut self, link: &mut Link, now: Timestamp) {
        self.read(link, now, true);
        let dropped = self.gatherer.kernel_dropped(0);
        self.streams.iter_mut().for_each(|stream| stream.on_kernel_dropped(dropped));
    }

    /// Begins to count after the omitted time. Returns whether that was now.
    fn end_omitted(&mut self, now: Timestamp, sent: SentCounts, targets: usize) -> bool {
        let over = self.omit_until.is_some_and(|until| now >= until);
        if over {
            self.omit_until = None;
            self.streams.iter_mut().for_each(Incoming::end_omitted);
            self.omitted_sent = sent.packets / targets.max(1) as u64;
        }
        over
    }

    /// The figures of an interval that has ended.
    fn interval(&mut self, now: Timestamp, sent: SentCounts) -> Option<IntervalFigures> {
        let Self { intervals, streams, .. } = self;
        intervals.as_mut()?.on_turn(now, sent, streams.iter().map(Incoming::meter))
    }

    fn live(&self, sent_packets: Option<u64>, interval: Option<IntervalFigures>) -> Live {
        figures::live(sent_packets, self.streams.iter(), interval)
    }

    /// CPU time of this thread over elapsed time.
    fn cpu_ratio(&self, now: Timestamp) -> f64 {
        self.cpu.used().as_seconds() / now.saturating_since(self.start).as_seconds().max(1e-9)
    }

    /// Answers the client's figures with ours.
    fn exchange(
        &mut self,
        link: &mut Link,
        now: Timestamp,
        transmission: Option<&Transmission>,
        omit: TimeDelta,
    ) {
        if self.exchanged || self.client.is_none() {
            return;
        }
        self.exchanged = true;
        link.finishing = true;
        // What was on its way when the client ended the test has arrived with its figures, if at all.
        self.drain(link, now);
        let Some(reported) = &self.client else { return };
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if let Some(stream_reported) = reported.stream(stream_id(index)) {
                stream.finish(stream_reported.packets);
            }
        }
        let span = figures::span(self.streams.iter());
        let received = self.streams.iter().enumerate();
        let received = received.map(|(index, stream)| stream.outcome(stream_id(index), span));
        let (first_sent, omitted) = (self.streams.len(), self.omitted_sent);
        let sent = transmission.into_iter().flat_map(|sent| {
            let counted = (sent.duration - omit).max(TimeDelta::ZERO);
            sent.streams.iter().enumerate().map(move |(index, stream)| {
                figures::sent(stream, stream_id(first_sent + index), counted, omitted)
            })
        });
        let ours = Outcome {
            cpu_ratio: self.cpu_ratio(now) + figures::sender_cpu(transmission),
            streams: received.chain(sent).collect(),
        };
        link.server.set_outcome(now, &ours);
        link.flush();
    }
}

impl Test<'_> {
    fn run(
        &self,
        host: &mut Iperf3Server,
        link: &mut Link,
        stop: &AtomicBool,
        on_notice: &mut impl FnMut(Notice<'_>) -> bool,
    ) -> Vec<RunResult> {
        let clock = host.clock;
        let host_interval = host.config.interval;
        let received = if self.parameters.client_sends() { self.parameters.streams } else { 0 };
        let (sources, targets) = self.addresses.split_at_checked(received).unwrap_or((&self.addresses, &[]));
        let config = IncomingConfig::new(self.parameters, clock.origin_monotonic_nanos());
        let start = clock.now();
        let omit = self.parameters.omit;
        let mut running = Running {
            gatherer: Gatherer::new([self.socket], clock),
            by_address: sources.iter().enumerate().map(|(index, address)| (*address, index)).collect(),
            streams: sources.iter().map(|_| Incoming::new(config)).collect(),
            start,
            omit_until: (omit > TimeDelta::ZERO).then_some(start + omit),
            omitted_sent: 0,
            intervals: None,
            cpu: ThreadCpu::start(),
            ending: false,
            client: None,
            exchanged: false,
        };
        let flows = self.flows(targets, start).unwrap_or_else(|error| {
            link.server.fail(ErrorCode::PARAMETERS, error.to_string());
            Vec::new()
        });
        let sent_counts = || figures::sent_counts([self.socket]);
        let intervals = |start, sent| {
            let sends = self.plan.map(|plan| (targets.len(), plan.header()));
            host_interval.map(|interval| LocalIntervals::new(interval, start, sent, sends))
        };
        if running.omit_until.is_none() {
            running.intervals = intervals(start, SentCounts::default());
        }
        let halt = Arc::new(AtomicBool::new(false));
        let (mut transmission, mut ended) = (None, start);
        thread::scope(|scope| {
            let mut thread = (!flows.is_empty()).then(|| {
                let halt = &halt;
                scope.spawn(move || self.plan.map(|plan| send::send(plan, flows, clock, start, halt)))
            });
            let mut next_live = start;
            loop {
                let now = clock.now();
                running.read(link, now, false);
                host.pump(link, |event| match event {
                    ServerEvent::Ending => running.ending = true,
                    ServerEvent::Outcome(outcome) => running.client = Some(outcome),
                    _ => {}
                });
                let sent = sent_counts();
                if running.end_omitted(now, sent, targets.len()) {
                    running.intervals = intervals(now, sent);
                }
                let interval = running.interval(now, sent);
                let mut go_on = true;
                if (now >= next_live && !running.ending) || interval.is_some() {
                    next_live = now + LIVE;
                    let live = running.live((!targets.is_empty()).then_some(sent.packets), interval);
                    if !running.ending {
                        check_rate(host, link, live.arrived);
                    }
                    go_on = on_notice(Notice::Live(&live));
                }
                let stopped = link.must_end(stop, go_on);
                if (running.ending || stopped) && transmission.is_none() {
                    halt.store(true, Ordering::Relaxed);
                    let granted = self.socket.granted();
                    let sent = join(thread.take());
                    ended = sent.as_ref().map_or(now, |sent| sent.ended);
                    transmission = sent.map(|sent| sent.unreported(start, granted, false));
                }
                running.exchange(link, now, transmission.as_ref(), omit);
                if stopped {
                    break;
                }
                if running.streams.is_empty() || running.ending {
                    running.gatherer.wait_for(&link.connection, SHORT_LOOK);
                } else {
                    running.gatherer.nap();
                }
            }
        });
        // The reason of the end, where it came last.
        link.pump(clock, &mut |_| {});
        let results = self.results(link, &mut running, transmission.as_ref(), clock.now());
        let last = running.intervals.take().and_then(|intervals| {
            let meters = running.streams.iter().map(Incoming::meter);
            intervals.finish(clock.now(), ended, sent_counts(), meters)
        });
        if last.is_some() {
            let sent = (!targets.is_empty()).then(|| sent_counts().packets);
            // The test is over: there is nothing to end.
            on_notice(Notice::Live(&running.live(sent, last)));
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
        transmission: Option<&Transmission>,
        now: Timestamp,
    ) -> Vec<RunResult> {
        let cpu_ratio = running.cpu_ratio(now);
        let version = self.parameters.version.as_deref();
        let program = match version {
            // giusto states its own name.
            Some(version) if version.starts_with(|first: char| first.is_ascii_digit()) => {
                format!("iperf3 {version}")
            }
            Some(version) => version.to_owned(),
            None => "iperf3".to_owned(),
        };
        let ended = link.failure.as_ref().map(ToString::to_string);
        let client = running.client.as_ref();
        let reported = |index| client.and_then(|client| client.stream(stream_id(index)));
        let mut results = Vec::with_capacity(self.addresses.len());
        for (index, (stream, from)) in running.streams.iter_mut().zip(&self.addresses).enumerate() {
            let about = Reception {
                parameters: self.parameters,
                program: &program,
                sender: reported(index),
                from: from.to_string(),
                cpu_ratio,
                granted: &self.socket.granted(),
                ended: ended.clone().unwrap_or_else(|| "finished by the sender".to_owned()),
            };
            results.push(figures::received(stream, &about));
        }
        if let (Some(plan), Some(transmission)) = (self.plan, transmission) {
            let first_sent = results.len();
            let targets = self.addresses.iter().skip(first_sent);
            for (index, (mut result, to)) in transmission.results(plan).into_iter().zip(targets).enumerate() {
                let how = ended.clone().unwrap_or_else(|| "finished by the receiver".to_owned());
                result.ended = Some(how);
                figures::add_receiver(&mut result, &program, reported(first_sent + index), self.parameters);
                result.to = Some(to.to_string());
                results.push(result);
            }
        }
        results
    }
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
