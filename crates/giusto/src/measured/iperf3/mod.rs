//! iperf3 at the far end: giusto as its client or its server, in UDP mode.

mod client;
mod figures;
mod server;

use std::{io, net::SocketAddr};

use giusto_net::SocketError;
use giusto_session::iperf3::ClientError;
use rand::rngs::SysError;

use super::{interval::IntervalFigures, plan::StreamPlanError, result::LiveFigures};

pub use client::{ClientRun, Target, run};
pub use server::{Iperf3Server, Iperf3ServerConfig, Notice};

/// Reads of a control connection in one turn, so that a far end that sends without end blocks neither timeouts nor Ctrl-C.
const READS: usize = 16;

/// Why a run with iperf3 could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Iperf3Error {
    /// There is no control connection.
    #[error("cannot connect to an iperf3 server at {to} (TCP): {source}; is `iperf3 -s` running there?")]
    Connect {
        /// The server's address.
        to: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The control connection failed, or the server refused.
    #[error("{to}: {source}")]
    Control {
        /// The server's address.
        to: SocketAddr,
        /// Why.
        source: ClientError,
    },
    /// The server does not answer datagrams.
    #[error(
        "{to}: the iperf3 server accepts the test, but does not answer on UDP port {}; is UDP blocked on the way?",
        .to.port()
    )]
    NoStream {
        /// The server's address.
        to: SocketAddr,
    },
    /// The server cannot listen.
    #[error("cannot listen on {address} (TCP and UDP): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A UDP socket could not be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The plan cannot be resolved.
    #[error(transparent)]
    Plan(#[from] StreamPlanError),
    /// The datagrams vary in size or are no plain filler.
    #[error("iperf3 needs datagrams of one size, without RTP or voice: give one --size")]
    VaryingSize,
    /// It was interrupted before it began.
    #[error("interrupted before the first datagram")]
    Interrupted,
    /// The system gave no random numbers.
    #[error("cannot read random numbers from the system: {0}")]
    Random(SysError),
    /// The sending thread panicked: a defect of giusto.
    #[error("the sending thread failed; please report this")]
    Thread,
}

/// The state of a run in progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Iperf3Live {
    /// Datagrams handed to the system, of all streams; `None` where this end does not send.
    pub sent_packets: Option<u64>,
    /// What arrives at this end; `None` where it does not receive.
    pub received: Option<LiveFigures>,
    /// An interval that has ended. What it has as received has arrived at this end.
    pub interval: Option<IntervalFigures>,
}
