//! Charts and tables of media flows: rates, the controller's decisions, and frame delay.

use giusto_congestion::{Cause, Signal};
use giusto_sim::record::keep_largest_changes;

use super::{
    SimulationPage,
    plots::{MOST_LINES, capacity, chart, largest, rate_points, scaled, width, windows_apart},
    quantiles,
};
use crate::{
    record::{DecisionRecord, FlowRecord, FlowTimeline, StreamRecord},
    view::{
        comparison::bottleneck,
        decision::{cause_name, decision_in_words, signal_name},
        format::{count, or_unknown, plural, rate, short},
        html::{Chart, Event, Gaps, Points, Series, Table},
        table::Column,
        tables::shows_streams,
    },
};

/// Decisions that are marked in a chart: the eye cannot separate more.
const MOST_MARKED: usize = 500;

/// Media flows that have a chart of their own.
const MOST_FLOWS: usize = 6;

/// A point of a stream's rate is over at least so long: some 15 frames.
const LEAST_STREAM_POINT_S: f64 = 0.5;

pub(super) fn charts(page: &SimulationPage<'_>) -> Vec<Chart> {
    let media = |flow: &&FlowTimeline| flow.media.is_some();
    let all = page.timeline.flows.iter().filter(media).count();
    let own = page.timeline.flows.iter().enumerate().filter(|(_, flow)| media(flow)).take(MOST_FLOWS);
    let own = own.flat_map(|(place, flow)| [target(page, place, all), streams(page, flow)]);
    own.flatten().chain(frame_delays(page)).collect()
}

/// Target, sent and received rate of a flow, with its decisions and the capacity of the bottleneck.
pub(in crate::view::html) fn target(page: &SimulationPage<'_>, place: usize, all: usize) -> Option<Chart> {
    let timeline = page.timeline;
    let flow = timeline.flows.get(place)?;
    let media = flow.media.as_ref()?;
    let together = windows_apart(timeline, &[flow]);
    let [sent, received] =
        [&flow.sent_bytes, &flow.received_bytes].map(|bytes| rate_points(timeline, bytes, together));
    let own = page.record.flows.iter().find(|own| own.id == flow.id)?;
    let slowest = bottleneck(page.record, own);
    let limit = slowest.and_then(|link| capacity(page, &link.id)).unwrap_or_default();
    let runs = runs(&media.decisions);
    let mut firsts: Vec<DecisionRecord> = runs.iter().map(|run| run.first).collect();
    let left_out = media.omitted_decisions + keep_largest_changes(&mut firsts, MOST_MARKED);
    let marks = marks(runs.iter().filter(|run| firsts.contains(&run.first)));
    let targets = media.target_rate_bps.iter().copied().flatten();
    let decided = media.decisions.iter().map(|decision| decision.to_bps as f64);
    let drawn = [&sent, &received, &limit].into_iter().flatten().map(|&(_, bps)| bps);
    let most = largest(drawn.chain(targets).chain(decided));
    if most <= 0.0 {
        return None;
    }
    let (unit, name) = scaled(most);
    let mut caption = vec![
        "All headers included. A mark shows where the reason for the controller's decisions changes; point at it to read the reason."
            .to_owned(),
    ];
    if left_out > 0 {
        let left_out = plural(left_out, "decision", "decisions");
        caption.push(format!("{left_out} with the smallest changes are left out."));
    }
    if all > MOST_FLOWS {
        caption.push(format!("Of {all} media flows the first {MOST_FLOWS} have a chart like this."));
    }
    let title = format!("{}: target and rates", flow.id);
    let mut chart = chart(page, &title, caption.join(" "), &format!("rate ({name})")).with_full_width();
    chart.y.range = Some((0.0, most / unit * 1.1));
    chart = chart
        .with_series(Series::line(
            "target",
            page.column(&format!("flows/{place}/media/target_rate_bps"), 1.0 / unit),
        ))
        .with_series(Series::line("sent", Points::from(sent).scaled(1.0 / unit)))
        .with_series(Series::line("received", Points::from(received).scaled(1.0 / unit)));
    for (name, mut events) in marks {
        events.iter_mut().for_each(|event| event.y /= unit);
        chart = chart.with_series(Series::Events { name, events });
    }
    if let Some(link) = slowest.filter(|_| !limit.is_empty()) {
        let points = Points::from(limit).scaled(1.0 / unit);
        chart = chart.with_series(Series::limit(format!("capacity of {}", link.id), points));
    }
    Some(chart)
}

/// The goodput of each stream of a flow, if it has several videos.
fn streams(page: &SimulationPage<'_>, flow: &FlowTimeline) -> Option<Chart> {
    let (timeline, media) = (page.timeline, flow.media.as_ref()?);
    let result = page.record.flows.iter().find(|own| own.id == flow.id)?;
    if !result.has_several_videos() {
        return None;
    }
    let together = (LEAST_STREAM_POINT_S / timeline.width_s.max(1e-9)) as usize;
    let together = together.min(timeline.t_s.len() / 2).max(1);
    let points = |ssrc| {
        let own = media.streams.iter().find(|stream| stream.ssrc == ssrc);
        rate_points(timeline, own.map_or(&[], |stream| &stream.frame_bytes), together)
    };
    let shown = result.streams.iter().take(MOST_LINES);
    let lines: Vec<(&StreamRecord, Vec<(f64, f64)>)> =
        shown.map(|stream| (stream, points(stream.ssrc))).collect();
    let most = largest(lines.iter().flat_map(|(_, points)| points).map(|&(_, bps)| bps));
    if most <= 0.0 {
        return None;
    }
    let (unit, name) = scaled(most);
    let width = width(timeline, together);
    let all = result.streams.len();
    let more = if all > MOST_LINES {
        format!(" Of {all} streams the first {MOST_LINES} are shown.")
    } else {
        String::new()
    };
    let caption = format!("Payload of complete frames, over {width} each.{more}");
    let title = format!("{}: goodput of each stream", flow.id);
    let mut chart = chart(page, &title, caption, &format!("rate ({name})")).with_full_width();
    chart.y.range = Some((0.0, most / unit * 1.1));
    for (stream, points) in lines {
        chart = chart.with_series(Series::line(stream.id.clone(), Points::from(points).scaled(1.0 / unit)));
    }
    Some(chart)
}

/// The figures of each stream; `None` if there is only one video.
pub(super) fn streams_table(flows: &[FlowRecord]) -> Option<Table> {
    type Row<'a> = (&'a FlowRecord, &'a StreamRecord);
    let of_those = flows.iter().filter(|flow| shows_streams(flow));
    let rows: Vec<Row<'_>> =
        of_those.flat_map(|flow| flow.streams.iter().map(move |stream| (flow, stream))).collect();
    let columns: [Column<Row<'_>>; 7] = [
        Column::words("stream", 0, |(flow, stream)| format!("{}: {}", flow.id, stream.id)),
        Column::number("priority", 0, |(_, stream)| stream.priority.map_or_else(String::new, short)),
        Column::number("goodput", 0, |(_, stream)| rate(stream.goodput_bps)),
        Column::number("frames", 0, |(_, stream)| count(stream.frames)),
        Column::number("frame delay (ms)\np50 / p95 / p99 / max", 0, |(_, stream)| {
            quantiles(stream.frame_delay_ms)
        }),
        Column::number("skipped frames", 0, |(_, stream)| or_unknown(stream.skipped_frames, count)),
        Column::number("discarded packets", 0, |(_, stream)| or_unknown(stream.discarded_packets, count)),
    ];
    (!rows.is_empty())
        .then(|| Table::of("Streams", "Goodput is the payload of complete frames.", &columns, &rows))
}

/// Decisions of one kind that follow each other.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: DecisionRecord,
    last: DecisionRecord,
    /// How many follow the first.
    more: u64,
}

impl Run {
    /// The first of them in words, and what followed.
    fn in_words(&self) -> String {
        let first = decision_in_words(&self.first);
        if self.more == 0 {
            return first;
        }
        let (until, more) = (self.last.at_s, plural(self.more, "decision", "decisions"));
        let at = rate(self.last.to_bps as f64);
        format!("{first}; {more} of the same kind follow until {until:.3} s, at {at}")
    }
}

/// The kind of a decision's cause: decisions of one kind share a mark.
fn kind(decision: &DecisionRecord) -> String {
    match decision.cause {
        // A delay that says nothing lets the rate rise; one that does brings it down.
        Cause::Delay { signal: Signal::Normal, .. } => "delay normal".to_owned(),
        Cause::Delay { signal, .. } => signal_name(signal).to_owned(),
        cause => cause_name(&cause).replace('-', " "),
    }
}

fn runs(decisions: &[DecisionRecord]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for decision in decisions {
        match runs.last_mut() {
            Some(run) if kind(&run.last) == kind(decision) => {
                run.last = *decision;
                run.more += 1;
            }
            _ => runs.push(Run { first: *decision, last: *decision, more: 0 }),
        }
    }
    runs
}

/// The runs by kind, in the order in which each kind came first.
fn marks<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<(String, Vec<Event>)> {
    let mut kinds: Vec<(String, Vec<Event>)> = Vec::new();
    for run in runs {
        let kind = kind(&run.first);
        let event = Event { x: run.first.at_s, y: run.first.to_bps as f64, text: run.in_words() };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, events)) => events.push(event),
            None => kinds.push((kind, vec![event])),
        }
    }
    kinds
}

fn frame_delays(page: &SimulationPage<'_>) -> Option<Chart> {
    let caption = format!(
        "From the capture of a frame until it arrived complete: the maximum within {} each.",
        width(page.timeline, 1)
    );
    let mut chart = chart(page, "Frame delay", caption, "delay (ms)");
    for (place, flow) in page.timeline.flows.iter().enumerate() {
        let delays = flow.media.as_ref().map(|media| media.frame_delay_max_ms.iter());
        if delays.is_some_and(|mut delays| delays.any(Option::is_some)) && chart.series.len() < MOST_LINES {
            let points = page.column(&format!("flows/{place}/media/frame_delay_max_ms"), 1.0);
            chart = chart.with_series(Series::line(flow.id.clone(), points.with_gaps(Gaps::Bridge)));
        }
    }
    (!chart.series.is_empty()).then_some(chart)
}
