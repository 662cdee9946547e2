//! Records and results as Apache Arrow record batches.
//!
//! Numbers have the same definitions and names as in JSON. A missing value is null.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use giusto_congestion::Cause;

use super::{
    columns::{Columns, fields},
    decision::cause_name,
};
use crate::{
    benchmark::RunRow,
    city::{CallLog, CallSample, CityLog},
    record::{DecisionRecord, RunRecord, Timeline},
};

/// A window of a timeline: its place, and whom it is of.
type Window<'a, T> = (usize, &'a T);

/// Each of `all` in each window of `timeline`.
fn windows<'a, T>(timeline: &Timeline, all: &'a [T]) -> Vec<Window<'a, T>> {
    all.iter().flat_map(|one| (0..timeline.t_s.len()).map(move |at| (at, one))).collect()
}

/// Adds columns that have the names of fields, which are series over the windows.
macro_rules! series {
    ($columns:ident.$kind:ident as $of:ty: $($field:ident),+) => {
        $($columns.$kind(stringify!($field), |&(at, one)| value::<_, $of>(&one.$field, at));)+
    };
}

/// The value of a series in window `at`, if it is known.
fn value<T: Copy + Into<Option<V>>, V>(series: &[T], at: usize) -> Option<V> {
    series.get(at).copied().and_then(Into::into)
}

/// Each flow in each window: the timeline's columns, gauges included.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn flows_over_time(timeline: &Timeline) -> Result<RecordBatch, ArrowError> {
    let rows = windows(timeline, &timeline.flows);
    let mut columns = Columns::of(&rows);
    columns.number("t_s", |&(at, _)| value::<_, f64>(&timeline.t_s, at));
    columns.text("flow", |(_, flow)| flow.id.clone());
    series!(columns.integer as u64: sent_packets, sent_bytes, received_packets, received_bytes, goodput_bytes,
        dropped_packets, sent_rate_bps, received_rate_bps, goodput_bps);
    series!(columns.number as f64: loss_ratio, delay_mean_ms, delay_max_ms, queue_delay_max_ms);
    columns
        .number("target_rate_bps", |&(at, flow)| value::<_, f64>(&flow.media.as_ref()?.target_rate_bps, at));
    columns.integer("frames", |&(at, flow)| value::<_, u64>(&flow.media.as_ref()?.frames, at));
    columns.number("frame_delay_max_ms", |&(at, flow)| {
        value::<_, f64>(&flow.media.as_ref()?.frame_delay_max_ms, at)
    });
    let gauges: BTreeSet<&str> =
        timeline.flows.iter().flat_map(|flow| &flow.gauges).map(|gauge| gauge.name.as_str()).collect();
    for name in gauges {
        columns.number(name, |&(at, flow)| {
            value::<_, f64>(&flow.gauges.iter().find(|gauge| gauge.name == name)?.mean, at)
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
        .integer("call", |call| u64::from(call.number))
        .number("start_s", |call| call.time_s.0)
        .number("end_s", |call| call.time_s.1)
        .integer("handovers", |call| call.handovers.len() as u64)
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
        .integer("call", |(call, _)| u64::from(*call))
        .number("t_s", |(_, sample)| sample.time_s)
        .number("sinr_db", |(_, sample)| Some(f64::from(sample.sinr_db)).filter(|sinr| sinr.is_finite()))
        .integer("target_bps", |(_, sample)| sample.target_bps)
        .number("received_bps", |(_, sample)| sample.received_bps)
        .integer("backlog_bytes", |(_, sample)| u64::from(sample.backlog_bytes))
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
    columns.number("t_s", |&(at, _)| value::<_, f64>(&timeline.t_s, at));
    columns.text("link", |(_, link)| link.id.clone());
    series!(columns.number as f64: capacity_bps);
    series!(columns.integer as u64: transmitted_packets, transmitted_bytes);
    series!(columns.number as f64: queued_mean_bytes);
    series!(columns.integer as u64: queued_max_bytes);
    series!(columns.number as f64: queue_delay_max_ms, queue_delay_mean_ms);
    series!(columns.integer as u64: dropped_packets, lost_packets, marked_packets);
    columns.batch()
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
        .text("flow", |(flow, _)| (*flow).to_owned())
        .number("at_s", |(_, decision)| decision.at_s)
        .integer("from_bps", |(_, decision)| decision.from_bps)
        .integer("to_bps", |(_, decision)| decision.to_bps)
        .text("cause", |(_, decision)| cause_name(&decision.cause).to_owned())
        .text("signal", |(_, decision)| match decision.cause {
            Cause::Delay { signal, .. } => Some(signal.name().to_owned()),
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
        .text("seed", |row| row.seed.clone())
        .integer("scenario", |row| row.scenario)
        .text("family", |row| row.family.clone())
        .text("controller", |row| row.controller.clone())
        .number("rtt_ms", |row| row.rtt_ms)
        .number("change_ratio", |row| row.change_ratio)
        .text("rival", |row| row.rival.clone())
        .number("random_loss", |row| row.random_loss)
        .number("utility", |row| row.figures.utility.total)
        .number("utility_rate", |row| row.figures.utility.rate)
        .number("utility_delay", |row| row.figures.utility.delay)
        .number("utility_frames", |row| row.figures.utility.frames)
        .number("utility_freezes", |row| row.figures.utility.freezes);
    fields!(columns.number, |row| row.figures => utilisation_ratio, frame_delay_p50_ms, frame_delay_p95_ms,
        frame_delay_p99_ms, queue_delay_p95_ms, loss_ratio);
    fields!(columns.integer, |row| row.figures => frames);
    fields!(columns.number, |row| row.figures => skipped_ratio, missing_ratio, late_ratio, repaired_ratio);
    fields!(columns.integer, |row| row.figures => discarded_packets);
    fields!(columns.number, |row| row.figures => freeze_ratio, freezes_per_minute, target_octaves_per_minute,
        jain, rise_s, queue_delay_after_fall_p95_ms);
    fields!(columns.flag, |row| row.figures => collapsed);
    columns.batch()
}
