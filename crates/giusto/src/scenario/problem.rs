//! What is wrong with a scenario, and where.

use std::{fmt, path::Path};

use super::tree::{Node, Place};

/// Why there is no scenario: everything that was found, one problem a line, each with its place and its mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    problems: Vec<String>,
}

impl ScenarioError {
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    /// The problems, each `file:line: what: mend`, or without a place where a builder made the scenario.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for ScenarioError {}

/// One problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where; none if the text names it.
    pub(super) place: Option<Place>,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn at(place: Place, text: String) -> Self {
        Self { place: Some(place), text }
    }

    /// As people read it, in the file called `file`.
    pub(super) fn describe(&self, file: &str) -> String {
        match &self.place {
            Some(Place::Line(line)) => format!("{file}:{line}: {}", self.text),
            Some(Place::Setting(setting)) => format!("{file}: --set {setting}: {}", self.text),
            None => self.text.clone(),
        }
    }
}

/// A part of a scenario, by its number in its list, and a key of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    /// `link`, `flow`, `change`, `expect`; empty for the scenario itself.
    pub(super) list: &'static str,
    pub(super) index: usize,
    pub(super) key: &'static str,
    /// Which element of the key, from 1, if it has several.
    pub(super) element: Option<usize>,
}

impl At {
    pub(crate) const fn new(list: &'static str, index: usize, key: &'static str) -> Self {
        Self { list, index, key, element: None }
    }

    /// An element of the key, from 1.
    pub(crate) const fn element(self, element: Option<usize>) -> Self {
        Self { element, ..self }
    }

    /// Its place in the file: that of the element or the key if it is given, or that of the whole part.
    pub(super) fn place(self, tree: &Node) -> Place {
        let part = if self.list.is_empty() {
            tree
        } else {
            tree.get(self.list).and_then(|list| list.elements().get(self.index)).unwrap_or(tree)
        };
        let entry = part.entries().iter().find(|entry| entry.key == self.key);
        entry.map_or_else(
            || part.place.clone(),
            |entry| {
                let place = self.element.and_then(|element| element.checked_sub(1));
                let element = place.and_then(|place| entry.node.elements().get(place));
                element.unwrap_or(&entry.node).place.clone()
            },
        )
    }
}

/// What a check found.
pub(crate) type Finding = (At, String);

/// The one of `known` that `word` may have been meant to be, as the end of a complaint.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(word, known);
    let best = known.iter().copied().min_by_key(|known| distance(known))?;
    (distance(best) <= 1 + best.len() / 4).then_some(best)
}

/// A file that could not be read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> String {
    let mend = match error.kind() {
        std::io::ErrorKind::NotFound => "check the name",
        std::io::ErrorKind::PermissionDenied => "make it readable",
        std::io::ErrorKind::InvalidData => "it must be text in UTF-8",
        _ => "give a file that can be read",
    };
    format!("{}: cannot be read ({error}): {mend}", path.display())
}
