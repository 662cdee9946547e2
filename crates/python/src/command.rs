//! The `giusto` command.

use std::{ffi::OsString, process::ExitCode};

use pyo3::prelude::*;

/// Runs the `giusto` command; returns its exit status.
///
/// Parameters
/// ----------
/// words
///     The command line; the first word is the name of the command.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    let status = py.detach(|| giusto_cli::run(words));
    (0..=u8::MAX).find(|&code| ExitCode::from(code) == status).unwrap_or(u8::MAX)
}
