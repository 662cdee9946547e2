//! Settings: `--set KEY=VALUE`.

use std::{fmt, str::FromStr};

/// A value that replaces one of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Where: `duration`, `link.bottleneck.rate`.
    pub path: String,
    /// The value as in a file; a string needs no quotes.
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;

    /// Parses `KEY=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Self { path: path.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(format!("expected KEY=VALUE, such as link.bottleneck.rate=5M, found \"{text}\"")),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path, self.value)
    }
}
