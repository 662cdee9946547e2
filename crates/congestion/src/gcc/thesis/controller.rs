//! `gcc:thesis`: the algorithm of the thesis as a controller.

use alloc::vec::Vec;

use giusto_units::{DataRate, Timestamp};

use super::algorithm::{REPORT_INTERVAL, Thesis, ThesisConfig};
use crate::{
    controller::Controller,
    feedback::{Feedback, PacketReport, QueueState, SentPacket},
    gcc::{
        rate::{RttConfig, rtt::propagation},
        settled::{PROCESS, Settled},
    },
    limits::Limits,
    requirements::Requirements,
    target::{Cause, Target},
};

/// No pacer (the thesis has none): packets are sent at this rate.
const UNPACED: DataRate = DataRate::from_bps(1_000_000_000);

/// Maximum number of packet reports that are stored for the next report. Further ones are dropped.
const MAX_PACKETS: usize = 1 << 16;

/// Both controllers of the thesis, updated every 3 s.
///
/// Packet reports are collected in between, so that the algorithm receives reports as in the thesis (Table
/// 7), whatever the feedback interval of the receiver. Unlike the thesis, it reduces the rate if feedback is
/// missing ([`RttBackOff`](crate::gcc::rate::RttBackOff)): after three missing reports. Otherwise
/// it would never stop sending.
#[derive(Debug, Clone)]
pub(crate) struct ThesisController {
    config: ThesisConfig,
    limits: Limits,
    thesis: Thesis,
    settled: Settled,
    /// In order of sequence numbers.
    gathered: Vec<PacketReport>,
    /// Sequence number up to which packets were collected.
    collected_to: Option<u64>,
    report_at: Timestamp,
}

impl ThesisController {
    /// What it requires of the sender and the receiver.
    pub(crate) const REQUIREMENTS: Requirements = Requirements::DEFAULT;

    /// `gcc:thesis`: the constants of the thesis, within `limits`.
    pub(crate) fn within(limits: Limits) -> Self {
        Self::new(&ThesisConfig::default(), limits)
    }

    /// A controller within `limits`, which replace those of Table 7.
    pub(crate) fn new(config: &ThesisConfig, limits: Limits) -> Self {
        let limits = limits.ordered();
        let mut config = *config;
        (config.aimd.min, config.aimd.max) = (limits.min, limits.max);
        (config.loss.min, config.loss.max) = (limits.min, limits.max);
        let back_off = RttConfig { limit: REPORT_INTERVAL * 3, ..RttConfig::default() };
        Self {
            config,
            limits,
            thesis: Thesis::new(&config, limits.start),
            settled: Settled::new(limits, back_off),
            gathered: Vec::new(),
            collected_to: None,
            report_at: Timestamp::MAX,
        }
    }

    fn begin(&mut self, now: Timestamp) -> Timestamp {
        let (now, first) = self.settled.advance(now);
        if first {
            self.report_at = now + REPORT_INTERVAL;
        }
        now
    }

    /// The report of the thesis: all packets collected since the last one.
    fn report(&mut self, now: Timestamp) {
        self.report_at = now + REPORT_INTERVAL;
        if self.gathered.is_empty() {
            return;
        }
        self.thesis.on_report(now, &self.gathered);
        self.gathered.clear();
        let cause = if self.thesis.loss_based() < self.thesis.delay_based() {
            Cause::Loss { ratio: self.thesis.loss_ratio() }
        } else {
            self.thesis.delay_cause()
        };
        self.settled.settle(now, self.thesis.rate(), cause);
    }
}

impl Controller for ThesisController {
    fn on_sent(&mut self, now: Timestamp, _packet: &SentPacket) {
        let now = self.begin(now);
        self.settled.on_sent(now);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.begin(now);
        let rtt = feedback.rtt.or_else(|| propagation(now, feedback.packets));
        if let Some(rtt) = rtt {
            self.thesis.on_rtt(rtt);
            // Receiver reports do not hide that packet reports are missing.
            if self.collected_to.is_none() || !feedback.packets.is_empty() {
                self.settled.on_rtt(now, rtt);
            }
        }
        for &packet in feedback.packets {
            let sequence = packet.sent.sequence;
            if self.collected_to.is_none_or(|collected_to| sequence > collected_to) {
                if self.gathered.len() < MAX_PACKETS {
                    self.gathered.push(packet);
                }
                self.collected_to = Some(sequence);
            } else if let Ok(place) =
                self.gathered.binary_search_by_key(&sequence, |packet| packet.sent.sequence)
                && let Some(known) = self.gathered.get_mut(place)
            {
                // Late, but still before the report.
                *known = packet;
            }
        }
        if now >= self.report_at {
            self.report(now);
        }
    }

    fn on_timeout(&mut self, now: Timestamp, _queue: &QueueState) {
        let now = self.begin(now);
        self.settled.on_processed(now);
        if now >= self.report_at {
            self.report(now);
        }
        if self.settled.is_too_long() {
            let target = self.settled.target();
            self.settled.settle(now, target, Cause::Silence);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.settled.deadline(PROCESS, [Some(self.report_at), None])
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.limits = limits.ordered();
        if !self.settled.has_begun() {
            *self = Self::new(&self.config, self.limits);
            return;
        }
        self.begin(now);
        self.thesis.set_limits(self.limits.min, self.limits.max);
        self.settled.set_limits(self.limits);
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if let Some((now, settled)) = self.settled.on_route_change(now, self.limits) {
            let (collected_to, report_at) = (self.collected_to, now + REPORT_INTERVAL);
            *self = Self { settled, collected_to, report_at, ..Self::new(&self.config, self.limits) };
        }
    }

    fn target(&self) -> Target {
        let media = self.settled.target();
        Target { media, pacing: UNPACED.max(media), ..Target::default() }
    }

    crate::controller::answers!(settled);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, prelude::*};

    const LIMITS: Limits = limits(3000, 7200, 10_000);

    const fn at(seconds: u64) -> Timestamp {
        testing::at(seconds * 1000)
    }

    #[test]
    fn feedback_is_processed_every_3_s_as_one_report() {
        let mut controller = ThesisController::new(&ThesisConfig::default(), LIMITS);
        let mut alone = Thesis::new(&ThesisConfig::default(), LIMITS.start);
        controller.on_timeout(Timestamp::ZERO, &QueueState::default());
        let packets: Vec<_> =
            (0..40).map(|n| report(n, n * 50, (n % 2 == 0).then_some(n * 50 + 10))).collect();
        for packets in packets.chunks(3) {
            feed(&mut controller, at(2), packets);
            assert_eq!(controller.target().media, LIMITS.start);
        }
        assert_eq!(controller.next_timeout(), Some(at(3)));
        controller.on_timeout(at(3), &QueueState::default());
        alone.on_report(at(3), &packets);
        // As calculated by hand in the module's example: 7.2 Mbit/s times 1 − 0.5 · 0.5.
        assert_eq!((controller.target().media, alone.rate()), (kbps(5400), kbps(5400)));
        assert_eq!(controller.decision().cause, Cause::Loss { ratio: 0.5 });
        assert_eq!(controller.next_timeout(), Some(at(6)));
    }

    #[test]
    fn its_detector_lets_the_queue_fill() {
        // Why the constants of the thesis are obsolete: the trend is not amplified, and reports are 3 s
        // apart.
        let scenario = Scenario { limits: limits(100, 2000, 10_000), seconds: 120, ..Scenario::default() };
        let outcome = run("gcc:thesis".parse().unwrap(), scenario);
        within(outcome.queue_delay_p95(30.0, 120.0), 250.0..=310.0);
        within(outcome.dropped_share(), 1e-9..0.25);
    }
}
