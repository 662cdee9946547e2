//! One flow under all controllers: a plot of each quantity.

use super::{QUEUE, over_time};
use crate::{
    record::{FlowRecord, Timeline},
    run::comparison::{Comparison, Run},
    view::{
        comparison::bottleneck,
        html::{
            Chart, Series,
            simulation::{
                SimulationPage,
                plots::{capacity, chart, rate_points, scaled, width, windows_apart},
            },
        },
    },
};

/// Rates and losses are over so many windows at least: lines that jump hide each other.
const LEAST_TOGETHER: usize = 3;

/// A line through points.
type Points = Vec<(f64, f64)>;

/// One flow under all controllers, over time.
pub(super) struct Drawn {
    pub(super) flow: FlowRecord,
    /// The slowest link of its path.
    pub(super) link: Option<String>,
    /// The capacity of that link, in bit/s.
    limit: Points,
    /// How many windows are taken together for a rate.
    pub(super) together: usize,
    pub(super) most_bps: f64,
    pub(super) runs: Vec<DrawnRun>,
}

/// One flow under one controller, window by window. Unknown values are no numbers.
pub(super) struct DrawnRun {
    pub(super) target_bps: Vec<f64>,
    pub(super) queue_ms: Vec<f64>,
    pub(super) frame_ms: Vec<f64>,
    /// Of as many windows as are taken together.
    pub(super) received_bps: Points,
    pub(super) loss_percent: Points,
}

impl Drawn {
    pub(super) fn new(comparison: &Comparison, flow: &FlowRecord) -> Self {
        let apart = |run| {
            let (page, own) = over_time(run, flow);
            own.map(|own| windows_apart(page.timeline, &[own]))
        };
        let together = comparison.runs.iter().filter_map(apart).max();
        let together = together.unwrap_or(1).max(LEAST_TOGETHER);
        let slowest = comparison.runs.first().and_then(|run| {
            let link = bottleneck(&run.result, flow)?;
            Some((link.id.clone(), capacity(&SimulationPage::new(&run.result), &link.id)?))
        });
        let (link, limit) = slowest.unzip();
        let runs: Vec<DrawnRun> =
            comparison.runs.iter().map(|run| DrawnRun::new(run, flow, together)).collect();
        let limit: Points = limit.unwrap_or_default();
        let received = runs.iter().flat_map(|run| &run.received_bps).chain(&limit).map(|&(_, bps)| bps);
        let rates = received.chain(runs.iter().flat_map(|run| run.target_bps.iter().copied()));
        let most_bps = rates.filter(|bps| bps.is_finite()).fold(0.0, f64::max);
        Self { flow: flow.clone(), link, limit, together, most_bps, runs }
    }

    /// A plot of each quantity with a line for each controller.
    pub(super) fn charts(&self, comparison: &Comparison, several: bool) -> Vec<Chart> {
        let Some(first) = comparison.runs.first() else { return Vec::new() };
        let first = SimulationPage::new(&first.result);
        let chart = |quantity: Quantity| {
            let title = if several && quantity.title != QUEUE {
                format!("{}: {}", self.flow.id, quantity.title.to_lowercase())
            } else {
                quantity.title.to_owned()
            };
            let mut chart = chart(&first, &title, quantity.caption, &quantity.axis);
            chart.y.range = Some((0.0, quantity.most));
            for (run, points) in comparison.runs.iter().zip(quantity.lines) {
                chart = chart.with_series(Series::Line { name: run.controller.clone(), points });
            }
            match &self.link {
                Some(name) if !quantity.limit.is_empty() => chart.with_series(Series::Limit {
                    name: format!("capacity of {name}"),
                    points: quantity.limit,
                }),
                _ => chart,
            }
        };
        let timeline = first.timeline;
        self.rates(timeline).into_iter().chain(self.troubles(timeline)).map(chart).collect()
    }

    /// What is wanted and what arrives.
    fn rates(&self, timeline: &Timeline) -> [Quantity; 2] {
        let (unit, name) = scaled(self.most_bps);
        let bound = self
            .link
            .as_ref()
            .map_or_else(String::new, |link| format!(" The dashed line is what {link} could carry."));
        let in_unit =
            |points: &Points| -> Points { points.iter().map(|&(x, bps)| (x, bps / unit)).collect() };
        let quantity = |title, caption, lines: Vec<Points>| Quantity {
            title,
            caption,
            axis: format!("rate ({name})"),
            lines: lines.iter().map(in_unit).collect(),
            most: self.most_bps / unit * 1.1,
            limit: in_unit(&self.limit),
        };
        let (joined, width) = (width(timeline, self.together), width(timeline, 1));
        let wanted = format!(
            "What each controller wants to be sent: the mean within {width} each, all headers included.{bound}"
        );
        let arrived = format!("What arrived, over {joined} each, all headers included.{bound}");
        [
            quantity("Target rate", wanted, self.lines(timeline, |run| &run.target_bps)),
            quantity(
                "Received rate",
                arrived,
                self.runs.iter().map(|run| run.received_bps.clone()).collect(),
            ),
        ]
    }

    /// What that costs.
    fn troubles(&self, timeline: &Timeline) -> [Quantity; 3] {
        let quantity = |title, caption, axis: &str, lines: Vec<Points>| {
            let values = lines.iter().flatten().map(|point| point.1);
            let most = values.filter(|y| y.is_finite()).fold(0.0, f64::max);
            // Where nothing is lost the axis still says so.
            let (axis, limit) = (axis.to_owned(), Vec::new());
            Quantity { title, caption, axis, lines, most: (most * 1.06).max(1.0), limit }
        };
        let (joined, width) = (width(timeline, self.together), width(timeline, 1));
        let queue = match &self.link {
            Some(link) => format!(
                "The longest that a packet of any flow had waited that left the queue of {link}, within {width} each."
            ),
            None => "No link of the way has a rate that could be too small.".to_owned(),
        };
        let frame = format!(
            "From capture until the frame was whole: the longest within {width} each. Where no frame was whole the line goes on to the next."
        );
        let whole = |points: Points| points.into_iter().filter(|point| point.1.is_finite()).collect();
        [
            quantity(QUEUE, queue, "delay (ms)", self.lines(timeline, |run| &run.queue_ms)),
            quantity(
                "Loss",
                format!("Of what arrived or was dropped within {joined} each, the share that was dropped."),
                "loss (%)",
                self.runs.iter().map(|run| run.loss_percent.clone()).collect(),
            ),
            quantity(
                "Frame delay",
                frame,
                "delay (ms)",
                self.lines(timeline, |run| &run.frame_ms).into_iter().map(whole).collect(),
            ),
        ]
    }

    /// A line of each run, window by window.
    fn lines(&self, timeline: &Timeline, of: fn(&DrawnRun) -> &Vec<f64>) -> Vec<Points> {
        let line = |run| timeline.t_s.iter().copied().zip(of(run).iter().copied()).collect();
        self.runs.iter().map(line).collect()
    }
}

/// What one plot shows.
struct Quantity {
    title: &'static str,
    caption: String,
    axis: String,
    /// A line of each run.
    lines: Vec<Points>,
    /// Up to where it is drawn.
    most: f64,
    /// What bounds it.
    limit: Points,
}

impl DrawnRun {
    fn new(run: &Run, flow: &FlowRecord, together: usize) -> Self {
        let (SimulationPage { record, timeline }, own) = over_time(run, flow);
        let media = own.and_then(|own| own.media.as_ref());
        let numbers = |values: Option<&Vec<Option<f64>>>, unknown: f64| -> Vec<f64> {
            values.into_iter().flatten().map(|value| value.unwrap_or(unknown)).collect()
        };
        let slowest = bottleneck(record, flow);
        let queue = slowest.and_then(|slowest| timeline.links.iter().find(|link| link.id == slowest.id));
        let received_bps = own.map(|own| rate_points(timeline, &own.received_bytes, together));
        let received_bps = received_bps.unwrap_or_default();
        let fates: Vec<(u64, u64)> = own
            .map(|own| {
                own.dropped_packets.iter().copied().zip(own.received_packets.iter().copied()).collect()
            })
            .unwrap_or_default();
        let losses = fates.chunks(together.max(1)).map(|fates| {
            let lost: u64 = fates.iter().map(|(lost, _)| lost).sum();
            let all: u64 = lost + fates.iter().map(|(_, arrived)| arrived).sum::<u64>();
            if all > 0 { lost as f64 / all as f64 * 100.0 } else { f64::NAN }
        });
        Self {
            target_bps: numbers(media.map(|media| &media.target_rate_bps), f64::NAN),
            queue_ms: numbers(queue.map(|link| &link.queue_delay_max_ms), 0.0),
            frame_ms: numbers(media.map(|media| &media.frame_delay_max_ms), f64::NAN),
            loss_percent: received_bps.iter().zip(losses).map(|(&(x, _), loss)| (x, loss)).collect(),
            received_bps,
        }
    }
}
