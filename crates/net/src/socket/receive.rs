//! Receiving: many messages per system call, each with its timestamp, drop count and traffic class.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::AsFd,
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

use super::{
    TrafficClass, UdpSocket,
    stamping::{Line, Stamps, stamped_at, timespec},
};
use crate::sys::{self, MESSAGES_PER_CALL, Slot};

/// How long a receive call waits for the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It does not wait.
    Never,
    /// At most this long. It never waits for further messages.
    For(Duration),
}

/// Space for the messages of one receive call, allocated once.
///
/// With `gro` a few messages suffice: 2 and 16 messages of 64 kB showed no difference at 50 Gbit/s. Without
/// `gro`, 64 messages reduce the number of system calls.
#[derive(Debug)]
pub struct ReceiveBatch {
    bytes: Box<[u8]>,
    stride: usize,
    slots: Box<[Slot]>,
    filled: usize,
    counts_drops: bool,
    /// How the times of a card are the system's, and the interface that they come from.
    card: Option<(Line, u32)>,
}

impl ReceiveBatch {
    /// Space for `messages` messages, 1 to 64, of up to `bytes_per_message` each.
    ///
    /// A socket with `gro` needs 65 535 bytes per message; longer messages are truncated and flagged.
    pub fn new(messages: usize, bytes_per_message: usize) -> Self {
        let messages = messages.clamp(1, MESSAGES_PER_CALL);
        let stride = bytes_per_message.max(1);
        Self {
            bytes: vec![0; messages * stride].into(),
            stride,
            slots: vec![Slot::EMPTY; messages].into(),
            filled: 0,
            counts_drops: false,
            card: None,
        }
    }

    /// The messages of the last receive call, in the order of arrival.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Received<'_>> {
        let filled = self.slots.get(..self.filled).unwrap_or(&[]);
        filled
            .iter()
            .zip(self.bytes.chunks_exact(self.stride))
            .map(|(slot, bytes)| self.received(slot, bytes))
    }

    /// The number of messages of the last receive call.
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// Whether the last receive call returned no messages.
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Whether the last receive call filled the batch, so that there may be more messages.
    pub const fn is_full(&self) -> bool {
        self.filled == self.slots.len()
    }

    fn received<'a>(&self, slot: &Slot, bytes: &'a [u8]) -> Received<'a> {
        let bytes = bytes.get(..slot.len).unwrap_or(bytes);
        let mut received = Received {
            bytes,
            segment: bytes.len(),
            from: slot.name.address().unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
            stamp: None,
            traffic_class: None,
            ttl: None,
            // The kernel reports no count until there are drops.
            kernel_dropped: self.counts_drops.then_some(0),
            truncated: slot.flags & libc::MSG_TRUNC != 0,
        };
        for (level, kind, content) in slot.control.messages() {
            received.take_note(level, kind, content);
        }
        received.stamp = self.stamp_of_card(slot).or(received.stamp);
        received
    }

    /// The time of a card that stamped the message, as the system's.
    fn stamp_of_card(&self, slot: &Slot) -> Option<u64> {
        let (line, index) = self.card?;
        let (mut card, mut at) = (None, None);
        for (level, kind, content) in slot.control.messages() {
            at = stamped_at(level, kind, content).or(at);
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
                card = Stamps::read(content).card;
            }
        }
        // 0: the kernel does not know any more.
        card.filter(|_| at.is_none_or(|at| at == index || at == 0)).map(|card| line.system(card))
    }
}

/// One message of the kernel: a datagram, or with `gro` a run of datagrams.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The payload: one datagram, or several consecutive ones.
    pub bytes: &'a [u8],
    /// The length of each datagram in `bytes`; the last may be shorter.
    pub segment: usize,
    /// The source address; a mapped IPv4 address is given as IPv4.
    pub from: SocketAddr,
    /// Arrival time at the card, or else at the kernel: nanoseconds since 1970 on the system's clock. See
    /// [`StampConverter`](crate::StampConverter). With `gro` it is that of the run's first datagram.
    pub stamp: Option<u64>,
    /// DSCP and ECN on arrival.
    pub traffic_class: Option<TrafficClass>,
    /// TTL (IPv4) or Hop Limit (IPv6) on arrival; only with [`SocketConfig::receive_ttl`](super::SocketConfig::receive_ttl).
    pub ttl: Option<u8>,
    /// Messages that this socket had dropped before this one, since it was opened; it wraps. [`UdpSocket::dropped_messages`]
    /// also counts drops after which nothing arrived.
    pub kernel_dropped: Option<u32>,
    /// The message was longer than its buffer and was truncated.
    pub truncated: bool,
}

impl<'a> Received<'a> {
    /// The datagrams. An empty datagram counts as one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let empty: Option<&'a [u8]> = self.bytes.is_empty().then_some(&[]);
        empty.into_iter().chain(self.bytes.chunks(self.segment.max(1)))
    }

    fn take_note(&mut self, level: i32, kind: i32, content: &[u8]) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                self.stamp = timespec(content);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                self.kernel_dropped = head(content).map(u32::from_ne_bytes).or(self.kernel_dropped);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let stride = head(content).map(i32::from_ne_bytes).and_then(|s| usize::try_from(s).ok());
                self.segment =
                    stride.filter(|&s| s > 0).map_or(self.bytes.len(), |s| s.min(self.bytes.len()));
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                self.traffic_class = content.first().map(|&byte| TrafficClass::from_byte(byte));
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.ttl = head(content).map(i32::from_ne_bytes).and_then(|ttl| u8::try_from(ttl).ok());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let class = head(content).map(i32::from_ne_bytes);
                self.traffic_class = class.map(|class| TrafficClass::from_byte(class as u8));
            }
            _ => {}
        }
    }
}

/// The first `N` bytes.
fn head<const N: usize>(content: &[u8]) -> Option<[u8; N]> {
    content.first_chunk().copied()
}

impl UdpSocket {
    /// Reads the queued messages, as many as `batch` can hold; waits for the first if there are none. Returns
    /// their number, 0 after a timeout.
    ///
    /// # Errors
    ///
    /// The system's, such as [`io::ErrorKind::ConnectionRefused`] on a connected socket whose peer answered "port unreachable".
    /// Receiving may continue where it [is passing](super::is_passing).
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    /// use giusto_net::{ReceiveBatch, SocketConfig, UdpSocket, Wait};
    ///
    /// let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default())?;
    /// socket.send_to(b"ping", socket.local_addr())?;
    /// let mut batch = ReceiveBatch::new(16, 2048);
    /// assert_eq!(socket.recv_batch(&mut batch, Wait::For(Duration::from_secs(1)))?, 1);
    /// for received in batch.iter() {
    ///     assert_eq!(received.bytes, b"ping");
    ///     assert_eq!(received.from, socket.local_addr());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_batch(&self, batch: &mut ReceiveBatch, wait: Wait) -> io::Result<usize> {
        // Where nothing came the last time, nothing is likely to be there yet: waiting first saves a system call.
        let was_empty = batch.filled == 0;
        batch.filled = 0;
        batch.counts_drops = self.granted.drop_counts;
        batch.card = self.card().map(|card| (card.line(), card.index()));
        if !was_empty || wait == Wait::Never {
            match self.take_waiting(batch) {
                Err(Errno::EAGAIN) => {}
                outcome => return outcome.map_err(io::Error::from),
            }
        }
        let Wait::For(limit) = wait else { return Ok(0) };
        let mut wanted = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut wanted, Some(TimeSpec::from_duration(limit)), None) {
            // A signal ends the wait early, like a timeout: the caller decides whether to continue.
            Ok(0) | Err(Errno::EINTR) => return Ok(0),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        match self.take_waiting(batch) {
            // Another thread was faster, or the checksum was wrong.
            Err(Errno::EAGAIN) => Ok(0),
            outcome => outcome.map_err(io::Error::from),
        }
    }

    fn take_waiting(&self, batch: &mut ReceiveBatch) -> Result<usize, Errno> {
        loop {
            match sys::receive_messages(self.as_fd(), &mut batch.bytes, batch.stride, &mut batch.slots) {
                Err(Errno::EINTR) => {}
                Ok(received) => {
                    batch.filled = received;
                    self.homes.note(batch.slots.iter().take(received));
                    if let Some(card) = self.card() {
                        let slots = batch.slots.iter().take(received);
                        let stamped = slots.filter(|slot| batch.stamp_of_card(slot).is_some()).count();
                        card.counts.add(received as u64, stamped as u64);
                    }
                    return Ok(received);
                }
                Err(errno) => return Err(errno),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::stamping::tests::{message, stamped_by, stamping},
        *,
    };
    use crate::sys::{Control, card::Reading};

    #[test]
    fn the_time_of_a_card_counts_before_that_of_the_kernel() {
        let of_the_kernel = [5_i64.to_ne_bytes(), 100_i64.to_ne_bytes()].concat();
        let of_the_kernel = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &of_the_kernel);
        let both = stamping([(5, 100), (0, 0), (42, 80)]);
        let stamp = |batch: &mut ReceiveBatch, messages: &[&[u8]]| {
            batch.filled = 1;
            batch.slots[0] = Slot { control: Control::recorded(&messages.concat()), ..Slot::EMPTY };
            batch.iter().next().unwrap().stamp
        };
        let mut batch = ReceiveBatch::new(1, 10);
        assert_eq!(stamp(&mut batch, &[&of_the_kernel, &both]), Some(5_000_000_100), "no card is known");
        // The clock of the card of interface 3 is 37 s ahead.
        batch.card = Some((Line::new(Reading { card: 40_000_000_000, system: 3_000_000_000, width: 0 }), 3));
        assert_eq!(stamp(&mut batch, &[&of_the_kernel, &both]), Some(5_000_000_080));
        for (index, expected) in [(3, 5_000_000_080), (0, 5_000_000_080), (4, 5_000_000_100)] {
            let found = stamp(&mut batch, &[&of_the_kernel, &stamped_by(index), &both]);
            assert_eq!(found, Some(expected), "interface {index}");
        }
        let without = stamping([(5, 100), (0, 0), (0, 0)]);
        assert_eq!(stamp(&mut batch, &[&of_the_kernel, &without]), Some(5_000_000_100));
        assert_eq!(stamp(&mut batch, &[]), None);
    }
}
