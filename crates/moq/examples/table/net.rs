//! A network in virtual time: sockets of quinn whose datagrams cross links of the simulator, on tokio's paused clock.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Instant,
};

use giusto_net::emulate::{Arrival, Emulator};
use giusto_units::{Ecn, Timestamp};
use quinn::{
    AsyncUdpSocket, UdpPoller,
    udp::{EcnCodepoint, RecvMeta, Transmit},
};
use tokio::sync::Notify;

/// Headers of UDP and IPv4 (RFC 768, RFC 791 §3.1).
const HEADERS: usize = 28;

/// Sockets and the links between them.
#[derive(Debug)]
pub(crate) struct Net {
    state: Mutex<State>,
    /// A datagram was sent: the next event may be earlier.
    sent: Notify,
    origin: Instant,
}

#[derive(Debug)]
struct State {
    emulator: Emulator<(SocketAddr, SocketAddr)>,
    /// The route from one address to another.
    routes: BTreeMap<(SocketAddr, SocketAddr), usize>,
    sockets: BTreeMap<SocketAddr, Inbox>,
}

#[derive(Debug, Default)]
struct Inbox {
    datagrams: VecDeque<(SocketAddr, Ecn, Vec<u8>)>,
    reader: Option<Waker>,
}

impl Net {
    pub(crate) fn new(
        emulator: Emulator<(SocketAddr, SocketAddr)>,
        routes: BTreeMap<(SocketAddr, SocketAddr), usize>,
    ) -> Arc<Self> {
        let state = State { emulator, routes, sockets: BTreeMap::new() };
        Arc::new(Self { state: Mutex::new(state), sent: Notify::new(), origin: crate::quic::now() })
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_instant(self.origin, crate::quic::now())
    }

    /// A socket at this address.
    pub(crate) fn socket(self: &Arc<Self>, address: SocketAddr) -> Arc<dyn AsyncUdpSocket> {
        self.state.lock().expect("no panic").sockets.insert(address, Inbox::default());
        Arc::new(Socket { net: Arc::clone(self), address })
    }

    /// Delivers datagrams as they arrive, for ever. Tokio's timers round up to 1 ms, and so does this.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state.lock().expect("no panic");
                let state = &mut *state;
                state.emulator.advance(self.now(), &mut ());
                while let Some(delivery) = state.emulator.poll_delivery() {
                    let (from, to) = delivery.tag;
                    if let Some(inbox) = state.sockets.get_mut(&to) {
                        inbox.datagrams.push_back((from, delivery.ecn, delivery.bytes.clone()));
                        inbox.reader.take().into_iter().for_each(Waker::wake);
                    }
                    state.emulator.recycle(delivery);
                }
                state.emulator.next_event()
            };
            let sent = self.sent.notified();
            match next {
                Some(at) => {
                    let at = self.origin + std::time::Duration::from_nanos(at.as_nanos());
                    tokio::select! {
                        () = tokio::time::sleep_until(at.into()) => {}
                        () = sent => {}
                    }
                }
                None => sent.await,
            }
        }
    }
}

#[derive(Debug)]
struct Socket {
    net: Arc<Net>,
    address: SocketAddr,
}

/// A socket that can always send.
#[derive(Debug)]
struct Always;

impl UdpPoller for Always {
    fn poll_writable(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Always)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let now = self.net.now();
        let mut state = self.net.state.lock().expect("no panic");
        let ways = (self.address, transmit.destination);
        let Some(&route) = state.routes.get(&ways) else { return Ok(()) };
        let arrival = Arrival {
            route,
            bytes: (transmit.contents.len() + HEADERS) as u32,
            ecn: transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8)),
            flow: route as u32,
            tag: ways,
        };
        state.emulator.offer(now, arrival, transmit.contents, &mut ());
        self.net.sent.notify_one();
        Ok(())
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.net.state.lock().expect("no panic");
        let inbox = state.sockets.entry(self.address).or_default();
        let mut count = 0;
        for (buffer, meta) in buffers.iter_mut().zip(meta) {
            let Some((addr, ecn, bytes)) = inbox.datagrams.pop_front() else { break };
            let len = bytes.len().min(buffer.len());
            buffer[..len].copy_from_slice(&bytes[..len]);
            let ecn = EcnCodepoint::from_bits(ecn as u8);
            *meta = RecvMeta { addr, len, stride: len, ecn, dst_ip: None };
            count += 1;
        }
        if count == 0 {
            inbox.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn may_fragment(&self) -> bool {
        false
    }
}
