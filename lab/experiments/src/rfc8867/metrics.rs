//! The metrics of RFC 8868 §3, from what a run did.
//!
//! | term | definition |
//! |---|---|
//! | static period | between two moments at which a capacity, a load or the number of flows changes; at least 5 s long |
//! | settled | the second half of a static period |
//! | converged | the mean sending rate of a second stays within 25 % of the settled mean for 5 s |
//! | swing | from at most half the settled mean to at least its double within 500 ms, or the other way |
//! | fairness | the largest ratio of two flows' mean received rates over 5 s, and over 20 s, of the settled time |

use std::ops::Range;

use giusto_sim::{link::rate::RateProfile, traffic::Departures};
use giusto_units::{TimeDelta, Timestamp};
use serde::Serialize;

use crate::item::mean_and_deviation;
use giusto::{
    record::{FlowTimeline, RunRecord, TimelineOptions},
    scenario::{FlowKind, FlowSpec, Scenario, Start},
};

/// Rates are measured over this (RFC 8868 §3, item 1).
const INTERVAL: TimeDelta = TimeDelta::from_millis(200);
/// Intervals in a second.
pub(super) const PER_SECOND: usize = 5;

/// The minimum duration of a static period.
const SHORTEST_S: f64 = 5.0;
/// How far from the settled mean a converged rate may be.
const NEAR: f64 = 0.25;
/// The beginning of a flow that the worst 5 s leave out.
const SETTLING: usize = 25 * PER_SECOND;
/// How long it must stay there.
const STAYS: usize = 5 * PER_SECOND;
/// The watermarks of a swing against the settled mean: a factor of 4 apart, as in the example of RFC 8868 §3, item 9.
const LOW: f64 = 0.5;
const HIGH: f64 = 2.0;
/// Intervals after one whose middles lie within the 500 ms of that example.
const SWING: usize = 2;

/// The metrics of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Over the whole time of each flow.
    pub flows: Vec<FlowMetrics>,
    /// Over each static period, at each bottleneck.
    pub periods: Vec<Period>,
}

/// A flow over its whole time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlowMetrics {
    /// Its name.
    pub id: String,
    /// Mean of the sending rate in intervals of 200 ms, headers included.
    pub sent_rate_bps: f64,
    /// Its standard deviation.
    pub sent_rate_sd_bps: f64,
    /// Mean of the goodput: complete frames, without headers; `None` for flows without frames.
    pub goodput_bps: Option<f64>,
    /// Its standard deviation.
    pub goodput_sd_bps: Option<f64>,
    /// The minimum of the mean received rate over 5 s, the first 25 s left out.
    pub worst_5s_bps: Option<f64>,
}

/// A static period at a bottleneck.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Period {
    /// The link.
    pub link: String,
    /// Its start.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// The link's rate less that of UDP.
    pub capacity_bps: Option<f64>,
    /// The settled sending rate of all media over the capacity.
    pub utilisation_ratio: Option<f64>,
    /// The largest ratio of two flows over 5 s of the settled time; `None` with fewer than two flows.
    pub fairness_5s_ratio: Option<f64>,
    /// The largest ratio of two flows over 20 s of the settled time; `None` where that is shorter.
    pub fairness_20s_ratio: Option<f64>,
    /// The media flows that send throughout.
    pub flows: Vec<FlowPeriod>,
}

/// A media flow in a static period.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlowPeriod {
    /// Its name.
    pub id: String,
    /// Settled mean.
    pub sent_rate_bps: f64,
    /// Settled mean.
    pub received_rate_bps: f64,
    /// Standard deviation of the settled sending rate over its mean, in intervals of 200 ms.
    pub variation_ratio: Option<f64>,
    /// From the start of the period until it has converged; `None` if it has not.
    pub convergence_s: Option<f64>,
    /// Settled swings of the sending rate.
    pub swings: u64,
}

/// The timeline that the metrics need in a record.
pub(super) fn timeline() -> TimelineOptions {
    TimelineOptions::every(INTERVAL)
}

/// The bytes of the complete frames of all streams, interval by interval.
fn frame_bytes(flow: &FlowTimeline) -> Vec<u64> {
    let streams = flow.media.as_ref().map(|media| &media.streams[..]).unwrap_or_default();
    let in_interval = |place| streams.iter().filter_map(|stream| stream.frame_bytes.get(place)).sum();
    (0..flow.sent_bytes.len()).map(in_interval).collect()
}

/// A link, and the media flows that cross it.
pub(super) type Bottleneck = (&'static str, &'static [&'static str]);

/// The metrics of one run, which has a [`timeline`].
pub(super) fn metrics(bottlenecks: &[Bottleneck], scenario: &Scenario, record: &RunRecord) -> Metrics {
    let timelines = record.timeline.as_ref().map(|timeline| &timeline.flows[..]).unwrap_or_default();
    let flows = record.flows.iter().filter_map(|flow| {
        let spec = scenario.flows().iter().find(|spec| spec.id == flow.group)?;
        let timeline = of_flow(timelines, &flow.id)?;
        let (from, to) = life(scenario, spec);
        let (sent_rate_bps, sent_rate_sd_bps) = rates(within(&timeline.sent_bytes, from..to))?;
        let goodput = rates(within(&frame_bytes(timeline), from..to)).filter(|_| flow.kind == "media");
        let received = within(&timeline.received_bytes, from..to);
        let worst = received.get(SETTLING..).unwrap_or_default().windows(STAYS).map(mean);
        Some(FlowMetrics {
            id: flow.id.clone(),
            sent_rate_bps,
            sent_rate_sd_bps,
            goodput_bps: goodput.map(|(mean, _)| mean),
            goodput_sd_bps: goodput.map(|(_, deviation)| deviation),
            worst_5s_bps: worst.min_by(f64::total_cmp),
        })
    });
    let periods = static_periods(scenario);
    let at = bottlenecks.iter().flat_map(|(link, media)| {
        periods.iter().map(|period| at_bottleneck(scenario, timelines, (link, media), period.clone()))
    });
    Metrics { flows: flows.collect(), periods: at.filter(|period| !period.flows.is_empty()).collect() }
}

/// The timeline of the flow called `id`.
pub(super) fn of_flow<'a>(timelines: &'a [FlowTimeline], id: &str) -> Option<&'a FlowTimeline> {
    timelines.iter().find(|flow| flow.id == id)
}

/// When a flow begins and ends, in seconds.
fn life(scenario: &Scenario, spec: &FlowSpec) -> (f64, f64) {
    let from = match spec.start {
        Start::At(at) => at.as_seconds(),
        Start::Uniform(_) => 0.0,
    };
    (from, spec.stop.unwrap_or(scenario.end()).as_seconds())
}

/// The rate of a flow that sends at a constant rate or in steps.
pub(super) const fn constant_rate(spec: &FlowSpec) -> Option<&RateProfile> {
    match &spec.kind {
        FlowKind::Source { departures: Departures::Constant(profile), .. } => Some(profile),
        _ => None,
    }
}

/// The pauses of a media flow, in seconds.
fn pauses(spec: &FlowSpec) -> impl Iterator<Item = (f64, f64)> {
    let pauses = match &spec.kind {
        FlowKind::Media(media) => &media.pauses[..],
        _ => &[],
    };
    pauses.iter().map(|(from, to)| (from.as_seconds(), to.as_seconds()))
}

/// The static periods, in seconds.
pub(super) fn static_periods(scenario: &Scenario) -> Vec<Range<f64>> {
    let mut moments = vec![0.0, scenario.end().as_seconds()];
    let links = scenario.links().iter().map(|link| &link.config.rate);
    for profile in links.chain(scenario.flows().iter().filter_map(constant_rate)) {
        if let RateProfile::Steps { steps, .. } = profile {
            moments.extend(steps.iter().map(|(at, _)| at.as_seconds()));
        }
    }
    for flow in scenario.flows() {
        moments.extend(pauses(flow).chain([life(scenario, flow)]).flat_map(<[f64; 2]>::from));
    }
    moments.sort_unstable_by(f64::total_cmp);
    let pairs = moments.iter().zip(moments.iter().skip(1));
    pairs.filter(|(from, to)| *to - *from >= SHORTEST_S).map(|(from, to)| *from..*to).collect()
}

fn at_bottleneck(
    scenario: &Scenario,
    timelines: &[FlowTimeline],
    (link, media): (&str, &[&str]),
    period: Range<f64>,
) -> Period {
    let settled = f64::midpoint(period.start, period.end)..period.end;
    let sends_throughout = |spec: &&FlowSpec| {
        let (from, to) = life(scenario, spec);
        let is_paused = pauses(spec).any(|(from, to)| from < period.end && to > period.start);
        from <= period.start && to >= period.end && !is_paused
    };
    let specs = scenario.flows().iter().filter(|spec| media.contains(&spec.id.as_str()));
    let flows: Vec<&FlowTimeline> =
        specs.filter(sends_throughout).filter_map(|spec| of_flow(timelines, &spec.id)).collect();
    let capacity = capacity(scenario, link, period.start);
    let sent: f64 = flows.iter().map(|flow| mean(within(&flow.sent_bytes, settled.clone()))).sum();
    let received: Vec<&[u64]> =
        flows.iter().map(|flow| within(&flow.received_bytes, settled.clone())).collect();
    Period {
        link: link.to_owned(),
        from_s: period.start,
        to_s: period.end,
        capacity_bps: capacity,
        utilisation_ratio: capacity.filter(|capacity| *capacity > 0.0).map(|capacity| sent / capacity),
        fairness_5s_ratio: fairness(&received, 5 * PER_SECOND),
        fairness_20s_ratio: fairness(&received, 20 * PER_SECOND),
        flows: flows.iter().map(|flow| flow_period(flow, period.clone(), settled.clone())).collect(),
    }
}

fn flow_period(flow: &FlowTimeline, period: Range<f64>, settled: Range<f64>) -> FlowPeriod {
    let sent = within(&flow.sent_bytes, settled.clone());
    let (reference, deviation) = rates(sent).unwrap_or_default();
    FlowPeriod {
        id: flow.id.clone(),
        sent_rate_bps: reference,
        received_rate_bps: mean(within(&flow.received_bytes, settled)),
        variation_ratio: (reference > 0.0).then(|| deviation / reference),
        convergence_s: convergence(within(&flow.sent_bytes, period), reference),
        swings: swings(&sent.chunks(1).map(mean).collect::<Vec<_>>(), reference),
    }
}

/// When the mean of a second begins to stay near `reference`, in seconds from the first interval.
fn convergence(sent_bytes: &[u64], reference: f64) -> Option<f64> {
    let near = |part: &[u64]| (mean(part) - reference).abs() <= NEAR * reference;
    let seconds: Vec<bool> = sent_bytes.windows(PER_SECOND).map(near).collect();
    let first = seconds.windows(STAYS - PER_SECOND + 1).position(|part| part.iter().all(|near| *near))?;
    Some(first as f64 / PER_SECOND as f64)
}

/// How often the rate goes from one watermark to the other in the time of a swing. Each begins after the one before.
fn swings(rates: &[f64], reference: f64) -> u64 {
    let (low, high) = (LOW * reference, HIGH * reference);
    let (mut count, mut from) = (0, 0);
    while let Some(&here) = rates.get(from) {
        let crosses = |&rate: &f64| (here <= low && rate >= high) || (here >= high && rate <= low);
        let other = rates.iter().skip(from + 1).take(SWING).position(crosses).map(|place| from + 1 + place);
        count += u64::from(other.is_some());
        from = other.unwrap_or(from + 1);
    }
    if reference > 0.0 { count } else { 0 }
}

/// The largest ratio of two flows in any window of so many intervals, the windows one after the other; infinite where one gets
/// nothing.
fn fairness(received_bytes: &[&[u64]], window: usize) -> Option<f64> {
    let length = received_bytes.iter().map(|flow| flow.len()).min().filter(|_| received_bytes.len() > 1)?;
    let ratios = (0..length / window).map(|number| {
        let part = number * window..(number + 1) * window;
        let rates = received_bytes.iter().map(|flow| mean(flow.get(part.clone()).unwrap_or_default()));
        let (min, max) =
            rates.fold((f64::INFINITY, 0.0_f64), |(min, max), rate| (min.min(rate), max.max(rate)));
        if min > 0.0 { max / min } else { f64::INFINITY }
    });
    ratios.max_by(f64::total_cmp)
}

/// A link's rate less that of UDP, at a moment.
pub(super) fn capacity(scenario: &Scenario, link: &str, at_s: f64) -> Option<f64> {
    let link = scenario.links().iter().find(|other| other.id == link)?;
    let rate = rate_at(&link.config.rate, at_s)?;
    let load = scenario.flows().iter().filter(|flow| flow.to == link.to && life(scenario, flow).0 <= at_s);
    let load: f64 = load.filter_map(|flow| rate_at(constant_rate(flow)?, at_s)).sum();
    Some(rate - load)
}

fn rate_at(profile: &RateProfile, at_s: f64) -> Option<f64> {
    match profile {
        RateProfile::Fixed(rate) => Some(rate.as_bps() as f64),
        RateProfile::Steps { steps, .. } => {
            let before = |(at, _): &&(Timestamp, _)| at.as_seconds() <= at_s;
            let step = steps.iter().rfind(before).or_else(|| steps.first());
            step.map(|(_, rate)| rate.as_bps() as f64)
        }
        _ => None,
    }
}

/// The intervals of a column that lie within a time.
pub(super) fn within<T>(column: &[T], time: Range<f64>) -> &[T] {
    let place = |seconds: f64| (seconds / INTERVAL.as_seconds()).round().max(0.0) as usize;
    column.get(place(time.start)..place(time.end).min(column.len())).unwrap_or_default()
}

/// The mean rate over intervals with so many bytes, in bit/s.
pub(super) fn mean(bytes: &[u64]) -> f64 {
    let seconds = bytes.len() as f64 * INTERVAL.as_seconds();
    if bytes.is_empty() { 0.0 } else { bytes.iter().sum::<u64>() as f64 * 8.0 / seconds }
}

/// Mean and standard deviation of the rates of the intervals, in bit/s.
fn rates(bytes: &[u64]) -> Option<(f64, f64)> {
    mean_and_deviation(bytes.chunks(1).map(mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 25 B in 200 ms are 1 kbit/s.
    fn of_rates(kbps: &[u64]) -> Vec<u64> {
        kbps.iter().map(|kbps| kbps * 25).collect()
    }

    #[test]
    fn a_swing_crosses_both_watermarks_within_half_a_second() {
        assert_eq!(swings(&[1.0, 2.0, 0.5, 2.0], 1.0), 2);
        assert_eq!(swings(&[2.0, 1.0, 0.5], 1.0), 1);
        assert_eq!(swings(&[2.0, 1.0, 1.0, 0.5], 1.0), 0);
        assert_eq!(swings(&[1.9, 0.51, 1.9], 1.0), 0);
        assert_eq!(swings(&[], 0.0), 0);
    }

    #[test]
    fn convergence_is_the_first_time_from_which_the_rate_stays() {
        // 2 s too high, 10 s as in the end.
        let mut rates = vec![1500; 10];
        rates.extend([1000; 50]);
        // A second with two intervals too high has a mean 20 % above: 2 s less three intervals.
        assert_eq!(convergence(&of_rates(&rates), 1e6), Some(1.6));
        // A rate that never stays near its mean has not converged.
        let sawtooth: Vec<u64> = (0..60).map(|place| if place / 10 % 2 == 0 { 500 } else { 1500 }).collect();
        assert_eq!(convergence(&of_rates(&sawtooth), 1e6), None);
        assert_eq!(convergence(&of_rates(&[1000; 24]), 1e6), None);
        assert_eq!(convergence(&of_rates(&[1000; 25]), 1e6), Some(0.0));
    }

    #[test]
    fn fairness_is_that_of_the_worst_window() {
        let (even, half) = (of_rates(&[1000; 60]), of_rates(&[500; 60]));
        assert_eq!(fairness(&[&even, &half], 25), Some(2.0));
        let mut late = vec![1000; 25];
        late.extend([250; 25]);
        assert_eq!(fairness(&[&even, &of_rates(&late)], 25), Some(4.0));
        assert_eq!(fairness(&[&even, &of_rates(&[0; 60])], 25), Some(f64::INFINITY));
        assert_eq!(fairness(&[&even], 25), None);
        assert_eq!(fairness(&[&even, &half], 100), None);
    }
}
