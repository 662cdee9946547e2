//! Rate control of Google Congestion Control: how the rate changes with the delay signal.
//!
//! The parts are independent. Each handles events with their time and returns results. None calls another,
//! except that [`aimd`] asks either [`capacity`] or [`convergence`] whether the rate is near the capacity.
//! Time that runs backwards counts as no time.
//!
//! | task | module |
//! |---|---|
//! | delay-based rate | [`aimd`] |
//! | estimate of the capacity, as in libwebrtc | [`capacity`] |
//! | estimate of the capacity, as in the draft | [`convergence`] |
//! | received rate | [`throughput`]; as in the draft: [`windowed`] |
//! | detection of an application-limited sender | [`application_limited`] |
//! | decision when to probe | [`probing`] |
//! | result of a probe | [`probe_rate`] |
//! | reduction at a high RTT | [`rtt`] |
//! | fewer frames at a stall | [`push_back`] |
//!
//! Sources: *draft* is draft-ietf-rmcat-gcc-02 (July 2016); *libwebrtc* is its `goog_cc` in the state of July
//! 2026, without field trials; *thesis* is the draft with the parameters of a student's simulation
//! ([`AimdConfig::thesis`]).

mod aimd;
mod application_limited;
mod capacity;
mod convergence;
mod probe_rate;
mod probing;
mod push_back;
pub(crate) mod rtt;
mod throughput;
mod windowed;

pub(crate) use aimd::{Aimd, Observation};
pub use aimd::{AimdConfig, Near};
pub(crate) use application_limited::ApplicationLimited;
pub use application_limited::ApplicationLimitedConfig;
pub use capacity::CapacityConfig;
pub use convergence::ConvergenceConfig;
pub(crate) use probe_rate::ProbeRate;
pub use probe_rate::ProbeRateConfig;
pub use probing::ProbingConfig;
pub(crate) use probing::{Constraint, ProbeOutcome, Probing};
pub(crate) use push_back::PushBack;
pub use push_back::PushBackConfig;
pub(crate) use rtt::RttBackOff;
pub use rtt::RttConfig;
pub(crate) use throughput::RobustThroughput;
pub use throughput::RobustThroughputConfig;
pub(crate) use windowed::WindowedRate;
