//! Questions that cannot be answered.

use crate::scenario::ScenarioError;

/// A question that cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The scenario with its settings is not valid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Something else is wrong with the question.
    #[error("{0}")]
    Question(String),
}

impl ExploreError {
    /// Every problem, a sentence each.
    pub fn problems(&self) -> Vec<String> {
        match self {
            Self::Scenario(error) => error.problems().to_vec(),
            Self::Question(text) => vec![text.clone()],
        }
    }
}
