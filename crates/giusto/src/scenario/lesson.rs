//! Guided lessons: a question about a scenario, changes to try, and the answer.

use serde::{Serialize, Serializer};

use super::setting::Setting;

/// The lesson that a scenario file teaches: its `[lesson]` table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lesson {
    /// A few words.
    pub title: String,
    /// What the reader should find out.
    pub question: String,
    /// Answers to choose from before the first run.
    pub guesses: Vec<String>,
    /// The number of the right one, from 1.
    pub right: u32,
    /// What the first run shows.
    pub seen: String,
    /// Charts, such as `voice delay`: a flow or a link, and what of it.
    pub charts: Vec<String>,
    /// Figures to compare, in the same form.
    pub figures: Vec<String>,
    /// Simulated seconds that pass in one second of the moving picture, at first.
    pub speed: f64,
    /// What the reader can turn.
    pub knobs: Vec<Knob>,
    /// What the reader can try, in order.
    pub steps: Vec<Step>,
    /// What the charts show, and why.
    pub answer: String,
    /// A command for the reader's own network.
    pub command: String,
}

/// A knob with its positions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Knob {
    /// A few words.
    pub name: String,
    /// Each position: its name and its settings. Those of the file have none.
    pub positions: Vec<Step>,
}

/// A change of the scenario that a reader can try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What changes, and what to look at.
    pub text: String,
    /// What is seen then.
    pub seen: String,
    /// The settings that make it of the file. The last one gives the expectations that hold with the change, in place of those of the
    /// file.
    pub settings: Vec<Setting>,
}

/// As the page reads it: the text, the settings, and what is seen then, which positions of knobs do not have. What a step expects is
/// for `giusto sim` and tests.
impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = self.settings.iter().filter(|setting| setting.path != "expect");
        let settings: Vec<_> = settings.map(|Setting { path, value }| (path, value)).collect();
        (&self.text, settings, &self.seen).serialize(serializer)
    }
}
