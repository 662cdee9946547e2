//! Experiments, reports and the `giusto` command.

pub mod report;
pub mod reproduce;
pub mod result;
pub mod table;
