//! A sweep as tables: one row for each run and flow or link, and means over the seeds.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[cfg(feature = "arrow")]
use arrow_array::RecordBatch;
#[cfg(feature = "arrow")]
use arrow_schema::ArrowError;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{
    record::{Distribution, FlowRecord, LinkRecord},
    run::sweep::{Finished, Outcome},
    view::{
        columns::{self, Column},
        format::{mbits, or_unknown, percent, short},
        table::{Head, of_cells},
    },
    whole_file::{self, Content, WriteError},
};

/// The confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;

/// A mean over seeds with its 95 % confidence interval, by Student's t.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower limit; `None` for a single value.
    pub low: Option<f64>,
    /// The upper limit; `None` for a single value.
    pub high: Option<f64>,
}

impl Interval {
    /// The interval of some values; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let half = (values.len() > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let t = StudentsT::new(0.0, 1.0, count - 1.0)
                .map_or(f64::NAN, |t| t.inverse_cdf(0.5 + CONFIDENCE / 2.0));
            t * (variance / count).sqrt()
        });
        Some(Self { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) })
    }

    /// Half of its width.
    pub fn half(&self) -> Option<f64> {
        self.high.map(|high| high - self.mean)
    }
}

/// One flow with one combination of values, over all seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The parameters that were set, by their paths.
    pub parameters: BTreeMap<String, String>,
    /// The flow.
    pub flow: String,
    /// Number of seeds.
    pub runs: usize,
    /// Received rate.
    pub received_rate_bps: Option<Interval>,
    /// Goodput, of flows that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<Interval>,
    /// Share of packets lost.
    pub loss_ratio: Option<Interval>,
    /// Median of the one-way delay.
    pub delay_p50_ms: Option<Interval>,
    /// Its 95th percentile.
    pub delay_p95_ms: Option<Interval>,
    /// 95th percentile of the queueing delay.
    pub queue_delay_p95_ms: Option<Interval>,
    /// Of media: 95th percentile of the frame delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_delay_p95_ms: Option<Interval>,
}

/// One summary for each combination and flow, in the order of the runs.
pub fn summaries(finished: &[Finished]) -> Vec<Summary> {
    // The runs of a combination follow each other, and have the same flows.
    let combinations = finished.chunk_by(|a, b| a.parameters == b.parameters);
    let summaries = combinations.flat_map(|runs| {
        let first = runs.first().into_iter();
        let flows =
            first.flat_map(|first| first.result.flows.iter().map(move |flow| (first, flow))).enumerate();
        flows.map(move |(place, (first, flow))| {
            let own = || runs.iter().filter_map(|run| run.result.flows.get(place));
            let over = |figure: fn(&FlowRecord) -> Option<f64>| {
                Interval::of(&own().filter_map(figure).collect::<Vec<_>>())
            };
            Summary {
                parameters: first.parameters.clone(),
                flow: flow.id.clone(),
                runs: own().count(),
                received_rate_bps: over(|flow| Some(flow.received_rate_bps)),
                goodput_bps: over(|flow| flow.goodput_bps),
                loss_ratio: over(|flow| flow.loss_ratio),
                delay_p50_ms: over(|flow| Some(flow.delay_ms?.p50)),
                delay_p95_ms: over(|flow| Some(flow.delay_ms?.p95)),
                queue_delay_p95_ms: over(|flow| Some(flow.queue_delay_ms?.p95)),
                frame_delay_p95_ms: over(|flow| Some(flow.frame_delay_ms?.p95)),
            }
        })
    });
    summaries.collect()
}

/// Whether there are runs with several seeds, and the seed makes no difference.
pub fn seeds_make_no_difference(finished: &[Finished]) -> bool {
    let pairs = || finished.iter().zip(finished.iter().skip(1)).filter(|(a, b)| a.parameters == b.parameters);
    pairs().next().is_some() && pairs().all(|(a, b)| a.result.flows == b.result.flows && a.seed != b.seed)
}

/// A flow or a link of a run.
type Row<'a, T> = (&'a Finished, &'a T);

/// A column of a table of flows or links.
type Figure<'a, T> = Column<'a, Row<'a, T>>;

/// The columns of a distribution.
fn distribution<'a, T: 'a>(
    name: &str,
    of: fn(&T) -> Option<Distribution>,
) -> impl Iterator<Item = Figure<'a, T>> {
    /// The name of a figure and its value.
    type Part = (&'static str, fn(Distribution) -> f64);
    let figures: [Part; 5] = [
        ("mean", |all| all.mean),
        ("p50", |all| all.p50),
        ("p95", |all| all.p95),
        ("p99", |all| all.p99),
        ("max", |all| all.max),
    ];
    figures
        .map(|(figure, value)| {
            Figure::<'a, T>::number(format!("{name}_{figure}_ms"), move |row: &Row<'a, T>| {
                of(row.1).map(value)
            })
        })
        .into_iter()
}

/// The columns of every table of a sweep: the parameters in the order of `paths`, the scenario, the seed, whether all expectations
/// are met, and whether they are judged.
fn about_run<'a, T: 'a>(paths: &'a [String], outcome: &'a Outcome) -> Vec<Figure<'a, T>> {
    let parameter = |path: &'a String| {
        Figure::<'a, T>::text(path.as_str(), move |row: &Row<'a, T>| row.0.parameters.get(path).cloned())
    };
    let mut columns: Vec<_> = paths.iter().map(parameter).collect();
    columns.extend([
        Figure::<'a, T>::text("scenario", |row: &Row<'a, T>| Some(row.0.result.scenario.clone())),
        Figure::<'a, T>::integer("seed", |row| row.0.seed.parse().ok()),
        Figure::<'a, T>::flag("passed", |row| Some(row.0.result.passed())),
        Figure::<'a, T>::flag("judged", move |row: &Row<'a, T>| Some(outcome.judges(row.0))),
    ]);
    columns
}

fn flow_columns<'a>(paths: &'a [String], outcome: &'a Outcome) -> Vec<Figure<'a, FlowRecord>> {
    let mut columns = about_run(paths, outcome);
    columns.extend([
        Figure::<'a, FlowRecord>::text("flow", |row: &Row<'a, FlowRecord>| Some(row.1.id.clone())),
        Figure::<'a, FlowRecord>::text("kind", |row| Some(row.1.kind.clone())),
        Figure::<'a, FlowRecord>::text("controller", |row| row.1.controller.clone()),
        Figure::<'a, FlowRecord>::number("sent_rate_bps", |row| Some(row.1.sent_rate_bps)),
        Figure::<'a, FlowRecord>::number("received_rate_bps", |row| Some(row.1.received_rate_bps)),
        Figure::<'a, FlowRecord>::number("goodput_bps", |row| row.1.goodput_bps),
        Figure::<'a, FlowRecord>::integer("sent_packets", |row| Some(row.1.sent_packets)),
        Figure::<'a, FlowRecord>::integer("received_packets", |row| Some(row.1.received_packets)),
        Figure::<'a, FlowRecord>::integer("lost_packets", |row| Some(row.1.lost_packets)),
        Figure::<'a, FlowRecord>::integer("duplicate_packets", |row| Some(row.1.duplicate_packets)),
        Figure::<'a, FlowRecord>::number("loss_ratio", |row| row.1.loss_ratio),
        Figure::<'a, FlowRecord>::number("marked_ratio", |row| row.1.marked_ratio),
    ]);
    columns.extend(distribution("delay", |flow: &FlowRecord| flow.delay_ms));
    columns.extend(distribution("queue_delay", |flow: &FlowRecord| flow.queue_delay_ms));
    columns.extend(distribution("frame_delay", |flow: &FlowRecord| flow.frame_delay_ms));
    columns
}

fn link_columns<'a>(paths: &'a [String], outcome: &'a Outcome) -> Vec<Figure<'a, LinkRecord>> {
    let mut columns = about_run(paths, outcome);
    columns.extend([
        Figure::<'a, LinkRecord>::text("link", |row: &Row<'a, LinkRecord>| Some(row.1.id.clone())),
        Figure::<'a, LinkRecord>::number("utilisation_ratio", |row| row.1.utilisation_ratio),
        Figure::<'a, LinkRecord>::integer("offered_packets", |row| Some(row.1.offered_packets)),
        Figure::<'a, LinkRecord>::integer("delivered_packets", |row| Some(row.1.delivered_packets)),
        Figure::<'a, LinkRecord>::integer("dropped_packets", |row| Some(row.1.dropped_packets)),
        Figure::<'a, LinkRecord>::integer("marked_packets", |row| Some(row.1.marked_packets)),
    ]);
    columns.extend(distribution("queue_delay", |link: &LinkRecord| link.queue_delay_ms));
    columns
}

fn flow_rows(finished: &[Finished]) -> Vec<Row<'_, FlowRecord>> {
    finished.iter().flat_map(|run| run.result.flows.iter().map(move |flow| (run, flow))).collect()
}

fn link_rows(finished: &[Finished]) -> Vec<Row<'_, LinkRecord>> {
    finished.iter().flat_map(|run| run.result.links.iter().map(move |link| (run, link))).collect()
}

/// One row for each run and flow: the parameters, the seed, and the statistics of the flow. `paths` are the parameters, in this
/// order.
///
/// # Errors
///
/// If a row cannot be written, which does not happen in memory.
pub fn flows_csv(paths: &[String], outcome: &Outcome) -> Result<Vec<u8>, csv::Error> {
    columns::csv(&flow_columns(paths, outcome), &flow_rows(&outcome.finished))
}

/// One row for each run and link.
///
/// # Errors
///
/// If a row cannot be written, which does not happen in memory.
pub fn links_csv(paths: &[String], outcome: &Outcome) -> Result<Vec<u8>, csv::Error> {
    columns::csv(&link_columns(paths, outcome), &link_rows(&outcome.finished))
}

/// Writes `flows.csv` and `links.csv` to `folder`; gives their paths.
///
/// # Errors
///
/// [`WriteError`] names the path and the fix.
pub fn write(folder: &Path, paths: &[String], outcome: &Outcome) -> Result<[PathBuf; 2], WriteError> {
    let table = |name: &str, table: Result<Vec<u8>, csv::Error>| {
        let path = folder.join(name);
        let content = Content { name: "table", example: "flows.csv" };
        let table = table.map_err(|error| WriteError::io(&path, content, error.into()))?;
        whole_file::write(&path, content, &table)?;
        Ok(path)
    };
    Ok([table("flows.csv", flows_csv(paths, outcome))?, table("links.csv", links_csv(paths, outcome))?])
}

/// The table of [`flows_csv`] for Arrow.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
#[cfg(feature = "arrow")]
pub fn flows_batch(paths: &[String], outcome: &Outcome) -> Result<RecordBatch, ArrowError> {
    columns::batch(&flow_columns(paths, outcome), &flow_rows(&outcome.finished))
}

/// The table of [`links_csv`] for Arrow.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
#[cfg(feature = "arrow")]
pub fn links_batch(paths: &[String], outcome: &Outcome) -> Result<RecordBatch, ArrowError> {
    columns::batch(&link_columns(paths, outcome), &link_rows(&outcome.finished))
}

/// A column of the table of means.
type Shown = (Head, fn(&Summary) -> String);

/// Means over the seeds with their confidence intervals, one row for each combination and flow; the table is at most `width` characters
/// wide if possible.
pub fn text(paths: &[String], finished: &[Finished], width: u16) -> String {
    let summaries = summaries(finished);
    let mut heads: Vec<Head> = paths.iter().map(|path| Head::words(path, 0)).collect();
    heads.push(Head::words("flow", 0));
    let mut figures: Vec<Shown> = vec![
        (Head::number("runs", 3), |row| row.runs.to_string()),
        (Head::number("received\nMbit/s", 0), |row| interval(row.received_rate_bps, mbits)),
        (Head::number("loss", 2), |row| interval(row.loss_ratio, percent)),
        (Head::number("delay p50\nms", 5), |row| interval(row.delay_p50_ms, short)),
        (Head::number("delay p95\nms", 4), |row| interval(row.delay_p95_ms, short)),
        (Head::number("queueing delay\np95 ms", 0), |row| interval(row.queue_delay_p95_ms, short)),
    ];
    if summaries.iter().any(|row| row.frame_delay_p95_ms.is_some()) {
        let frame_delay: Shown =
            (Head::number("frame delay\np95 ms", 1), |row| interval(row.frame_delay_p95_ms, short));
        figures.push(frame_delay);
    }
    heads.extend(figures.iter().map(|(head, _)| head.clone()));
    let rows = summaries.iter().map(|row| {
        let parameters = paths.iter().map(|path| row.parameters.get(path).cloned().unwrap_or_default());
        let figures = figures.iter().map(|(_, cell)| cell(row));
        parameters.chain([row.flow.clone()]).chain(figures).collect()
    });
    let table = of_cells(&heads, rows.collect(), width);
    format!("{table}± is the 95 % confidence interval of the mean over the seeds.\n")
}

fn interval(interval: Option<Interval>, write: impl Fn(f64) -> String) -> String {
    or_unknown(interval, |interval| match interval.half() {
        Some(half) => format!("{} ± {}", write(interval.mean), write(half)),
        None => write(interval.mean),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;

    #[test]
    fn the_interval_is_that_of_students_t() {
        // Four values of mean 5 and standard deviation 2: t with 3 degrees of freedom is 3.182 (tables of Student's t).
        let values = [5.0 - 6.0_f64.sqrt(), 5.0, 5.0, 5.0 + 6.0_f64.sqrt()];
        let interval = Interval::of(&values).unwrap();
        assert!((interval.mean - 5.0).abs() < 1e-12);
        assert!((interval.half().unwrap() - 3.1824).abs() < 1e-3, "{interval:?}");
        assert_eq!(Interval::of(&[7.0]), Some(Interval { mean: 7.0, low: None, high: None }));
        assert_eq!(Interval::of(&[]), None);
    }

    #[test]
    fn a_csv_table_has_a_row_for_each_run_and_flow() {
        let flow = |id: &str| FlowRecord {
            id: id.to_owned(),
            goodput_bps: Some(1.5),
            queue_delay_ms: Some(Distribution { p95: 20.5, ..Distribution::default() }),
            ..FlowRecord::default()
        };
        let run = Finished {
            seed: "7".to_owned(),
            parameters: BTreeMap::from([("wire.rate".to_owned(), "1M".to_owned())]),
            fingerprint: String::new(),
            result: RunRecord {
                scenario: "s".to_owned(),
                flows: vec![flow("a"), flow("b")],
                ..RunRecord::default()
            },
        };
        let outcome = Outcome { finished: vec![run], ..Outcome::default() };
        let table = flows_csv(&["wire.rate".to_owned()], &outcome).unwrap();
        let mut reader = csv::Reader::from_reader(&table[..]);
        let names = reader.headers().unwrap().clone();
        assert_eq!(
            names.iter().take(6).collect::<Vec<_>>(),
            ["wire.rate", "scenario", "seed", "passed", "judged", "flow"]
        );
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let cell = |row: usize, name: &str| &rows[row][names.iter().position(|own| own == name).unwrap()];
        assert_eq!((rows.len(), cell(0, "flow"), cell(1, "flow"), cell(1, "seed")), (2, "a", "b", "7"));
        assert_eq!(
            (cell(0, "goodput_bps"), cell(0, "queue_delay_p95_ms"), cell(0, "delay_p95_ms")),
            ("1.5", "20.5", "")
        );
    }
}
