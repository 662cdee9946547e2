//! Sending: single datagrams, and runs of them in few system calls.

use std::{
    io,
    net::SocketAddr,
    os::fd::AsFd,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
    time::ClockId,
};
use serde::Serialize;

use super::{SocketError, TrafficClass, UdpSocket, is_passing};
use crate::{
    clock,
    sys::{self, Name, SendOption},
};

/// Maximum number of bytes per message: 65 535 minus the IPv4 and UDP headers (RFC 791, RFC 768).
pub const MESSAGE_BYTES: usize = 65_507;
/// Maximum number of datagrams per message: `UDP_MAX_SEGMENTS` before Linux 6.9, which doubled it.
pub const SEGMENTS: usize = 64;
/// Bytes of headers: RFC 768, RFC 791 §3.1 without options, RFC 8200 §3.
const UDP_HEADER: u64 = 8;
const IPV4_HEADER: u64 = 20;
const IPV6_HEADER: u64 = 40;
/// How often in a row a datagram is tried again after an error that may be the answer to an earlier one, such as "port unreachable":
/// answers to a burst may come one after the other.
const MAX_REFUSALS: u32 = 8;

/// How a run of datagrams is passed to the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Each datagram is a separate message (`sendmmsg`).
    #[default]
    Each,
    /// Up to 64 datagrams are one message, which the kernel or the interface splits (`UDP_SEGMENT`): at most
    /// a tenth of the cost, but the datagrams of a message are sent without gaps between them. If a route
    /// does not support it, for example for datagrams that exceed its MTU, they are sent one by one and
    /// [`SendCounters::offload_refusals`] is incremented.
    Offload,
}

/// Error of sending datagrams. The `accepted` datagrams before the error were sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The peer's host answered an *earlier* datagram of a connected socket with "port unreachable". The next send may
    /// succeed.
    #[error("the peer's port is unreachable (ICMP)")]
    Refused {
        /// Datagrams of this call that were sent before the error.
        accepted: usize,
    },
    /// A datagram is longer than the path MTU, and fragments are forbidden.
    #[error(
        "a datagram of {bytes} B does not fit the path MTU of {mtu} B without fragments: lower --size to at most {most} B, or \
         leave out --dont-fragment"
    )]
    AbovePathMtu {
        /// The length of the datagram, in bytes of UDP payload.
        bytes: usize,
        /// The path MTU, in bytes.
        mtu: u64,
        /// The longest UDP payload that fits, in bytes.
        most: u64,
        /// Datagrams of this call that were sent before the error.
        accepted: usize,
    },
    /// A datagram is longer than a message.
    #[error("a datagram of {bytes} B is too long to send: UDP over IPv4 carries at most {MESSAGE_BYTES} B")]
    TooLong {
        /// The length of the datagram.
        bytes: usize,
        /// Datagrams of this call that were sent before the error.
        accepted: usize,
    },
    /// The send buffer or the interface was full for longer than the configured timeout.
    #[error("the send buffer was full for {} ms", waited.as_millis())]
    Full {
        /// The time waited.
        waited: Duration,
        /// Datagrams of this call that were sent before the error.
        accepted: usize,
    },
    /// The local address of a connected socket is away, or is being exchanged for another one.
    #[error("the local address is no longer of this machine")]
    NoAddress {
        /// Datagrams of this call that were sent before the error.
        accepted: usize,
    },
    /// Any other error of the system.
    #[error("cannot send: {source}")]
    Io {
        /// The system's error.
        source: io::Error,
        /// Datagrams of this call that were sent before the error.
        accepted: usize,
    },
}

impl SendError {
    /// Datagrams of the failed call that were sent before the error.
    pub const fn accepted(&self) -> usize {
        match self {
            Self::Refused { accepted }
            | Self::AbovePathMtu { accepted, .. }
            | Self::TooLong { accepted, .. }
            | Self::Full { accepted, .. }
            | Self::NoAddress { accepted }
            | Self::Io { accepted, .. } => *accepted,
        }
    }

    fn of_option(error: SocketError) -> Self {
        let source = match error {
            SocketError::Option { source, .. } => source,
            other => io::Error::other(other),
        };
        Self::Io { source, accepted: 0 }
    }

    /// Whether a later datagram may be sent: the port was closed, a queue was full, the interface or the route is away for now, or a
    /// filter refused this one ([`is_passing`]).
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Full { .. } | Self::NoAddress { .. } => true,
            Self::Io { source, .. } => is_passing(source),
            Self::AbovePathMtu { .. } | Self::TooLong { .. } => false,
        }
    }
}

/// Why sending a run ended early.
enum Cause {
    Kernel(Errno),
    Full(Duration),
}

impl Cause {
    /// The error for a datagram of `bytes` that followed `accepted` others.
    fn error(self, bytes: usize, accepted: usize) -> SendError {
        match self {
            Self::Kernel(Errno::ECONNREFUSED) => SendError::Refused { accepted },
            Self::Kernel(Errno::EMSGSIZE) => SendError::TooLong { bytes, accepted },
            Self::Kernel(Errno::EINVAL | Errno::EDESTADDRREQ) => SendError::NoAddress { accepted },
            Self::Kernel(errno) => SendError::Io { source: errno.into(), accepted },
            Self::Full(waited) => SendError::Full { waited, accepted },
        }
    }
}

/// Counters of a socket's sends and their obstacles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SendCounters {
    /// Datagrams accepted by the kernel.
    pub datagrams: u64,
    /// Of these, the datagrams of runs ([`UdpSocket::send_segments`], [`UdpSocket::send_varied`]): those of a stream, without
    /// control messages.
    pub run_datagrams: u64,
    /// The payload of the datagrams of runs, in bytes.
    pub run_bytes: u64,
    /// System calls that sent them.
    pub calls: u64,
    /// How often the send buffer was full and a thread waited.
    pub waits: u64,
    /// How often the queue of the interface dropped what was sent (`ENOBUFS`), which the kernel says only where
    /// [`report_unreachable`](super::SocketConfig::report_unreachable) is set. These datagrams count as sent: they are lost.
    pub no_buffers: u64,
    /// How often the kernel could not split a message, so that its datagrams were sent one by one.
    pub offload_refusals: u64,
    /// How often the peer's host answered "port unreachable".
    pub unreachable: u64,
}

giusto_units::defaults! {
    /// The sending side of a socket: counters, and the limit of segmentation.
    #[derive(Debug)]
    pub(super) struct Sending {
        datagrams: AtomicU64 = AtomicU64::new(0),
        run_datagrams: AtomicU64 = AtomicU64::new(0),
        run_bytes: AtomicU64 = AtomicU64::new(0),
        calls: AtomicU64 = AtomicU64::new(0),
        waits: AtomicU64 = AtomicU64::new(0),
        no_buffers: AtomicU64 = AtomicU64::new(0),
        offload_refusals: AtomicU64 = AtomicU64::new(0),
        unreachable: AtomicU64 = AtomicU64::new(0),
        /// The minimum segment size that the kernel has rejected.
        pub(super) refused_segment: AtomicU32 = AtomicU32::new(u32::MAX),
    }
}

impl UdpSocket {
    /// Sends one datagram to `to`.
    ///
    /// # Errors
    ///
    /// [`SendError`] gives the reason.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> Result<(), SendError> {
        self.send_one(Some(to), bytes)
    }

    /// Sends one datagram to the connected peer.
    ///
    /// # Errors
    ///
    /// [`SendError`] gives the reason.
    pub fn send(&self, bytes: &[u8]) -> Result<(), SendError> {
        self.send_one(None, bytes)
    }

    /// Sends one datagram to `to`, or to the connected peer, with this traffic class instead of the socket's.
    ///
    /// # Errors
    ///
    /// [`SendError`] gives the reason.
    pub fn send_classed(
        &self,
        to: Option<SocketAddr>,
        bytes: &[u8],
        class: TrafficClass,
    ) -> Result<(), SendError> {
        let is_v4 = match to {
            Some(to) => to.is_ipv4(),
            None => self.local.is_ipv4(),
        };
        let option =
            if is_v4 { SendOption::ClassV4(class.byte()) } else { SendOption::ClassV6(class.byte()) };
        let name = to.map(|to| self.name(to));
        let mut waited = false;
        loop {
            match sys::send_messages(self.as_fd(), name.as_ref(), std::iter::once(bytes), Some(option)) {
                Ok(_) => {
                    self.sending.datagrams.fetch_add(1, Relaxed);
                    return Ok(());
                }
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => {
                    self.sending.no_buffers.fetch_add(1, Relaxed);
                    self.sending.datagrams.fetch_add(1, Relaxed);
                    return Ok(());
                }
                Err(Errno::EAGAIN) if !waited => {
                    waited = true;
                    self.sending.waits.fetch_add(1, Relaxed);
                    let mut wanted = [PollFd::new(self.as_fd(), PollFlags::POLLOUT)];
                    let limit = TimeSpec::from_duration(self.config.send_timeout);
                    // Whether there is room now: the next attempt finds out.
                    let _ = ppoll(&mut wanted, Some(limit), None);
                }
                Err(Errno::EAGAIN) => {
                    return Err(Cause::Full(self.config.send_timeout).error(bytes.len(), 0));
                }
                Err(errno) => return Err(Cause::Kernel(errno).error(bytes.len(), 0)),
            }
        }
    }

    /// Sends a run of datagrams to `to`, or to the connected peer: each `segment` bytes of `bytes` are one
    /// datagram; the last may be shorter. Returns their number.
    ///
    /// If the send buffer is full it waits, at most for the configured timeout. Nothing is allocated.
    ///
    /// # Errors
    ///
    /// [`SendError`] gives the reason and the number of datagrams sent before it.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_net::{Grouping, SocketConfig, UdpSocket};
    ///
    /// let receiver = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default())?;
    /// let sender = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default())?;
    /// let sent = sender.send_segments(Some(receiver.local_addr()), &[7; 2500], 1200, Grouping::Offload)?;
    /// assert_eq!(sent, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_segments(
        &self,
        to: Option<SocketAddr>,
        bytes: &[u8],
        segment: usize,
        grouping: Grouping,
    ) -> Result<usize, SendError> {
        if segment == 0 {
            return Ok(0);
        }
        let name = to.map(|to| self.name(to));
        let count = bytes.len().div_ceil(segment);
        let mut accepted = 0;
        if let Some((group, size)) =
            self.group_of(segment).filter(|_| grouping == Grouping::Offload && count > 1)
        {
            let (messages, outcome) =
                self.hand_over(name.as_ref(), Some(SendOption::Segment(size)), |taken| {
                    bytes.get(taken * group * segment..).unwrap_or(&[]).chunks(group * segment)
                });
            accepted = (messages * group).min(count);
            match outcome {
                Err(Cause::Kernel(errno)) if refuses_offload(errno) => self.sending.refuse(size),
                Err(cause) => {
                    self.count_run(accepted, bytes.len().min(accepted * segment));
                    return self.report(accepted, Err(cause), segment);
                }
                Ok(()) => {}
            }
        }
        let (rest, outcome) = self.hand_over(name.as_ref(), None, |taken| {
            bytes.get((accepted + taken) * segment..).unwrap_or(&[]).chunks(segment)
        });
        self.count_run(accepted + rest, bytes.len().min((accepted + rest) * segment));
        self.report(accepted + rest, outcome, segment)
    }

    /// Sends consecutive datagrams of different lengths in `bytes` to `to`, or to the connected peer. Returns
    /// their number: fewer than `lengths` only if `bytes` is too short.
    ///
    /// # Errors
    ///
    /// As [`send_segments`](Self::send_segments).
    pub fn send_varied(
        &self,
        to: Option<SocketAddr>,
        bytes: &[u8],
        lengths: &[usize],
    ) -> Result<usize, SendError> {
        self.send_run(to, None, bytes, lengths)
    }

    /// Like [`send_varied`](Self::send_varied) to `to`, with this traffic class instead of that of the socket.
    ///
    /// # Errors
    ///
    /// As [`send_segments`](Self::send_segments).
    pub fn send_marked(
        &self,
        to: SocketAddr,
        class: TrafficClass,
        bytes: &[u8],
        lengths: &[usize],
    ) -> Result<usize, SendError> {
        let option = if self.config.path.priority.is_some() && to.ip().to_canonical().is_ipv4() {
            // A traffic class of single datagrams changes their priority (`ip_cmsg_send` of Linux); that of the socket does not.
            self.set_traffic_class(class).map_err(SendError::of_option)?;
            None
        } else if class == self.config.traffic_class {
            None
        } else if to.ip().to_canonical().is_ipv4() {
            Some(SendOption::ClassV4(class.byte()))
        } else {
            Some(SendOption::ClassV6(class.byte()))
        };
        self.send_run(Some(to), option, bytes, lengths)
    }

    pub(super) fn send_run(
        &self,
        to: Option<SocketAddr>,
        option: Option<SendOption>,
        bytes: &[u8],
        lengths: &[usize],
    ) -> Result<usize, SendError> {
        let name = to.map(|to| self.name(to));
        let (accepted, outcome) = self.hand_over(name.as_ref(), option, |taken| {
            let (before, after) = lengths.split_at_checked(taken).unwrap_or((lengths, &[]));
            let mut at: usize = before.iter().sum();
            after.iter().map_while(move |&len| {
                let datagram = bytes.get(at..at.checked_add(len)?)?;
                at += len;
                Some(datagram)
            })
        });
        self.count_run(accepted, lengths.iter().take(accepted).sum());
        self.report(accepted, outcome, lengths.get(accepted).copied().unwrap_or(0))
    }

    /// The counts so far.
    pub fn send_counters(&self) -> SendCounters {
        SendCounters {
            datagrams: self.sending.datagrams.load(Relaxed),
            run_datagrams: self.sending.run_datagrams.load(Relaxed),
            run_bytes: self.sending.run_bytes.load(Relaxed),
            calls: self.sending.calls.load(Relaxed),
            waits: self.sending.waits.load(Relaxed),
            no_buffers: self.sending.no_buffers.load(Relaxed),
            offload_refusals: self.sending.offload_refusals.load(Relaxed),
            unreachable: self.sending.unreachable.load(Relaxed),
        }
    }

    /// `to` as the kernel takes it, with the flow label of this socket and the address to which it has sent.
    fn name(&self, to: SocketAddr) -> Name {
        let home = self.homes.of(to);
        let to = match to {
            SocketAddr::V6(mut v6) if self.config.path.flow_label.is_some() => {
                v6.set_flowinfo(self.config.path.flow_info());
                v6.into()
            }
            to => to,
        };
        let mut name = Name::of(to, self.v6);
        name.home = home;
        name
    }

    fn send_one(&self, to: Option<SocketAddr>, bytes: &[u8]) -> Result<(), SendError> {
        let name = to.map(|to| self.name(to));
        let one = [bytes];
        let (accepted, outcome) =
            self.hand_over(name.as_ref(), None, |taken| one.iter().copied().skip(taken));
        self.report(accepted, outcome, bytes.len()).map(drop)
    }

    /// The number of datagrams of `segment` bytes per message, and that length for the kernel; `None` if they
    /// cannot be grouped.
    fn group_of(&self, segment: usize) -> Option<(usize, u16)> {
        let group = (MESSAGE_BYTES / segment).min(SEGMENTS);
        let size = u16::try_from(segment).ok()?;
        let offered = self.granted.segmentation_offload && !self.sending.refuses(size);
        (group > 1 && offered).then_some((group, size))
    }

    /// Sends the messages that `from(taken)` returns, until there are none. Returns the number of messages
    /// that the kernel accepted.
    fn hand_over<'a, I>(
        &self,
        to: Option<&Name>,
        option: Option<SendOption>,
        from: impl Fn(usize) -> I,
    ) -> (usize, Result<(), Cause>)
    where
        I: Iterator<Item = &'a [u8]>,
    {
        let is_split = matches!(option, Some(SendOption::Segment(_)));
        let mut to = to.copied();
        let mut taken = 0;
        let mut waiting_since = None;
        let mut refusals = 0;
        loop {
            let mut messages = from(taken).peekable();
            if messages.peek().is_none() {
                return (taken, Ok(()));
            }
            self.sending.calls.fetch_add(1, Relaxed);
            match sys::send_messages(self.as_fd(), to.as_ref(), messages, option) {
                Ok(sent) => {
                    taken += sent;
                    waiting_since = None;
                    refusals = 0;
                }
                Err(Errno::EINTR) => {}
                // The address to which the peer has sent is no longer of this machine: the system chooses another one.
                // The error depends on the version of Linux and on the family.
                Err(Errno::EINVAL | Errno::ENETUNREACH | Errno::EADDRNOTAVAIL)
                    if to.as_mut().is_some_and(|to| to.home.take().is_some()) => {}
                // The answer to an earlier datagram, which is reported once: this one has not been tried yet.
                Err(Errno::ECONNREFUSED) if refusals < MAX_REFUSALS => {
                    self.sending.unreachable.fetch_add(1, Relaxed);
                    refusals += 1;
                }
                // Likewise: a router has reported a smaller MTU, which the system knows from now on.
                Err(Errno::EMSGSIZE) if !is_split && refusals < MAX_REFUSALS => refusals += 1,
                // The interface's queue has dropped it, as any other queue may do. Where that ends a batch early, the system does not say so,
                // and the datagram is tried once more.
                Err(Errno::ENOBUFS) => {
                    self.sending.no_buffers.fetch_add(1, Relaxed);
                    taken += 1;
                    waiting_since = None;
                }
                Err(Errno::EAGAIN) => {
                    let now = clock::read(ClockId::CLOCK_MONOTONIC);
                    let waited = Duration::from_nanos(now.saturating_sub(*waiting_since.get_or_insert(now)));
                    if waited >= self.config.send_timeout {
                        return (taken, Err(Cause::Full(waited)));
                    }
                    self.await_room(self.config.send_timeout.saturating_sub(waited));
                }
                // Likewise of other answers. Where the error is not that of an earlier datagram, it comes again.
                Err(errno)
                    if errno != Errno::EMSGSIZE && refusals < MAX_REFUSALS && is_passing(&errno.into()) =>
                {
                    refusals += 1;
                }
                Err(errno) => return (taken, Err(Cause::Kernel(errno))),
            }
        }
    }

    /// Waits for space to send, at most for `timeout`.
    fn await_room(&self, timeout: Duration) {
        self.sending.waits.fetch_add(1, Relaxed);
        let mut wanted = [PollFd::new(self.as_fd(), PollFlags::POLLOUT)];
        // Whether there is space, a timeout or a signal: the send finds out.
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(timeout)), None);
    }

    /// Counts datagrams of a run, and their payload.
    fn count_run(&self, accepted: usize, bytes: usize) {
        self.sending.run_datagrams.fetch_add(accepted as u64, Relaxed);
        self.sending.run_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts the `accepted` datagrams and builds the result; `next` is the length of the datagram after them.
    fn report(&self, accepted: usize, outcome: Result<(), Cause>, next: usize) -> Result<usize, SendError> {
        self.sending.datagrams.fetch_add(accepted as u64, Relaxed);
        if let Err(Cause::Kernel(Errno::ECONNREFUSED)) = outcome {
            self.sending.unreachable.fetch_add(1, Relaxed);
        }
        outcome.map(|()| accepted).map_err(|cause| match (cause.error(next, accepted), self.path_mtu()) {
            (SendError::TooLong { bytes, accepted }, Some(mtu)) if self.forbids_fragments.load(Relaxed) => {
                let v6 = self.local.is_ipv6();
                let headers = UDP_HEADER + if v6 { IPV6_HEADER } else { IPV4_HEADER };
                let mtu = mtu.as_bytes();
                SendError::AbovePathMtu { bytes, mtu, most: mtu.saturating_sub(headers), accepted }
            }
            (error, _) => error,
        })
    }
}

impl Sending {
    fn refuses(&self, segment: u16) -> bool {
        u32::from(segment) >= self.refused_segment.load(Relaxed)
    }

    fn refuse(&self, segment: u16) {
        self.offload_refusals.fetch_add(1, Relaxed);
        self.refused_segment.fetch_min(segment.into(), Relaxed);
    }
}

/// Whether the kernel rejected a split message that it may accept unsplit.
///
/// `udp_send_skb` returns EINVAL for segments that exceed the MTU or are too many, and EIO for an interface
/// that computes no checksums; a kernel without the option returns EINVAL or ENOPROTOOPT, one with a short
/// message limit EMSGSIZE.
fn refuses_offload(errno: Errno) -> bool {
    matches!(errno, Errno::EINVAL | Errno::EIO | Errno::ENOPROTOOPT | Errno::EOPNOTSUPP | Errno::EMSGSIZE)
}
