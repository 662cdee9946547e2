//! The constants of every part, and what is wrong with some values of them.

use giusto_units::{DataRate, TimeDelta};

use crate::{
    gcc::{
        delay::{DelayConfig, DelayConfigError},
        loss::{InvalidConfig, ModelConfig, ReportConfig},
        rate::{
            AimdConfig, ApplicationLimitedConfig, ProbeRateConfig, ProbingConfig, RobustThroughputConfig,
            RoundTripConfig,
        },
    },
    limits::Limits,
    requirements::PacerSettings,
};

/// Configuration of [`Libwebrtc`](super::Libwebrtc). The defaults are libwebrtc's in its state of July 2026, part by part.
#[derive(Debug, Clone, PartialEq)]
pub struct LibwebrtcConfig {
    /// Within what the target may move, and where it begins. They prevail over the limits in the parts. The media is taken to be
    /// able to use all of the most: so far do probes go.
    pub limits: Limits,
    /// What the delay says.
    ///
    /// The threshold falls 4.5 times as fast as it rises, as in libwebrtc: a TCP flow that fills the same queue finds it at its least
    /// with each new wave. `docs/explanation/gcc.md` states the cost against TCP, and the cost of a slower fall elsewhere.
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
    /// The loss model, which uses the reports of single packets.
    pub loss: ModelConfig,
    /// What losses allow, by receiver reports: in force until the first feedback of packets.
    pub reports: ReportConfig,
    /// What is done about a long round trip, or none.
    pub round_trip: RoundTripConfig,
    /// The pacing rate in targets before there is any feedback of packets. Default 2.5 (`goog_cc_network_control.cc`).
    pub pacing_before_feedback: f64,
    /// The pacing rate in targets thereafter. Default 1.1 (`goog_cc_network_control.cc`).
    pub pacing: f64,
    /// How the sender should pace packets. Default: bursts of 40 ms (`pacing_controller.cc`).
    pub pacer: PacerSettings,
    /// Interval of periodic processing. Default 25 ms (`goog_cc_factory.cc`, `kUpdateIntervalMs`).
    pub process_interval: TimeDelta,
}

impl LibwebrtcConfig {
    /// `gcc:libwebrtc`: libwebrtc's constants, within `limits`.
    pub fn within(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// `gcc:libwebrtc+giusto`: libwebrtc with three other constants.
    ///
    /// - Bandwidth is preferred up to a loss of 0.5 instead of 0.2 ([`preference_threshold`](ModelConfig::preference_threshold)), and
    ///   the instant upper bound is 200 kbit/s instead of 100 kbit/s over the loss beyond 5 %
    ///   ([`upper_bound_balance`](ModelConfig::upper_bound_balance)). With libwebrtc's constants, random loss of 20 % lowers the rate
    ///   until it stays at 20 or 30 kbit/s: the bound is 667 kbit/s, the few packets of an observation exceed the threshold as often
    ///   as not, and each decrease leaves fewer packets and more noise. On a link of 3 Mbit/s with 20 % random loss these constants
    ///   give about 0.7 Mbit/s. Up to 5 % loss they change hardly anything; where a queue overflows they react a little later.
    /// - Packets are paced one by one instead of in bursts of 40 ms. A queue joins the bursts to trains, which the grouping takes for
    ///   groups of up to 100 ms; the detector then needs two seconds to fill its window, and the queue is full before it reacts. On a
    ///   clean link of 3 Mbit/s the 95th percentile of the queueing delay is 40 ms instead of 122 ms.
    pub fn giusto(limits: Limits) -> Self {
        let loss = ModelConfig {
            preference_threshold: 0.5,
            upper_bound_balance: DataRate::from_bps(200_000),
            ..ModelConfig::default()
        };
        Self { loss, pacer: PacerSettings::SINGLE, ..Self::within(limits) }
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
            pacer: PacerSettings::LIBWEBRTC,
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
