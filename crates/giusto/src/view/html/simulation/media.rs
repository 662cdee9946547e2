//! The plots of media flows: what the controller wanted, what came of it, and why.

use giusto_congestion::{Cause, Decision, Signal};
use giusto_sim::{
    link::rate::RateProfile,
    observe::{FlowWindow, MediaSeries, leave_out_smallest},
};
use giusto_units::TimeDelta;

use super::{
    PageFlow, PageLink, SimulationPage,
    plots::{MOST_LINES, capacity, chart, middle, rate_points, scaled, windows_apart},
};
use crate::{
    record::{FlowResult, Quantiles, StreamResult},
    view::{
        decision::{cause_name, decision_in_words, signal_name},
        format::{count, grouped, or_unknown, plural, short},
        html::{Cell, Chart, Column, Event, Series, Table},
    },
};

/// Decisions that are marked in a plot: more cannot be told apart.
const MOST_MARKED: usize = 1000;

/// Media flows that have a plot of their own.
const MOST_FLOWS: usize = 6;

/// A point of a stream's rate is over at least so long: some 15 frames.
const LEAST_STREAM_POINT: TimeDelta = TimeDelta::from_millis(500);

pub(super) fn charts(page: &SimulationPage<'_>) -> Vec<Chart> {
    let told = || page.flows.iter().filter_map(|flow| Some((flow, page.timeline.media(flow.id)?)));
    let all = told().count();
    let of_flow = |(flow, media)| [target(page, (flow, media), all), streams(page, (flow, media))];
    let mut charts: Vec<Chart> = told().take(MOST_FLOWS).flat_map(of_flow).flatten().collect();
    charts.extend(frame_delays(page, told()));
    charts
}

/// Target, sent and received rate of a flow, with its decisions and the capacity of the slowest link of its way.
pub(in crate::view::html) fn target(
    page: &SimulationPage<'_>,
    (flow, media): (&PageFlow, &MediaSeries),
    all: usize,
) -> Option<Chart> {
    let timeline = page.timeline;
    let together = windows_apart(timeline, &[flow.id]);
    let sizes = |of: fn(&FlowWindow) -> u64| -> Vec<u64> { timeline.flow(flow.id).iter().map(of).collect() };
    let targets = media
        .windows()
        .iter()
        .enumerate()
        .map(|(place, window)| (middle(timeline, place), window.target_mean_bps().unwrap_or(f64::NAN)));
    let mut lines = [
        ("target", targets.collect()),
        ("sent", rate_points(timeline, &sizes(|window| window.sent.size.as_bytes()), together)),
        ("received", rate_points(timeline, &sizes(|window| window.received.size.as_bytes()), together)),
    ];
    let slowest = slowest(page, flow);
    let mut limit: Vec<(f64, f64)> =
        slowest.and_then(|link| capacity(timeline, &link.rate)).unwrap_or_default();
    let runs = runs(media.decisions());
    let mut firsts: Vec<Decision> = runs.iter().map(|run| run.first).collect();
    let left_out = media.left_out() + leave_out_smallest(&mut firsts, MOST_MARKED);
    let mut marks =
        marks(runs.iter().filter(|run| firsts.binary_search_by_key(&run.first.at, |first| first.at).is_ok()));
    let values = lines.iter().flat_map(|(_, points)| points).chain(&limit).map(|&(_, bps)| bps);
    let most = values.chain(media.decisions().iter().map(|decision| decision.to.as_bps() as f64));
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
    let title = format!("{}: target and rates", flow.name);
    let mut chart = chart(page, &title, told.join(" "), &format!("rate ({name})")).with_full_width();
    chart.y.range = Some((0.0, most / unit * 1.1));
    for (name, points) in lines {
        chart = chart.with_series(Series::line(name, points));
    }
    for (name, events) in marks {
        chart = chart.with_series(Series::Events { name, events });
    }
    if let Some(link) = slowest.filter(|_| !limit.is_empty()) {
        chart = chart.with_series(Series::limit(format!("capacity of {}", link.name), limit));
    }
    Some(chart)
}

/// What arrived of each stream of a flow, if it has several videos.
fn streams(page: &SimulationPage<'_>, (flow, media): (&PageFlow, &MediaSeries)) -> Option<Chart> {
    let timeline = page.timeline;
    let result = page.result.flows.iter().find(|result| result.id == flow.name)?;
    if !result.has_several_videos() {
        return None;
    }
    let together = (LEAST_STREAM_POINT.as_nanos() / timeline.width().as_nanos().max(1)) as usize;
    let together = together.min(timeline.len() / 2).max(1);
    let points = |ssrc| {
        let bytes = media.streams().find(|&(source, _)| source == ssrc).map(|(_, bytes)| bytes);
        rate_points(timeline, bytes.unwrap_or_default(), together)
    };
    let shown = result.streams.iter().take(MOST_LINES);
    let mut lines: Vec<(&StreamResult, Vec<(f64, f64)>)> =
        shown.map(|stream| (stream, points(stream.ssrc))).collect();
    let most = lines.iter().flat_map(|(_, points)| points).map(|&(_, bps)| bps);
    let most = most.filter(|bps| bps.is_finite()).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let (unit, name) = scaled(most);
    lines.iter_mut().flat_map(|(_, points)| points).for_each(|(_, bps)| *bps /= unit);
    let width = TimeDelta::from_nanos(timeline.width().as_nanos().saturating_mul(together as i64));
    let all = result.streams.len();
    let more = if all > MOST_LINES {
        format!(" Of {all} streams the first {MOST_LINES} are shown.")
    } else {
        String::new()
    };
    let caption = format!("The payload of the frames that arrived whole, over {width} each.{more}");
    let title = format!("{}: received rate of each stream", flow.name);
    let mut chart = chart(page, &title, caption, &format!("rate ({name})")).with_full_width();
    chart.y.range = Some((0.0, most / unit * 1.1));
    for (stream, points) in lines {
        chart = chart.with_series(Series::line(stream.id.clone(), points));
    }
    Some(chart)
}

/// What each stream of the flows with several videos got; nothing if there are none.
pub(super) fn streams_table(flows: &[FlowResult]) -> Option<Table> {
    let ms = |quantiles: Option<Quantiles>, of: fn(Quantiles) -> f64| or_unknown(quantiles.map(of), short);
    let row = |(flow, stream): (&FlowResult, &StreamResult)| -> Vec<Cell> {
        vec![
            flow.id.clone().into(),
            stream.id.clone().into(),
            stream.priority.map_or_else(String::new, short).into(),
            grouped(stream.received_rate_bps / 1e3).into(),
            count(stream.frames).into(),
            ms(stream.frame_delay_ms, |quantiles| quantiles.p50).into(),
            ms(stream.frame_delay_ms, |quantiles| quantiles.p95).into(),
            ms(stream.frame_delay_ms, |quantiles| quantiles.max).into(),
            or_unknown(stream.skipped_frames, count).into(),
            or_unknown(stream.discarded_packets, count).into(),
        ]
    };
    let of_those = flows.iter().filter(|flow| flow.has_streams_to_tell());
    let streams = of_those.flat_map(|flow| flow.streams.iter().map(move |stream| (flow, stream)));
    let rows: Vec<Vec<Cell>> = streams.map(row).collect();
    (!rows.is_empty()).then(|| Table {
        title: "Streams".to_owned(),
        caption: "The rate is the payload of the frames that arrived whole.".to_owned(),
        columns: vec![
            Column::words("flow"),
            Column::words("stream"),
            Column::number("priority"),
            Column::number("received (kbit/s)"),
            Column::number("whole frames"),
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

/// The link of a flow's way that carries least over the whole run.
pub(in crate::view::html) fn slowest<'a>(
    page: &'a SimulationPage<'_>,
    flow: &PageFlow,
) -> Option<&'a PageLink> {
    let carries = |link: &PageLink| match &link.rate {
        RateProfile::Unlimited => None,
        rate => rate.capacity(page.timeline.end()),
    };
    let way = flow.path.iter().filter_map(|&id| page.links.iter().find(|link| link.id == id));
    way.filter(|link| carries(link).is_some()).min_by_key(|link| carries(link))
}

/// Decisions of one kind that follow each other.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: Decision,
    last: Decision,
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
        let (until, more) = (self.last.at.as_seconds(), plural(self.more, "decision", "decisions"));
        format!("{first}; {more} of the same kind follow until {until:.3} s, at {}", self.last.to)
    }
}

/// What led to a decision, as far as marks tell it apart.
fn kind(decision: &Decision) -> String {
    match decision.cause {
        // A delay that says nothing lets the rate rise; one that does brings it down.
        Cause::Delay { signal: Signal::Normal, .. } => "delay normal".to_owned(),
        Cause::Delay { signal, .. } => signal_name(signal).to_owned(),
        cause => cause_name(&cause).replace('-', " "),
    }
}

fn runs(decisions: &[Decision]) -> Vec<Run> {
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
        let event =
            Event { x: run.first.at.as_seconds(), y: run.first.to.as_bps() as f64, text: run.in_words() };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, events)) => events.push(event),
            None => kinds.push((kind, vec![event])),
        }
    }
    kinds
}

fn frame_delays<'a>(
    page: &SimulationPage<'_>,
    told: impl Iterator<Item = (&'a PageFlow, &'a MediaSeries)>,
) -> Option<Chart> {
    let timeline = page.timeline;
    let caption =
        format!("From capture until the frame was whole: the longest within {} each.", timeline.width());
    let mut chart = chart(page, "Frame delay", caption, "delay (ms)");
    for (flow, media) in told {
        let points = media.windows().iter().enumerate();
        let points: Vec<(f64, f64)> = points
            .filter_map(|(place, window)| {
                Some((middle(timeline, place), window.frame_delay_max?.as_millis()))
            })
            .collect();
        if !points.is_empty() && chart.series.len() < MOST_LINES {
            chart = chart.with_series(Series::line(flow.name.clone(), points));
        }
    }
    (!chart.series.is_empty()).then_some(chart)
}
