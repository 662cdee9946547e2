//! What the congestion control learns: delivery, marks and losses.

use giusto_units::{TimeDelta, Timestamp};

use super::Transmission;
use crate::traffic::{
    segment::Segment,
    tcp::{
        control::{Feedback, Lost},
        history::{Stamp, Transmitted},
    },
};

impl Transmission {
    /// The state to store with a transmission of `bytes` now.
    pub(super) fn stamp(&mut self, now: Timestamp, bytes: u64) -> Option<Stamp> {
        let board = &self.board;
        let delivery = self.delivery.as_mut();
        delivery.map(|delivery| delivery.stamp(now, board.delivered(), board.pipe(), bytes))
    }

    /// Passes an acknowledgement on to the congestion control. `before` and `sample` are the bytes delivered before it and
    /// its RTT sample.
    pub(super) fn give_feedback(
        &mut self,
        now: Timestamp,
        ack: &Segment,
        newest: Option<Transmitted>,
        before: u64,
        sample: Option<TimeDelta>,
    ) {
        let total = self.board.delivered();
        let marked = if self.settings.uses_accurate_ecn() { ack.marked.wrapping_sub(self.marked) } else { 0 };
        self.marked = ack.marked;
        let is_limited = self.written <= self.board.next() && !self.board.has_lost();
        let flight = self.board.pipe();
        let min_rtt = self.rack.min_rtt();
        let rate = self.delivery.as_mut().and_then(|delivery| {
            delivery.on_ack(now, newest, (total, total - before), (flight, is_limited), min_rtt)
        });
        let feedback = Feedback {
            delivered: total - before,
            marked: u64::from(marked),
            smoothed_rtt: self.rto.smoothed().unwrap_or_default(),
            rtt_sample: sample,
            flight,
            first_unacknowledged: self.board.first(),
            next_sequence: self.board.next(),
            rate,
        };
        self.control.on_feedback(now, &feedback);
    }

    /// Reports losses to the congestion control, if it needs them.
    pub(super) fn report_losses(&mut self, now: Timestamp, lost: Vec<(Transmitted, u64)>) {
        let delivered = self.board.delivered();
        let Some(delivery) = &mut self.delivery else { return };
        for (sent, bytes) in lost {
            delivery.lost += bytes;
            if let Some(stamp) = sent.stamp {
                let lost_since_sent = delivery.lost - stamp.lost;
                let flight_when_sent = stamp.flight;
                self.control.on_loss(now, Lost { bytes, flight_when_sent, lost_since_sent, delivered });
            }
        }
    }
}
