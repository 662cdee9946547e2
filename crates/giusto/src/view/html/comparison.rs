//! The page of a comparison: one scenario under several controllers.

use std::{collections::BTreeSet, fmt::Write};

use serde_json::Value;

use super::{
    Block, Chart, Gaps, Points, Prose, Report, Section, Series, Table,
    embedded::{has_values, keep_drawn, to_json},
    finding::{finding, ms, ranges},
    linked::{Decision, Group, Linked},
    simulation::{
        SimulationPage,
        media::target,
        plots::{capacities, chart, window, with_lines},
    },
};
use crate::{
    record::{DecisionRecord, FlowRecord, LinkRecord, RunRecord},
    run::comparison::{Comparison, Parity, Run},
    view::{
        comparison::{
            PARITY_TITLE, Row, bottleneck, doubts, grid, has_several_flows, parity_caption, parity_columns,
            rows, subjects,
        },
        decision::{cause_in_words, change_in_words},
        format::{percent, plural},
    },
};

/// Flows that are drawn: with all controllers in each chart, and once more under each controller.
pub(super) const MAX_FLOWS: usize = 3;

/// With more runs, the cursor stands at every second window or at fewer, so that a page stays below 1.5 MB.
const MAX_RUNS_IN_FULL: usize = 3;

/// A quantity over time: a chart with a line for each controller.
struct Quantity {
    title: &'static str,
    /// `{window}` stands for the width of a window, `{link}` for the slowest link of the flow's path.
    caption: &'static str,
    /// The quantity of the values and their unit.
    axis: (&'static str, &'static str),
    /// The column in the timeline of the flow, or of its slowest link.
    column: &'static str,
    gaps: Gaps,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Of a flow.
    Flow,
    /// Of a flow; drawn with the capacity of its slowest link.
    Rate,
    /// Of a link. Flows that share a link share the chart.
    Link,
}

/// The index of the chart whose maximum the cursor shows first.
const QUEUE: usize = 2;

const QUANTITIES: [Quantity; 5] = [
    Quantity {
        title: "Target rate",
        caption: "The mean in each {window}, all headers included.",
        axis: ("target", "bit/s"),
        column: "media/target_rate_bps",
        gaps: Gaps::Break,
        kind: Kind::Rate,
    },
    Quantity {
        title: "Received rate",
        caption: "A moving mean, all headers included.",
        axis: ("received", "bit/s"),
        column: "received_rate_bps",
        gaps: Gaps::Break,
        kind: Kind::Rate,
    },
    Quantity {
        title: "Queueing delay",
        caption: "The maximum of all packets transmitted by {link} in each {window}.",
        axis: ("queueing delay", "ms"),
        column: "queue_delay_max_ms",
        gaps: Gaps::Zero,
        kind: Kind::Link,
    },
    Quantity {
        title: "Loss",
        caption: "Dropped packets over dropped and received packets, as a moving mean.",
        axis: ("loss", "ratio"),
        column: "loss_ratio",
        gaps: Gaps::Break,
        kind: Kind::Flow,
    },
    Quantity {
        title: "Frame delay",
        caption: "From the capture of a frame until it arrived complete: the maximum in each {window}. The line bridges times without a complete frame.",
        axis: ("frame delay", "ms"),
        column: "media/frame_delay_max_ms",
        gaps: Gaps::Bridge,
        kind: Kind::Flow,
    },
];

/// The page of a comparison; `command` makes it again.
pub fn comparison(comparison: &Comparison, command: impl Into<String>) -> Report {
    let Comparison { scenario, seed, .. } = comparison;
    let rows = rows(comparison);
    let title = format!("giusto compare: {scenario}, seed {seed}");
    let mut report = Report::new(title, headline(comparison, &rows)).with_command(command);
    let about = comparison.runs.first().map(|run| run.result.description.clone()).unwrap_or_default();
    if !about.is_empty() {
        report.push(Prose::new("Scenario", vec![Block::Paragraph(about)]));
    }
    report.push(table(comparison, &rows));
    if !comparison.parity.is_empty() {
        report.push(parity_table(comparison));
    }
    let mut record = to_json(comparison);
    let flows: Vec<&FlowRecord> =
        comparison.runs.first().into_iter().flat_map(subjects).take(MAX_FLOWS).collect();
    if let Some(linked) = linked(comparison, &flows, &record) {
        report.push(linked);
    }
    report.push(how_measured(comparison, flows.len()));
    keep_drawn(&mut record, &report.sections);
    report.with_record(record)
}

/// What another page shows of a comparison: a table of simulation and real time, and the charts with all runs. They take their data
/// from the record.
pub(super) fn in_short(comparison: &Comparison) -> (Vec<Section>, Value) {
    let mut record = to_json(comparison);
    let flows: Vec<&FlowRecord> = comparison.runs.first().into_iter().flat_map(subjects).take(1).collect();
    let charts = linked(comparison, &flows, &record).map(|linked| {
        let charts = linked.charts.into_iter().take(QUANTITIES.len()).collect();
        Section::from(Linked { charts, ..linked })
    });
    let sections: Vec<Section> = std::iter::once(parity_table(comparison).into()).chain(charts).collect();
    keep_drawn(&mut record, &sections);
    (sections, record)
}

/// The simulation and the run in real time of each controller.
fn parity_table(comparison: &Comparison) -> Table {
    let doubts = doubts(comparison).map(|doubt| format!("The figures cannot be trusted: {doubt}."));
    let caption: Vec<String> = std::iter::once(parity_caption()).chain(doubts).collect();
    Table::of(PARITY_TITLE, caption.join(" "), &parity_columns(), &comparison.parity)
}

/// `Simulation and real time agree for 2 of 3 controllers: received rates differ by at most 1.2 %, queueing delays (p95) by at most
/// 4.0 ms.` Before it, how many of the runs in real time cannot be trusted.
pub(super) fn parity_finding(parity: &[Parity]) -> Option<String> {
    let most =
        |of: fn(&Parity) -> Option<f64>| parity.iter().filter_map(of).map(f64::abs).max_by(f64::total_cmp);
    let rate = most(|row| row.received_rate_difference_ratio)?;
    let queue = most(|row| row.queue_delay_p95_difference_ms)
        .map_or_else(String::new, |queue| format!(", queueing delays (p95) by at most {}", ms(queue)));
    let judged = parity.iter().filter(|row| row.within_tolerance.is_some()).count() as u64;
    let within = parity.iter().filter(|row| row.within_tolerance == Some(true)).count();
    let doubtful = parity.iter().filter(|row| !row.doubts.is_empty()).count() as u64;
    let doubtful = match doubtful {
        0 => String::new(),
        count => format!(
            "The figures of {} cannot be trusted. ",
            plural(count, "run in real time", "runs in real time")
        ),
    };
    Some(format!(
        "{doubtful}Simulation and real time agree for {within} of {}: received rates differ by at most {}{queue}.",
        plural(judged, "controller", "controllers"),
        percent(rate),
    ))
}

/// The finding: the ranges of rates and delays, or what the only run found.
pub(super) fn headline(comparison: &Comparison, rows: &[Row]) -> String {
    let early = if comparison.interrupted { "Interrupted. " } else { "" };
    if let Some(found) = parity_finding(&comparison.parity) {
        return format!("{early}{found}");
    }
    let found = match (comparison.runs.as_slice(), rows) {
        ([run], _) => finding(&run.result),
        (_, []) => "No controllers were compared.".to_owned(),
        _ => {
            let several = has_several_flows(comparison);
            let name = |row: &Row| {
                if several { format!("{}, {}", row.controller, row.flow.id) } else { row.controller.clone() }
            };
            let rates: Vec<_> = rows.iter().map(|row| (name(row), row.flow.received_rate_bps)).collect();
            let waits = rows.iter().filter_map(|row| Some((name(row), row.flow.queue_delay_ms?.p95)));
            ranges(&rates, &waits.collect::<Vec<_>>())
        }
    };
    format!("{early}{found}")
}

fn table(comparison: &Comparison, rows: &[Row]) -> Table {
    let first = comparison.runs.first();
    let bottlenecks = first
        .into_iter()
        .flat_map(|run| subjects(run).filter_map(|flow| Some(bottleneck(&run.result, flow)?.id.as_str())));
    let links: Vec<&str> = bottlenecks.collect();
    let link = match links.split_first() {
        Some((first, rest)) if rest.iter().all(|link| link == first) => {
            format!("Utilisation is that of {first}, by all flows. ")
        }
        Some(_) => "Utilisation is that of the slowest link of the flow's path, by all flows. ".to_owned(),
        None => String::new(),
    };
    let caption = format!(
        "{link}Rates count all headers. Frame delay is the time from the capture of a frame until it arrived complete."
    );
    let caption = std::iter::once(&caption).chain(&comparison.notes).map(String::as_str).collect::<Vec<_>>();
    Table::of_grid("Controllers", caption.join(" "), grid(comparison, rows))
}

/// One run, and the place of a flow in its timeline.
type FlowInRun<'a> = (SimulationPage<'a>, Option<usize>);

/// Whether the links of two runs have the same ends, rates, delays and queues.
pub(super) fn same_network(a: &RunRecord, b: &RunRecord) -> bool {
    let links = |record: &RunRecord| -> Vec<[String; 6]> {
        let links = record.links.iter();
        let parts = |link: &LinkRecord| {
            [&link.id, &link.from, &link.to, &link.rate, &link.wire, &link.queue].map(String::clone)
        };
        links.map(parts).collect()
    };
    links(a) == links(b)
}

/// All charts, and the values at the cursor; `None` without flows.
pub(super) fn linked(comparison: &Comparison, flows: &[&FlowRecord], record: &Value) -> Option<Linked> {
    // A run that was ended early has fewer windows, one of another scenario may have others.
    let times = comparison.runs.iter().enumerate();
    let times = times.filter_map(|(number, run)| Some((number, &run.result.timeline.as_ref()?.t_s)));
    let end = |times: &[f64]| times.last().copied().unwrap_or(0.0);
    let (longest, times) = times.max_by(|(_, a), (_, b)| end(a).total_cmp(&end(b)))?;
    let step = comparison.runs.len().div_ceil(MAX_RUNS_IN_FULL);
    let positions: Vec<f64> = times.iter().copied().step_by(step).collect();
    let lines: Vec<String> = comparison.runs.iter().map(Run::label).collect();
    let in_runs = |flow: &&FlowRecord| -> Vec<FlowInRun<'_>> {
        let runs = comparison.runs.iter().enumerate();
        let pages = runs.map(|(number, run)| SimulationPage::new(&run.result, format!("/runs/{number}")));
        let place = |page: &SimulationPage<'_>| page.timeline.flows.iter().position(|own| own.id == flow.id);
        pages.map(|page| (page.clone(), place(&page))).collect()
    };
    let mut charts: Vec<Chart> = Vec::new();
    let (mut own_charts, mut groups) = (Vec::new(), Vec::new());
    for flow in flows {
        let runs = in_runs(flow);
        let several = (flows.len() > 1).then_some(flow.id.as_str());
        let of_flow =
            QUANTITIES.iter().filter_map(|quantity| quantity.chart(flow, &runs, &lines, several, record));
        let indices = of_flow.map(|chart| {
            // Flows that share a link share its queue.
            charts.iter().position(|known| *known == chart).unwrap_or_else(|| {
                charts.push(chart);
                charts.len() - 1
            })
        });
        let indices = indices.collect();
        let decisions = runs.iter().map(|(page, place)| {
            let media = place.and_then(|place| page.timeline.flows.get(place)?.media.as_ref());
            media.map_or_else(Vec::new, |media| shown(&media.decisions, &positions))
        });
        groups.push(Group { name: flow.id.clone(), charts: indices, decisions: decisions.collect() });
        own_charts.push(runs.iter().map(|(page, place)| target(page, (*place)?, 1)).collect::<Vec<_>>());
    }
    for (number, controller) in lines.iter().enumerate() {
        for (flow, own) in flows.iter().zip(&own_charts) {
            let Some(mut chart) = own.get(number).cloned().flatten() else { continue };
            let name =
                if flows.len() > 1 { format!("{controller}, {}", flow.id) } else { controller.clone() };
            chart.title = format!("{name}: target and rates");
            charts.extend(has_values(record, &chart).then_some(chart));
        }
    }
    let x = format!("/runs/{longest}/timeline/t_s");
    (!groups.is_empty()).then_some(Linked {
        charts,
        x,
        step,
        start_at: QUEUE,
        lines,
        groups,
        of: "controller",
    })
}

impl Quantity {
    /// A line for each of `runs`, which `lines` name; the title names the flow if there are `several`.
    fn chart(
        &self,
        flow: &FlowRecord,
        runs: &[FlowInRun<'_>],
        lines: &[String],
        several: Option<&str>,
        record: &Value,
    ) -> Option<Chart> {
        let (first, _) = runs.first()?;
        let link = bottleneck(first.record, flow);
        let mut caption = match link {
            None if self.kind == Kind::Link => "No link of the path has a limited rate.".to_owned(),
            _ => self.caption.replace("{window}", &window(first).to_string()),
        };
        if let Some(link) = link {
            caption = caption.replace("{link}", &link.id);
        }
        let limits = if self.kind == Kind::Rate { limits(flow, runs, lines, record) } else { Vec::new() };
        if !limits.is_empty() {
            caption.push_str(" A dashed line is the capacity of a link.");
        }
        let title = match several {
            Some(flow) if self.kind != Kind::Link => format!("{flow}: {}", self.title.to_lowercase()),
            _ => self.title.to_owned(),
        };
        let series = lines.iter().zip(runs).map(|(line, (page, place))| {
            let points = match (self.kind, place) {
                (Kind::Link, place) => {
                    // Another network has its own slowest link.
                    let id = place.and_then(|place| page.timeline.flows.get(place)).map(|own| &own.id);
                    let own = page.record.flows.iter().find(|own| Some(&own.id) == id);
                    let link = own.and_then(|own| bottleneck(page.record, own)).or(link);
                    link.and_then(|link| page.link_column(&link.id, self.column))
                }
                (_, place) => {
                    place.map(|place| page.column(&format!("timeline/flows/{place}/{}", self.column)))
                }
            };
            let is_known =
                |points: &Points| matches!(points, Points::InRecord { y, .. } if record.pointer(y).is_some());
            let points = points.filter(is_known).unwrap_or_else(|| Vec::new().into());
            Series::line(line.clone(), points.with_gaps(self.gaps))
        });
        Some(with_lines(chart(first, title, caption, self.axis.0, self.axis.1), series.chain(limits)))
    }
}

/// The capacities that bound `flow` in each of the runs; one that is the same in several runs is drawn once.
fn limits(flow: &FlowRecord, runs: &[FlowInRun<'_>], lines: &[String], record: &Value) -> Vec<Series> {
    let mut drawn: Vec<(String, &[Value], Series)> = Vec::new();
    for ((page, _), line) in runs.iter().zip(lines) {
        let own = page.record.flows.iter().find(|own| own.id == flow.id);
        for limit in own.into_iter().flat_map(|own| capacities(page, own)) {
            let Series::Limit { name, points } = limit else { continue };
            let Points::InRecord { y, .. } = &points else { continue };
            let column = record.pointer(y).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            // A run that was ended early has fewer windows.
            let is_same = |(known, values, _): &(String, &[Value], Series)| {
                *known == name && values.iter().zip(column).all(|(a, b)| a == b)
            };
            if drawn.iter().any(is_same) {
                continue;
            }
            let is_first = drawn.iter().all(|(known, ..)| *known != name);
            let title = if is_first { name.clone() } else { format!("{name}, {line}") };
            drawn.push((name, column, Series::limit(title, points)));
        }
    }
    drawn.into_iter().map(|(.., limit)| limit).collect()
}

/// In words, the decisions that hold at the `positions` of the cursor, and the last decrease before each.
pub(super) fn shown(decisions: &[DecisionRecord], positions: &[f64]) -> Vec<Decision> {
    let lowers = |decision: &DecisionRecord| decision.to_bps < decision.from_bps;
    let mut shown = BTreeSet::new();
    for at_s in positions {
        let past = decisions.partition_point(|decision| decision.at_s <= *at_s);
        let past = decisions.get(..past).unwrap_or_default();
        shown.extend(past.len().checked_sub(1).into_iter().chain(past.iter().rposition(lowers)));
    }
    let in_words = |decision: &DecisionRecord| Decision {
        // Rounded down, so that it holds at each position at which it held.
        x: (decision.at_s * 1e4).floor() / 1e4,
        text: format!("{}, {}", change_in_words(decision), cause_in_words(&decision.cause)),
        lower: lowers(decision),
    };
    shown.into_iter().filter_map(|place| decisions.get(place)).map(in_words).collect()
}

fn how_measured(comparison: &Comparison, drawn: usize) -> Prose {
    let terms = [
        (
            "Cursor",
            "Point at a chart or move the slider: the table above the charts shows the values at that time. The decision in force is the last one before it; the last decrease stands below it. A click on a name in the table hides its lines.",
        ),
        (
            "Queueing delay",
            "The table has that of this flow's packets in all queues of its path, the chart that of all packets at the slowest link.",
        ),
        (
            "Met",
            "Number of the scenario's expectations that were met. They were written for the controller that the scenario names.",
        ),
        (
            "Limits",
            "This is one seed. `giusto sweep` with `--set FLOW.controller=A,B` gives means over many seeds, with confidence intervals.",
        ),
    ];
    let mut words = format!(
        "All runs have seed {}. They differ in the controller and in the feedback that it needs.",
        comparison.seed
    );
    let all = comparison.runs.first().map_or(0, |run| subjects(run).count());
    if all > drawn {
        let _ = write!(words, " Of {all} flows the first {drawn} are drawn.");
    }
    Prose::definitions("How to read this page", &terms, words)
}

#[cfg(test)]
mod tests;
