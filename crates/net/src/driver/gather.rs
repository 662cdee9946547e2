//! Datagrams of several sockets, in one thread.

use std::io;

use giusto_session::probe::Inbound;

use super::receive::{Nap, WrappingCount};
use crate::{
    Clock, Granted, ReceiveBatch, SleepMode, Sleeper, SleeperConfig, StampConverter, TrafficClass, UdpSocket,
    Wait, is_passing,
};

/// How many full batches are read from a socket before the others, and the caller, have their turn.
const MAX_BATCHES: usize = 8;

/// Reads several sockets, as [`ReceiveDriver`](super::ReceiveDriver) reads one: about 50 times a second, more often as a buffer
/// fills faster.
#[derive(Debug)]
pub struct Gatherer<'a> {
    sockets: Vec<(&'a UdpSocket, WrappingCount)>,
    clock: Clock,
    stamps: StampConverter,
    batch: ReceiveBatch,
    sleeper: Sleeper,
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
        let rooms = sockets.iter().filter_map(|(socket, _)| socket.granted().receive_buffer_bytes.as_ref());
        let room = rooms.map(|buffer| buffer.granted).min().unwrap_or(200_000);
        Self {
            sockets,
            clock,
            stamps: StampConverter::new(clock),
            batch: ReceiveBatch::new(MESSAGES, MESSAGE_BYTES),
            sleeper: Sleeper::new(SleeperConfig { mode: SleepMode::Eco, ..SleeperConfig::default() }),
            nap: Nap::new(room),
        }
    }

    /// Reads what has arrived; `on_datagrams` gets the index of the socket. Returns whether a socket may hold more.
    ///
    /// # Errors
    ///
    /// The system's, unless it [is passing](is_passing).
    pub fn read(&mut self, mut on_datagrams: impl FnMut(usize, &Inbound<'_>)) -> io::Result<bool> {
        let (mut most, mut more) = (0, false);
        for (index, (socket, dropped)) in self.sockets.iter_mut().enumerate() {
            let mut held = 0;
            for turn in 1..=MAX_BATCHES {
                match socket.recv_batch(&mut self.batch, Wait::Never) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if is_passing(&error) => continue,
                    Err(error) => return Err(error),
                }
                held += Nap::account(&self.batch);
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
                if !self.batch.is_full() {
                    break;
                }
                more |= turn == MAX_BATCHES;
            }
            most = most.max(held);
        }
        self.nap.adapt(most);
        Ok(more)
    }

    /// What the kernel granted to the first socket.
    pub fn granted(&self) -> Granted {
        self.sockets.first().map_or_else(Granted::of_this_system, |(socket, _)| socket.granted().clone())
    }

    /// Sleeps until the buffers are worth reading again: 0.1 to 20 ms.
    pub fn nap(&mut self) {
        let length = self.nap.length();
        self.sleeper.for_span(self.clock, length);
    }

    /// A new stream may be fast: the next naps are short.
    pub fn wake_up(&mut self) {
        self.nap.wake_up();
    }
}
