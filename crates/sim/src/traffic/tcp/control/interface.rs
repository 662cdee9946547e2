//! The interface of a congestion control.

use std::fmt;

use giusto_units::{TimeDelta, Timestamp};

/// Computes the congestion window. The sender performs loss recovery.
///
/// All sizes are in bytes of data.
pub trait CongestionControl: Send + fmt::Debug {
    /// Resets all state for a new connection.
    fn on_start(&mut self, start: ConnectionStart);

    /// Congestion window (`cwnd`), at least one segment.
    fn window(&self) -> u64;

    /// Slow start threshold (`ssthresh`); `u64::MAX` before the first congestion event, unless [`ConnectionStart`] set one.
    fn threshold(&self) -> u64;

    /// Processes an acknowledgement of new data outside fast recovery.
    fn on_ack(&mut self, now: Timestamp, ack: Acknowledgment);

    /// Processes a congestion event: a loss detected by duplicate acknowledgements, or an echoed mark. `flight` is the
    /// amount of outstanding data without the segments of limited transmit (RFC 5681 §3.2, step 2), at most the window.
    fn on_congestion(&mut self, now: Timestamp, flight: u64);

    /// Processes an expiry of the retransmission timer with `flight` bytes outstanding. `is_repeated` if it had already
    /// expired for the same segment.
    fn on_timeout(&mut self, now: Timestamp, flight: u64, is_repeated: bool);

    /// Restores the state before the last timeout that was not repeated, which was spurious (RFC 5682 §4, RFC 4015 §3).
    fn on_spurious_timeout(&mut self, now: Timestamp);

    /// Limits the window to `window` without changing the threshold: after an idle period (RFC 5681 §4.1), and at the end of
    /// a NewReno recovery (RFC 6582 §3.2, step 3).
    fn limit_window(&mut self, now: Timestamp, window: u64);
}

/// The initial state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionStart {
    /// Data bytes of a full segment (`SMSS`).
    pub segment: u64,
    /// Initial window (`IW`) in bytes.
    pub window: u64,
    /// Initial slow start threshold in bytes; `u64::MAX` if none.
    pub threshold: u64,
    /// Maximum increase per acknowledgement in slow start, in segments: `L` of RFC 3465 §2.2 and RFC 9406 §4.2.
    pub slow_start_limit: u32,
    /// Whether the first slow start uses `HyStart++` (RFC 9406).
    pub hystart: bool,
}

/// An acknowledgement of new data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acknowledgment {
    /// Number of newly acknowledged bytes.
    pub bytes: u64,
    /// Whether the congestion window, not the application or the receiver, limited the sender. Otherwise the window does not
    /// grow (RFC 8312 §5.8).
    pub window_limited: bool,
    /// Smoothed RTT.
    pub smoothed_rtt: TimeDelta,
    /// RTT measured by this acknowledgement, if any.
    pub rtt_sample: Option<TimeDelta>,
    /// First unacknowledged byte after this acknowledgement (`SND.UNA`).
    pub first_unacknowledged: u64,
    /// First byte that has not been sent (`SND.NXT`).
    pub next_sequence: u64,
}
