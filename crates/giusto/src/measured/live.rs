//! What a measured session of any protocol shows while it lasts, and leaves at its end.

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use giusto_units::TimeDelta;

use crate::measured::{
    RunError,
    interval::Interval,
    result::{LiveFigures, RunResult, StampResult},
};

/// The sending side of a protocol: a session that can be held with any far end.
pub trait Client {
    /// Measures with a far end until the session is over or `stop` is set, and reports its address: of several, that which answers
    /// first (RFC 8305).
    ///
    /// `on_live` is called several times a second from the calling thread, and at the end with the last interval.
    ///
    /// # Errors
    ///
    /// [`RunError`] where the session could not begin. Later errors are part of the outcome.
    fn run(
        &self,
        addresses: &[SocketAddr],
        stop: &AtomicBool,
        on_live: &mut dyn FnMut(&Live),
    ) -> Result<(SocketAddr, Outcome), RunError>;
}

/// The state of a session in progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Live {
    /// Datagrams handed to the system, of all streams; `None` where this end does not send.
    pub sent_packets: Option<u64>,
    /// What is known of their arrival.
    pub arrived: Option<Arrived>,
    /// An interval that has ended.
    pub interval: Option<Interval>,
}

/// What has arrived so far.
#[derive(Debug, Clone, Copy)]
pub enum Arrived {
    /// Streams, at this end or as the far end reports.
    Streams(LiveFigures),
    /// Answers to STAMP packets, and the median round-trip time.
    Answers(u64, Option<TimeDelta>),
}

/// What a session has measured.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The results.
    pub results: Results,
    /// Why the session ended early or is worth nothing, if so.
    pub failure: Option<String>,
}

/// The results of a session.
#[derive(Debug, Clone)]
pub enum Results {
    /// Streams: those that this end sent, then those that it received.
    Streams(Vec<RunResult>),
    /// A STAMP session.
    Stamp(Box<StampResult>),
}

impl Outcome {
    /// The outcome of streams; `failure` ended them early.
    pub(super) fn of_streams(results: Vec<RunResult>, failure: Option<String>) -> Self {
        let part = if results.is_empty() { "" } else { "; the figures cover the time until then" };
        Self { results: Results::Streams(results), failure: failure.map(|failure| failure + part) }
    }
}

impl Results {
    /// Why the figures cannot be trusted; none where they can.
    pub fn doubts(&self) -> impl Iterator<Item = &String> {
        let (streams, session) = match self {
            Self::Streams(runs) => (&runs[..], None),
            Self::Stamp(result) => (&[][..], Some(&result.doubts)),
        };
        streams.iter().flat_map(|run| &run.doubts).chain(session.into_iter().flatten())
    }
}
