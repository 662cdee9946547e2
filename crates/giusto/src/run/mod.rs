//! Simulated runs: one scenario, several controllers side by side, sweeps.

pub(crate) mod build;
pub mod comparison;
mod describe;
pub(crate) mod expect;
pub(crate) mod media;
pub(crate) mod simulate;
pub mod sweep;
mod taps;

pub use simulate::{RecordOptions, simulate, simulate_watched, simulate_with};
pub use taps::{End, MediaFlow, Taps};
