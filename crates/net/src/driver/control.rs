//! TCP connections that carry control messages: they never block.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::AtomicBool,
    time::Duration,
};

use giusto_session::iperf3::Control;
use giusto_units::TimeDelta;
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

use crate::{Clock, PathOptions, SocketError, TrafficClass, connect_first};

/// How long a connection that we have closed is read, so that the far end reads our last bytes before a reset.
pub const LEAVING: TimeDelta = TimeDelta::from_seconds(1);
/// Bytes that may wait to be sent; a far end that does not read them has failed.
const MAX_UNSENT: usize = 1 << 20;

/// A connection that carries control messages.
#[derive(Debug)]
pub struct ControlConnection {
    stream: TcpStream,
    unsent: Vec<u8>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl ControlConnection {
    /// Connects to that of the addresses which accepts first ([`connect_first`]); an attempt is given up after `limit`.
    ///
    /// # Errors
    ///
    /// As [`connect_first`].
    pub fn connect(
        addresses: &[SocketAddr],
        path: &PathOptions,
        limit: TimeDelta,
        stop: &AtomicBool,
    ) -> Result<(SocketAddr, Self), SocketError> {
        let (to, stream) = connect_first(addresses, (path, TrafficClass::default()), limit, stop)?;
        let connection = Self::new(stream).map_err(|source| SocketError::Connect { address: to, source })?;
        Ok((to, connection))
    }

    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = Socket::from(stream);
        // Detects within about 25 s that the far end is unreachable, also while nothing is sent.
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(10))
            .with_interval(Duration::from_secs(5))
            .with_retries(3);
        socket.set_tcp_keepalive(&keepalive)?;
        let stream = TcpStream::from(socket);
        let (peer, local) = (plain(stream.peer_addr()?), plain(stream.local_addr()?));
        Ok(Self { stream, unsent: Vec::new(), peer, local })
    }

    /// The far end; a mapped IPv4 address is given as IPv4.
    pub const fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// The near end; a mapped IPv4 address is given as IPv4.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Sends `bytes`, now or as soon as the far end has read what came before.
    ///
    /// # Errors
    ///
    /// The system's error; also where the far end has not read a megabyte.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(bytes);
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.unsent.len() > MAX_UNSENT { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
    }

    /// Reads what has arrived into `buffer`: `None` if nothing has, 0 bytes after the end.
    ///
    /// # Errors
    ///
    /// The system's error, such as a reset by the far end.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(buffer) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves bytes and time between the far end and `control`. Bounded, so that a far end that sends without end blocks neither
    /// timeouts nor the caller.
    pub fn pump(&mut self, clock: Clock, control: &mut impl Control) {
        const READS: usize = 16;
        let mut buffer = [0; 4096];
        for _ in 0..READS {
            match self.receive(&mut buffer) {
                Ok(Some(0)) | Err(_) => {
                    control.handle_close();
                    break;
                }
                Ok(Some(count)) => {
                    control.handle_bytes(clock.now(), buffer.get(..count).unwrap_or_default());
                }
                Ok(None) => break,
            }
        }
        control.handle_timeout(clock.now());
        self.flush(control);
    }

    /// Sends what waits.
    pub fn flush(&mut self, control: &mut impl Control) {
        while let Some(bytes) = control.poll_transmit() {
            if self.send(&bytes).is_err() {
                // The reason shows when the connection is read.
                break;
            }
        }
        // What could not be sent at once.
        let _ = self.send(&[]);
    }

    /// Closes our direction. The connection should be read for [`LEAVING`] before it is dropped.
    pub fn close(&mut self) {
        // What cannot be sent or closed is closed already.
        let _ = self.send(&[]);
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads and discards what arrives. Returns whether the far end has closed.
    pub fn discard(&mut self) -> bool {
        let mut buffer = [0; 4096];
        !matches!(self.receive(&mut buffer), Ok(None | Some(1..)))
    }

    /// Waits for bytes of the far end, at most this long. A signal ends the wait early.
    pub fn wait(&self, limit: Duration) {
        let mut wanted = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        // An error shows when the connection is read.
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(limit)), None);
    }
}

impl AsFd for ControlConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// A socket that accepts control connections.
#[derive(Debug)]
pub struct ControlListener {
    listener: TcpListener,
}

impl ControlListener {
    /// Listens at `address`; `[::]` also accepts IPv4, port 0 selects a free port.
    ///
    /// # Errors
    ///
    /// The system's error, such as an address in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // The address of a server that has just ended can be used again at once.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(16)?;
        Ok(Self { listener: socket.into() })
    }

    /// Its address.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next connection, if there is one. One that failed at once is passed over.
    ///
    /// # Errors
    ///
    /// The system's, where it has no room for another connection, such as no file descriptors. The connection stays there, so that
    /// [`wait`](Self::wait) returns at once: call [`back_off`](Self::back_off) instead.
    pub fn accept(&self) -> io::Result<Option<ControlConnection>> {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        match self.listener.accept() {
            Ok((stream, _)) => Ok(ControlConnection::new(stream).ok()),
            Err(error) if matches!(error.kind(), WouldBlock | ConnectionAborted | Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits this long, whether or not there is a connection. A signal ends the wait early.
    pub fn back_off(&self, time: Duration) {
        let _ = ppoll(&mut [], Some(TimeSpec::from_duration(time)), None);
    }

    /// Waits for a connection, or for bytes of `others`, at most this long. A signal ends the wait early.
    pub fn wait<'a>(&'a self, others: impl Iterator<Item = &'a ControlConnection>, limit: Duration) {
        let sockets = others.map(AsFd::as_fd).chain([self.listener.as_fd()]);
        let mut wanted: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::POLLIN)).collect();
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(limit)), None);
    }
}

fn plain(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => (v4, v6.port()).into(),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}
