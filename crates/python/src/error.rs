//! How errors become Python exceptions.

use giusto::{
    benchmark::{MergeError, PlanError},
    call::{self, CallRunError},
    environment::EnvironmentError,
    run::{
        ThreadsError,
        sweep::{JournalError, PartError},
    },
    scenario::ScenarioError as Problems,
    whole_file::WriteError,
};
use pyo3::{
    PyErr, create_exception,
    exceptions::{PyConnectionError, PyOSError, PyRuntimeError, PyValueError},
};

create_exception!(
    giusto,
    ScenarioError,
    PyValueError,
    "A scenario that cannot be run. The text has one line for each problem, with its place and the fix."
);

/// An error of giusto on its way to Python.
pub(crate) struct Failure(PyErr);

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        failure.0
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

/// The result of a function for Python.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// Maps error types to exceptions that have their text.
macro_rules! exceptions {
    ($($error:ty => $exception:ty),+ $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self(<$exception>::new_err(error.to_string()))
            }
        })+
    };
}

exceptions! {
    Problems => ScenarioError,
    PlanError => PyValueError,
    call::PlanError => PyValueError,
    MergeError => PyValueError,
    ThreadsError => PyRuntimeError,
    WriteError => PyOSError,
    arrow_schema::ArrowError => PyRuntimeError,
}

impl From<EnvironmentError> for Failure {
    fn from(error: EnvironmentError) -> Self {
        let text = error.to_string();
        Self(match error {
            EnvironmentError::Scenario(_) => ScenarioError::new_err(text),
            EnvironmentError::Threads(_) | EnvironmentError::NoEpisode => PyRuntimeError::new_err(text),
            _ => PyValueError::new_err(text),
        })
    }
}

impl From<CallRunError> for Failure {
    fn from(error: CallRunError) -> Self {
        let text = error.to_string();
        Self(match error {
            CallRunError::Offer(_) => PyValueError::new_err(text),
            CallRunError::Refused { .. } => PyConnectionError::new_err(text),
            CallRunError::Media(_) | CallRunError::Interrupted => PyRuntimeError::new_err(text),
            _ => PyOSError::new_err(text),
        })
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let text = error.to_string();
        Self(match error {
            JournalError::Io { .. } => PyOSError::new_err(text),
            _ => PyValueError::new_err(text),
        })
    }
}

impl From<PartError> for Failure {
    fn from(error: PartError) -> Self {
        match error {
            PartError::Journal(error) => error.into(),
            PartError::Io { .. } => Self(PyOSError::new_err(error.to_string())),
            _ => Self(value_error(error.to_string())),
        }
    }
}

/// A `ValueError` with this text.
pub(crate) fn value_error(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}
