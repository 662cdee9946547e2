//! Why a run could not begin, or not go on.

use std::{io, net::SocketAddr};

use giusto_net::{SocketError, driver::ReceiveError};
use giusto_session::{
    iperf3::ClientError,
    probe::{SenderError, wire::Refusal},
};
use rand::rngs::SysError;

use super::plan::StreamPlanError;

/// Why a run could not begin, or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The socket could not be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The socket failed while receiving.
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    /// The receiver refused the stream, or did not answer.
    #[error("{to}: {reason}{}", refusal_fix(reason))]
    Refused {
        /// The receiver's address.
        to: SocketAddr,
        /// Why the stream was not opened.
        reason: SenderError,
    },
    /// None of a host's addresses answers.
    #[error(
        "no {} answered at {}: start `{}` there, or check addresses, port and firewall",
        .far_end.0, listed(.addresses), .far_end.1
    )]
    NoneAnswers {
        /// What was looked for, and the command that starts it.
        far_end: (&'static str, &'static str),
        /// The addresses.
        addresses: Vec<SocketAddr>,
    },
    /// There is no control connection to an iperf3 server.
    #[error(
        "cannot connect to an iperf3 server at {} (TCP): {source}; is `iperf3 -s` running there?",
        listed(.to)
    )]
    Connect {
        /// The server's addresses.
        to: Vec<SocketAddr>,
        /// The system's error.
        source: io::Error,
    },
    /// There is no connection to a server of TCP load.
    #[error("cannot connect to {} (TCP): {source}; is `giusto recv --accept tcp` running there?", listed(.to))]
    ConnectTcp {
        /// The server's addresses.
        to: Vec<SocketAddr>,
        /// The system's error.
        source: io::Error,
    },
    /// The control connection failed, or the iperf3 server refused.
    #[error("{to}: {source}")]
    Control {
        /// The server's address.
        to: SocketAddr,
        /// Why.
        source: ClientError,
    },
    /// The iperf3 server does not answer datagrams.
    #[error(
        "{to}: the iperf3 server accepts the test, but does not answer on UDP port {}; is UDP blocked on the way?",
        .to.port()
    )]
    NoStream {
        /// The server's address.
        to: SocketAddr,
    },
    /// An iperf3 server cannot listen.
    #[error("cannot listen on {address} (TCP and UDP): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The datagrams vary in size or are no plain filler.
    #[error("iperf3 needs datagrams of one size, without RTP or voice: give one --size")]
    VaryingSize,
    /// The datagrams are longer than the path carries.
    #[error(
        "size: {payload} B do not fit the MTU of {mtu} B that was found on the path to {to}: use at most {most} B, or leave out \
         mtu-discovery"
    )]
    AboveFoundMtu {
        /// The receiver's address.
        to: SocketAddr,
        /// The payload of the plan, in bytes.
        payload: u64,
        /// The MTU of the path, in bytes.
        mtu: u64,
        /// The longest payload that fits, in bytes.
        most: u64,
    },
    /// The MTU of the path was not found.
    #[error(
        "{to}: no probe of the path's MTU was answered: use the same version of giusto at both ends, or leave out mtu-discovery"
    )]
    NoMtu {
        /// The receiver's address.
        to: SocketAddr,
    },
    /// There are keys, but no room for authentication in the datagrams.
    #[error("datagrams of Layout::Giusto carry no authentication: use Layout::Authenticated with keys")]
    Layout,
    /// What a stream in the reverse direction should be like was not said, or cannot be.
    #[error("the stream that was asked for cannot be sent: it needs one payload size that holds its header")]
    Unplanned,
    /// The run was interrupted before it began.
    #[error("interrupted before the first datagram")]
    Interrupted,
    /// The system gave no random numbers.
    #[error("cannot read random numbers from the system: {0}")]
    Random(SysError),
    /// The plan cannot be resolved.
    #[error(transparent)]
    Plan(#[from] StreamPlanError),
    /// The system gave no thread for sending or receiving, or it panicked: a defect of giusto.
    #[error("the {0} thread failed: please report this, unless the system limits threads (`ulimit -u`)")]
    Thread(&'static str),
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
}

/// What to do where a stream was not opened.
fn refusal_fix(reason: &SenderError) -> String {
    let fix = match reason {
        SenderError::NoAnswer(_) | SenderError::PortUnreachable => {
            "start `giusto recv` there, or check address, port and firewall; for other receivers, `giusto send` has \
             --protocol iperf3, --protocol stamp and --one-way"
        }
        SenderError::Refused(Refusal::Full | Refusal::HostFull | Refusal::Reverse) => "try again later",
        SenderError::Refused(Refusal::Rate) => "lower the rate",
        // The others name it.
        SenderError::Refused(_) | SenderError::Unauthenticated(_) => return String::new(),
        SenderError::Wire(_) => "use the same version of giusto at both ends",
        _ => "is `giusto recv` still running there?",
    };
    format!(": {fix}")
}
