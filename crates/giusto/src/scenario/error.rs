//! Errors of a scenario and their places.

use std::{fmt, path::Path};
#[cfg(feature = "system")]
use std::{
    fs::{self, File},
    io::Read,
};

#[cfg(feature = "system")]
use crate::unreadable::unreadable;

/// All problems of a scenario, one a line, each with its place, the value and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    problems: Vec<String>,
}

impl ScenarioError {
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    /// The problems as `FILE:LINE: TEXT`, or as `TEXT` where a [`Builder`](super::Builder) made the scenario.
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

/// A key of a scenario's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    /// `link`, `flow`, `change` or `expect`; empty for the scenario itself.
    pub(super) list: &'static str,
    /// The part's index in the list of the file.
    pub(super) index: usize,
    pub(super) key: &'static str,
    /// The index of an element of the key's value.
    pub(super) element: Option<usize>,
}

impl At {
    pub(super) const fn new(list: &'static str, index: usize, key: &'static str) -> Self {
        Self { list, index, key, element: None }
    }
}

/// A problem found by validation.
pub(super) type Finding = (At, String);

/// The key of a part that is wrong, and why.
pub(super) type KeyError = (&'static str, String);

/// Checks a condition on the value of `key`; `text` is the error if it does not hold.
pub(super) fn check(holds: bool, key: &'static str, text: fmt::Arguments<'_>) -> Result<(), KeyError> {
    if holds { Ok(()) } else { Err((key, text.to_string())) }
}

/// The one of `known` that is spelt most like `word`, if any is close.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(word, known);
    let best = known.iter().copied().min_by_key(|known| distance(known))?;
    (distance(best) <= 1 + best.len() / 4).then_some(best)
}

/// Checks that `word` is one of `known`.
pub(super) fn known(what: &str, word: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&word) { Ok(()) } else { Err(unknown(what, word, known)) }
}

/// Says that `word` is none of `known`, and which of them may be meant.
pub(super) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let hint = nearest(word, known).map_or_else(String::new, |near| format!("did you mean \"{near}\"? "));
    format!("unknown {what} \"{word}\": {hint}use one of {}", known.join(", "))
}

/// The largest file that is read, in bytes: a trace of rates for a day, ten times a second, has a fifth of it.
#[cfg(feature = "system")]
const MAX_FILE_BYTES: u64 = 100_000_000;

/// The text of a file. A scenario may come through a pipe, which a shell makes for `<(command)`; a file that a scenario names may
/// not, for it may never be written to.
#[cfg(feature = "system")]
pub(crate) fn read_text(path: &Path, may_be_pipe: bool) -> Result<String, String> {
    let unreadable = |error: std::io::Error| unreadable(path, &error);
    let found = fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() && !found.is_dir() && !may_be_pipe {
        return Err(format!("{}: is a pipe or a device: copy it to a file first", path.display()));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{}: must be at most {} MB long", path.display(), MAX_FILE_BYTES / 1_000_000));
    }
    Ok(text)
}

/// Without a system there are only the files that were given.
#[cfg(not(feature = "system"))]
pub(crate) fn read_text(path: &Path, _: bool) -> Result<String, String> {
    Err(format!("{}: is not here: open it together with the scenario file", path.display()))
}
