//! Errors of usage.

use std::{
    error::Error,
    io::{self, ErrorKind},
    iter,
};

use giusto::{measured::plan::StreamPlanError, scenario::ScenarioError};

/// A flag, an address or a file that cannot be used: the command ends with exit status 2.
///
/// The text names the flag, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct UsageError {
    text: String,
    /// Nothing is wrong but that a disk is full, which is a failure.
    is_full: bool,
}

impl UsageError {
    /// An error with this text.
    #[expect(clippy::needless_pass_by_value, reason = "errors are passed by `map_err`")]
    pub(crate) fn new(text: impl ToString) -> Self {
        Self { text: text.to_string(), is_full: false }
    }

    /// The file of a flag cannot be written.
    pub(crate) fn of_file(flag: &str, error: impl Error + 'static) -> Self {
        let causes = iter::successors(Some(&error as &(dyn Error + 'static)), |&error| error.source());
        let is_full = causes.into_iter().any(|error| {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
        });
        Self { text: format!("{flag} {error}"), is_full }
    }

    /// The exit status of the command.
    pub(crate) const fn status(&self) -> u8 {
        if self.is_full { 1 } else { 2 }
    }
}

/// Returns a [`UsageError`] with the formatted text.
macro_rules! misuse {
    ($($text:tt)*) => {
        return Err($crate::usage::UsageError::new(format!($($text)*)).into())
    };
}
pub(crate) use misuse;

impl From<ScenarioError> for UsageError {
    fn from(error: ScenarioError) -> Self {
        Self::new(error.problems().join("\nerror: "))
    }
}

impl From<StreamPlanError> for UsageError {
    fn from(error: StreamPlanError) -> Self {
        let flag = match &error {
            StreamPlanError::PayloadTooSmall { .. }
            | StreamPlanError::PayloadTooLarge { .. }
            | StreamPlanError::StampSize { .. } => "--size: ",
            _ => "",
        };
        Self::new(format!("{flag}{error}"))
    }
}
