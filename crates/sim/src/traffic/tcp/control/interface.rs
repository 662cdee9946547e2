//! The interface of a congestion control.

use std::fmt;

use giusto_units::{DataRate, TimeDelta, Timestamp};

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

    /// Rate at which the sender transmits data bytes; `None`, the default: as fast as the window permits.
    fn pacing_rate(&self) -> Option<DataRate> {
        None
    }

    /// Whether [`Feedback::rate`] is needed. Default: no.
    fn needs_rate(&self) -> bool {
        false
    }

    /// Whether fast recovery uses the window of this control instead of proportional rate reduction. Default: no.
    fn controls_recovery(&self) -> bool {
        false
    }

    /// Processes any acknowledgement, before [`on_ack`](Self::on_ack). Default: nothing.
    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback) {
        let _ = (now, feedback);
    }

    /// Processes the loss of a transmission. Called only if [`needs_rate`](Self::needs_rate). Default: nothing.
    fn on_loss(&mut self, now: Timestamp, lost: Lost) {
        let _ = (now, lost);
    }

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

/// An acknowledgement, also during fast recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub delivered: u64,
    /// Segments newly reported to have arrived with a CE mark (accurate ECN).
    pub marked: u64,
    /// Smoothed RTT.
    pub smoothed_rtt: TimeDelta,
    /// RTT measured by this acknowledgement, if any.
    pub rtt_sample: Option<TimeDelta>,
    /// Estimated data in flight after it, in bytes.
    pub flight: u64,
    /// First unacknowledged byte after it (`SND.UNA`).
    pub first_unacknowledged: u64,
    /// First byte that has not been sent (`SND.NXT`).
    pub next_sequence: u64,
    /// Delivery-rate sample, if needed and available.
    pub rate: Option<RateSample>,
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr-03 §4.1.2.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Delivery rate (`RS.delivery_rate`); `None` if the interval was below the minimum RTT.
    pub delivery_rate: Option<DataRate>,
    /// Bytes delivered since the connection started (`C.delivered`).
    pub total_delivered: u64,
    /// The same when the newest acknowledged segment was sent (`RS.prior_delivered`).
    pub prior_delivered: u64,
    /// Bytes lost since the newest acknowledged segment was sent (`RS.lost`).
    pub lost: u64,
    /// Bytes in flight when it was sent, itself included (`RS.tx_in_flight`).
    pub flight_when_sent: u64,
    /// Whether the application limited the sender then (`RS.is_app_limited`).
    pub app_limited: bool,
}

/// A lost transmission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Its size in bytes.
    pub bytes: u64,
    /// Bytes in flight when it was sent, itself included (`P.tx_in_flight`).
    pub flight_when_sent: u64,
    /// Bytes lost since it was sent, itself included.
    pub lost_since_sent: u64,
    /// Bytes delivered since the connection started, when the loss is detected (`C.delivered`).
    pub delivered: u64,
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
