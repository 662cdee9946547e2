//! `fixed`: a constant rate, the baseline of every comparison.

use giusto_units::{DataRate, Timestamp};

use crate::{
    controller::Controller,
    feedback::{Feedback, QueueState, SentPacket},
    limits::Limits,
    requirements::{FeedbackKind, Requirements},
    target::{Cause, Decision, Target},
};

/// Pacing rate in halves of the target rate. 2.5 times, as libwebrtc paces a stream without feedback, so that
/// frames are not delayed at the sender.
const PACING: u64 = 5;

/// Sends at a constant rate. Losses are counted and have no effect on the rate.
#[derive(Debug, Clone)]
pub struct Fixed {
    rate: DataRate,
    /// The rate over the start rate of limits that are set.
    share: f64,
    reported: u64,
    lost: u64,
    decision: Decision,
}

impl Fixed {
    /// Its requirements: it accepts any feedback.
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::ReceiverReports,
        accepted: &[
            FeedbackKind::TransportWide,
            FeedbackKind::CongestionControl,
            FeedbackKind::ScreamDraft,
            FeedbackKind::Nada,
            FeedbackKind::ReceiverEstimate,
            FeedbackKind::ReceiverReports,
        ],
        ..Requirements::DEFAULT
    };

    /// A controller whose target is always `rate`.
    pub fn new(rate: DataRate) -> Self {
        let decision = Decision { from: rate, to: rate, ..Decision::default() };
        Self { rate, share: 1.0, reported: 0, lost: 0, decision }
    }

    /// One whose target is this share of the start rate, within the limits.
    pub(crate) fn with_share(share: f64, limits: Limits) -> Self {
        Self { share, ..Self::new(rate(share, limits)) }
    }

    /// Share of the reported packets that was lost, 0 to 1. `None` before the first report.
    pub fn loss_ratio(&self) -> Option<f64> {
        (self.reported > 0).then(|| self.lost as f64 / self.reported as f64)
    }
}

fn rate(share: f64, limits: Limits) -> DataRate {
    let Limits { min, start, max } = limits.ordered();
    // Exact for the whole rate, however high it is.
    let exact = (share - 1.0).abs() < f64::EPSILON;
    let shared = if exact { start } else { DataRate::from_bps((start.as_bps() as f64 * share) as u64) };
    shared.clamp(min, max)
}

impl Controller for Fixed {
    fn on_sent(&mut self, _now: Timestamp, _packet: &SentPacket) {}

    fn on_feedback(&mut self, _now: Timestamp, feedback: &Feedback<'_>) {
        self.reported += feedback.packets.len() as u64;
        self.lost += feedback.packets.iter().filter(|packet| packet.arrival.is_none()).count() as u64;
    }

    fn on_timeout(&mut self, _now: Timestamp, _queue: &QueueState) {}

    fn next_timeout(&self) -> Option<Timestamp> {
        None
    }

    /// The rate becomes the start rate of `limits`, or the share of it.
    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        let to = rate(self.share, limits);
        if to != self.rate {
            let at = now.max(self.decision.at);
            self.decision = Decision { at, from: self.rate, to, cause: Cause::Limit };
            self.rate = to;
        }
    }

    /// The route has no effect on this controller.
    fn on_route_change(&mut self, _now: Timestamp) {}

    fn target(&self) -> Target {
        let pacing = DataRate::from_bps(self.rate.as_bps().saturating_mul(PACING) / 2).max(self.rate);
        Target { media: self.rate, pacing, ..Target::default() }
    }

    crate::controller::answers!(decision);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, feed, report};

    #[test]
    fn losses_are_counted_without_effect() {
        let rate = DataRate::from_bps(1_000_000);
        let mut fixed = Fixed::new(rate);
        assert_eq!(fixed.loss_ratio(), None);
        let packets = [(0, Some(1)), (1, None), (2, None), (3, Some(1))];
        feed(&mut fixed, at(0), &packets.map(|(sequence, arrival)| report(sequence, 0, arrival)));
        assert_eq!(fixed.loss_ratio(), Some(0.5));
        assert_eq!((fixed.target().media, fixed.target().pacing), (rate, DataRate::from_bps(2_500_000)));
        assert_eq!(fixed.next_timeout(), None);
    }
}
