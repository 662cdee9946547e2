//! The server's end of the control connection.

use std::collections::VecDeque;

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    control::Control,
    error::ErrorCode,
    messages::{MAX_OUTCOME_BYTES, MAX_PARAMETERS_BYTES, MessageError, Outcome, Parameters},
    reader::{Reader, with_length},
    wire::State,
};

/// How long a client may take for its cookie and parameters, for all its streams, and for its results.
const STEP: TimeDelta = TimeDelta::from_seconds(10);
/// How long a test may take beyond its announced time: 10 steps of 4 s (`create_server_timers` in `iperf_server_api.c`).
const GRACE: TimeDelta = TimeDelta::from_seconds(40);
/// How long iperf3 waits for a datagram (`DEFAULT_NO_MSG_RCVD_TIMEOUT` in `iperf_api.h`).
const LONGEST_IDLE: TimeDelta = TimeDelta::from_seconds(120);
/// The longest test where none is announced (`MAX_TIME` in `iperf.h`).
const LONGEST: TimeDelta = TimeDelta::from_seconds(86_400);
/// The longest test in which the server sends: as long as a stream of `giusto send --reverse`.
const LONGEST_SENT: TimeDelta = TimeDelta::from_seconds(3600);
/// The first DSCP at which no test is sent: from here on it is network control (CS6, RFC 2474 §4.2.2.2).
const NETWORK_CONTROL: u8 = 48;
/// How long a test may exceed the limit of its duration: its client ends it, a little after its announced time.
const ENDING: TimeDelta = TimeDelta::from_seconds(2);

giusto_units::defaults! {
    /// The limits of a server.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct ServerConfig {
        /// The maximum number of streams, of both directions together. Default: 256, as iperf3.
        pub max_streams: usize = 256,
        /// The maximum rate of all streams together; tests of unlimited rate are refused where there is one. Default: none.
        pub max_rate: Option<DataRate> = None,
        /// The maximum rate of all streams that the server sends; tests that ask for more are refused. Default: 100 Mbit/s.
        pub max_sent_rate: DataRate = DataRate::from_bps(100_000_000),
        /// The maximum duration of a test with its omitted time; longer ones are refused, and those without an announced end, or beyond
        /// it, are ended. Default: none, so a day, as in iperf3; an hour where the server sends.
        pub max_duration: Option<TimeDelta> = None,
        /// A test in which the client sends ends after this time, and after that of three datagrams, without one; after 120 s in any
        /// case, as in iperf3. Default: 5 s.
        pub idle_timeout: TimeDelta = TimeDelta::from_seconds(5),
    }
}

/// Why a test failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The client gave up.
    #[error("the client ended the test early")]
    Abandoned,
    /// The client closed the connection.
    #[error("the client closed the control connection {0}")]
    Closed(&'static str),
    /// The client did not go on.
    #[error("nothing came from the client for {} s {phase}", .waited.as_seconds())]
    Silent {
        /// What it was to do.
        phase: &'static str,
        /// The time waited.
        waited: TimeDelta,
    },
    /// The test took too long.
    #[error("the test lasted longer than announced")]
    Expired,
    /// Too long a test.
    #[error("refused: a test of {} s, at most {} s are allowed", asked.as_seconds(), limit.as_seconds())]
    Duration {
        /// The announced duration with the omitted time.
        asked: TimeDelta,
        /// The limit.
        limit: TimeDelta,
    },
    /// The test reached the limit of its duration.
    #[error("the test was ended after {} s, the maximum duration", limit.as_seconds())]
    Limit {
        /// The limit.
        limit: TimeDelta,
    },
    /// A message cannot be used.
    #[error("refused: {0}")]
    Message(#[from] MessageError),
    /// A state that a client cannot send at this point.
    #[error("the client sent the byte {byte} {phase}: it does not use the protocol of iperf3")]
    Unexpected {
        /// The byte.
        byte: u8,
        /// When it came.
        phase: &'static str,
    },
    /// Too many streams.
    #[error("refused: {streams} streams, at most {limit} are allowed")]
    Streams {
        /// The number asked for.
        streams: usize,
        /// The limit.
        limit: usize,
    },
    /// The DSCP of what the server would send.
    #[error("refused: DSCP {dscp} is network control: nothing is sent at 48 or above")]
    Class {
        /// The DSCP.
        dscp: u8,
    },
    /// Too fast.
    #[error("refused: {}, at most {limit} is allowed (--max-rate)", rate_text(*.rate))]
    Rate {
        /// The rate of all streams, or of those sent; `None`: unlimited.
        rate: Option<DataRate>,
        /// The limit.
        limit: DataRate,
    },
    /// The test was ended on this side.
    #[error("{0}")]
    Ended(String),
}

fn rate_text(rate: Option<DataRate>) -> String {
    rate.map_or_else(|| "an unlimited rate".to_owned(), |rate| rate.to_string())
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// Open the port of the streams and call [`Server::on_ready`]; answer their greetings, then call
    /// [`Server::on_streams_open`].
    OpenStreams(Parameters),
    /// The test runs: send what the parameters say.
    Running,
    /// The client has ended the test: stop sending.
    Ending,
    /// The client's figures; call [`Server::set_outcome`] with ours.
    Outcome(Outcome),
    /// The test is over. No further event follows.
    Ended(Result<(), ServerError>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Cookie,
    Parameters,
    Streams,
    Running,
    Outcome,
    OurOutcome,
    Display,
    Over,
}

impl Phase {
    const fn describe(self) -> &'static str {
        match self {
            Self::Cookie => "before its cookie",
            Self::Parameters => "before its parameters",
            Self::Streams => "while its streams were opened",
            Self::Running => "during the test",
            Self::Outcome | Self::OurOutcome => "before its results",
            Self::Display | Self::Over => "after its results",
        }
    }
}

giusto_units::defaults! {
    /// The server's end of one control connection. Calls in any order are safe.
    #[derive(Debug)]
    pub struct Server {
        config: ServerConfig = config,
        phase: Phase = Phase::Cookie,
        /// The client has been asked to open the streams.
        ready: bool = false,
        parameters: Option<Parameters> = None,
        deadline: Option<Timestamp> = Some(now + STEP),
        /// The end of a test, whatever arrives, and its error.
        expires: Option<(Timestamp, ServerError)> = None,
        reader: Reader = Reader::default(),
        transmits: VecDeque<Vec<u8>> = VecDeque::new(),
        events: VecDeque<ServerEvent> = VecDeque::new(),
    }
    /// A server on a connection that has just opened.
    pub fn new(now: Timestamp, config: ServerConfig);
}

impl Control for Server {
    fn handle_bytes(&mut self, now: Timestamp, bytes: &[u8]) {
        // What came before our results is no part of the protocol, and is not kept.
        if matches!(self.phase, Phase::Over | Phase::OurOutcome) {
            return;
        }
        self.reader.push(bytes);
        while !matches!(self.phase, Phase::Over | Phase::OurOutcome) && self.step(now) {}
        if self.phase == Phase::Over {
            self.reader.clear();
        }
    }

    fn handle_close(&mut self) {
        match self.phase {
            Phase::Over => {}
            Phase::Display => self.end(Ok(())),
            phase => self.end(Err(ServerError::Closed(phase.describe()))),
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.phase == Phase::Over {
            return;
        }
        let passed = |deadline: Option<Timestamp>| deadline.is_some_and(|deadline| now >= deadline);
        if let Some((_, error)) = self.expires.take_if(|(end, _)| now >= *end) {
            self.refuse(ErrorCode::EXPIRED, error);
        } else if passed(self.deadline) {
            let phase = self.phase.describe();
            match self.phase {
                Phase::Display => self.end(Ok(())),
                Phase::Running => {
                    let waited = self.idle_timeout();
                    self.refuse(ErrorCode::NO_DATA, ServerError::Silent { phase, waited });
                }
                Phase::Streams => {
                    self.refuse(ErrorCode::STREAM_ACCEPT, ServerError::Silent { phase, waited: STEP });
                }
                _ => self.refuse(ErrorCode::MESSAGE, ServerError::Silent { phase, waited: STEP }),
            }
        }
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.transmits.pop_front()
    }
}

impl Server {
    /// The answer of a busy server to a further client.
    pub const fn busy() -> [u8; 1] {
        [State::AccessDenied.byte()]
    }

    /// Handles one part of the byte stream. Returns whether there was a complete one.
    fn step(&mut self, now: Timestamp) -> bool {
        match self.phase {
            Phase::Cookie => {
                if !self.reader.cookie() {
                    return false;
                }
                self.send_state(State::ParamExchange);
                // One time limit for both: it does not start again.
                self.phase = Phase::Parameters;
            }
            Phase::Parameters => {
                let parameters = self
                    .reader
                    .json(MAX_PARAMETERS_BYTES)
                    .and_then(|value| value.as_ref().map(Parameters::from_json).transpose());
                match parameters {
                    Ok(None) => return false,
                    Ok(Some(parameters)) => self.on_parameters(now, parameters),
                    Err(error) => self.refuse(error.code(), error.into()),
                }
            }
            Phase::Outcome => {
                let outcome = self
                    .reader
                    .json(MAX_OUTCOME_BYTES)
                    .and_then(|value| value.as_ref().map(Outcome::from_json).transpose());
                match outcome {
                    Ok(None) => return false,
                    Ok(Some(outcome)) => {
                        self.events.push_back(ServerEvent::Outcome(outcome));
                        self.enter(now, Phase::OurOutcome);
                    }
                    Err(error) => self.refuse(ErrorCode::RESULTS, error.into()),
                }
            }
            Phase::Streams | Phase::Running | Phase::Display => {
                let Some(byte) = self.reader.byte() else { return false };
                self.on_state(now, byte);
            }
            Phase::OurOutcome | Phase::Over => return false,
        }
        true
    }

    fn on_parameters(&mut self, now: Timestamp, parameters: Parameters) {
        let streams = parameters.all_streams();
        if streams > self.config.max_streams {
            let limit = self.config.max_streams;
            return self.refuse(ErrorCode::STREAMS, ServerError::Streams { streams, limit });
        }
        let sent_streams = if parameters.client_receives() { parameters.streams } else { 0 };
        let sent_limit = (sent_streams > 0).then_some(self.config.max_sent_rate);
        for (streams, limit) in [(streams, self.config.max_rate), (sent_streams, sent_limit)] {
            let rate = parameters.rate.map(|rate| rate.as_bps().saturating_mul(streams as u64));
            let rate = rate.map(DataRate::from_bps);
            if let Some(limit) = limit
                && rate.is_none_or(|rate| rate > limit)
            {
                return self.refuse(ErrorCode::RATE, ServerError::Rate { rate, limit });
            }
        }
        let dscp = parameters.traffic_class >> 2;
        if parameters.client_receives() && dscp >= NETWORK_CONTROL {
            return self.refuse(ErrorCode::CLASS, ServerError::Class { dscp });
        }
        let asked = parameters.duration + parameters.omit;
        if let Some(limit) = self.max_duration(&parameters).filter(|limit| asked > *limit) {
            return self.refuse(ErrorCode::TOO_LONG, ServerError::Duration { asked, limit });
        }
        self.events.push_back(ServerEvent::OpenStreams(parameters.clone()));
        self.parameters = Some(parameters);
        self.enter(now, Phase::Streams);
    }

    fn max_duration(&self, parameters: &Parameters) -> Option<TimeDelta> {
        let sent = parameters.client_receives().then_some(LONGEST_SENT);
        [self.config.max_duration, sent].into_iter().flatten().min()
    }

    fn on_state(&mut self, now: Timestamp, byte: u8) {
        match (State::from_byte(byte), self.phase) {
            (Some(State::ClientTerminate), _) => self.end(Err(ServerError::Abandoned)),
            (Some(State::TestEnd), Phase::Running) => {
                self.events.push_back(ServerEvent::Ending);
                self.send_state(State::ExchangeResults);
                self.expires = None;
                self.enter(now, Phase::Outcome);
            }
            (Some(State::IperfDone), Phase::Display) => self.end(Ok(())),
            _ => {
                let error = ServerError::Unexpected { byte, phase: self.phase.describe() };
                self.refuse(ErrorCode::MESSAGE, error);
            }
        }
    }

    /// The port of the streams is open: the client may greet it.
    pub fn on_ready(&mut self) {
        if self.phase == Phase::Streams && !std::mem::replace(&mut self.ready, true) {
            self.send_state(State::CreateStreams);
        }
    }

    /// All streams have been greeted: the test begins.
    pub fn on_streams_open(&mut self, now: Timestamp) {
        if self.phase != Phase::Streams || !self.ready {
            return;
        }
        let Some(parameters) = &self.parameters else { return };
        let announced = parameters.duration + parameters.omit;
        let endless = parameters.duration == TimeDelta::ZERO;
        let longest = if endless { LONGEST } else { announced + GRACE };
        self.expires = Some(match self.max_duration(parameters) {
            Some(limit) if limit + ENDING < longest => (now + limit + ENDING, ServerError::Limit { limit }),
            _ => (now + longest, ServerError::Expired),
        });
        self.send_state(State::TestStart);
        self.send_state(State::TestRunning);
        self.phase = Phase::Running;
        self.events.push_back(ServerEvent::Running);
        self.deadline = None;
        self.on_data(now);
    }

    /// A datagram of the client arrived.
    pub fn on_data(&mut self, now: Timestamp) {
        if self.phase == Phase::Running && self.parameters.as_ref().is_some_and(Parameters::client_sends) {
            self.deadline = Some(now + self.idle_timeout());
        }
    }

    /// Datagrams of a slow stream may be further apart than the configured time.
    fn idle_timeout(&self) -> TimeDelta {
        let gap = self.parameters.as_ref().and_then(|asked| {
            asked.rate.map(|rate| asked.size.as_bytes() as f64 * 8.0 / rate.as_bps().max(1) as f64)
        });
        let three = TimeDelta::from_seconds_f64(gap.unwrap_or(0.0) * 3.0).min(LONGEST_IDLE);
        self.config.idle_timeout.max(three)
    }

    /// Our figures, after those of the client.
    pub fn set_outcome(&mut self, now: Timestamp, outcome: &Outcome) {
        if self.phase != Phase::OurOutcome {
            return;
        }
        let receives = self.parameters.as_ref().is_some_and(|parameters| !parameters.client_receives());
        self.transmits.push_back(with_length(&outcome.to_json(receives)));
        self.send_state(State::DisplayResults);
        self.enter(now, Phase::Display);
        // What came meanwhile.
        self.handle_bytes(now, &[]);
    }

    /// Ends the test because of an error on this side, which is sent to the client as `code`.
    pub fn fail(&mut self, code: ErrorCode, why: String) {
        if self.phase != Phase::Over {
            self.refuse(code, ServerError::Ended(why));
        }
    }

    /// Ends the test because the server stops; the client is informed.
    pub fn stop(&mut self) {
        if self.phase != Phase::Over {
            self.send_state(State::ServerTerminate);
            self.end(Err(ServerError::Ended("the server was stopped".to_owned())));
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    fn send_state(&mut self, state: State) {
        self.transmits.push_back(vec![state.byte()]);
    }

    fn enter(&mut self, now: Timestamp, phase: Phase) {
        self.phase = phase;
        self.deadline = Some(now + STEP);
    }

    /// Ends with an error, which is sent to the client: the state, the number, and no system error.
    fn refuse(&mut self, code: ErrorCode, error: ServerError) {
        let mut bytes = vec![State::ServerError.byte()];
        bytes.extend_from_slice(&code.0.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        self.transmits.push_back(bytes);
        self.end(Err(error));
    }

    fn end(&mut self, how: Result<(), ServerError>) {
        self.phase = Phase::Over;
        (self.deadline, self.expires) = (None, None);
        self.events.push_back(ServerEvent::Ended(how));
    }
}
