//! Tail loss probes (RFC 8985 §7).

use giusto_units::{TimeDelta, Timestamp};

use super::{Outgoing, Phase, Transmission};
use crate::traffic::segment::{Flags, Segment};

/// The state of tail loss probes.
#[derive(Debug, Default)]
pub(super) struct TailProbe {
    in_flight: Option<Probe>,
    pub(super) due: Option<Timestamp>,
    /// Whether the next segment is a probe.
    pub(super) is_next: bool,
    /// Whether there was no RTT sample since the last probe.
    pub(super) awaits_sample: bool,
}

#[derive(Debug, Clone, Copy)]
struct Probe {
    end: u64,
    is_retransmission: bool,
}

impl TailProbe {
    /// Forgets the probe in flight and the timer.
    pub(super) fn cancel(&mut self) {
        self.in_flight = None;
        self.due = None;
    }
}

impl Transmission {
    /// Sets the timer of the loss probe (RFC 8985 §7.2).
    pub(super) fn arm_probe(&mut self, now: Timestamp) {
        self.tail_probe.due = None;
        let flight = self.board.flight();
        let is_usual = self.recovery.phase == Phase::Open && self.board.received_above() == 0 && flight > 0;
        if !self.uses_rack || !is_usual || self.tail_probe.in_flight.is_some() {
            return;
        }
        let wait = match self.rto.smoothed() {
            Some(smoothed) if flight <= self.segment => smoothed * 2 + self.settings.delayed_ack,
            Some(smoothed) => smoothed * 2,
            None => TimeDelta::from_seconds(1),
        };
        let due = now + wait;
        self.tail_probe.due = Some(self.timer.map_or(due, |timer| due.min(timer)));
    }

    /// Processes the timer of the loss probe (RFC 8985 §7.3).
    pub(super) fn on_probe_timeout(&mut self, now: Timestamp) {
        self.tail_probe.due = None;
        if self.board.flight() == 0 || self.recovery.phase != Phase::Open {
            return;
        }
        if self.tail_probe.in_flight.is_none() && !self.tail_probe.awaits_sample {
            self.tail_probe.is_next = true;
            self.timer = Some(now + self.rto.timeout());
        }
    }

    /// Sends a loss probe: new data, or else the last segment.
    pub(super) fn loss_probe(&mut self, now: Timestamp) -> Option<Outgoing> {
        self.tail_probe.awaits_sample = true;
        self.counts.probes += 1;
        if let Some(new) = self.transmit_new(now) {
            self.tail_probe.in_flight = Some(Probe { end: self.board.next(), is_retransmission: false });
            self.tail_probe.due = None;
            return Some(new);
        }
        let range = self.board.last_segment()?;
        self.tail_probe.in_flight = Some(Probe { end: self.board.next(), is_retransmission: true });
        let is_probe = self.board.is_original(range);
        Some(self.resend(now, range, is_probe))
    }

    /// Processes the acknowledgement of a loss probe (RFC 8985 §7.4.2).
    pub(super) fn on_probe_acknowledged(&mut self, now: Timestamp, ack: &Segment, flight: u64) {
        let Some(probe) = self.tail_probe.in_flight.filter(|probe| self.board.first() >= probe.end) else {
            return;
        };
        let is_repaired = self.board.first() > probe.end;
        let is_duplicate = ack.flags.contains(Flags::DSACK);
        if !probe.is_retransmission || is_duplicate {
            self.tail_probe.in_flight = None;
        } else if is_repaired {
            self.tail_probe.in_flight = None;
            if probe.end > self.recovery.reduced_until {
                self.reduce(now, flight);
            }
        }
    }
}
