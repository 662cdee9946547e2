//! `gcc:draft-02`: Google Congestion Control at the sender, as specified in draft-ietf-rmcat-gcc-02.
//!
//! # What the draft leaves open
//!
//! | question | the draft | here |
//! |---|---|---|
//! | interval of the loss rule | each feedback message (§6) | once a second ([`Config::loss_interval`]) |
//! | received rate before it is measured | – | the start rate; after a pause of a window, the latest |
//! | received rate where feedback is lost | measured by the receiver | packets that no message covers count like those of the next one |
//! | over-use while m falls | "will not be signaled" (§5.4) | the signal stays what it was, as in libwebrtc; it ends at the threshold |
//! | variance of the received rate at decreases | "smoothing factor" (§5.5), no recursion | `v = 0.95 (v + 0.05 d²)` |
//! | step of the threshold | over the time between two groups (§5.4) | over at most 100 ms, as in libwebrtc |
//! | over-use | for 10 ms (§5.4) | for 10 ms and at least two groups, as in libwebrtc |
//! | jumps of a clock | – | the estimator is reset, as in libwebrtc |
//! | initial variance of the noise | – | 1 ms², its minimum |
//! | high RTT, missing feedback | – | libwebrtc's back-off ([`Config::rtt`]) |

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    delay::{DelayConfig, DelayConfigError, DelayEstimator},
    loss::{ByReport, ReportConfig},
    rate::{Aimd, AimdConfig, Observation, RttConfig, WindowedRate, rtt::propagation},
    settled::{PROCESS, Settled},
};
use crate::{
    controller::Controller,
    feedback::{Feedback, LossReport, PacketReport, QueueState, SentPacket},
    limits::Limits,
    requirements::{PacerSettings, Requirements},
    target::{Cause, Target},
};

giusto_units::defaults! {
    /// Configuration of [`Draft`].
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Config {
        /// Range and initial value of the target. They override the limits of the parts.
        pub limits: Limits = limits,
        /// The delay detector (§5.1 to §5.4).
        pub delay: DelayConfig = DelayConfig::draft_02(),
        /// The delay-based rate (§5.5).
        pub aimd: AimdConfig = AimdConfig::draft(),
        /// The window `T` of the received rate. Default 1 s (§5.5: "between 0.5 and 1 second").
        pub window: TimeDelta = TimeDelta::from_seconds(1),
        /// The loss-based rate (§6).
        pub reports: ReportConfig = ReportConfig::draft(),
        /// Interval of loss reports, if the feedback reports single packets. Default 1 s.
        ///
        /// §6 runs the rule with every feedback message. Its thresholds, 2 % and 10 %, and its growth of 5 % suit
        /// receiver reports, which cover a second of video or more. Feedback every 50 ms covers a dozen packets.
        /// One lost packet would be 8 %, and the rate could grow by 165 % per second.
        pub loss_interval: TimeDelta = TimeDelta::from_seconds(1),
        /// Reaction to a high RTT or missing feedback. The draft specifies none and would never stop sending: the
        /// defaults are libwebrtc's.
        pub rtt: RttConfig = RttConfig::default(),
    }
    /// `gcc:draft-02`: the draft, within `limits`.
    pub fn within(limits: Limits);
}

impl Config {
    /// `gcc:draft-02+giusto`: the draft, with the delay trend amplified by up to 60 as in implementations
    /// ([`DelayConfig::draft_02_amplified`]). Without amplification the filter does not detect small
    /// overloads. With it a delay that falls by 380 ms at once, such as on a shorter route that the sender is not told of, is an under-use,
    /// in which the rate holds (§5.5), for 130 to 430 groups: at 30 kbit/s for two minutes.
    pub fn giusto(limits: Limits) -> Self {
        Self { delay: DelayConfig::draft_02_amplified(), ..Self::within(limits) }
    }
}

/// Two independent controllers; the target is the minimum of their rates (draft-ietf-rmcat-gcc-02 §3, §5,
/// §6). There are no probes, and packets are sent at the target rate (§4).
#[derive(Debug, Clone)]
pub struct Draft {
    config: Config,
    delay: DelayEstimator,
    aimd: Aimd,
    arrived: WindowedRate,
    reports: ByReport,
    settled: Settled,
    delay_cause: Cause,
    losses: Losses,
}

/// Packets reported since the last loss report.
#[derive(Debug, Clone, Copy)]
struct Losses {
    interval: TimeDelta,
    since: Option<Timestamp>,
    expected: u64,
    lost: u64,
    /// The highest number that was reported.
    highest: Option<u64>,
}

impl Losses {
    /// Adds `packets`. Returns a loss report when the interval is over.
    fn take(&mut self, now: Timestamp, packets: &[PacketReport]) -> Option<LossReport> {
        let since = *self.since.get_or_insert(now);
        self.expected += packets.len() as u64;
        self.lost += packets.iter().filter(|packet| packet.arrival.is_none()).count() as u64;
        if now.saturating_since(since) < self.interval || self.expected == 0 {
            return None;
        }
        let report =
            LossReport { ratio: self.lost as f64 / self.expected as f64, expected_packets: self.expected };
        *self = Self { since: Some(now), expected: 0, lost: 0, ..*self };
        Some(report)
    }

    /// Size of the packets below those of a message that no message covers, if they arrived like these.
    fn uncovered(&mut self, packets: &[PacketReport]) -> DataSize {
        let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return DataSize::ZERO };
        let before = self.highest.replace(self.highest.unwrap_or(0).max(last.sent.sequence));
        let missing = before.map_or(0, |before| first.sent.sequence.saturating_sub(before.saturating_add(1)));
        let arrived = packets.iter().filter(|packet| packet.arrival.is_some());
        let size = arrived.fold(DataSize::ZERO, |size, packet| size + packet.sent.size);
        let mean = size.as_bytes() as f64 / packets.len() as f64;
        DataSize::from_bytes((mean * missing as f64) as u64)
    }
}

impl Draft {
    /// Its requirements: packets are sent in groups every 5 ms (§4).
    pub const REQUIREMENTS: Requirements =
        Requirements { pacer: PacerSettings::GCC_DRAFT, ..Requirements::DEFAULT };

    /// A controller before the first packet.
    ///
    /// # Errors
    ///
    /// A constant of the delay part is out of range.
    pub fn new(config: Config) -> Result<Self, DelayConfigError> {
        let limits = config.limits.ordered();
        let aimd = AimdConfig { min: limits.min, max: limits.max, ..config.aimd };
        let reports = ReportConfig { min: limits.min, max: limits.max, ..config.reports };
        Ok(Self {
            delay: DelayEstimator::new(config.delay)?,
            aimd: Aimd::new(aimd, limits.start),
            arrived: WindowedRate::new(config.window),
            reports: ByReport::new(reports, limits.start),
            settled: Settled::new(limits, config.rtt),
            delay_cause: Cause::Start,
            losses: Losses {
                interval: config.loss_interval,
                since: None,
                expected: 0,
                lost: 0,
                highest: None,
            },
            config: Config { limits, ..config },
        })
    }

    /// The delay-based rate.
    pub fn delay_based(&self) -> DataRate {
        self.aimd.rate()
    }

    /// The loss-based rate.
    pub fn loss_based(&self) -> DataRate {
        self.reports.rate()
    }

    fn on_packets(&mut self, now: Timestamp, packets: &[PacketReport]) {
        self.arrived.on_unreported(self.losses.uncovered(packets));
        for packet in packets {
            if let Some(arrival) = packet.arrival {
                self.arrived.on_packet(arrival, packet.sent.size);
            }
        }
        self.delay.on_packets(now, packets);
        let arrived = packets.iter().any(|packet| packet.arrival.is_some());
        if arrived {
            let seen = Observation {
                delay: self.delay.detection(),
                acknowledged: self.arrived.rate(),
                ..Observation::default()
            };
            self.delay_cause = self.aimd.update(now, &seen).cause;
        }
    }

    fn settle(&mut self, now: Timestamp) {
        let (by_delay, by_loss) = (self.aimd.rate(), self.reports.rate());
        if by_loss < by_delay {
            self.settled.settle(now, by_loss, self.reports.cause().unwrap_or_default());
        } else {
            self.settled.settle(now, by_delay, self.delay_cause);
        }
    }
}

/// Why a second construction from the same configuration cannot fail.
const VALIDATED: &str = "the configuration was validated when the controller was made";

impl Controller for Draft {
    fn on_sent(&mut self, now: Timestamp, _packet: &SentPacket) {
        let (now, _) = self.settled.advance(now);
        self.settled.on_sent(now);
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let (now, _) = self.settled.advance(now);
        let rtt = feedback.rtt.or_else(|| propagation(now, feedback.packets));
        // Packet reports contain more than a receiver report. The receiver report would count the same losses
        // again, and would hide that packet reports are missing.
        let by_packets = !feedback.packets.is_empty() || self.losses.since.is_some();
        if let Some(rtt) = rtt {
            self.aimd.on_rtt(rtt);
            if !by_packets || !feedback.packets.is_empty() {
                self.settled.on_rtt(now, rtt);
            }
        }
        let report = if by_packets { self.losses.take(now, feedback.packets) } else { feedback.loss };
        self.on_packets(now, feedback.packets);
        if let Some(report) = report {
            self.reports.on_report(now, &report, rtt);
        }
        self.settle(now);
    }

    fn on_timeout(&mut self, now: Timestamp, _queue: &QueueState) {
        let (now, _) = self.settled.advance(now);
        self.settled.on_processed(now);
        self.settle(now);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.settled.deadline(PROCESS, [None, None])
    }

    fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        let limits = limits.ordered();
        self.config.limits = limits;
        if !self.settled.has_begun() {
            *self = Self::new(self.config).expect(VALIDATED);
            return;
        }
        self.settled.advance(now);
        self.aimd.set_limits(limits.min, limits.max);
        self.reports.set_limits(limits.min, limits.max);
        self.settled.set_limits(limits);
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if let Some((_, settled)) = self.settled.on_route_change(now, self.config.limits) {
            *self = Self { settled, ..Self::new(self.config).expect(VALIDATED) };
        }
    }

    fn target(&self) -> Target {
        let media = self.settled.target();
        Target { media, pacing: media, ..Target::default() }
    }

    crate::controller::answers!(settled);
}

#[cfg(test)]
mod tests;
