//! Simulated runs: a scenario in, a result out.

pub mod result;
pub mod trace_file;
