//! Every event of a run in a file: CSV, which everything reads, or Parquet, which is small and fast to read.
//!
//! The columns are told in `docs/traces.md`. The file depends on the run alone: same seed, same bytes.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use giusto_congestion::{Cause, Decision};
use giusto_sim::{
    packet::{DropReason, FlowId, LinkId},
    trace::{Event, Note, Observer},
};
use giusto_units::{Ecn, TimeDelta, Timestamp};
use parquet::{
    basic::{Compression, Encoding},
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::{parser::parse_message_type, types::ColumnPath},
};
use serde::Serialize;

use crate::scenario::Scenario;
use crate::view::decision::{cause_name, signal_name};
use crate::whole_file::{Content, WholeFile, WriteError};

/// Rows of a Parquet row group: some 60 MB while it is being collected.
const ROWS_PER_GROUP: usize = 1 << 20;

/// Rows that are encoded at a time.
const ROWS_PER_BATCH: usize = 8192;

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFileError {
    /// The name ends in nothing that says how to write.
    #[error("{}: a trace is CSV or Parquet: let its name end in .csv or .parquet", path.display())]
    Format {
        /// The path as given.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What the flows and links of a trace are called, by their places in the simulation. What has no name is called by its number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceNames {
    /// Of the flows; those that carry answers too.
    pub flows: Vec<String>,
    /// Of the links.
    pub links: Vec<String>,
}

impl TraceNames {
    /// The names in a run of `scenario`: `tcp-2`, and `tcp-2:back` for its answers.
    pub fn of(scenario: &Scenario) -> Self {
        let mut flows = Vec::new();
        for spec in scenario.flows() {
            for name in spec.instances() {
                let back = spec.kind.answers().then(|| format!("{name}:back"));
                flows.push(name);
                flows.extend(back);
            }
        }
        Self { flows, links: scenario.links().iter().map(|link| link.id.clone()).collect() }
    }
}

/// Writes what it sees to a file, which is there once [`finish`](Self::finish) has succeeded, and not before.
///
/// # Example
///
/// ```
/// use giusto::{
///     core::units::{DataRate, DataSize, Timestamp},
///     sim::{link::{LinkConfig, queue::{DropTail, Limit}}, random, simulation::Simulation, traffic::{Pattern, Source}},
///     simulation::trace_file::{TraceFile, TraceNames},
/// };
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
    names: TraceNames,
    /// What is written, or why it is no longer.
    state: Result<Format, io::Error>,
    rows: u64,
    /// Decisions and frames so far, of each flow.
    told: Vec<(i64, i64)>,
}

#[derive(Debug)]
enum Format {
    Csv(Box<csv::Writer<WholeFile>>),
    Parquet(Box<Parquet>),
}

impl TraceFile {
    /// Begins a trace; the end of its name says in which format.
    ///
    /// # Errors
    ///
    /// [`TraceFileError`] names the path, and what to do.
    pub fn create(path: &Path, names: TraceNames) -> Result<Self, TraceFileError> {
        let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
        let open = || WholeFile::create(path, Content::TRACE);
        let format = match ending.as_deref() {
            Some("csv") => Format::Csv(Box::new(csv::Writer::from_writer(open()?))),
            Some("parquet") => {
                let parquet = Parquet::new(open()?, &names);
                Format::Parquet(Box::new(parquet.map_err(|source| failure(path, io_error(source)))?))
            }
            _ if path.is_dir() || path.file_name().is_none() => {
                Format::Csv(Box::new(csv::Writer::from_writer(open()?)))
            }
            _ => return Err(TraceFileError::Format { path: path.to_owned() }),
        };
        Ok(Self { path: path.to_owned(), names, state: Ok(format), rows: 0, told: Vec::new() })
    }

    /// Completes the file and lets it appear. Returns how many rows it has.
    ///
    /// # Errors
    ///
    /// [`TraceFileError`] tells the first thing that went wrong since the beginning; then there is no file.
    pub fn finish(self) -> Result<u64, TraceFileError> {
        let path = self.path;
        let written = self.state.and_then(|format| match format {
            Format::Csv(writer) => writer.into_inner().map_err(|unwritten| {
                let error = unwritten.error();
                io::Error::new(error.kind(), error.to_string())
            }),
            Format::Parquet(writer) => writer.finish().map_err(io_error),
        });
        written.map_err(|source| failure(&path, source))?.commit()?;
        Ok(self.rows)
    }
}

fn failure(path: &Path, source: io::Error) -> TraceFileError {
    WriteError::io(path, Content::TRACE, source).into()
}

impl Observer for TraceFile {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        // Both copies of a duplicated packet have rows of their own.
        if matches!(event, Event::Duplicated { .. }) {
            return;
        }
        self.write(Row::new(now, event));
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        // What never left the sender is in the results.
        if matches!(note, Note::Received { .. } | Note::Skipped { .. } | Note::Discarded { .. }) {
            return;
        }
        let flow = note.flow();
        let place = flow.0 as usize;
        if self.told.len() <= place {
            self.told.resize(place + 1, (0, 0));
        }
        let Some((decisions, frames)) = self.told.get_mut(place) else { return };
        let number = if matches!(note, Note::Frame { .. }) { frames } else { decisions };
        let row = Row::of_note(now, note, (flow, *number));
        *number += 1;
        self.write(row);
    }
}

impl TraceFile {
    fn write(&mut self, row: Row) {
        let Ok(format) = &mut self.state else { return };
        let written = match format {
            Format::Csv(writer) => {
                writer.serialize(row.in_words(&self.names)).map_err(|error| match error.into_kind() {
                    csv::ErrorKind::Io(error) => error,
                    other => io::Error::other(format!("{other:?}")),
                })
            }
            Format::Parquet(writer) => writer.push(row).map_err(io_error),
        };
        match written {
            Ok(()) => self.rows += 1,
            // What was written so far is removed at once: a full disk is not kept full.
            Err(error) => self.state = Err(error),
        }
    }
}

/// The system's error in the library's, if there is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}

/// An event or a note without words.
#[derive(Debug, Clone)]
struct Row {
    time_ns: i64,
    sequence: i64,
    /// Time in the queue, on the way, or of a frame: by the kind of event.
    lasted_ns: i64,
    queue_packets: i64,
    queue_bytes: i64,
    size_bytes: u32,
    flow: u32,
    /// Of a frame.
    ssrc: u32,
    link: Option<LinkId>,
    kind: Kind,
    /// None of a note.
    ecn: Option<Ecn>,
    /// Of a decision. Few rows are one: they shall not make the others longer.
    decision: Option<Box<Decision>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sent,
    Queued,
    Dequeued,
    Marked,
    Dropped(DropReason),
    Delivered,
    Decided,
    /// Whether its delay is known.
    Frame(bool),
    Other,
}

impl Row {
    fn new(now: Timestamp, event: &Event) -> Self {
        let packet = event.packet();
        let mut row = Self {
            time_ns: now.as_nanos() as i64,
            sequence: packet.sequence as i64,
            lasted_ns: 0,
            queue_packets: 0,
            queue_bytes: 0,
            size_bytes: packet.bytes,
            flow: packet.flow.0,
            ssrc: 0,
            link: event.link(),
            kind: Kind::Other,
            ecn: Some(packet.ecn),
            decision: None,
        };
        row.kind = match event {
            Event::Sent { .. } => Kind::Sent,
            Event::Queued { waiting, .. } | Event::Dequeued { waiting, .. } => {
                row.queue_packets = waiting.packets as i64;
                row.queue_bytes = waiting.size.as_bytes() as i64;
                match event {
                    Event::Dequeued { sojourn, .. } => {
                        row.lasted_ns = sojourn.as_nanos();
                        Kind::Dequeued
                    }
                    _ => Kind::Queued,
                }
            }
            Event::Marked { .. } => Kind::Marked,
            Event::Dropped { reason, .. } => Kind::Dropped(*reason),
            Event::Delivered { .. } => {
                row.lasted_ns = now.saturating_since(packet.sent).as_nanos();
                Kind::Delivered
            }
            _ => Kind::Other,
        };
        row
    }

    /// A note of `flow`, with its number among those of its kind.
    fn of_note(now: Timestamp, note: &Note, (flow, number): (FlowId, i64)) -> Self {
        let mut row = Self {
            time_ns: now.as_nanos() as i64,
            sequence: number,
            lasted_ns: 0,
            queue_packets: 0,
            queue_bytes: 0,
            size_bytes: 0,
            flow: flow.0,
            ssrc: 0,
            link: None,
            kind: Kind::Other,
            ecn: None,
            decision: None,
        };
        match note {
            Note::Decided { decision, .. } => {
                row.kind = Kind::Decided;
                row.decision = Some(Box::new(*decision));
            }
            Note::Frame { ssrc, delay, size, .. } => {
                row.ssrc = *ssrc;
                row.kind = Kind::Frame(delay.is_some());
                row.lasted_ns = delay.map_or(0, TimeDelta::as_nanos);
                row.size_bytes = u32::try_from(size.as_bytes()).unwrap_or(u32::MAX);
            }
            _ => {}
        }
        row
    }

    const fn event(&self) -> &'static str {
        match self.kind {
            Kind::Sent => "sent",
            Kind::Queued => "queued",
            Kind::Dequeued => "dequeued",
            Kind::Marked => "marked",
            Kind::Dropped(_) => "dropped",
            Kind::Delivered => "delivered",
            Kind::Decided => "decided",
            Kind::Frame(_) => "frame",
            Kind::Other => "other",
        }
    }

    const fn ecn(&self) -> &'static str {
        match self.ecn {
            Some(Ecn::NotEct) => "not-ect",
            Some(Ecn::Ect0) => "ect0",
            Some(Ecn::Ect1) => "ect1",
            Some(Ecn::Ce) => "ce",
            None => "",
        }
    }

    const fn reason(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Dropped(reason) => Some(match reason {
                DropReason::Overflow => "overflow",
                DropReason::Aqm => "aqm",
                DropReason::Loss => "loss",
                _ => "other",
            }),
            _ => None,
        }
    }

    fn sojourn_ns(&self) -> Option<i64> {
        (self.kind == Kind::Dequeued).then_some(self.lasted_ns)
    }

    fn delay_ns(&self) -> Option<i64> {
        matches!(self.kind, Kind::Delivered | Kind::Frame(true)).then_some(self.lasted_ns)
    }

    fn queue_packets(&self) -> Option<i64> {
        matches!(self.kind, Kind::Queued | Kind::Dequeued).then_some(self.queue_packets)
    }

    fn queue_bytes(&self) -> Option<i64> {
        matches!(self.kind, Kind::Queued | Kind::Dequeued).then_some(self.queue_bytes)
    }

    fn bps_before(&self) -> Option<i64> {
        self.decision.as_ref().map(|decision| bps(decision.from))
    }

    fn bps_since(&self) -> Option<i64> {
        self.decision.as_ref().map(|decision| bps(decision.to))
    }

    fn cause(&self) -> Option<&'static str> {
        self.decision.as_ref().map(|decision| cause_name(&decision.cause))
    }

    fn signal(&self) -> Option<&'static str> {
        match self.decision.as_ref()?.cause {
            Cause::Delay { signal, .. } => Some(signal_name(signal)),
            _ => None,
        }
    }

    fn trend_ms(&self) -> Option<f64> {
        match self.decision.as_ref()?.cause {
            Cause::Delay { trend_ms, .. } => Some(trend_ms),
            _ => None,
        }
    }

    fn threshold_ms(&self) -> Option<f64> {
        match self.decision.as_ref()?.cause {
            Cause::Delay { threshold_ms, .. } => Some(threshold_ms),
            _ => None,
        }
    }

    fn ratio(&self) -> Option<f64> {
        match self.decision.as_ref()?.cause {
            Cause::Loss { ratio } | Cause::Marks { ratio } => Some(ratio),
            _ => None,
        }
    }

    fn rate_bps(&self) -> Option<f64> {
        match self.decision.as_ref()?.cause {
            Cause::AcknowledgedRate { rate_bps } | Cause::Probe { rate_bps } => Some(rate_bps),
            _ => None,
        }
    }

    fn ssrc(&self) -> Option<i64> {
        matches!(self.kind, Kind::Frame(_)).then_some(self.ssrc.into())
    }

    fn in_words<'a>(&self, names: &'a TraceNames) -> Words<'a> {
        let name = |names: &'a [String], place: u32| match names.get(place as usize) {
            Some(name) => Name::Known(name),
            None => Name::Unknown(place),
        };
        Words {
            time_ns: self.time_ns,
            event: self.event(),
            flow: name(&names.flows, self.flow),
            link: self.link.map(|link| name(&names.links, link.0)),
            sequence: self.sequence,
            size_bytes: self.size_bytes,
            ecn: self.ecn(),
            reason: self.reason(),
            sojourn_ns: self.sojourn_ns(),
            delay_ns: self.delay_ns(),
            queue_packets: self.queue_packets(),
            queue_bytes: self.queue_bytes(),
            from_bps: self.bps_before(),
            to_bps: self.bps_since(),
            cause: self.cause(),
            signal: self.signal(),
            trend_ms: self.trend_ms(),
            threshold_ms: self.threshold_ms(),
            ratio: self.ratio(),
            rate_bps: self.rate_bps(),
            ssrc: self.ssrc(),
        }
    }
}

/// A row of a CSV file; the fields' names are its header.
#[derive(Debug, Serialize)]
struct Words<'a> {
    time_ns: i64,
    event: &'static str,
    flow: Name<'a>,
    link: Option<Name<'a>>,
    sequence: i64,
    size_bytes: u32,
    ecn: &'static str,
    reason: Option<&'static str>,
    sojourn_ns: Option<i64>,
    delay_ns: Option<i64>,
    queue_packets: Option<i64>,
    queue_bytes: Option<i64>,
    from_bps: Option<i64>,
    to_bps: Option<i64>,
    cause: Option<&'static str>,
    signal: Option<&'static str>,
    trend_ms: Option<f64>,
    threshold_ms: Option<f64>,
    ratio: Option<f64>,
    rate_bps: Option<f64>,
    ssrc: Option<i64>,
}

fn bps(rate: giusto_units::DataRate) -> i64 {
    i64::try_from(rate.as_bps()).unwrap_or(i64::MAX)
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Name<'a> {
    Known(&'a str),
    Unknown(u32),
}

/// A column of a Parquet file.
struct Column {
    name: &'static str,
    cells: Cells,
}

enum Cells {
    Integer(fn(&Row) -> i64),
    IntegerOrNull(fn(&Row) -> Option<i64>),
    Text(fn(&Row, &Texts) -> ByteArray),
    NumberOrNull(fn(&Row) -> Option<f64>),
    TextOrNull(fn(&Row, &Texts) -> Option<ByteArray>),
}

/// All columns, in order: those of [`Words`].
const COLUMNS: [Column; 21] = [
    Column { name: "time_ns", cells: Cells::Integer(|row| row.time_ns) },
    Column { name: "event", cells: Cells::Text(|row, _| row.event().into()) },
    Column { name: "flow", cells: Cells::Text(|row, texts| name(&texts.flows, row.flow)) },
    Column { name: "link", cells: Cells::TextOrNull(|row, texts| Some(name(&texts.links, row.link?.0))) },
    Column { name: "sequence", cells: Cells::Integer(|row| row.sequence) },
    Column { name: "size_bytes", cells: Cells::Integer(|row| row.size_bytes.into()) },
    Column { name: "ecn", cells: Cells::Text(|row, _| row.ecn().into()) },
    Column { name: "reason", cells: Cells::TextOrNull(|row, _| row.reason().map(Into::into)) },
    Column { name: "sojourn_ns", cells: Cells::IntegerOrNull(Row::sojourn_ns) },
    Column { name: "delay_ns", cells: Cells::IntegerOrNull(Row::delay_ns) },
    Column { name: "queue_packets", cells: Cells::IntegerOrNull(Row::queue_packets) },
    Column { name: "queue_bytes", cells: Cells::IntegerOrNull(Row::queue_bytes) },
    Column { name: "from_bps", cells: Cells::IntegerOrNull(Row::bps_before) },
    Column { name: "to_bps", cells: Cells::IntegerOrNull(Row::bps_since) },
    Column { name: "cause", cells: Cells::TextOrNull(|row, _| row.cause().map(Into::into)) },
    Column { name: "signal", cells: Cells::TextOrNull(|row, _| row.signal().map(Into::into)) },
    Column { name: "trend_ms", cells: Cells::NumberOrNull(Row::trend_ms) },
    Column { name: "threshold_ms", cells: Cells::NumberOrNull(Row::threshold_ms) },
    Column { name: "ratio", cells: Cells::NumberOrNull(Row::ratio) },
    Column { name: "rate_bps", cells: Cells::NumberOrNull(Row::rate_bps) },
    Column { name: "ssrc", cells: Cells::IntegerOrNull(Row::ssrc) },
];

/// Columns whose values seldom repeat: their differences are small, a dictionary of them is large.
const DIFFERENCES: [&str; 4] = ["time_ns", "sequence", "sojourn_ns", "delay_ns"];

fn name(names: &[ByteArray], place: u32) -> ByteArray {
    names.get(place as usize).cloned().unwrap_or_else(|| place.to_string().as_str().into())
}

/// The names, ready to be written; to copy one costs a count.
#[derive(Debug)]
struct Texts {
    flows: Vec<ByteArray>,
    links: Vec<ByteArray>,
}

#[derive(Debug)]
struct Parquet {
    writer: SerializedFileWriter<WholeFile>,
    texts: Texts,
    rows: Vec<Row>,
}

impl Parquet {
    fn new(file: WholeFile, names: &TraceNames) -> Result<Self, ParquetError> {
        let columns = COLUMNS.iter().map(|column| match column.cells {
            Cells::Integer(_) => format!("required int64 {};", column.name),
            Cells::IntegerOrNull(_) => format!("optional int64 {};", column.name),
            Cells::NumberOrNull(_) => format!("optional double {};", column.name),
            Cells::Text(_) => format!("required byte_array {} (utf8);", column.name),
            Cells::TextOrNull(_) => format!("optional byte_array {} (utf8);", column.name),
        });
        let schema = parse_message_type(&format!("message trace {{ {} }}", columns.collect::<String>()))?;
        let mut properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        for column in DIFFERENCES {
            let path = ColumnPath::from(column);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let texts = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        Ok(Self {
            writer: SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))?,
            texts: Texts { flows: texts(&names.flows), links: texts(&names.links) },
            rows: Vec::new(),
        })
    }

    fn push(&mut self, row: Row) -> Result<(), ParquetError> {
        self.rows.push(row);
        if self.rows.len() < ROWS_PER_GROUP { Ok(()) } else { self.write_group() }
    }

    fn finish(mut self) -> Result<WholeFile, ParquetError> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        self.writer.into_inner()
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let (mut integers, mut numbers) = (Vec::new(), Vec::new());
        let (mut texts, mut present) = (Vec::new(), Vec::new());
        for Column { cells, .. } in &COLUMNS {
            let Some(mut column) = group.next_column()? else { break };
            for rows in self.rows.chunks(ROWS_PER_BATCH) {
                integers.clear();
                numbers.clear();
                texts.clear();
                present.clear();
                match cells {
                    Cells::Integer(of) => {
                        integers.extend(rows.iter().map(of));
                        column.typed::<Int64Type>().write_batch(&integers, None, None)?;
                    }
                    Cells::IntegerOrNull(of) => {
                        let values = rows.iter().map(of);
                        integers
                            .extend(values.inspect(|value| present.push(value.is_some().into())).flatten());
                        column.typed::<Int64Type>().write_batch(&integers, Some(&present), None)?;
                    }
                    Cells::NumberOrNull(of) => {
                        let values = rows.iter().map(of);
                        numbers
                            .extend(values.inspect(|value| present.push(value.is_some().into())).flatten());
                        column.typed::<DoubleType>().write_batch(&numbers, Some(&present), None)?;
                    }
                    Cells::Text(of) => {
                        texts.extend(rows.iter().map(|row| of(row, &self.texts)));
                        column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
                    }
                    Cells::TextOrNull(of) => {
                        let values = rows.iter().map(|row| of(row, &self.texts));
                        texts.extend(values.inspect(|value| present.push(value.is_some().into())).flatten());
                        column.typed::<ByteArrayType>().write_batch(&texts, Some(&present), None)?;
                    }
                }
            }
            column.close()?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
