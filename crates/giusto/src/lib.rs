//! Experiments, reports and the `giusto` command.
