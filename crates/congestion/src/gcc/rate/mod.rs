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
//! | reduction at a high RTT | [`round_trip`] |
//! | fewer frames at a stall | [`push_back`] |
//!
//! Sources: *draft* is draft-ietf-rmcat-gcc-02 (July 2016); *libwebrtc* is its `goog_cc` in the state of July
//! 2026, without field trials; *thesis* is the draft with the parameters of a student's simulation
//! ([`AimdConfig::thesis`]).

pub mod aimd;
pub mod application_limited;
pub mod capacity;
pub mod convergence;
pub mod probe_rate;
pub mod probing;
pub mod push_back;
pub mod round_trip;
pub mod throughput;
pub mod windowed;

pub use aimd::{Aimd, AimdConfig, DelayReading, Near, Observation, State};
pub use application_limited::{ApplicationLimited, ApplicationLimitedConfig};
pub use capacity::{Capacity, CapacityConfig};
pub use convergence::{Convergence, ConvergenceConfig};
pub use probe_rate::{ProbeRate, ProbeRateConfig, ProbeResult};
pub use probing::{Constraint, ProbeOutcome, Probing, ProbingConfig};
pub use push_back::{PushBack, PushBackConfig};
pub use round_trip::{RoundTripBackOff, RoundTripConfig};
pub use throughput::{RobustThroughput, RobustThroughputConfig};
pub use windowed::WindowedRate;
