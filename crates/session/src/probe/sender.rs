//! Control messages of the sending endpoint: opening, clock requests, reports, the end.

use std::collections::VecDeque;

use giusto_measure::{ClockEstimate, ClockEstimator, ClockSample, ErrorHistogram};
use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use super::{
    auth::{StreamKeys, opening_key},
    clock::LocalClock,
    wire::{
        self, ClockIdentity, Cookie, FINISH_BYTES, Kind, LastReport, Message, OPENING_BYTES, PathEstimate,
        Refusal, Report, SEAL_BYTES, Sealed, SenderFigures, StreamLimit, StreamRequest, StreamToken,
        WireError,
    },
};
use crate::{
    Session,
    keys::{KeyId, KeyRing, MacKey},
    path_mtu::{PathMtuFigures, PathMtuSearch},
};

giusto_units::defaults! {
    /// Configuration of a [`Sender`].
    #[derive(Debug, Clone)]
    pub struct SenderConfig {
        /// The stream that will be sent. Its clock is set from `clock`.
        pub request: StreamRequest = request,
        /// Our clock. Default: one that the receiver cannot compare with its own.
        pub clock: LocalClock = LocalClock::default(),
        /// Keys shared with the receiver: with them, only authenticated messages are sent and accepted. Default: none.
        pub keys: Option<KeyRing> = None,
        /// Random number that identifies the request; use random bytes of the system.
        pub nonce: u64 = nonce,
        /// Interval at which requests and the end are repeated. Default 200 ms.
        pub retry_interval: TimeDelta = TimeDelta::from_millis(200),
        /// Maximum time to wait for a receiver. Default 3 s.
        pub open_timeout: TimeDelta = TimeDelta::from_seconds(3),
        /// Interval of clock requests. Default 250 ms.
        pub ping_interval: TimeDelta = TimeDelta::from_millis(250),
        /// Time without messages after which the receiver counts as lost. Default 3 s.
        pub silence_timeout: TimeDelta = TimeDelta::from_seconds(3),
        /// Maximum time to wait for the final report. Default 2 s.
        pub finish_timeout: TimeDelta = TimeDelta::from_seconds(2),
        /// Finds the MTU of the path once the stream is accepted; the datagrams of the socket must not be fragmented. Default: none.
        pub path_mtu: Option<PathMtuSearch> = None,
    }
    /// The defaults, for one stream.
    pub fn new(request: StreamRequest, nonce: u64);
}

/// Error that ends a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SenderError {
    /// No answer.
    #[error("no giusto receiver answered within {}", .0)]
    NoAnswer(TimeDelta),
    /// The host reports that no program listens at the port.
    #[error("no program listens at the port (the host answered \"port unreachable\")")]
    PortUnreachable,
    /// The receiver rejected the stream.
    #[error("the receiver rejected the stream: {0}")]
    Refused(Refusal),
    /// The receiver proved no common key; its unauthenticated answer is enclosed.
    #[error("the receiver did not prove that it has the same key; its unauthenticated answer: {0}")]
    Unauthenticated(Refusal),
    /// The receiver ended the stream because of a limit.
    #[error("the receiver ended the stream: {0}")]
    Limit(StreamLimit),
    /// The receiver answered before, but no longer does.
    #[error("the receiver has disappeared: no message from it for {:.1}", .0)]
    ReceiverLost(TimeDelta),
    /// The receiver was stopped.
    #[error("the receiver was stopped")]
    ReceiverStopped,
    /// The receiver uses another version.
    #[error("the receiver uses {0}")]
    Wire(WireError),
}

/// An event of a sender.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SenderEvent {
    /// The stream may begin; each datagram must contain this token.
    Accepted(StreamToken),
    /// The receiver's measurements so far.
    Report(Box<Report>),
    /// The session has ended, with or without an error.
    Ended(Result<(), SenderError>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Opening(Cookie),
    Running(StreamToken),
    Finishing(StreamToken),
    Over,
}

/// The authentication of a sender's messages.
#[derive(Debug)]
struct Seal {
    ring: KeyRing,
    /// Keys that may be tried if the receiver does not have this one.
    untried: Vec<KeyId>,
    opening: MacKey,
    /// Once the receiver's cookie is known.
    stream: Option<StreamKeys>,
}

impl Seal {
    fn new(ring: KeyRing) -> Self {
        let first = ring.signing();
        let opening = opening_key(&ring, first).expect("a ring holds the key that it signs with");
        let untried = ring.ids().filter(|id| *id != first).collect();
        Self { opening, ring, untried, stream: None }
    }

    fn open(&mut self, datagram: &[u8]) -> Result<Message, WireError> {
        if wire::kind(datagram)? != Kind::SealedControl {
            return Err(WireError::Unauthenticated);
        }
        let sealed = Sealed::parse(datagram)?;
        let accepted = match &mut self.stream {
            Some(keys) => keys.admits_to_sender(&sealed),
            None => sealed.verify(&self.opening),
        };
        if accepted { sealed.message() } else { Err(WireError::Unauthenticated) }
    }

    /// Selects a key that was not tried yet, as needed while keys are replaced; false if there is none.
    fn try_another(&mut self) -> bool {
        let next = self.untried.pop().and_then(|id| opening_key(&self.ring, id));
        next.map(|key| self.opening = key).is_some()
    }
}

/// Control messages of the sending endpoint, without socket or clock. The measured datagrams themselves do
/// not pass through it.
///
/// It is driven as every [`Session`].
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    state: State,
    began: Timestamp,
    last_heard: Timestamp,
    next_timeout: Timestamp,
    figures: SenderFigures,
    clocks: ClockEstimator,
    peer_clock: Option<ClockIdentity>,
    latest_report: Option<u32>,
    refused_since: Option<Timestamp>,
    /// This end has another address, and has not heard the receiver since.
    has_moved: bool,
    outbox: VecDeque<Vec<u8>>,
    ping_due: bool,
    seal: Option<Seal>,
    /// The error if no authenticated answer comes: set by an unauthenticated one.
    hint: Option<SenderError>,
    /// The send times of the latest pings that have not been answered.
    pings: VecDeque<u64>,
    path_mtu: Option<PathMtuSearch>,
    /// The send times and the sizes of the latest probes that have not been answered.
    probes: VecDeque<(u64, u64)>,
    events: VecDeque<SenderEvent>,
}

impl Session for Sender {
    fn handle_datagram(&mut self, now: Timestamp, datagram: &[u8], at: Timestamp) {
        let Some(message) = self.read(now, datagram) else { return };
        match (message, self.state) {
            (Message::Challenge { nonce, cookie }, State::Greeting) if nonce == self.config.nonce => {
                self.state = State::Opening(cookie);
                if let Some(seal) = &mut self.seal {
                    seal.stream = StreamKeys::derive(&seal.ring, seal.opening.id(), nonce, &cookie);
                }
                self.on_receiver_message(now);
                self.next_timeout = now;
                self.handle_timeout(now);
            }
            (Message::Accepted { nonce, token, clock }, State::Opening(_)) if nonce == self.config.nonce => {
                self.state = State::Running(token);
                self.peer_clock = Some(clock);
                self.on_receiver_message(now);
                self.next_timeout = now;
                self.events.push_back(SenderEvent::Accepted(token));
            }
            (Message::Refused { nonce, why }, State::Greeting | State::Opening(_))
                if nonce == self.config.nonce =>
            {
                self.end(Err(SenderError::Refused(why)));
            }
            (
                Message::Pong { token, ping_sent_ns, received_ns, sent_ns },
                State::Running(ours) | State::Finishing(ours),
            ) if token == ours && self.pings.contains(&ping_sent_ns) => {
                self.pings.retain(|sent_ns| *sent_ns != ping_sent_ns);
                self.on_receiver_message(now);
                if let Some(search) = &mut self.path_mtu {
                    search.on_rtt(at.saturating_since(Timestamp::from_nanos(ping_sent_ns)));
                }
                self.clocks.on_sample(&ClockSample {
                    client_sent: Timestamp::from_nanos(ping_sent_ns),
                    server_received: PeerTimestamp::from_nanos(received_ns),
                    server_sent: PeerTimestamp::from_nanos(sent_ns),
                    client_received: at,
                });
            }
            (Message::Pong { token, ping_sent_ns, .. }, State::Running(ours)) if token == ours => {
                self.handle_probe_answer(now, ping_sent_ns);
            }
            (Message::PathProbe { token, cookie }, State::Running(ours) | State::Finishing(ours))
                if token == ours =>
            {
                self.on_receiver_message(now);
                let proof = self.encode(&Message::PathProof { token, cookie }, 0);
                self.outbox.push_back(proof);
            }
            (Message::Report { token, report }, State::Running(ours) | State::Finishing(ours))
                if token == ours =>
            {
                self.on_receiver_message(now);
                self.handle_report(report);
            }
            _ => {}
        }
    }

    /// It ends the session only if it is repeated for a second without a message of the receiver: one may just be starting, a router may
    /// be wrong, and anybody who knows the ports can forge it.
    fn handle_unreachable(&mut self, now: Timestamp, _: u64) {
        const FORGIVEN: TimeDelta = TimeDelta::from_seconds(1);
        let since = *self.refused_since.get_or_insert(now);
        // A receiver whose socket is connected to our former address refuses us until it has found the new one.
        if now - since < FORGIVEN || self.has_moved {
            return;
        }
        match self.state {
            State::Greeting | State::Opening(_) => self.end(Err(SenderError::PortUnreachable)),
            State::Running(_) | State::Finishing(_) => {
                self.end(Err(SenderError::ReceiverLost(now.saturating_since(self.last_heard))));
            }
            State::Over => {}
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if let Some(search) = self.path_mtu.as_mut().filter(|_| matches!(self.state, State::Running(_))) {
            search.handle_timeout(now);
        }
        if now < self.next_timeout {
            return;
        }
        match self.state {
            State::Greeting | State::Opening(_) if now - self.began >= self.config.open_timeout => {
                let why = self.hint.take().unwrap_or(SenderError::NoAnswer(self.config.open_timeout));
                self.end(Err(why));
            }
            State::Greeting => self.say(now, &Message::Hello { nonce: self.config.nonce }, OPENING_BYTES),
            State::Opening(cookie) => {
                let clock = self.config.clock.identity_in(self.config.nonce, &cookie);
                let request = StreamRequest { clock, ..self.config.request.clone() };
                self.say(now, &Message::Open { nonce: self.config.nonce, cookie, request }, OPENING_BYTES);
            }
            State::Running(_) if now - self.last_heard >= self.config.silence_timeout => {
                self.end(Err(SenderError::ReceiverLost(self.config.silence_timeout)));
            }
            State::Running(_) => {
                self.ping_due = true;
                self.next_timeout = now + self.config.ping_interval;
            }
            State::Finishing(_) if now - self.began >= self.config.finish_timeout => {
                self.end(Err(SenderError::ReceiverLost(now.saturating_since(self.last_heard))));
            }
            State::Finishing(token) => {
                let figures = self.figures.clone();
                self.say(now, &Message::Finish { token, figures }, FINISH_BYTES);
            }
            State::Over => {}
        }
    }

    /// A clock request contains `now` as its send time.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        if let Some(bytes) = self.outbox.pop_front() {
            return Some(bytes);
        }
        match self.state {
            State::Running(token) if std::mem::take(&mut self.ping_due) => {
                // As long as the answer, which carries three times.
                const PONG_BYTES: usize = 52;
                if self.pings.len() >= Self::MAX_PINGS {
                    self.pings.pop_front();
                }
                self.pings.push_back(now.as_nanos());
                let ping = Message::Ping { token, sent_ns: now.as_nanos(), path: self.path() };
                Some(self.encode(&ping, PONG_BYTES))
            }
            State::Running(token) => self.probe(now, token),
            _ => None,
        }
    }

    /// `None` after the end.
    fn poll_timeout(&self) -> Option<Timestamp> {
        let probe = self.path_mtu.as_ref().filter(|_| matches!(self.state, State::Running(_)));
        let next = probe.map_or(self.next_timeout, |search| self.next_timeout.min(search.poll_timeout()));
        (self.state != State::Over).then_some(next)
    }
}

impl Sender {
    /// Pings that may be answered still: 4 s of them by default.
    const MAX_PINGS: usize = 16;

    /// A conversation that begins now.
    pub fn new(now: Timestamp, config: SenderConfig) -> Self {
        let mut sender = Self {
            seal: config.keys.clone().map(Seal::new),
            hint: None,
            path_mtu: config.path_mtu.clone(),
            config,
            state: State::Greeting,
            began: now,
            last_heard: now,
            next_timeout: now,
            figures: SenderFigures::default(),
            clocks: ClockEstimator::new(),
            peer_clock: None,
            latest_report: None,
            refused_since: None,
            has_moved: false,
            outbox: VecDeque::new(),
            ping_due: false,
            pings: VecDeque::new(),
            probes: VecDeque::new(),
            events: VecDeque::new(),
        };
        sender.handle_timeout(now);
        sender
    }

    /// The measured relation of the two calendar clocks.
    pub fn clock_estimate(&self) -> Option<ClockEstimate> {
        Some(self.config.clock.identity().calendar(self.peer_clock.as_ref()?, self.clocks.estimate()?))
    }

    /// The round-trip times of all clock requests.
    pub fn rtts(&self) -> &ErrorHistogram {
        self.clocks.rtts()
    }

    /// Whether a receiver has answered; `None` while it may still answer.
    pub(super) fn is_greeted(&self) -> Option<bool> {
        match self.state {
            State::Greeting => None,
            State::Opening(_) | State::Running(_) | State::Finishing(_) => Some(true),
            State::Over => Some(self.events.iter().any(|event| {
                use SenderError::{NoAnswer, PortUnreachable};
                !matches!(event, SenderEvent::Ended(Err(NoAnswer(_) | PortUnreachable)))
            })),
        }
    }

    /// This end has another address now, which the receiver may not know.
    pub fn on_moved(&mut self) {
        self.has_moved = true;
    }

    /// How long the receiver has been silent.
    pub fn silence(&self, now: Timestamp) -> TimeDelta {
        now.saturating_since(self.last_heard)
    }

    /// What was found of the MTU of the path; `None` where it is not looked for.
    pub fn path_mtu(&self) -> Option<PathMtuFigures> {
        self.path_mtu.as_ref().map(PathMtuSearch::figures)
    }

    /// Handles a router's report of a smaller MTU: see [`PathMtuSearch::on_packet_too_big`].
    pub fn handle_packet_too_big(&mut self, now: Timestamp, mtu: u64) {
        if let Some(search) = &mut self.path_mtu {
            search.on_packet_too_big(now, mtu);
        }
    }

    /// A ping that is padded to the size in question.
    fn probe(&mut self, now: Timestamp, token: StreamToken) -> Option<Vec<u8>> {
        let size = self.path_mtu.as_mut()?.poll_probe(now)?;
        // A ping may have been sent at the same time.
        let latest = self.pings.back().copied();
        let sent_ns = if latest == Some(now.as_nanos()) { now.as_nanos() + 1 } else { now.as_nanos() };
        if self.probes.len() >= Self::MAX_PINGS {
            self.probes.pop_front();
        }
        self.probes.push_back((sent_ns, size));
        let seal = if self.seal.is_some() { SEAL_BYTES } else { 0 };
        let ping = Message::Ping { token, sent_ns, path: None };
        Some(self.encode(&ping, usize::try_from(size).unwrap_or(0).saturating_sub(seal)))
    }

    fn handle_probe_answer(&mut self, now: Timestamp, sent_ns: u64) {
        let Some(&(_, size)) = self.probes.iter().find(|(sent, _)| *sent == sent_ns) else { return };
        self.probes.retain(|(sent, _)| *sent != sent_ns);
        self.on_receiver_message(now);
        if let Some(search) = &mut self.path_mtu {
            search.on_rtt(now.saturating_since(Timestamp::from_nanos(sent_ns)));
            search.on_acknowledged(now, size);
        }
    }

    fn path(&self) -> Option<PathEstimate> {
        let rtt = self.clocks.rtts().quantiles()?.p50;
        Some(PathEstimate { clock: self.clocks.estimate()?, rtt })
    }

    /// The key that authenticates the measured datagrams; `None` without keys, or before the stream is accepted.
    pub fn data_key(&self) -> Option<&MacKey> {
        self.seal.as_ref()?.stream.as_ref().map(|keys| &keys.to_receiver)
    }

    /// The receiver's clock.
    pub fn peer_clock(&self) -> Option<&ClockIdentity> {
        self.peer_clock.as_ref()
    }

    /// All data has been sent: sends `figures` to the receiver, and waits for its final report.
    pub fn finish(&mut self, now: Timestamp, figures: SenderFigures) {
        match self.state {
            State::Running(token) => {
                self.state = State::Finishing(token);
                self.figures = figures;
                self.began = now;
                self.next_timeout = now;
                self.handle_timeout(now);
            }
            State::Greeting | State::Opening(_) => self.end(Ok(())),
            State::Finishing(_) | State::Over => {}
        }
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    fn handle_report(&mut self, report: Box<Report>) {
        // Reports may be reordered on the path.
        if self.latest_report.is_some_and(|latest| report.number <= latest) {
            return;
        }
        self.latest_report = Some(report.number);
        let last = report.last;
        self.events.push_back(SenderEvent::Report(report));
        match last {
            None => {}
            Some(LastReport::Finished) => self.end(Ok(())),
            Some(LastReport::ReceiverStopped) => self.end(Err(SenderError::ReceiverStopped)),
            Some(LastReport::Limit(limit)) => self.end(Err(SenderError::Limit(limit))),
        }
    }

    fn encode(&mut self, message: &Message, padded_to: usize) -> Vec<u8> {
        match &mut self.seal {
            None => message.encode(padded_to),
            Some(Seal { stream: Some(keys), .. }) => keys.seal_to_receiver(message, padded_to),
            Some(Seal { opening, .. }) => message.seal(padded_to, opening, 0),
        }
    }

    /// The message in a datagram, if it is accepted.
    fn read(&mut self, now: Timestamp, datagram: &[u8]) -> Option<Message> {
        let accepted = match &mut self.seal {
            None => Message::decode(datagram),
            Some(seal) => seal.open(datagram),
        };
        match accepted {
            Ok(message) => return Some(message),
            Err(error @ WireError::Version(_)) if self.opening() => {
                let error = SenderError::Wire(error);
                if self.seal.is_some() {
                    self.hint = Some(error);
                } else {
                    self.end(Err(error));
                }
            }
            Err(WireError::Unauthenticated) if self.opening() => {
                if let Ok(Message::Refused { nonce, why }) = Message::decode(datagram)
                    && nonce == self.config.nonce
                {
                    self.on_hint(now, why);
                }
            }
            Err(_) => {}
        }
        None
    }

    /// Handles an unauthenticated refusal: it may be forged, so it does not end the session.
    fn on_hint(&mut self, now: Timestamp, why: Refusal) {
        self.hint = Some(SenderError::Unauthenticated(why));
        if why == Refusal::Key
            && self.state == State::Greeting
            && self.seal.as_mut().is_some_and(Seal::try_another)
        {
            self.next_timeout = now;
            self.handle_timeout(now);
        }
    }

    pub(super) fn opening(&self) -> bool {
        matches!(self.state, State::Greeting | State::Opening(_))
    }

    fn on_receiver_message(&mut self, now: Timestamp) {
        self.last_heard = self.last_heard.max(now);
        (self.refused_since, self.has_moved) = (None, false);
    }

    fn say(&mut self, now: Timestamp, message: &Message, padded_to: usize) {
        let bytes = self.encode(message, padded_to);
        self.outbox.push_back(bytes);
        self.next_timeout = now + self.config.retry_interval;
    }

    fn end(&mut self, how: Result<(), SenderError>) {
        if self.state != State::Over {
            self.state = State::Over;
            self.outbox.clear();
            self.events.push_back(SenderEvent::Ended(how));
        }
    }
}
