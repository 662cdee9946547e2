//! One flow under all controllers: a plot of each quantity.

use giusto_sim::observe::{MediaSeries, Timeline};
use giusto_units::TimeDelta;

use super::{ComparedRun, ComparisonPage, QUEUE};
use crate::view::html::{
    Chart, Series,
    simulation::{
        PageFlow,
        media::slowest,
        plots::{capacity, chart, middle, rate_points, scaled, windows_apart},
    },
};

/// Rates and losses are over so many windows at least: lines that jump hide each other.
const LEAST_TOGETHER: usize = 3;

/// A line through points.
type Points = Vec<(f64, f64)>;

/// One flow under all controllers, over time.
pub(super) struct Drawn {
    pub(super) name: String,
    pub(super) flow: PageFlow,
    /// The slowest link of its way.
    pub(super) link: Option<String>,
    /// What that link carries, in bit/s.
    limit: Points,
    /// How many windows are taken together for a rate.
    pub(super) together: usize,
    pub(super) most_bps: f64,
    pub(super) runs: Vec<DrawnRun>,
}

/// One flow under one controller, window by window. What is not known is no number.
pub(super) struct DrawnRun {
    pub(super) target_bps: Vec<f64>,
    pub(super) queue_ms: Vec<f64>,
    pub(super) frame_ms: Vec<f64>,
    /// Of as many windows as are taken together.
    pub(super) received_bps: Points,
    pub(super) loss_percent: Points,
}

impl Drawn {
    pub(super) fn new(page: &ComparisonPage<'_>, flow: &PageFlow) -> Self {
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
    pub(super) fn charts(&self, page: &ComparisonPage<'_>, several: bool) -> Vec<Chart> {
        let Some(first) = page.runs.first() else { return Vec::new() };
        let chart = |quantity: Quantity| {
            let title = if several && quantity.title != QUEUE {
                format!("{}: {}", self.name, quantity.title.to_lowercase())
            } else {
                quantity.title.to_owned()
            };
            let mut chart = chart(&first.page, &title, quantity.caption, &quantity.axis);
            chart.y.range = Some((0.0, quantity.most));
            for (run, points) in page.runs.iter().zip(quantity.lines) {
                chart = chart.with_series(Series::line(run.controller, points));
            }
            match &self.link {
                Some(name) if !quantity.limit.is_empty() => {
                    chart.with_series(Series::limit(format!("capacity of {name}"), quantity.limit))
                }
                _ => chart,
            }
        };
        let timeline = first.page.timeline;
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
        let (width, joined) = (timeline.width(), self.joined(timeline));
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
        let (width, joined) = (timeline.width(), self.joined(timeline));
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

    /// How long the windows are together over which rates are.
    fn joined(&self, timeline: &Timeline) -> TimeDelta {
        TimeDelta::from_nanos(timeline.width().as_nanos().saturating_mul(self.together as i64))
    }

    /// A line of each run, window by window.
    fn lines(&self, timeline: &Timeline, of: fn(&DrawnRun) -> &Vec<f64>) -> Vec<Points> {
        let line = |run| {
            let values = of(run).iter().enumerate();
            values.map(|(place, &value)| (middle(timeline, place), value)).collect()
        };
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
    fn new(run: &ComparedRun<'_>, flow: &PageFlow, together: usize) -> Self {
        let timeline = run.page.timeline;
        let ended = run.page.result.duration_s;
        let until =
            timeline.len().min((0..timeline.len()).filter(|&place| begins(timeline, place) < ended).count());
        let media = timeline.media(flow.id).map(MediaSeries::windows).unwrap_or_default();
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
                .map(|window| window.frame_delay_max.map_or(f64::NAN, TimeDelta::as_millis))
                .collect(),
            loss_percent: received_bps.iter().zip(losses).map(|(&(x, _), loss)| (x, loss)).collect(),
            received_bps,
        }
    }
}

fn begins(timeline: &Timeline, place: usize) -> f64 {
    timeline.window(place).start.as_seconds()
}
