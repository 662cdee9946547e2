//! Simulated runs: a scenario in, a result out.

pub(crate) mod build;
mod expect;
pub(crate) mod media;
pub mod page;
pub mod result;
mod run;
pub mod show;
pub mod trace_file;

pub use run::{names, run, run_watched};
