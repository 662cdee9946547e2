//! One receiver and its senders over a simulated network, on a virtual clock.

pub(crate) use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
};

pub(crate) use giusto_congestion::{
    Algorithm, Controller, Decision, Feedback, FeedbackKind, Fixed, Limits, PacerSettings, QueueState,
    SentPacket, Target,
};
pub(crate) use giusto_measure::{DelayBasis, DelaySummary};
pub(crate) use giusto_pace::media::PacerConfig;
pub(crate) use giusto_rtp::{
    RtpHeader, RtxHeader, TransportSequence, h264, rtcp::*, voice::*, vp8::FrameTag,
};
pub(crate) use giusto_session::{
    Session,
    keys::*,
    media::*,
    probe::{payload::*, voice::*, wire::*, *},
    video::*,
};
pub(crate) use giusto_units::*;
pub(crate) use proptest::prelude::*;

pub(crate) const RATE_BPS: u64 = 1_600_000;
pub(crate) const SIZE: usize = 200;

pub(crate) fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// A time of the clocks of media.
pub(crate) fn ms(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

pub(crate) fn request() -> StreamRequest {
    StreamRequest {
        rate_bps: Some(RATE_BPS),
        size: Some(DataSize::from_bytes(SIZE as u64)),
        packets: Some(1_000_000),
        ..StreamRequest::nothing()
    }
}

pub(crate) fn receiver_config() -> ReceiverConfig {
    ReceiverConfig::new([3; 32], LocalClock::default())
}

pub(crate) fn plain(nonce: u64) -> SenderConfig {
    SenderConfig::new(request(), nonce)
}

/// A ring of these keys, each an id and the byte that it consists of.
pub(crate) fn ring_of(keys: &[(u32, u8)]) -> KeyRing {
    let line = |(id, byte): &(u32, u8)| format!("{id} {}\n", format!("{byte:02x}").repeat(32));
    KeyRing::parse(&keys.iter().map(line).collect::<String>()).unwrap()
}

pub(crate) fn ring() -> KeyRing {
    ring_of(&[(1, 7)])
}

pub(crate) fn with_key(nonce: u64) -> SenderConfig {
    SenderConfig { keys: Some(ring()), ..plain(nonce) }
}

/// A datagram of which nothing is known but its bytes.
pub(crate) fn inbound(from: SocketAddr, bytes: &[u8], at: Timestamp) -> Inbound<'_> {
    Inbound { from, bytes, segment: bytes.len(), at, tos: None, kernel_dropped: None, truncated: false }
}

/// One receiver and its senders; every datagram takes 1 ms.
pub(crate) struct Net {
    pub(crate) now: Timestamp,
    pub(crate) receiver: Receiver,
    /// Bytes received minus bytes sent, per address.
    pub(crate) budget: BTreeMap<SocketAddr, i64>,
    /// Indices of the datagrams to drop, counted over both directions.
    pub(crate) lost: Vec<usize>,
    pub(crate) carried: usize,
    pub(crate) closed: Vec<Stream>,
    /// Streams of the receiver's own that it was asked for, and the addresses between which they moved.
    pub(crate) asked: Vec<SocketAddr>,
    pub(crate) moved: Vec<(SocketAddr, SocketAddr)>,
    /// All datagrams that arrived at the receiver, and all that it sent.
    pub(crate) inward: Vec<(SocketAddr, Vec<u8>)>,
    pub(crate) outward: Vec<(SocketAddr, Vec<u8>)>,
}

impl Net {
    pub(crate) fn new(config: ReceiverConfig) -> Self {
        Self {
            now: Timestamp::from_nanos(1_000_000_000),
            receiver: Receiver::new(config),
            budget: BTreeMap::new(),
            lost: Vec::new(),
            carried: 0,
            closed: Vec::new(),
            asked: Vec::new(),
            moved: Vec::new(),
            inward: Vec::new(),
            outward: Vec::new(),
        }
    }

    fn arrives(&mut self) -> bool {
        self.carried += 1;
        !self.lost.contains(&self.carried)
    }

    pub(crate) fn deliver(&mut self, from: SocketAddr, bytes: &[u8]) {
        if self.arrives() {
            *self.budget.entry(from).or_default() += bytes.len() as i64;
            self.receiver.handle(self.now, &inbound(from, bytes, self.now));
            self.inward.push((from, bytes.to_vec()));
        }
        self.collect();
    }

    pub(crate) fn deliver_all(&mut self, from: SocketAddr, datagrams: &[Vec<u8>]) {
        for bytes in datagrams {
            self.deliver(from, bytes);
        }
    }

    pub(crate) fn collect(&mut self) {
        while let Some(event) = self.receiver.poll_event() {
            match event {
                ReceiverEvent::Closed(_, stream) => self.closed.push(*stream),
                ReceiverEvent::Reverse(asked) => self.asked.push(asked.to),
                ReceiverEvent::ReverseMoved { from, to } => self.moved.push((from, to)),
                _ => {}
            }
        }
    }

    /// Datagrams of the receiver, with their destinations.
    pub(crate) fn answers(&mut self) -> VecDeque<(SocketAddr, Vec<u8>)> {
        let mut answers = VecDeque::new();
        while let Some(transmit) = self.receiver.poll_transmit() {
            *self.budget.entry(transmit.to).or_default() -= transmit.bytes.len() as i64;
            self.outward.push((transmit.to, transmit.bytes.clone()));
            if self.arrives() {
                answers.push_back((transmit.to, transmit.bytes));
            }
        }
        answers
    }

    /// Runs `sender` and the receiver for `time`. Returns the sender's events.
    pub(crate) fn converse(
        &mut self,
        from: SocketAddr,
        sender: &mut Sender,
        time: TimeDelta,
    ) -> Vec<SenderEvent> {
        let end = self.now + time;
        let mut events = Vec::new();
        while self.now < end {
            if sender.poll_timeout().is_some_and(|at| at <= self.now) {
                sender.handle_timeout(self.now);
                assert!(sender.poll_timeout().is_none_or(|at| at > self.now), "the sender asks for it again");
            }
            while let Some(bytes) = sender.poll_transmit(self.now) {
                self.deliver(from, &bytes);
            }
            if self.receiver.next_timeout().is_some_and(|at| at <= self.now) {
                self.receiver.handle_timeout(self.now);
                let next = self.receiver.next_timeout();
                assert!(next.is_none_or(|at| at > self.now), "the receiver asks for it again");
                self.collect();
            }
            for (to, bytes) in self.answers() {
                if to == from {
                    sender.handle_datagram(self.now, &bytes, self.now);
                }
            }
            events.extend(std::iter::from_fn(|| sender.poll_event()));
            self.now += TimeDelta::from_millis(1);
        }
        events
    }

    /// Opens a stream and returns its token.
    pub(crate) fn open(&mut self, from: SocketAddr) -> (Sender, StreamToken) {
        self.open_with(from, plain(u64::from(from.port())))
    }

    /// Opens a stream as configured and returns its token.
    pub(crate) fn open_with(&mut self, from: SocketAddr, config: SenderConfig) -> (Sender, StreamToken) {
        let mut sender = Sender::new(self.now, config);
        let events = self.converse(from, &mut sender, TimeDelta::from_millis(20));
        let Some(SenderEvent::Accepted(token)) = events.first() else { panic!("not accepted: {events:?}") };
        (sender, *token)
    }

    /// Tries to open a stream; the answer within `millis`.
    pub(crate) fn try_open(
        &mut self,
        from: SocketAddr,
        config: SenderConfig,
        millis: i64,
    ) -> Result<StreamToken, SenderError> {
        let mut sender = Sender::new(self.now, config);
        match &self.converse(from, &mut sender, TimeDelta::from_millis(millis))[..] {
            [SenderEvent::Accepted(token), ..] => Ok(*token),
            [SenderEvent::Ended(Err(error))] => Err(error.clone()),
            other => panic!("{other:?}"),
        }
    }

    /// The only stream.
    pub(crate) fn stream(&self) -> &Stream {
        let streams: Vec<_> = self.receiver.streams().collect();
        let [(_, stream)] = streams[..] else { panic!("{} streams", streams.len()) };
        stream
    }

    /// Lets time pass at the receiver alone.
    pub(crate) fn wait(&mut self, time: TimeDelta) {
        let end = self.now + time;
        while let Some(at) = self.receiver.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.receiver.handle_timeout(self.now);
            self.collect();
        }
        self.now = end;
    }

    /// Sends `sequences` at the nominal rate.
    pub(crate) fn send(
        &mut self,
        from: SocketAddr,
        token: StreamToken,
        sequences: impl IntoIterator<Item = u64>,
    ) {
        for sequence in sequences {
            self.deliver(from, &datagram(token, sequence, self.now.as_nanos()));
            self.now += TimeDelta::from_millis(1);
        }
    }
}

/// A receiver with one stream: its address, sender and token.
pub(crate) fn opened(
    receiver: ReceiverConfig,
    sender: SenderConfig,
) -> (Net, SocketAddr, Sender, StreamToken) {
    let (mut net, from) = (Net::new(receiver), address(5000));
    let (sender, token) = net.open_with(from, sender);
    (net, from, sender, token)
}

pub(crate) fn datagram(token: StreamToken, sequence: u64, due: u64) -> Vec<u8> {
    let mut datagram = vec![0; SIZE];
    assert!(DataHeader { token, sequence, scheduled_ns: due, sent_ns: due + 500 }.write(&mut datagram));
    datagram
}

/// An authenticated datagram that leaves now.
pub(crate) fn sealed(net: &Net, sender: &Sender, token: StreamToken, sequence: u64) -> Vec<u8> {
    let mut datagram = vec![0; SIZE];
    let now = net.now.as_nanos();
    let header = DataHeader { token, sequence, scheduled_ns: now, sent_ns: now };
    assert!(header.write_sealed(&mut datagram, sender.data_key().unwrap()));
    datagram
}

/// 20 ms of G.711.
pub(crate) fn rtp(ssrc: u32, sequence: u16) -> Vec<u8> {
    let timestamp = u32::from(sequence) * 160;
    let mut bytes = vec![0; 172];
    RtpHeader { sequence, timestamp, ssrc, ..RtpHeader::default() }.write(&mut bytes).unwrap();
    bytes
}

pub(crate) fn figures(packets: u64) -> SenderFigures {
    SenderFigures { packets, bytes: packets * SIZE as u64, ..SenderFigures::default() }
}
