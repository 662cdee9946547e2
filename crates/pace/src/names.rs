//! Parsing of choices by name.

use alloc::{borrow::ToOwned, string::String, vec::Vec};
use core::fmt;

/// An unknown name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// The kind of choice.
    pub what: &'static str,
    /// The text.
    pub text: String,
    /// The valid names, separated by commas.
    pub known: String,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} \"{}\": the known ones are {}", self.what, self.text, self.known)
    }
}

impl core::error::Error for UnknownName {}

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
