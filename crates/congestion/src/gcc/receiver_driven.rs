//! `gcc:remb` and `gcc:rmcat-02`: sender of congestion control whose delay-based estimator is at the receiver.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    arithmetic::scaled,
    loss::{ByReport, Increase, ReportConfig},
    rate::RttConfig,
    settled::{PROCESS, Settled},
};
use crate::{
    controller::Controller,
    feedback::{Feedback, QueueState, SentPacket},
    limits::Limits,
    requirements::{FeedbackKind, Requirements},
    target::{Cause, Target},
};

giusto_units::defaults! {
    /// Configuration of [`ReceiverDriven`].
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Config {
        /// Range and initial value of the target. They override the limits of the loss rule.
        pub limits: Limits = limits,
        /// The loss-based rate.
        pub reports: ReportConfig = ReportConfig::libwebrtc(),
        /// Reaction to missing feedback. If no report arrives for [`limit`](RttConfig::limit) while packets
        /// are sent, the rate falls step by step. Default: after 3 s, which is three times the maximum interval
        /// of estimates (draft-ietf-rmcat-gcc-02 §4: once per second), so that two may be lost; then to 0.8 of
        /// the rate each second, as in libwebrtc (`send_side_bandwidth_estimation.cc`). The next report restores
        /// the permitted rate.
        pub silence: RttConfig = RttConfig::default(),
        /// Pacing rate as a multiple of the target; above 0. Default 2.5: as libwebrtc before the first packet
        /// feedback (`goog_cc_network_control.cc`).
        pub pacing: f64 = 2.5,
        /// Whether a decrease by losses ends at the rate of TCP.
        pub(crate) tcp_friendly: bool = false,
    }
    /// With libwebrtc's loss rule.
    pub fn within(limits: Limits);
}

impl Config {
    /// draft-alvestrand-rmcat-congestion-02 (February 2014), whose text is not to be had whole. Growth by 5 % with each report: as in its
    /// successor, draft-ietf-rmcat-gcc-02 §6. The other constants are those of libwebrtc of April 2014
    /// (`modules/bitrate_controller/send_side_bandwidth_estimation.cc`; its growth is 8 % at most each second; pacing:
    /// `video_engine/vie_encoder.cc`). The reaction to missing feedback is ours.
    pub(crate) fn rmcat_02(limits: Limits) -> Self {
        let reports = ReportConfig {
            increase: Increase::PerReport { factor: 1.05, plus: DataRate::from_bps(1000) },
            report_valid: TimeDelta::MAX,
            start_phase: TimeDelta::ZERO,
            ..ReportConfig::libwebrtc()
        };
        Self { reports, tcp_friendly: true, ..Self::within(limits) }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::within(Limits::default())
    }
}

/// Sends at the receiver's estimate, limited by losses.
///
/// The target is the minimum of the receiver's estimate (REMB) and a threshold rule on the losses
/// in receiver reports. Before the first estimate only the rule applies. The receiver decides how it computes
/// its estimate.
#[derive(Debug, Clone)]
pub struct ReceiverDriven {
    config: Config,
    reports: ByReport,
    settled: Settled,
    estimate: Option<DataRate>,
    reported: bool,
}

impl ReceiverDriven {
    /// What it requires of the sender and the receiver.
    pub const REQUIREMENTS: Requirements = Requirements {
        feedback: FeedbackKind::ReceiverEstimate,
        accepted: &[FeedbackKind::ReceiverEstimate, FeedbackKind::ReceiverReports],
        ..Requirements::DEFAULT
    };

    /// A controller before the first packet.
    pub fn new(config: Config) -> Self {
        let limits = config.limits.ordered();
        let reports = ReportConfig { min: limits.min, max: limits.max, ..config.reports };
        let rule = ByReport::new(reports, limits.start);
        Self {
            config: Config { limits, ..config },
            reports: if config.tcp_friendly { rule.tcp_friendly() } else { rule },
            settled: Settled::new(limits, config.silence),
            estimate: None,
            reported: false,
        }
    }

    /// The latest estimate of the receiver.
    pub fn receiver_estimate(&self) -> Option<DataRate> {
        self.estimate
    }

    /// The loss-based rate.
    pub fn loss_based(&self) -> DataRate {
        self.reports.rate()
    }

    fn settle(&mut self, now: Timestamp) {
        let by_loss = self.reports.rate();
        let (wanted, cause) = match self.estimate {
            // libwebrtc's rule is never above the estimate. If both are equal, the estimate is the cause.
            Some(estimate) if estimate <= by_loss => (estimate, Cause::ReceiverEstimate),
            _ => (by_loss, self.reports.cause().unwrap_or_default()),
        };
        self.settled.settle(now, wanted, cause);
    }
}

impl Controller for ReceiverDriven {
    fn on_sent(&mut self, now: Timestamp, _packet: &SentPacket) {
        let (now, _) = self.settled.advance(now);
        self.settled.on_sent(now);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let (now, _) = self.settled.advance(now);
        match feedback.rtt {
            Some(rtt) => self.settled.on_rtt(now, rtt),
            None => self.settled.on_report(now),
        }
        self.reported = true;
        // As in libwebrtc (`UpdateReceiverEstimate`), zero is no limit.
        self.estimate = feedback.receiver_estimate.or(self.estimate).filter(|&rate| rate > DataRate::ZERO);
        self.reports.on_delay_based(now, self.estimate);
        let before = self.reports.rate();
        match &feedback.loss {
            Some(report) => self.reports.on_report(now, report, feedback.rtt),
            None => self.reports.on_time(now),
        }
        if self.reports.rate() < before {
            self.settled.on_decrease(now);
        }
        self.settle(now);
    }

    fn on_timeout(&mut self, now: Timestamp, _queue: &QueueState) {
        let (now, _) = self.settled.advance(now);
        self.settled.on_processed(now);
        self.reports.on_time(now);
        self.settle(now);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let look = self.reported.then(|| self.settled.processed() + PROCESS);
        self.settled.deadline(PROCESS, [look, None])
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        let limits = limits.ordered();
        self.config.limits = limits;
        if !self.settled.has_begun() {
            *self = Self::new(self.config);
            return;
        }
        self.settled.advance(now);
        self.reports.set_limits(limits.min, limits.max);
        self.settled.set_limits(limits);
    }

    /// The receiver's estimate belongs to the old route: only losses limit the rate until the next estimate.
    fn on_route_change(&mut self, now: Timestamp) {
        if let Some((_, settled)) = self.settled.on_route_change(now, self.config.limits) {
            *self = Self { settled, ..Self::new(self.config) };
        }
    }

    fn target(&self) -> Target {
        let media = self.settled.target();
        Target { media, pacing: scaled(media, self.config.pacing), ..Target::default() }
    }

    crate::controller::answers!(settled);
}

#[cfg(test)]
mod tests;
