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

pub use crate::confidence::Interval;
use crate::{
    record::{FlowRecord, LinkRecord},
    run::sweep::{Finished, Outcome},
    statistics::{FLOW, LINK, MEDIA},
    view::{
        columns::Columns,
        format::{mbits, or_unknown, percent, short},
        table::{Head, of_cells},
    },
    whole_file::{self, Content, WriteError},
};

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

/// The columns of every table of a sweep: the parameters in the order of `paths`, the scenario, the seed, whether all expectations
/// are met, and whether they are judged.
fn about_run<'a, T>(rows: &'a [Row<'_, T>], paths: &[String], outcome: &Outcome) -> Columns<'a, Row<'a, T>> {
    let mut columns = Columns::of(rows);
    for path in paths {
        columns.text(path, |(run, _)| run.parameters.get(path).cloned());
    }
    columns
        .text("scenario", |(run, _)| Some(run.result.scenario.clone()))
        .integer("seed", |(run, _)| run.seed.parse().ok())
        .flag("passed", |(run, _)| Some(run.result.passed()))
        .flag("judged", |(run, _)| Some(outcome.judges(run)));
    columns
}

fn flow_rows(finished: &[Finished]) -> Vec<Row<'_, FlowRecord>> {
    finished.iter().flat_map(|run| run.result.flows.iter().map(move |flow| (run, flow))).collect()
}

fn flow_columns<'a>(
    rows: &'a [Row<'_, FlowRecord>],
    paths: &[String],
    outcome: &Outcome,
) -> Columns<'a, Row<'a, FlowRecord>> {
    let mut columns = about_run(rows, paths, outcome);
    columns
        .text("flow", |(_, flow)| Some(flow.id.clone()))
        .text("kind", |(_, flow)| Some(flow.kind.clone()))
        .text("controller", |(_, flow)| flow.controller.clone())
        .statistics(FLOW, |(_, flow)| flow)
        .statistics(MEDIA, |(_, flow)| flow);
    columns
}

fn link_rows(finished: &[Finished]) -> Vec<Row<'_, LinkRecord>> {
    finished.iter().flat_map(|run| run.result.links.iter().map(move |link| (run, link))).collect()
}

fn link_columns<'a>(
    rows: &'a [Row<'_, LinkRecord>],
    paths: &[String],
    outcome: &Outcome,
) -> Columns<'a, Row<'a, LinkRecord>> {
    let mut columns = about_run(rows, paths, outcome);
    columns.text("link", |(_, link)| Some(link.id.clone())).statistics(LINK, |(_, link)| link);
    columns
}

/// One row for each run and flow: the parameters, the seed, and the statistics of the flow. `paths` are the parameters, in this
/// order.
///
/// # Errors
///
/// If a row cannot be written, which does not happen in memory.
pub fn flows_csv(paths: &[String], outcome: &Outcome) -> Result<Vec<u8>, csv::Error> {
    flow_columns(&flow_rows(&outcome.finished), paths, outcome).csv()
}

/// One row for each run and link.
///
/// # Errors
///
/// If a row cannot be written, which does not happen in memory.
pub fn links_csv(paths: &[String], outcome: &Outcome) -> Result<Vec<u8>, csv::Error> {
    link_columns(&link_rows(&outcome.finished), paths, outcome).csv()
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
    flow_columns(&flow_rows(&outcome.finished), paths, outcome).batch()
}

/// The table of [`links_csv`] for Arrow.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
#[cfg(feature = "arrow")]
pub fn links_batch(paths: &[String], outcome: &Outcome) -> Result<RecordBatch, ArrowError> {
    link_columns(&link_rows(&outcome.finished), paths, outcome).batch()
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
    use crate::record::{Distribution, RunRecord};

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
