//! Loss detection by time (RFC 8985): when RACK looks, and what follows from a loss.

use giusto_units::{TimeDelta, Timestamp};

use super::{Phase, Transmission};

impl Transmission {
    fn reordering_window(&self) -> TimeDelta {
        let sacked = self.board.received_above() / self.segment;
        self.rack.reordering_window(
            self.recovery.phase != Phase::Open,
            sacked,
            self.rto.smoothed().unwrap_or_default(),
        )
    }

    /// Marks losses by time (RFC 8985 §6.2) and sets the reordering timer.
    pub(super) fn detect_lost(&mut self, now: Timestamp) {
        self.reorder_due = None;
        if !self.uses_rack {
            return;
        }
        let wait = self.rack.rtt() + self.reordering_window();
        let reduced_at = self.recovery.reduced_at;
        let mut is_lost_again = false;
        let mut lost = Vec::new();
        let reports = self.delivery.is_some();
        let due = self.board.detect_lost(now, &self.rack, wait, &mut |sent, bytes| {
            if reports {
                lost.push((sent, bytes));
            }
            is_lost_again |= sent.is_retransmission && sent.at >= reduced_at;
        });
        self.reorder_due = due;
        self.report_losses(now, lost);
        if is_lost_again && matches!(self.recovery.phase, Phase::Recovery { .. }) {
            // The loss of a retransmission indicates congestion once more (RFC 5681 §4.3).
            self.reduce(now, self.board.pipe());
        }
    }

    /// Marks losses after a retransmission timeout (RFC 8985 §6.3).
    pub(super) fn detect_lost_after_timeout(&mut self, now: Timestamp) {
        let wait = self.rack.rtt() + self.reordering_window();
        let mut lost = Vec::new();
        self.board.on_rack_timeout(now, wait, &mut |sent, bytes| lost.push((sent, bytes)));
        self.report_losses(now, lost);
    }
}
