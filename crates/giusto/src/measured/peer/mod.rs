//! Peers: other programs, measured by the same kernel timestamps and the same meter as giusto's own streams.
//!
//! The peer's client sends through a [`StampingRelay`](giusto_net::emulate::StampingRelay) to the peer's server. The kernel
//! stamps each datagram when it reaches the relay, as it stamps giusto's own datagrams at giusto's receiver; the sequence
//! number comes from the peer's own header. So the figures of both mean the same.

mod iperf3;
mod process;
mod report;
mod tally;

use std::{io, path::PathBuf};

use giusto_measure::{ErrorHistogram, StreamSummary};
use giusto_net::emulate::{RelayError, RelayReport};
use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::measured::{
    plan::ResolvedPlan,
    result::{Quantiles, RunResult, SystemGranted},
};

pub use iperf3::Iperf3;
pub use report::PeerReport;

/// The stream that a peer is asked to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerRun {
    /// The rate of the UDP payload; `None` for as fast as it can.
    pub rate: Option<DataRate>,
    /// The UDP payload of each datagram: 16 to 65 507 bytes for iperf3.
    pub size: DataSize,
    /// How long it sends. iperf3 takes whole seconds: a part of one counts as one.
    pub duration: TimeDelta,
}

/// A measured run of a peer.
#[derive(Debug)]
pub struct PeerMeasurement {
    /// The peer's name, such as `iperf3 3.12`.
    pub name: String,
    /// The stream as it left the peer's client. Losses at its server are not included.
    pub summary: StreamSummary,
    /// The peer's own report; `None` where the run was interrupted.
    pub report: Option<PeerReport>,
    /// What the relay forwarded.
    pub relay: RelayReport,
    /// How long the peer was asked to send, in whole seconds.
    pub duration: TimeDelta,
    /// How late this machine woke a sleeping thread meanwhile.
    pub wake_latency: ErrorHistogram,
}

impl PeerMeasurement {
    /// The result of the run: the stream by giusto's meter, and from the peer's report what only the peer can know.
    pub fn result(&self, plan: &ResolvedPlan) -> RunResult {
        let report = self.report.unwrap_or_default();
        let mut result = RunResult {
            strategy: "peer".to_owned(),
            peer: Some(self.name.clone()),
            rate_bps: plan.rate().map(DataRate::as_bps),
            size_bytes: Some(plan.size().as_bytes()),
            layer: Some(plan.plan().layer.to_string()),
            sent_packets: report.sent_packets,
            tx_rate_bps: report.sent_rate_bps,
            sender_cpu_ratio: report.sender_cpu_ratio,
            receiver_cpu_ratio: report.receiver_cpu_ratio,
            duration_s: Some(self.duration.as_seconds()),
            ended: self.report.is_none().then(|| "interrupted".to_owned()),
            ..RunResult::default()
        };
        result.add_received(&self.summary);
        let wake_latency_us = self.wake_latency.quantiles().map(|late| Quantiles::micros(Some(&late)));
        result.system = Some(SystemGranted { wake_latency_us, ..SystemGranted::default() });
        result.doubts = result.find_doubts();
        result
    }
}

/// Why a peer could not be measured. Each text is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// iperf3 is not on the path.
    #[error(
        "iperf3 is not installed: install it with `apt install iperf3`, `dnf install iperf3` or `brew install iperf3`, \
         or name the program with --against-path FILE"
    )]
    NotInstalled,
    /// The program cannot be run.
    #[error("cannot run {}: {source}; --against-path must name the iperf3 program", program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The program is not iperf3.
    #[error("{} is not iperf3: it answered --version with {answer:?}", program.display())]
    NotIperf3 {
        /// The program.
        program: PathBuf,
        /// The first line of its answer.
        answer: String,
    },
    /// The peer cannot send datagrams of this size.
    #[error("iperf3: the payload must be 16 B to 65507 B, found {size}")]
    Size {
        /// The requested size.
        size: DataSize,
    },
    /// The rate is 0, which iperf3 takes as unlimited.
    #[error("iperf3: the rate must be above 0 bit/s, or max")]
    Rate,
    /// The relay could not begin.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// One of the peer's processes failed.
    #[error("{name} failed as {role}: {reason}")]
    Failed {
        /// The peer's name.
        name: String,
        /// `client` or `server`.
        role: &'static str,
        /// Its error message, in one line.
        reason: String,
    },
    /// The peer ran on long after its time, and was ended.
    #[error("{name} did not end within {limit} and was killed")]
    TimedOut {
        /// The peer's name.
        name: String,
        /// The time that it had.
        limit: TimeDelta,
    },
    /// The peer sent no datagram of its stream.
    #[error("{name} ended without sending a datagram of {size}")]
    NothingArrived {
        /// The peer's name.
        name: String,
        /// The requested size.
        size: DataSize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_one_line_and_name_the_fix() {
        let name = || "iperf3 3.12".to_owned();
        let source = io::ErrorKind::NotFound.into();
        for (error, parts) in [
            (PeerError::NotInstalled, &["apt install iperf3", "dnf", "brew", "--against-path FILE"][..]),
            (PeerError::Program { program: "/no/iperf3".into(), source }, &["cannot run /no/iperf3: "]),
            (PeerError::Size { size: DataSize::from_bytes(8) }, &["must be 16 B to 65507 B, found 8 B"]),
            (PeerError::Rate, &["above 0 bit/s, or max"]),
            (PeerError::TimedOut { name: name(), limit: TimeDelta::from_seconds(11) }, &["within 11 s"]),
            (PeerError::NothingArrived { name: name(), size: DataSize::from_bytes(200) }, &["200 B"]),
        ] {
            let text = error.to_string();
            assert!(!text.contains('\n') && !text.contains("  "), "{text}");
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        }
    }
}
