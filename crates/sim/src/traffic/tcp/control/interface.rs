//! What a congestion control does.

use std::fmt;

use giusto_units::{TimeDelta, Timestamp};

/// A law for the congestion window.
///
/// Recovery from loss is the sender's affair; this only says how large the window is. All sizes are in bytes of data.
pub trait CongestionControl: Send + fmt::Debug {
    /// A connection begins with `opening`; what was before is forgotten.
    fn begin(&mut self, opening: Opening);

    /// The congestion window, `cwnd`; at least one segment.
    fn window(&self) -> u64;

    /// The slow start threshold, `ssthresh`; `u64::MAX` before the first congestion, unless the opening set one.
    fn threshold(&self) -> u64;

    /// New data was acknowledged, outside fast recovery.
    fn on_ack(&mut self, now: Timestamp, ack: Acknowledged);

    /// Congestion: a loss was detected by duplicate acknowledgements, or a mark was echoed. `flight` is how much was under way,
    /// the segments of limited transmit excluded (RFC 5681 §3.2, step 2), and at most the window.
    fn on_congestion(&mut self, now: Timestamp, flight: u64);

    /// The retransmission timer expired, with `flight` under way; `again`: for a segment that it had expired for before.
    fn on_timeout(&mut self, now: Timestamp, flight: u64, again: bool);

    /// Makes the window no more than `window`, and leaves the threshold: after idleness (RFC 5681 §4.1), and at the end of a
    /// NewReno recovery (RFC 6582 §3.2, step 3).
    fn cap(&mut self, now: Timestamp, window: u64);
}

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Data of a full segment (`SMSS`), in bytes.
    pub segment: u64,
    /// The initial window (`IW`), in bytes.
    pub window: u64,
    /// The initial slow start threshold in bytes; `u64::MAX`: none.
    pub threshold: u64,
    /// How many segments one acknowledgement may add in slow start: `L` of RFC 3465 §2.2 and of RFC 9406 §4.2.
    pub slow_start_limit: u32,
    /// Whether `HyStart++` (RFC 9406) watches the slow start.
    pub hystart: bool,
}

/// An acknowledgement of new data, as a congestion control sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// How many bytes it acknowledges anew.
    pub bytes: u64,
    /// Whether the window, not the application or the receiver, held the sender back. Otherwise the window stays
    /// (RFC 8312 §5.8).
    pub limited: bool,
    /// The smoothed round trip.
    pub round_trip: TimeDelta,
    /// The round trip that it measures, if it does.
    pub sample: Option<TimeDelta>,
    /// The first byte that is not acknowledged then (`SND.UNA`).
    pub up_to: u64,
    /// The first byte that was never sent (`SND.NXT`).
    pub next: u64,
}
