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
    #[expect(clippy::needless_pass_by_value, reason = "errors are passed by `map_err`")]
    pub(crate) fn new(text: impl ToString) -> Self {
        Self(text.to_string())
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
        Self(error.problems().join("\nerror: "))
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
        Self(format!("{flag}{error}"))
    }
}
