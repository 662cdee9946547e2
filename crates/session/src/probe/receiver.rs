//! The receiving endpoint: many streams, each measured separately.

mod group;
mod messages;
mod moves;
mod reverse;
mod slots;
mod unannounced;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
};

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    admission::StreamLimits,
    auth::StreamKeys,
    clock::LocalClock,
    counters::Counters,
    inbound::Inbound,
    reception::Reporter,
    stream::{Ended, Stream},
    transmit::Transmit,
    wire::{
        self, ArrivalStamps, DataHeader, Kind, MAX_MESSAGE_BYTES, Message, SenderFigures, StreamRequest,
        StreamToken, WireError,
    },
};
use moves::{Move, token_of};
use reverse::{Again, Asked};
use slots::STREAMS_PER_SLOT;
use unannounced::{Probation, send_rtcp};

use crate::{cookie::CookieJar, handshakes::Handshakes, keys::KeyRing, prefixes::Prefixes, used::UsedTokens};

/// Time for which an ended stream still answers its sender's repeated requests.
const LINGER: TimeDelta = TimeDelta::from_seconds(3);

giusto_units::defaults! {
    /// Configuration of a [`Receiver`].
    #[derive(Debug, Clone)]
    pub struct ReceiverConfig {
        /// Secret from which cookies and tokens are computed. No default; use random bytes of the system.
        pub secret: [u8; 32] = secret,
        /// Our clock.
        pub clock: LocalClock = clock,
        /// Keys shared with senders: with them, only authenticated messages and datagrams count. Default: none.
        pub keys: Option<KeyRing> = None,
        /// With keys, senders without are served too, but a quarter of the streams is kept for those with keys. Default: false.
        pub accept_unauthenticated: bool = false,
        /// The addresses that are served; others get no answer. Default: all.
        pub prefixes: Prefixes = Prefixes::default(),
        /// Maximum number of announced streams; further ones are rejected. Default 256.
        pub max_streams: usize = 256,
        /// Streams at once from one IPv4 address or one IPv6 prefix of 64 bits. Default 128.
        pub max_streams_per_host: usize = 128,
        /// Maximum number of unannounced streams, beside the announced ones. Default 64.
        pub max_unannounced: usize = 64,
        /// Maximum number of streams in the reverse direction at the same time; 0: none is sent. Default 16.
        pub max_reverse: usize = 16,
        /// Streams in the reverse direction are not sent faster to who has no key. Default 100 Mbit/s.
        pub max_reverse_rate: DataRate = DataRate::from_bps(100_000_000),
        /// What one stream may use. Default: no limits.
        pub limits: StreamLimits = StreamLimits::default(),
        /// A stream ends if no datagram arrives for this time. Default 5 s.
        pub idle_timeout: TimeDelta = TimeDelta::from_seconds(5),
        /// Interval of reports to a stream's sender. Default 500 ms.
        pub report_interval: TimeDelta = TimeDelta::from_millis(500),
        /// The datagrams were sent to a multicast group: streams are announced by their senders, and nothing is answered. Default: false.
        pub group: bool = false,
        /// How unannounced datagrams are treated; `None`: they are only counted. With keys they need `accept_unauthenticated`, too.
        /// Default: `None`.
        pub passive: Option<Passive> = None,
    }
    /// The defaults, with a secret and a clock.
    pub fn new(secret: [u8; 32], clock: LocalClock);
}

/// How unannounced datagrams are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passive {
    /// RTP: other datagrams are counted as foreign. A stream begins with its second datagram in sequence (RFC 3550 §A.1:
    /// `MIN_SEQUENTIAL` 2).
    Rtp,
    /// Any datagram.
    Raw,
}

impl ReceiverConfig {
    fn authenticated_only(&self) -> bool {
        self.keys.is_some() && !self.accept_unauthenticated
    }
}

/// Identifies a stream at this receiver. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// An event of a receiver.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiverEvent {
    /// A stream began; it can be found by its id.
    Opened(StreamId),
    /// A stream goes on at another address of its sender, which has proved that it receives.
    Moved(StreamId),
    /// A stream ended, with all its measurements.
    Closed(StreamId, Box<Stream>),
    /// A stream is asked for: see [`Receiver::reverse_ended`].
    Reverse(Box<ReverseStream>),
    /// Who asked for a stream has proved another address: it goes on there.
    ReverseMoved {
        /// The address until now.
        from: SocketAddr,
        /// The new one.
        to: SocketAddr,
    },
}

/// A stream that this end is to send, to a verified address.
#[derive(Debug, Clone, PartialEq)]
pub struct ReverseStream {
    /// The address that asked for it.
    pub to: SocketAddr,
    /// The stream as asked for, within the limits of [`ReceiverConfig`].
    pub request: StreamRequest,
    /// Who asked proved to have a key.
    pub authenticated: bool,
}

/// A finished stream: its final report, in case the sender did not receive it.
#[derive(Debug)]
struct Lingering {
    /// `None` for an unannounced stream that a limit has ended: its datagrams do not begin another one at once.
    token: Option<StreamToken>,
    keys: Option<StreamKeys>,
    report: Vec<u8>,
    credit: u64,
    forget_at: Timestamp,
}

/// The receiving endpoint, without socket or clock.
///
/// Pass every datagram to [`handle`](Self::handle), call [`handle_timeout`](Self::handle_timeout) at the time
/// of [`next_timeout`](Self::next_timeout), and send the datagrams of [`poll_transmit`](Self::poll_transmit).
/// Each call does bounded work. Memory is bounded by [`ReceiverConfig::max_streams`] and [`ReceiverConfig::max_unannounced`].
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    jar: CookieJar,
    handshakes: Handshakes,
    /// By source address: datagrams from one address never count for another stream.
    streams: BTreeMap<SocketAddr, (StreamId, Stream)>,
    lingering: BTreeMap<SocketAddr, Lingering>,
    /// The addresses of announced streams, by their tokens.
    homes: BTreeMap<StreamToken, SocketAddr>,
    /// Addresses that are to prove that a stream has moved to them.
    moves: BTreeMap<SocketAddr, Move>,
    used: UsedTokens<()>,
    /// The last RTP datagram of addresses without a stream.
    probation: BTreeMap<SocketAddr, Probation>,
    /// Who reports on RTP streams.
    reporter: Reporter,
    /// The addresses to which streams are sent, with the tokens of their requests.
    reverse: BTreeMap<SocketAddr, Asked>,
    /// The request for the stream that comes, while it is made again from another address.
    again: Option<Again>,
    next_id: u64,
    outbox: VecDeque<Transmit>,
    /// What leaves from the port of RTCP.
    rtcp_outbox: VecDeque<Transmit>,
    events: VecDeque<ReceiverEvent>,
    counters: Counters,
    kernel_dropped: u64,
    cpu_ratio: Option<f32>,
    stamps: ArrivalStamps,
    latest: Timestamp,
}

impl Receiver {
    /// An endpoint without streams.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            jar: CookieJar::new(&config.secret),
            // Each message of the opening is repeated at least once.
            handshakes: Handshakes::new(config.max_streams_per_host.saturating_mul(2)),
            reporter: Reporter::new(&config.secret),
            used: UsedTokens::new(
                config.max_streams.saturating_mul(STREAMS_PER_SLOT),
                config.max_streams_per_host.saturating_mul(STREAMS_PER_SLOT),
            ),
            config,
            streams: BTreeMap::new(),
            lingering: BTreeMap::new(),
            homes: BTreeMap::new(),
            moves: BTreeMap::new(),
            probation: BTreeMap::new(),
            reverse: BTreeMap::new(),
            again: None,
            next_id: 0,
            outbox: VecDeque::new(),
            rtcp_outbox: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            kernel_dropped: 0,
            cpu_ratio: None,
            stamps: ArrivalStamps::Unknown,
            latest: Timestamp::ZERO,
        }
    }

    /// The streams that have not ended, with their ids, ordered by address.
    pub fn streams(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        self.streams.values().map(|(id, stream)| (*id, stream))
    }

    /// Counts of received datagrams that belong to no stream.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Messages that the socket dropped: datagrams of any stream and of none, a group of them once.
    pub fn kernel_dropped(&self) -> u64 {
        self.kernel_dropped
    }

    /// Sets the CPU utilisation of the receiving thread, for reports.
    pub fn set_cpu_ratio(&mut self, ratio: f32) {
        self.cpu_ratio = Some(ratio);
    }

    /// The CPU utilisation of the receiving thread that was set.
    pub fn cpu_ratio(&self) -> Option<f32> {
        self.cpu_ratio
    }

    /// What times the arrivals; in each report.
    pub fn set_stamps(&mut self, stamps: ArrivalStamps) {
        self.stamps = stamps;
    }

    /// The socket has dropped so many messages so far, by [`Inbound::kernel_dropped`], or now that it is empty.
    pub fn note_kernel_dropped(&mut self, total: u64) {
        if total > self.kernel_dropped {
            self.handshakes.on_dropped(self.latest, total - self.kernel_dropped);
            self.kernel_dropped = total;
            for (_, stream) in self.streams.values_mut() {
                stream.on_kernel_dropped(total);
            }
        }
    }

    /// Handles datagrams that a socket received.
    pub fn handle(&mut self, now: Timestamp, inbound: &Inbound<'_>) {
        self.latest = self.latest.max(now);
        let segment = inbound.segment.clamp(1, inbound.bytes.len().max(1));
        if let Some(total) = inbound.kernel_dropped {
            self.note_kernel_dropped(total);
        }
        if !self.config.prefixes.admit(inbound.from.ip()) {
            self.counters.denied += inbound.bytes.len().div_ceil(segment).max(1) as u64;
            return;
        }
        if inbound.truncated {
            self.counters.malformed += 1;
            return;
        }
        if let Some((_, stream)) = self.streams.get_mut(&inbound.from) {
            stream.credit = stream.credit.saturating_add(inbound.bytes.len() as u64);
        }
        if inbound.bytes.is_empty() {
            self.handle_one(now, inbound.bytes, inbound);
        }
        let mut datagrams = inbound.bytes.chunks(segment).peekable();
        while datagrams.peek().is_some() {
            // The common case: all datagrams belong to one stream, with one look-up.
            if let Some((_, stream)) = self.streams.get_mut(&inbound.from) {
                stream.on_datagrams(&mut datagrams, inbound, &mut self.counters);
                let successor = stream.successor;
                if let Some(limit) = stream.usage.exceeded(self.latest, &self.config.limits) {
                    self.retire(inbound.from, Ended::Limit(limit), None);
                } else if let Some(datagram) = successor {
                    self.close(inbound.from, Ended::Replaced);
                    self.probation.insert(inbound.from, Probation { datagram, rtcp: None });
                }
            }
            // Not a datagram of a stream: a message, or a foreign datagram. It may begin or end a stream.
            if let Some(datagram) = datagrams.next() {
                self.handle_one(now, datagram, inbound);
            }
        }
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called; `None` while idle.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        let live = self.streams.values().map(|(_, stream)| {
            let idle = stream.last_heard + self.config.idle_timeout;
            // Senders that did not open a stream get no reports.
            let report = stream.token.map(|_| stream.next_report);
            [Some(idle), report, stream.next_rtcp(), stream.usage.ends_at(&self.config.limits)]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(idle)
        });
        live.chain(self.lingering.values().map(|lingering| lingering.forget_at)).chain(self.again_at()).min()
    }

    /// Does what is due: reports, and the end of idle streams.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now);
        let now = self.latest;
        self.lingering.retain(|_, lingering| lingering.forget_at > now);
        self.forget_moves(now);
        self.drive_again(now);
        let (mut silent, mut over, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for (from, (_, stream)) in &mut self.streams {
            if let Some(bytes) = stream.poll_rtcp(now, &self.reporter) {
                send_rtcp(&mut self.outbox, &mut self.rtcp_outbox, stream, bytes);
            }
            if stream.has_left(now) {
                left.push(*from);
            } else if stream.last_heard + self.config.idle_timeout <= now {
                silent.push(*from);
            } else if let Some(limit) = stream.usage.exceeded(now, &self.config.limits) {
                over.push((*from, limit));
            } else if stream.token.is_some() && stream.next_report <= now {
                stream.next_report = now + self.config.report_interval;
                send_report(&mut self.outbox, stream, self.cpu_ratio, self.stamps);
            }
        }
        for from in left {
            self.close(from, Ended::Left);
        }
        for from in silent {
            self.close(from, Ended::Idle);
        }
        for (from, limit) in over {
            self.retire(from, Ended::Limit(limit), None);
        }
    }

    /// Ends every stream and notifies its sender. No stream is accepted any more.
    pub fn stop(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now);
        for (_, (id, mut stream)) in std::mem::take(&mut self.streams) {
            self.end(&mut stream, Ended::Stopped, None);
            if let Some(bytes) = stream.last_rtcp(self.latest, &self.reporter) {
                send_rtcp(&mut self.outbox, &mut self.rtcp_outbox, &mut stream, bytes);
            }
            send_report(&mut self.outbox, &mut stream, self.cpu_ratio, self.stamps);
            self.events.push_back(ReceiverEvent::Closed(id, Box::new(stream)));
        }
        (self.config.max_streams, self.config.max_reverse) = (0, 0);
        self.config.passive = None;
    }

    /// A stream that [`ReceiverEvent::Reverse`] asked for has ended, or was not sent: there is room for another one.
    pub fn reverse_ended(&mut self, to: SocketAddr) {
        self.reverse.remove(&to);
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if self.config.group {
            self.outbox.clear();
        }
        self.outbox.pop_front()
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// A stream by its id, while it exists.
    pub fn stream(&self, id: StreamId) -> Option<&Stream> {
        self.streams.values().find(|(stream_id, _)| *stream_id == id).map(|(_, stream)| stream)
    }

    fn handle_one(&mut self, now: Timestamp, datagram: &[u8], inbound: &Inbound<'_>) {
        let from = inbound.from;
        if self.takes_answer(now, datagram, inbound) {
            return;
        }
        match wire::kind(datagram) {
            Ok(Kind::Control) => match Message::decode(datagram) {
                Ok(message) => self.handle_plain(now, message, datagram.len(), inbound),
                Err(WireError::Corrupt) => self.counters.corrupt += 1,
                Err(_) => self.counters.malformed += 1,
            },
            Ok(Kind::SealedControl) => self.handle_sealed(now, datagram, inbound),
            // Data without a stream, or of a stream that has been forgotten.
            Ok(Kind::Data) => match DataHeader::parse(datagram) {
                Ok(_) if self.lingering.contains_key(&from) => self.counters.late += 1,
                Ok(_) if self.config.group => self.counters.unannounced += 1,
                Ok(header) if self.handle_moving_data(now, header.token, datagram, inbound) => {}
                // Of a sender that asks nobody.
                Ok(header) if header.token == StreamToken(0) => {
                    self.handle_unannounced(now, datagram, inbound);
                }
                Ok(_) => self.counters.forged += 1,
                Err(WireError::Corrupt) => self.counters.corrupt += 1,
                Err(_) => self.counters.malformed += 1,
            },
            Ok(Kind::SealedData) if self.lingering.contains_key(&from) => self.counters.late += 1,
            Ok(Kind::SealedData)
                if token_of(datagram)
                    .is_some_and(|token| self.handle_moving_data(now, token, datagram, inbound)) => {}
            Ok(Kind::SealedData) | Err(WireError::Unauthenticated) => self.counters.unauthenticated += 1,
            Err(WireError::Corrupt) => self.counters.corrupt += 1,
            Err(WireError::Version(_)) => self.counters.other_version += 1,
            Err(WireError::Malformed) => self.counters.malformed += 1,
            Err(WireError::Foreign) => self.handle_unannounced(now, datagram, inbound),
        }
    }

    /// Ends a stream without informing its sender.
    fn close(&mut self, from: SocketAddr, why: Ended) {
        if let Some((id, mut stream)) = self.streams.remove(&from) {
            self.end(&mut stream, why, None);
            self.events.push_back(ReceiverEvent::Closed(id, Box::new(stream)));
        }
    }

    /// Ends a stream and sends its sender the final report, which is kept for a while in case it is lost.
    fn retire(&mut self, from: SocketAddr, why: Ended, figures: Option<SenderFigures>) {
        let Some((id, mut stream)) = self.streams.remove(&from) else { return };
        self.end(&mut stream, why, figures);
        let report = stream.token.map(|token| {
            let report =
                Message::Report { token, report: Box::new(stream.report(self.cpu_ratio, self.stamps)) };
            encode(&mut stream, &report)
        });
        let report = report.unwrap_or_default();
        let (token, forget_at) = (stream.token, self.latest + LINGER);
        if token.is_some() {
            send_within_credit(&mut self.outbox, &mut stream, report.clone());
        }
        if self.lingering.len() < self.config.max_streams.saturating_add(self.config.max_unannounced) {
            let (keys, credit) = (stream.keys.clone(), stream.credit);
            self.lingering.insert(from, Lingering { token, keys, report, credit, forget_at });
        }
        self.events.push_back(ReceiverEvent::Closed(id, Box::new(stream)));
    }

    fn end(&mut self, stream: &mut Stream, why: Ended, figures: Option<SenderFigures>) {
        if let Some(token) = stream.token {
            self.homes.remove(&token);
        }
        stream.end(why, figures);
        stream.flood = self.handshakes.flood().since(stream.flood);
    }

    fn insert(&mut self, from: SocketAddr, mut stream: Stream) {
        stream.flood = self.handshakes.flood();
        let id = StreamId(self.next_id);
        self.next_id += 1;
        if let Some(token) = stream.token {
            self.homes.insert(token, from);
        }
        self.streams.insert(from, (id, stream));
        self.events.push_back(ReceiverEvent::Opened(id));
    }
}

fn send_report(
    outbox: &mut VecDeque<Transmit>,
    stream: &mut Stream,
    cpu_ratio: Option<f32>,
    stamps: ArrivalStamps,
) {
    if let Some(token) = stream.token {
        let report = Box::new(stream.report(cpu_ratio, stamps));
        let bytes = encode(stream, &Message::Report { token, report });
        send_within_credit(outbox, stream, bytes);
    }
}

/// A message to the sender of a stream, with the authentication that the stream has.
fn encode(stream: &mut Stream, message: &Message) -> Vec<u8> {
    match &mut stream.keys {
        Some(keys) => keys.seal_to_sender(message, 0),
        None => message.encode(0),
    }
}

/// Sends to a verified address what its byte budget permits.
fn send_within_credit(outbox: &mut VecDeque<Transmit>, stream: &mut Stream, bytes: Vec<u8>) {
    if bytes.len() <= MAX_MESSAGE_BYTES && bytes.len() as u64 <= stream.credit {
        stream.credit -= bytes.len() as u64;
        outbox.push_back(Transmit { to: stream.from(), bytes });
    }
}
