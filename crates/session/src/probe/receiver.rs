//! The receiving endpoint: many streams, each measured separately.

use std::{
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    cookie::{COOKIE_LIFE, CookieJar},
    counters::Counters,
    inbound::Inbound,
    stream::{Ended, Stream},
    transmit::Transmit,
    wire::{
        self, ClockIdentity, Cookie, DataHeader, Kind, MAX_MESSAGE_BYTES, Message, OPENING_BYTES,
        PathEstimate, Refusal, SenderFigures, StreamFormat, StreamRequest, StreamToken, WireError,
    },
};

/// Time for which an ended stream still answers its sender's repeated requests.
const LINGER: TimeDelta = TimeDelta::from_seconds(3);

/// Minimum time before an address may replace its stream by a new one.
const SHORTEST_STREAM: TimeDelta = TimeDelta::from_seconds(1);

/// How many streams may follow each other in a slot while their cookies are valid: it bounds what is remembered of them.
const STREAMS_PER_SLOT: usize = 16;

/// How long the end of a stream waits for datagrams that it may have overtaken.
const OVERTAKEN: TimeDelta = TimeDelta::from_millis(150);

/// Configuration of a [`Receiver`].
#[derive(Debug, Clone)]
pub struct ReceiverConfig {
    /// Secret from which cookies and tokens are computed. No default; use random bytes of the system.
    pub secret: [u8; 32],
    /// Our clock.
    pub clock: ClockIdentity,
    /// Maximum number of streams; further ones are rejected. Default 256.
    pub max_streams: usize,
    /// Streams at once from one IPv4 address or one IPv6 prefix of 64 bits. Default 128.
    pub max_streams_per_host: usize,
    /// Streams that announce a higher rate are rejected; `None`: no limit. Default: no limit.
    pub max_rate: Option<DataRate>,
    /// A stream ends if no datagram arrives for this time. Default 5 s.
    pub idle_timeout: TimeDelta,
    /// Interval of reports to a stream's sender. Default 500 ms.
    pub report_interval: TimeDelta,
    /// How unannounced datagrams are treated; `None`: they are only counted. Default: `None`.
    pub passive: Option<Passive>,
}

/// How unannounced datagrams are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passive {
    /// RTP: other datagrams are counted as foreign.
    Rtp,
    /// Any datagram.
    Raw,
}

impl ReceiverConfig {
    /// The defaults, with a secret and a clock.
    pub fn new(secret: [u8; 32], clock: ClockIdentity) -> Self {
        Self {
            secret,
            clock,
            max_streams: 256,
            max_streams_per_host: 128,
            max_rate: None,
            idle_timeout: TimeDelta::from_seconds(5),
            report_interval: TimeDelta::from_millis(500),
            passive: None,
        }
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
    /// A stream ended, with all its measurements.
    Closed(StreamId, Box<Stream>),
}

/// A finished stream: its final report, in case the sender did not receive it.
#[derive(Debug)]
struct Lingering {
    token: StreamToken,
    report: Vec<u8>,
    credit: u64,
    forget_at: Timestamp,
}

/// The receiving endpoint, without socket or clock.
///
/// Pass every datagram to [`handle`](Self::handle), call [`handle_timeout`](Self::handle_timeout) at the time
/// of [`next_timeout`](Self::next_timeout), and send the datagrams of [`poll_transmit`](Self::poll_transmit).
/// Each call does bounded work. Memory is bounded by [`ReceiverConfig::max_streams`].
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    jar: CookieJar,
    /// By source address: datagrams from one address never count for another stream.
    streams: BTreeMap<SocketAddr, (StreamId, Stream)>,
    lingering: BTreeMap<SocketAddr, Lingering>,
    /// The tokens of streams whose cookies are still valid, and until when they are.
    used: BTreeMap<StreamToken, Timestamp>,
    next_id: u64,
    outbox: VecDeque<Transmit>,
    events: VecDeque<ReceiverEvent>,
    counters: Counters,
    kernel_dropped: u64,
    cpu_ratio: Option<f32>,
    latest: Timestamp,
}

impl Receiver {
    /// An endpoint without streams.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            jar: CookieJar::new(&config.secret),
            config,
            streams: BTreeMap::new(),
            lingering: BTreeMap::new(),
            used: BTreeMap::new(),
            next_id: 0,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            kernel_dropped: 0,
            cpu_ratio: None,
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

    /// Datagrams that the socket dropped.
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

    /// Handles datagrams that a socket received.
    pub fn handle(&mut self, now: Timestamp, inbound: &Inbound<'_>) {
        self.latest = self.latest.max(now);
        let segment = inbound.segment.clamp(1, inbound.bytes.len().max(1));
        if let Some(total) = inbound.kernel_dropped
            && total != self.kernel_dropped
        {
            self.kernel_dropped = total;
            for (_, stream) in self.streams.values_mut() {
                stream.on_kernel_dropped(total);
            }
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
            if stream.token.is_some() { idle.min(stream.next_report) } else { idle }
        });
        live.chain(self.lingering.values().map(|lingering| lingering.forget_at)).min()
    }

    /// Does what is due: reports, and the end of idle streams.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now);
        let now = self.latest;
        self.lingering.retain(|_, lingering| lingering.forget_at > now);
        let mut silent = Vec::new();
        for (from, (_, stream)) in &mut self.streams {
            if stream.last_heard + self.config.idle_timeout <= now {
                silent.push(*from);
            } else if stream.token.is_some() && stream.next_report <= now {
                stream.next_report = now + self.config.report_interval;
                send_report(&mut self.outbox, stream, self.cpu_ratio);
            }
        }
        for from in silent {
            self.close(from, Ended::Idle);
        }
    }

    /// Ends every stream and notifies its sender. No stream is accepted any more.
    pub fn stop(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now);
        for (_, (id, mut stream)) in std::mem::take(&mut self.streams) {
            stream.end(Ended::Stopped, None);
            send_report(&mut self.outbox, &mut stream, self.cpu_ratio);
            self.events.push_back(ReceiverEvent::Closed(id, Box::new(stream)));
        }
        self.config.max_streams = 0;
        self.config.passive = None;
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
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
        match wire::kind(datagram) {
            Ok(Kind::Control) => match Message::decode(datagram) {
                Ok(message) => self.handle_message(now, message, datagram.len(), inbound),
                Err(WireError::Corrupt) => self.counters.corrupt += 1,
                Err(_) => self.counters.malformed += 1,
            },
            // Data without a stream, or of a stream that has been forgotten.
            Ok(Kind::Data) => match DataHeader::parse(datagram) {
                Ok(_) if self.lingering.contains_key(&from) => self.counters.late += 1,
                Ok(_) => self.counters.forged += 1,
                Err(WireError::Corrupt) => self.counters.corrupt += 1,
                Err(_) => self.counters.malformed += 1,
            },
            Err(WireError::Corrupt) => self.counters.corrupt += 1,
            Err(WireError::Version(_)) => self.counters.other_version += 1,
            Err(WireError::Malformed) => self.counters.malformed += 1,
            Err(WireError::Foreign) => self.handle_unannounced(now, from, datagram, inbound),
        }
    }

    fn handle_unannounced(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        datagram: &[u8],
        inbound: &Inbound<'_>,
    ) {
        let format = match self.config.passive {
            Some(Passive::Raw) if !datagram.is_empty() => Some(StreamFormat::Raw),
            Some(Passive::Rtp) => giusto_rtp::RtpHeader::parse(datagram)
                .ok()
                .map(|(header, _)| Stream::rtp_format(header.payload_type)),
            _ => None,
        };
        match format {
            None => self.counters.foreign += 1,
            Some(_) if self.full(from).is_some() => self.counters.refused += 1,
            Some(format) => {
                let mut stream = Stream::unannounced(now, from, format, &self.config.clock);
                stream.begin_kernel_dropped(self.kernel_dropped);
                stream.on_datagrams(&mut std::iter::once(datagram).peekable(), inbound, &mut self.counters);
                self.insert(from, stream);
            }
        }
    }

    fn handle_message(&mut self, now: Timestamp, message: Message, length: usize, inbound: &Inbound<'_>) {
        let from = inbound.from;
        match message {
            Message::Hello { nonce } => {
                let challenge = Message::Challenge { nonce, cookie: self.jar.issue(now, from, nonce) };
                self.answer(from, length, &challenge);
            }
            Message::Open { nonce, cookie, request } => {
                self.handle_open(now, (from, length), (nonce, cookie), request);
            }
            Message::Ping { token, sent_ns, path } => self.handle_ping(now, token, (sent_ns, path), inbound),
            Message::Finish { token, figures } => self.handle_finish(now, (from, length), token, figures),
            // Messages that only a receiver sends.
            Message::Challenge { .. }
            | Message::Accepted { .. }
            | Message::Refused { .. }
            | Message::Pong { .. }
            | Message::Report { .. } => self.counters.foreign += 1,
        }
    }

    fn handle_open(
        &mut self,
        now: Timestamp,
        (from, length): (SocketAddr, usize),
        (nonce, cookie): (u64, Cookie),
        request: StreamRequest,
    ) {
        let Some(token) = self.jar.verify(now, from, nonce, &cookie) else {
            self.counters.forged += 1;
            self.answer(from, length, &Message::Refused { nonce, why: Refusal::Cookie });
            return;
        };
        let accepted = Message::Accepted { nonce, token, clock: self.config.clock };
        if let Some((_, stream)) = self.streams.get(&from)
            && stream.token == Some(token)
        {
            // Our answer was lost; the stream continues.
            self.answer(from, length, &accepted);
            return;
        }
        if self.lingering.get(&from).is_some_and(|lingering| lingering.token == token) {
            self.counters.late += 1;
            return;
        }
        // A cookie opens one stream: a copy of an old Open begins nothing.
        if self.used.contains_key(&token) {
            self.counters.late += 1;
            return;
        }
        // The address speaks for itself again: its former stream is over. Not too often, or each would leave a result.
        if let Some((_, stream)) = self.streams.get(&from) {
            if now - stream.opened() < SHORTEST_STREAM {
                self.counters.refused += 1;
                return;
            }
            self.close(from, Ended::Idle);
        }
        let too_fast = match (self.config.max_rate, request.rate_bps) {
            (Some(max), Some(asked)) => asked > max.as_bps(),
            (Some(_), None) => true,
            (None, _) => false,
        };
        self.used.retain(|_, forget_at| *forget_at > now);
        let refusal = if too_fast {
            Some(Refusal::Rate)
        } else if self.used.len() >= self.config.max_streams.saturating_mul(STREAMS_PER_SLOT) {
            Some(Refusal::Full)
        } else {
            self.full(from)
        };
        if let Some(why) = refusal {
            self.counters.refused += 1;
            self.answer(from, length, &Message::Refused { nonce, why });
            return;
        }
        self.used.insert(token, now + COOKIE_LIFE);
        let mut stream = Stream::requested(now, from, request, &self.config.clock);
        stream.token = Some(token);
        stream.next_report = now + self.config.report_interval;
        stream.begin_kernel_dropped(self.kernel_dropped);
        // The answer first: it counts against the Open message, not the stream's budget.
        self.answer(from, length, &accepted);
        self.insert(from, stream);
    }

    fn handle_ping(
        &mut self,
        now: Timestamp,
        token: StreamToken,
        (sent_ns, path): (u64, Option<PathEstimate>),
        inbound: &Inbound<'_>,
    ) {
        let Some(stream) = proven(&mut self.streams, inbound.from, token) else {
            self.counters.forged += 1;
            return;
        };
        stream.last_heard = stream.last_heard.max(now);
        stream.on_path(now, path);
        let pong = Message::Pong {
            token,
            ping_sent_ns: sent_ns,
            received_ns: inbound.at.as_nanos(),
            sent_ns: now.as_nanos(),
        };
        send_within_credit(&mut self.outbox, stream, &pong);
    }

    fn handle_finish(
        &mut self,
        now: Timestamp,
        (from, length): (SocketAddr, usize),
        token: StreamToken,
        figures: SenderFigures,
    ) {
        if let Some(lingering) = self.lingering.get_mut(&from).filter(|lingering| lingering.token == token) {
            lingering.credit = lingering.credit.saturating_add(length as u64);
            if lingering.report.len() as u64 <= lingering.credit {
                lingering.credit -= lingering.report.len() as u64;
                self.outbox.push_back(Transmit { to: from, bytes: lingering.report.clone() });
            }
            return;
        }
        let Some(stream) = proven(&mut self.streams, from, token) else {
            self.counters.forged += 1;
            return;
        };
        // If the path reorders, missing datagrams may still arrive; the sender asks again.
        let asked = *stream.finish_asked.get_or_insert(now);
        if stream.meter().sequence().received() < figures.packets && now - asked < OVERTAKEN {
            return;
        }
        if let Some((id, mut stream)) = self.streams.remove(&from) {
            stream.end(Ended::Finished, Some(figures));
            let report = Message::Report { token, report: Box::new(stream.report(self.cpu_ratio)) };
            send_within_credit(&mut self.outbox, &mut stream, &report);
            if self.lingering.len() < self.config.max_streams {
                let (report, credit) = (report.encode(0), stream.credit);
                self.lingering.insert(from, Lingering { token, report, credit, forget_at: now + LINGER });
            }
            self.events.push_back(ReceiverEvent::Closed(id, Box::new(stream)));
        }
    }

    fn close(&mut self, from: SocketAddr, why: Ended) {
        if let Some((id, mut stream)) = self.streams.remove(&from) {
            stream.end(why, None);
            self.events.push_back(ReceiverEvent::Closed(id, Box::new(stream)));
        }
    }

    /// Why no further stream from this address is accepted, if so.
    fn full(&self, from: SocketAddr) -> Option<Refusal> {
        let from_host = self.streams.keys().filter(|address| host(address.ip()) == host(from.ip())).count();
        if self.streams.len() >= self.config.max_streams {
            Some(Refusal::Full)
        } else if from_host >= self.config.max_streams_per_host {
            Some(Refusal::HostFull)
        } else {
            None
        }
    }

    fn insert(&mut self, from: SocketAddr, stream: Stream) {
        let id = StreamId(self.next_id);
        self.next_id += 1;
        self.streams.insert(from, (id, stream));
        self.events.push_back(ReceiverEvent::Opened(id));
    }

    /// Answers a single datagram, whose source address may be forged: never with more bytes than were
    /// received.
    fn answer(&mut self, to: SocketAddr, length: usize, message: &Message) {
        let bytes = message.encode(0);
        if length < OPENING_BYTES || bytes.len() > length {
            return;
        }
        // Bytes from a stream's own address are already in its budget.
        if let Some((_, stream)) = self.streams.get_mut(&to) {
            let Some(left) = stream.credit.checked_sub(bytes.len() as u64) else { return };
            stream.credit = left;
        }
        self.outbox.push_back(Transmit { to, bytes });
    }
}

/// What counts as one host: an IPv4 address, or an IPv6 prefix of 64 bits, of which one host may use every address (RFC 4291
/// §2.5.4).
fn host(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(mapped) => mapped.into(),
            None => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        },
    }
}

fn proven(
    streams: &mut BTreeMap<SocketAddr, (StreamId, Stream)>,
    from: SocketAddr,
    token: StreamToken,
) -> Option<&mut Stream> {
    streams.get_mut(&from).map(|(_, stream)| stream).filter(|stream| stream.token == Some(token))
}

fn send_report(outbox: &mut VecDeque<Transmit>, stream: &mut Stream, cpu_ratio: Option<f32>) {
    if let Some(token) = stream.token {
        let report = Box::new(stream.report(cpu_ratio));
        send_within_credit(outbox, stream, &Message::Report { token, report });
    }
}

/// Sends to a verified address what its byte budget permits.
fn send_within_credit(outbox: &mut VecDeque<Transmit>, stream: &mut Stream, message: &Message) {
    let bytes = message.encode(0);
    if bytes.len() <= MAX_MESSAGE_BYTES && bytes.len() as u64 <= stream.credit {
        stream.credit -= bytes.len() as u64;
        outbox.push_back(Transmit { to: stream.from(), bytes });
    }
}
