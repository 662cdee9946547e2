//! The page of a comparison: one scenario under several controllers.

mod drawn;

use std::fmt::Write;

use drawn::Drawn;

use super::{
    Block, Chart, Prose, Report, Table,
    finding::{finding, ranges},
    linked::{Group, Linked, ValueColumn},
    simulation::{
        SimulationPage,
        media::target,
        plots::{largest, scaled},
    },
};
use crate::record::FlowRecord;
use crate::run::comparison::Comparison;
use crate::view::comparison::{Row, bottleneck, columns, has_several_flows, rows, subjects};

/// Flows that are drawn: with all controllers in each plot, and once more under each controller.
const MOST_FLOWS: usize = 3;

/// The chart that belongs to a link, not to a flow.
const QUEUE: &str = "Queueing delay";

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
    let flows = flows(comparison);
    if let Some(linked) = linked(comparison, &flows) {
        report.push(linked);
    }
    report.push(how_measured(comparison, flows.len()));
    report.with_drawn_record(comparison)
}

/// The finding: the ranges of rates and delays, or what the only run found.
fn headline(comparison: &Comparison, rows: &[Row]) -> String {
    let early = if comparison.interrupted { "Interrupted. " } else { "" };
    let found = match (comparison.runs.as_slice(), rows) {
        ([run], _) => finding(&run.result),
        (_, []) => "No controllers were compared.".to_owned(),
        _ => {
            let several = has_several_flows(comparison);
            let name = |row: &Row| {
                if several { format!("{}, {}", row.controller, row.flow) } else { row.controller.clone() }
            };
            let rates: Vec<_> = rows.iter().map(|row| (name(row), row.received_rate_bps)).collect();
            let waits = rows.iter().filter_map(|row| Some((name(row), row.queue_delay_ms?.p95)));
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
    Table::of("Controllers", caption.join(" "), &columns(has_several_flows(comparison)), rows)
}

/// The flows that are drawn.
fn flows(comparison: &Comparison) -> Vec<&FlowRecord> {
    comparison.runs.first().into_iter().flat_map(subjects).take(MOST_FLOWS).collect()
}

/// Run number `run`, and the place of the flow `id` in its timeline.
fn over_time<'a>(
    comparison: &'a Comparison,
    run: usize,
    id: &str,
) -> Option<(SimulationPage<'a>, Option<usize>)> {
    let page = SimulationPage::new(&comparison.runs.get(run)?.result, &format!("/runs/{run}"));
    let place = page.timeline.flows.iter().position(|own| own.id == id);
    Some((page, place))
}

/// Of more runs, the cursor stands at every second window or at fewer, so that a page stays below 1.5 MB.
const MOST_RUNS_IN_FULL: usize = 6;

/// All charts, and the values at the cursor.
fn linked(comparison: &Comparison, flows: &[&FlowRecord]) -> Option<Linked> {
    // A run that was ended early has fewer windows.
    let middles = comparison.runs.iter().filter_map(|run| Some(&run.result.timeline.as_ref()?.t_s));
    let step = comparison.runs.len().div_ceil(MOST_RUNS_IN_FULL);
    let middles = middles.max_by_key(|middles| middles.len())?;
    let positions: Vec<f64> = middles.iter().copied().step_by(step).collect();
    let drawn: Vec<Drawn> = flows.iter().map(|&flow| Drawn::new(comparison, flow)).collect();
    let mut charts: Vec<Chart> = Vec::new();
    for (place, flow) in drawn.iter().enumerate() {
        let of_flow = flow.charts(comparison, drawn.len() > 1);
        // Flows that share a link share its queue.
        let again = drawn.iter().take(place).any(|earlier| earlier.link == flow.link);
        charts.extend(of_flow.into_iter().filter(|chart| !(again && chart.title == QUEUE)));
    }
    let mut charts: Vec<Chart> = charts.into_iter().map(Chart::keyed_elsewhere).collect();
    for (number, run) in comparison.runs.iter().enumerate() {
        for flow in flows {
            let own = over_time(comparison, number, &flow.id);
            let Some(mut chart) = own.and_then(|(page, place)| target(&page, place?, 1)) else { continue };
            chart.title = match flows {
                [_] => format!("{}: target and rates", run.controller),
                _ => format!("{}, {}: target and rates", run.controller, flow.id),
            };
            charts.push(chart);
        }
    }
    let (unit, name) = scaled(largest(drawn.iter().map(|flow| flow.most_bps)));
    let column = |name: &str, decimals| ValueColumn { name: name.to_owned(), decimals };
    let group =
        |flow: &Drawn| Group { name: flow.flow.id.clone(), lines: flow.values_at((&positions, step), unit) };
    let groups: Vec<Group> = drawn.iter().map(group).collect();
    (!groups.is_empty()).then(|| Linked {
        charts,
        start: start(&drawn) / step,
        line_header: "controller".to_owned(),
        lines: comparison.runs.iter().map(|run| run.controller.clone()).collect(),
        columns: vec![
            column(&format!("target ({name})"), 3),
            column(&format!("received ({name})"), 3),
            column("queueing delay (ms)", 1),
            column("loss (%)", 1),
            column("frame delay (ms)", 0),
        ],
        text_header: "decision in force".to_owned(),
        groups,
        positions,
    })
}

/// Where the cursor begins: at the longest queueing delay under any controller.
fn start(drawn: &[Drawn]) -> usize {
    let longest = drawn.iter().flat_map(|flow| &flow.runs).flat_map(|run| run.queue_ms.iter().enumerate());
    let longest = longest.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    longest.map_or(0, |(place, _)| place)
}

fn how_measured(comparison: &Comparison, drawn: usize) -> Prose {
    let terms = [
        (
            "Cursor",
            "Point at a chart or move the slider: the table above the charts shows the values at that time. The decision in force is the last one before it; the last decrease stands below it. A click on a name in the table hides its lines.",
        ),
        (
            "Queueing delay",
            "In the table: of the packets of this flow, over all queues of its path. In the chart: of all packets, at the slowest link.",
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
