//! The scheduler between the low-latency and the classic queue.

use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::super::fifo::Fifo;

/// The scheduler that selects a queue when both have packets (RFC 9332 §4.2.2 and Appendix A.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scheduler {
    /// Weighted round robin by bytes, recommended by Appendix A.2.
    WeightedRoundRobin {
        /// Guaranteed share of the link for the classic queue, above 0 and below 1.
        classic_share: f64,
    },
    /// A time-shifted FIFO: serves the head with the longer sojourn time, after subtracting `shift` from the classic one.
    TimeShiftedFifo {
        /// The time shift (`tshift`), at least 0. Appendix A.2: 50 ms for the Internet, four times the target within a site.
        shift: TimeDelta,
    },
}

/// The state of a [`Scheduler`].
#[derive(Debug)]
pub(super) struct Turns {
    scheduler: Scheduler,
    mtu: DataSize,
    /// Credit of the classic queue in bytes; it is served while this is above 0.
    credit: f64,
}

impl Turns {
    pub(super) fn new(scheduler: Scheduler, mtu: DataSize) -> Self {
        let mut turns = Self { scheduler, mtu, credit: 0.0 };
        turns.reset();
        turns
    }

    /// Whether the classic queue is served next; `None` if both are empty.
    pub(super) fn is_classic_next(&self, now: Timestamp, low_latency: &Fifo, classic: &Fifo) -> Option<bool> {
        match (low_latency.is_empty(), classic.is_empty()) {
            (true, true) => None,
            (false, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => Some(match self.scheduler {
                Scheduler::WeightedRoundRobin { .. } => self.credit > 0.0,
                // RFC 9332 Figure 10.
                Scheduler::TimeShiftedFifo { shift } => {
                    classic.head_sojourn(now) > low_latency.head_sojourn(now) + shift
                }
            }),
        }
    }

    /// Processes the departure of a packet of `size` while both queues had packets; otherwise the credit does not change
    /// (RFC 9332 Appendix A.1).
    pub(super) fn on_departure(&mut self, is_classic: bool, size: DataSize) {
        if let Scheduler::WeightedRoundRobin { classic_share } = self.scheduler {
            let bytes = size.as_bytes() as f64;
            self.credit += if is_classic { -(1.0 - classic_share) * bytes } else { classic_share * bytes };
        }
    }

    /// Resets the credit when the link is idle, in favour of the low-latency queue (RFC 9332 Appendix A.1): as after a
    /// classic packet.
    pub(super) fn reset(&mut self) {
        self.credit = 0.0;
        self.on_departure(true, self.mtu);
    }
}
