//! Simulated runs: one scenario, several controllers side by side, sweeps.

pub(crate) mod build;
pub mod comparison;
mod describe;
pub(crate) mod expect;
pub(crate) mod media;
mod parallel;
mod shard;
pub(crate) mod simulate;
pub mod sweep;
mod taps;
pub mod timed;

pub use parallel::{Parallel, ThreadsError};
pub use shard::Shard;
pub use simulate::{RecordOptions, simulate, simulate_watched, simulate_with};
pub use taps::{End, MediaFlow, Taps};
