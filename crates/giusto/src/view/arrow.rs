//! Records and results as Apache Arrow record batches.
//!
//! Numbers have the same definitions and names as in JSON. A missing value is null.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use giusto_congestion::Cause;

use super::{
    columns::Columns,
    decision::{cause_name, signal_name},
};
use crate::{
    benchmark::RunRow,
    city::{CallLog, CallSample, CityLog},
    record::{DecisionRecord, FlowTimeline, RunRecord, Timeline},
};

/// A window of a timeline: its place, and whom it is of.
type Window<'a, T> = (usize, &'a T);

/// Each of `all` in each window of `timeline`.
fn windows<'a, T>(timeline: &Timeline, all: &'a [T]) -> Vec<Window<'a, T>> {
    all.iter().flat_map(|one| (0..timeline.t_s.len()).map(move |at| (at, one))).collect()
}

/// A column of flows over time: its name, and its values of a flow.
type Column<T> = (&'static str, fn(&FlowTimeline) -> &[T]);

/// Each flow in each window: the timeline's columns, gauges included.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn flows_over_time(timeline: &Timeline) -> Result<RecordBatch, ArrowError> {
    const COUNTS: [Column<u64>; 9] = [
        ("sent_packets", |flow| &flow.sent_packets),
        ("sent_bytes", |flow| &flow.sent_bytes),
        ("received_packets", |flow| &flow.received_packets),
        ("received_bytes", |flow| &flow.received_bytes),
        ("goodput_bytes", |flow| &flow.goodput_bytes),
        ("dropped_packets", |flow| &flow.dropped_packets),
        ("sent_rate_bps", |flow| &flow.sent_rate_bps),
        ("received_rate_bps", |flow| &flow.received_rate_bps),
        ("goodput_bps", |flow| &flow.goodput_bps),
    ];
    const NUMBERS: [Column<Option<f64>>; 5] = [
        ("loss_ratio", |flow| &flow.loss_ratio),
        ("delay_mean_ms", |flow| &flow.delay_mean_ms),
        ("delay_max_ms", |flow| &flow.delay_max_ms),
        ("queue_delay_max_ms", |flow| &flow.queue_delay_max_ms),
        ("target_rate_bps", |flow| flow.media.as_ref().map_or(&[], |media| &media.target_rate_bps)),
    ];
    let rows = windows(timeline, &timeline.flows);
    let mut columns = Columns::of(&rows);
    columns.number("t_s", |&(at, _)| timeline.t_s.get(at).copied());
    columns.text("flow", |(_, flow)| Some(flow.id.clone()));
    for (name, of) in COUNTS {
        columns.integer(name, |&(at, flow)| of(flow).get(at).copied());
    }
    for (name, of) in NUMBERS {
        columns.number(name, |&(at, flow)| of(flow).get(at).copied().flatten());
    }
    columns.integer("frames", |&(at, flow)| flow.media.as_ref()?.frames.get(at).copied());
    columns.number("frame_delay_max_ms", |&(at, flow)| {
        flow.media.as_ref()?.frame_delay_max_ms.get(at).copied().flatten()
    });
    let gauges: BTreeSet<&str> =
        timeline.flows.iter().flat_map(|flow| &flow.gauges).map(|gauge| gauge.name.as_str()).collect();
    for name in gauges {
        columns.number(name, |&(at, flow)| {
            flow.gauges.iter().find(|gauge| gauge.name == name)?.mean.get(at).copied().flatten()
        });
    }
    columns.batch()
}

/// The calls of a city of which something was kept.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn city_calls(log: &CityLog) -> Result<RecordBatch, ArrowError> {
    let mut columns = Columns::of(&log.calls);
    columns
        .integer("call", |call| Some(call.number.into()))
        .number("start_s", |call| Some(call.time_s.0))
        .number("end_s", |call| Some(call.time_s.1))
        .integer("handovers", |call| Some(call.handovers.len() as u64))
        .batch()
}

/// Each sample of the calls of a city that were kept over time.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn city_calls_over_time(log: &CityLog) -> Result<RecordBatch, ArrowError> {
    let of_call =
        |call: &'_ CallLog| call.samples.iter().map(|sample| (call.number, *sample)).collect::<Vec<_>>();
    let rows: Vec<(u32, CallSample)> = log.calls.iter().flat_map(of_call).collect();
    let mut columns = Columns::of(&rows);
    columns
        .integer("call", |(call, _)| Some((*call).into()))
        .number("t_s", |(_, sample)| Some(sample.time_s))
        .number("sinr_db", |(_, sample)| Some(f64::from(sample.sinr_db)).filter(|sinr| sinr.is_finite()))
        .integer("target_bps", |(_, sample)| Some(sample.target_bps))
        .number("received_bps", |(_, sample)| Some(sample.received_bps))
        .integer("backlog_bytes", |(_, sample)| Some(sample.backlog_bytes.into()))
        .number("frame_delay_ms", |(_, sample)| sample.frame_delay_ms)
        .batch()
}

/// Each link in each window.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn links_over_time(timeline: &Timeline) -> Result<RecordBatch, ArrowError> {
    let rows = windows(timeline, &timeline.links);
    let mut columns = Columns::of(&rows);
    columns
        .number("t_s", |&(at, _)| timeline.t_s.get(at).copied())
        .text("link", |(_, link)| Some(link.id.clone()))
        .number("capacity_bps", |&(at, link)| link.capacity_bps.get(at).copied().flatten())
        .integer("transmitted_packets", |&(at, link)| link.transmitted_packets.get(at).copied())
        .integer("transmitted_bytes", |&(at, link)| link.transmitted_bytes.get(at).copied())
        .number("queued_mean_bytes", |&(at, link)| link.queued_mean_bytes.get(at).copied())
        .integer("queued_max_bytes", |&(at, link)| link.queued_max_bytes.get(at).copied())
        .number("queue_delay_max_ms", |&(at, link)| link.queue_delay_max_ms.get(at).copied().flatten())
        .number("queue_delay_mean_ms", |&(at, link)| link.queue_delay_mean_ms.get(at).copied().flatten())
        .integer("dropped_packets", |&(at, link)| link.dropped_packets.get(at).copied())
        .integer("lost_packets", |&(at, link)| link.lost_packets.get(at).copied())
        .integer("marked_packets", |&(at, link)| link.marked_packets.get(at).copied())
        .batch()
}

/// The decisions of all controllers in a run with a timeline, flow by flow. Without a timeline there are none.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn decisions(record: &RunRecord) -> Result<RecordBatch, ArrowError> {
    type Row<'a> = (&'a str, &'a DecisionRecord);
    let flows = record.timeline.iter().flat_map(|timeline| &timeline.flows);
    let rows = flows.flat_map(|flow| {
        let decisions = flow.media.iter().flat_map(|media| &media.decisions);
        decisions.map(|decision| (flow.id.as_str(), decision))
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let mut columns = Columns::of(&rows);
    columns
        .text("flow", |(flow, _)| Some((*flow).to_owned()))
        .number("at_s", |(_, decision)| Some(decision.at_s))
        .integer("from_bps", |(_, decision)| Some(decision.from_bps))
        .integer("to_bps", |(_, decision)| Some(decision.to_bps))
        .text("cause", |(_, decision)| Some(cause_name(&decision.cause).to_owned()))
        .text("signal", |(_, decision)| match decision.cause {
            Cause::Delay { signal, .. } => Some(signal_name(signal).to_owned()),
            _ => None,
        })
        .number("trend_ms", |(_, decision)| match decision.cause {
            Cause::Delay { trend_ms, .. } => Some(trend_ms),
            _ => None,
        })
        .number("threshold_ms", |(_, decision)| match decision.cause {
            Cause::Delay { threshold_ms, .. } => Some(threshold_ms),
            _ => None,
        })
        .number("ratio", |(_, decision)| match decision.cause {
            Cause::Loss { ratio } | Cause::Marks { ratio } => Some(ratio),
            _ => None,
        })
        .number("rate_bps", |(_, decision)| match decision.cause {
            Cause::AcknowledgedRate { rate_bps } | Cause::Probe { rate_bps } => Some(rate_bps),
            _ => None,
        })
        .number("waited_ms", |(_, decision)| match decision.cause {
            Cause::SenderQueue { waited_ms } => Some(waited_ms),
            _ => None,
        })
        .batch()
}

/// The runs of a benchmark, one row each: `docs/reference/benchmark.md` defines the figures.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn benchmark_runs(runs: &[RunRow]) -> Result<RecordBatch, ArrowError> {
    let mut columns = Columns::of(runs);
    columns
        .text("seed", |row| Some(row.seed.clone()))
        .integer("scenario", |row| Some(row.scenario))
        .text("family", |row| Some(row.family.clone()))
        .text("controller", |row| Some(row.controller.clone()))
        .number("rtt_ms", |row| Some(row.rtt_ms))
        .number("change_ratio", |row| row.change_ratio)
        .text("rival", |row| row.rival.clone())
        .number("random_loss", |row| row.random_loss)
        .number("utility", |row| Some(row.figures.utility.total))
        .number("utility_rate", |row| Some(row.figures.utility.rate))
        .number("utility_delay", |row| Some(row.figures.utility.delay))
        .number("utility_frames", |row| Some(row.figures.utility.frames))
        .number("utility_freezes", |row| Some(row.figures.utility.freezes))
        .number("utilisation_ratio", |row| Some(row.figures.utilisation_ratio))
        .number("frame_delay_p50_ms", |row| Some(row.figures.frame_delay_p50_ms))
        .number("frame_delay_p95_ms", |row| Some(row.figures.frame_delay_p95_ms))
        .number("frame_delay_p99_ms", |row| Some(row.figures.frame_delay_p99_ms))
        .number("queue_delay_p95_ms", |row| Some(row.figures.queue_delay_p95_ms))
        .number("loss_ratio", |row| Some(row.figures.loss_ratio))
        .integer("frames", |row| Some(row.figures.frames))
        .number("skipped_ratio", |row| Some(row.figures.skipped_ratio))
        .number("missing_ratio", |row| Some(row.figures.missing_ratio))
        .number("late_ratio", |row| Some(row.figures.late_ratio))
        .number("repaired_ratio", |row| Some(row.figures.repaired_ratio))
        .integer("discarded_packets", |row| Some(row.figures.discarded_packets))
        .number("freeze_ratio", |row| Some(row.figures.freeze_ratio))
        .number("freezes_per_minute", |row| Some(row.figures.freezes_per_minute))
        .number("target_octaves_per_minute", |row| Some(row.figures.target_octaves_per_minute))
        .number("jain", |row| row.figures.jain)
        .number("rise_s", |row| row.figures.rise_s)
        .number("queue_delay_after_fall_p95_ms", |row| row.figures.queue_delay_after_fall_p95_ms)
        .flag("collapsed", |row| Some(row.figures.collapsed))
        .batch()
}
