//! The page of a comparison: controllers side by side over one time.

mod told;

use giusto_sim::observe::Timeline;

use super::{
    Block, Cell, Chart, Column, Prose, Report, Series, SimulationPage, Table,
    format::{percent, plural, short},
    linked::{Figures, Group, Linked},
    simulation::{
        PageFlow,
        media::{slowest, target},
        plots::{capacity, chart, middle, rate_points, scaled, windows_apart},
    },
};
use crate::comparison::{Comparison, Losses, Row, columns};

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

/// Rates and losses are over so many windows at least: lines that jump hide each other.
const LEAST_TOGETHER: usize = 3;

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
    let at = middle(timeline, start);
    let mut charts: Vec<Chart> = Vec::new();
    for (place, flow) in drawn.iter().enumerate() {
        let of_flow = flow.charts(page, drawn.len() > 1);
        // Flows that share a link share its queue.
        let again = drawn.iter().take(place).any(|earlier| earlier.link == flow.link);
        charts.extend(of_flow.into_iter().filter(|chart| !(again && chart.title == QUEUE)));
    }
    let mut charts: Vec<Chart> =
        charts.into_iter().map(|chart| chart.with_cursor(at).keyed_elsewhere()).collect();
    for run in &page.runs {
        for flow in flows {
            let media = run.page.timeline.media(flow.id);
            let own = media.and_then(|media| target(&run.page, (flow, media), 1));
            charts.extend(own.map(|mut chart| {
                chart.title = match flows {
                    [_] => format!("{}: target and rates", run.controller),
                    _ => format!("{}, {}: target and rates", run.controller, flow.name),
                };
                chart.with_cursor(at)
            }));
        }
    }
    let (unit, name) = scaled(drawn.iter().map(|flow| flow.most_bps).fold(0.0, f64::max));
    let figures = |name: &str, decimals| Figures { name: name.to_owned(), decimals };
    let group = |flow: &Drawn| Group { name: flow.name.clone(), lines: flow.told(page, unit) };
    (!drawn.is_empty()).then(|| Linked {
        charts,
        places: (0..timeline.len()).map(|place| middle(timeline, place)).collect(),
        start,
        lines_are: "controller".to_owned(),
        lines: page.runs.iter().map(|run| run.controller.to_owned()).collect(),
        columns: vec![
            figures(&format!("target ({name})"), 3),
            figures(&format!("received ({name})"), 3),
            figures("queue (ms)", 1),
            figures("loss (%)", 1),
            figures("frame (ms)", 0),
        ],
        says_are: "decision in force".to_owned(),
        groups: drawn.iter().map(group).collect(),
    })
}

/// Where the cursor begins: where the queue is longest under any controller.
fn start(drawn: &[Drawn]) -> usize {
    let longest = drawn.iter().flat_map(|flow| &flow.runs).flat_map(|run| run.queue_ms.iter().enumerate());
    let longest = longest.max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    longest.map_or(0, |(place, _)| place)
}

/// A line through points.
type Points = Vec<(f64, f64)>;

/// One flow under all controllers, over time.
struct Drawn {
    name: String,
    flow: PageFlow,
    /// The slowest link of its way.
    link: Option<String>,
    /// What that link carries, in bit/s.
    limit: Points,
    /// How many windows are taken together for a rate.
    together: usize,
    most_bps: f64,
    runs: Vec<DrawnRun>,
}

/// One flow under one controller, window by window. What is not known is no number.
struct DrawnRun {
    target_bps: Vec<f64>,
    queue_ms: Vec<f64>,
    frame_ms: Vec<f64>,
    /// Of as many windows as are taken together.
    received_bps: Points,
    loss_percent: Points,
}

impl Drawn {
    fn new(page: &ComparisonPage<'_>, flow: &PageFlow) -> Self {
        let together = page.runs.iter().map(|run| windows_apart(run.page.timeline, &[flow.id])).max();
        let together = together.unwrap_or(1).max(LEAST_TOGETHER);
        let bottleneck = page.runs.first().and_then(|run| {
            let link = slowest(&run.page, flow)?;
            Some((link.name.clone(), capacity(run.page.timeline, &link.rate)?))
        });
        let (link, limit) = bottleneck.unzip();
        let runs: Vec<DrawnRun> = page.runs.iter().map(|run| DrawnRun::new(run, flow, together)).collect();
        let limit: Points = limit.unwrap_or_default();
        let received = runs.iter().flat_map(|run| &run.received_bps).chain(&limit).map(|&(_, bps)| bps);
        let rates = received.chain(runs.iter().flat_map(|run| run.target_bps.iter().copied()));
        let most_bps = rates.filter(|bps| bps.is_finite()).fold(0.0, f64::max);
        Self { name: flow.name.clone(), flow: flow.clone(), link, limit, together, most_bps, runs }
    }

    /// A plot of each quantity with a line for each controller.
    fn charts(&self, page: &ComparisonPage<'_>, several: bool) -> Vec<Chart> {
        let Some(first) = page.runs.first() else { return Vec::new() };
        let timeline = first.page.timeline;
        let width = timeline.width();
        let (unit, unit_name) = scaled(self.most_bps);
        let rate_axis = format!("rate ({unit_name})");
        let joined =
            giusto_core::units::TimeDelta::from_nanos(width.as_nanos().saturating_mul(self.together as i64));
        let windows = |of: fn(&DrawnRun) -> &Vec<f64>, factor: f64| -> Vec<Points> {
            let points = |run| {
                let values = of(run).iter().enumerate();
                values.map(|(place, value)| (middle(timeline, place), value * factor)).collect()
            };
            self.runs.iter().map(points).collect()
        };
        let limit = |chart: Chart| match &self.link {
            Some(name) => chart.with_series(Series::Limit {
                name: format!("capacity of {name}"),
                points: self.limit.iter().map(|&(x, bps)| (x, bps / unit)).collect(),
            }),
            None => chart,
        };
        let received: Vec<Points> = self
            .runs
            .iter()
            .map(|run| run.received_bps.iter().map(|&(x, bps)| (x, bps / unit)).collect())
            .collect();
        let frames: Vec<Points> = windows(|run| &run.frame_ms, 1.0)
            .into_iter()
            .map(|points| points.into_iter().filter(|point| point.1.is_finite()).collect())
            .collect();
        let losses: Vec<Points> = self.runs.iter().map(|run| run.loss_percent.clone()).collect();
        let link = self.link.as_deref().unwrap_or("the links");
        let bound = self
            .link
            .as_ref()
            .map_or_else(String::new, |link| format!(" The dashed line is what {link} could carry."));
        let room = Some((0.0, self.most_bps / unit * 1.1));
        let parts = [
            (
                "Target rate",
                format!(
                    "What each controller wants to be sent: the mean within {width} each, all headers included.{bound}"
                ),
                rate_axis.as_str(),
                windows(|run| &run.target_bps, 1.0 / unit),
                room,
                true,
            ),
            (
                "Received rate",
                format!("What arrived, over {joined} each, all headers included.{bound}"),
                rate_axis.as_str(),
                received,
                room,
                true,
            ),
            (
                QUEUE,
                format!(
                    "The longest that a packet of any flow had waited that left the queue of {link}, within {width} each."
                ),
                "delay (ms)",
                windows(|run| &run.queue_ms, 1.0),
                None,
                false,
            ),
            (
                "Loss",
                format!("Of what arrived or was dropped within {joined} each, the share that was dropped."),
                "loss (%)",
                losses,
                None,
                false,
            ),
            (
                "Frame delay",
                format!(
                    "From capture until the frame was whole: the longest within {width} each. No line where no frame was whole."
                ),
                "delay (ms)",
                frames,
                None,
                false,
            ),
        ];
        let chart = |(title, caption, axis, lines, range, limited): (
            &str,
            String,
            &str,
            Vec<Points>,
            Option<(f64, f64)>,
            bool,
        )| {
            let title = if several && title != QUEUE {
                format!("{}: {}", self.name, title.to_lowercase())
            } else {
                title.to_owned()
            };
            let most =
                lines.iter().flatten().map(|point| point.1).filter(|y| y.is_finite()).fold(0.0, f64::max);
            let mut chart = chart(&first.page, &title, caption, axis);
            // Where nothing is lost the axis still says so.
            chart.y.range = range.or(Some((0.0, (most * 1.06).max(1.0))));
            for (run, points) in page.runs.iter().zip(lines) {
                chart = chart.with_series(Series::Line { name: run.controller.to_owned(), points });
            }
            if limited { limit(chart) } else { chart }
        };
        parts.into_iter().map(chart).collect()
    }
}

impl DrawnRun {
    fn new(run: &ComparedRun<'_>, flow: &PageFlow, together: usize) -> Self {
        let timeline = run.page.timeline;
        let ended = run.page.result.duration_s;
        let until =
            timeline.len().min((0..timeline.len()).filter(|&place| begins(timeline, place) < ended).count());
        let media = timeline.media(flow.id).map(|media| media.windows()).unwrap_or_default();
        let media = || media.iter().take(until);
        let link = slowest(&run.page, flow).map(|link| timeline.link(link.id)).unwrap_or_default();
        let windows = timeline.flow(flow.id);
        let sizes: Vec<u64> =
            windows.iter().take(until).map(|window| window.received.size.as_bytes()).collect();
        let dropped = run.losses.flow(flow.id);
        let fates: Vec<(u64, u64)> = windows
            .iter()
            .take(until)
            .enumerate()
            .map(|(place, window)| (dropped.get(place).copied().unwrap_or(0), window.received.packets))
            .collect();
        let received_bps = rate_points(timeline, &sizes, together);
        let losses = fates.chunks(together.max(1)).map(|fates| {
            let lost: u64 = fates.iter().map(|(lost, _)| lost).sum();
            let all: u64 = lost + fates.iter().map(|(_, arrived)| arrived).sum::<u64>();
            if all > 0 { lost as f64 / all as f64 * 100.0 } else { f64::NAN }
        });
        Self {
            target_bps: media().map(|window| window.target_mean_bps().unwrap_or(f64::NAN)).collect(),
            queue_ms: link.iter().take(until).map(|window| window.sojourn_max.as_millis()).collect(),
            frame_ms: media()
                .map(|window| window.frame_delay_max.map_or(f64::NAN, |delay| delay.as_millis()))
                .collect(),
            loss_percent: received_bps.iter().zip(losses).map(|(&(x, _), loss)| (x, loss)).collect(),
            received_bps,
        }
    }
}

fn begins(timeline: &Timeline, place: usize) -> f64 {
    timeline.window(place).start.as_seconds()
}

fn how_measured(page: &ComparisonPage<'_>, drawn: usize) -> Prose {
    let Comparison { seed, subjects, runs, .. } = page.comparison;
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
        words.push_str(&format!(" Of {} flows the first {drawn} are drawn.", subjects.len()));
    }
    let lossiest = runs.iter().flat_map(|run| run.result.links.iter());
    let dropped: u64 = lossiest.map(|link| link.dropped_packets).sum();
    let offered: u64 = runs.iter().flat_map(|run| &run.result.links).map(|link| link.offered_packets).sum();
    if offered > 0 {
        let share = percent(dropped as f64 / offered as f64);
        words.push_str(&format!(" Of all packets in all runs, {share} were dropped."));
    }
    blocks.push(Block::Paragraph(words));
    Prose::new("How to read this", blocks)
}

#[cfg(test)]
mod tests;
