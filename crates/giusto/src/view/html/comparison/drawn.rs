//! One flow under all controllers: its charts, and its values at the cursor.

use std::collections::BTreeMap;

use super::{QUEUE, over_time};
use crate::{
    record::{DecisionRecord, FlowRecord},
    run::comparison::Comparison,
    view::{
        comparison::bottleneck,
        decision::{cause_in_words, change_in_words},
        html::{
            Chart, Gaps, Points, Series,
            linked::{LineValues, rounded},
            simulation::{
                SimulationPage,
                plots::{capacity, chart, largest, rate_points, scaled, width, windows_apart},
            },
        },
    },
};

/// Rates and losses are drawn over at least so many windows: lines that jump hide each other.
const LEAST_TOGETHER: usize = 3;

/// A line through points.
type Line = Vec<(f64, f64)>;

/// One flow under all controllers, over time.
pub(super) struct Drawn {
    pub(super) flow: FlowRecord,
    /// The slowest link of its path.
    pub(super) link: Option<String>,
    /// The capacity of that link, in bit/s.
    limit: Line,
    /// How many windows are joined for a rate.
    together: usize,
    pub(super) most_bps: f64,
    pub(super) runs: Vec<DrawnRun>,
}

/// One flow under one controller. Unknown values are not numbers.
#[derive(Default)]
pub(super) struct DrawnRun {
    /// By window.
    pub(super) queue_ms: Vec<f64>,
    /// By window.
    frame_ms: Vec<f64>,
    /// By joined windows.
    received_bps: Line,
    /// By joined windows.
    loss_percent: Line,
    target_column: Option<Points>,
    queue_column: Option<Points>,
    frame_column: Option<Points>,
    /// The maximum of target and received rates.
    most_bps: f64,
    decisions: Vec<DecisionRecord>,
    ends_s: f64,
}

impl Drawn {
    pub(super) fn new(comparison: &Comparison, flow: &FlowRecord) -> Self {
        let numbers = 0..comparison.runs.len();
        let pages = numbers.filter_map(|number| over_time(comparison, number, &flow.id));
        let pages: Vec<(SimulationPage<'_>, Option<usize>)> = pages.collect();
        let apart = |(page, place): &(SimulationPage<'_>, Option<usize>)| {
            Some(windows_apart(page.timeline, &[page.timeline.flows.get((*place)?)?]))
        };
        let together = pages.iter().filter_map(apart).max().unwrap_or(1).max(LEAST_TOGETHER);
        let slowest = pages.first().and_then(|(page, _)| {
            let link = bottleneck(page.record, flow)?;
            Some((link.id.clone(), capacity(page, &link.id)?))
        });
        let (link, limit) = slowest.unzip();
        let limit: Line = limit.unwrap_or_default();
        let runs: Vec<DrawnRun> =
            pages.iter().map(|(page, place)| DrawnRun::new(page, *place, flow, together)).collect();
        let most = runs.iter().map(|run| run.most_bps).chain(limit.iter().map(|point| point.1));
        Self { flow: flow.clone(), link, together, most_bps: largest(most), limit, runs }
    }

    /// A chart of each quantity with a line for each controller.
    pub(super) fn charts(&self, comparison: &Comparison, several: bool) -> Vec<Chart> {
        let Some((first, _)) = over_time(comparison, 0, &self.flow.id) else { return Vec::new() };
        let (unit, name) = scaled(self.most_bps);
        let (joined, single) = (width(first.timeline, self.together), width(first.timeline, 1));
        let link = self.link.as_deref();
        let bound =
            link.map_or_else(String::new, |link| format!(" The dashed line is the capacity of {link}."));
        let queue = link.map_or_else(
            || "No link of the path has a limited rate.".to_owned(),
            |link| format!("The maximum of all packets transmitted by {link} within {single} each."),
        );
        let draw =
            |title: &str, caption: String, axis: &str, most: f64, line: &dyn Fn(&DrawnRun) -> Points| {
                let title = if several && title != QUEUE {
                    format!("{}: {}", self.flow.id, title.to_lowercase())
                } else {
                    title.to_owned()
                };
                let mut chart = chart(&first, &title, caption, axis);
                chart.y.range = Some((0.0, most));
                let lines = comparison.runs.iter().zip(&self.runs);
                lines.fold(chart, |chart, (run, drawn)| {
                    chart.with_series(Series::line(run.controller.clone(), line(drawn)))
                })
            };
        let rates = |title, caption, line: &dyn Fn(&DrawnRun) -> Points| {
            let most = self.most_bps / unit * 1.1;
            let chart =
                draw(title, caption, &format!("rate ({name})"), most, &|run| line(run).scaled(1.0 / unit));
            match link.filter(|_| !self.limit.is_empty()) {
                Some(link) => {
                    let limit = Points::from(self.limit.clone()).scaled(1.0 / unit);
                    chart.with_series(Series::limit(format!("capacity of {link}"), limit))
                }
                None => chart,
            }
        };
        // The axis begins at 0 and has a height even where all values are 0.
        let height =
            |values: fn(&DrawnRun) -> Vec<f64>| (largest(self.runs.iter().flat_map(values)) * 1.06).max(1.0);
        let column = |column: &Option<Points>, gaps| {
            column.clone().unwrap_or_else(|| Points::from(Vec::new())).with_gaps(gaps)
        };
        vec![
            rates(
                "Target rate",
                format!("The mean within {single} each, all headers included.{bound}"),
                &|run| column(&run.target_column, Gaps::Break),
            ),
            rates("Received rate", format!("Over {joined} each, all headers included.{bound}"), &|run| {
                run.received_bps.clone().into()
            }),
            draw(QUEUE, queue, "delay (ms)", height(|run| run.queue_ms.clone()), &|run| {
                column(&run.queue_column, Gaps::Zero)
            }),
            draw(
                "Loss",
                format!("Dropped packets over dropped and received packets, within {joined} each."),
                "loss (%)",
                height(|run| run.loss_percent.iter().map(|point| point.1).collect()),
                &|run| run.loss_percent.clone().into(),
            ),
            draw(
                "Frame delay",
                format!(
                    "From the capture of a frame until it arrived complete: the maximum within {single} each. The line bridges times without a complete frame."
                ),
                "delay (ms)",
                height(|run| run.frame_ms.clone()),
                &|run| column(&run.frame_column, Gaps::Bridge),
            ),
        ]
    }

    /// The values of each controller at the `positions` of the cursor, one in `step` windows; rates in `unit` bit/s.
    pub(super) fn values_at(&self, (positions, step): (&[f64], usize), unit: f64) -> Vec<LineValues> {
        self.runs.iter().map(|run| run.values_at((positions, step), self.together, unit)).collect()
    }
}

impl DrawnRun {
    fn new(page: &SimulationPage<'_>, place: Option<usize>, flow: &FlowRecord, together: usize) -> Self {
        let SimulationPage { record, timeline, .. } = page;
        let numbers = |values: &[Option<f64>], unknown: f64| -> Vec<f64> {
            values.iter().map(|value| value.unwrap_or(unknown)).collect()
        };
        let mut drawn = Self { ends_s: record.duration_s, ..Self::default() };
        let slowest = bottleneck(record, flow);
        let queue = slowest.and_then(|slowest| timeline.links.iter().position(|link| link.id == slowest.id));
        if let Some((place, link)) = queue.and_then(|place| Some((place, timeline.links.get(place)?))) {
            drawn.queue_ms = numbers(&link.queue_delay_max_ms, 0.0);
            drawn.queue_column = Some(page.column(&format!("links/{place}/queue_delay_max_ms"), 1.0));
        }
        let Some((place, own)) = place.and_then(|place| Some((place, timeline.flows.get(place)?))) else {
            return drawn;
        };
        drawn.received_bps = rate_points(timeline, &own.received_bytes, together);
        drawn.most_bps = largest(drawn.received_bps.iter().map(|point| point.1));
        let [dropped, received] = [&own.dropped_packets, &own.received_packets]
            .map(|packets| packets.chunks(together.max(1)).map(|packets| packets.iter().sum::<u64>()));
        let losses = dropped.zip(received).map(|(dropped, received)| {
            let all = dropped + received;
            if all > 0 { dropped as f64 / all as f64 * 100.0 } else { f64::NAN }
        });
        drawn.loss_percent =
            drawn.received_bps.iter().zip(losses).map(|(point, loss)| (point.0, loss)).collect();
        if let Some(media) = &own.media {
            drawn.most_bps = drawn.most_bps.max(largest(media.target_rate_bps.iter().copied().flatten()));
            drawn.frame_ms = numbers(&media.frame_delay_max_ms, f64::NAN);
            drawn.decisions.clone_from(&media.decisions);
            let column = |name| Some(page.column(&format!("flows/{place}/media/{name}"), 1.0));
            (drawn.target_column, drawn.frame_column) =
                (column("target_rate_bps"), column("frame_delay_max_ms"));
        }
        drawn
    }

    fn values_at(&self, (positions, step): (&[f64], usize), together: usize, unit: f64) -> LineValues {
        let mut line = LineValues::default();
        let mut targets = Vec::with_capacity(positions.len());
        // The index of each text by its decision.
        let mut known: BTreeMap<usize, usize> = BTreeMap::new();
        let mut texts = Vec::new();
        let mut text = |number: usize| {
            let decision = self.decisions.get(number)?;
            Some(*known.entry(number).or_insert_with(|| {
                let words = format!("{}, {}", change_in_words(decision), cause_in_words(&decision.cause));
                texts.push((rounded(decision.at_s, 4), words));
                texts.len() - 1
            }))
        };
        for &at in positions {
            let number = in_force(&self.decisions, at).filter(|_| at <= self.ends_s);
            let decrease = number.and_then(|number| last_decrease(&self.decisions, number));
            let target = number.and_then(|number| self.decisions.get(number));
            targets.push(target.map_or(f64::NAN, |decision| decision.to_bps as f64 / unit));
            line.last_decrease
                .push(decrease.filter(|&decrease| Some(decrease) != number).and_then(&mut text));
            line.current.push(number.and_then(&mut text));
        }
        line.texts = texts;
        let joined = |points: &[(f64, f64)], unit: f64| -> Vec<f64> {
            points.iter().flat_map(|&(_, value)| std::iter::repeat_n(value / unit, together)).collect()
        };
        let figures = |values: &[f64], step, decimals| -> Vec<Option<f64>> {
            let known =
                values.iter().step_by(step).map(|value| value.is_finite().then(|| rounded(*value, decimals)));
            known.chain(std::iter::repeat(None)).take(positions.len()).collect()
        };
        line.values = vec![
            figures(&targets, 1, 3),
            figures(&joined(&self.received_bps, unit), step, 3),
            figures(&self.queue_ms, step, 1),
            figures(&joined(&self.loss_percent, 1.0), step, 1),
            figures(&self.frame_ms, step, 0),
        ];
        line
    }
}

/// The last of `decisions` until `at_s`.
fn in_force(decisions: &[DecisionRecord], at_s: f64) -> Option<usize> {
    decisions.partition_point(|decision| decision.at_s <= at_s).checked_sub(1)
}

/// The last of `decisions` up to `number` that lowered the target.
fn last_decrease(decisions: &[DecisionRecord], number: usize) -> Option<usize> {
    decisions.get(..=number)?.iter().rposition(|decision| decision.to_bps < decision.from_bps)
}
