//! DTLS between two giusto ends: the keys of their calls.
//!
//! The caller is the client. One connection serves all calls of a caller: their keys are derived from what the two ends export, as from a
//! shared key.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use giusto_net::{Clock, ReceiveBatch, SendError, UdpSocket, Wait, is_passing};
use giusto_session::{
    call::{ExchangeResult, KeyExchange},
    host,
    keys::KeyId,
};
use giusto_units::{TimeDelta, Timestamp};
use sha2::{Digest, Sha256};

use crate::{
    dtls::{Certificate, Dtls, DtlsError},
    fingerprint::Fingerprint,
};

/// Handshakes at the same time. A new one takes the place of the oldest whose address is not proven within [`PROOF`]; where there is none,
/// it is ignored.
const MAX_PEERS: usize = 64;
/// The same from one host: an IPv4 address, or an IPv6 prefix of 64 bits.
const MAX_PEERS_PER_HOST: usize = 32;
/// Time within which an address is proven: one round trip. It bounds how many handshakes a flood begins.
const PROOF: TimeDelta = TimeDelta::from_seconds(1);
/// Time after which a handshake is forgotten, whether it has ended or not: until then its last flight is repeated where it was lost.
const LIFE: TimeDelta = TimeDelta::from_seconds(10);
/// Time within which a caller must be connected.
const TIMEOUT: TimeDelta = TimeDelta::from_seconds(5);

/// Who this end is, and whom it accepts.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its certificate.
    pub certificate: Certificate,
    /// The fingerprint that the far end's certificate must have; `None`: any.
    pub expected: Option<Fingerprint>,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The far end has another certificate, or the handshake failed.
    #[error(transparent)]
    Dtls(#[from] DtlsError),
    /// No answer, or no whole handshake.
    #[error(
        "no DTLS handshake within {TIMEOUT}: start `giusto call --listen ADDR --srtp` there, or check the address and the firewall"
    )]
    NoAnswer,
    /// The socket failed.
    #[error("cannot receive: {0}")]
    Receive(#[from] io::Error),
    /// The socket failed.
    #[error("cannot send: {0}")]
    Send(#[from] SendError),
    /// It was interrupted.
    #[error("interrupted before the call began")]
    Interrupted,
}

/// The key and its id, which both ends derive.
fn key_of(material: Vec<u8>) -> (KeyId, Vec<u8>) {
    let hash = Sha256::new().chain_update(b"giusto 3 key id").chain_update(&material).finalize();
    (KeyId(hash.iter().take(4).fold(0, |id, &byte| id << 8 | u32::from(byte))), material)
}

/// The calling end after the agreement, for [`Calls::set_exchange`](giusto_session::call::Calls::set_exchange): where its last flight was
/// lost, it is repeated until the listener has acknowledged it (RFC 9147 §5.8), or answers a repeated flight of the listener (RFC 6347
/// §4.2.4).
#[derive(Debug)]
pub struct DtlsCaller {
    dtls: Dtls,
    to: SocketAddr,
    until: Timestamp,
}

impl KeyExchange for DtlsCaller {
    fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, bytes: &[u8]) {
        if from == self.to && now < self.until && self.dtls.handle(now, bytes).is_err() {
            // The key is there: nothing more is repeated.
            self.until = now;
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if now < self.until && self.dtls.handle_timeout(now).is_err() {
            self.until = now;
        }
        if now >= self.until {
            self.until = Timestamp::ZERO;
        }
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        if self.until == Timestamp::ZERO {
            return None;
        }
        Some(self.dtls.poll_timeout().map_or(self.until, |at| at.min(self.until)))
    }

    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        Some((self.to, self.dtls.poll_transmit()?))
    }

    fn poll_result(&mut self) -> Option<(SocketAddr, ExchangeResult)> {
        None
    }
}

/// What a caller has after the agreement: the key with its id, and its end of the connection, which must stay alive.
pub type Agreed = ((KeyId, Vec<u8>), DtlsCaller);

/// Agrees on a key with the listener at `to`.
///
/// # Errors
///
/// [`ExchangeError`] says why there is none.
pub fn with_listener(
    socket: &UdpSocket,
    clock: Clock,
    to: SocketAddr,
    identity: &Identity,
    is_over: impl Fn() -> bool,
) -> Result<Agreed, ExchangeError> {
    /// Maximum time between two checks of the stop flag.
    const LOOK: TimeDelta = TimeDelta::from_millis(50);
    let began = clock.now();
    let mut dtls = Dtls::new(&identity.certificate, identity.expected, true, clock.origin_instant());
    let mut batch = ReceiveBatch::new(8, 2048);
    dtls.handle_timeout(began)?;
    loop {
        while let Some(bytes) = dtls.poll_transmit() {
            match socket.send_to(&bytes, to) {
                // The answer of a host to an earlier datagram; this one is repeated.
                Ok(()) | Err(SendError::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(material) = dtls.take_material() {
            return Ok((key_of(material), DtlsCaller { dtls, to, until: clock.now() + LIFE }));
        }
        let now = clock.now();
        if now - began >= TIMEOUT {
            return Err(ExchangeError::NoAnswer);
        }
        if is_over() {
            return Err(ExchangeError::Interrupted);
        }
        let wait = dtls.poll_timeout().map_or(LOOK, |at| (at - now).clamp(TimeDelta::from_millis(1), LOOK));
        match socket.recv_batch(&mut batch, Wait::For(Duration::from_nanos(wait.as_nanos().unsigned_abs()))) {
            Ok(_) => {}
            Err(error) if is_passing(&error) => continue,
            Err(error) => return Err(error.into()),
        }
        let now = clock.now();
        for received in batch.iter().filter(|received| received.from == to && !received.truncated) {
            if matches!(received.bytes.first(), Some(20..=63)) {
                dtls.handle(now, received.bytes)?;
            }
        }
        if dtls.poll_timeout().is_some_and(|at| at <= now) {
            dtls.handle_timeout(now)?;
        }
    }
}

/// Whether it begins a handshake: a record of type 22, and a message of type 1 (RFC 6347 §4.1, §4.3.2).
fn is_client_hello(datagram: &[u8]) -> bool {
    matches!(datagram, [22, ..]) && datagram.get(13) == Some(&1)
}

/// Whether our answer goes on with the handshake: it is no alert, no `HelloVerifyRequest` and no `HelloRetryRequest`, which is a
/// `ServerHello` with this random number (RFC 8446 §4.1.3).
fn goes_on(datagram: &[u8]) -> bool {
    const RETRY: [u8; 4] = [0xCF, 0x21, 0xAD, 0x74];
    let is_retry = || datagram.get(27..).is_some_and(|rest| rest.starts_with(&RETRY));
    matches!(datagram, [22, ..])
        && matches!(datagram.get(13), Some(kind) if *kind != 3 && !(*kind == 2 && is_retry()))
}

/// The listening end, for [`Calls::set_exchange`](giusto_session::call::Calls::set_exchange).
#[derive(Debug)]
pub struct DtlsListener {
    identity: Identity,
    /// Time 0.
    origin: Instant,
    peers: BTreeMap<SocketAddr, Peer>,
    queue: VecDeque<(SocketAddr, Vec<u8>)>,
    results: VecDeque<(SocketAddr, ExchangeResult)>,
}

#[derive(Debug)]
struct Peer {
    dtls: Dtls,
    until: Timestamp,
    has_failed: bool,
    /// It has returned the cookie.
    is_proven: bool,
}

impl DtlsListener {
    /// A listener on this clock.
    pub fn new(identity: Identity, clock: Clock) -> Self {
        let origin = clock.origin_instant();
        Self { identity, origin, peers: BTreeMap::new(), queue: VecDeque::new(), results: VecDeque::new() }
    }

    /// Whether there is a place for a handshake with this address.
    fn make_room(&mut self, now: Timestamp, from: SocketAddr) -> bool {
        let is_of_host = |of: &SocketAddr| host(of.ip()) == host(from.ip());
        let of_host = self.peers.keys().filter(|of| is_of_host(of)).count();
        let is_full = self.peers.len() >= MAX_PEERS;
        if !is_full && of_host < MAX_PEERS_PER_HOST {
            return true;
        }
        let is_late = |peer: &Peer| !peer.is_proven && peer.until <= now + (LIFE - PROOF);
        let candidates = self.peers.iter().filter(|(of, peer)| is_late(peer) && (is_full || is_of_host(of)));
        let oldest = candidates.min_by_key(|(_, peer)| peer.until).map(|(of, _)| *of);
        oldest.is_some_and(|of| self.peers.remove(&of).is_some())
    }

    /// Takes what a connection has to send, and its key.
    fn drain(&mut self, of: SocketAddr, outcome: Result<(), DtlsError>) {
        let Some(peer) = self.peers.get_mut(&of) else { return };
        while let Some(bytes) = peer.dtls.poll_transmit() {
            peer.is_proven |= goes_on(&bytes);
            self.queue.push_back((of, bytes));
        }
        if let Err(error) = outcome {
            // The place is kept until it expires, so that repeated datagrams do not begin it again.
            if !std::mem::replace(&mut peer.has_failed, true) {
                self.results.push_back((of, Err(error.to_string())));
            }
        } else if let Some(material) = peer.dtls.take_material() {
            self.results.push_back((of, Ok(key_of(material))));
        }
    }
}

impl KeyExchange for DtlsListener {
    fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, bytes: &[u8]) {
        let is_served = self.peers.contains_key(&from) || is_client_hello(bytes) && self.make_room(now, from);
        if !is_served {
            return;
        }
        let (identity, origin) = (&self.identity, self.origin);
        let peer = self.peers.entry(from).or_insert_with(|| Peer {
            dtls: Dtls::new(&identity.certificate, identity.expected, false, origin),
            until: now + LIFE,
            has_failed: false,
            is_proven: false,
        });
        if peer.has_failed {
            return;
        }
        let outcome = peer.dtls.handle(now, bytes);
        self.drain(from, outcome);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.peers.retain(|_, peer| peer.until > now);
        let due = self.peers.iter().filter(|(_, peer)| peer.next_timeout() <= now).map(|(&of, _)| of);
        for of in due.collect::<Vec<_>>() {
            let outcome = self.peers.get_mut(&of).map_or(Ok(()), |peer| peer.dtls.handle_timeout(now));
            self.drain(of, outcome);
        }
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.peers.values().map(Peer::next_timeout).min()
    }

    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.queue.pop_front()
    }

    fn poll_result(&mut self) -> Option<(SocketAddr, ExchangeResult)> {
        self.results.pop_front()
    }
}

impl Peer {
    fn next_timeout(&self) -> Timestamp {
        let dtls = self.dtls.poll_timeout().filter(|_| !self.has_failed);
        dtls.map_or(self.until, |at| at.min(self.until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], port))
    }

    /// The first flight of a caller.
    fn hello(identity: &Identity, origin: Instant) -> (Dtls, Vec<u8>) {
        let mut dtls = Dtls::new(&identity.certificate, None, true, origin);
        dtls.handle_timeout(Timestamp::ZERO).unwrap();
        let bytes = dtls.poll_transmit().unwrap();
        (dtls, bytes)
    }

    #[test]
    fn all_addresses_of_an_ipv6_prefix_are_one_host() {
        let clock = Clock::start();
        let identity = Identity { certificate: Certificate::generate().unwrap(), expected: None };
        let mut listener = DtlsListener::new(identity.clone(), clock);
        let (_, forged) = hello(&identity, clock.origin_instant());
        for number in 0..50_u16 {
            let from = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number);
            listener.handle_datagram(Timestamp::ZERO, (from, 5).into(), &forged);
        }
        assert_eq!(listener.peers.len(), MAX_PEERS_PER_HOST);
    }

    #[test]
    fn unproven_addresses_do_not_keep_others_out() {
        let clock = Clock::start();
        let identity = Identity { certificate: Certificate::generate().unwrap(), expected: None };
        let mut listener = DtlsListener::new(identity.clone(), clock);
        let at = |millis| Timestamp::ZERO + TimeDelta::from_millis(millis);
        let (_, forged) = hello(&identity, clock.origin_instant());
        for (number, first) in (20..=63).enumerate() {
            let bytes = [&[first][..], &[0; 40]].concat();
            listener.handle_datagram(at(0), address(1, number as u16), &bytes);
        }
        assert!(listener.peers.is_empty() && listener.queue.is_empty());
        // One caller whose address is proven, before and in a flood.
        let (mut caller, first) = hello(&identity, clock.origin_instant());
        let mut to_listener = vec![first];
        for step in 1..8 {
            for bytes in to_listener.drain(..) {
                listener.handle_datagram(at(step), address(9, 9), &bytes);
            }
            while let Some((to, bytes)) = listener.poll_transmit() {
                assert_eq!(to, address(9, 9));
                caller.handle(at(step), &bytes).unwrap();
            }
            to_listener.extend(std::iter::from_fn(|| caller.poll_transmit()));
            if step == 2 {
                assert!(listener.peers[&address(9, 9)].is_proven);
            } else if step == 1 {
                assert!(!listener.peers[&address(9, 9)].is_proven);
            }
        }
        for number in 0..100_u16 {
            listener.handle_datagram(at(10), address(1, 1000 + number), &forged);
        }
        assert_eq!(listener.peers.len(), 1 + MAX_PEERS_PER_HOST);
        for host in 10..50 {
            listener.handle_datagram(at(11), address(host, 5), &forged);
        }
        assert_eq!(listener.peers.len(), MAX_PEERS);
        // They have had the time to prove their addresses.
        for (millis, host, is_served) in [(1009, 60, false), (1010, 60, true), (1011, 61, true)] {
            listener.handle_datagram(at(millis), address(host, 5), &forged);
            assert_eq!(listener.peers.contains_key(&address(host, 5)), is_served);
        }
        assert_eq!(listener.peers.len(), MAX_PEERS);
        assert!(listener.peers.contains_key(&address(9, 9)), "it is proven");
        assert!(matches!(listener.poll_result(), Some((_, Ok(_)))));
    }
}
