//! `fixed`: a rate that heeds nothing. The baseline of every comparison.

use giusto_units::{DataRate, Timestamp};

use super::{Controller, Decision, Feedback, QueueState, SentPacket, Target};

/// Pacing is so many halves of the rate: 2.5 times, as libwebrtc paces what is not controlled, so that pictures do not queue at home.
const PACING: u64 = 5;

/// Always the same rate. It measures loss and does nothing about it.
#[derive(Debug, Clone)]
pub struct Fixed {
    rate: DataRate,
    reported: u64,
    lost: u64,
    decision: Decision,
}

impl Fixed {
    /// Always `rate`.
    #[inline]
    pub fn new(rate: DataRate) -> Self {
        let decision = Decision { from: rate, to: rate, ..Decision::default() };
        Self { rate, reported: 0, lost: 0, decision }
    }

    /// Of the packets that were reported, the share that was lost; `None` before any was.
    #[inline]
    pub fn loss_ratio(&self) -> Option<f64> {
        (self.reported > 0).then(|| self.lost as f64 / self.reported as f64)
    }
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

    fn target(&self) -> Target {
        let pacing = DataRate::from_bps(self.rate.as_bps().saturating_mul(PACING) / 2);
        Target { media: self.rate, pacing, ..Target::default() }
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::{DataSize, Ecn, PeerTimestamp};

    use super::*;
    use crate::PacketReport;

    #[test]
    fn losses_are_counted_and_change_nothing() {
        let rate = DataRate::from_bps(1_000_000);
        let mut fixed = Fixed::new(rate);
        assert_eq!(fixed.loss_ratio(), None);
        let size = DataSize::from_bytes(1200);
        let report = |sequence, arrived: bool| PacketReport {
            sent: SentPacket { sequence, at: Timestamp::ZERO, size, probe: None, in_flight: size },
            arrival: arrived.then(|| PeerTimestamp::from_nanos(1)),
            ecn: Ecn::NotEct,
        };
        let packets = [report(0, true), report(1, false), report(2, false), report(3, true)];
        fixed.on_feedback(Timestamp::ZERO, &Feedback { packets: &packets, ..Feedback::default() });
        assert_eq!(fixed.loss_ratio(), Some(0.5));
        assert_eq!((fixed.target().media, fixed.target().pacing), (rate, DataRate::from_bps(2_500_000)));
        assert_eq!(fixed.next_timeout(), None);
    }
}
