//! Simulated runs: a scenario in, a result out.

pub mod result;
