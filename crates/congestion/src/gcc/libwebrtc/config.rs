//! Constants of all parts, and their validation.

use giusto_units::{DataRate, TimeDelta};

use crate::{
    gcc::{
        delay::{DelayConfig, DelayConfigError},
        loss::{InvalidConfig, ModelConfig, ReportConfig, StandingQueueConfig},
        rate::{
            AimdConfig, ApplicationLimitedConfig, ProbeRateConfig, ProbingConfig, PushBackConfig,
            RobustThroughputConfig, RttConfig,
        },
    },
    limits::Limits,
    requirements::PacerSettings,
};

giusto_units::defaults! {
    /// Configuration of [`Libwebrtc`](super::Libwebrtc). The defaults are libwebrtc's in its state of July 2026, part by part.
    #[derive(Debug, Clone, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct Config {
        /// Range and initial value of the target. They override the limits of the parts. The media is assumed to
        /// be able to use the maximum; probes go up to it.
        pub limits: Limits = Limits::default(),
        /// The delay detector.
        ///
        /// The threshold falls 4.5 times as fast as it rises, as in libwebrtc. A TCP flow that fills the same
        /// queue therefore finds the threshold at its minimum in each cycle, and each wave of its queue is over-use.
        /// A slower fall gives a fair share against TCP and misses queues in other cases.
        pub delay: DelayConfig = DelayConfig::libwebrtc(),
        /// The delay-based rate.
        pub aimd: AimdConfig = AimdConfig::libwebrtc(),
        /// The received rate.
        pub throughput: RobustThroughputConfig = RobustThroughputConfig::default(),
        /// Whether the sender is application-limited.
        pub application_limited: ApplicationLimitedConfig = ApplicationLimitedConfig::default(),
        /// When to probe. Probing while the sender is application-limited is off by default. In libwebrtc an
        /// application must enable it (`StreamsConfig::requests_alr_probing`), which it does for screen sharing.
        /// See [`probe_while_limited`](ProbingConfig::probe_while_limited).
        pub probing: ProbingConfig = ProbingConfig::default(),
        /// The rate that a probe measures.
        pub probe_rate: ProbeRateConfig = ProbeRateConfig::default(),
        /// The loss model, which uses the reports of single packets.
        pub loss: ModelConfig = ModelConfig::default(),
        /// The loss-based rate from receiver reports. Used until the first packet feedback.
        pub reports: ReportConfig = ReportConfig::libwebrtc(),
        /// Reaction to a high RTT or missing feedback.
        pub rtt: RttConfig = RttConfig::default(),
        /// Whether the delay-based rate uses the RTT of packet feedback. Default `false`: it uses the RTT of
        /// sender and receiver reports, which includes queueing delay, or 200 ms (`goog_cc_network_control.cc`,
        /// `OnRoundTripTimeUpdate`).
        pub feedback_rtt: bool = false,
        /// Reaction to losses from a queue that stays full. Default `None`: libwebrtc has none.
        pub standing_queue: Option<StandingQueueConfig> = None,
        /// Frames dropped while too much is in flight; `None`: none. Default: [`PushBackConfig::default`], as in libwebrtc.
        pub push_back: Option<PushBackConfig> = Some(PushBackConfig::default()),
        /// Pacing rate before the first packet feedback, as a multiple of the target. Default 2.5
        /// (`goog_cc_network_control.cc`).
        pub pacing_before_feedback: f64 = 2.5,
        /// Pacing rate after the first packet feedback, as a multiple of the target. Default 1.1
        /// (`goog_cc_network_control.cc`).
        pub pacing: f64 = 1.1,
        /// Pacer settings for the sender. Default: bursts of 40 ms (`pacing_controller.cc`).
        pub pacer: PacerSettings = PacerSettings::LIBWEBRTC,
        /// Interval of periodic processing. Default 25 ms (`goog_cc_factory.cc`, `kUpdateIntervalMs`).
        pub process_interval: TimeDelta = TimeDelta::from_millis(25),
    }
}

impl Config {
    /// `gcc:libwebrtc`: libwebrtc's constants, within `limits`.
    pub fn within(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// `gcc:libwebrtc+giusto`: libwebrtc with three different constants, another source of the RTT, and a
    /// reaction to full queues.
    ///
    /// - The loss threshold of the bandwidth preference is 0.5 instead of 0.2
    ///   ([`preference_threshold`](ModelConfig::preference_threshold)), and the instant upper bound is 200
    ///   kbit/s instead of 100 kbit/s over the loss beyond 5 %
    ///   ([`upper_bound_balance`](ModelConfig::upper_bound_balance)). With libwebrtc's constants, random loss
    ///   of 20 % lowers the rate too far: the bound is then 667 kbit/s, and the loss of an observation of few
    ///   packets often exceeds the threshold by chance. Each decrease leaves fewer packets and more noise. On
    ///   a link of 3 Mbit/s with 20 % random loss, our constants give two to four times the rate. Up to 5 %
    ///   loss they have almost no effect. When a queue overflows they react slightly later.
    /// - Packets are paced one by one instead of in bursts of 40 ms. A queue joins the bursts to trains,
    ///   which the grouping takes for groups of up to 100 ms. The detector then needs two seconds to fill its
    ///   window, and the queue is full before it reacts. On a clean link of 3 Mbit/s the 95th percentile of
    ///   the queueing delay is 40 ms instead of 120 ms.
    /// - Losses while a queue never drains count as over-use ([`standing_queue`](Self::standing_queue)).
    ///   A full queue has a constant delay, and up to 15 % loss at 1 Mbit/s the loss model takes for the path's
    ///   own: neither part then lowers the rate, and the link stays full.
    /// - The RTT of packet feedback, which is fresher than that of reports and excludes the wait at the
    ///   receiver, lets the rate fall again sooner.
    pub fn giusto(limits: Limits) -> Self {
        let loss = ModelConfig {
            preference_threshold: 0.5,
            upper_bound_balance: DataRate::from_bps(200_000),
            ..ModelConfig::default()
        };
        Self {
            loss,
            feedback_rtt: true,
            standing_queue: Some(StandingQueueConfig::default()),
            pacer: PacerSettings::SINGLE,
            ..Self::within(limits)
        }
    }

    /// Checks that every constant is within its range.
    ///
    /// # Errors
    ///
    /// Names the first constant that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.delay.validate()?;
        self.loss.validate()?;
        for (name, found) in
            [("pacing_before_feedback", self.pacing_before_feedback), ("pacing", self.pacing)]
        {
            if !(found.is_finite() && found > 0.0) {
                return Err(ConfigError::Pacing { name, found });
            }
        }
        Ok(())
    }
}

/// A constant of Google Congestion Control is out of range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A constant of the delay part.
    #[error(transparent)]
    Delay(#[from] DelayConfigError),
    /// A constant of the loss model.
    #[error(transparent)]
    Loss(#[from] InvalidConfig),
    /// A pacing factor.
    #[error("Google congestion control: {name} must be above 0, found {found}")]
    Pacing {
        /// The constant.
        name: &'static str,
        /// Its value.
        found: f64,
    },
}
