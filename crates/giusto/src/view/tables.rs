//! A simulated run as a person reads it.

use comfy_table::CellAlignment::{Left, Right};

use crate::record::{CheckResult, FlowResult, LinkResult, Quantiles, SimResult, StreamResult};
use crate::view::{
    format::{UNKNOWN, count, or_unknown, percent, plural, rate, short, time_us},
    table::of_cells,
};

/// Tables of flows and links, and a line for each check.
pub fn tables(result: &SimResult) -> String {
    let flows = of_cells(
        &[
            ("flow", Left),
            ("kind", Left),
            ("sent", Right),
            ("received", Right),
            ("loss", Right),
            ("marked", Right),
            ("delay ms\np50 / p95 / max", Right),
            ("in queues ms\np50 / p95 / max", Right),
        ],
        result.flows.iter().map(flow).collect(),
    );
    let links = of_cells(
        &[
            ("link", Left),
            ("used", Right),
            ("packets\nin", Right),
            ("\nout", Right),
            ("\ndropped", Right),
            ("\nmarked", Right),
            ("in queue ms\np50 / p95 / max", Right),
        ],
        result.links.iter().map(link).collect(),
    );
    let media: Vec<Vec<String>> = result.flows.iter().filter_map(media).collect();
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
    let checks: Vec<String> = result.checks.iter().map(check).collect();
    [heading(result), flows, media + &streams(result) + &links, checks.join("\n")]
        .join("\n")
        .trim_end()
        .to_owned()
}

/// What ran, and how long it took.
fn heading(result: &SimResult) -> String {
    let speed = if result.wall_s > 0.0 {
        format!(
            " in {}, {} times as fast",
            time_us(result.wall_s * 1e6),
            short(result.duration_s / result.wall_s)
        )
    } else {
        String::new()
    };
    let early = if result.interrupted { ", ended early: nothing was checked" } else { "" };
    format!(
        "{}, seed {}: {} s{speed}, {}{early}\n",
        result.scenario,
        result.seed,
        result.duration_s,
        plural(result.events, "event", "events")
    )
}

fn flow(flow: &FlowResult) -> Vec<String> {
    let kind = match &flow.controller {
        Some(controller) => format!("{} {controller}", flow.kind),
        None => flow.kind.clone(),
    };
    vec![
        flow.id.clone(),
        kind,
        rate(flow.sent_rate_bps),
        rate(flow.received_rate_bps),
        or_unknown(flow.loss_ratio, percent),
        or_unknown(flow.marked_ratio, percent),
        or_unknown(flow.delay_ms, three),
        or_unknown(flow.queue_delay_ms, three),
    ]
}

/// What only media have; nothing for all else.
fn media(flow: &FlowResult) -> Option<Vec<String>> {
    let FlowResult { target_rate_bps, decisions, frames, frame_delay_ms, feedback_rate_bps, .. } = flow;
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

/// A table of the streams of flows where there is something to tell of each; nothing if there are none.
fn streams(result: &SimResult) -> String {
    let of_those = result.flows.iter().filter(|flow| flow.has_streams_to_tell());
    let streams: Vec<(&str, &StreamResult)> =
        of_those.flat_map(|flow| flow.streams.iter().map(|stream| (flow.id.as_str(), stream))).collect();
    if streams.is_empty() {
        return String::new();
    }
    let skipped = streams.iter().any(|(_, stream)| stream.skipped_frames.is_some());
    let discarded = streams.iter().any(|(_, stream)| stream.discarded_packets.is_some());
    let mut head = vec![
        ("stream", Left),
        ("priority", Right),
        ("received", Right),
        ("frames", Right),
        ("frame delay ms\np50 / p95 / max", Right),
    ];
    head.extend(skipped.then_some(("frames\nskipped", Right)));
    head.extend(discarded.then_some(("packets\ndiscarded", Right)));
    let row = |&(flow, stream): &(&str, &StreamResult)| {
        let mut row = vec![
            format!("{flow}: {}", stream.id),
            stream.priority.map_or_else(String::new, short),
            rate(stream.received_rate_bps),
            count(stream.frames),
            or_unknown(stream.frame_delay_ms, three),
        ];
        row.extend(skipped.then(|| or_unknown(stream.skipped_frames, count)));
        row.extend(discarded.then(|| or_unknown(stream.discarded_packets, count)));
        row
    };
    of_cells(&head, streams.iter().map(row).collect()) + "\n"
}

fn link(link: &LinkResult) -> Vec<String> {
    vec![
        link.id.clone(),
        or_unknown(link.utilisation_ratio, percent),
        count(link.offered_packets),
        count(link.delivered_packets),
        count(link.dropped_packets),
        count(link.marked_packets),
        or_unknown(link.queue_delay_ms, three),
    ]
}

fn three(quantiles: Quantiles) -> String {
    format!("{} / {} / {}", short(quantiles.p50), short(quantiles.p95), short(quantiles.max))
}

/// What came of a check, as it is read: `4.870 Mbit/s`.
pub fn found(check: &CheckResult) -> String {
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

/// One check in one line: `✓ flow tcp: received-rate: 4.870 Mbit/s, as expected: 4.5 Mbit/s to 5 Mbit/s`.
pub fn check(check: &CheckResult) -> String {
    let value = found(check);
    let (sign, words) = if check.passed { ("✓", "as expected:") } else { ("✗", "NOT as expected:") };
    format!("{sign} {}: {value}, {words} {}", check.name, check.bound)
}
