//! A sweep as tables: one row for each run and flow, and a short one for people.

use comfy_table::CellAlignment::{Left, Right};

use super::{Finished, Interval, summaries};
use crate::{
    record::Quantiles,
    view::{
        format::{or_unknown, percent, short},
        table::of_cells,
    },
};

/// One row for each run and flow: the parameters, the seed, and what the flow got. `paths` are the parameters, in this order.
///
/// # Errors
///
/// Where a row cannot be written, which memory never refuses.
pub fn flows_csv(paths: &[String], finished: &[Finished]) -> Result<Vec<u8>, csv::Error> {
    let mut names =
        ["flow", "kind", "controller", "sent_rate_bps", "received_rate_bps", "sent_packets"].to_vec();
    names.extend([
        "received_packets",
        "loss_ratio",
        "marked_ratio",
        "delay_p50_ms",
        "delay_p95_ms",
        "delay_p99_ms",
    ]);
    names.extend(["delay_max_ms", "queue_delay_p50_ms", "queue_delay_p95_ms", "queue_delay_p99_ms"]);
    names.push("queue_delay_max_ms");
    csv(paths, &names, finished, |run| {
        let flows = run.result.flows.iter().map(|flow| {
            let mut row =
                vec![flow.id.clone(), flow.kind.clone(), flow.controller.clone().unwrap_or_default()];
            row.extend([flow.sent_rate_bps, flow.received_rate_bps].map(|rate| rate.to_string()));
            row.extend([flow.sent_packets, flow.received_packets].map(|packets| packets.to_string()));
            row.extend([flow.loss_ratio, flow.marked_ratio].map(number));
            row.extend(quantiles(flow.delay_ms).into_iter().chain(quantiles(flow.queue_delay_ms)));
            row
        });
        flows.collect()
    })
}

/// One row for each run and link.
///
/// # Errors
///
/// Where a row cannot be written, which memory never refuses.
pub fn links_csv(paths: &[String], finished: &[Finished]) -> Result<Vec<u8>, csv::Error> {
    let mut names =
        ["link", "utilisation_ratio", "offered_packets", "delivered_packets", "dropped_packets"].to_vec();
    names.extend(["marked_packets", "queue_delay_p50_ms", "queue_delay_p95_ms", "queue_delay_p99_ms"]);
    names.push("queue_delay_max_ms");
    csv(paths, &names, finished, |run| {
        let links = run.result.links.iter().map(|link| {
            let mut row = vec![link.id.clone(), number(link.utilisation_ratio)];
            let packets =
                [link.offered_packets, link.delivered_packets, link.dropped_packets, link.marked_packets];
            row.extend(packets.map(|packets| packets.to_string()));
            row.extend(quantiles(link.queue_delay_ms));
            row
        });
        links.collect()
    })
}

fn csv(
    paths: &[String],
    names: &[&str],
    finished: &[Finished],
    rows: impl Fn(&Finished) -> Vec<Vec<String>>,
) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = ["scenario", "seed", "passed"];
    writer.write_record(paths.iter().map(String::as_str).chain(fixed).chain(names.iter().copied()))?;
    for run in finished {
        let values = paths.iter().map(|path| run.parameters.get(path).cloned().unwrap_or_default());
        let result = &run.result;
        let about = [result.scenario.clone(), run.seed.clone(), result.passed().to_string()];
        let start: Vec<String> = values.chain(about).collect();
        for row in rows(run) {
            writer.write_record(start.iter().chain(&row))?;
        }
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn quantiles(values: Option<Quantiles>) -> [String; 4] {
    values.map_or_else(Default::default, |values| {
        [values.p50, values.p95, values.p99, values.max].map(|value| value.to_string())
    })
}

/// Means over the seeds with what they may be off by, one line for each combination and flow.
pub fn text(paths: &[String], finished: &[Finished]) -> String {
    let mut columns: Vec<(&str, _)> = paths.iter().map(|path| (path.as_str(), Left)).collect();
    columns.extend([
        ("flow", Left),
        ("runs", Right),
        ("received\nMbit/s", Right),
        ("loss", Right),
        ("delay p50\nms", Right),
        ("delay p95\nms", Right),
        ("in queues p95\nms", Right),
    ]);
    let rows = summaries(finished).into_iter().map(|summary| {
        let with = |interval: Option<Interval>, write: fn(f64) -> String| {
            or_unknown(interval, |interval| match interval.half() {
                Some(half) => format!("{} ± {}", write(interval.mean), write(half)),
                None => write(interval.mean),
            })
        };
        let mut row: Vec<String> =
            paths.iter().map(|path| summary.parameters.get(path).cloned().unwrap_or_default()).collect();
        row.extend([summary.flow, summary.runs.to_string()]);
        row.push(with(summary.received_rate_bps, |bps| format!("{:.3}", bps / 1e6)));
        row.push(with(summary.loss_ratio, percent));
        row.push(with(summary.delay_p50_ms, short));
        row.push(with(summary.delay_p95_ms, short));
        row.push(with(summary.queue_delay_p95_ms, short));
        row
    });
    let table = of_cells(&columns, rows.collect());
    format!("{table}± is the 95 % confidence interval of the mean over the seeds.\n")
}
