//! Calls over one socket, in one thread.

use std::{fmt, net::SocketAddr, time::Duration};

use giusto_measure::ErrorHistogram;
use giusto_session::call::{CallMedia, Calls, Outgoing, OutgoingMedia};
use giusto_units::{Ecn, TimeDelta, Timestamp};

use super::{
    ReceiveError, Verdict,
    nap::{WrappingCount, dropped},
};
use crate::{
    Clock, ReceiveBatch, SendError, SleepMode, Sleeper, SleeperConfig, StampConverter, ThreadCpu,
    TrafficClass, UdpSocket, Wait, is_passing,
};

/// Maximum time between two checks of the stop flag.
const LOOK: TimeDelta = TimeDelta::from_millis(50);

/// Datagrams that are sent by one system call.
const RUN: usize = 64;

/// What a driver has measured of itself.
#[derive(Debug, Clone, Default)]
pub struct CallDriverReport {
    /// The time from each deadline until its work was done and its datagrams were sent: once for each of these datagrams, so that
    /// one late wake-up counts as often as it delayed a datagram, and once where there are none.
    pub schedule_error: ErrorHistogram,
    /// The time from the kernel's timestamp of each datagram until it was read.
    pub read_latency: ErrorHistogram,
    /// The latest reason why the system did not send a datagram: the interface was down, there was no route, or its queue was full.
    pub unsent_reason: Option<String>,
    /// CPU time of the thread.
    pub cpu: TimeDelta,
    /// Time since the driver was made.
    pub elapsed: TimeDelta,
    /// Times at which the thread woke.
    pub wakes: u64,
}

/// Sees each datagram of a driver as it is on the wire, after the UDP header.
pub trait Tap: fmt::Debug {
    /// A datagram from `from` arrived at `at`. Those that the driver could not receive whole are left out.
    fn on_received(&mut self, at: Timestamp, from: SocketAddr, bytes: &[u8], ecn: Ecn);

    /// The system accepted a datagram to `to`, at `at`.
    fn on_sent(&mut self, at: Timestamp, to: SocketAddr, bytes: &[u8], ecn: Ecn);
}

/// Drives [`Calls`] over one socket, any number of them in the calling thread.
///
/// The arrival time of a datagram is the kernel's, on the local clock. The thread waits in the kernel for the next datagram or the
/// next deadline, whichever comes first. Datagrams that are due together to the same address are sent by one system call.
#[derive(Debug)]
pub struct CallDriver<'a> {
    socket: &'a UdpSocket,
    clock: Clock,
    stamps: StampConverter,
    batch: ReceiveBatch,
    outgoing: Run,
    tap: Option<Box<dyn Tap>>,
    report: CallDriverReport,
    /// Addresses at which nothing listens, as their hosts say.
    unreachable: Vec<SocketAddr>,
    /// When answers of hosts are looked for again.
    look_at: Timestamp,
    dropped: WrappingCount,
    cpu: ThreadCpu,
    since: Timestamp,
    /// Keeps the precise timers of the thread.
    _sleeper: Sleeper,
}

/// Datagrams to one address with one ECN codepoint.
#[derive(Debug, Default)]
struct Run {
    to: Option<(SocketAddr, Ecn)>,
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    media: Vec<Option<OutgoingMedia>>,
    /// What of earlier runs the system did not take.
    unsent: Vec<OutgoingMedia>,
}

impl<'a> CallDriver<'a> {
    /// A driver for the calling thread.
    pub fn new(socket: &'a UdpSocket, clock: Clock) -> Self {
        const MESSAGES: usize = 32;
        const MESSAGE_BYTES: usize = 9216;
        Self {
            socket,
            clock,
            stamps: StampConverter::new(clock),
            batch: ReceiveBatch::new(MESSAGES, MESSAGE_BYTES),
            outgoing: Run::default(),
            tap: None,
            report: CallDriverReport::default(),
            unreachable: Vec::new(),
            look_at: Timestamp::ZERO,
            dropped: WrappingCount::default(),
            cpu: ThreadCpu::start(),
            since: clock.now(),
            _sleeper: Sleeper::new(SleeperConfig { mode: SleepMode::Eco, ..SleeperConfig::default() }),
        }
    }

    /// Shows all datagrams to `tap` from now on.
    pub fn set_tap(&mut self, tap: Box<dyn Tap>) {
        self.tap = Some(tap);
    }

    /// What it has measured so far.
    pub fn report(&self) -> CallDriverReport {
        CallDriverReport {
            cpu: self.cpu.used(),
            elapsed: self.clock.now() - self.since,
            ..self.report.clone()
        }
    }

    /// Messages that the system has dropped at this socket since it was opened, because they were not read in time.
    pub fn dropped(&mut self) -> u64 {
        dropped(self.socket, &mut self.dropped)
    }

    /// Forgets what it has measured so far: what came before the first call is of no interest.
    pub fn restart_report(&mut self) {
        self.report = CallDriverReport::default();
        self.cpu = ThreadCpu::start();
        self.since = self.clock.now();
    }

    /// Drives the calls until `on_turn` returns [`Verdict::Stop`]. It is called after each wake-up, to take the events of the
    /// calls, and at least 20 times a second.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] if the socket fails.
    pub fn run<M: CallMedia>(
        &mut self,
        calls: &mut Calls<M>,
        mut on_turn: impl FnMut(Timestamp, &mut Calls<M>, &mut Self) -> Verdict,
    ) -> Result<(), ReceiveError> {
        loop {
            self.receive(calls)?;
            let now = self.clock.now();
            let due = calls.poll_timeout().filter(|&at| at <= now);
            if due.is_some() {
                calls.handle_timeout(now);
            }
            let datagrams = self.transmit(now, calls);
            if let Some(due) = due {
                self.report.schedule_error.record_many(self.clock.now() - due, datagrams.max(1));
            }
            let verdict = on_turn(now, calls, self);
            self.transmit(self.clock.now(), calls);
            if verdict == Verdict::Stop {
                return Ok(());
            }
        }
    }

    /// Waits for datagrams or the next deadline, and passes on what has arrived.
    fn receive<M: CallMedia>(&mut self, calls: &mut Calls<M>) -> Result<(), ReceiveError> {
        let wait =
            calls.poll_timeout().map_or(LOOK, |at| (at - self.clock.now()).clamp(TimeDelta::ZERO, LOOK));
        let wait = if wait > TimeDelta::ZERO {
            Wait::For(Duration::from_nanos(wait.as_nanos().unsigned_abs()))
        } else {
            Wait::Never
        };
        let received = match self.socket.recv_batch(&mut self.batch, wait) {
            Ok(received) => received,
            // An answer of a host to an earlier datagram, and an interface that is down.
            Err(error) if is_passing(&error) => 0,
            Err(error) => return Err(error.into()),
        };
        self.report.wakes += 1;
        let now = self.clock.now();
        if received == 0 || now >= self.look_at {
            self.look_at = now + LOOK;
            self.take_answers();
        }
        for to in self.unreachable.drain(..) {
            calls.handle_unreachable(now, to);
        }
        if received == 0 {
            return Ok(());
        }
        self.stamps.refresh(now);
        for received in self.batch.iter() {
            if received.truncated {
                continue;
            }
            let at = received.stamp.map_or(now, |stamp| self.stamps.convert(stamp, now));
            if received.stamp.is_some() {
                self.report.read_latency.record(now.saturating_since(at));
            }
            let ecn = received.traffic_class.map_or(Ecn::NotEct, |class| Ecn::from_bits(class.ecn()));
            if let Some(tap) = &mut self.tap {
                tap.on_received(at, received.from, received.bytes, ecn);
            }
            calls.handle_datagram(at, received.from, received.bytes, ecn);
        }
        Ok(())
    }

    /// Takes what hosts have answered; each address once. Whether there was anything.
    fn take_answers(&mut self) -> bool {
        let unreachable = &mut self.unreachable;
        let add = |to| {
            if !unreachable.contains(&to) && unreachable.len() < RUN {
                unreachable.push(to);
            }
        };
        self.socket.take_answers(add) > 0
    }

    /// Returns the number of datagrams that were to be sent.
    fn transmit<M: CallMedia>(&mut self, now: Timestamp, calls: &mut Calls<M>) -> u64 {
        let mut datagrams = 0;
        loop {
            let start = self.outgoing.bytes.len();
            let Some(next) = calls.poll_transmit(now, &mut self.outgoing.bytes) else { break };
            let Outgoing { to, ecn, media } = next;
            let length = self.outgoing.bytes.len() - start;
            if self.outgoing.to.is_some_and(|before| before != (to, ecn))
                || self.outgoing.lengths.len() >= RUN
            {
                self.flush(start);
            }
            self.outgoing.to = Some((to, ecn));
            self.outgoing.lengths.push(length);
            self.outgoing.media.push(media);
            datagrams += 1;
        }
        self.flush(self.outgoing.bytes.len());
        for media in self.outgoing.unsent.drain(..) {
            calls.handle_unsent(now, media);
        }
        datagrams
    }

    /// Sends the datagrams in the first `end` bytes.
    fn flush(&mut self, end: usize) {
        let Some((to, ecn)) = self.outgoing.to.take() else { return };
        let class =
            TrafficClass::new(self.socket.config().traffic_class.dscp(), ecn.bits()).unwrap_or_default();
        let mut done = 0;
        let mut retries = 0;
        while let Some(rest) = self.outgoing.lengths.get(done..).filter(|rest| !rest.is_empty()) {
            let Run { bytes, lengths, .. } = &self.outgoing;
            let at: usize = lengths.iter().take(done).sum();
            let rest_bytes = bytes.get(at..end).unwrap_or_default();
            // On loopback an answer may come before the call returns.
            let now = self.clock.now();
            let sent = self.socket.send_marked(to, class, rest_bytes, rest);
            if let Some(tap) = &mut self.tap {
                let accepted = sent.as_ref().map_or_else(SendError::accepted, |_| rest.len());
                let mut remaining = rest_bytes;
                for &length in rest.iter().take(accepted) {
                    let Some((datagram, behind)) = remaining.split_at_checked(length) else { break };
                    tap.on_sent(now, to, datagram, ecn);
                    remaining = behind;
                }
            }
            match sent {
                Ok(_) => break,
                Err(error) => {
                    done += error.accepted();
                    // The answer to an earlier datagram: this one has not been tried yet.
                    if self.take_answers() && retries < RUN {
                        retries += 1;
                        continue;
                    }
                    // This one is lost, as on the way; the rest may still leave.
                    self.outgoing.unsent.extend(self.outgoing.media.get(done).copied().flatten());
                    done += 1;
                    if !matches!(error, SendError::Refused { .. }) {
                        self.report.unsent_reason = Some(error.to_string());
                    }
                }
            }
        }
        self.outgoing.lengths.clear();
        self.outgoing.media.clear();
        self.outgoing.bytes.drain(..end);
    }
}
