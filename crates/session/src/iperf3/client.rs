//! The client's end of the control connection.

use std::collections::VecDeque;

use giusto_units::{TimeDelta, Timestamp};

use super::{
    control::Control,
    error::ErrorCode,
    messages::{MAX_OUTCOME_BYTES, MessageError, Outcome, Parameters},
    reader::{Reader, with_length},
    wire::{State, cookie},
};

/// How long the server may take for each step. Another client's test must not delay it: a busy server refuses at once.
const STEP: TimeDelta = TimeDelta::from_seconds(10);

/// Why a test failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// It serves another client.
    #[error("the iperf3 server is busy with another test: try again later")]
    Busy,
    /// It was stopped.
    #[error("the iperf3 server was stopped: start it again")]
    Stopped,
    /// It reported an error.
    #[error("the iperf3 server reports: {code}{}", system_error(*.errno))]
    Server {
        /// The error.
        code: ErrorCode,
        /// The number of the server's system error; 0 if there is none.
        errno: i32,
    },
    /// It closed the connection.
    #[error("the iperf3 server closed the control connection {0}")]
    Closed(&'static str),
    /// It did not answer.
    #[error("the iperf3 server did not answer within {} s {phase}", .waited.as_seconds())]
    Silent {
        /// What it was to do.
        phase: &'static str,
        /// The time waited.
        waited: TimeDelta,
    },
    /// It sent something else than expected.
    #[error("not an iperf3 server: it sent the byte {byte} {phase}; check address and port")]
    Unexpected {
        /// The byte.
        byte: u8,
        /// When it came.
        phase: &'static str,
    },
    /// Its results cannot be used.
    #[error("the iperf3 server sent unusable results: {0}")]
    Results(#[from] MessageError),
}

fn system_error(errno: i32) -> String {
    if errno > 0 { format!(", system error {errno}") } else { String::new() }
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// The server waits for the streams: greet it from a port for each.
    CreateStreams,
    /// The test runs: send.
    Running,
    /// The server's figures.
    Outcome(Outcome),
    /// The test is over. No further event follows.
    Ended(Result<(), ClientError>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Cookie,
    Parameters,
    Streams,
    Running,
    Ending,
    Outcome,
    Display,
    /// The server's two error numbers are still to come.
    Failing(Option<i32>),
    Over,
}

impl Phase {
    const fn describe(self) -> &'static str {
        match self {
            Self::Cookie => "after the cookie",
            Self::Parameters => "after the parameters of the test",
            Self::Streams => "while the streams were opened",
            Self::Running => "during the test",
            Self::Ending | Self::Outcome => "before its results",
            Self::Display | Self::Failing(_) | Self::Over => "after its results",
        }
    }
}

/// The client's end of the control connection. Calls in any order are safe.
#[derive(Debug)]
pub struct Client {
    parameters: Parameters,
    phase: Phase,
    deadline: Option<Timestamp>,
    reader: Reader,
    transmits: VecDeque<Vec<u8>>,
    events: VecDeque<ClientEvent>,
    outcome: Outcome,
}

impl Control for Client {
    fn handle_bytes(&mut self, now: Timestamp, bytes: &[u8]) {
        if self.phase == Phase::Over {
            return;
        }
        self.reader.push(bytes);
        while self.phase != Phase::Over && self.step(now) {}
        if self.phase == Phase::Over {
            self.reader.clear();
        }
    }

    fn handle_close(&mut self) {
        match self.phase {
            Phase::Over => {}
            // Versions before 3.13 close after the first number where a password is missing.
            Phase::Failing(Some(code)) => {
                self.fail(ClientError::Server { code: ErrorCode(code), errno: 0 });
            }
            // The results have been exchanged.
            Phase::Display => self.end(Ok(())),
            phase => self.fail(ClientError::Closed(phase.describe())),
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            if let Phase::Failing(code) = self.phase {
                let code = ErrorCode(code.unwrap_or(0));
                self.fail(ClientError::Server { code, errno: 0 });
            } else {
                let phase = self.phase.describe();
                self.fail(ClientError::Silent { phase, waited: STEP });
            }
        }
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.transmits.pop_front()
    }
}

impl Client {
    /// A client on a connection that has just opened. `random`: for the cookie, by which the server recognises the client.
    pub fn new(now: Timestamp, parameters: Parameters, random: &[u8; 36]) -> Self {
        Self {
            parameters,
            phase: Phase::Cookie,
            deadline: Some(now + STEP),
            reader: Reader::default(),
            transmits: VecDeque::from([cookie(random).to_vec()]),
            events: VecDeque::new(),
            outcome: Outcome::default(),
        }
    }

    /// What the client asks for.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Handles one part of the byte stream. Returns whether there was a complete one.
    fn step(&mut self, now: Timestamp) -> bool {
        if let Phase::Failing(code) = self.phase {
            let Some(number) = self.reader.number() else { return false };
            match code {
                None => self.phase = Phase::Failing(Some(number)),
                Some(code) => self.fail(ClientError::Server { code: ErrorCode(code), errno: number }),
            }
            return true;
        }
        // A length begins with 0, and a failed server may send its state in place of it.
        if self.phase == Phase::Outcome && self.reader.first() == Some(0) {
            match self
                .reader
                .json(MAX_OUTCOME_BYTES)
                .and_then(|value| value.as_ref().map(Outcome::from_json).transpose())
            {
                Ok(None) => return false,
                Ok(Some(outcome)) => {
                    self.events.push_back(ClientEvent::Outcome(outcome));
                    self.enter(now, Phase::Display);
                }
                Err(error) => self.fail(error.into()),
            }
            return true;
        }
        let Some(byte) = self.reader.byte() else { return false };
        self.on_state(now, byte);
        true
    }

    fn on_state(&mut self, now: Timestamp, byte: u8) {
        match (State::from_byte(byte), self.phase) {
            (Some(State::AccessDenied), _) => self.fail(ClientError::Busy),
            (Some(State::ServerTerminate), _) => self.fail(ClientError::Stopped),
            (Some(State::ServerError), _) => self.enter(now, Phase::Failing(None)),
            (Some(State::ParamExchange), Phase::Cookie) => {
                self.transmits.push_back(with_length(&self.parameters.to_json()));
                self.enter(now, Phase::Parameters);
            }
            (Some(State::CreateStreams), Phase::Parameters) => {
                self.events.push_back(ClientEvent::CreateStreams);
                self.enter(now, Phase::Streams);
            }
            (Some(State::TestStart), Phase::Streams) => {}
            (Some(State::TestRunning), Phase::Streams) => {
                self.events.push_back(ClientEvent::Running);
                self.phase = Phase::Running;
                self.deadline = None;
            }
            (Some(State::ExchangeResults), Phase::Ending) => {
                let receives = !self.parameters.client_sends();
                self.transmits.push_back(with_length(&self.outcome.to_json(receives)));
                self.enter(now, Phase::Outcome);
            }
            (Some(State::DisplayResults), Phase::Display) => {
                self.transmits.push_back(vec![State::IperfDone.byte()]);
                self.end(Ok(()));
            }
            _ => self.fail(ClientError::Unexpected { byte, phase: self.phase.describe() }),
        }
    }

    /// Ends the test: nothing more is sent, and these are our figures.
    pub fn finish(&mut self, now: Timestamp, outcome: Outcome) {
        if self.phase == Phase::Running {
            self.outcome = outcome;
            self.transmits.push_back(vec![State::TestEnd.byte()]);
            self.enter(now, Phase::Ending);
        }
    }

    /// Abandons the test, before or while it runs; the server is informed. No event follows.
    pub fn abandon(&mut self) {
        if self.phase != Phase::Over {
            self.transmits.push_back(vec![State::ClientTerminate.byte()]);
            self.phase = Phase::Over;
            self.deadline = None;
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    fn enter(&mut self, now: Timestamp, phase: Phase) {
        self.phase = phase;
        self.deadline = Some(now + STEP);
    }

    fn fail(&mut self, error: ClientError) {
        self.end(Err(error));
    }

    fn end(&mut self, how: Result<(), ClientError>) {
        self.phase = Phase::Over;
        self.deadline = None;
        self.events.push_back(ClientEvent::Ended(how));
    }
}
