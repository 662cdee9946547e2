//! Every event of a run: in a file, as CSV or with the feature `parquet` as Apache Parquet; with the feature `arrow` in memory.
//!
//! `docs/reference/traces.md` describes the columns. Same seed, same bytes.

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "parquet")]
mod parquet;
mod row;

use std::{
    fmt::{self, Write},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

pub use giusto_sim::trace::Observer;
use giusto_sim::trace::{Event, Note};
use giusto_units::Timestamp;

use crate::scenario::Scenario;
use crate::whole_file::{Content, WholeFile, WriteError};
#[cfg(feature = "arrow")]
pub use arrow::TraceTable;
use row::{COLUMNS, Row, Values, What};

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFileError {
    /// The file name has neither known extension.
    #[error("{}: the format of a trace follows from the file name: let it end in .csv or .parquet", path.display())]
    Format {
        /// The path as given.
        path: PathBuf,
    },
    /// This build cannot write Parquet.
    #[error("{}: this program was built without Parquet: use .csv, or build it with `--features parquet`", path.display())]
    NoParquet {
        /// The path as given.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Names of the flows and links of a trace, by their ids in the simulation. Without a name, the id is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceNames {
    /// Flows, including those of acknowledgements and feedback.
    pub flows: Vec<String>,
    /// Links.
    pub links: Vec<String>,
}

impl TraceNames {
    /// The names in a run of `scenario`: `tcp-2`, and `tcp-2:back` for its acknowledgements.
    pub fn of(scenario: &Scenario) -> Self {
        let mut flows = Vec::new();
        for spec in scenario.flows() {
            for name in spec.instances() {
                let back = spec.kind.is_two_way().then(|| format!("{name}:back"));
                flows.push(name);
                flows.extend(back);
            }
        }
        Self { flows, links: scenario.links().iter().map(|link| link.id.clone()).collect() }
    }
}

/// An observer that writes each event to a file. The file appears when [`finish`](Self::finish) succeeds, not before.
///
/// # Example
///
/// ```
/// use giusto::trace::{TraceFile, TraceNames};
/// use giusto_sim::{link::{LinkConfig, queue::{DropTail, Limit}}, random, simulation::Simulation, traffic::{Pattern, Source}};
/// use giusto_units::{DataRate, DataSize, Timestamp};
///
/// let mut simulation = Simulation::new(1);
/// let (here, there) = (simulation.node("here"), simulation.node("there"));
/// simulation.add_link("link", (here, there), &LinkConfig::default(), Box::new(DropTail::new(Limit::Unlimited)))?;
/// let flow = simulation.add_flow(here, there)?;
/// let pattern = Pattern::constant(DataRate::from_bps(8_000), DataSize::from_bytes(100));
/// simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(1, "source"))?));
///
/// # let folder = std::env::temp_dir().join(format!("giusto-trace-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let names = TraceNames { flows: vec!["voice".to_owned()], links: vec!["link".to_owned()] };
/// let mut trace = TraceFile::create(&folder.join("trace.csv"), names)?;
/// simulation.run_until(Timestamp::from_nanos(250_000_000), &mut trace);
/// // Three packets, each sent, queued, dequeued, delivered.
/// assert_eq!(trace.finish()?, 12);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TraceFile {
    path: PathBuf,
    /// The writer, or the first error.
    writer: Result<Box<dyn Writer>, io::Error>,
    rows: u64,
    notes: Notes,
}

/// The number of decisions and of frames of each flow so far.
#[derive(Debug, Default)]
struct Notes(Vec<(i64, i64)>);

impl Notes {
    /// The row of a note, if traces have it.
    fn row(&mut self, at: Timestamp, note: &Note) -> Option<Row> {
        let place = note.flow().0 as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, (0, 0));
        }
        let (decisions, frames) = self.0.get_mut(place)?;
        let number = match note {
            Note::Decided { .. } => decisions,
            Note::Frame { .. } => frames,
            _ => return None,
        };
        let what = What::Note(*note, *number);
        *number += 1;
        Some(Row { at, what })
    }
}

/// Writes rows in one format.
trait Writer: fmt::Debug {
    fn write(&mut self, row: Row) -> Result<(), io::Error>;

    fn finish(self: Box<Self>) -> Result<WholeFile, io::Error>;
}

impl TraceFile {
    /// Begins a trace; the extension of `path` chooses the format.
    ///
    /// # Errors
    ///
    /// [`TraceFileError`] names the path and the fix.
    pub fn create(path: &Path, names: TraceNames) -> Result<Self, TraceFileError> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        let open = || WholeFile::create(path, Content::TRACE);
        let writer: Result<Box<dyn Writer>, _> = match extension.to_str() {
            #[cfg(feature = "parquet")]
            Some("parquet") => parquet::Parquet::new(open()?, &names).map(|writer| Box::new(writer) as _),
            #[cfg(not(feature = "parquet"))]
            Some("parquet") => return Err(TraceFileError::NoParquet { path: path.to_owned() }),
            // A path that cannot be a file gets the better message from `open`.
            other if other == Some("csv") || path.is_dir() || path.file_name().is_none() => {
                Csv::new(open()?, names).map(|writer| Box::new(writer) as _)
            }
            _ => return Err(TraceFileError::Format { path: path.to_owned() }),
        };
        Ok(Self { path: path.to_owned(), writer, rows: 0, notes: Notes::default() })
    }

    /// Completes the file and lets it appear. Returns the number of rows.
    ///
    /// # Errors
    ///
    /// [`TraceFileError`] names the first failure since the beginning; then there is no file.
    pub fn finish(self) -> Result<u64, TraceFileError> {
        let written = self.writer.and_then(Writer::finish);
        written.map_err(|source| WriteError::io(&self.path, Content::TRACE, source))?.commit()?;
        Ok(self.rows)
    }

    fn write(&mut self, row: Row) {
        let Ok(writer) = &mut self.writer else { return };
        match writer.write(row) {
            Ok(()) => self.rows += 1,
            // Drops the writer and its file at once: a full disk does not stay full.
            Err(error) => self.writer = Err(error),
        }
    }
}

impl Observer for TraceFile {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        self.write(Row { at: now, what: What::Event(*event) });
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        if let Some(row) = self.notes.row(now, note) {
            self.write(row);
        }
    }
}

/// Traces as comma-separated values.
#[derive(Debug)]
struct Csv {
    file: WholeFile,
    /// As cells: of all texts, names alone may need quotes.
    names: TraceNames,
    line: String,
}

impl Csv {
    fn new(mut file: WholeFile, mut names: TraceNames) -> Result<Self, io::Error> {
        for name in names.flows.iter_mut().chain(&mut names.links) {
            *name = cell(name)?;
        }
        let line = COLUMNS.map(|column| column.name).join(",") + "\n";
        file.write_all(line.as_bytes())?;
        Ok(Self { file, names, line })
    }
}

/// A text as a cell between others.
fn cell(text: &str) -> Result<String, io::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["", text])?;
    let line = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    let line = String::from_utf8(line).map_err(io::Error::other)?;
    Ok(line.trim_start_matches(',').trim_end_matches('\n').to_owned())
}

impl Writer for Csv {
    fn write(&mut self, row: Row) -> Result<(), io::Error> {
        let line = &mut self.line;
        line.clear();
        for (place, column) in COLUMNS.iter().enumerate() {
            if place > 0 {
                line.push(',');
            }
            // Writing to a string cannot fail.
            let _ = match column.values {
                Values::Integer(value) => value(&row).map(|value| write!(line, "{value}")),
                Values::Number(value) => value(&row).map(|value| write!(line, "{value}")),
                Values::Text(value) => value(&row).map(|text| line.write_str(text)),
                Values::Flow => Some(write_name(line, &self.names.flows, row.flow())),
                Values::Link => row.link().map(|link| write_name(line, &self.names.links, link)),
            };
        }
        line.push('\n');
        self.file.write_all(line.as_bytes())
    }

    fn finish(self: Box<Self>) -> Result<WholeFile, io::Error> {
        Ok(self.file)
    }
}

fn write_name(cell: &mut String, names: &[String], place: u32) -> fmt::Result {
    match names.get(place as usize) {
        Some(name) => cell.write_str(name),
        None => write!(cell, "{place}"),
    }
}

#[cfg(test)]
mod tests;
