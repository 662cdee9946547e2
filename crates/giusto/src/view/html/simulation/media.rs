//! The plots of media flows: what the controller wanted, what came of it, and why.

use giusto_congestion::{Cause, Signal};
use giusto_sim::record::keep_largest_changes;

use super::{
    SimulationPage,
    plots::{MOST_LINES, capacity, chart, points, rate_points, scaled, width, windows_apart},
};
use crate::{
    record::{DecisionRecord, Distribution, FlowRecord, FlowTimeline, MediaTimeline, StreamRecord},
    view::{
        comparison::bottleneck,
        decision::{cause_name, decision_in_words, signal_name},
        format::{count, grouped, or_unknown, plural, rate, short},
        html::{Cell, Chart, Column, Event, Series, Table},
        tables::shows_streams,
    },
};

/// Decisions that are marked in a plot: more cannot be told apart.
const MOST_MARKED: usize = 1000;

/// Media flows that have a plot of their own.
const MOST_FLOWS: usize = 6;

/// A point of a stream's rate is over at least so long: some 15 frames.
const LEAST_STREAM_POINT_S: f64 = 0.5;

pub(super) fn charts(page: &SimulationPage<'_>) -> Vec<Chart> {
    let told = || page.timeline.flows.iter().filter_map(|flow| Some((flow, flow.media.as_ref()?)));
    let all = told().count();
    let of_flow = |(flow, media)| [target(page, (flow, media), all), streams(page, (flow, media))];
    let mut charts: Vec<Chart> = told().take(MOST_FLOWS).flat_map(of_flow).flatten().collect();
    charts.extend(frame_delays(page, told()));
    charts
}

/// Target, sent and received rate of a flow, with its decisions and the capacity of the bottleneck.
pub(in crate::view::html) fn target(
    page: &SimulationPage<'_>,
    (flow, media): (&FlowTimeline, &MediaTimeline),
    all: usize,
) -> Option<Chart> {
    let timeline = page.timeline;
    let together = windows_apart(timeline, &[flow]);
    let mut lines = [
        ("target", points(timeline, &media.target_rate_bps)),
        ("sent", rate_points(timeline, &flow.sent_bytes, together)),
        ("received", rate_points(timeline, &flow.received_bytes, together)),
    ];
    let own = page.record.flows.iter().find(|own| own.id == flow.id)?;
    let slowest = bottleneck(page.record, own);
    let mut limit: Vec<(f64, f64)> = slowest.and_then(|link| capacity(page, &link.id)).unwrap_or_default();
    let runs = runs(&media.decisions);
    let mut firsts: Vec<DecisionRecord> = runs.iter().map(|run| run.first).collect();
    let left_out = media.omitted_decisions + keep_largest_changes(&mut firsts, MOST_MARKED);
    let mut marks = marks(runs.iter().filter(|run| firsts.contains(&run.first)));
    let values = lines.iter().flat_map(|(_, points)| points).chain(&limit).map(|&(_, bps)| bps);
    let most = values.chain(media.decisions.iter().map(|decision| decision.to_bps as f64));
    let most = most.filter(|bps| bps.is_finite()).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let (unit, name) = scaled(most);
    lines.iter_mut().flat_map(|(_, points)| points).chain(&mut limit).for_each(|(_, bps)| *bps /= unit);
    marks.iter_mut().flat_map(|(_, events)| events).for_each(|event| event.y /= unit);
    let mut told = vec![
        "All headers included. A mark is where the controller decides for another reason than before; point at it to see why."
            .to_owned(),
    ];
    if left_out > 0 {
        let what = plural(left_out, "decision", "decisions");
        told.push(format!("{what} with the smallest changes are left out."));
    }
    if all > MOST_FLOWS {
        told.push(format!("Of {all} media flows the first {MOST_FLOWS} are shown like this."));
    }
    let title = format!("{}: target and rates", flow.id);
    let mut chart = chart(page, &title, told.join(" "), &format!("rate ({name})")).with_full_width();
    chart.y.range = Some((0.0, most / unit * 1.1));
    for (name, points) in lines {
        chart = chart.with_series(Series::Line { name: name.to_owned(), points });
    }
    for (name, events) in marks {
        chart = chart.with_series(Series::Events { name, events });
    }
    if let Some(link) = slowest.filter(|_| !limit.is_empty()) {
        chart = chart.with_series(Series::Limit { name: format!("capacity of {}", link.id), points: limit });
    }
    Some(chart)
}

/// The goodput of each stream of a flow, if it has several videos.
fn streams(page: &SimulationPage<'_>, (flow, media): (&FlowTimeline, &MediaTimeline)) -> Option<Chart> {
    let timeline = page.timeline;
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
    let mut lines: Vec<(&StreamRecord, Vec<(f64, f64)>)> =
        shown.map(|stream| (stream, points(stream.ssrc))).collect();
    let most = lines.iter().flat_map(|(_, points)| points).map(|&(_, bps)| bps);
    let most = most.filter(|bps| bps.is_finite()).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let (unit, name) = scaled(most);
    lines.iter_mut().flat_map(|(_, points)| points).for_each(|(_, bps)| *bps /= unit);
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
        chart = chart.with_series(Series::Line { name: stream.id.clone(), points });
    }
    Some(chart)
}

/// The statistics of each stream; nothing if there is only one video.
pub(super) fn streams_table(flows: &[FlowRecord]) -> Option<Table> {
    let ms =
        |quantiles: Option<Distribution>, of: fn(Distribution) -> f64| or_unknown(quantiles.map(of), short);
    let row = |(flow, stream): (&FlowRecord, &StreamRecord)| -> Vec<Cell> {
        vec![
            flow.id.clone().into(),
            stream.id.clone().into(),
            stream.priority.map_or_else(String::new, short).into(),
            grouped(stream.goodput_bps / 1e3).into(),
            count(stream.frames).into(),
            ms(stream.frame_delay_ms, |quantiles| quantiles.p50).into(),
            ms(stream.frame_delay_ms, |quantiles| quantiles.p95).into(),
            ms(stream.frame_delay_ms, |quantiles| quantiles.max).into(),
            or_unknown(stream.skipped_frames, count).into(),
            or_unknown(stream.discarded_packets, count).into(),
        ]
    };
    let of_those = flows.iter().filter(|flow| shows_streams(flow));
    let streams = of_those.flat_map(|flow| flow.streams.iter().map(move |stream| (flow, stream)));
    let rows: Vec<Vec<Cell>> = streams.map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Streams".to_owned(),
        caption: "Goodput is the payload of complete frames.".to_owned(),
        columns: vec![
            Column::words("flow"),
            Column::words("stream"),
            Column::number("priority"),
            Column::number("goodput (kbit/s)"),
            Column::number("frames"),
            Column::number("frame delay p50 (ms)"),
            Column::number("p95"),
            Column::number("max"),
            Column::number("skipped frames"),
            Column::number("discarded packets"),
        ],
        rows,
        folded: false,
    })
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

/// What led to a decision, as far as marks tell it apart.
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

/// The runs by what led to them, in the order in which each kind came first.
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

fn frame_delays<'a>(
    page: &SimulationPage<'_>,
    told: impl Iterator<Item = (&'a FlowTimeline, &'a MediaTimeline)>,
) -> Option<Chart> {
    let timeline = page.timeline;
    let caption = format!(
        "From the capture of a frame until it is complete: the maximum within {} each.",
        width(timeline, 1)
    );
    let mut chart = chart(page, "Frame delay", caption, "delay (ms)");
    for (flow, media) in told {
        let known = points(timeline, &media.frame_delay_max_ms).into_iter();
        let points: Vec<(f64, f64)> = known.filter(|point| point.1.is_finite()).collect();
        if !points.is_empty() && chart.series.len() < MOST_LINES {
            chart = chart.with_series(Series::Line { name: flow.id.clone(), points });
        }
    }
    (!chart.series.is_empty()).then_some(chart)
}
