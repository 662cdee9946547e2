//! A sweep as tables: one row for each run and flow or link, and means over the seeds.

use std::collections::BTreeMap;

use comfy_table::CellAlignment;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{
    record::{Distribution, FlowRecord, LinkRecord},
    run::sweep::Finished,
    view::{
        format::{or_unknown, percent, short},
        table::of_cells,
    },
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

/// A column: its name and its value.
type Column<T> = (String, Box<dyn Fn(&T) -> String>);

fn column<T: 'static>(name: &str, value: fn(&T) -> String) -> Column<T> {
    (name.to_owned(), Box::new(value))
}

/// The name of a figure of a distribution, and its value.
type Figure = (&'static str, fn(Distribution) -> f64);

/// The columns of a distribution.
fn distribution<T: 'static>(
    name: &'static str,
    of: fn(&T) -> Option<Distribution>,
) -> impl Iterator<Item = Column<T>> {
    let figures: [Figure; 5] = [
        ("mean", |all| all.mean),
        ("p50", |all| all.p50),
        ("p95", |all| all.p95),
        ("p99", |all| all.p99),
        ("max", |all| all.max),
    ];
    figures.into_iter().map(move |(figure, value)| -> Column<T> {
        (format!("{name}_{figure}_ms"), Box::new(move |row| number(of(row).map(value))))
    })
}

/// One row for each run and flow: the parameters, the seed, and the statistics of the flow. `paths` are the parameters, in this
/// order.
///
/// # Errors
///
/// If a row cannot be written, which does not happen in memory.
pub fn flows_csv(paths: &[String], finished: &[Finished]) -> Result<Vec<u8>, csv::Error> {
    let mut columns: Vec<Column<FlowRecord>> = vec![
        column("flow", |flow| flow.id.clone()),
        column("kind", |flow| flow.kind.clone()),
        column("controller", |flow| flow.controller.clone().unwrap_or_default()),
        column("sent_rate_bps", |flow| flow.sent_rate_bps.to_string()),
        column("received_rate_bps", |flow| flow.received_rate_bps.to_string()),
        column("goodput_bps", |flow| number(flow.goodput_bps)),
        column("sent_packets", |flow| flow.sent_packets.to_string()),
        column("received_packets", |flow| flow.received_packets.to_string()),
        column("lost_packets", |flow| flow.lost_packets.to_string()),
        column("duplicate_packets", |flow| flow.duplicate_packets.to_string()),
        column("loss_ratio", |flow| number(flow.loss_ratio)),
        column("marked_ratio", |flow| number(flow.marked_ratio)),
    ];
    columns.extend(distribution("delay", |flow: &FlowRecord| flow.delay_ms));
    columns.extend(distribution("queue_delay", |flow: &FlowRecord| flow.queue_delay_ms));
    columns.extend(distribution("frame_delay", |flow: &FlowRecord| flow.frame_delay_ms));
    csv(paths, &columns, finished, |run| &run.result.flows)
}

/// One row for each run and link.
///
/// # Errors
///
/// If a row cannot be written, which does not happen in memory.
pub fn links_csv(paths: &[String], finished: &[Finished]) -> Result<Vec<u8>, csv::Error> {
    let mut columns: Vec<Column<LinkRecord>> = vec![
        column("link", |link| link.id.clone()),
        column("utilisation_ratio", |link| number(link.utilisation_ratio)),
        column("offered_packets", |link| link.offered_packets.to_string()),
        column("delivered_packets", |link| link.delivered_packets.to_string()),
        column("dropped_packets", |link| link.dropped_packets.to_string()),
        column("marked_packets", |link| link.marked_packets.to_string()),
    ];
    columns.extend(distribution("queue_delay", |link: &LinkRecord| link.queue_delay_ms));
    csv(paths, &columns, finished, |run| &run.result.links)
}

fn csv<T>(
    paths: &[String],
    columns: &[Column<T>],
    finished: &[Finished],
    rows: impl Fn(&Finished) -> &[T],
) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = ["scenario", "seed", "passed"];
    let names = columns.iter().map(|(name, _)| name.as_str());
    writer.write_record(paths.iter().map(String::as_str).chain(fixed).chain(names))?;
    for run in finished {
        let values = paths.iter().map(|path| run.parameters.get(path).cloned().unwrap_or_default());
        let about = [run.result.scenario.clone(), run.seed.clone(), run.result.passed().to_string()];
        let start: Vec<String> = values.chain(about).collect();
        for row in rows(run) {
            writer.write_record(start.iter().cloned().chain(columns.iter().map(|(_, value)| value(row))))?;
        }
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Means over the seeds with their confidence intervals, one row for each combination and flow.
pub fn text(paths: &[String], finished: &[Finished]) -> String {
    let summaries = summaries(finished);
    let mut columns: Vec<Column<Summary>> = Vec::new();
    for path in paths.iter().cloned() {
        let own = path.clone();
        let value = move |row: &Summary| row.parameters.get(&own).cloned().unwrap_or_default();
        columns.push((path, Box::new(value)));
    }
    columns.extend([
        column("flow", |row: &Summary| row.flow.clone()),
        column("runs", |row| row.runs.to_string()),
        column("received\nMbit/s", |row| interval(row.received_rate_bps, |bps| format!("{:.3}", bps / 1e6))),
        column("loss", |row| interval(row.loss_ratio, percent)),
        column("delay p50\nms", |row| interval(row.delay_p50_ms, short)),
        column("delay p95\nms", |row| interval(row.delay_p95_ms, short)),
        column("queueing delay\np95 ms", |row| interval(row.queue_delay_p95_ms, short)),
    ]);
    if summaries.iter().any(|row| row.frame_delay_p95_ms.is_some()) {
        columns.push(column("frame delay\np95 ms", |row| interval(row.frame_delay_p95_ms, short)));
    }
    let headers = columns.iter().enumerate().map(|(place, (header, _))| {
        (header.as_str(), if place <= paths.len() { CellAlignment::Left } else { CellAlignment::Right })
    });
    let rows = summaries.iter().map(|row| columns.iter().map(|(_, value)| value(row)).collect());
    let table = of_cells(&headers.collect::<Vec<_>>(), rows.collect());
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
        let table = flows_csv(&["wire.rate".to_owned()], &[run]).unwrap();
        let mut reader = csv::Reader::from_reader(&table[..]);
        let names = reader.headers().unwrap().clone();
        assert_eq!(
            names.iter().take(5).collect::<Vec<_>>(),
            ["wire.rate", "scenario", "seed", "passed", "flow"]
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
