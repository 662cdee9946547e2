//! What a person did that the program cannot follow.

use crate::scenario::ScenarioError;

/// A flag, an address or a file that cannot be used: ends the command with exit status 2.
///
/// The text names the thing, the value and the mend, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    /// An error with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<ScenarioError> for UsageError {
    fn from(error: ScenarioError) -> Self {
        Self(error.problems().join("\nerror: "))
    }
}
