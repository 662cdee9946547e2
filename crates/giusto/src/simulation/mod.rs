//! Simulated runs: a scenario in, a result out.

pub(crate) mod build;
pub mod decision;
mod expect;
pub(crate) mod media;
pub mod page;
pub mod result;
mod run;
pub mod show;
pub mod trace_file;
pub mod why;

pub use run::{names, run, run_watched};
