//! Slow start.

use super::{
    hystart::HyStart,
    interface::{Acknowledgment, ConnectionStart},
};

/// Slow start with appropriate byte counting (RFC 3465 §2.2, RFC 5681 §3.1 eq. 2) and optional `HyStart++`.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlowStart {
    segment: u64,
    /// Maximum increase per acknowledgement, in bytes.
    limit: u64,
    /// `limit` unless a timeout has lowered it.
    usual_limit: u64,
    hystart: Option<HyStart>,
}

impl SlowStart {
    pub(super) fn new(start: &ConnectionStart) -> Self {
        let limit = start.segment * u64::from(start.slow_start_limit);
        let hystart = start.hystart.then(HyStart::new);
        Self { segment: start.segment, limit, usual_limit: limit, hystart }
    }

    /// Returns the increase of the window in bytes.
    pub(super) fn on_ack(&mut self, ack: &Acknowledgment) -> u64 {
        let divisor = self.hystart.as_mut().map_or(1, |hystart| hystart.on_ack(ack));
        if ack.window_limited { ack.bytes.min(self.limit) / divisor } else { 0 }
    }

    /// Whether slow start must end without a congestion event, with the window as the new threshold.
    pub(super) fn is_over(&self) -> bool {
        self.hystart.is_some_and(|hystart| hystart.is_over())
    }

    /// Limits the increase to one segment per acknowledgement after a timeout (RFC 3465 §2.3), since acknowledgements during
    /// recovery cover many segments.
    pub(super) fn on_timeout(&mut self) {
        self.limit = self.segment.min(self.usual_limit);
        self.hystart = None;
    }

    /// Ends slow start. `HyStart++` applies only to the first one (RFC 9406 §4.3).
    pub(super) fn on_end(&mut self) {
        self.limit = self.usual_limit;
        self.hystart = None;
    }
}
