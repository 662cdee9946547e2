//! The tables of a simulated run in the terminal.

use crate::{
    record::{Check, FlowRecord, Lateness, LinkRecord, RealTimeRecord, RunRecord, StreamRecord},
    statistics::{FLOW, LINK, MEDIA, Part, REPAIR, STREAM},
    view::{
        format::{UNKNOWN, count, decimals, plural, rate, short, time_us},
        table::Grid,
    },
};

/// The parts of a distribution in the terminal.
const PARTS: &[Part] = &[Part::P50, Part::P95, Part::Max];
/// The parts of the queueing delay of a link.
const OF_LINKS: &[Part] = &[Part::Mean, Part::P95, Part::Max];

/// Tables of flows and links, at most `width` characters wide if possible, and a line for each check.
pub fn tables(record: &RunRecord, width: u16) -> String {
    let checks: Vec<String> = record.checks.iter().map(check).collect();
    let links: Vec<&LinkRecord> = record.links.iter().collect();
    let tables = flows(record, width) + &links_grid(&links).text(width);
    let parts = [heading(record), tables, checks.join("\n")];
    parts.join("\n").trim_end().to_owned()
}

/// Tables of flows, at most `width` characters wide if possible.
pub fn flows(record: &RunRecord, width: u16) -> String {
    let flows = &record.flows[..];
    let special = [media_grid(flows, PARTS), streams_grid(flows, PARTS)].into_iter().flatten();
    let all = std::iter::once(flows_grid(flows, PARTS)).chain(special);
    all.map(|grid| grid.text(width) + "\n").collect()
}

/// The flows, of distributions these `parts`.
pub(crate) fn flows_grid(flows: &[FlowRecord], parts: &[Part]) -> Grid {
    let kind = |flow: &FlowRecord| match &flow.controller {
        Some(controller) => format!("{} {controller}", flow.kind),
        None => flow.kind.clone(),
    };
    let mut grid = Grid::default();
    grid.words("flow", 0, flows.iter().map(|flow| flow.id.clone()));
    grid.words("kind", 2, flows.iter().map(kind));
    grid.statistics(FLOW, &flows.iter().collect::<Vec<_>>(), parts);
    grid
}

/// What only media flows have; `None` without such flows.
pub(crate) fn media_grid(flows: &[FlowRecord], parts: &[Part]) -> Option<Grid> {
    let is_media = |flow: &&FlowRecord| {
        flow.target_rate_bps.is_some() || flow.decisions.is_some() || flow.feedback_rate_bps.is_some()
    };
    let flows: Vec<&FlowRecord> = flows.iter().filter(is_media).collect();
    let mut grid = Grid::default();
    grid.words("media", 0, flows.iter().map(|flow| flow.id.clone()));
    grid.statistics(MEDIA, &flows, parts);
    (!flows.is_empty()).then_some(grid)
}

/// The streams of flows with several videos, or of which something was given up, late or repaired; `None` without such flows.
pub(crate) fn streams_grid(flows: &[FlowRecord], parts: &[Part]) -> Option<Grid> {
    let shown = flows.iter().filter(|flow| shows_streams(flow));
    let named = shown.flat_map(|flow| {
        flow.streams.iter().map(move |stream| (format!("{}: {}", flow.id, stream.id), stream))
    });
    let (names, streams): (Vec<String>, Vec<&StreamRecord>) = named.unzip();
    let mut grid = Grid::default();
    grid.words("stream", 0, names);
    let priority = |stream: &&StreamRecord| stream.priority.map_or_else(String::new, short);
    grid.numbers("priority", 6, streams.iter().map(priority));
    grid.statistics(STREAM, &streams, parts);
    grid.statistics(REPAIR, &streams, parts);
    (!streams.is_empty()).then_some(grid)
}

/// The links.
pub(crate) fn links_grid(links: &[&LinkRecord]) -> Grid {
    let mut grid = Grid::default();
    grid.words("link", 0, links.iter().map(|link| link.id.clone()));
    grid.statistics(LINK, links, OF_LINKS);
    grid
}

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

/// Whether the streams of a flow are shown: there are several videos, the sender skipped frames or discarded packets, lost packets
/// are repaired, or frames are late.
fn shows_streams(flow: &FlowRecord) -> bool {
    let given_up = |stream: &StreamRecord| stream.skipped_frames.max(stream.discarded_packets) > Some(0);
    let repaired = |stream: &StreamRecord| stream.repair.is_some() || stream.late_frames > Some(0);
    flow.has_several_videos() || flow.streams.iter().any(|stream| given_up(stream) || repaired(stream))
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
