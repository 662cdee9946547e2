//! `gcc:libwebrtc`: Google Congestion Control at the sender, as implemented in libwebrtc.
//!
//! # Deviations
//!
//! | subject | libwebrtc | here |
//! |---|---|---|
//! | allocated rate, up to which it probes | what the encoders can use; falls when one has made no frame for 2 s, and its return is probed (`video_send_stream_impl.cc`, `kEncoderTimeOut`) | the maximum rate; a pause does not change it |
//! | padding | in one state of the loss model, and up to the padding rate of the streams, which is zero for a video of one layer (same file, `CalculateMaxPadBitrateBps`) | in that state alone: all videos have one layer |
//! | arrival times | rounded to milliseconds | not rounded |
//! | field trials that are off by default | available | not implemented |
//!
//! [`Config::giusto`] lists what `gcc:libwebrtc+giusto` changes.

mod config;
#[cfg(test)]
mod lock_up;
#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError};

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    arithmetic::scaled,
    by_arrival::ByArrival,
    delay::{DelayEstimator, Detection},
    loss::{ByReport, LossModel, LossState, ReportConfig, StandingQueue},
    rate::{
        Aimd, AimdConfig, ApplicationLimited, Constraint, Observation, ProbeOutcome, ProbeRate, Probing,
        PushBack, RobustThroughput, rtt::propagation_of,
    },
    settled::Settled,
};
use crate::{
    controller::Controller,
    feedback::{Feedback, LossReport, PacketReport, QueueState, SentPacket},
    limits::Limits,
    requirements::{FeedbackKind, Requirements},
    target::{Cause, Probe, Signal, Target},
};

/// The parts of [`gcc`](super), in the order in which libwebrtc's `goog_cc/goog_cc_network_control.cc` calls them.
///
/// | event | what it updates |
/// |---|---|
/// | first call | probes at 3 and 6 times the start rate |
/// | a packet is sent | application limit; missing feedback |
/// | packet feedback | RTT, received rate, probes, delay, losses; the target |
/// | a loss report before any packet feedback, or before the loss model has made its first observations | the threshold rule; the target |
/// | the receiver's estimate | the upper limit of the target |
/// | a deadline | due probes, steps down while feedback is missing |
///
/// The target is the minimum of the delay-based rate, the loss-based rate and the receiver's estimate. Once
/// there are three observations of losses, it rises only with a new one, every 250 ms. While the RTT is above
/// its limit the target only falls. The delay-based rate knows the RTT from reports only; without any it
/// assumes 200 ms. While too much is in flight, frames are
/// dropped ([`Config::push_back`]).
///
/// # Example
///
/// ```
/// use giusto_congestion::{Controller, Limits, QueueState, gcc::libwebrtc::{Config, Libwebrtc}};
/// use giusto_units::{DataRate, Timestamp};
///
/// let mut controller = Libwebrtc::new(Config::within(Limits::default()))?;
/// controller.on_timeout(Timestamp::ZERO, &QueueState::default());
/// assert_eq!(controller.target().media, DataRate::from_bps(300_000));
/// assert_eq!(controller.next_probe().map(|probe| probe.rate), Some(DataRate::from_bps(900_000)));
/// # Ok::<(), giusto_congestion::gcc::libwebrtc::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Libwebrtc {
    config: Config,
    delay: DelayEstimator,
    aimd: Aimd,
    by_arrival: ByArrival,
    throughput: RobustThroughput,
    application_limited: ApplicationLimited,
    probing: Probing,
    probe_rate: ProbeRate,
    loss: LossModel,
    reports: ByReport,
    standing_queue: Option<StandingQueue>,
    push_back: Option<PushBack>,
    settled: Settled,
    receiver_estimate: Option<DataRate>,
    /// Whether any packet feedback has been received.
    has_packet_reports: bool,
    /// Whether any feedback has been received. The threshold rule depends on it.
    has_reports: bool,
    /// Cause of the delay-based rate.
    delay_cause: Cause,
    /// Whether a probe was suppressed in this call.
    suppressed: bool,
}

impl Libwebrtc {
    /// The requirements of `gcc:libwebrtc`. SCReAM's message lacks the arrival times of most packets and is
    /// therefore not accepted.
    pub const REQUIREMENTS: Requirements = Requirements {
        accepted: &[
            FeedbackKind::TransportWide,
            FeedbackKind::CongestionControl,
            FeedbackKind::ReceiverEstimate,
            FeedbackKind::ReceiverReports,
        ],
        limited_probes: true,
        ..Requirements::DEFAULT
    };

    /// A controller before the first packet.
    ///
    /// # Errors
    ///
    /// A constant of `config` is out of range.
    pub fn new(mut config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        config.limits = config.limits.ordered();
        let limits = config.limits;
        let mut loss = LossModel::new(config.loss.clone())?;
        loss.set_limits(limits.min, limits.max);
        let aimd = AimdConfig { min: limits.min, max: config.aimd.max.max(limits.max), ..config.aimd };
        let reports = ReportConfig { min: limits.min, max: limits.max, ..config.reports };
        Ok(Self {
            delay: DelayEstimator::new(config.delay)?,
            aimd: Aimd::new(aimd, limits.start),
            by_arrival: ByArrival::default(),
            throughput: RobustThroughput::new(config.throughput),
            application_limited: ApplicationLimited::new(config.application_limited),
            probing: Probing::new(config.probing),
            probe_rate: ProbeRate::new(config.probe_rate),
            loss,
            reports: ByReport::new(reports, limits.start),
            standing_queue: config.standing_queue.map(StandingQueue::new),
            push_back: config.push_back.map(PushBack::new),
            settled: Settled::new(limits, config.rtt),
            receiver_estimate: None,
            has_packet_reports: false,
            has_reports: false,
            delay_cause: Cause::Start,
            suppressed: false,
            config,
        })
    }

    /// The delay-based rate.
    pub fn delay_based(&self) -> DataRate {
        self.aimd.rate()
    }

    /// The received rate, if known.
    pub fn acknowledged(&self) -> Option<DataRate> {
        self.throughput.rate()
    }

    /// The current time. Starts the session if necessary.
    fn begin(&mut self, now: Timestamp) -> Timestamp {
        let (now, first) = self.settled.advance(now);
        self.suppressed = false;
        if first {
            self.start(now);
        }
        now
    }

    /// Starts at the start rate, with probes.
    fn start(&mut self, now: Timestamp) {
        let limits = self.config.limits;
        self.application_limited.on_estimate(limits.start);
        let outcome = self.probing.start(now, limits.start, Some(limits.max));
        self.note(outcome);
        let outcome = self.probing.on_allocation(now, Some(limits.max));
        self.note(outcome);
    }

    fn note(&mut self, outcome: ProbeOutcome) {
        self.suppressed |= outcome.cause().is_some();
    }

    fn on_packets(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let packets = feedback.packets;
        self.has_packet_reports = true;
        self.by_arrival.fill(packets);
        let times = self.by_arrival.packets().iter().map(|packet| (packet.sent, packet.arrival));
        if let Some(rtt) = feedback.rtt.or_else(|| propagation_of(now, times)) {
            self.settled.on_rtt(now, rtt);
            if feedback.rtt.is_some() || self.config.feedback_rtt {
                self.aimd.on_rtt(rtt);
            }
        }
        let limited = self.application_limited.since();
        self.probing.on_application_limited(now, limited);
        self.throughput.on_arrived(self.by_arrival.packets());
        let acknowledged = self.throughput.rate();
        let probes = packets.iter().filter(|packet| packet.sent.probe.is_some());
        let probe = probes.filter_map(|packet| self.probe_rate.on_packet(packet).rate()).last();
        self.by_arrival.order_simultaneous();
        self.delay.on_arrived(now, self.by_arrival.packets());
        if !self.by_arrival.packets().is_empty() {
            let full = self.full_queue(now, packets);
            let signal = if full.is_some() { Signal::OverUse } else { self.delay.signal() };
            let seen = Observation {
                delay: Detection { signal, ..self.delay.detection() },
                acknowledged,
                probe,
                application_limited: limited.is_some(),
            };
            let decision = self.aimd.update(now, &seen);
            if matches!(decision.cause, Cause::Probe { .. }) {
                self.reports.set_rate(now, decision.to);
            }
            self.delay_cause = full.map_or(decision.cause, |ratio| Cause::Loss { ratio });
            if decision.to < decision.from
                && let Some(queue) = &mut self.standing_queue
            {
                queue.on_decrease();
            }
        }
        if let Some(acknowledged) = acknowledged {
            self.loss.set_acknowledged(acknowledged);
        }
        self.loss.update(packets, Some(self.aimd.rate()), limited.is_some());
        if self.judges_reports() {
            self.reports.on_delay_based(now, Some(self.aimd.rate()));
            self.reports.on_time(now);
        }
    }

    /// Loss ratio, 0 to 1, if a queue that stays full loses packets.
    fn full_queue(&mut self, now: Timestamp, packets: &[PacketReport]) -> Option<f64> {
        let queue = self.standing_queue.as_mut()?;
        queue.on_packets(now, packets);
        queue.full()
    }

    /// Handles feedback without packet reports: a receiver report, or the receiver's estimate.
    fn on_others(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        if let Some(rtt) = feedback.rtt {
            self.aimd.on_rtt(rtt);
        }
        // Once packets have been reported, missing packet reports count as missing feedback, even if receiver
        // reports arrive.
        if self.has_packet_reports {
            if let Some(report) = feedback.loss.filter(|_| self.judges_reports()) {
                self.on_loss(now, &report, feedback.rtt);
            }
            return;
        }
        if let Some(rtt) = feedback.rtt {
            self.settled.on_rtt(now, rtt);
        }
        self.has_reports = true;
        self.settled.on_report(now);
        self.reports.on_delay_based(now, self.receiver_estimate);
        match &feedback.loss {
            Some(report) => self.on_loss(now, report, feedback.rtt),
            None => self.reports.on_time(now),
        }
    }

    fn on_loss(&mut self, now: Timestamp, report: &LossReport, rtt: Option<TimeDelta>) {
        let before = self.reports.rate();
        self.reports.on_report(now, report, rtt);
        if self.reports.rate() < before {
            self.settled.on_decrease(now);
        }
    }

    /// Whether the threshold rule decides on losses: the loss model needs some observations first
    /// (`LossBasedBandwidthEstimatorV2ReadyForUse`).
    fn judges_reports(&self) -> bool {
        !self.loss.is_ready()
    }

    /// Whether the loss-based rate comes from the threshold rule, which changes with time.
    fn follows_reports(&self) -> bool {
        self.has_reports && !self.has_packet_reports
    }

    /// The permitted rate and its cause.
    fn wanted(&self) -> (DataRate, Cause) {
        let (rate, cause) = if self.has_packet_reports {
            let delay_based = self.aimd.rate();
            // The loss model's rate changes once in an observation. It holds the target below a delay-based rate
            // that has risen since, even while losses have no effect.
            let (loss_based, cause) = if self.judges_reports() {
                (Some(self.reports.rate()), self.reports.cause())
            } else {
                (self.loss.estimate().rate, self.loss.cause())
            };
            match loss_based.filter(|&rate| rate < delay_based) {
                Some(rate) => (rate, cause.unwrap_or(self.delay_cause)),
                None => (delay_based, self.delay_cause),
            }
        } else {
            (self.reports.rate(), self.reports.cause().unwrap_or_default())
        };
        match self.receiver_estimate {
            Some(estimate) if estimate < rate => (estimate, Cause::ReceiverEstimate),
            Some(estimate) if estimate == rate && !self.has_packet_reports => {
                (estimate, Cause::ReceiverEstimate)
            }
            _ => (rate, cause),
        }
    }

    fn settle(&mut self, now: Timestamp, recovered: bool) {
        let (wanted, cause) = self.wanted();
        let moved = self.settled.settle(now, wanted, cause);
        if moved {
            self.application_limited.on_estimate(self.settled.target());
        }
        let outcome = self.probing.on_estimate(now, self.settled.target(), self.constraint());
        self.note(outcome);
        if recovered {
            let outcome = self.probing.on_recovered(now);
            self.note(outcome);
        }
        if self.suppressed && !moved {
            self.settled.on_suppressed();
        }
    }

    /// Reason not to send a probe (`GetBandwidthLimitedCause`).
    fn constraint(&self) -> Constraint {
        if self.delay.signal() != Signal::Normal {
            return Constraint::Delay;
        }
        if self.settled.is_too_long() {
            return Constraint::Rtt;
        }
        match self.loss.estimate().state {
            LossState::DelayBased => Constraint::None,
            LossState::Increasing => Constraint::LossRising,
            LossState::IncreasingWithPadding | LossState::Decreasing => Constraint::LossFalling,
        }
    }
}

/// Why a second construction from the same configuration cannot fail.
const VALIDATED: &str = "the configuration was validated when the controller was made";

impl Controller for Libwebrtc {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        let now = self.begin(now);
        self.settled.on_sent(now);
        if self.application_limited.on_sent(now, packet.size) {
            self.probing.on_application_limited(now, self.application_limited.since());
        }
        if let Some(push_back) = &mut self.push_back {
            push_back.on_sent(now, self.settled.target(), packet.in_flight);
        }
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.begin(now);
        // As in libwebrtc (`UpdateReceiverEstimate`), zero is no limit.
        self.receiver_estimate =
            feedback.receiver_estimate.or(self.receiver_estimate).filter(|&rate| rate > DataRate::ZERO);
        let recovered = if feedback.packets.is_empty() {
            self.on_others(now, feedback);
            false
        } else {
            self.on_packets(now, feedback);
            self.delay.recovered()
        };
        self.settle(now, recovered);
        if let Some(push_back) = &mut self.push_back
            && !feedback.packets.is_empty()
        {
            let arrived = feedback.packets.iter().filter(|packet| packet.arrival.is_some());
            let rtt = arrived.map(|packet| now - packet.sent.at).max();
            push_back.on_feedback(now, self.settled.target(), rtt, feedback.in_flight);
        }
    }

    fn on_timeout(&mut self, now: Timestamp, _queue: &QueueState) {
        let now = self.begin(now);
        self.settled.on_processed(now);
        self.probing.on_application_limited(now, self.application_limited.since());
        if self.follows_reports() {
            self.reports.on_time(now);
        }
        let outcome = self.probing.on_timeout(now);
        self.note(outcome);
        self.settle(now, false);
        if let Some(push_back) = &mut self.push_back {
            push_back.on_timeout(now, self.settled.target());
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let look = self.follows_reports().then(|| self.settled.processed() + self.config.process_interval);
        self.settled.deadline(self.config.process_interval, [self.probing.next_timeout(), look])
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        let limits = limits.ordered();
        let old = core::mem::replace(&mut self.config.limits, limits);
        if !self.settled.has_begun() {
            *self = Self::new(self.config.clone()).expect(VALIDATED);
            return;
        }
        let now = self.begin(now);
        self.loss.set_limits(limits.min, limits.max);
        self.aimd.set_limits(limits.min, self.config.aimd.max.max(limits.max));
        self.reports.set_limits(limits.min, limits.max);
        if self.settled.set_limits(limits) {
            self.application_limited.on_estimate(self.settled.target());
        }
        if limits.max != old.max {
            // As in libwebrtc's ProbeController::SetBitrates, an increased maximum is probed.
            let outcome = self.probing.start(now, DataRate::ZERO, Some(limits.max));
            self.note(outcome);
            let outcome = self.probing.on_allocation(now, Some(limits.max));
            self.note(outcome);
        }
        self.settle(now, false);
    }

    /// As libwebrtc's `GoogCcNetworkController::OnNetworkRouteChange`: all estimates are reset, and the
    /// initial probes are sent again. Whether the sender is application-limited and which feedback it gets do
    /// not depend on the path and are kept; so packets are still paced at 1.1 times the target. The start rate is that of the limits: only
    /// the field trial `WebRTC-Bwe-SafeResetOnRouteChange` limits it to what was sent or acknowledged before.
    fn on_route_change(&mut self, now: Timestamp) {
        let Some((now, settled)) = self.settled.on_route_change(now, self.config.limits) else { return };
        let fresh = Self { settled, ..Self::new(self.config.clone()).expect(VALIDATED) };
        let old = core::mem::replace(self, fresh);
        self.application_limited = old.application_limited;
        self.has_packet_reports = old.has_packet_reports;
        self.has_reports = old.has_reports;
        self.probing = old.probing;
        self.probing.reset();
        self.start(now);
    }

    fn requirements(&self) -> Requirements {
        Requirements { pacer: self.config.pacer, ..Self::REQUIREMENTS }
    }

    fn target(&self) -> Target {
        let media = self.settled.target();
        let factor =
            if self.has_packet_reports { self.config.pacing } else { self.config.pacing_before_feedback };
        let pads = self.loss.estimate().state == LossState::IncreasingWithPadding;
        Target {
            media,
            pacing: scaled(media, factor),
            padding: match &self.push_back {
                _ if !pads => DataRate::ZERO,
                Some(push_back) => push_back.pushed(media).max(self.config.limits.min),
                None => media,
            },
            window: None,
        }
    }

    fn frame_drop_interval(&self) -> Option<u32> {
        let push_back = self.push_back.as_ref()?;
        push_back.frame_drop_interval(self.settled.target(), self.config.limits.min)
    }

    fn next_probe(&mut self) -> Option<Probe> {
        let probe = self.probing.next_probe()?;
        self.probe_rate.on_probe(&probe);
        Some(probe)
    }

    crate::controller::answers!(settled, with its own requirements);
}
