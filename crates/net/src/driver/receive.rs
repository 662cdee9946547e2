//! The receiving end, in one thread.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use giusto_session::probe::{Inbound, Receiver, ReceiverEvent};
use giusto_units::{TimeDelta, Timestamp};

use super::gather::{DRAIN_TURNS, Gatherer};
use crate::{Clock, ThreadCpu, UdpSocket};

/// Maximum time between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(250);

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
/// While no stream is open, the thread sleeps in the kernel. While streams are open, it reads as a [`Gatherer`] does. At the end it
/// empties the socket.
#[derive(Debug)]
pub struct ReceiveDriver<'a> {
    socket: &'a UdpSocket,
    clock: Clock,
    media: Gatherer<'a>,
    /// The start of the open streams, and the CPU time of this thread since then.
    busy: (Timestamp, ThreadCpu),
    /// Time at which the receiver next gets the CPU time for its reports.
    state_busyness_at: Timestamp,
    /// The socket at the port of RTCP, if there is one.
    rtcp: Option<(&'a UdpSocket, Gatherer<'a>)>,
    /// Turns after which a socket held more.
    behind: usize,
    /// The last turn read something.
    heard: bool,
}

impl<'a> ReceiveDriver<'a> {
    /// A driver for the calling thread.
    pub fn new(socket: &'a UdpSocket, clock: Clock) -> Self {
        Self {
            socket,
            clock,
            media: Gatherer::new([socket], clock),
            busy: (clock.now(), ThreadCpu::start()),
            state_busyness_at: Timestamp::ZERO,
            rtcp: None,
            behind: 0,
            heard: false,
        }
    }

    /// Reads RTCP from `socket` too, at the port above that of the media (RFC 3550 §11): each time that it has read the media.
    #[must_use]
    pub fn with_rtcp(mut self, socket: Option<&'a UdpSocket>) -> Self {
        self.rtcp = socket.map(|socket| (socket, Gatherer::new([socket], self.clock)));
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
                    self.media.wake_up();
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
        let clock = self.clock;
        // What the socket still holds, and what it has dropped until now. A socket that failed before fails again.
        let _ = self.media.drain(|_, inbound| receiver.handle(clock.now(), inbound));
        receiver.note_kernel_dropped(self.media.kernel_dropped(0));
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
        // Where nothing came the last time, nothing is likely to be there yet.
        if !std::mem::take(&mut self.heard) {
            let due = receiver.next_timeout().map(|at| at.saturating_since(self.clock.now()).to_std());
            self.media.wait(due.map_or(LOOK, |due| due.min(LOOK)));
        }
        let (clock, heard) = (self.clock, &mut self.heard);
        self.media.read(|_, inbound| {
            *heard = true;
            receiver.handle(clock.now(), inbound);
        })?;
        if !self.heard && !self.media.is_behind() {
            // What the socket has dropped is known from the next datagram, but none comes.
            receiver.note_kernel_dropped(self.media.kernel_dropped(0));
        }
        if let Some((_, rtcp)) = &mut self.rtcp {
            // A failure of that socket does not concern the media.
            let _ = rtcp.read(|_, inbound| {
                receiver.handle_rtcp(clock.now(), &Inbound { kernel_dropped: None, ..*inbound });
            });
        }
        let now = self.clock.now();
        if now >= self.state_busyness_at {
            self.state_busyness_at = now + TimeDelta::from_millis(50);
            self.state_busyness(receiver);
        }
        // A stream is not silent while what it sent waits to be read.
        self.behind = if self.media.is_behind() && self.behind < DRAIN_TURNS { self.behind + 1 } else { 0 };
        if self.behind == 0 && receiver.next_timeout().is_some_and(|at| at <= now) {
            receiver.handle_timeout(now);
        }
        self.transmit(receiver);
        if !idle {
            self.media.nap();
        }
        Ok(())
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
        receiver.set_stamps(self.socket.arrivals_by().of_arrivals());
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
    let pass = |_, inbound: &Inbound<'_>| {
        receiver.handle(clock.now(), &Inbound { kernel_dropped: None, ..*inbound });
    };
    // A socket that fails has nothing more.
    let _ = Gatherer::new([socket], clock).drain(pass);
}
