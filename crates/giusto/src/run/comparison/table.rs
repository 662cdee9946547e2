//! The table of a comparison: the same in the terminal and on the page.

use super::{Comparison, Run, Subject};
use crate::{
    record::Quantiles,
    view::{
        format::{UNKNOWN, count, or_unknown, percent, plural, short},
        table::{Column, fitted},
    },
};

/// One flow under one controller.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// The controller.
    pub controller: String,
    /// The flow's own name.
    pub flow: String,
    /// What its receiver reported.
    pub feedback: String,
    /// The share of its bottleneck that all flows together used.
    pub used_ratio: Option<f64>,
    /// What arrived of it.
    pub received_bps: f64,
    /// The mean of its target.
    pub target_bps: Option<f64>,
    /// The share of its packets that was lost.
    pub loss_ratio: Option<f64>,
    /// How long its packets waited in queues.
    pub queue_delay_ms: Option<Quantiles>,
    /// From capture until a frame was whole.
    pub frame_delay_ms: Option<Quantiles>,
    /// Frames that arrived whole.
    pub frames: Option<u64>,
    /// How often the target changed.
    pub decisions: Option<u64>,
    /// What its receiver sent back.
    pub feedback_bps: Option<f64>,
    /// How many expectations of the whole run were met, of how many.
    pub met: (usize, usize),
    /// Until when it ran, if that was before its time.
    pub ended_early_s: Option<f64>,
}

impl Row {
    pub(super) fn new(run: &Run, subject: &Subject) -> Option<Self> {
        let Run { controller, feedback, result } = run;
        let flow = result.flows.iter().find(|flow| flow.id == subject.name)?;
        let bottleneck = subject.bottleneck.as_ref();
        let link = bottleneck.and_then(|name| result.links.iter().find(|link| link.id == *name));
        Some(Self {
            controller: controller.clone(),
            flow: flow.id.clone(),
            feedback: feedback.get(&subject.id).cloned().unwrap_or_default(),
            used_ratio: link.and_then(|link| link.utilisation_ratio),
            received_bps: flow.received_rate_bps,
            target_bps: flow.target_rate_bps,
            loss_ratio: flow.loss_ratio,
            queue_delay_ms: flow.queue_delay_ms,
            frame_delay_ms: flow.frame_delay_ms,
            frames: flow.frames,
            decisions: flow.decisions,
            feedback_bps: flow.feedback_rate_bps,
            met: (result.checks.iter().filter(|check| check.passed).count(), result.checks.len()),
            ended_early_s: result.interrupted.then_some(result.duration_s),
        })
    }
}

/// The columns; the flow is named where there are several.
pub fn columns(several: bool) -> Vec<Column<Row>> {
    let mut columns = vec![Column::words("controller", 0, |row: &Row| match row.ended_early_s {
        Some(seconds) => format!("{} until {seconds:.1} s", row.controller),
        None => row.controller.clone(),
    })];
    if several {
        columns.push(Column::words("flow", 0, |row| row.flow.clone()));
    }
    columns.extend([
        Column::number("link\nused", 3, |row: &Row| or_unknown(row.used_ratio, percent)),
        Column::number("received\nMbit/s", 0, |row| mbits(row.received_bps)),
        Column::number("target\nMbit/s", 0, |row| or_unknown(row.target_bps, mbits)),
        Column::number("loss", 0, |row| or_unknown(row.loss_ratio, percent)),
        Column::number("in queues ms\np50 / p95 / p99", 0, |row| {
            or_unknown(row.queue_delay_ms, |Quantiles { p50, p95, p99, .. }| {
                format!("{} / {} / {}", short(p50), short(p95), short(p99))
            })
        }),
        Column::number("frame ms\np95", 1, |row| or_unknown(row.frame_delay_ms, |frame| short(frame.p95))),
        Column::number("frames", 6, |row| or_unknown(row.frames, count)),
        Column::number("changes", 5, |row| or_unknown(row.decisions, count)),
        Column::words("feedback", 4, |row| row.feedback.clone()),
        Column::number("feedback\nkbit/s", 4, |row| or_unknown(row.feedback_bps, |bps| short(bps / 1e3))),
        Column::number("met", 2, |row| match row.met {
            (_, 0) => UNKNOWN.to_owned(),
            (met, all) => format!("{met}/{all}"),
        }),
    ]);
    columns
}

/// A rate in Mbit/s, so that all of a column have one unit.
fn mbits(bps: f64) -> String {
    format!("{:.3}", bps / 1e6)
}

/// Heading, table, and what was changed besides the controllers.
pub(super) fn text(comparison: &Comparison, width: u16) -> String {
    let Comparison { scenario, seed, runs, notes, .. } = comparison;
    let early = if comparison.interrupted { ", ended early" } else { "" };
    let controllers = plural(runs.len() as u64, "controller", "controllers");
    let table = fitted(&columns(comparison.subjects.len() > 1), &comparison.rows(), width);
    let parts = [format!("{scenario}, seed {seed}: {controllers}{early}\n"), table, notes.join("\n")];
    parts.join("\n").trim_end().to_owned()
}
