//! A relay on loopback that forwards TCP and UDP and passes each UDP datagram with its kernel timestamp to an
//! observer.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use giusto_units::{DataSize, TimeDelta, Timestamp};
use serde::Serialize;

use super::{
    connections,
    run::DatagramRun,
    shared::{Counters, LOOK, RelayError, Shared, spawn},
};
use crate::{
    clock::{Clock, StampConverter},
    socket::{
        Grouping, ReceiveBatch, SendError, SocketConfig, SocketError, TrafficClass, UdpSocket, Wait,
        is_passing,
    },
};

/// Time for which queued datagrams are still observed and forwarded after the relay is stopped, where clients go on sending.
const DRAIN: TimeDelta = TimeDelta::from_seconds(1);
/// The maximum number of UDP clients. Each has a socket and a thread.
const MAX_CLIENTS: usize = 8;
/// Attempts to find a port that is free for both protocols.
const PORT_ATTEMPTS: usize = 32;
/// Space for one datagram of any length. The odd multiple of a cache line distributes the starts of a batch's
/// datagrams over the sets of the processor's caches.
const STRIDE: usize = 65_536 + 5 * 64;

giusto_units::defaults! {
    /// The configuration of a [`StampingRelay`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct RelayConfig {
        /// The port of 127.0.0.1 to listen on, for TCP and UDP. Default: 0, any port that is free for both.
        pub port: u16 = 0,
        /// The port of 127.0.0.1 to forward to. Required: the default, 0, is not a valid port.
        pub target: u16 = 0,
        /// Maximum time for which a TCP connection waits for the target to listen, so that client and server may
        /// be started in any order. Default: 2 s.
        pub connect_timeout: Duration = Duration::from_secs(2),
    }
}

/// A UDP datagram to the server, before it is forwarded.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// Its arrival at the relay, by the kernel's timestamp on the relay's clock.
    pub at: Timestamp,
    /// Whether the kernel timestamped it; otherwise `at` is the time at which it was read.
    pub stamped: bool,
    /// The payload.
    pub bytes: &'a [u8],
    /// The client.
    pub from: SocketAddr,
    /// DSCP and ECN on arrival.
    pub traffic_class: Option<TrafficClass>,
    /// Datagrams that the kernel dropped at the relay's full socket since the previous datagram.
    pub kernel_dropped: u32,
}

impl Observed<'_> {
    /// The size of the payload.
    pub const fn size(&self) -> DataSize {
        DataSize::from_bytes(self.bytes.len() as u64)
    }
}

/// Counts of what a relay forwarded and dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RelayReport {
    /// UDP datagrams that came from clients.
    pub observed_packets: u64,
    /// Those that were forwarded to the server.
    pub to_server_packets: u64,
    /// UDP datagrams forwarded to clients.
    pub to_client_packets: u64,
    /// UDP datagrams of either direction that could not be forwarded.
    pub unforwarded_packets: u64,
    /// UDP datagrams that the kernel dropped at the relay's socket because the relay was too slow.
    pub kernel_dropped_packets: u64,
    /// TCP connections forwarded.
    pub connections: u64,
    /// TCP connections refused: too many at a time, or the server did not listen.
    pub refused_connections: u64,
}

/// Listens on a port of 127.0.0.1 for TCP and UDP, forwards both to another port of this machine and back,
/// and passes every UDP datagram to the server, with its kernel timestamp, to an observer before it is
/// forwarded.
///
/// Another program is thus measured by the same timestamps as giusto's own streams: the kernel sets them when
/// the datagram reaches the relay's socket, independently of later delays in the relay or the server.
/// Incoming datagrams are never merged, so that each has its own timestamp; outgoing ones of equal length are
/// sent together.
///
/// It serves up to 8 UDP clients and 16 TCP connections at a time. Datagrams of further UDP clients are
/// observed but not forwarded.
///
/// # Example
///
/// ```
/// use std::{net::UdpSocket, sync::mpsc};
/// use giusto_net::{Clock, emulate::{RelayConfig, StampingRelay}};
///
/// let server = UdpSocket::bind("127.0.0.1:0")?;
/// let (sizes, observed) = mpsc::channel();
/// let config = RelayConfig { target: server.local_addr()?.port(), ..RelayConfig::default() };
/// let relay = StampingRelay::start(Clock::start(), &config, move |datagram| {
///     let _ = sizes.send(datagram.size());
/// })?;
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// client.send_to(b"ping", ("127.0.0.1", relay.port()))?;
/// let mut bytes = [0; 16];
/// assert_eq!(server.recv(&mut bytes)?, 4);
/// assert_eq!(observed.recv()?.as_bytes(), 4);
/// assert_eq!(relay.stop().to_server_packets, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StampingRelay {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl StampingRelay {
    /// Starts a relay that runs until it is [stopped](Self::stop) or dropped. A separate thread calls
    /// `observe` for each UDP datagram to the server, in order of arrival.
    ///
    /// # Errors
    ///
    /// [`RelayError`] names the port that is not available.
    pub fn start<F>(clock: Clock, config: &RelayConfig, observe: F) -> Result<Self, RelayError>
    where
        F: FnMut(&Observed<'_>) + Send + 'static,
    {
        let (tcp, listener) = listen(config.port)?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            target: (Ipv4Addr::LOCALHOST, config.target).into(),
            connect_timeout: config.connect_timeout,
            counters: Counters::default(),
            listener,
        });
        let mut relay = Self { shared: Arc::clone(&shared), threads: Vec::with_capacity(2) };
        let udp = Arc::clone(&shared);
        relay.threads.push(spawn("relay-udp", move || relay_to_server(&udp, clock, observe))?);
        relay.threads.push(spawn("relay-tcp", move || connections::serve(&shared, &tcp))?);
        Ok(relay)
    }

    /// The port of 127.0.0.1 that clients connect to.
    pub fn port(&self) -> u16 {
        self.shared.listener.local_addr().port()
    }

    /// The counts so far.
    pub fn report(&self) -> RelayReport {
        let counters = &self.shared.counters;
        RelayReport {
            observed_packets: counters.observed.load(Relaxed),
            to_server_packets: counters.to_server.load(Relaxed),
            to_client_packets: counters.to_client.load(Relaxed),
            unforwarded_packets: counters.unforwarded.load(Relaxed),
            kernel_dropped_packets: self.shared.listener.dropped_messages().unwrap_or(0).into(),
            connections: counters.connections.load(Relaxed),
            refused_connections: counters.refused_connections.load(Relaxed),
        }
    }

    /// Stops the relay, within 100 ms once clients send nothing more: queued datagrams are still forwarded, TCP connections are closed,
    /// and all threads have ended when this returns.
    pub fn stop(mut self) -> RelayReport {
        self.end();
        self.report()
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // Only the observer can make one of the threads panic; that was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for StampingRelay {
    fn drop(&mut self) {
        self.end();
    }
}

/// A port of 127.0.0.1 that is currently free for TCP and UDP, for a program that cannot choose one itself.
///
/// # Errors
///
/// [`RelayError`] holds the system's error.
pub fn free_port() -> Result<u16, RelayError> {
    listen(0).map(|(_, udp)| udp.local_addr().port())
}

/// A TCP and a UDP socket at one port: the given one, or any that is free for both.
fn listen(port: u16) -> Result<(TcpListener, UdpSocket), RelayError> {
    let attempt = || {
        let failed = |source| RelayError::Listen { port, source };
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
        tcp.set_nonblocking(true).map_err(failed)?;
        let udp = UdpSocket::bind(tcp.local_addr().map_err(failed)?, &socket_config(true))?;
        Ok((tcp, udp))
    };
    let mut outcome = attempt();
    for _ in 1..PORT_ATTEMPTS {
        if port != 0 || !matches!(outcome, Err(RelayError::Socket(SocketError::Bind { .. }))) {
            break;
        }
        outcome = attempt();
    }
    outcome
}

/// Sockets towards the server need no timestamps. The one towards clients has space for the time for which a
/// busy machine may delay the relay: about 70 ms at 300 000 short datagrams per second.
fn socket_config(measuring: bool) -> SocketConfig {
    SocketConfig {
        receive_buffer: Some(DataSize::from_bytes(if measuring { 16_000_000 } else { 4_000_000 })),
        kernel_timestamps: measuring,
        drop_counts: measuring,
        receive_traffic_class: measuring,
        // Less than the permitted time to stop the relay.
        send_timeout: Duration::from_millis(20),
        ..SocketConfig::default()
    }
}

/// A client, and its socket towards the server.
struct Client {
    address: SocketAddr,
    upstream: Arc<UdpSocket>,
    returning: JoinHandle<()>,
}

/// Observes the datagrams of clients and forwards them to the server.
fn relay_to_server(shared: &Arc<Shared>, clock: Clock, mut observe: impl FnMut(&Observed<'_>)) {
    let mut stamps = StampConverter::new(clock);
    let mut batch = ReceiveBatch::new(64, STRIDE);
    let mut clients: Vec<Client> = Vec::new();
    let mut run = DatagramRun::default();
    let mut dropped = 0_u32;
    let mut drain_until = None;
    loop {
        let stopping = shared.stop.load(Relaxed);
        let wait = if stopping { Wait::Never } else { Wait::For(LOOK) };
        // An unconnected socket gets no errors of other hosts, so an error here is permanent.
        let Ok(received) = shared.listener.recv_batch(&mut batch, wait) else { break };
        let now = clock.now();
        if stopping && (received == 0 || now >= *drain_until.get_or_insert(now + DRAIN)) {
            break;
        }
        stamps.refresh(now);
        shared.counters.observed.fetch_add(received as u64, Relaxed);
        let mut last_client = None;
        for datagram in batch.iter() {
            let total = datagram.kernel_dropped.unwrap_or(dropped);
            observe(&Observed {
                at: datagram.stamp.map_or(now, |stamp| stamps.convert(stamp, now)),
                stamped: datagram.stamp.is_some(),
                bytes: datagram.bytes,
                from: datagram.from,
                traffic_class: datagram.traffic_class,
                kernel_dropped: total.wrapping_sub(dropped),
            });
            dropped = total;
            let client = client_index(shared, &mut clients, datagram.from);
            let fits = run.fits(datagram.bytes.len()) && client == last_client;
            if !fits {
                flush_to_server(&mut run, shared, last_client.and_then(|index: usize| clients.get(index)));
            }
            last_client = client;
            run.push(datagram.bytes);
        }
        flush_to_server(&mut run, shared, last_client.and_then(|index| clients.get(index)));
    }
    // Also if the socket failed: the threads of the clients wait for it.
    shared.stop.store(true, Relaxed);
    for client in clients {
        let _ = client.returning.join();
    }
}

/// The index of the client at `address`; a new client is added if the maximum is not reached.
fn client_index(shared: &Arc<Shared>, clients: &mut Vec<Client>, address: SocketAddr) -> Option<usize> {
    if let Some(known) = clients.iter().position(|client| client.address == address) {
        return Some(known);
    }
    if clients.len() >= MAX_CLIENTS {
        return None;
    }
    let upstream = Arc::new(UdpSocket::connected(shared.target, &socket_config(false)).ok()?);
    let (theirs, ours) = (Arc::clone(&upstream), Arc::clone(shared));
    let returning = spawn("relay-udp-back", move || relay_to_client(&ours, &theirs, address)).ok()?;
    clients.push(Client { address, upstream, returning });
    Some(clients.len() - 1)
}

/// Forwards the server's datagrams to `client`.
fn relay_to_client(shared: &Shared, upstream: &UdpSocket, client: SocketAddr) {
    let mut batch = ReceiveBatch::new(16, STRIDE);
    let mut run = DatagramRun::default();
    while !shared.stop.load(Relaxed) {
        match upstream.recv_batch(&mut batch, Wait::For(LOOK)) {
            Ok(_) => {}
            // The server does not listen yet, or no longer listens, or the way to it is interrupted.
            Err(error) if is_passing(&error) => continue,
            Err(_) => break,
        }
        for datagram in batch.iter() {
            if !run.fits(datagram.bytes.len()) {
                flush_to_client(&mut run, shared, client);
            }
            run.push(datagram.bytes);
        }
        flush_to_client(&mut run, shared, client);
    }
}

/// Sends the run to the server; drops it if the client could not be added.
fn flush_to_server(run: &mut DatagramRun, shared: &Shared, client: Option<&Client>) {
    let sent = client.map_or(0, |client| send(run, &client.upstream, None));
    shared.counters.to_server.fetch_add(sent as u64, Relaxed);
    clear(run, shared, sent);
}

fn flush_to_client(run: &mut DatagramRun, shared: &Shared, client: SocketAddr) {
    let sent = send(run, &shared.listener, Some(client));
    shared.counters.to_client.fetch_add(sent as u64, Relaxed);
    clear(run, shared, sent);
}

fn clear(run: &mut DatagramRun, shared: &Shared, sent: usize) {
    shared.counters.unforwarded.fetch_add(run.packets().saturating_sub(sent) as u64, Relaxed);
    run.clear();
}

/// Returns how many were sent.
fn send(run: &DatagramRun, socket: &UdpSocket, to: Option<SocketAddr>) -> usize {
    let send = |from: usize| {
        let rest = run.bytes().get(from * run.segment()..).unwrap_or(&[]);
        match (run.packets(), run.segment(), to) {
            (0, ..) => Ok(0),
            (_, 0, Some(to)) => socket.send_to(&[], to).map(|()| 1),
            (_, 0, None) => socket.send(&[]).map(|()| 1),
            _ => socket.send_segments(to, rest, run.segment(), Grouping::Offload),
        }
    };
    match send(0) {
        Ok(sent) => sent,
        // The error concerns an earlier datagram: try this one once more.
        Err(SendError::Refused { accepted }) => {
            accepted + send(accepted).unwrap_or_else(|error| error.accepted())
        }
        Err(error) => error.accepted(),
    }
}
