//! Slow start.

use super::{
    hystart::HyStart,
    interface::{Acknowledged, Opening},
};

/// Slow start by appropriate byte counting (RFC 3465 §2.2, RFC 5681 §3.1 eq. 2), at first with `HyStart++` if that is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlowStart {
    segment: u64,
    /// Most bytes that one acknowledgement adds.
    limit: u64,
    usual_limit: u64,
    hystart: Option<HyStart>,
}

impl SlowStart {
    pub(super) fn new(opening: &Opening) -> Self {
        let limit = opening.segment * u64::from(opening.slow_start_limit);
        let hystart = opening.hystart.then(HyStart::new);
        Self { segment: opening.segment, limit, usual_limit: limit, hystart }
    }

    /// How many bytes the window grows by for an acknowledgement.
    pub(super) fn on_ack(&mut self, ack: &Acknowledged) -> u64 {
        let divisor = self.hystart.as_mut().map_or(1, |hystart| hystart.on_ack(ack));
        if ack.limited { ack.bytes.min(self.limit) / divisor } else { 0 }
    }

    /// Whether the threshold is to be set to the window, for slow start is to end without congestion.
    pub(super) fn is_over(&self) -> bool {
        self.hystart.is_some_and(|hystart| hystart.is_over())
    }

    /// One segment per acknowledgement after a timeout (RFC 3465 §2.3), for its recovery acknowledges in leaps.
    pub(super) fn on_timeout(&mut self) {
        self.limit = self.segment.min(self.usual_limit);
        self.hystart = None;
    }

    /// Slow start ended. `HyStart++` is for the first one only (RFC 9406 §4.3).
    pub(super) fn on_end(&mut self) {
        self.limit = self.usual_limit;
        self.hystart = None;
    }
}
