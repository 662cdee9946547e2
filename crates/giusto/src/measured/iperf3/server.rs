//! giusto as a server of iperf3 clients.

mod run;

use std::{
    cmp::Reverse,
    io,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use giusto_net::{
    Clock, SocketConfig, TrafficClass, UdpSocket,
    driver::{ControlConnection, ControlListener, Gatherer, LEAVING},
};
use giusto_pace::IpVersion;
use giusto_session::{
    iperf3::{ErrorCode, Greeting, Parameters, Server, ServerConfig, ServerError, ServerEvent, is_greeting},
    probe::Prefixes,
};
use giusto_units::{TimeDelta, Timestamp};

use self::run::{Test, plan};
use crate::measured::{RunError, live::Live, plan::ResolvedPlan, result::RunResult};

/// Attempts to find a port that is free for both protocols.
const PORT_ATTEMPTS: usize = 32;

/// Maximum time between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(100);
/// How long no connection is accepted after the system had no room for one.
const BACK_OFF: TimeDelta = TimeDelta::from_millis(100);
/// A further lack of room within this time after the last one is not reported again.
const SAME_LACK: TimeDelta = TimeDelta::from_seconds(60);
/// How many refused connections are kept until their clients have read why.
const MAX_LEAVING: usize = 16;
/// How many clients may take their time for their parameters. A further one takes the place of the first of the host that has most.
const MAX_WAITING: usize = 16;

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
            // Where this end sends, which is below network control.
            traffic_class: if parameters.client_receives() {
                TrafficClass::from_byte(parameters.traffic_class)
            } else {
                TrafficClass::default()
            },
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
