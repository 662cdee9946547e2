//! The constants of every part, and what is wrong with some values of them.

use giusto_units::{DataRate, TimeDelta};

use crate::{
    Limits,
    gcc::{
        delay::{DelayConfig, DelayConfigError},
        loss::{InvalidConfig, ModelConfig, ReportConfig},
        rate::{
            AimdConfig, ApplicationLimitedConfig, ProbeRateConfig, ProbingConfig, RobustThroughputConfig,
            RoundTripConfig,
        },
    },
};

/// What is settable of [`Libwebrtc`](super::Libwebrtc). The defaults are libwebrtc's in its state of July 2026, part by part,
/// but for two constants of [`loss`](Self::loss). A third deviation is the pacer's: see
/// [`ControllerKind::pacer`](crate::ControllerKind::pacer). [`literal`](Self::literal) has none of them.
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
    /// What losses allow, by what became of each packet. It deviates from libwebrtc in two constants: more bandwidth is preferred up
    /// to a loss of 0.5 ([`preference_threshold`](ModelConfig::preference_threshold); libwebrtc 0.2), and the instant upper bound is
    /// 200 kbit/s over the loss beyond 5 % ([`upper_bound_balance`](ModelConfig::upper_bound_balance); libwebrtc 100 kbit/s).
    ///
    /// With libwebrtc's, a sender that obeys cannot live with a fifth of random loss. Its bound is then 667 kbit/s, where the average
    /// of the few packets of an observation is above 0.2 as often as below; above, the model dislikes bandwidth, and each fall leaves
    /// fewer packets and more noise, down to 20 or 30 kbit/s for good. On a link of 3 Mbit/s that loses 20 % at random, these two
    /// give some 0.7 Mbit/s; up to 5 % they change hardly anything, and where a queue overflows they take hold a little later.
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
    /// libwebrtc's own constants throughout.
    pub fn literal(limits: Limits) -> Self {
        Self { loss: ModelConfig::default(), ..Self::within(limits) }
    }

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
            loss: ModelConfig {
                preference_threshold: 0.5,
                upper_bound_balance: DataRate::from_bps(200_000),
                ..ModelConfig::default()
            },
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
