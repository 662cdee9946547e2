//! Choices that are made by name.

use std::fmt;

/// A name that none of the choices bears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The kind of thing that was to be named.
    pub what: &'static str,
    /// The text as given.
    pub text: String,
    /// The names that would have been taken, separated by commas.
    pub known: String,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} \"{}\": the known ones are {}", self.what, self.text, self.known)
    }
}

impl std::error::Error for UnknownName {}

/// The choice whose name is `text`.
pub(super) fn choose<T: Copy>(
    what: &'static str,
    text: &str,
    choices: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, UnknownName> {
    choices.iter().copied().find(|&choice| name(choice) == text.trim()).ok_or_else(|| UnknownName {
        what,
        text: text.to_owned(),
        known: choices.iter().map(|&choice| name(choice)).collect::<Vec<_>>().join(", "),
    })
}
