//! Guided lessons: a question about a scenario, changes to try, and the answer.

use super::setting::Setting;

/// The lesson that a scenario file teaches: its `[lesson]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lesson {
    /// A few words.
    pub title: String,
    /// What the reader should find out.
    pub question: String,
    /// What the reader can try, in order.
    pub steps: Vec<Step>,
    /// What the charts show, and why.
    pub answer: String,
}

/// A change of the scenario that a reader can try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What changes, and what to look at.
    pub text: String,
    /// The settings that make it of the file. The last one gives the expectations that hold with the change, in place of those of the
    /// file.
    pub settings: Vec<Setting>,
}
