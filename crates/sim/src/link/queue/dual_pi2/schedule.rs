//! Whose turn it is, the low-latency or the classic queue's.

use giusto_units::{DataSize, Timestamp};

use super::{super::fifo::Fifo, Scheduler};

/// A scheduler at work.
#[derive(Debug)]
pub(super) struct Turns {
    scheduler: Scheduler,
    mtu: DataSize,
    /// Above zero, the classic queue has bytes to its credit.
    credit: f64,
}

impl Turns {
    pub(super) fn new(scheduler: Scheduler, mtu: DataSize) -> Self {
        let mut turns = Self { scheduler, mtu, credit: 0.0 };
        turns.reset();
        turns
    }

    /// Whether the classic queue goes next; `None` if both are empty.
    pub(super) fn is_classic_next(&self, now: Timestamp, low_latency: &Fifo, classic: &Fifo) -> Option<bool> {
        match (low_latency.is_empty(), classic.is_empty()) {
            (true, true) => None,
            (false, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => Some(match self.scheduler {
                Scheduler::WeightedRoundRobin { .. } => self.credit > 0.0,
                // RFC 9332 Figure 10: the low-latency queue goes if its head and the shift are no younger.
                Scheduler::TimeShiftedFifo { shift } => {
                    classic.head_sojourn(now) > low_latency.head_sojourn(now) + shift
                }
            }),
        }
    }

    /// A packet of `size` left while both queues had some: only then do the credits change (RFC 9332 Appendix A.1).
    pub(super) fn on_departure(&mut self, is_classic: bool, size: DataSize) {
        if let Scheduler::WeightedRoundRobin { classic_share } = self.scheduler {
            let bytes = size.as_bytes() as f64;
            self.credit += if is_classic { -(1.0 - classic_share) * bytes } else { classic_share * bytes };
        }
    }

    /// In favour of the low-latency queue, as when the link is idle (RFC 9332 Appendix A.1): as after a classic packet.
    pub(super) fn reset(&mut self) {
        self.credit = 0.0;
        self.on_departure(true, self.mtu);
    }
}
