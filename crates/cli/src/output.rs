//! Standard output of `send`, `recv` and `cbr`: text, JSON, JSON lines or CSV.

use std::collections::VecDeque;

use clap::Args;
use giusto_units::TimeDelta;
use serde::Serialize;
use serde_json::json;

use crate::{
    args,
    console::{self, TableArgs},
};
use giusto::{
    measured::{
        interval::Interval,
        live::Results,
        result::{FarEndFigures, ReflectorResult, RunResult},
        tcp::{TcpInterval, TcpResult, TcpServed},
    },
    view::{
        format::{count, plural, rate, time_us},
        histogram, intervals,
        rows::{self, Record},
        stamp, summary, table,
    },
};

/// The number of intervals kept for `--json`, the newest.
const MAX_INTERVALS: usize = 100_000;

/// Forms of the output besides text.
#[derive(Debug, Clone, Args)]
pub(crate) struct FormArgs {
    /// Print one JSON object: the result, or {"runs": […]} where there can be several
    #[arg(short = 'J', long)]
    pub(crate) json: bool,

    /// Print JSON lines: {"interval": {…}} for each interval, if there are any, and {"result": {…}} for each result
    #[arg(long, conflicts_with = "json")]
    json_lines: bool,

    /// Print CSV: a header, a row for each interval, if there are any, and a row for each result
    #[arg(long, conflicts_with_all = ["json", "json_lines"])]
    csv: bool,
}

/// Flags of the output of one run.
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// Print a line for each interval of this length while streams last: time, transfer, rate, loss, jitter
    #[arg(short, long, value_name = "TIME", value_parser = args::time_from_100_ms)]
    pub(crate) interval: Option<TimeDelta>,

    #[command(flatten)]
    form: FormArgs,
}

/// The text of the results of streams.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct TextArgs {
    #[command(flatten)]
    pub(crate) tables: TableArgs,

    /// Print every figure, not only rate, loss, jitter and delay
    #[arg(short, long)]
    verbose: bool,

    /// Print histograms too: schedule error and RTT at the sender, gap error at the receiver
    #[arg(long)]
    histogram: bool,
}

impl TextArgs {
    /// Leaves histograms out of the results unless they are asked for.
    pub(crate) fn trim(self, runs: &mut [RunResult]) {
        if !self.histogram {
            for run in runs {
                run.histograms = None;
            }
        }
    }
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
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
#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
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
    text: TextArgs,
    /// Intervals have the rate at which this end sends.
    sends: bool,
}

impl Output {
    /// The output of one run; `sends`: at the sending end.
    pub(crate) fn new(args: &OutputArgs, text: TextArgs, sends: bool) -> Self {
        Self { sends, ..Self::of_form(&args.form, text) }
    }

    /// The output of a list of runs.
    pub(crate) fn of_form(FormArgs { json, json_lines, csv }: &FormArgs, text: TextArgs) -> Self {
        let form = match (json, json_lines, csv) {
            (true, ..) => Form::Json,
            (_, true, _) => Form::JsonLines,
            (_, _, true) => Form::Csv,
            _ => Form::Text,
        };
        Self {
            form,
            headed: false,
            intervals: VecDeque::new(),
            closed: false,
            begun: false,
            held: None,
            text,
            sends: false,
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

    /// What is asked of the text.
    pub(crate) const fn text_args(&self) -> TextArgs {
        self.text
    }

    /// Whether its reader has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether a program reads it: then doubts are part of the results.
    pub(crate) fn is_data(&self) -> bool {
        self.form != Form::Text
    }

    /// Whether it is one JSON object, which is printed at the end.
    pub(crate) fn is_one_object(&self) -> bool {
        self.form == Form::Json
    }

    /// From now on the intervals are those of an end that sends.
    pub(crate) fn set_sender(&mut self, sends: bool) {
        self.sends = sends;
    }

    /// An interval that has ended.
    pub(crate) fn interval(&mut self, interval: impl Into<Interval>) -> anyhow::Result<()> {
        let interval = interval.into();
        match self.form {
            Form::Text => {
                let width = self.text.tables.width().into();
                if !std::mem::replace(&mut self.headed, true) {
                    self.line(&intervals::header(&interval, self.sends, width))?;
                }
                self.line(&intervals::line(&interval, width))
            }
            Form::Json => {
                if self.intervals.len() >= MAX_INTERVALS {
                    self.intervals.pop_front();
                }
                self.intervals.push_back(interval);
                Ok(())
            }
            Form::JsonLines => self.line(&serde_json::to_string(&Line::Interval(interval))?),
            Form::Csv => self.row(Record::Interval(&interval)),
        }
    }

    /// An interval of a TCP load, with its header and its line in the text.
    pub(crate) fn tcp_interval(
        &mut self,
        interval: &TcpInterval,
        header: &str,
        line: &str,
    ) -> anyhow::Result<()> {
        match self.form {
            Form::Text => {
                let width = self.text.tables.width().into();
                if !std::mem::replace(&mut self.headed, true) {
                    self.line(narrowed(header, width))?;
                }
                self.line(narrowed(line, width))
            }
            // The result has them.
            Form::Json => Ok(()),
            Form::JsonLines => self.line(&serde_json::to_string(&Line::Interval(interval))?),
            Form::Csv => self.row(Record::TcpInterval(interval)),
        }
    }

    /// The result of a TCP load.
    pub(crate) fn tcp(&mut self, result: &TcpResult, text: &str) -> anyhow::Result<()> {
        self.other(text, result, Record::TcpResult(result))
    }

    /// A connection of a TCP load that has ended, at the far end. Not for [`Form::Json`].
    pub(crate) fn tcp_served(&mut self, served: &TcpServed, text: &str) -> anyhow::Result<()> {
        self.other(text, served, Record::TcpServed(served))
    }

    /// The results of a session. With `both` directions those of streams are a list in JSON, even if there is only one.
    pub(crate) fn outcome(&mut self, results: &Results, both: bool) -> anyhow::Result<()> {
        match results {
            Results::Streams(runs) if self.is_one_object() => match &runs[..] {
                [one] if !both => self.object(one),
                many => self.object(&json!({ "runs": many })),
            },
            Results::Streams(runs) => self.directions(runs),
            Results::Stamp(result) => {
                let text = warned(&result.doubts, &stamp::lines(result).join("\n"));
                self.other(&text, result, Record::StampResult(result))
            }
        }
    }

    /// The result of a STAMP reflector.
    pub(crate) fn reflector(&mut self, result: &ReflectorResult) -> anyhow::Result<()> {
        let text = warned(&result.doubts, &stamp::reflected(result));
        self.other(&text, result, Record::ReflectorResult(result))
    }

    /// Results of streams, those of each direction by themselves, and what an iperf3 at the far end says. Not for [`Form::Json`].
    pub(crate) fn directions(&mut self, runs: &[RunResult]) -> anyhow::Result<()> {
        let (received, sent): (Vec<_>, Vec<_>) = runs.iter().cloned().partition(|run| run.from.is_some());
        let both = !received.is_empty() && !sent.is_empty();
        for (direction, runs) in [("sent", sent), ("received", received)] {
            let title = match runs.len() {
                0 => continue,
                _ if both => Some(format!("{direction}:")),
                1 => None,
                streams => Some(format!("{streams} streams together:")),
            };
            self.results(title.as_deref(), &runs)?;
        }
        let is_iperf3 = runs.iter().any(|run| run.format.as_deref() == Some("iperf3"));
        if is_iperf3 && !self.is_data() { self.line(&far_end(runs)) } else { Ok(()) }
    }

    /// A result that is not of streams: its text, its JSON, and its row.
    fn other(&mut self, text: &str, json: &impl Serialize, row: Record<'_>) -> anyhow::Result<()> {
        match self.form {
            Form::Text => {
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

    /// The results of one run, which may have several streams, with `title` above the text. Not for [`Form::Json`].
    pub(crate) fn results(&mut self, title: Option<&str>, runs: &[RunResult]) -> anyhow::Result<()> {
        match self.form {
            Form::Text => self.text(title, runs),
            Form::Json => Ok(()),
            Form::JsonLines => {
                runs.iter().try_for_each(|run| self.line(&serde_json::to_string(&Line::Result(run))?))
            }
            Form::Csv => runs.iter().try_for_each(|run| self.row(Record::Result(run))),
        }
    }

    /// One JSON object, with the intervals if there were any.
    pub(crate) fn object(&mut self, object: &impl Serialize) -> anyhow::Result<()> {
        let text = giusto::json::pretty(&Object { object, intervals: &self.intervals })?;
        self.line(&text)
    }

    fn text(&mut self, title: Option<&str>, runs: &[RunResult]) -> anyhow::Result<()> {
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
        for histograms in runs.iter().filter_map(|run| run.histograms.as_deref()) {
            self.line(&format!("\n{}", histogram::text(histograms)))?;
        }
        match runs {
            _ if !self.text.verbose => Ok(()),
            [one] => self.line(&format!("\n{}", table::run(one, self.text.tables.width()))),
            many => self.line(&format!("\n{}", table::runs(many, self.text.tables.width()))),
        }
    }

    fn row(&mut self, record: Record<'_>) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.headed, true) {
            self.line(rows::header(record))?;
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

/// A line of an interval of a TCP load, without the last columns that a narrow terminal has no room for.
fn narrowed(line: &str, width: usize) -> &str {
    /// Where the last columns begin: retransmissions, and the window.
    const ENDS: [usize; 2] = [49, 40];
    let length = line.chars().count();
    let end =
        if length <= width { length } else { ENDS.into_iter().find(|end| *end <= width).unwrap_or(ENDS[1]) };
    line.char_indices().nth(end).map_or(line, |(place, _)| line.split_at(place).0)
}

/// A text below the doubts about it.
fn warned(doubts: &[String], text: &str) -> String {
    doubts.iter().map(|doubt| format!("warning: {doubt}\n")).collect::<Vec<_>>().concat() + text
}

/// The far end's own figures of all streams, named as such.
fn far_end(results: &[RunResult]) -> String {
    let all: Vec<&FarEndFigures> = results.iter().filter_map(|result| result.far_end.as_ref()).collect();
    let Some(program) = all.first().map(|figures| &figures.program) else {
        return "\nThe far end sent no figures of its own.\n".to_owned();
    };
    let datagrams = |n| plural(n, "datagram", "datagrams");
    let (received, sent): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|figures| figures.received_packets.is_some());
    let sum = |of: fn(&FarEndFigures) -> Option<u64>, all: &[&FarEndFigures]| {
        all.iter().filter_map(|figures| of(figures)).fold(0, u64::saturating_add)
    };
    // It ends its test somewhat after the last datagram.
    let mean_rate = |all: &[&FarEndFigures]| {
        let mean = rate(all.iter().filter_map(|figures| figures.rate_bps).sum());
        let seconds = all.iter().filter_map(|figures| figures.duration_s).fold(0.0, f64::max);
        let time = if seconds > 0.0 { format!(" of {seconds:.2} s") } else { String::new() };
        format!("{mean} over its test{time}")
    };
    let mut lines = vec![format!("\nFigures of the far end ({program})")];
    if !sent.is_empty() {
        let packets = datagrams(sum(|figures| figures.sent_packets, &sent));
        lines.push(format!("  sent      {packets}, {}", mean_rate(&sent)));
    }
    if !received.is_empty() {
        let packets = datagrams(sum(|figures| figures.received_packets, &received));
        let lost = count(sum(|figures| figures.lost_packets, &received));
        let jitter = received.iter().filter_map(|figures| figures.jitter_ms).fold(0.0, f64::max);
        let most = if received.len() > 1 { "at most " } else { "" };
        let mean_rate = mean_rate(&received);
        lines.push(format!(
            "  received  {packets}, {lost} lost, jitter {most}{}, {mean_rate}",
            time_us(jitter * 1e3)
        ));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_far_end_are_named_as_such() {
        let figures = FarEndFigures {
            program: "iperf3 server".to_owned(),
            received_packets: Some(1000),
            lost_packets: Some(1),
            jitter_ms: Some(0.0123),
            rate_bps: Some(1e6),
            duration_s: Some(1.25),
            ..FarEndFigures::default()
        };
        let result = RunResult { far_end: Some(figures), ..RunResult::default() };
        let sent = FarEndFigures { sent_packets: Some(5), rate_bps: Some(2e6), ..FarEndFigures::default() };
        let sent = RunResult { far_end: Some(sent), ..RunResult::default() };
        assert_eq!(
            far_end(std::slice::from_ref(&result)),
            "\nFigures of the far end (iperf3 server)\n  received  1,000 datagrams, 1 lost, jitter 12.3 µs, 1.000 Mbit/s \
             over its test of 1.25 s\n"
        );
        assert_eq!(
            far_end(&[result.clone(), result, sent]),
            "\nFigures of the far end (iperf3 server)\n  sent      5 datagrams, 2.000 Mbit/s over its test\n  \
             received  2,000 datagrams, 2 lost, jitter at most 12.3 µs, 2.000 Mbit/s over its test of \
             1.25 s\n"
        );
        assert_eq!(far_end(&[RunResult::default()]), "\nThe far end sent no figures of its own.\n");
    }
}
