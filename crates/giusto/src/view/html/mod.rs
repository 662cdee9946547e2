//! Reports: one HTML file that holds everything it needs, plots included, and asks no network for anything.
//!
//! A [`Report`] is a small model: a title, a verdict and [`Section`]s. One renderer turns it into HTML; [`demo`],
//! [`accuracy`] and the reproductions build it from results. All text is escaped by the renderer; what stands between
//! backticks is set as something to type.
//!
//! # Example
//!
//! ```
//! use giusto::view::html::{Block, Prose, Report, Section};
//!
//! let mut report = Report::new("A test", "Everything left on time.");
//! report.push(Prose::new("How", vec![Block::Paragraph("1 < 2".to_owned())]));
//! assert!(report.to_html().contains("1 &#60; 2"));
//! ```

mod chart;
mod comparison;
mod granted;
mod linked;
mod page;
mod plots;
mod render;
mod simulation;
mod topology;

use std::path::Path;

use super::format;

pub use crate::whole_file::WriteError;
pub use chart::{Chart, Event, Mark, Scale, Series};
pub use comparison::{ComparedRun, ComparisonPage, comparison};
pub use linked::Linked;
pub use page::{Demo, accuracy, demo, verdict};
pub use simulation::{PageFlow, PageLink, SimulationPage, simulation};

use crate::whole_file::{self, Content};

/// A page: what it says in one sentence, and what that rests on.
#[derive(Debug, Clone)]
pub struct Report {
    /// The page's title, a few words.
    pub title: String,
    /// What came out, in one plain sentence.
    pub verdict: String,
    /// The command line that makes this page again.
    pub command: Option<String>,
    /// The body, from the top.
    pub sections: Vec<Section>,
}

impl Report {
    /// A page without a body.
    pub fn new(title: impl Into<String>, verdict: impl Into<String>) -> Self {
        Self { title: title.into(), verdict: verdict.into(), command: None, sections: Vec::new() }
    }

    /// The same page with the command line that makes it again.
    #[must_use]
    pub fn with_command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Adds a section at the end.
    pub fn push(&mut self, section: impl Into<Section>) {
        self.sections.push(section.into());
    }

    /// The page as one HTML text.
    pub fn to_html(&self) -> String {
        render::page(self)
    }

    /// Writes the page to `path`, whole or not at all: a half-written file is never seen under that name.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path, and what to do.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        whole_file::write(path, Content::REPORT, self.to_html().as_bytes())
    }
}

/// One part of a page.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Section {
    /// The key figures.
    Cards(Vec<Card>),
    /// A table.
    Table(Table),
    /// A plot. Neighbouring plots stand side by side where there is room.
    Chart(Box<Chart>),
    /// Plots over one axis, with a cursor that tells what is there.
    Linked(Box<Linked>),
    /// A picture without axes.
    Drawing(Drawing),
    /// Text.
    Prose(Prose),
}

impl From<Vec<Card>> for Section {
    fn from(cards: Vec<Card>) -> Self {
        Self::Cards(cards)
    }
}

impl From<Table> for Section {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Chart> for Section {
    fn from(chart: Chart) -> Self {
        Self::Chart(Box::new(chart))
    }
}

impl From<Linked> for Section {
    fn from(linked: Linked) -> Self {
        Self::Linked(Box::new(linked))
    }
}

impl From<Drawing> for Section {
    fn from(drawing: Drawing) -> Self {
        Self::Drawing(drawing)
    }
}

impl From<Prose> for Section {
    fn from(prose: Prose) -> Self {
        Self::Prose(prose)
    }
}

/// A picture without axes, such as the topology of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// Its heading.
    pub title: String,
    /// What to see in it, in a sentence.
    pub caption: String,
    /// An SVG element whose texts are escaped: it goes into the page as it is, so it is made here alone.
    svg: String,
}

/// How a value is to be taken. It is shown by a sign and a word as well as by colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neither good nor bad.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Could be better.
    Fair,
    /// Not as it should be.
    Bad,
}

/// One key figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// What it is.
    pub label: String,
    /// The figure, with its unit.
    pub value: String,
    /// What helps to read it, in a few words.
    pub note: String,
    /// How it is to be taken.
    pub tone: Tone,
}

impl Card {
    /// A key figure without a tone.
    pub fn new(label: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), note: note.into(), tone: Tone::Plain }
    }

    /// The same figure with a tone.
    #[must_use]
    pub fn with_tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// One sentence below the heading: what the rows are.
    pub caption: String,
    /// The header.
    pub columns: Vec<Column>,
    /// The body; a row holds one cell for each column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether it is folded away until it is asked for.
    pub folded: bool,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What it is, with the unit.
    pub name: String,
    /// Whether it holds numbers, which stand to the right.
    pub numeric: bool,
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// How it is to be taken.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prose {
    /// Its heading.
    pub title: String,
    /// Its parts, in order.
    pub blocks: Vec<Block>,
}

impl Prose {
    /// Text below a heading.
    pub fn new(title: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { title: title.into(), blocks }
    }
}

/// A part of a [`Prose`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Block {
    /// A paragraph.
    Paragraph(String),
    /// Terms and what they mean.
    Definitions(Vec<(String, String)>),
    /// Something to type, or to read letter by letter.
    Code(String),
}
