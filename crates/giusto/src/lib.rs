//! Experiments, reports and the `giusto` command.

pub mod peer;
pub mod report;
pub mod result;
pub mod table;
