//! Errors of usage.

use giusto::{measured::plan::StreamPlanError, scenario::ScenarioError};

/// A flag, an address or a file that cannot be used: the command ends with exit status 2.
///
/// The text names the flag, the value and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

impl UsageError {
    /// An error with this text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// An error of this flag.
    pub(crate) fn flag(flag: &str, error: &impl ToString) -> Self {
        Self(format!("{flag}: {}", error.to_string()))
    }
}

impl From<ScenarioError> for UsageError {
    fn from(error: ScenarioError) -> Self {
        Self(error.problems().join("\nerror: "))
    }
}

impl From<StreamPlanError> for UsageError {
    fn from(error: StreamPlanError) -> Self {
        match &error {
            StreamPlanError::PayloadTooSmall { .. } | StreamPlanError::PayloadTooLarge { .. } => {
                Self::flag("--size", &error)
            }
            _ => Self(error.to_string()),
        }
    }
}
