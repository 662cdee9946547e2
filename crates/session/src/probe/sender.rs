//! The sending endpoint's conversation: opening, clock questions, reports, the end.

use std::collections::VecDeque;

use giusto_measure::{ClockEstimate, ClockEstimator, ClockSample, ErrorHistogram};
use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use super::wire::{
    ClockIdentity, Cookie, FINISH_BYTES, LastReport, Message, OPENING_BYTES, PathEstimate, Refusal, Report,
    SenderFigures, StreamRequest, StreamToken, WireError,
};

/// How a [`Sender`] behaves.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// The stream that will be sent.
    pub request: StreamRequest,
    /// Unlike any other's; draw it from the system.
    pub nonce: u64,
    /// How often a question or the end is said again. Default 200 ms.
    pub retry_interval: TimeDelta,
    /// How long to wait for a receiver. Default 3 s.
    pub open_timeout: TimeDelta,
    /// Time between clock questions. Default 250 ms.
    pub ping_interval: TimeDelta,
    /// A receiver that is silent for so long is gone. Default 3 s.
    pub silence_timeout: TimeDelta,
    /// How long to wait for the final report. Default 2 s.
    pub finish_timeout: TimeDelta,
}

impl SenderConfig {
    /// The defaults, for one stream.
    pub fn new(request: StreamRequest, nonce: u64) -> Self {
        Self {
            request,
            nonce,
            retry_interval: TimeDelta::from_millis(200),
            open_timeout: TimeDelta::from_seconds(3),
            ping_interval: TimeDelta::from_millis(250),
            silence_timeout: TimeDelta::from_seconds(3),
            finish_timeout: TimeDelta::from_seconds(2),
        }
    }
}

/// Why a stream cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SenderError {
    /// Nobody answered.
    #[error("no giusto receiver answered within {}", .0)]
    NoAnswer(TimeDelta),
    /// The host says that nobody listens at the port.
    #[error("nobody listens there (the host answered \"port unreachable\")")]
    PortUnreachable,
    /// The receiver will not.
    #[error("the receiver refused the stream: {0}")]
    Refused(Refusal),
    /// The receiver was there, and is silent now.
    #[error("the receiver has disappeared: nothing heard from it for {}", .0)]
    ReceiverLost(TimeDelta),
    /// The receiver was stopped.
    #[error("the receiver was stopped")]
    ReceiverStopped,
    /// The receiver speaks another version.
    #[error("the receiver speaks {0}")]
    Wire(WireError),
}

/// An event of a sender.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SenderEvent {
    /// The stream may begin; each datagram carries this token.
    Accepted(StreamToken),
    /// The far end's figures so far.
    Report(Box<Report>),
    /// The conversation is over, well or not.
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

/// The sending endpoint's conversation, without socket or clock. The measured datagrams themselves do not pass through it.
///
/// Hand in every datagram that comes back ([`handle_datagram`](Self::handle_datagram)), call
/// [`handle_timeout`](Self::handle_timeout) when [`next_timeout`](Self::next_timeout) says so, and send what
/// [`poll_transmit`](Self::poll_transmit) gives.
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
    outbox: VecDeque<Vec<u8>>,
    ping_due: bool,
    /// The send times of the latest pings that have not been answered.
    pings: VecDeque<u64>,
    events: VecDeque<SenderEvent>,
}

impl Sender {
    /// Pings that may be answered still: 4 s of them by default.
    const MAX_PINGS: usize = 16;

    /// A conversation that begins now.
    pub fn new(now: Timestamp, config: SenderConfig) -> Self {
        let mut sender = Self {
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
            outbox: VecDeque::new(),
            ping_due: false,
            pings: VecDeque::new(),
            events: VecDeque::new(),
        };
        sender.handle_timeout(now);
        sender
    }

    /// The relation of the two calendar clocks, as measured.
    pub fn clock_estimate(&self) -> Option<ClockEstimate> {
        Some(self.config.request.clock.calendar(self.peer_clock.as_ref()?, self.clocks.estimate()?))
    }

    /// The round trips of all clock questions.
    pub fn round_trips(&self) -> &ErrorHistogram {
        self.clocks.round_trips()
    }

    fn path(&self) -> Option<PathEstimate> {
        let round_trip = self.clocks.round_trips().quantiles()?.p50;
        Some(PathEstimate { clock: self.clocks.estimate()?, round_trip })
    }

    /// The receiver's clock.
    pub fn peer_clock(&self) -> Option<&ClockIdentity> {
        self.peer_clock.as_ref()
    }

    /// Takes a datagram that came back; `at` is when it arrived.
    pub fn handle_datagram(&mut self, now: Timestamp, datagram: &[u8], at: Timestamp) {
        let message = match Message::decode(datagram) {
            Ok(message) => message,
            Err(error @ WireError::Version(_)) if self.opening() => {
                return self.end(Err(SenderError::Wire(error)));
            }
            Err(_) => return,
        };
        match (message, self.state) {
            (Message::Challenge { nonce, cookie }, State::Greeting) if nonce == self.config.nonce => {
                self.state = State::Opening(cookie);
                self.heard(now);
                self.next_timeout = now;
                self.handle_timeout(now);
            }
            (Message::Accepted { nonce, token, clock }, State::Opening(_)) if nonce == self.config.nonce => {
                self.state = State::Running(token);
                self.peer_clock = Some(clock);
                self.heard(now);
                self.next_timeout = now;
                self.events.push_back(SenderEvent::Accepted(token));
            }
            (Message::Refused { nonce, why }, State::Opening(_)) if nonce == self.config.nonce => {
                self.end(Err(SenderError::Refused(why)));
            }
            (
                Message::Pong { token, ping_sent_ns, received_ns, sent_ns },
                State::Running(ours) | State::Finishing(ours),
            ) if token == ours && self.pings.contains(&ping_sent_ns) => {
                self.pings.retain(|sent_ns| *sent_ns != ping_sent_ns);
                self.heard(now);
                self.clocks.on_sample(&ClockSample {
                    client_sent: Timestamp::from_nanos(ping_sent_ns),
                    server_received: PeerTimestamp::from_nanos(received_ns),
                    server_sent: PeerTimestamp::from_nanos(sent_ns),
                    client_received: at,
                });
            }
            (Message::Report { token, report }, State::Running(ours) | State::Finishing(ours))
                if token == ours =>
            {
                self.heard(now);
                self.handle_report(report);
            }
            _ => {}
        }
    }

    /// The host answered that nobody listens at the port.
    ///
    /// While opening that is the end of it; a running stream forgives it for a moment, for a router may err.
    pub fn handle_unreachable(&mut self, now: Timestamp) {
        const FORGIVEN: TimeDelta = TimeDelta::from_millis(500);
        match self.state {
            State::Greeting | State::Opening(_) => self.end(Err(SenderError::PortUnreachable)),
            State::Running(_) | State::Finishing(_) => {
                let since = *self.refused_since.get_or_insert(now);
                if now - since >= FORGIVEN {
                    self.end(Err(SenderError::ReceiverLost(now.saturating_since(self.last_heard))));
                }
            }
            State::Over => {}
        }
    }

    /// All has been sent: `figures` go to the receiver, and its final report is awaited.
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

    /// The next moment at which [`handle_timeout`](Self::handle_timeout) has something to do; nothing once it is over.
    pub fn next_timeout(&self) -> Option<Timestamp> {
        (self.state != State::Over).then_some(self.next_timeout)
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if now < self.next_timeout {
            return;
        }
        match self.state {
            State::Greeting | State::Opening(_) if now - self.began >= self.config.open_timeout => {
                self.end(Err(SenderError::NoAnswer(self.config.open_timeout)));
            }
            State::Greeting => self.say(now, &Message::Hello { nonce: self.config.nonce }, OPENING_BYTES),
            State::Opening(cookie) => {
                let request = self.config.request.clone();
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

    /// The next datagram for the receiver. A clock question bears `now` as its send time.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Vec<u8>> {
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
                Some(ping.encode(PONG_BYTES))
            }
            _ => None,
        }
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.pop_front()
    }

    fn handle_report(&mut self, report: Box<Report>) {
        // Reports may overtake each other on the way.
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
        }
    }

    fn opening(&self) -> bool {
        matches!(self.state, State::Greeting | State::Opening(_))
    }

    fn heard(&mut self, now: Timestamp) {
        self.last_heard = self.last_heard.max(now);
        self.refused_since = None;
    }

    fn say(&mut self, now: Timestamp, message: &Message, padded_to: usize) {
        self.outbox.push_back(message.encode(padded_to));
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
