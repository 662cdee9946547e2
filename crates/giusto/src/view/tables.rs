//! The tables of a simulated run in the terminal.

use crate::record::{
    Check, Distribution, FlowRecord, Lateness, LinkRecord, RealTimeRecord, RepairRecord, RunRecord,
    StreamRecord,
};
use crate::view::{
    format::{UNKNOWN, count, decimals, or_unknown, percent, plural, rate, short, time_us},
    table::{Column, fitted},
};

/// Tables of flows and links, at most `width` characters wide if possible, and a line for each check.
pub fn tables(record: &RunRecord, width: u16) -> String {
    let checks: Vec<String> = record.checks.iter().map(check).collect();
    let tables = flows(record, width) + &fitted(LINKS, &record.links, width);
    let parts = [heading(record), tables, checks.join("\n")];
    parts.join("\n").trim_end().to_owned()
}

/// Tables of flows, at most `width` characters wide if possible.
pub fn flows(record: &RunRecord, width: u16) -> String {
    fitted(FLOWS, &record.flows, width) + "\n" + &media(record, width) + &streams(record, width)
}

const FLOWS: &[Column<FlowRecord>] = &[
    Column::words("flow", 0, |flow| flow.id.clone()),
    Column::words("kind", 2, |flow| match &flow.controller {
        Some(controller) => format!("{} {controller}", flow.kind),
        None => flow.kind.clone(),
    }),
    Column::number("sent", 4, |flow| rate(flow.sent_rate_bps)),
    Column::number("received", 0, |flow| rate(flow.received_rate_bps)),
    Column::number("goodput", 5, |flow| or_unknown(flow.goodput_bps, rate)),
    Column::number("loss", 0, |flow| or_unknown(flow.loss_ratio, percent)),
    Column::number("marked", 3, |flow| or_unknown(flow.marked_ratio, percent)),
    Column::number("delay ms\np50 / p95 / max", 1, |flow| or_unknown(flow.delay_ms, three)),
    Column::number("queueing delay ms\np50 / p95 / max", 0, |flow| or_unknown(flow.queue_delay_ms, three)),
];

const LINKS: &[Column<LinkRecord>] = &[
    Column::words("link", 0, |link| link.id.clone()),
    Column::number("utilisation", 0, |link| or_unknown(link.utilisation_ratio, percent)),
    Column::number("packets\nin", 0, |link| count(link.offered_packets)),
    Column::number("\nout", 0, |link| count(link.delivered_packets)),
    Column::number("\ndropped", 0, |link| count(link.dropped_packets)),
    Column::number("\nmarked", 1, |link| count(link.marked_packets)),
    Column::number("queueing delay ms\nmean / p95 / max", 0, |link| {
        let three = |delay: Distribution| [delay.mean, delay.p95, delay.max].map(short).join(" / ");
        or_unknown(link.queue_delay_ms, three)
    }),
];

/// The name of the run and its duration.
fn heading(record: &RunRecord) -> String {
    let RunRecord { scenario, seed, duration_s, wall_s, real_time, .. } = record;
    if let Some(real_time) = real_time {
        let doubts =
            real_time.doubts.iter().fold(String::new(), |text, doubt| text + "warning: " + doubt + "\n");
        let took = time_us(duration_s * 1e6);
        return format!("{doubts}{scenario}, seed {seed}: {took} in real time; {}\n", punctuality(real_time));
    }
    let speed = if *wall_s > 0.0 {
        format!(" in {}, {} times as fast", time_us(wall_s * 1e6), short(duration_s / wall_s))
    } else {
        String::new()
    };
    let early = if record.interrupted { ", ended early: nothing was checked" } else { "" };
    let events = plural(record.events, "event", "events");
    format!("{scenario}, seed {seed}: {duration_s} s{speed}, {events}{early}\n")
}

/// `1,234 packets, late by 4.1 µs at p50, 30 µs at p99 and 120 µs at most`.
pub(crate) fn punctuality(real_time: &RealTimeRecord) -> String {
    let packets = plural(real_time.sent_packets, "packet", "packets");
    real_time.lateness_us.map_or_else(
        || packets.clone(),
        |Lateness { p50, p99, max, .. }| {
            let [p50, p99, max] = [p50, p99, max].map(time_us);
            format!("{packets}, late by {p50} at p50, {p99} at p99 and {max} at most")
        },
    )
}

/// A table of media flows; nothing if there are none.
fn media(record: &RunRecord, width: u16) -> String {
    let is_media = |flow: &&FlowRecord| {
        flow.target_rate_bps.is_some() || flow.decisions.is_some() || flow.feedback_rate_bps.is_some()
    };
    let flows: Vec<&FlowRecord> = record.flows.iter().filter(is_media).collect();
    if flows.is_empty() {
        return String::new();
    }
    let columns: [Column<&FlowRecord>; 6] = [
        Column::words("media", 0, |flow| flow.id.clone()),
        Column::number("target", 0, |flow| or_unknown(flow.target_rate_bps, rate)),
        Column::number("changes", 2, |flow| or_unknown(flow.decisions, count)),
        Column::number("frames", 0, |flow| or_unknown(flow.frames, count)),
        Column::number("frame delay ms\np50 / p95 / max", 0, |flow| or_unknown(flow.frame_delay_ms, three)),
        Column::number("feedback", 1, |flow| or_unknown(flow.feedback_rate_bps, rate)),
    ];
    fitted(&columns, &flows, width) + "\n"
}

/// Whether the streams of a flow are shown: there are several videos, the sender skipped frames or discarded packets, lost packets
/// are repaired, or frames are late.
pub(crate) fn shows_streams(flow: &FlowRecord) -> bool {
    let given_up = |stream: &StreamRecord| stream.skipped_frames.max(stream.discarded_packets) > Some(0);
    let repaired = |stream: &StreamRecord| stream.repair.is_some() || stream.late_frames > Some(0);
    flow.has_several_videos() || flow.streams.iter().any(|stream| given_up(stream) || repaired(stream))
}

/// A table of the streams of flows with several videos, or of which something was given up; nothing if there are none.
fn streams(record: &RunRecord, width: u16) -> String {
    let shown = record.flows.iter().filter(|flow| shows_streams(flow));
    let streams: Vec<(&FlowRecord, &StreamRecord)> =
        shown.flat_map(|flow| flow.streams.iter().map(move |stream| (flow, stream))).collect();
    if streams.is_empty() {
        return String::new();
    }
    let mut columns: Vec<Column<(&FlowRecord, &StreamRecord)>> = vec![
        Column::words("stream", 0, |(flow, stream)| format!("{}: {}", flow.id, stream.id)),
        Column::number("priority", 6, |(_, stream)| stream.priority.map_or_else(String::new, short)),
        Column::number("goodput", 1, |(_, stream)| rate(stream.goodput_bps)),
        Column::number("frames", 2, |(_, stream)| count(stream.frames)),
        Column::number("frame delay ms\np50 / p95 / max", 0, |(_, stream)| {
            or_unknown(stream.frame_delay_ms, three)
        }),
    ];
    if streams.iter().any(|(_, stream)| stream.skipped_frames.is_some()) {
        let skipped = |(_, stream): &(_, &StreamRecord)| or_unknown(stream.skipped_frames, count);
        columns.push(Column::number("frames\nskipped", 4, skipped));
    }
    if streams.iter().any(|(_, stream)| stream.discarded_packets.is_some()) {
        let discarded = |(_, stream): &(_, &StreamRecord)| or_unknown(stream.discarded_packets, count);
        columns.push(Column::number("packets\ndiscarded", 5, discarded));
    }
    if streams.iter().any(|(_, stream)| stream.late_frames > Some(0)) {
        columns.push(Column::number("frames\nlate", 3, |(_, stream)| or_unknown(stream.late_frames, count)));
    }
    if streams.iter().any(|(_, stream)| stream.repair.is_some()) {
        columns.push(Column::number("frames\nrepaired", 3, |(_, stream)| repaired_frames(stream)));
        let title = "packets requested /\nsent again / parity";
        columns.push(Column::number(title, 7, |(_, stream)| repair_packets(stream)));
        columns.push(Column::number("repair\nrate", 8, |(_, stream)| repair_rate(stream)));
    }
    fitted(&columns, &streams, width) + "\n"
}

/// Complete frames with a repaired packet.
pub(crate) fn repaired_frames(stream: &StreamRecord) -> String {
    or_unknown(stream.repair, |repair| count(repair.repaired_frames))
}

/// Packets that were requested, sent again, and sent as parity.
pub(crate) fn repair_packets(stream: &StreamRecord) -> String {
    let all = |repair: RepairRecord| {
        [repair.requested_packets, repair.retransmitted_packets, repair.parity_packets].map(count).join(" / ")
    };
    or_unknown(stream.repair, all)
}

/// The rate of the repair packets.
pub(crate) fn repair_rate(stream: &StreamRecord) -> String {
    or_unknown(stream.repair, |repair| rate(repair.repair_rate_bps))
}

fn three(delay: Distribution) -> String {
    [delay.p50, delay.p95, delay.max].map(short).join(" / ")
}

/// The value of a check with its unit: `4.870 Mbit/s`.
pub fn found(check: &Check) -> String {
    check.value.map_or_else(
        || UNKNOWN.to_owned(),
        |value| match check.unit.as_str() {
            "bit/s" => rate(value),
            "ratio" => decimals(value, 4),
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
