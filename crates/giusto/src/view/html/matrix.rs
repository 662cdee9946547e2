//! Matrices of coloured cells, and links to other pages of a server.

use serde::{Serialize, Serializer};

/// Rows and columns of coloured cells, each of which may lead to another page.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// The heading.
    pub title: String,
    /// A sentence below the heading.
    pub caption: String,
    /// What rows and columns are.
    pub corner: String,
    /// The names of the columns; those of a dense matrix may be empty.
    pub columns: Vec<String>,
    /// The rows: a name, and one cell for each column.
    pub rows: Vec<(String, Vec<MatrixCell>)>,
    /// Cells are small.
    pub dense: bool,
    /// What the colours mean.
    pub legend: Vec<(Level, String)>,
}

/// A cell of a [`Matrix`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MatrixCell {
    /// The text in it.
    pub text: String,
    /// Its colour.
    pub level: Level,
    /// What it says in words.
    pub about: String,
    /// The address of another page of the same server; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub link: String,
}

/// The colour of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// There is nothing.
    #[default]
    Empty,
    /// It is not known.
    Unknown,
    /// From 0, good, to 4, bad.
    Of(u8),
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Empty => to.serialize_str("empty"),
            Self::Unknown => to.serialize_str("unknown"),
            Self::Of(level) => to.collect_str(&format_args!("of-{}", level.min(&4))),
        }
    }
}

/// Links to other pages of the same server, of which one is the page itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Links {
    /// What is chosen.
    pub label: String,
    /// Name, address, and whether it is this page.
    pub links: Vec<(String, String, bool)>,
}
