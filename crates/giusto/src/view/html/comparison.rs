//! The page of a comparison: controllers side by side over one time.

mod drawn;
mod told;

use std::fmt::Write;

use drawn::Drawn;

use super::{
    Block, Cell, Chart, Column, Prose, Report, SimulationPage, Table,
    format::{plural, short},
    linked::{Group, Linked, ValueColumn},
    simulation::{
        PageFlow,
        media::target,
        plots::{middle, scaled},
    },
};
use crate::run::comparison::{Comparison, Losses, Row, columns};

/// What the page of a comparison is made from.
#[derive(Debug, Clone)]
pub struct ComparisonPage<'a> {
    /// The figures.
    pub comparison: &'a Comparison,
    /// How they came about: each run of the comparison.
    pub runs: Vec<ComparedRun<'a>>,
    /// The command line that makes the page again.
    pub command: String,
}

/// One of the runs on the page.
#[derive(Debug, Clone)]
pub struct ComparedRun<'a> {
    /// The controller.
    pub controller: &'a str,
    /// What its own page would be made from.
    pub page: SimulationPage<'a>,
    /// What was dropped, in the windows of the page's timeline.
    pub losses: &'a Losses,
}

/// Flows that are drawn: with all controllers in each plot, and once more under each controller.
const MOST_FLOWS: usize = 3;

/// The plot that belongs to a link, not to a flow.
const QUEUE: &str = "Time in queue";

/// The page of a comparison.
pub fn comparison(page: &ComparisonPage<'_>) -> Report {
    let Comparison { scenario, seed, .. } = page.comparison;
    let rows = page.comparison.rows();
    let title = format!("giusto compare: {scenario}, seed {seed}");
    let mut report = Report::new(title, verdict(page.comparison, &rows)).with_command(&page.command);
    if let Some(description) = page.runs.first().map(|run| run.page.description.clone())
        && !description.is_empty()
    {
        report.push(Prose::new("The scenario", vec![Block::Paragraph(description)]));
    }
    report.push(table(page.comparison, &rows));
    let flows = flows(page);
    if let Some(linked) = linked(page, &flows) {
        report.push(linked);
    }
    report.push(how_measured(page, flows.len()));
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
    let received: Vec<f64> = rows.iter().map(|row| row.received_bps / 1e6).collect();
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
    let columns = columns(comparison.subjects.len() > 1);
    let heads = columns.iter().map(|column| {
        let name = column.header.replace('\n', " ");
        if column.alignment == Right { Column::number(name) } else { Column::words(name) }
    });
    let links: Vec<&str> =
        comparison.subjects.iter().filter_map(|subject| subject.bottleneck.as_deref()).collect();
    let link = match links.split_first() {
        Some((first, rest)) if rest.iter().all(|link| link == first) => {
            format!("Used: of {first}, by all flows. ")
        }
        Some(_) => "Used: of the slowest link of the flow's way, by all flows. ".to_owned(),
        None => String::new(),
    };
    let mut caption = format!(
        "{link}Rates count all headers. A frame's delay counts from its capture until it was whole. Feedback is what the receiver reports, and how much it sends back."
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
fn flows<'a>(page: &'a ComparisonPage<'_>) -> Vec<&'a PageFlow> {
    let Some(first) = page.runs.first() else { return Vec::new() };
    let subjects = page.comparison.subjects.iter().take(MOST_FLOWS);
    subjects.filter_map(|subject| first.page.flows.iter().find(|flow| flow.name == subject.name)).collect()
}

/// All plots, and what the cursor tells.
fn linked(page: &ComparisonPage<'_>, flows: &[&PageFlow]) -> Option<Linked> {
    let timeline = page.runs.first()?.page.timeline;
    let drawn: Vec<Drawn> = flows.iter().map(|&flow| Drawn::new(page, flow)).collect();
    let start = start(&drawn);
    let mut charts: Vec<Chart> = Vec::new();
    for (place, flow) in drawn.iter().enumerate() {
        let of_flow = flow.charts(page, drawn.len() > 1);
        // Flows that share a link share its queue.
        let again = drawn.iter().take(place).any(|earlier| earlier.link == flow.link);
        charts.extend(of_flow.into_iter().filter(|chart| !(again && chart.title == QUEUE)));
    }
    let mut charts: Vec<Chart> = charts.into_iter().map(Chart::keyed_elsewhere).collect();
    for run in &page.runs {
        for flow in flows {
            let media = run.page.timeline.media(flow.id);
            let own = media.and_then(|media| target(&run.page, (flow, media), 1));
            charts.extend(own.map(|mut chart| {
                chart.title = match flows {
                    [_] => format!("{}: target and rates", run.controller),
                    _ => format!("{}, {}: target and rates", run.controller, flow.name),
                };
                chart
            }));
        }
    }
    let (unit, name) = scaled(drawn.iter().map(|flow| flow.most_bps).fold(0.0, f64::max));
    let column = |name: &str, decimals| ValueColumn { name: name.to_owned(), decimals };
    let group = |flow: &Drawn| Group { name: flow.name.clone(), lines: flow.told(page, unit) };
    (!drawn.is_empty()).then(|| Linked {
        charts,
        positions: (0..timeline.len()).map(|place| middle(timeline, place)).collect(),
        start,
        line_header: "controller".to_owned(),
        lines: page.runs.iter().map(|run| run.controller.to_owned()).collect(),
        columns: vec![
            column(&format!("target ({name})"), 3),
            column(&format!("received ({name})"), 3),
            column("queue (ms)", 1),
            column("loss (%)", 1),
            column("frame (ms)", 0),
        ],
        text_header: "decision in force".to_owned(),
        groups: drawn.iter().map(group).collect(),
    })
}

/// Where the cursor begins: where the queue is longest under any controller.
fn start(drawn: &[Drawn]) -> usize {
    let longest = drawn.iter().flat_map(|flow| &flow.runs).flat_map(|run| run.queue_ms.iter().enumerate());
    let longest = longest.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    longest.map_or(0, |(place, _)| place)
}

fn how_measured(page: &ComparisonPage<'_>, drawn: usize) -> Prose {
    let Comparison { seed, subjects, .. } = page.comparison;
    let terms = [
        (
            "The cursor",
            "Point at a plot, or move the slider: the table above the plots tells what holds then. The decision in force is the last one until that moment; where it is no cut, the last cut stands below it. A name in the table hides its lines.",
        ),
        (
            "Time in queues",
            "In the table, of the packets of this flow, in all queues of its way. In the plot, of all packets, in the queue of the slowest link.",
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
    if subjects.len() > drawn {
        let _ = write!(words, " Of {} flows the first {drawn} are drawn.", subjects.len());
    }
    blocks.push(Block::Paragraph(words));
    Prose::new("How to read this", blocks)
}

#[cfg(test)]
mod tests;
