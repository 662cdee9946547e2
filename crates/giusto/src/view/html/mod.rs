//! Reports: HTML files that hold everything they need, charts included, and request nothing from the network.
//!
//! A [`Report`] is a small model: a title, a headline and [`Section`]s. [`demo`], [`accuracy`] and the reproductions build it
//! from results. The Rust side only serialises it: a page holds the model as JSON, and one static script and one style sheet
//! draw it. The script writes every text as text, never as HTML; it sets the parts between backticks as code.
//!
//! # Example
//!
//! ```
//! use giusto::view::html::{Block, Prose, Report, Section};
//!
//! let mut report = Report::new("A test", "All packets left on time.");
//! report.push(Prose::new("Method", vec![Block::Paragraph("</script>".to_owned())]));
//! assert!(report.to_html().contains(r"\u003c/script>"));
//! ```

#[cfg(feature = "system")]
mod benchmark;
#[cfg(feature = "browser")]
mod browser;
#[cfg(feature = "system")]
mod call;
mod chart;
mod city;
mod comparison;
mod drawing;
mod embedded;
mod explore;
mod finding;
#[cfg(feature = "system")]
mod granted;
mod linked;
#[cfg(feature = "system")]
mod live;
mod map;
#[cfg(feature = "monitor")]
mod matrix;
#[cfg(feature = "system")]
mod page;
#[cfg(feature = "system")]
mod plots;
#[cfg(feature = "system")]
mod replay;
mod simulation;
mod skeleton;

#[cfg(feature = "system")]
use std::path::Path;

use serde::Serialize;

use super::{
    format,
    table::{Grid, Head},
};
#[cfg(feature = "system")]
pub use crate::whole_file::WriteError;
#[cfg(feature = "system")]
pub use benchmark::benchmark;
#[cfg(feature = "browser")]
pub use browser::browser_call;
#[cfg(feature = "system")]
pub use call::call;
pub use chart::{Chart, Event, Gaps, Mark, Points, Scale, Series};
pub use city::city;
pub use comparison::comparison;
pub use drawing::Drawing;
pub use explore::{Exploration, Explored, explored, keep_for_bands};
pub use linked::Linked;
#[cfg(feature = "system")]
pub use live::{live, live_result};
pub use map::Map;
#[cfg(feature = "monitor")]
pub use matrix::{Level, Links, Matrix, MatrixCell};
#[cfg(feature = "system")]
pub use page::{Demo, accuracy, demo, results, verdict};
#[cfg(feature = "system")]
pub use replay::replay;
pub use simulation::simulation;
pub use skeleton::Served;

use skeleton::More;

#[cfg(feature = "system")]
use crate::whole_file::{self, Content};

/// A page: its finding in one sentence, and the evidence.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The page's title, a few words.
    pub title: String,
    /// The finding, in one plain sentence.
    pub headline: String,
    /// The command line that writes this page again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The body, from the top.
    pub sections: Vec<Section>,
    version: &'static str,
    #[serde(skip)]
    record: Option<serde_json::Value>,
}

impl Report {
    /// A page without a body.
    pub fn new(title: impl Into<String>, headline: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            headline: headline.into(),
            command: None,
            sections: Vec::new(),
            version: env!("CARGO_PKG_VERSION"),
            record: None,
        }
    }

    /// Adds the command line that writes the page again.
    #[must_use]
    pub fn with_command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Embeds the record of a run, from which series can take their data: see [`Points::in_record`].
    #[must_use]
    pub fn with_record(mut self, record: serde_json::Value) -> Self {
        self.record = Some(record);
        self
    }

    /// Adds a section at the end.
    pub fn push(&mut self, section: impl Into<Section>) {
        self.sections.push(section.into());
    }

    /// The page as one HTML text.
    pub fn to_html(&self) -> String {
        skeleton::page(self, More::default())
    }

    /// The page as a server of this machine serves it: with the chart library, and with a script of its own after that of all pages.
    pub fn to_served_html(&self, served: Served<'_>) -> String {
        skeleton::page(self, served.into())
    }

    /// Writes the page to `path`. The file appears under that name only once it is complete.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    #[cfg(feature = "system")]
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        whole_file::write(path, Content::REPORT, self.to_html().as_bytes())
    }
}

/// One part of a page.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", content = "content", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Section {
    /// The key figures.
    Cards(Vec<Card>),
    /// A table.
    Table(Table),
    /// A chart. Neighbouring charts stand side by side where there is room.
    Chart(Box<Chart>),
    /// Charts over one axis, with a common cursor and a table of the values at the cursor.
    Linked(Box<Linked>),
    /// The topology of a network.
    Drawing(Drawing),
    /// A map of cells.
    Map(Box<Map>),
    /// Text.
    Prose(Prose),
    /// A matrix of coloured cells.
    #[cfg(feature = "monitor")]
    Matrix(Matrix),
    /// Links to other pages.
    #[cfg(feature = "monitor")]
    Links(Links),
}

/// Sections are made from their contents.
macro_rules! sections {
    ($($content:ty => $section:expr),* $(,)?) => {$(
        impl From<$content> for Section {
            fn from(content: $content) -> Self {
                $section(content)
            }
        }
    )*};
}

sections! {
    Vec<Card> => Self::Cards,
    Table => Self::Table,
    Chart => |chart| Self::Chart(Box::new(chart)),
    Linked => |linked| Self::Linked(Box::new(linked)),
    Drawing => Self::Drawing,
    Map => |map| Self::Map(Box::new(map)),
    Prose => Self::Prose,
}

#[cfg(feature = "monitor")]
sections! {
    Matrix => Self::Matrix,
    Links => Self::Links,
}

/// How good a value is. The page shows it by a sign and a word as well as by colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// Neither good nor bad.
    #[default]
    Plain,
    /// Good.
    Good,
    /// Could be better.
    Fair,
    /// Bad.
    Bad,
}

impl Tone {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// One key figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Card {
    /// The quantity.
    pub label: String,
    /// The value, with its unit.
    pub value: String,
    /// A few words that help to read it.
    pub note: String,
    /// How good the value is.
    #[serde(skip_serializing_if = "Tone::is_plain")]
    pub tone: Tone,
}

impl Card {
    /// A key figure that is neither good nor bad.
    pub fn new(label: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), note: note.into(), tone: Tone::Plain }
    }

    /// Sets the tone.
    #[must_use]
    pub fn with_tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// A sentence below the heading that explains the rows.
    pub caption: String,
    /// The header.
    pub columns: Vec<Column>,
    /// The body; a row holds one cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether the table is folded until the reader opens it.
    pub folded: bool,
}

impl Table {
    /// A table with the columns of a table for the terminal and a row for each of `rows`. The columns that a narrow terminal leaves out
    /// stand last: a narrow window shows the first ones.
    fn of<'a, T: 'a>(
        title: &str,
        caption: impl Into<String>,
        columns: &[super::table::Column<T>],
        rows: impl IntoIterator<Item = &'a T>,
    ) -> Self {
        Self::of_grid(title, caption, Grid::of(columns, rows))
    }

    /// The same of finished cells.
    pub fn of_grid(title: &str, caption: impl Into<String>, mut grid: Grid) -> Self {
        crate::order::sort_by_key(&mut grid.columns, |(head, _)| head.dispensable);
        let rows = grid.rows();
        Self::new(title, caption, grid.columns.into_iter().map(|(head, _)| Column::from(head)), rows)
    }

    /// A table of these columns and rows.
    fn new<R: IntoIterator<Item: Into<Cell>>>(
        title: impl Into<String>,
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = Column>,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let row = |cells: R| cells.into_iter().map(Into::into).collect();
        Self {
            title: title.into(),
            caption: caption.into(),
            columns: columns.into_iter().collect(),
            rows: rows.into_iter().map(row).collect(),
            folded: false,
        }
    }

    /// The same table, folded.
    fn folded(self) -> Self {
        Self { folded: true, ..self }
    }
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The quantity, with its unit.
    pub name: String,
    /// Whether the column holds numbers; these are aligned right.
    pub numeric: bool,
}

impl From<Head> for Column {
    fn from(head: Head) -> Self {
        Self { name: head.in_a_line(), numeric: head.alignment == comfy_table::CellAlignment::Right }
    }
}

impl Column {
    /// A column of numbers.
    pub fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), numeric: true }
    }

    /// A column of words.
    pub fn words(name: impl Into<String>) -> Self {
        Self { name: name.into(), numeric: false }
    }
}

/// A cell of a [`Table`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// How good the value is.
    #[serde(skip_serializing_if = "Tone::is_plain")]
    pub tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}

/// Text with a heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prose {
    /// The heading.
    pub title: String,
    /// The paragraphs, lists and code blocks, in order.
    pub blocks: Vec<Block>,
}

impl Prose {
    /// Definitions below a heading, and a paragraph after them.
    fn definitions(title: &str, terms: &[(&str, &str)], paragraph: String) -> Self {
        let terms = terms.iter().map(|&(term, meaning)| (term.to_owned(), meaning.to_owned()));
        Self::new(title, vec![Block::Definitions(terms.collect()), Block::Paragraph(paragraph)])
    }

    /// Text below a heading.
    pub fn new(title: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { title: title.into(), blocks }
    }
}

/// A part of a [`Prose`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "content", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// A paragraph.
    Paragraph(String),
    /// Terms with their definitions.
    Definitions(Vec<(String, String)>),
    /// A command or code, kept as it is.
    Code(String),
}
