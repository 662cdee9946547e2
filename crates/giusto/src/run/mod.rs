//! Simulated runs: one scenario, several controllers side by side, sweeps.

pub(crate) mod build;
pub mod comparison;
mod describe;
pub(crate) mod expect;
pub(crate) mod media;
mod notes;
#[cfg(feature = "system")]
mod parallel;
#[cfg(feature = "system")]
mod shard;
pub(crate) mod simulate;
#[cfg(feature = "system")]
pub mod sweep;
mod taps;
#[cfg(feature = "system")]
pub mod timed;

#[cfg(feature = "system")]
pub use parallel::{Parallel, ThreadsError};
#[cfg(feature = "system")]
pub use shard::Shard;
pub use simulate::{RecordOptions, simulate, simulate_watched, simulate_with};
pub use taps::{End, MediaFlow, Taps};
