//! The constants of every part, and what is wrong with some values of them.

use crate::{
    control::{
        Limits,
        gcc::{
            delay::{DelayConfig, DelayConfigError},
            loss::{InvalidConfig, ModelConfig, ReportConfig},
            rate::{
                AimdConfig, ApplicationLimitedConfig, ProbeRateConfig, ProbingConfig, RobustThroughputConfig,
                RoundTripConfig,
            },
        },
    },
    units::TimeDelta,
};

/// What is settable of [`Libwebrtc`](super::Libwebrtc). The defaults are libwebrtc's, part by part, in its state of July 2026.
#[derive(Debug, Clone, PartialEq)]
pub struct LibwebrtcConfig {
    /// Within what the target may move, and where it begins. They prevail over the limits in the parts. The media is taken to be
    /// able to use all of the most: so far do probes go.
    pub limits: Limits,
    /// What the delay says.
    pub delay: DelayConfig,
    /// What rate the delay permits.
    pub aimd: AimdConfig,
    /// What arrives.
    pub throughput: RobustThroughputConfig,
    /// Whether the sender uses what it may.
    pub application_limited: ApplicationLimitedConfig,
    /// When to probe. To probe while the sender is limited by its application is off, as in libwebrtc, where an application has to
    /// ask for it (`StreamsConfig::requests_alr_probing`); it does so for screens. See
    /// [`probe_while_limited`](ProbingConfig::probe_while_limited).
    pub probing: ProbingConfig,
    /// What a probe shows.
    pub probe_rate: ProbeRateConfig,
    /// What losses allow, by what became of each packet.
    pub loss: ModelConfig,
    /// What losses allow, by receiver reports: in force until the first feedback of packets.
    pub reports: ReportConfig,
    /// What is done about a long round trip, or none.
    pub round_trip: RoundTripConfig,
    /// The pacing rate in targets before there is any feedback of packets. Default 2.5 (`goog_cc_network_control.cc`).
    pub pacing_before_feedback: f64,
    /// The pacing rate in targets thereafter. Default 1.1 (`goog_cc_network_control.cc`).
    pub pacing: f64,
    /// The time between two looks at what needs looking after. Default 25 ms (`goog_cc_factory.cc`, `kUpdateIntervalMs`).
    pub process_interval: TimeDelta,
}

impl LibwebrtcConfig {
    /// The defaults, within `limits`.
    pub fn within(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether every constant is within its range.
    ///
    /// # Errors
    ///
    /// Names the first constant that is not.
    pub fn validate(&self) -> Result<(), GccConfigError> {
        self.delay.validate()?;
        self.loss.validate()?;
        for (name, found) in
            [("pacing_before_feedback", self.pacing_before_feedback), ("pacing", self.pacing)]
        {
            if !(found.is_finite() && found > 0.0) {
                return Err(GccConfigError::Pacing { name, found });
            }
        }
        Ok(())
    }
}

impl Default for LibwebrtcConfig {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            delay: DelayConfig::libwebrtc(),
            aimd: AimdConfig::libwebrtc(),
            throughput: RobustThroughputConfig::default(),
            application_limited: ApplicationLimitedConfig::default(),
            probing: ProbingConfig::default(),
            probe_rate: ProbeRateConfig::default(),
            loss: ModelConfig::default(),
            reports: ReportConfig::libwebrtc(),
            round_trip: RoundTripConfig::default(),
            pacing_before_feedback: 2.5,
            pacing: 1.1,
            process_interval: TimeDelta::from_millis(25),
        }
    }
}

/// A constant of Google Congestion Control is outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GccConfigError {
    /// One of the delay part.
    #[error(transparent)]
    Delay(#[from] DelayConfigError),
    /// One of the loss model.
    #[error(transparent)]
    Loss(#[from] InvalidConfig),
    /// One of the pacing factors.
    #[error("Google congestion control: {name} must be above 0, found {found}")]
    Pacing {
        /// Which.
        name: &'static str,
        /// What it is.
        found: f64,
    },
}
