//! The shell of UDP sockets: a relay that needs no privileges.

use std::{io, net::SocketAddr, os::fd::AsFd};

use giusto_units::{DataSize, Ecn, Timestamp};
use nix::poll::{PollFd, PollFlags};
use serde::Serialize;

use super::{
    emulator::{Arrival, Delivery},
    live::{Sent, Shell},
};
use crate::{
    clock::{Clock, StampConverter},
    socket::{ReceiveBatch, Received, SendError, SocketConfig, SocketError, TrafficClass, UdpSocket, Wait},
};

/// The maximum number of clients of a pair. Each has a socket. A further client replaces the one that was silent for longest.
const MAX_CLIENTS: usize = 64;
/// Datagrams read from a socket at a time.
const BATCH: usize = 32;
/// Space for one datagram of any length. The odd multiple of a cache line distributes the starts of a batch's
/// datagrams over the sets of the processor's caches.
const STRIDE: usize = 65_536 + 5 * 64;
/// Bytes of headers: RFC 768, RFC 791 §3.1 without options, RFC 8200 §3.
const UDP_HEADER: u32 = 8;
const IPV4_HEADER: u32 = 20;
const IPV6_HEADER: u32 = 40;

/// A relay: what comes to `listen` crosses the links to `target`, and the answers cross them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpPair {
    /// Where clients send to. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Where their datagrams go.
    pub target: SocketAddr,
}

/// Counts of a [`UdpRelay`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UdpRelayReport {
    /// Clients that were served.
    pub clients: u64,
    /// Clients that were replaced by newer ones, because there were too many.
    pub replaced_clients: u64,
    /// Datagrams of clients that could not be served, because no socket could be opened for them.
    pub unserved_packets: u64,
    /// Datagrams that came out of the links for a client that had been replaced.
    pub homeless_packets: u64,
    /// Datagrams that the kernel dropped, because the relay was too slow.
    pub kernel_dropped_packets: u64,
    /// How often a far end answered "port unreachable".
    pub unreachable: u64,
}

/// What the relay remembers of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Relayed {
    pair: usize,
    client: u64,
    class: TrafficClass,
    /// From the client to the target.
    forward: bool,
}

/// UDP sockets at the ends of links. Pair `n` uses route `2n` towards its target and `2n + 1` back.
///
/// A datagram enters the links at the kernel's time of its arrival, with its DSCP and ECN, and a size that counts the IP and UDP
/// headers. Each client has a socket of its own towards the target.
#[derive(Debug)]
pub struct UdpRelay {
    pairs: Vec<Pair>,
    batch: ReceiveBatch,
    stamps: StampConverter,
    /// The datagrams of one turn, in the order of reading, and their contents.
    turn: Vec<Turn>,
    contents: Vec<u8>,
    numbers: u64,
    report: UdpRelayReport,
}

#[derive(Debug)]
struct Pair {
    listener: UdpSocket,
    target: SocketAddr,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    number: u64,
    address: SocketAddr,
    upstream: UdpSocket,
    heard: Timestamp,
}

#[derive(Debug)]
struct Turn {
    at: Timestamp,
    arrival: Arrival<Relayed>,
    from: usize,
    to: usize,
}

impl UdpRelay {
    /// A relay of `pairs`, which listens from now on.
    ///
    /// # Errors
    ///
    /// [`SocketError`] names the address that is not available.
    pub fn new(pairs: &[UdpPair], clock: Clock) -> Result<Self, SocketError> {
        let open = |pair: &UdpPair| {
            let listener = UdpSocket::bind(pair.listen, &socket_config())?;
            Ok(Pair { listener, target: pair.target, clients: Vec::new() })
        };
        Ok(Self {
            pairs: pairs.iter().map(open).collect::<Result<_, SocketError>>()?,
            batch: ReceiveBatch::new(BATCH, STRIDE),
            stamps: StampConverter::new(clock),
            turn: Vec::new(),
            contents: Vec::new(),
            numbers: 0,
            report: UdpRelayReport::default(),
        })
    }

    /// The addresses to which clients send, in the order of the pairs.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.pairs.iter().map(|pair| pair.listener.local_addr())
    }

    /// Counts since the start.
    pub fn report(&self) -> UdpRelayReport {
        let sockets = self.pairs.iter().flat_map(|pair| {
            std::iter::once(&pair.listener).chain(pair.clients.iter().map(|client| &client.upstream))
        });
        let open: u64 = sockets.map(dropped_by).sum();
        let kernel_dropped_packets = self.report.kernel_dropped_packets + open;
        UdpRelayReport { kernel_dropped_packets, ..self.report }
    }
}

fn dropped_by(socket: &UdpSocket) -> u64 {
    socket.dropped_messages().unwrap_or(0).into()
}

/// Space for a burst at a high rate while the thread sleeps.
fn socket_config() -> SocketConfig {
    SocketConfig { receive_buffer: Some(DataSize::from_bytes(16_000_000)), ..SocketConfig::default() }
}

/// The size on the link of a payload between `address` and this machine.
fn size_on_link(payload: usize, address: SocketAddr) -> u32 {
    let ip = if address.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
    payload as u32 + UDP_HEADER + ip
}

impl Pair {
    /// The index of the client at `address`; a new one takes the place of the longest silent if there are too many.
    fn client(
        &mut self,
        address: SocketAddr,
        now: Timestamp,
        numbers: &mut u64,
        report: &mut UdpRelayReport,
    ) -> Option<u64> {
        if let Some(known) = self.clients.iter_mut().find(|client| client.address == address) {
            known.heard = now;
            return Some(known.number);
        }
        let Ok(upstream) = UdpSocket::connected(self.target, &socket_config()) else {
            report.unserved_packets += 1;
            return None;
        };
        if self.clients.len() >= MAX_CLIENTS {
            let silent = self.clients.iter().enumerate().min_by_key(|(_, client)| client.heard);
            if let Some(silent) = silent.map(|(place, _)| place) {
                report.kernel_dropped_packets += dropped_by(&self.clients.swap_remove(silent).upstream);
                report.replaced_clients += 1;
            }
        }
        *numbers += 1;
        report.clients += 1;
        self.clients.push(Client { number: *numbers, address, upstream, heard: now });
        Some(*numbers)
    }
}

/// Reads what waits at `socket`. Returns whether there was anything.
fn read(socket: &UdpSocket, batch: &mut ReceiveBatch, report: &mut UdpRelayReport) -> bool {
    match socket.recv_batch(batch, Wait::Never) {
        Ok(received) => received > 0,
        Err(error) => {
            report.unreachable += u64::from(error.kind() == io::ErrorKind::ConnectionRefused);
            false
        }
    }
}

impl Shell for UdpRelay {
    type Tag = Relayed;

    fn descriptors<'a>(&'a self, ready: &mut Vec<PollFd<'a>>) {
        for pair in &self.pairs {
            ready.push(PollFd::new(pair.listener.as_fd(), PollFlags::POLLIN));
            let upstreams = pair.clients.iter().map(|client| client.upstream.as_fd());
            ready.extend(upstreams.map(|socket| PollFd::new(socket, PollFlags::POLLIN)));
        }
    }

    fn receive(&mut self, clock: Clock, mut arrive: impl FnMut(Timestamp, Arrival<Relayed>, &[u8])) -> bool {
        let Self { pairs, batch, stamps, turn, contents, numbers, report } = self;
        turn.clear();
        contents.clear();
        let now = clock.now();
        stamps.refresh(now);
        let mut note =
            |stamps: &mut StampConverter, received: &Received<'_>, tag: Relayed, side: SocketAddr| {
                let at = received.stamp.map_or(now, |stamp| stamps.convert(stamp, now));
                let from = contents.len();
                contents.extend_from_slice(received.bytes);
                let arrival = Arrival {
                    route: 2 * tag.pair + usize::from(!tag.forward),
                    bytes: size_on_link(received.bytes.len(), side),
                    ecn: Ecn::from_bits(tag.class.byte()),
                    flow: tag.client as u32,
                    tag,
                };
                turn.push(Turn { at, arrival, from, to: contents.len() });
            };
        for (number, pair) in pairs.iter_mut().enumerate() {
            if read(&pair.listener, batch, report) {
                for received in batch.iter() {
                    let Some(client) = pair.client(received.from, now, numbers, report) else { continue };
                    let class = received.traffic_class.unwrap_or_default();
                    let tag = Relayed { pair: number, client, class, forward: true };
                    note(stamps, &received, tag, received.from);
                }
            }
            for client in &mut pair.clients {
                if read(&client.upstream, batch, report) {
                    for received in batch.iter() {
                        let class = received.traffic_class.unwrap_or_default();
                        let tag = Relayed { pair: number, client: client.number, class, forward: false };
                        note(stamps, &received, tag, pair.target);
                    }
                }
            }
        }
        // Each socket has its own order.
        turn.sort_by_key(|datagram| datagram.at);
        for Turn { at, arrival, from, to } in turn.iter() {
            arrive(*at, *arrival, contents.get(*from..*to).unwrap_or_default());
        }
        !turn.is_empty()
    }

    fn send(&mut self, delivery: &mut Delivery<Relayed>) -> Sent {
        let Relayed { pair, client, class, forward } = delivery.tag;
        let Some(pair) = self.pairs.get(pair) else { return Sent::Refused };
        let Some(client) = pair.clients.iter().find(|known| known.number == client) else {
            self.report.homeless_packets += 1;
            return Sent::Refused;
        };
        if delivery.corruption != 0 {
            // The system computes a new checksum: the program gets the changed payload.
            super::flip(&mut delivery.bytes, delivery.corruption);
        }
        let class = TrafficClass::from_byte(class.byte() & !0b11 | delivery.ecn.bits());
        let send = || {
            if forward {
                client.upstream.send_classed(None, &delivery.bytes, class)
            } else {
                pair.listener.send_classed(Some(client.address), &delivery.bytes, class)
            }
        };
        let sent = match send() {
            // The error concerns an earlier datagram: try this one once more.
            Err(SendError::Refused { .. }) => {
                self.report.unreachable += 1;
                send()
            }
            sent => sent,
        };
        if sent.is_ok() { Sent::Accepted } else { Sent::Refused }
    }
}
