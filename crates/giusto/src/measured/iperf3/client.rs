//! giusto as the client of an iperf3 server.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use giusto_net::{
    Clock, Granted, PathOptions, ReceiveBatch, SocketConfig, SocketError, TrafficClass, UdpSocket, Wait,
    driver::ControlConnection,
};
use giusto_pace::{HeaderLayer, IpVersion};
use giusto_session::{
    iperf3::{
        Client as ControlClient, ClientError, ClientEvent, Greeting, Outcome, Parameters, is_greeting,
        stream_id,
    },
    probe::payload::PayloadSizes,
};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use rand::{TryRng, rngs::SysRng};

use super::{
    figures::Ended,
    running::{Running, Sending},
};
use crate::measured::{
    RunError,
    interval::SentCounts,
    live::{Client, Live, Outcome as Measured},
    plan::{Layout, Media, Opened, ResolvedPlan, StreamPlan, StreamPlanError},
    send::{self, RUN_UP, RaisedOnDrop, Transmission},
};

/// The name of the far end: it does not state its version.
const PROGRAM: &str = "iperf3 server";
/// How long to wait for the control connection.
const CONNECT: TimeDelta = TimeDelta::from_seconds(5);
/// How long to wait for the answer to the greeting of a stream.
const GREET: TimeDelta = TimeDelta::from_seconds(5);
/// After this time without an answer the greeting of the last stream is repeated. See [`greet`].
const REPEAT: TimeDelta = TimeDelta::from_seconds(1);
/// The time between the last datagram and the message that ends the test, after which iperf3 counts nothing.
const DRAIN: TimeDelta = TimeDelta::from_millis(200);
/// A receiving test ends after this time without a datagram.
const IDLE: TimeDelta = TimeDelta::from_seconds(10);
/// Time between two looks at the control connection while nothing is received.
const LOOK: Duration = Duration::from_millis(20);

/// The test that a server is asked for.
#[derive(Debug, Clone)]
pub struct Iperf3Client {
    /// The plan of each stream: filler of [`Layout::Iperf3`].
    pub plan: StreamPlan,
    /// Streams in each direction, 1 to 128.
    pub streams: usize,
    /// The server sends instead of this end.
    pub reverse: bool,
    /// Both ends send.
    pub bidirectional: bool,
    /// DSCP and ECN of every datagram, of both ends.
    pub traffic_class: TrafficClass,
    /// Where the datagrams of this end and the control connection leave, and what routers and switches read of them.
    pub path: PathOptions,
    /// The length of the intervals; `None`: there are none.
    pub interval: Option<TimeDelta>,
}

impl Client for Iperf3Client {
    fn run(
        &self,
        addresses: &[SocketAddr],
        stop: &AtomicBool,
        on_live: &mut dyn FnMut(&Live),
    ) -> Result<(SocketAddr, Measured), RunError> {
        let mut random = [0; 36];
        SysRng.try_fill_bytes(&mut random).map_err(RunError::Random)?;
        // A plan that cannot be is found before there is a connection.
        for to in addresses {
            let ip = IpVersion::of(to.ip());
            self.parameters(&self.plan.resolve(ip)?, ip)?;
        }
        let failed = |error| match error {
            SocketError::Connect { source, .. } if source.kind() == io::ErrorKind::Interrupted => {
                RunError::Interrupted
            }
            SocketError::Connect { source, .. } => RunError::Connect { to: addresses.to_vec(), source },
            error => RunError::Socket(error),
        };
        let (to, connection) =
            ControlConnection::connect(addresses, &self.path, CONNECT, stop).map_err(failed)?;
        let plan = self.plan.resolve(IpVersion::of(to.ip()))?;
        let parameters = self.parameters(&plan, IpVersion::of(to.ip()))?;
        let clock = Clock::start();
        let client = ControlClient::new(clock.now(), parameters.clone(), &random);
        let mut link =
            Link { client, connection, clock, failure: None, outcome: None, reached: Reached::Connected };
        link.until(stop, to, Reached::CreateStreams)?;
        let config = SocketConfig {
            traffic_class: self.traffic_class,
            dont_fragment: self.plan.dont_fragment,
            path: self.path.clone(),
            ..SocketConfig::default()
        };
        let mut sockets = Vec::with_capacity(parameters.all_streams());
        for index in 1..=parameters.all_streams() {
            let socket = UdpSocket::connected(to, &config)?;
            greet(&socket, &mut link, stop, index == parameters.all_streams())?;
            sockets.push(socket);
        }
        link.until(stop, to, Reached::Running)?;
        let test = Test { plan: &plan, parameters: &parameters, to, clock, stop, interval: self.interval };
        Ok((to, test.run(&mut link, &sockets, on_live)?))
    }
}

impl Iperf3Client {
    /// The plan as parameters of iperf3.
    fn parameters(&self, plan: &ResolvedPlan, ip: IpVersion) -> Result<Parameters, RunError> {
        let asked = &self.plan;
        let Media::Filler(Layout::Iperf3 { wide_counters }, PayloadSizes::Fixed(_)) = asked.media else {
            return Err(RunError::VaryingSize);
        };
        // iperf3 counts the payload alone.
        let on_wire = asked.layer.on_wire(plan.size(), ip);
        let share = plan.size().as_bytes() as f64 / on_wire.as_bytes().max(1) as f64;
        let rate = plan.rate().map(|rate| match asked.layer {
            HeaderLayer::Payload => rate,
            _ => DataRate::from_bps((rate.as_bps() as f64 * share).round() as u64),
        });
        let streams = self.streams as u64;
        let bytes = asked.limits.size.map_or(0, |size| (size.as_bytes() as f64 * share) as u64);
        Ok(Parameters {
            duration: asked.limits.duration.unwrap_or_default(),
            omit: TimeDelta::ZERO,
            bytes: bytes.saturating_mul(streams),
            packets: asked.limits.packets.unwrap_or(0).saturating_mul(streams),
            streams: self.streams,
            reverse: self.reverse,
            bidirectional: self.bidirectional,
            size: plan.size(),
            rate,
            traffic_class: self.traffic_class.byte(),
            wide_counters,
            version: None,
        })
    }
}

/// How far the server has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Connected,
    CreateStreams,
    Running,
    Over,
}

/// The control connection and its state machine.
struct Link {
    client: ControlClient,
    connection: ControlConnection,
    clock: Clock,
    failure: Option<ClientError>,
    outcome: Option<Outcome>,
    reached: Reached,
}

impl Link {
    /// Moves bytes and time.
    fn pump(&mut self) {
        self.connection.pump(self.clock, &mut self.client);
        while let Some(event) = self.client.poll_event() {
            match event {
                ClientEvent::CreateStreams => self.reached = Reached::CreateStreams,
                ClientEvent::Running => self.reached = Reached::Running,
                ClientEvent::Outcome(outcome) => self.outcome = Some(outcome),
                ClientEvent::Ended(how) => {
                    self.reached = Reached::Over;
                    self.failure = how.err();
                }
                _ => {}
            }
        }
    }

    fn over(&self) -> bool {
        self.reached == Reached::Over
    }

    fn flush(&mut self) {
        self.connection.flush(&mut self.client);
    }

    /// Waits until the server has come to `wanted`.
    fn until(&mut self, stop: &AtomicBool, to: SocketAddr, wanted: Reached) -> Result<(), RunError> {
        loop {
            self.pump();
            self.check(stop, to)?;
            if self.reached >= wanted {
                return Ok(());
            }
            self.connection.wait(LOOK);
        }
    }

    /// Whether the test can still begin.
    fn check(&mut self, stop: &AtomicBool, to: SocketAddr) -> Result<(), RunError> {
        if let Some(source) = self.failure.take() {
            return Err(RunError::Control { to, source });
        }
        if stop.load(Ordering::Relaxed) {
            self.leave();
            return Err(RunError::Interrupted);
        }
        Ok(())
    }

    /// Abandons the test; the server is informed.
    fn leave(&mut self) {
        self.client.abandon();
        self.flush();
        self.connection.close();
    }
}

/// Announces a stream, and waits for the server's answer.
///
/// A server that has got a greeting treats a further one from the same port as a datagram of the stream (`iperf_udp_recv` in
/// `iperf_udp.c`), with a sequence number out of what its buffer holds, and one from another port as another stream. So a greeting
/// may be repeated only if the first one was lost. That is known for the last stream: the server begins the test over TCP as soon as
/// it has the greeting, whether or not its answer is lost. For the streams before it nothing tells a lost greeting from a lost
/// answer, so theirs are not repeated.
fn greet(socket: &UdpSocket, link: &mut Link, stop: &AtomicBool, last: bool) -> Result<(), RunError> {
    let to = link.connection.peer_addr();
    let silent = RunError::NoStream { to };
    let (mut greeted, deadline) = (link.clock.now(), link.clock.now() + GREET);
    // One at a time: the first datagrams of the test may already follow the answer.
    let mut batch = ReceiveBatch::new(1, 2048);
    if socket.send(&Greeting::Connect.bytes()).is_err() {
        link.leave();
        return Err(silent);
    }
    while link.clock.now() < deadline {
        // A closed port shows as an error, which a server that is slow to open it may cause once.
        let _ = socket.recv_batch(&mut batch, Wait::For(LOOK));
        if batch.iter().any(|received| is_greeting(received.bytes)) {
            return Ok(());
        }
        link.pump();
        link.check(stop, to)?;
        if last && link.reached >= Reached::Running {
            return Ok(());
        }
        let now = link.clock.now();
        if last && now >= greeted + REPEAT {
            greeted = now;
            // What cannot be sent is like what is lost.
            let _ = socket.send(&Greeting::Connect.bytes());
        }
    }
    link.leave();
    Err(silent)
}

/// A test that runs.
struct Test<'a> {
    plan: &'a ResolvedPlan,
    parameters: &'a Parameters,
    to: SocketAddr,
    clock: Clock,
    stop: &'a AtomicBool,
    interval: Option<TimeDelta>,
}

impl Test<'_> {
    fn run(
        &self,
        link: &mut Link,
        sockets: &[UdpSocket],
        mut on_live: impl FnMut(&Live),
    ) -> Result<Measured, RunError> {
        let sending = if self.parameters.client_sends() { self.parameters.streams } else { 0 };
        let (out, back) = sockets.split_at_checked(sending).unwrap_or((sockets, &[]));
        let start = self.clock.now() + RUN_UP;
        let mut flows = Vec::with_capacity(out.len());
        for (index, socket) in out.iter().enumerate() {
            let flow = self.plan.flow(socket, Opened::NOTHING, start, index, out.len());
            flows.push(flow.map_err(StreamPlanError::from)?);
        }
        let sending = (!out.is_empty()).then(|| Sending {
            sockets: out,
            streams: out.len(),
            header: self.plan.header(),
        });
        let mut running = Running::new(self.clock, back, self.parameters, back.len(), sending);
        running.begin_intervals(self.interval, start, SentCounts::default());
        let halt = Arc::new(AtomicBool::new(false));
        let done = AtomicBool::new(false);
        let sent = thread::scope(|scope| {
            let thread = (!out.is_empty()).then(|| {
                thread::Builder::new().spawn_scoped(scope, || {
                    let _ends_the_wait = RaisedOnDrop(&done);
                    send::send(self.plan, flows, self.clock, start, &halt)
                })
            });
            let thread = thread.transpose().map_err(|_| RunError::Thread("sending"))?;
            loop {
                link.pump();
                running.read(false);
                let now = self.clock.now();
                let finished = if out.is_empty() {
                    self.has_received(now, &running)
                } else {
                    done.load(Ordering::Relaxed)
                };
                if finished || link.over() || running.failed.is_some() || self.stop.load(Ordering::Relaxed) {
                    break;
                }
                if let Some(live) = running.turn(now, false) {
                    on_live(&live);
                }
                if back.is_empty() {
                    link.connection.wait(LOOK);
                } else {
                    running.gatherer.nap();
                }
            }
            halt.store(true, Ordering::Relaxed);
            thread.map(|thread| thread.join().map_err(|_| RunError::Thread("sending"))).transpose()
        })?;
        let interrupted = self.stop.load(Ordering::Relaxed);
        let over = self.clock.now();
        let cpu_ratio = running.cpu_ratio(over);
        let ended = sent.as_ref().map_or(running.began(), |sent| sent.ended);
        let granted = || sockets.first().map_or_else(Granted::of_this_system, UdpSocket::granted);
        let mut sent = sent.map(|sent| sent.unreported(start, granted(), interrupted));
        for (stream, socket) in sent.iter_mut().flat_map(|sent| &mut sent.streams).zip(sockets) {
            stream.path_mtu = socket.path_mtu();
        }
        let idle = sent.is_none() && self.is_idle(&running);
        self.end(link, sent.as_ref(), &mut running, over, cpu_ratio);
        let failure = failure(link, &running, idle);
        let end = Ended {
            parameters: self.parameters,
            program: PROGRAM,
            reported: link.outcome.as_ref(),
            cpu_ratio,
            granted: &running.gatherer.granted(),
            failure: failure.as_deref(),
        };
        let mut results = sent.map(|sent| end.sent(&sent, self.plan, 0)).unwrap_or_default();
        let stopped = self.stop.load(Ordering::Relaxed).then_some("interrupted");
        let end = Ended { failure: end.failure.or(stopped), ..end };
        results.extend(end.received(&mut running.streams, results.len(), &vec![self.to; back.len()]));
        if let Some(live) = running.last(ended) {
            on_live(&live);
        }
        Ok(Measured::of_streams(results, failure))
    }

    /// Whether a test in which only the server sends has come to its end.
    fn has_received(&self, now: Timestamp, running: &Running<'_>) -> bool {
        let limits = self.plan.plan().limits;
        let streams = &running.streams;
        limits.duration.is_some_and(|duration| now.saturating_since(running.began()) >= duration)
            || limits.packets.is_some_and(|packets| streams.iter().all(|s| s.highest() >= packets))
            || limits.size.is_some_and(|size| streams.iter().all(|s| s.bytes() >= size.as_bytes()))
            || self.is_idle(running)
    }

    fn is_idle(&self, running: &Running<'_>) -> bool {
        self.clock.now().saturating_since(running.last_heard().unwrap_or(running.began())) >= IDLE
    }

    /// Exchanges the figures with the server, of a test that was over at `over`.
    fn end(
        &self,
        link: &mut Link,
        sent: Option<&Transmission>,
        running: &mut Running<'_>,
        over: Timestamp,
        cpu_ratio: f64,
    ) {
        if sent.is_some() && !link.over() {
            self.wait(link, running, DRAIN, |link, _| link.over());
        }
        running.drain();
        let first_received = sent.map_or(0, |sent| sent.streams.len());
        let outcome = running.outcome(cpu_ratio, first_received, over, sent);
        link.client.finish(self.clock.now(), outcome);
        link.flush();
        self.wait(link, running, TimeDelta::MAX, |link, _| link.over());
        link.connection.close();
        let Some(outcome) = link.outcome.clone() else {
            running.drain();
            return;
        };
        // Datagrams that were on their way when the server counted.
        self.wait(link, running, DRAIN, |_, running| {
            running.streams.iter().enumerate().all(|(index, stream)| {
                let reported = outcome.stream(stream_id(first_received + index));
                stream.highest() >= reported.map_or(0, |reported| reported.packets)
            })
        });
        running.drain();
    }

    /// Goes on receiving until `over`, at most this long.
    fn wait(
        &self,
        link: &mut Link,
        running: &mut Running<'_>,
        limit: TimeDelta,
        over: impl Fn(&Link, &Running<'_>) -> bool,
    ) {
        let began = self.clock.now();
        loop {
            link.pump();
            running.read(false);
            if over(link, running) || self.clock.now().saturating_since(began) >= limit {
                return;
            }
            if link.over() {
                running.gatherer.nap();
            } else {
                running.gatherer.wait_for(&link.connection, Duration::from_millis(2));
            }
        }
    }
}

/// Why a run ended early, if it did.
fn failure(link: &Link, running: &Running<'_>, idle: bool) -> Option<String> {
    let by_control = link.failure.as_ref().map(ToString::to_string);
    let by_socket = running.failed.as_ref().map(|error| format!("cannot receive: {error}"));
    let by_silence = idle.then(|| {
        format!(
            "no datagrams came from the iperf3 server for {} s; is UDP blocked on the way?",
            IDLE.as_seconds()
        )
    });
    by_control.or(by_socket).or(by_silence)
}
