//! Peers: other people's senders, measured by the same kernel timestamps and the same meter as our own streams.
//!
//! A peer's client sends through a [`StampingRelay`](giusto_net::emulate::StampingRelay) to the peer's server. Each datagram is
//! stamped by the kernel when it reaches the relay, as one of ours is when it reaches our receiver, and what the peer wrote
//! into it gives its sequence number. So the figures of both answer the same question.

mod iperf3;
mod process;
mod report;
mod tally;

use std::{io, path::PathBuf};

use giusto_measure::{StreamMeter, StreamSummary};
use giusto_net::emulate::{RelayError, RelayReport};
use giusto_units::{DataRate, DataSize, TimeDelta};
use serde::Serialize;

pub use iperf3::Iperf3;
pub use tally::{CounterWidth, UdpHeader};

/// What a peer is asked to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerRun {
    /// The rate of the UDP payload; `None` for as fast as it can.
    pub rate: Option<DataRate>,
    /// The UDP payload of each datagram: 16 to 65 507 bytes for iperf3.
    pub size: DataSize,
    /// How long it sends. iperf3 knows whole seconds only: a part of one counts as one.
    pub duration: TimeDelta,
}

/// What was measured of a peer.
#[derive(Debug)]
pub struct PeerMeasurement {
    /// Who was measured, such as `iperf3 3.12`.
    pub name: String,
    /// The stream as our meter found it, where the peer's sender had it leave: what its server loses is not in here.
    pub summary: StreamSummary,
    /// Datagrams that the peer says it sent.
    pub sent_packets: Option<u64>,
    /// Processor time of the peer's sending process over elapsed time, as it says itself; 1 is one core.
    pub sender_cpu_ratio: Option<f64>,
    /// Processor time of the peer's receiving process over elapsed time, as it says itself; 1 is one core.
    pub receiver_cpu_ratio: Option<f64>,
    /// What the peer reports of the same run; `None` where the run was interrupted.
    pub own_report: Option<OwnReport>,
    /// What the relay passed on.
    pub relay: RelayReport,
    /// How long the peer was asked to send, in the whole seconds that it knows.
    pub duration: TimeDelta,
    /// The run was ended early.
    pub interrupted: bool,
    meter: StreamMeter,
}

impl PeerMeasurement {
    /// The meter itself: its series and histograms are for plots.
    pub fn meter(&self) -> &StreamMeter {
        &self.meter
    }
}

/// What a peer says of its own run, by its own stamps in user space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OwnReport {
    /// Datagrams sent.
    pub sent_packets: Option<u64>,
    /// Datagrams lost on the way to its server, by its rules. The relay is part of that way.
    pub lost_packets: Option<u64>,
    /// Its jitter in milliseconds: RFC 1889, appendix A.8.
    pub jitter_ms: Option<f64>,
    /// The rate that its sender says it had, in bit/s of payload.
    pub sent_rate_bps: Option<f64>,
    /// The rate at which its server received, in bit/s of payload.
    pub received_rate_bps: Option<f64>,
}

/// Why a peer could not be measured. Each text is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// There is no iperf3 among the programs of this machine.
    #[error(
        "iperf3 is not installed: get it with `apt install iperf3`, `dnf install iperf3` or `brew install iperf3`, or \
         name a program with --against-path FILE"
    )]
    NotInstalled,
    /// The program named cannot be run.
    #[error("cannot run {}: {source}; --against-path wants the iperf3 program itself", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The program named is something else.
    #[error("{} is not iperf3: asked for its --version it said {answer:?}", program.display())]
    NotIperf3 {
        /// The program.
        program: PathBuf,
        /// The first line of its answer.
        answer: String,
    },
    /// The size does not fit the peer.
    #[error("iperf3 cannot send datagrams of {size}: use a --size of 16 B to 65507 B")]
    Size {
        /// The size asked for.
        size: DataSize,
    },
    /// A rate of nothing, which iperf3 takes as unlimited.
    #[error("iperf3 cannot send at 0 bit/s: use a --rate above 0, or max")]
    Rate,
    /// The relay between client and server could not begin.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// One of its processes failed.
    #[error("{name} failed as {role}: {reason}")]
    Failed {
        /// Who was measured.
        name: String,
        /// `client` or `server`.
        role: &'static str,
        /// What it said, in one line.
        reason: String,
    },
    /// It went on for long after its time; it was ended.
    #[error("{name} did not end by itself within {limit} and was ended")]
    TimedOut {
        /// Who was measured.
        name: String,
        /// How long it had.
        limit: TimeDelta,
    },
    /// It ran, but nothing was seen of its stream.
    #[error("{name} ended without a datagram of {size} on the way to its server")]
    NothingArrived {
        /// Who was measured.
        name: String,
        /// The size asked for.
        size: DataSize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line_and_say_what_to_do() {
        let name = || "iperf3 3.12".to_owned();
        let texts = [
            PeerError::NotInstalled,
            PeerError::Program { program: "/no/iperf3".into(), source: io::ErrorKind::NotFound.into() },
            PeerError::NotIperf3 { program: "/bin/true".into(), answer: String::new() },
            PeerError::Size { size: DataSize::from_bytes(8) },
            PeerError::Rate,
            PeerError::Failed { name: name(), role: "client", reason: "refused".to_owned() },
            PeerError::TimedOut { name: name(), limit: TimeDelta::from_seconds(11) },
            PeerError::NothingArrived { name: name(), size: DataSize::from_bytes(200) },
        ]
        .map(|error| error.to_string());
        assert!(texts.iter().all(|text| !text.contains('\n') && !text.contains("  ")), "{texts:#?}");
        for (text, part) in texts.iter().zip([
            "apt install iperf3",
            "cannot run /no/iperf3: ",
            "/bin/true is not iperf3",
            "datagrams of 8 B: use a --size of 16 B",
            "--rate above 0, or max",
            "iperf3 3.12 failed as client: refused",
            "within 11 s",
            "200 B",
        ]) {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            texts[0].contains("dnf") && texts[0].contains("brew") && texts[0].contains("--against-path FILE")
        );
    }
}
