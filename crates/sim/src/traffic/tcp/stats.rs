//! What a sender counts.

use giusto_units::{TimeDelta, Timestamp};
use serde::Serialize;

/// A completed transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Transfer {
    /// Size in data bytes.
    pub bytes: u64,
    /// Start: transmission of the SYN, or write to an open connection.
    pub start: Timestamp,
    /// End: acknowledgement of the last byte.
    pub end: Timestamp,
}

/// State and counters of a [`Sender`](super::Sender). Counters include all its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TcpStats {
    /// Congestion window in bytes.
    pub window: u64,
    /// Slow start threshold in bytes; `None` before the first congestion event.
    pub threshold: Option<u64>,
    /// Estimated number of bytes in flight (RFC 6675 §4).
    pub pipe: u64,
    /// Smoothed RTT; `None` before the first sample.
    pub smoothed_rtt: Option<TimeDelta>,
    /// Retransmission timeout.
    pub rto: TimeDelta,
    /// Data bytes acknowledged.
    pub acknowledged: u64,
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Data segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts of data.
    pub timeouts: u64,
    /// Timeouts that F-RTO found to be spurious.
    pub spurious_timeouts: u64,
    /// Tail loss probes sent.
    pub probes: u64,
    /// Retransmission timeouts of SYNs.
    pub syn_timeouts: u64,
    /// Fast recoveries entered.
    pub fast_recoveries: u64,
    /// Reductions of the window by loss, timeout or ECN mark.
    pub reductions: u64,
    /// Reductions of the window by ECN mark.
    pub ecn_reductions: u64,
    /// Connections opened or attempted.
    pub connections: u64,
    /// Transfers completed.
    pub transfers: u64,
    /// Total duration of the completed transfers.
    pub transfer_time: TimeDelta,
    /// The last completed transfer.
    pub last_transfer: Option<Transfer>,
}
