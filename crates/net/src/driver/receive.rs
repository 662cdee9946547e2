//! The receiving end, in one thread.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use giusto_session::probe::{Inbound, Receiver, ReceiverEvent};
use giusto_units::{TimeDelta, Timestamp};

use super::nap::{Nap, dropped};
use crate::{
    Clock, ReceiveBatch, Received, StampConverter, ThreadCpu, TrafficClass, UdpSocket, Wait, is_passing,
};

/// Maximum time between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(250);

/// Batches of 16 messages that are read to empty a socket: more than a receive buffer of 4 MB holds. A peer that sends without end does
/// not hold the receiver.
const MAX_BATCHES: usize = 1_024;

/// Minimum time between two calls without an event.
const LIVE: TimeDelta = TimeDelta::from_millis(50);

/// The system failed to receive.
#[derive(Debug, thiserror::Error)]
#[error("cannot receive: {0}")]
pub struct ReceiveError(#[from] io::Error);

/// Whether a driver continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Continue.
    Continue,
    /// Stop.
    Stop,
}

/// Drives a [`Receiver`] over one socket.
///
/// While no stream is open, the thread sleeps in the kernel. While streams are open, it reads about 50 times
/// per second: the kernel timestamps each datagram on arrival, so a late read loses no precision. It reads
/// more often as its buffer fills faster, and at once if one read does not empty it. At the end it empties the socket.
#[derive(Debug)]
pub struct ReceiveDriver<'a> {
    socket: &'a UdpSocket,
    clock: Clock,
    stamps: StampConverter,
    batch: ReceiveBatch,
    nap: Nap,
    dropped: WrappingCount,
    /// The start of the open streams, and the CPU time of this thread since then.
    busy: (Timestamp, ThreadCpu),
    /// Time at which the receiver next gets the CPU time for its reports.
    state_busyness_at: Timestamp,
    /// The socket at the port of RTCP, if there is one.
    rtcp: Option<(&'a UdpSocket, ReceiveBatch)>,
    /// Turns after which a socket held more.
    behind: usize,
}

impl<'a> ReceiveDriver<'a> {
    /// A driver for the calling thread.
    pub fn new(socket: &'a UdpSocket, clock: Clock) -> Self {
        /// Few and large, so that they stay in the processor's cache.
        const MESSAGES: usize = 16;
        /// A run of datagrams is one message.
        const MESSAGE_BYTES: usize = 65_535;
        Self {
            socket,
            clock,
            stamps: StampConverter::new(clock),
            batch: ReceiveBatch::new(MESSAGES, MESSAGE_BYTES),
            nap: Nap::new(),
            dropped: WrappingCount::default(),
            busy: (clock.now(), ThreadCpu::start()),
            state_busyness_at: Timestamp::ZERO,
            rtcp: None,
            behind: 0,
        }
    }

    /// Reads RTCP from `socket` too, at the port above that of the media (RFC 3550 §11): each time that it has read the media.
    #[must_use]
    pub fn with_rtcp(mut self, socket: Option<&'a UdpSocket>) -> Self {
        /// RTCP is rare, and larger packets than those of an Ethernet are not of interest.
        const MESSAGES: usize = 16;
        const MESSAGE_BYTES: usize = 1500;
        self.rtcp = socket.map(|socket| (socket, ReceiveBatch::new(MESSAGES, MESSAGE_BYTES)));
        self
    }

    /// Receives until `stop` is set or `on_event` returns [`Verdict::Stop`].
    ///
    /// `on_event` is called with every event and the receiver, and several times per second without an event, for live display: about 20 times while
    /// streams are open. All streams are ended, and their events delivered, before this returns.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] if the socket fails; the streams are also ended in this case.
    pub fn run(
        &mut self,
        receiver: &mut Receiver,
        stop: &AtomicBool,
        mut on_event: impl FnMut(&mut Receiver, Option<ReceiverEvent>) -> Verdict,
    ) -> Result<(), ReceiveError> {
        let mut verdict = Verdict::Continue;
        let mut next_look = self.clock.now();
        let mut outcome = Ok(());
        while verdict == Verdict::Continue && !stop.load(Ordering::Relaxed) {
            let was_idle = receiver.streams().next().is_none();
            if let Err(error) = self.turn(receiver) {
                outcome = Err(error.into());
                break;
            }
            let mut opened = false;
            while let Some(event) = receiver.poll_event() {
                if matches!(event, ReceiverEvent::Opened(_)) {
                    // A new stream may be fast: start again with short naps.
                    self.nap.wake_up();
                    opened = true;
                }
                if on_event(receiver, Some(event)) == Verdict::Stop {
                    verdict = Verdict::Stop;
                }
            }
            if was_idle && opened {
                self.busy = (self.clock.now(), ThreadCpu::start());
            }
            let now = self.clock.now();
            if now >= next_look {
                next_look = now + LIVE;
                if on_event(receiver, None) == Verdict::Stop {
                    verdict = Verdict::Stop;
                }
            }
        }
        self.state_busyness(receiver);
        self.drain(receiver);
        receiver.stop(self.clock.now());
        self.transmit(receiver);
        while let Some(event) = receiver.poll_event() {
            on_event(receiver, Some(event));
        }
        outcome
    }

    /// Waits for datagrams, processes them, sends answers, handles timeouts.
    fn turn(&mut self, receiver: &mut Receiver) -> io::Result<()> {
        let idle = receiver.streams().next().is_none();
        let limit = receiver
            .next_timeout()
            .map_or(LOOK, |at| at.saturating_since(self.clock.now()).to_std().min(LOOK));
        let wait = if self.nap.is_behind() { Wait::Never } else { Wait::For(limit) };
        self.nap.begin_read([self.socket]);
        let taken = match self.socket.recv_batch(&mut self.batch, wait) {
            Ok(taken) => Some(taken),
            // It concerns an earlier report, not the streams.
            Err(error) if is_passing(&error) => None,
            Err(error) => return Err(error),
        };
        match taken {
            // What the socket has dropped is known from the next datagram, but none comes.
            Some(0) => receiver.note_kernel_dropped(dropped(self.socket, &mut self.dropped)),
            _ => self.hand_over(receiver),
        }
        self.nap.left(taken.is_none() || self.batch.is_full());
        self.hand_over_rtcp(receiver);
        let now = self.clock.now();
        if now >= self.state_busyness_at {
            self.state_busyness_at = now + TimeDelta::from_millis(50);
            self.state_busyness(receiver);
        }
        // A stream is not silent while what it sent waits to be read.
        self.behind = if self.nap.is_behind() && self.behind < MAX_BATCHES { self.behind + 1 } else { 0 };
        if self.behind == 0 && receiver.next_timeout().is_some_and(|at| at <= now) {
            receiver.handle_timeout(now);
        }
        self.transmit(receiver);
        if !idle {
            self.nap.take(self.clock);
        }
        Ok(())
    }

    /// Hands over what the socket still holds, and what it has dropped until now.
    fn drain(&mut self, receiver: &mut Receiver) {
        for _ in 0..MAX_BATCHES {
            // A socket that failed before fails again.
            if !self.socket.recv_batch(&mut self.batch, Wait::Never).is_ok_and(|taken| taken > 0) {
                break;
            }
            self.hand_over(receiver);
        }
        receiver.note_kernel_dropped(dropped(self.socket, &mut self.dropped));
    }

    fn hand_over(&mut self, receiver: &mut Receiver) {
        let now = self.clock.now();
        self.stamps.refresh(now);
        for received in self.batch.iter() {
            let Received { bytes, segment, from, truncated, .. } = received;
            let inbound = Inbound {
                from,
                bytes,
                segment,
                at: received.stamp.map_or(now, |stamp| self.stamps.convert(stamp, now)),
                tos: received.traffic_class.map(TrafficClass::byte),
                kernel_dropped: received.kernel_dropped.map(|count| self.dropped.unwrap(count)),
                truncated,
            };
            receiver.handle(self.clock.now(), &inbound);
        }
    }

    /// Hands over what is at the port of RTCP. A failure of that socket does not concern the media.
    fn hand_over_rtcp(&mut self, receiver: &mut Receiver) {
        let Some((socket, batch)) = &mut self.rtcp else { return };
        if !socket.recv_batch(batch, Wait::Never).is_ok_and(|taken| taken > 0) {
            return;
        }
        self.nap.left(batch.is_full());
        let now = self.clock.now();
        self.stamps.refresh(now);
        for Received { bytes, segment, from, truncated, stamp, traffic_class, .. } in batch.iter() {
            let at = stamp.map_or(now, |stamp| self.stamps.convert(stamp, now));
            let tos = traffic_class.map(TrafficClass::byte);
            let inbound = Inbound { from, bytes, segment, at, tos, kernel_dropped: None, truncated };
            receiver.handle_rtcp(now, &inbound);
        }
    }

    fn transmit(&self, receiver: &mut Receiver) {
        while let Some(transmit) = receiver.poll_transmit() {
            // A report that cannot be sent is like a lost one: the next one contains more.
            let _ = self.socket.send_to(&transmit.bytes, transmit.to);
        }
        while let Some(transmit) = receiver.poll_rtcp_transmit() {
            if let Some((socket, _)) = &self.rtcp {
                let _ = socket.send_to(&transmit.bytes, transmit.to);
            }
        }
    }

    fn state_busyness(&self, receiver: &mut Receiver) {
        let (since, cpu) = self.busy;
        let passed = self.clock.now() - since;
        if passed > TimeDelta::ZERO {
            receiver.set_cpu_ratio((cpu.used().as_seconds() / passed.as_seconds()) as f32);
        }
    }
}

/// Hands what waits in a socket [beside](UdpSocket::beside) that of the receiver to the receiver: it arrived while that socket was
/// being connected.
pub fn pass_on(socket: &UdpSocket, clock: Clock, receiver: &mut Receiver) {
    let mut batch = ReceiveBatch::new(16, 2048);
    for _ in 0..MAX_BATCHES {
        if !socket.recv_batch(&mut batch, Wait::Never).is_ok_and(|taken| taken > 0) {
            break;
        }
        for Received { bytes, segment, from, truncated, traffic_class, .. } in batch.iter() {
            let now = clock.now();
            let tos = traffic_class.map(TrafficClass::byte);
            let inbound = Inbound { from, bytes, segment, at: now, tos, kernel_dropped: None, truncated };
            receiver.handle(now, &inbound);
        }
    }
}

/// Unwraps a count of 32 bits.
#[derive(Debug, Default)]
pub(super) struct WrappingCount {
    total: u64,
}

impl WrappingCount {
    pub(super) fn unwrap(&mut self, count: u32) -> u64 {
        let grown = count.wrapping_sub(self.total as u32);
        // A decreasing count is an older one that was read late.
        if grown < u32::MAX / 2 {
            self.total += u64::from(grown);
        }
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapping_count_is_unwrapped() {
        let mut count = WrappingCount::default();
        let readings = [0, 5, 5, u32::MAX, 3, 2].map(|reading| count.unwrap(reading));
        assert_eq!(readings[..3], [0, 5, 5]);
        let mut near_the_end = WrappingCount { total: u64::from(u32::MAX) - 1 };
        assert_eq!(near_the_end.unwrap(3), u64::from(u32::MAX) + 4);
        assert_eq!(near_the_end.unwrap(2), u64::from(u32::MAX) + 4, "never backwards");
    }
}
