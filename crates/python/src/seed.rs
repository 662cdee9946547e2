//! Random seeds.

use pyo3::{Borrowed, exceptions::PyOverflowError, prelude::*};

use crate::error::value_error;

/// A random seed: an integer from 0 to 2^64 - 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed(pub(crate) u64);

impl FromPyObject<'_, '_> for Seed {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        given.extract().map(Self).map_err(|error| {
            if error.is_instance_of::<PyOverflowError>(given.py()) {
                value_error(format!("seed: must be 0 to 2^64 - 1, found {}", *given))
            } else {
                error
            }
        })
    }
}
