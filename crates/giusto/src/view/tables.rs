//! The tables of a simulated run in the terminal.

use comfy_table::CellAlignment::{Left, Right};

use crate::record::{Check, Distribution, FlowRecord, LinkRecord, RunRecord, StreamRecord};
use crate::view::{
    format::{UNKNOWN, count, or_unknown, percent, plural, rate, short, time_us},
    table::of_cells,
};

/// Tables of flows and links, and a line for each check.
pub fn tables(record: &RunRecord) -> String {
    let flows = of_cells(
        &[
            ("flow", Left),
            ("kind", Left),
            ("sent", Right),
            ("received", Right),
            ("goodput", Right),
            ("loss", Right),
            ("marked", Right),
            ("delay ms\np50 / p95 / max", Right),
            ("queueing delay ms\np50 / p95 / max", Right),
        ],
        record.flows.iter().map(flow).collect(),
    );
    let links = of_cells(
        &[
            ("link", Left),
            ("utilisation", Right),
            ("packets\nin", Right),
            ("\nout", Right),
            ("\ndropped", Right),
            ("\nmarked", Right),
            ("queueing delay ms\nmean / p95 / max", Right),
        ],
        record.links.iter().map(link).collect(),
    );
    let media: Vec<Vec<String>> = record.flows.iter().filter_map(media).collect();
    let media = if media.is_empty() {
        String::new()
    } else {
        of_cells(
            &[
                ("media", Left),
                ("target", Right),
                ("changes", Right),
                ("frames", Right),
                ("frame delay ms\np50 / p95 / max", Right),
                ("feedback", Right),
            ],
            media,
        ) + "\n"
    };
    let checks: Vec<String> = record.checks.iter().map(check).collect();
    [heading(record), flows, media + &streams(record) + &links, checks.join("\n")]
        .join("\n")
        .trim_end()
        .to_owned()
}

/// The name of the run and its duration.
fn heading(record: &RunRecord) -> String {
    let speed = if record.wall_s > 0.0 {
        format!(
            " in {}, {} times as fast",
            time_us(record.wall_s * 1e6),
            short(record.duration_s / record.wall_s)
        )
    } else {
        String::new()
    };
    let early = if record.interrupted { ", ended early: nothing was checked" } else { "" };
    format!(
        "{}, seed {}: {} s{speed}, {}{early}\n",
        record.scenario,
        record.seed,
        record.duration_s,
        plural(record.events, "event", "events")
    )
}

fn flow(flow: &FlowRecord) -> Vec<String> {
    let kind = match &flow.controller {
        Some(controller) => format!("{} {controller}", flow.kind),
        None => flow.kind.clone(),
    };
    vec![
        flow.id.clone(),
        kind,
        rate(flow.sent_rate_bps),
        rate(flow.received_rate_bps),
        or_unknown(flow.goodput_bps, rate),
        or_unknown(flow.loss_ratio, percent),
        or_unknown(flow.marked_ratio, percent),
        or_unknown(flow.delay_ms, three),
        or_unknown(flow.queue_delay_ms, three),
    ]
}

/// The row of a media flow.
fn media(flow: &FlowRecord) -> Option<Vec<String>> {
    let FlowRecord { target_rate_bps, decisions, frames, frame_delay_ms, feedback_rate_bps, .. } = flow;
    if target_rate_bps.is_none() && decisions.is_none() && feedback_rate_bps.is_none() {
        return None;
    }
    Some(vec![
        flow.id.clone(),
        or_unknown(*target_rate_bps, rate),
        or_unknown(*decisions, count),
        or_unknown(*frames, count),
        or_unknown(*frame_delay_ms, three),
        or_unknown(*feedback_rate_bps, rate),
    ])
}

/// Whether the streams of a flow are shown: there are several videos, or the sender skipped frames or discarded packets.
pub(crate) fn shows_streams(flow: &FlowRecord) -> bool {
    let given_up = |stream: &StreamRecord| stream.skipped_frames.max(stream.discarded_packets) > Some(0);
    flow.has_several_videos() || flow.streams.iter().any(given_up)
}

/// A table of the streams of flows with several videos, or of which something was given up; nothing if there are none.
fn streams(record: &RunRecord) -> String {
    let of_those = record.flows.iter().filter(|flow| shows_streams(flow));
    let streams: Vec<(&str, &StreamRecord)> =
        of_those.flat_map(|flow| flow.streams.iter().map(|stream| (flow.id.as_str(), stream))).collect();
    if streams.is_empty() {
        return String::new();
    }
    let skipped = streams.iter().any(|(_, stream)| stream.skipped_frames.is_some());
    let discarded = streams.iter().any(|(_, stream)| stream.discarded_packets.is_some());
    let mut head = vec![
        ("stream", Left),
        ("priority", Right),
        ("goodput", Right),
        ("frames", Right),
        ("frame delay ms\np50 / p95 / max", Right),
    ];
    head.extend(skipped.then_some(("frames\nskipped", Right)));
    head.extend(discarded.then_some(("packets\ndiscarded", Right)));
    let row = |&(flow, stream): &(&str, &StreamRecord)| {
        let mut row = vec![
            format!("{flow}: {}", stream.id),
            stream.priority.map_or_else(String::new, short),
            rate(stream.goodput_bps),
            count(stream.frames),
            or_unknown(stream.frame_delay_ms, three),
        ];
        row.extend(skipped.then(|| or_unknown(stream.skipped_frames, count)));
        row.extend(discarded.then(|| or_unknown(stream.discarded_packets, count)));
        row
    };
    of_cells(&head, streams.iter().map(row).collect()) + "\n"
}

fn link(link: &LinkRecord) -> Vec<String> {
    vec![
        link.id.clone(),
        or_unknown(link.utilisation_ratio, percent),
        count(link.offered_packets),
        count(link.delivered_packets),
        count(link.dropped_packets),
        count(link.marked_packets),
        or_unknown(link.queue_delay_ms, |delay| {
            format!("{} / {} / {}", short(delay.mean), short(delay.p95), short(delay.max))
        }),
    ]
}

fn three(delay: Distribution) -> String {
    format!("{} / {} / {}", short(delay.p50), short(delay.p95), short(delay.max))
}

/// The value of a check with its unit: `4.870 Mbit/s`.
pub fn found(check: &Check) -> String {
    check.value.map_or_else(
        || UNKNOWN.to_owned(),
        |value| match check.unit.as_str() {
            "bit/s" => rate(value),
            "ratio" => format!("{value:.4}"),
            "packets" | "frames" | "changes" => count(value as u64),
            unit => format!("{} {unit}", short(value)),
        },
    )
}

/// One check in one line: `✓ flow tcp: received-rate: 4.870 Mbit/s, expected 4.5 Mbit/s to 5 Mbit/s`.
pub fn check(check: &Check) -> String {
    let value = found(check);
    let (sign, words) = if check.passed { ("✓", "expected") } else { ("✗", "NOT MET: expected") };
    format!("{sign} {}: {value}, {words} {}", check.name, check.bound)
}
