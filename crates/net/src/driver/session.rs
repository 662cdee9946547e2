//! Sessions over connected sockets.

use std::{cell::Cell, io, os::fd::AsFd, time::Duration};

use giusto_session::Session;
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

use super::ReceiveError;
use crate::{Clock, ReceiveBatch, StampConverter, UdpSocket, Wait, is_passing};

/// Batches that are read of a socket before the others, and the caller, have their turn.
const MAX_BATCHES: usize = 8;

/// A session, and the connected socket that is its alone.
#[derive(Debug)]
pub struct Link<'a, S> {
    socket: &'a UdpSocket,
    /// The session.
    pub session: S,
    /// "Port unreachable" answers of the host that were reported to the session.
    unreachable: u64,
    /// The latest wait ended without anything in this socket: a read of each of many sockets at each turn would cost more than
    /// what is read.
    idle: Cell<bool>,
}

impl<'a, S> Link<'a, S> {
    /// A session over this socket.
    pub const fn new(socket: &'a UdpSocket, session: S) -> Self {
        Self { socket, session, unreachable: 0, idle: Cell::new(false) }
    }

    /// The socket.
    pub(super) const fn socket(&self) -> &'a UdpSocket {
        self.socket
    }

    /// How many messages the socket has dropped until now. It runs ahead of the datagrams that wait.
    pub fn dropped(&self) -> u64 {
        self.socket.dropped_messages().unwrap_or(0).into()
    }
}

/// Runs any number of sessions in the calling thread, of whatever protocol: gives them a clock and their sockets.
#[derive(Debug)]
pub struct Driver {
    clock: Clock,
    stamps: StampConverter,
    batch: ReceiveBatch,
}

impl Driver {
    /// A driver of sessions whose datagrams have at most `longest` bytes.
    pub fn new(clock: Clock, longest: usize) -> Self {
        const MESSAGES: usize = 16;
        Self { clock, stamps: StampConverter::new(clock), batch: ReceiveBatch::new(MESSAGES, longest) }
    }

    /// Hands over what has arrived, does what is due, sends what is to be sent. Returns whether the socket may hold more.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] if the socket fails. What [is passing](is_passing) is no error.
    pub fn turn<S: Session>(&mut self, link: &mut Link<'_, S>) -> Result<bool, ReceiveError> {
        let received = if link.idle.take() { Ok(false) } else { self.receive(link) };
        let Link { socket, session, unreachable, .. } = link;
        if session.poll_timeout().is_some_and(|at| at <= self.clock.now()) {
            session.handle_timeout(self.clock.now());
        }
        while let Some(bytes) = session.poll_transmit(self.clock.now()) {
            // Errors appear in the counters, or as silence.
            let _ = socket.send(&bytes);
        }
        // The system reports it to the next send, which may be in another thread.
        let refused = socket.send_counters().unreachable;
        if refused > *unreachable {
            session.handle_unreachable(self.clock.now(), refused - *unreachable);
            *unreachable = refused;
        }
        Ok(received?)
    }

    fn receive<S: Session>(&mut self, link: &mut Link<'_, S>) -> io::Result<bool> {
        for _ in 0..MAX_BATCHES {
            match link.socket.recv_batch(&mut self.batch, Wait::Never) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    link.session.handle_unreachable(self.clock.now(), 1);
                    continue;
                }
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(error),
            }
            let now = self.clock.now();
            self.stamps.refresh(now);
            for received in self.batch.iter().filter(|received| !received.truncated) {
                let at = received.stamp.map_or(now, |stamp| self.stamps.convert(stamp, now));
                for datagram in received.datagrams() {
                    link.session.handle_datagram(now, datagram, at);
                }
            }
            if !self.batch.is_full() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for a datagram or for what is due, at most for `limit`. A signal ends the wait early.
    pub fn wait<'a, S: Session + 'a>(
        &self,
        links: impl IntoIterator<Item = &'a Link<'a, S>>,
        limit: Duration,
    ) {
        let now = self.clock.now();
        let (mut wait, mut wanted, mut idle) = (limit, Vec::new(), Vec::new());
        for link in links {
            if let Some(due) = link.session.poll_timeout() {
                wait = wait.min(due.saturating_since(now).to_std());
            }
            wanted.push(PollFd::new(link.socket.as_fd(), PollFlags::POLLIN));
            idle.push(&link.idle);
        }
        let waited = ppoll(&mut wanted, Some(TimeSpec::from_duration(wait)), None);
        for (idle, wanted) in idle.into_iter().zip(&wanted) {
            // After an error, such as a signal, nobody knows.
            idle.set(waited.is_ok() && wanted.any() == Some(false));
        }
    }

    /// How often the system's clock was set since the start: after that, times of day from before and after do not compare.
    pub fn clock_steps(&self) -> u32 {
        self.stamps.steps()
    }
}
