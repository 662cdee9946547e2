//! Records and results as Apache Arrow record batches.
//!
//! Numbers have the same definitions and names as in JSON. A missing value is null.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use giusto_congestion::Cause;

use super::{
    columns::{Column, batch},
    decision::{cause_name, signal_name},
};
use crate::{
    benchmark::RunRow,
    city::{CallLog, CallSample, CityLog},
    record::{DecisionRecord, FlowTimeline, LinkTimeline, MediaTimeline, RunRecord, Timeline},
};

/// A window of a timeline: its place, and whom it is of.
type Window<'a, T> = (usize, &'a T);

/// Each flow in each window: the timeline's columns, gauges included.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn flows_over_time(timeline: &Timeline) -> Result<RecordBatch, ArrowError> {
    type Row<'a> = Window<'a, FlowTimeline>;
    type Own<'a> = Column<'a, Row<'a>>;
    let windows = 0..timeline.t_s.len();
    let rows: Vec<Row<'_>> =
        timeline.flows.iter().flat_map(|flow| windows.clone().map(move |at| (at, flow))).collect();
    let integer = |name: &'static str, of: fn(&FlowTimeline) -> &[u64]| {
        Own::integer(name, move |&(at, flow): &Row<'_>| of(flow).get(at).copied())
    };
    let number = |name: &'static str, of: fn(&FlowTimeline) -> &[Option<f64>]| {
        Own::number(name, move |&(at, flow): &Row<'_>| of(flow).get(at).copied().flatten())
    };
    let media = |name: &'static str, of: fn(&MediaTimeline) -> &[Option<f64>]| {
        Own::number(name, move |&(at, flow): &Row<'_>| of(flow.media.as_ref()?).get(at).copied().flatten())
    };
    let mut columns = vec![
        Own::number("t_s", |&(at, _): &Row<'_>| timeline.t_s.get(at).copied()),
        Own::text("flow", |(_, flow)| Some(flow.id.clone())),
        integer("sent_packets", |flow| &flow.sent_packets),
        integer("sent_bytes", |flow| &flow.sent_bytes),
        integer("received_packets", |flow| &flow.received_packets),
        integer("received_bytes", |flow| &flow.received_bytes),
        integer("goodput_bytes", |flow| &flow.goodput_bytes),
        integer("dropped_packets", |flow| &flow.dropped_packets),
        integer("sent_rate_bps", |flow| &flow.sent_rate_bps),
        integer("received_rate_bps", |flow| &flow.received_rate_bps),
        integer("goodput_bps", |flow| &flow.goodput_bps),
        number("loss_ratio", |flow| &flow.loss_ratio),
        number("delay_mean_ms", |flow| &flow.delay_mean_ms),
        number("delay_max_ms", |flow| &flow.delay_max_ms),
        number("queue_delay_max_ms", |flow| &flow.queue_delay_max_ms),
        media("target_rate_bps", |media| &media.target_rate_bps),
        Own::integer("frames", |&(at, flow)| flow.media.as_ref()?.frames.get(at).copied()),
        media("frame_delay_max_ms", |media| &media.frame_delay_max_ms),
    ];
    let gauges: BTreeSet<&str> =
        timeline.flows.iter().flat_map(|flow| &flow.gauges).map(|gauge| gauge.name.as_str()).collect();
    columns.extend(gauges.into_iter().map(|name| {
        Own::number(name, move |&(at, flow): &Row<'_>| {
            flow.gauges.iter().find(|gauge| gauge.name == name)?.mean.get(at).copied().flatten()
        })
    }));
    batch(&columns, &rows)
}

/// The calls of a city of which something was kept.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn city_calls(log: &CityLog) -> Result<RecordBatch, ArrowError> {
    type Own<'a> = Column<'a, CallLog>;
    let columns = [
        Own::integer("call", |call| Some(call.number.into())),
        Own::number("start_s", |call| Some(call.time_s.0)),
        Own::number("end_s", |call| Some(call.time_s.1)),
        Own::integer("handovers", |call| Some(call.handovers.len() as u64)),
    ];
    batch(&columns, &log.calls)
}

/// Each sample of the calls of a city that were kept over time.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn city_calls_over_time(log: &CityLog) -> Result<RecordBatch, ArrowError> {
    type Row<'a> = (u32, &'a CallSample);
    type Own<'a> = Column<'a, Row<'a>>;
    let rows: Vec<Row<'_>> = log
        .calls
        .iter()
        .flat_map(|call| call.samples.iter().map(move |sample| (call.number, sample)))
        .collect();
    let columns = [
        Own::integer("call", |(call, _)| Some((*call).into())),
        Own::number("t_s", |(_, sample)| Some(sample.time_s)),
        Own::number("sinr_db", |(_, sample)| Some(f64::from(sample.sinr_db)).filter(|sinr| sinr.is_finite())),
        Own::integer("target_bps", |(_, sample)| Some(sample.target_bps)),
        Own::number("received_bps", |(_, sample)| Some(sample.received_bps)),
        Own::integer("backlog_bytes", |(_, sample)| Some(sample.backlog_bytes.into())),
        Own::number("frame_delay_ms", |(_, sample)| sample.frame_delay_ms),
    ];
    batch(&columns, &rows)
}

/// Each link in each window.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn links_over_time(timeline: &Timeline) -> Result<RecordBatch, ArrowError> {
    type Row<'a> = Window<'a, LinkTimeline>;
    type Own<'a> = Column<'a, Row<'a>>;
    let windows = 0..timeline.t_s.len();
    let rows: Vec<Row<'_>> =
        timeline.links.iter().flat_map(|link| windows.clone().map(move |at| (at, link))).collect();
    let integer = |name: &'static str, of: fn(&LinkTimeline) -> &[u64]| {
        Own::integer(name, move |&(at, link): &Row<'_>| of(link).get(at).copied())
    };
    let number = |name: &'static str, of: fn(&LinkTimeline) -> &[Option<f64>]| {
        Own::number(name, move |&(at, link): &Row<'_>| of(link).get(at).copied().flatten())
    };
    let columns = [
        Own::number("t_s", |&(at, _): &Row<'_>| timeline.t_s.get(at).copied()),
        Own::text("link", |(_, link)| Some(link.id.clone())),
        number("capacity_bps", |link| &link.capacity_bps),
        integer("transmitted_packets", |link| &link.transmitted_packets),
        integer("transmitted_bytes", |link| &link.transmitted_bytes),
        Own::number("queued_mean_bytes", |&(at, link)| link.queued_mean_bytes.get(at).copied()),
        integer("queued_max_bytes", |link| &link.queued_max_bytes),
        number("queue_delay_max_ms", |link| &link.queue_delay_max_ms),
        number("queue_delay_mean_ms", |link| &link.queue_delay_mean_ms),
        integer("dropped_packets", |link| &link.dropped_packets),
        integer("lost_packets", |link| &link.lost_packets),
        integer("marked_packets", |link| &link.marked_packets),
    ];
    batch(&columns, &rows)
}

/// The decisions of all controllers in a run with a timeline, flow by flow. Without a timeline there are none.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn decisions(record: &RunRecord) -> Result<RecordBatch, ArrowError> {
    type Row<'a> = (&'a str, &'a DecisionRecord);
    type Own<'a> = Column<'a, Row<'a>>;
    let flows = record.timeline.iter().flat_map(|timeline| &timeline.flows);
    let rows = flows.flat_map(|flow| {
        let decisions = flow.media.iter().flat_map(|media| &media.decisions);
        decisions.map(|decision| (flow.id.as_str(), decision))
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let columns = [
        Own::text("flow", |row: &Row<'_>| Some(row.0.to_owned())),
        Own::number("at_s", |row| Some(row.1.at_s)),
        Own::integer("from_bps", |row| Some(row.1.from_bps)),
        Own::integer("to_bps", |row| Some(row.1.to_bps)),
        Own::text("cause", |row| Some(cause_name(&row.1.cause).to_owned())),
        Own::text("signal", |row| match row.1.cause {
            Cause::Delay { signal, .. } => Some(signal_name(signal).to_owned()),
            _ => None,
        }),
        Own::number("trend_ms", |row| match row.1.cause {
            Cause::Delay { trend_ms, .. } => Some(trend_ms),
            _ => None,
        }),
        Own::number("threshold_ms", |row| match row.1.cause {
            Cause::Delay { threshold_ms, .. } => Some(threshold_ms),
            _ => None,
        }),
        Own::number("ratio", |row| match row.1.cause {
            Cause::Loss { ratio } | Cause::Marks { ratio } => Some(ratio),
            _ => None,
        }),
        Own::number("rate_bps", |row| match row.1.cause {
            Cause::AcknowledgedRate { rate_bps } | Cause::Probe { rate_bps } => Some(rate_bps),
            _ => None,
        }),
        Own::number("waited_ms", |row| match row.1.cause {
            Cause::SenderQueue { waited_ms } => Some(waited_ms),
            _ => None,
        }),
    ];
    batch(&columns, &rows)
}

/// The runs of a benchmark, one row each: `docs/reference/benchmark.md` defines the figures.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
pub fn benchmark_runs(runs: &[RunRow]) -> Result<RecordBatch, ArrowError> {
    type Own<'a> = Column<'a, RunRow>;
    let figure =
        |name: &'static str, of: fn(&RunRow) -> f64| Own::number(name, move |row: &RunRow| Some(of(row)));
    let columns = [
        Own::integer("scenario", |row: &RunRow| Some(row.scenario)),
        Own::text("family", |row| Some(row.family.name().to_owned())),
        Own::text("controller", |row| Some(row.controller.clone())),
        figure("rtt_ms", |row| row.rtt_ms),
        Own::number("change_ratio", |row| row.change_ratio),
        Own::text("rival", |row| row.rival.clone()),
        Own::number("random_loss", |row| row.random_loss),
        figure("utility", |row| row.figures.utility.total),
        figure("utility_rate", |row| row.figures.utility.rate),
        figure("utility_delay", |row| row.figures.utility.delay),
        figure("utility_frames", |row| row.figures.utility.frames),
        figure("utility_freezes", |row| row.figures.utility.freezes),
        figure("utilisation_ratio", |row| row.figures.utilisation_ratio),
        figure("frame_delay_p50_ms", |row| row.figures.frame_delay_p50_ms),
        figure("frame_delay_p95_ms", |row| row.figures.frame_delay_p95_ms),
        figure("frame_delay_p99_ms", |row| row.figures.frame_delay_p99_ms),
        figure("queue_delay_p95_ms", |row| row.figures.queue_delay_p95_ms),
        figure("loss_ratio", |row| row.figures.loss_ratio),
        Own::integer("frames", |row| Some(row.figures.frames)),
        figure("skipped_ratio", |row| row.figures.skipped_ratio),
        figure("missing_ratio", |row| row.figures.missing_ratio),
        figure("late_ratio", |row| row.figures.late_ratio),
        figure("repaired_ratio", |row| row.figures.repaired_ratio),
        Own::integer("discarded_packets", |row| Some(row.figures.discarded_packets)),
        figure("freeze_ratio", |row| row.figures.freeze_ratio),
        figure("freezes_per_minute", |row| row.figures.freezes_per_minute),
        figure("target_octaves_per_minute", |row| row.figures.target_octaves_per_minute),
        Own::number("jain", |row| row.figures.jain),
        Own::number("rise_s", |row| row.figures.rise_s),
        Own::number("queue_delay_after_fall_p95_ms", |row| row.figures.queue_delay_after_fall_p95_ms),
        Own::flag("collapsed", |row| Some(row.figures.collapsed)),
    ];
    batch(&columns, runs)
}
