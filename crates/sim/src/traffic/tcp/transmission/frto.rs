//! Detection of spurious timeouts (F-RTO, RFC 5682).

use giusto_units::Timestamp;

use super::{Phase, Transmission};

/// The state of F-RTO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frto {
    Off,
    /// Until the first acknowledgement after the timeout (step 2).
    Retransmitted,
    /// Until the second one (step 3). `new`: number of new segments that may still be sent.
    Probing {
        point: u64,
        new: u8,
    },
}

impl Transmission {
    /// Starts F-RTO with a timeout (RFC 5682 §2.1 and §3.1, step 1).
    pub(super) fn start_frto(&mut self, is_repeated: bool) {
        let may_start = match self.recovery.phase {
            Phase::Open => true,
            Phase::Recovery { .. } => false,
            Phase::Loss { .. } => is_repeated && self.frto != Frto::Off,
        };
        self.frto = if self.settings.frto && may_start { Frto::Retransmitted } else { Frto::Off };
    }

    /// Processes an acknowledgement after a timeout (RFC 5682 §2.1 and §3.1, steps 2 and 3). `original` is the end of newly
    /// acknowledged data that was never retransmitted, known with RACK.
    pub(super) fn run_frto(&mut self, now: Timestamp, advanced: u64, selective: u64, original: Option<u64>) {
        match self.frto {
            Frto::Off => {}
            Frto::Retransmitted if advanced > 0 => {
                let Phase::Loss { point } = self.recovery.phase else { return };
                let goes_on = self.board.first() < point && self.new_end().is_some();
                let recover = self.board.next();
                self.frto = if goes_on { Frto::Probing { point: recover, new: 2 } } else { Frto::Off };
            }
            // With SACK the sender waits for the acknowledgement of the retransmission.
            Frto::Retransmitted => {
                if !self.sack() && selective == 0 {
                    self.frto = Frto::Off;
                }
            }
            Frto::Probing { point, .. } => {
                self.frto = Frto::Off;
                let is_covered = self.board.first() <= point;
                let is_original = if self.uses_rack {
                    original.is_some_and(|end| end <= point)
                } else {
                    advanced > 0 || selective > 0
                };
                if is_covered && is_original {
                    self.on_spurious_timeout(now);
                }
            }
        }
    }

    /// Undoes the effects of a spurious timeout.
    fn on_spurious_timeout(&mut self, now: Timestamp) {
        self.counts.spurious_timeouts += 1;
        self.board.on_spurious_timeout();
        self.control.on_spurious_timeout(now);
        self.recovery.phase = Phase::Open;
        self.recovery.recover = Some(self.board.first());
        self.recovery.timed_out = None;
        self.recovery.reduced_until = self.board.first();
        self.recovery.announce_reduction = false;
    }
}
