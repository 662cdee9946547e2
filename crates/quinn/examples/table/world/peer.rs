//! An endpoint of quinn without I/O as an agent of the simulator.

use std::{
    collections::VecDeque,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use giusto_quinn::Media;
use giusto_session::media::{DatagramHead, Payload};
use giusto_sim::{
    packet::{FlowId, Packet},
    traffic::{Agent, Body, Transmit, UDP_HEADERS},
};
use giusto_units::{Ecn, Timestamp};
use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, Event, StreamEvent};

use super::application::{Receiver, Sender};

/// What runs on an endpoint.
pub(crate) enum Role {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
}

/// Datagrams that have arrived, of which the sender was not told: when each left, its bytes, when it arrived. They stand for the receive
/// timestamps that quinn does not have.
pub(crate) type Arrivals = Arc<Mutex<VecDeque<(Instant, u64, Instant)>>>;

/// An endpoint with one connection.
pub(crate) struct Peer {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Option<(ConnectionHandle, Connection)>,
    pub(crate) origin: Instant,
    pub(crate) flow: FlowId,
    pub(crate) role: Role,
    arrivals: Option<Arrivals>,
    outgoing: VecDeque<(Vec<u8>, Ecn)>,
    /// The next deadline of quinn or the application.
    due: Option<Timestamp>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("flow", &self.flow).finish_non_exhaustive()
    }
}

/// The address of either end: quinn looks only whether it changes.
pub(crate) fn address(of_server: bool) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, 1 + u8::from(of_server)), 4433).into()
}

impl Peer {
    pub(crate) fn new(
        endpoint: Endpoint,
        connection: Option<(ConnectionHandle, Connection)>,
        origin: Instant,
        flow: FlowId,
        role: Role,
    ) -> Self {
        Self {
            endpoint,
            connection,
            origin,
            flow,
            role,
            arrivals: None,
            outgoing: VecDeque::new(),
            due: None,
        }
    }

    pub(crate) fn with_arrivals(self, arrivals: Option<Arrivals>) -> Self {
        Self { arrivals, ..self }
    }

    fn instant(&self, now: Timestamp) -> Instant {
        self.origin + Duration::from_nanos(now.as_nanos())
    }

    /// The receiver notes the arrival of a datagram that left at `sent`; the sender hears of those before its peer sent this one.
    fn note_arrivals(&self, now: Instant, sent: Instant, bytes: usize) {
        let Some(arrivals) = &self.arrivals else { return };
        let mut arrivals = arrivals.lock().expect("no panic");
        if matches!(self.role, Role::Receiver(_)) {
            arrivals.push_back((sent, bytes as u64, now));
            return;
        }
        let Some((_, connection)) = &self.connection else { return };
        let Some(media) = Media::of(connection.congestion_state().clone_box()) else { return };
        while let Some((left, bytes, at)) = arrivals.front().copied().filter(|(_, _, at)| *at <= sent) {
            arrivals.pop_front();
            media.on_arrival(left, bytes, at.saturating_duration_since(self.origin));
        }
    }

    /// Passes events on, and lets the application do what is due.
    fn run(&mut self, now: Instant) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        while let Some(event) = connection.poll() {
            if let (Role::Receiver(receiver), Event::Stream(event)) = (&mut self.role, event) {
                match event {
                    StreamEvent::Opened { .. } => receiver.on_opened(now, connection),
                    StreamEvent::Readable { id } => receiver.on_readable(now, id, connection),
                    _ => {}
                }
            }
        }
        if let Role::Sender(sender) = &mut self.role {
            sender.run(now, connection);
        }
    }
}

impl Agent for Peer {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, body: &Body) {
        let Body::Datagram { payload, .. } = body else { return };
        let (now, from_server) = (self.instant(now), matches!(self.role, Role::Sender(_)));
        let ecn = match packet.ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        let (bytes, mut answer) = (BytesMut::from(&payload.to_vec()[..]), Vec::new());
        self.note_arrivals(now, self.instant(packet.sent), bytes.len());
        match self.endpoint.handle(now, address(from_server), None, ecn, bytes, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
            }
            Some(DatagramEvent::Response(_)) => self.outgoing.push_back((answer, Ecn::NotEct)),
            None => {}
        }
        self.run(now);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.instant(now);
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|due| due <= now)
        {
            connection.handle_timeout(now);
        }
        self.run(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        let now = self.instant(now);
        if self.outgoing.is_empty() {
            let (_, connection) = self.connection.as_mut()?;
            let mut bytes = Vec::new();
            let Some(transmit) = connection.poll_transmit(now, 1, &mut bytes) else {
                let own = match &self.role {
                    Role::Sender(sender) => Some(sender.next),
                    Role::Receiver(_) => None,
                };
                let due = [connection.poll_timeout(), own].into_iter().flatten().min();
                self.due = due.map(|due| Timestamp::from_instant(self.origin, due));
                return None;
            };
            let ecn = transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
            self.outgoing.push_back((bytes, ecn));
        }
        let (bytes, ecn) = self.outgoing.pop_front()?;
        let size = (bytes.len() as u64 + UDP_HEADERS.as_bytes()) as u32;
        let body = Body::Datagram { head: DatagramHead::new(), payload: Payload::from(bytes) };
        Some(Transmit { flow: self.flow, bytes: size, ecn, body })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.due
    }
}
