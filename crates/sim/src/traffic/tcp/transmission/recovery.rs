//! Loss recovery: fast recovery with and without SACK, retransmission timeouts, and reductions of the window.

use giusto_units::Timestamp;

use super::{Frto, Phase, Transmission};
use crate::traffic::{
    segment::Flags,
    tcp::{
        prr::{Progress, ProportionalReduction},
        rack::DUPLICATE_THRESHOLD,
    },
};

/// The state of loss recovery.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    pub(super) phase: Phase,
    /// Present during fast recovery with proportional rate reduction.
    pub(super) reduction: Option<ProportionalReduction>,
    /// Whether to retransmit the first unacknowledged segment regardless of the window.
    pub(super) retransmit_first: bool,
    pub(super) duplicates: u32,
    /// Bytes of new data sent by limited transmit.
    pub(super) limited_transmit: u64,
    /// Window inflation by fast recovery and limited transmit without SACK (RFC 5681 §3.2).
    pub(super) inflation: i64,
    /// `recover` + 1 (RFC 6582 §3.2).
    pub(super) recover: Option<u64>,
    /// The previous cumulative acknowledgement (RFC 6582 §4.1).
    pub(super) previous_first: u64,
    /// First unacknowledged byte at the last timeout.
    pub(super) timed_out: Option<u64>,
    /// Time of the last reduction.
    pub(super) reduced_at: Timestamp,
    /// End of the data sent before the last reduction; no further reduction until it is acknowledged.
    pub(super) reduced_until: u64,
    pub(super) announce_reduction: bool,
}

impl Transmission {
    /// Processes an acknowledgement during fast recovery until `point`.
    pub(super) fn on_ack_in_recovery(&mut self, now: Timestamp, point: u64, advanced: u64, duplicate: bool) {
        if self.board.first() >= point {
            if !self.sack() {
                // RFC 6582 §3.2, step 3, full acknowledgement, option 1, which avoids a burst.
                self.control.limit_window(now, self.board.flight().max(self.segment) + self.segment);
                self.recovery.inflation = 0;
            }
            self.recovery.reduction = None;
            self.end_recovery();
            if self.uses_rack {
                self.recover_if_lost(now);
            }
        } else if self.sack() {
            // The scoreboard decides what is sent.
        } else if advanced > 0 {
            self.on_partial(point, advanced);
        } else if duplicate {
            self.recovery.inflation += self.segment as i64;
        }
    }

    pub(super) fn end_recovery(&mut self) {
        self.recovery.phase = Phase::Open;
        self.rack.on_recovered();
    }

    /// With RACK, enters recovery if segments are lost.
    pub(super) fn recover_if_lost(&mut self, now: Timestamp) {
        if self.board.has_lost() {
            self.enter_recovery(now);
        }
    }

    /// Processes a retransmission timeout (RFC 6298 §5.4 to §5.6, RFC 5681 §3.1).
    pub(super) fn on_retransmission_timeout(&mut self, now: Timestamp) {
        let is_repeated = self.recovery.timed_out == Some(self.board.first());
        let flight = self.board.flight().min(self.control.window());
        self.control.on_timeout(now, flight, is_repeated);
        self.recovery.timed_out = Some(self.board.first());
        self.rto.back_off();
        self.start_frto(is_repeated);
        self.tail_probe.cancel();
        self.tail_probe.is_next = false;
        if self.uses_rack {
            self.detect_lost_after_timeout(now);
        } else {
            self.board.on_timeout();
        }
        self.recovery.phase = Phase::Loss { point: self.board.next() };
        self.recovery.reduction = None;
        self.recovery.recover = Some(self.board.next());
        self.recovery.retransmit_first = self.uses_rack || self.frto != Frto::Off;
        self.recovery.duplicates = 0;
        self.recovery.limited_transmit = 0;
        self.recovery.inflation = 0;
        self.timed = None;
        self.note_reduction(now);
        self.timer = Some(now + self.rto.timeout());
        self.counts.timeouts += 1;
    }

    /// Updates proportional rate reduction. The arguments are the state before the acknowledgement (RFC 9937 §6.1, §6.2).
    pub(super) fn update_reduction(&mut self, first: u64, delivered: u64, more_lost: bool) {
        let uses_prr = self.settings.prr && !self.control.controls_recovery();
        if !matches!(self.recovery.phase, Phase::Recovery { .. }) || !self.sack() || !uses_prr {
            return;
        }
        let target = self.control.window();
        // The data that was not delivered before this acknowledgement.
        let flight = self.board.next() - delivered;
        let reduction = self
            .recovery
            .reduction
            .get_or_insert_with(|| ProportionalReduction::new(self.segment, target, flight));
        reduction.on_ack(Progress {
            delivered: self.board.delivered() - delivered,
            pipe: self.board.pipe(),
            is_safe: self.board.first() > first && !more_lost,
        });
    }

    /// Processes a duplicate acknowledgement outside recovery (RFC 6675 §5, steps 1 to 4; RFC 5681 §3.2).
    pub(super) fn on_duplicate(&mut self, now: Timestamp) {
        self.recovery.duplicates += 1;
        let enough = self.recovery.duplicates >= DUPLICATE_THRESHOLD;
        if self.sack() {
            if enough || self.board.is_first_lost() {
                self.enter_recovery(now);
            } else {
                self.board.begin_recovery();
            }
        } else if !enough {
            // Limited transmit (RFC 3042).
            self.recovery.inflation += self.segment as i64;
        } else if self.recovery.duplicates == DUPLICATE_THRESHOLD && self.may_recover() {
            self.enter_recovery(now);
        }
    }

    /// Whether three duplicates indicate a loss and not spurious retransmissions after a timeout (RFC 6582 §3.2, step 2, and
    /// §4.1).
    fn may_recover(&self) -> bool {
        let first = self.board.first();
        self.recovery.recover.is_none_or(|recover| first > recover)
            || (self.control.window() > self.segment
                && first - self.recovery.previous_first <= 4 * self.segment)
    }

    fn enter_recovery(&mut self, now: Timestamp) {
        self.tail_probe.cancel();
        if self.board.first() >= self.recovery.reduced_until {
            self.reduce(now, self.board.flight() - self.recovery.limited_transmit.min(self.board.flight()));
        }
        let point = self.board.next();
        self.recovery.phase = Phase::Recovery { point, partial: false };
        self.recovery.recover = Some(point);
        if !self.uses_rack {
            self.board.begin_recovery();
        }
        self.recovery.retransmit_first = true;
        self.recovery.duplicates = 0;
        self.recovery.limited_transmit = 0;
        self.recovery.inflation =
            if self.sack() { 0 } else { i64::from(DUPLICATE_THRESHOLD) * self.segment as i64 };
        self.counts.fast_recoveries += 1;
    }

    /// Processes a partial acknowledgement during recovery without SACK (RFC 6582 §3.2, step 3).
    fn on_partial(&mut self, point: u64, advanced: u64) {
        self.recovery.retransmit_first = true;
        self.recovery.phase = Phase::Recovery { point, partial: true };
        self.recovery.inflation -= advanced as i64;
        if advanced >= self.segment {
            self.recovery.inflation += self.segment as i64;
        }
    }

    pub(super) fn reduce(&mut self, now: Timestamp, flight: u64) {
        self.control.on_congestion(now, flight.min(self.control.window()));
        // Another reduction restarts proportional rate reduction (RFC 9937 §6.4).
        self.recovery.reduction = None;
        self.note_reduction(now);
    }

    /// Records a reduction: at most one per window of data, announced with the next new data (RFC 3168 §6.1.2).
    fn note_reduction(&mut self, now: Timestamp) {
        self.recovery.reduced_at = now;
        self.recovery.reduced_until = self.board.next();
        self.recovery.announce_reduction = self.uses.contains(Flags::ECE);
        self.counts.reductions += 1;
    }
}
