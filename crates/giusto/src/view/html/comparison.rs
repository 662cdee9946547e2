//! The page of a comparison: controllers side by side over one time.

mod drawn;
mod told;

use std::fmt::Write;

use drawn::Drawn;

use super::{
    Block, Cell, Chart, Column, Prose, Report, Table,
    format::{plural, short},
    linked::{Group, Linked, ValueColumn},
    simulation::{SimulationPage, media::target, plots::scaled},
};
use crate::record::{FlowRecord, FlowTimeline};
use crate::run::comparison::{Comparison, Run};
use crate::view::comparison::{Row, bottleneck, columns, has_several_flows, rows, subjects};

/// Flows that are drawn: with all controllers in each plot, and once more under each controller.
const MOST_FLOWS: usize = 3;

/// The plot that belongs to a link, not to a flow.
const QUEUE: &str = "Queueing delay";

/// The page of a comparison; `command` makes it again.
pub fn comparison(comparison: &Comparison, command: impl Into<String>) -> Report {
    let Comparison { scenario, seed, .. } = comparison;
    let rows = rows(comparison);
    let title = format!("giusto compare: {scenario}, seed {seed}");
    let mut report = Report::new(title, verdict(comparison, &rows)).with_command(command);
    let about = comparison.runs.first().map(|run| run.result.description.clone()).unwrap_or_default();
    if !about.is_empty() {
        report.push(Prose::new("The scenario", vec![Block::Paragraph(about)]));
    }
    report.push(table(comparison, &rows));
    let flows = flows(comparison);
    if let Some(linked) = linked(comparison, &flows) {
        report.push(linked);
    }
    report.push(how_measured(comparison, flows.len()));
    report
}

/// What came out, in one plain sentence.
fn verdict(comparison: &Comparison, rows: &[Row]) -> String {
    let controllers = plural(comparison.runs.len() as u64, "controller", "controllers");
    let early = if comparison.interrupted { "Ended early. " } else { "" };
    let span = |values: &[f64]| -> Option<String> {
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        Some(format!("{} to {}", short(low), short(high)))
    };
    let received: Vec<f64> = rows.iter().map(|row| row.received_rate_bps / 1e6).collect();
    let waited: Vec<f64> = rows.iter().filter_map(|row| Some(row.queue_delay_ms?.p95)).collect();
    match (span(&received), span(&waited)) {
        (Some(received), Some(waited)) => format!(
            "{early}{controllers}, one network: {received} Mbit/s arrived, and 95 % of the packets waited at most {waited} ms."
        ),
        (Some(received), None) => format!("{early}{controllers}, one network: {received} Mbit/s arrived."),
        _ => format!("{early}{controllers}, and nothing to compare."),
    }
}

fn table(comparison: &Comparison, rows: &[Row]) -> Table {
    use comfy_table::CellAlignment::Right;
    let columns = columns(has_several_flows(comparison));
    let heads = columns.iter().map(|column| {
        let name = column.header.replace('\n', " ");
        if column.alignment == Right { Column::number(name) } else { Column::words(name) }
    });
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
    let mut caption = format!(
        "{link}Rates count all headers. Frame delay is the time from the capture of a frame until it is complete. Feedback is its kind and its rate."
    );
    for note in &comparison.notes {
        caption.push(' ');
        caption.push_str(note);
    }
    Table {
        title: "Side by side".to_owned(),
        caption,
        columns: heads.collect(),
        rows: rows
            .iter()
            .map(|row| columns.iter().map(|column| Cell::from((column.cell)(row))).collect())
            .collect(),
        folded: false,
    }
}

/// The flows that are drawn.
fn flows(comparison: &Comparison) -> Vec<&FlowRecord> {
    comparison.runs.first().into_iter().flat_map(subjects).take(MOST_FLOWS).collect()
}

/// A run over time, and the flow in it.
fn over_time<'a>(run: &'a Run, flow: &FlowRecord) -> (SimulationPage<'a>, Option<&'a FlowTimeline>) {
    let page = SimulationPage::new(&run.result);
    (page, page.timeline.flows.iter().find(|own| own.id == flow.id))
}

/// All plots, and what the cursor tells.
fn linked(comparison: &Comparison, flows: &[&FlowRecord]) -> Option<Linked> {
    // A run that was ended early has fewer windows.
    let middles = comparison.runs.iter().map(|run| &SimulationPage::new(&run.result).timeline.t_s);
    let places: Vec<f64> = middles.max_by_key(|middles| middles.len())?.clone();
    let drawn: Vec<Drawn> = flows.iter().map(|&flow| Drawn::new(comparison, flow)).collect();
    let start = start(&drawn);
    let mut charts: Vec<Chart> = Vec::new();
    for (place, flow) in drawn.iter().enumerate() {
        let of_flow = flow.charts(comparison, drawn.len() > 1);
        // Flows that share a link share its queue.
        let again = drawn.iter().take(place).any(|earlier| earlier.link == flow.link);
        charts.extend(of_flow.into_iter().filter(|chart| !(again && chart.title == QUEUE)));
    }
    let mut charts: Vec<Chart> = charts.into_iter().map(|chart| chart.keyed_elsewhere()).collect();
    for run in &comparison.runs {
        for flow in flows {
            let (page, own) = over_time(run, flow);
            let media = own.and_then(|own| Some((own, own.media.as_ref()?)));
            let own = media.and_then(|media| target(&page, media, 1));
            charts.extend(own.map(|mut chart| {
                chart.title = match flows {
                    [_] => format!("{}: target and rates", run.controller),
                    _ => format!("{}, {}: target and rates", run.controller, flow.id),
                };
                chart
            }));
        }
    }
    let (unit, name) = scaled(drawn.iter().map(|flow| flow.most_bps).fold(0.0, f64::max));
    let column = |name: &str, decimals| ValueColumn { name: name.to_owned(), decimals };
    let group =
        |flow: &Drawn| Group { name: flow.flow.id.clone(), lines: flow.told(comparison, &places, unit) };
    let groups = drawn.iter().map(group).collect();
    (!drawn.is_empty()).then(|| Linked {
        charts,
        start,
        line_header: "controller".to_owned(),
        lines: comparison.runs.iter().map(|run| run.controller.clone()).collect(),
        columns: vec![
            column(&format!("target ({name})"), 3),
            column(&format!("received ({name})"), 3),
            column("queue (ms)", 1),
            column("loss (%)", 1),
            column("frame (ms)", 0),
        ],
        text_header: "decision in force".to_owned(),
        groups,
        positions: places,
    })
}

/// Where the cursor begins: where the queue is longest under any controller.
fn start(drawn: &[Drawn]) -> usize {
    let longest = drawn.iter().flat_map(|flow| &flow.runs).flat_map(|run| run.queue_ms.iter().enumerate());
    let longest = longest.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    longest.map_or(0, |(place, _)| place)
}

fn how_measured(comparison: &Comparison, drawn: usize) -> Prose {
    let seed = &comparison.seed;
    let all = comparison.runs.first().map_or(0, |run| subjects(run).count());
    let terms = [
        (
            "The cursor",
            "Point at a plot, or move the slider: the table above the plots tells what holds then. The decision in force is the last one until that moment; where it is no cut, the last cut stands below it. A name in the table hides its lines.",
        ),
        (
            "Queueing delay",
            "In the table, of the packets of this flow, in all queues of its path. In the plot, of all packets, in the queue of the slowest link.",
        ),
        (
            "Met",
            "How many of the scenario's expectations hold. They were written for one controller: the others owe them nothing.",
        ),
        (
            "What it does not show",
            "This is one seed. `giusto sweep` with `--set FLOW.controller=A,B` gives means over many, with confidence intervals.",
        ),
    ];
    let terms = terms.map(|(term, meaning)| (term.to_owned(), meaning.to_owned())).to_vec();
    let mut blocks = vec![Block::Definitions(terms)];
    let mut words = format!(
        "All runs have seed {seed}; but for the controller, and the feedback that it wants, they are the same."
    );
    if all > drawn {
        let _ = write!(words, " Of {all} flows the first {drawn} are drawn.");
    }
    blocks.push(Block::Paragraph(words));
    Prose::new("How to read this", blocks)
}

#[cfg(test)]
mod tests;
