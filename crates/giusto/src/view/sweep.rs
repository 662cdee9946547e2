//! A sweep as tables: one row for each run and flow or link, and means over the seeds.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[cfg(feature = "arrow")]
use arrow_array::RecordBatch;
#[cfg(feature = "arrow")]
use arrow_schema::ArrowError;
use serde::{Serialize, Serializer};

pub use crate::confidence::Interval;
use crate::{
    record::{FlowRecord, LinkRecord},
    run::sweep::{Finished, Outcome},
    statistics::{FLOW, LINK, MEDIA, Part, Statistic, of_flow},
    view::{
        columns::Columns,
        format::or_unknown,
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
    /// The means of figures, by their names.
    #[serde(flatten, serialize_with = "as_map")]
    means: Vec<(String, Option<Interval>)>,
}

fn as_map<S: Serializer>(means: &[(String, Option<Interval>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(means.iter().map(|(name, mean)| (name, mean)))
}

/// A figure whose means are shown.
struct Shown {
    /// Its statistic.
    name: &'static str,
    /// Which part of a distribution.
    part: Option<Part>,
    /// Place of its column, if it has one.
    column: Option<u8>,
    /// Whether every flow has it. Others are left out where it is unknown.
    is_of_all: bool,
}

#[rustfmt::skip]
const SHOWN: [Shown; 7] = [
    Shown { name: "received_rate_bps", part: None, column: Some(0), is_of_all: true },
    Shown { name: "goodput_bps", part: None, column: None, is_of_all: false },
    Shown { name: "loss_ratio", part: None, column: Some(2), is_of_all: true },
    Shown { name: "delay_ms", part: Some(Part::P50), column: Some(5), is_of_all: true },
    Shown { name: "delay_ms", part: Some(Part::P95), column: Some(4), is_of_all: true },
    Shown { name: "queue_delay_ms", part: Some(Part::P95), column: Some(0), is_of_all: true },
    Shown { name: "frame_delay_ms", part: Some(Part::P95), column: Some(1), is_of_all: false },
];

/// The figures with their statistics.
fn shown() -> impl Iterator<Item = (&'static Shown, &'static Statistic<FlowRecord>)> {
    SHOWN.iter().filter_map(|shown| Some((shown, of_flow(shown.name)?)))
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
            let mean = |(shown, statistic): (&Shown, &Statistic<FlowRecord>)| {
                let values = own().filter_map(|flow| statistic.value_of(flow, shown.part));
                let mean = Interval::of(&values.collect::<Vec<_>>());
                (shown.is_of_all || mean.is_some()).then(|| (statistic.name_of(shown.part), mean))
            };
            Summary {
                parameters: first.parameters.clone(),
                flow: flow.id.clone(),
                runs: own().count(),
                means: shown().filter_map(mean).collect(),
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
        .seed("seed", |(run, _)| run.seed.parse().ok())
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

/// Means over the seeds with their confidence intervals, one row for each combination and flow; the table is at most `width` characters
/// wide if possible.
pub fn text(paths: &[String], finished: &[Finished], width: u16) -> String {
    let summaries = summaries(finished);
    let mut heads: Vec<Head> = paths.iter().map(|path| Head::words(path, 0)).collect();
    heads.extend([Head::words("flow", 0), Head::number("runs", 3)]);
    let mean = |row: &Summary, name: &str| row.means.iter().find(|(own, _)| own == name)?.1;
    let mut columns = Vec::new();
    for (shown, statistic) in shown() {
        let name = statistic.name_of(shown.part);
        let is_known = shown.is_of_all || summaries.iter().any(|row| mean(row, &name).is_some());
        if let Some(place) = shown.column.filter(|_| is_known) {
            heads.push(Head::number(statistic.bare_header(shown.part.as_slice()), place));
            columns.push((name, statistic));
        }
    }
    let rows = summaries.iter().map(|row| {
        let parameters = paths.iter().map(|path| row.parameters.get(path).cloned().unwrap_or_default());
        let figures = columns.iter().map(|(name, of)| interval(mean(row, name), |value| of.bare(value)));
        parameters.chain([row.flow.clone(), row.runs.to_string()]).chain(figures).collect()
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
            result: RunRecord { flows: vec![flow("a"), flow("b")], ..RunRecord::default() },
        };
        let outcome = Outcome { finished: vec![run], ..Outcome::default() };
        let table = flows_csv(&["wire.rate".to_owned()], &outcome).unwrap();
        let first = "wire.rate,scenario,seed,passed,judged,flow,";
        assert!(table.starts_with(first.as_bytes()), "{}", String::from_utf8_lossy(&table));
        let mut reader = csv::Reader::from_reader(&table[..]);
        let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
        let columns = ["wire.rate", "seed", "flow", "goodput_bps", "queue_delay_p95_ms", "delay_p95_ms"];
        let cells = |row: &BTreeMap<String, String>| columns.map(|name| row[name].clone());
        let expected = ["a", "b"].map(|flow| ["1M", "7", flow, "1.5", "20.5", ""].map(str::to_owned));
        assert_eq!(rows.iter().map(cells).collect::<Vec<_>>(), expected);
    }
}
