//! Control messages of the sending endpoint: opening, clock requests, reports, the end.

use std::collections::VecDeque;

use giusto_measure::{ClockEstimate, ClockEstimator, ClockSample, ErrorHistogram};
use giusto_units::{PeerTimestamp, TimeDelta, Timestamp};

use super::wire::{
    ClockIdentity, Cookie, FINISH_BYTES, LastReport, Message, OPENING_BYTES, PathEstimate, Refusal, Report,
    SenderFigures, StreamRequest, StreamToken, WireError,
};

/// Configuration of a [`Sender`].
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// The stream that will be sent.
    pub request: StreamRequest,
    /// Random number that identifies the request; use random bytes of the system.
    pub nonce: u64,
    /// Interval at which requests and the end are repeated. Default 200 ms.
    pub retry_interval: TimeDelta,
    /// Maximum time to wait for a receiver. Default 3 s.
    pub open_timeout: TimeDelta,
    /// Interval of clock requests. Default 250 ms.
    pub ping_interval: TimeDelta,
    /// Time without messages after which the receiver counts as lost. Default 3 s.
    pub silence_timeout: TimeDelta,
    /// Maximum time to wait for the final report. Default 2 s.
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

/// Control messages of the sending endpoint, without socket or clock. The measured datagrams themselves do
/// not pass through it.
///
/// Pass every received datagram to [`handle_datagram`](Self::handle_datagram), call
/// [`handle_timeout`](Self::handle_timeout) at the time of [`next_timeout`](Self::next_timeout), and send the
/// datagrams of [`poll_transmit`](Self::poll_transmit).
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

    /// The measured relation of the two calendar clocks.
    pub fn clock_estimate(&self) -> Option<ClockEstimate> {
        Some(self.config.request.clock.calendar(self.peer_clock.as_ref()?, self.clocks.estimate()?))
    }

    /// The round-trip times of all clock requests.
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

    /// Handles a received datagram; `at` is its arrival time.
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
            (Message::Refused { nonce, why }, State::Opening(_)) if nonce == self.config.nonce => {
                self.end(Err(SenderError::Refused(why)));
            }
            (
                Message::Pong { token, ping_sent_ns, received_ns, sent_ns },
                State::Running(ours) | State::Finishing(ours),
            ) if token == ours && self.pings.contains(&ping_sent_ns) => {
                self.pings.retain(|sent_ns| *sent_ns != ping_sent_ns);
                self.on_receiver_message(now);
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
                self.on_receiver_message(now);
                self.handle_report(report);
            }
            _ => {}
        }
    }

    /// Handles a "port unreachable" message of the host.
    ///
    /// While opening, this ends the session. A running stream tolerates it for a short time, because a router
    /// may be wrong.
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

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called; `None` after the end.
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

    /// The next datagram for the receiver. A clock request contains `now` as its send time.
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
        }
    }

    fn opening(&self) -> bool {
        matches!(self.state, State::Greeting | State::Opening(_))
    }

    fn on_receiver_message(&mut self, now: Timestamp) {
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
