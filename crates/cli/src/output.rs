//! Standard output of `send`, `recv` and `cbr`: text, JSON, JSON lines or CSV.

use std::collections::VecDeque;

use clap::Args;
use giusto_units::TimeDelta;
use serde::Serialize;

use crate::{
    args,
    console::{self, TableArgs},
};
use giusto::{
    measured::{
        interval::IntervalFigures,
        result::RunResult,
        stamp::{ReflectorInterval, StampInterval},
    },
    view::{
        rows::{self, Record},
        stamp, summary, table,
    },
};

/// The number of intervals kept for `--json`, the newest.
const MAX_INTERVALS: usize = 100_000;

/// Forms of the output besides `--json`.
#[derive(Debug, Clone, Args)]
pub(crate) struct FormArgs {
    /// Print JSON lines: {"interval": {…}} for each interval, if there are any, and {"result": {…}} for each result
    #[arg(long, conflicts_with = "json")]
    json_lines: bool,

    /// Print CSV: a header, a row for each interval, if there are any, and a row for each result
    #[arg(long, conflicts_with_all = ["json", "json_lines"])]
    csv: bool,

    #[command(flatten)]
    pub(crate) tables: TableArgs,
}

/// Flags of the output of one run.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Print a line for each interval of this length while streams last: time, transfer, rate, loss, jitter
    #[arg(short, long, value_name = "TIME", value_parser = interval_length)]
    interval: Option<TimeDelta>,

    #[command(flatten)]
    form: FormArgs,

    /// Print every figure, not only rate, loss, jitter and delay
    #[arg(short, long)]
    verbose: bool,
}

fn interval_length(text: &str) -> Result<TimeDelta, String> {
    const MIN: TimeDelta = TimeDelta::from_millis(100);
    match args::time(text)? {
        short if short < MIN => Err(format!("must be at least {MIN}, found {short}")),
        long => Ok(long),
    }
}

impl OutputArgs {
    /// The length of the intervals that are asked for.
    pub(crate) fn interval(&self) -> Option<TimeDelta> {
        self.interval
    }
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `sender`: intervals have the rate at which it sends.
    Text {
        verbose: bool,
        sender: bool,
    },
    Json,
    JsonLines,
    Csv,
}

/// A line of JSON lines.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Line<T> {
    Interval(T),
    Result(T),
}

/// The figures of an interval: of streams, of a STAMP session, or of a STAMP reflector.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub(crate) enum Interval {
    Streams(IntervalFigures),
    Stamp(StampInterval),
    Reflector(ReflectorInterval),
}

impl Interval {
    fn header(&self, sender: bool) -> String {
        match self {
            Self::Streams(_) => summary::interval_header(sender),
            Self::Stamp(_) => stamp::interval_header(),
            Self::Reflector(_) => stamp::reflector_interval_header(),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Streams(figures) => summary::interval(figures),
            Self::Stamp(figures) => stamp::interval(figures),
            Self::Reflector(figures) => stamp::reflector_interval(figures),
        }
    }

    fn record(&self) -> Record<'_> {
        match self {
            Self::Streams(figures) => Record::Interval(figures),
            Self::Stamp(figures) => Record::StampInterval(figures),
            Self::Reflector(figures) => Record::ReflectorInterval(figures),
        }
    }
}

impl From<IntervalFigures> for Interval {
    fn from(figures: IntervalFigures) -> Self {
        Self::Streams(figures)
    }
}

impl From<StampInterval> for Interval {
    fn from(figures: StampInterval) -> Self {
        Self::Stamp(figures)
    }
}

impl From<ReflectorInterval> for Interval {
    fn from(figures: ReflectorInterval) -> Self {
        Self::Reflector(figures)
    }
}

/// One JSON object, with the intervals if there were any.
#[derive(Debug, Serialize)]
struct Object<'a, T> {
    #[serde(flatten)]
    object: &'a T,
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    intervals: &'a VecDeque<Interval>,
}

/// Writes intervals and results to standard output. A closed pipe is no error: [`is_closed`](Self::is_closed) says so.
#[derive(Debug)]
pub(crate) struct Output {
    form: Form,
    /// Whether the header of the rows that follow has been written.
    headed: bool,
    intervals: VecDeque<Interval>,
    closed: bool,
    /// Whether text has been written, which a blank line separates from the next.
    begun: bool,
    /// What is not printed here, but by another thread.
    held: Option<String>,
    /// The width of tables.
    width: u16,
}

impl Output {
    const TEXT: Form = Form::Text { verbose: false, sender: false };

    /// The output of one run; `sender`: at the sending end.
    pub(crate) fn new(json: bool, args: &OutputArgs, sender: bool) -> Self {
        let mut output = Self::of_form(json, &args.form);
        if output.form == Self::TEXT {
            output.form = Form::Text { verbose: args.verbose, sender };
        }
        output
    }

    /// The output of a list of runs.
    pub(crate) fn of_form(json: bool, FormArgs { json_lines, csv, tables }: &FormArgs) -> Self {
        let form = match (json, json_lines, csv) {
            (true, ..) => Form::Json,
            (_, true, _) => Form::JsonLines,
            (_, _, true) => Form::Csv,
            _ => Self::TEXT,
        };
        let width = tables.width();
        Self {
            form,
            headed: false,
            intervals: VecDeque::new(),
            closed: false,
            begun: false,
            held: None,
            width,
        }
    }

    /// The same output, which is not printed but kept for [`take`](Self::take).
    pub(crate) fn held(self) -> Self {
        Self { held: Some(String::new()), ..self }
    }

    /// The text that is held, if there is any.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.held.as_mut().map(std::mem::take).filter(|text| !text.is_empty())
    }

    /// Whether its reader has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether a program reads it: then doubts are part of the results.
    pub(crate) fn is_data(&self) -> bool {
        !matches!(self.form, Form::Text { .. })
    }

    /// Whether it is one JSON object, which is printed at the end.
    pub(crate) fn is_one_object(&self) -> bool {
        self.form == Form::Json
    }

    /// From now on the intervals are those of an end that sends.
    pub(crate) fn set_sender(&mut self, sends: bool) {
        if let Form::Text { sender, .. } = &mut self.form {
            *sender = sends;
        }
    }

    /// An interval that has ended.
    pub(crate) fn interval(&mut self, figures: impl Into<Interval>) -> anyhow::Result<()> {
        let interval = figures.into();
        match self.form {
            Form::Text { sender, .. } => {
                if !std::mem::replace(&mut self.headed, true) {
                    self.line(&interval.header(sender))?;
                }
                self.line(&interval.text())
            }
            Form::Json => {
                if self.intervals.len() >= MAX_INTERVALS {
                    self.intervals.pop_front();
                }
                self.intervals.push_back(interval);
                Ok(())
            }
            Form::JsonLines => self.line(&serde_json::to_string(&Line::Interval(interval))?),
            Form::Csv => self.row(interval.record()),
        }
    }

    /// A result that is not of streams: its text, its JSON, and its row.
    pub(crate) fn other(&mut self, text: &str, json: &impl Serialize, row: Record<'_>) -> anyhow::Result<()> {
        match self.form {
            Form::Text { .. } => {
                if std::mem::take(&mut self.headed) {
                    self.line("")?;
                }
                self.line(text)
            }
            Form::Json => self.object(json),
            Form::JsonLines => self.line(&serde_json::to_string(&Line::Result(json))?),
            Form::Csv => self.row(row),
        }
    }

    /// Lines below results, where they are text.
    pub(crate) fn remark(&mut self, lines: &str) -> anyhow::Result<()> {
        if self.is_data() { Ok(()) } else { self.line(lines) }
    }

    /// The results of one run, which may have several streams, with `title` above the text. Not for [`Form::Json`].
    pub(crate) fn results(&mut self, title: Option<&str>, runs: &[RunResult]) -> anyhow::Result<()> {
        match self.form {
            Form::Text { verbose, .. } => self.text(title, runs, verbose),
            Form::Json => Ok(()),
            Form::JsonLines => {
                runs.iter().try_for_each(|run| self.line(&serde_json::to_string(&Line::Result(run))?))
            }
            Form::Csv => runs.iter().try_for_each(|run| self.row(Record::Result(run))),
        }
    }

    /// One JSON object, with the intervals if there were any.
    pub(crate) fn object(&mut self, object: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&Object { object, intervals: &self.intervals })?;
        self.line(&text)
    }

    fn text(&mut self, title: Option<&str>, runs: &[RunResult], verbose: bool) -> anyhow::Result<()> {
        let intervals = std::mem::take(&mut self.headed);
        if std::mem::replace(&mut self.begun, true) || intervals {
            self.line("")?;
        }
        for (index, run) in runs.iter().enumerate() {
            for doubt in &run.doubts {
                let name = if runs.len() > 1 { format!("stream {}: ", index + 1) } else { String::new() };
                self.line(&format!("warning: {name}{doubt}"))?;
            }
        }
        if let Some(title) = title {
            self.line(title)?;
        }
        self.line(&summary::text(runs))?;
        match runs {
            _ if !verbose => Ok(()),
            [one] => self.line(&format!("\n{}", table::run(one))),
            many => self.line(&format!("\n{}", table::runs(many, self.width))),
        }
    }

    fn row(&mut self, record: Record<'_>) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.headed, true) {
            self.line(&rows::header(record))?;
        }
        self.line(&rows::row(record))
    }

    /// Writes a line at once.
    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        if let Some(held) = &mut self.held {
            held.push_str(line.trim_end());
            held.push('\n');
        } else {
            self.closed |= !console::print_live(line)?;
        }
        Ok(())
    }
}
