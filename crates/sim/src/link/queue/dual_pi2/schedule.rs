//! Whose turn it is, the low-latency or the classic queue's.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::super::fifo::Fifo;

/// Which of the two queues goes next when both have packets (RFC 9332 §4.2.2 and Appendix A.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scheduler {
    /// Weighted round robin by bytes, as Appendix A.2 recommends.
    WeightedRoundRobin {
        /// The share of the link that the classic queue is sure of, above 0 and below 1.
        classic_share: f64,
    },
    /// The head that has waited longer, a handicap subtracted from that of the classic queue: a time-shifted FIFO.
    TimeShiftedFifo {
        /// The handicap (`tshift`), zero or more. Appendix A.2: 50 ms for the Internet, four times the target within a site.
        shift: TimeDelta,
    },
}

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
