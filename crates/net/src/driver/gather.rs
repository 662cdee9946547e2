//! Datagrams of several sockets, in one thread.

use std::{io, os::fd::AsFd, time::Duration};

use giusto_session::probe::Inbound;
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

use super::{
    control::ControlConnection,
    nap::{Nap, WrappingCount, dropped},
};
use crate::{Clock, Granted, ReceiveBatch, StampConverter, TrafficClass, UdpSocket, Wait, is_passing};

/// How many full batches are read from a socket before the others, and the caller, have their turn.
const MAX_BATCHES: usize = 8;

/// Turns in which sockets are emptied: more messages than a receive buffer of 4 MB holds. A far end that sends without end does not
/// hold the caller.
pub(super) const DRAIN_TURNS: usize = 128;

/// Reads sockets about 50 times a second, more often as a buffer fills faster: the kernel timestamps each datagram on arrival, so a
/// late read loses no precision.
///
/// After a [`read`](Self::read) the caller does its own work and then waits with [`nap`](Self::nap) or
/// [`wait_for`](Self::wait_for): both return at once while a socket may hold more.
#[derive(Debug)]
pub struct Gatherer<'a> {
    sockets: Vec<(&'a UdpSocket, WrappingCount)>,
    clock: Clock,
    stamps: StampConverter,
    batch: ReceiveBatch,
    nap: Nap,
}

impl<'a> Gatherer<'a> {
    /// For the calling thread.
    pub fn new(sockets: impl IntoIterator<Item = &'a UdpSocket>, clock: Clock) -> Self {
        /// Few and large, so that they stay in the processor's cache.
        const MESSAGES: usize = 16;
        /// A run of datagrams is one message.
        const MESSAGE_BYTES: usize = 65_535;
        let sockets: Vec<_> = sockets.into_iter().map(|socket| (socket, WrappingCount::default())).collect();
        Self {
            sockets,
            clock,
            stamps: StampConverter::new(clock),
            batch: ReceiveBatch::new(MESSAGES, MESSAGE_BYTES),
            nap: Nap::new(),
        }
    }

    /// Reads what has arrived, of a full buffer a part; `on_datagrams` gets the index of the socket.
    ///
    /// # Errors
    ///
    /// The system's, unless it [is passing](is_passing).
    pub fn read(&mut self, mut on_datagrams: impl FnMut(usize, &Inbound<'_>)) -> io::Result<()> {
        self.nap.begin_read(self.sockets.iter().map(|(socket, _)| *socket));
        for (index, (socket, dropped)) in self.sockets.iter_mut().enumerate() {
            let mut more = true;
            for _ in 0..MAX_BATCHES {
                match socket.recv_batch(&mut self.batch, Wait::Never) {
                    Ok(_) => more = self.batch.is_full(),
                    Err(error) if is_passing(&error) => continue,
                    Err(error) => return Err(error),
                }
                let now = self.clock.now();
                self.stamps.refresh(now);
                for received in self.batch.iter() {
                    let inbound = Inbound {
                        from: received.from,
                        bytes: received.bytes,
                        segment: received.segment,
                        at: received.stamp.map_or(now, |stamp| self.stamps.convert(stamp, now)),
                        tos: received.traffic_class.map(TrafficClass::byte),
                        kernel_dropped: received.kernel_dropped.map(|count| dropped.unwrap(count)),
                        truncated: received.truncated,
                    };
                    on_datagrams(index, &inbound);
                }
                if !more {
                    break;
                }
            }
            self.nap.left(more);
        }
        Ok(())
    }

    /// Reads all that has arrived.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn drain(&mut self, mut on_datagrams: impl FnMut(usize, &Inbound<'_>)) -> io::Result<()> {
        for _ in 0..DRAIN_TURNS {
            self.read(&mut on_datagrams)?;
            if !self.nap.is_behind() {
                break;
            }
        }
        Ok(())
    }

    /// Whether a socket may hold more than was read from it.
    pub(super) fn is_behind(&self) -> bool {
        self.nap.is_behind()
    }

    /// A new stream may be fast: the next naps are short.
    pub(super) fn wake_up(&mut self) {
        self.nap.wake_up();
    }

    /// What the socket of this index has dropped so far, as the [`Inbound::kernel_dropped`] of a datagram that arrives now. It
    /// runs ahead of the datagrams that wait: [`drain`](Self::drain) first.
    pub fn kernel_dropped(&mut self, index: usize) -> u64 {
        self.sockets.get_mut(index).map_or(0, |(socket, count)| dropped(socket, count))
    }

    /// What the kernel granted to the first socket.
    pub fn granted(&self) -> Granted {
        self.sockets.first().map_or_else(Granted::of_this_system, |(socket, _)| socket.granted())
    }

    /// Sleeps until the buffers are worth reading again, 0.1 to 20 ms; not at all while a socket may hold more.
    pub fn nap(&mut self) {
        self.nap.take(self.clock);
    }

    /// Waits in the kernel for datagrams, at most for `limit`; not at all while a socket may hold more. A signal ends it early.
    pub(super) fn wait(&self, limit: Duration) {
        if !self.nap.is_behind() {
            let sockets =
                self.sockets.iter().map(|(socket, _)| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
            let _ = ppoll(&mut sockets.collect::<Vec<_>>(), Some(TimeSpec::from_duration(limit)), None);
        }
    }

    /// Waits for bytes of `connection`, at most for `limit`; not at all while a socket may hold more.
    pub fn wait_for(&mut self, connection: &ControlConnection, limit: Duration) {
        self.nap.take_by(|| connection.wait(limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grouping, SocketConfig};

    #[test]
    fn nothing_waits_while_a_socket_holds_more() {
        /// More than one read takes, and less than the smallest default buffer holds.
        const DATAGRAMS: u64 = 200;
        let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
        let sender = UdpSocket::connected(socket.local_addr(), &SocketConfig::default()).unwrap();
        let send = || sender.send_segments(None, &[7; 44 * DATAGRAMS as usize], 44, Grouping::Each).unwrap();
        let mut gatherer = Gatherer::new([&socket], Clock::start());
        send();
        let (mut received, mut behind) = (0, 0);
        while received < DATAGRAMS {
            let before = received;
            gatherer.read(|_, inbound| received += inbound.bytes.len() as u64 / 44).unwrap();
            let is_behind = received - before == 16 * MAX_BATCHES as u64;
            let mut waited = false;
            gatherer.nap.take_by(|| waited = true);
            assert_eq!(waited, !is_behind, "{received}");
            behind += u64::from(is_behind);
        }
        assert_eq!(behind, 1);
        send();
        gatherer.drain(|_, inbound| received += inbound.bytes.len() as u64 / 44).unwrap();
        assert_eq!((received, gatherer.kernel_dropped(0)), (2 * DATAGRAMS, 0));
    }
}
