//! Charts and tables of media flows: rates, the controller's decisions, and frame delay.

use std::fmt::Write;

use giusto_congestion::{Cause, Signal};
use giusto_sim::record::keep_largest_changes;

use super::{
    SimulationPage,
    plots::{MAX_LINES, capacities, chart, received_rate, window, with_lines},
};
use crate::{
    record::{DecisionRecord, FlowTimeline},
    view::{
        decision::{cause_name, decision_in_words},
        format::{plural, rate},
        html::{Chart, Event, Gaps, Series},
    },
};

/// Decisions that are marked in a chart: the eye cannot separate more.
const MAX_MARKED: usize = 150;

/// Media flows that have a chart of their own.
const MAX_FLOWS: usize = 6;

pub(super) fn charts(page: &SimulationPage<'_>) -> Vec<Chart> {
    let media = |flow: &&FlowTimeline| flow.media.is_some();
    let all = page.timeline.flows.iter().filter(media).count();
    let own = page.timeline.flows.iter().enumerate().filter(|(_, flow)| media(flow)).take(MAX_FLOWS);
    let own = own.flat_map(|(place, _)| [target(page, place, all), streams(page, place)]);
    own.flatten().chain([frame_delays(page)]).collect()
}

/// Target, sent and received rate of a flow, with its decisions and the capacity of its path; `None` at an end that knows neither target
/// nor decisions.
pub(in crate::view::html) fn target(page: &SimulationPage<'_>, place: usize, all: usize) -> Option<Chart> {
    let flow = page.timeline.flows.get(place)?;
    let media = flow.media.as_ref()?;
    let own = page.record.flows.iter().find(|own| own.id == flow.id)?;
    let has_target = media.target_rate_bps.iter().any(Option::is_some);
    if !has_target && media.decisions.is_empty() {
        return None;
    }
    let runs = runs(&media.decisions);
    let mut firsts: Vec<DecisionRecord> = runs.iter().map(|run| run.first).collect();
    let left_out = media.omitted_decisions + keep_largest_changes(&mut firsts, MAX_MARKED);
    let mut caption =
        "All headers included. A mark shows where the reason for the controller's decisions changes; point at it to read the reason."
            .to_owned();
    if left_out > 0 {
        let left_out = plural(left_out, "decision", "decisions");
        let _ = write!(caption, " {left_out} with the smallest changes are left out.");
    }
    if all > MAX_FLOWS {
        let _ = write!(caption, " Of {all} media flows the first {MAX_FLOWS} have a chart like this.");
    }
    // Only the sender of a call has a target and a sent rate.
    let column = |column: &str, is_known: bool| {
        is_known.then(|| page.column(&format!("timeline/flows/{place}/{column}")))
    };
    let columns = [
        ("target", column("media/target_rate_bps", has_target)),
        ("sent", column("sent_rate_bps", !flow.sent_rate_bps.is_empty())),
        ("received", received_rate(page, place)),
    ];
    let lines = columns.into_iter().filter_map(|(name, points)| Some(Series::line(name, points?)));
    let title = format!("{}: target and rates", flow.id);
    let chart = chart(page, title, caption, "rate", "bit/s").with_full_width();
    let marks = marks(runs.iter().filter(|run| firsts.contains(&run.first)));
    Some(with_lines(chart, lines.into_iter().chain(marks).chain(capacities(page, own))))
}

/// The goodput of each stream of a flow, if it has several videos.
fn streams(page: &SimulationPage<'_>, place: usize) -> Option<Chart> {
    let flow = page.timeline.flows.get(place)?;
    let result = page.record.flows.iter().find(|own| own.id == flow.id)?;
    if !result.has_several_videos() {
        return None;
    }
    let known = &flow.media.as_ref()?.streams;
    let lines = result.streams.iter().take(MAX_LINES).filter_map(|stream| {
        let own = known.iter().position(|known| known.ssrc == stream.ssrc)?;
        let column = format!("timeline/flows/{place}/media/streams/{own}/goodput_bps");
        Some(Series::line(stream.id.clone(), page.column(&column)))
    });
    let all = result.streams.len();
    let more = if all > MAX_LINES {
        format!(" Of {all} streams the first {MAX_LINES} are shown.")
    } else {
        String::new()
    };
    let caption = format!("Payload of complete frames, as a moving mean.{more}");
    let title = format!("{}: goodput of each stream", flow.id);
    Some(with_lines(chart(page, title, caption, "rate", "bit/s").with_full_width(), lines))
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
        Cause::Delay { signal: Signal::Normal, .. } => "delay normal".to_owned(),
        Cause::Delay { signal, .. } => signal.name().to_owned(),
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
fn marks<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<Series> {
    let mut kinds: Vec<(String, Vec<Event>)> = Vec::new();
    for run in runs {
        let kind = kind(&run.first);
        let event = Event {
            x: run.first.at_s,
            y: run.first.to_bps as f64,
            text: run.in_words(),
            label: String::new(),
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, events)) => events.push(event),
            None => kinds.push((kind, vec![event])),
        }
    }
    kinds.into_iter().map(|(name, events)| Series::Events { name, events }).collect()
}

fn frame_delays(page: &SimulationPage<'_>) -> Chart {
    let caption = format!(
        "From the capture of a frame until it arrived complete: the maximum in each {}.",
        window(page)
    );
    let lines = page.timeline.flows.iter().enumerate().filter_map(|(place, flow)| {
        flow.media.as_ref()?.frame_delay_max_ms.iter().find(|delay| delay.is_some())?;
        let points = page.column(&format!("timeline/flows/{place}/media/frame_delay_max_ms"));
        Some(Series::line(flow.id.clone(), points.with_gaps(Gaps::Bridge)))
    });
    with_lines(chart(page, "Frame delay", caption, "delay", "ms"), lines.take(MAX_LINES))
}
