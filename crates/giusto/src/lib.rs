//! Experiments, reports and the `giusto` command.

pub mod result;
