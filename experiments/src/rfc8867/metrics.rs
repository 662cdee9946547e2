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

use super::cases::Case;
use giusto::{
    record::{FlowTimeline, RunRecord, Timeline, TimelineOptions},
    scenario::{FlowKind, FlowSpec, Scenario, Start},
};

/// Rates are measured over this (RFC 8868 §3, item 1).
const INTERVAL: TimeDelta = TimeDelta::from_millis(200);
/// Intervals in a second.
pub(super) const PER_SECOND: usize = 5;

/// A shorter static period is none.
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

/// What a run was like.
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
    /// Mean of the goodput: frames that arrived whole, without headers; none of what has no frames.
    pub goodput_bps: Option<f64>,
    /// Its standard deviation.
    pub goodput_sd_bps: Option<f64>,
    /// The least mean received rate over 5 s, the first 25 s left out.
    pub worst_5s_bps: Option<f64>,
}

/// A static period at a bottleneck.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Period {
    /// The link.
    pub link: String,
    /// Its begin.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// What UDP leaves of the link's rate.
    pub capacity_bps: Option<f64>,
    /// What the media send, settled, over the capacity.
    pub utilisation_ratio: Option<f64>,
    /// The largest ratio of two flows over 5 s of the settled time; none with fewer than two flows.
    pub fairness_5s_ratio: Option<f64>,
    /// The largest ratio of two flows over 20 s of the settled time; none where it is shorter.
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
    /// From the begin of the period until it has converged; none if it has not.
    pub convergence_s: Option<f64>,
    /// Settled swings of the sending rate.
    pub swings: u64,
}

/// The timeline that the metrics need in a record.
pub(super) fn timeline() -> TimelineOptions {
    TimelineOptions::every(INTERVAL)
}

/// One interval of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Interval {
    sent_bytes: u64,
    pub(super) received_bytes: u64,
    frame_bytes: u64,
    pub(super) queue_delay_max_ms: f64,
}

/// A flow, interval by interval.
pub(super) fn intervals(timeline: &Timeline, id: &str) -> Vec<Interval> {
    let Some(flow) = timeline.flows.iter().find(|flow| flow.id == id) else { return Vec::new() };
    let at = |column: &Vec<u64>, place: usize| column.get(place).copied().unwrap_or(0);
    let interval = |place| Interval {
        sent_bytes: at(&flow.sent_bytes, place),
        received_bytes: at(&flow.received_bytes, place),
        frame_bytes: streams(flow).map(|bytes| at(bytes, place)).sum(),
        queue_delay_max_ms: flow.queue_delay_max_ms.get(place).copied().flatten().unwrap_or(0.0),
    };
    (0..timeline.t_s.len()).map(interval).collect()
}

/// The bytes of the complete frames of each stream, interval by interval.
fn streams(flow: &FlowTimeline) -> impl Iterator<Item = &Vec<u64>> {
    flow.media.iter().flat_map(|media| media.streams.iter().map(|stream| &stream.frame_bytes))
}

/// The metrics of one run.
pub(super) fn metrics(case: &Case, scenario: &Scenario, record: &RunRecord) -> Metrics {
    let nothing = Timeline::default();
    let timeline = record.timeline.as_ref().unwrap_or(&nothing);
    let flows = record.flows.iter().filter_map(|flow| {
        let spec = scenario.flows().iter().find(|spec| spec.id == flow.group)?;
        let (from, to) = life(scenario, spec);
        let all = intervals(timeline, &flow.id);
        let own = within(&all, from..to);
        let sent = Spread::of(own.iter().map(|interval| bps(interval.sent_bytes, 1)));
        let goodput = Spread::of(own.iter().map(|interval| bps(interval.frame_bytes, 1)));
        let goodput = goodput.filter(|_| flow.kind == "media");
        let settled = own.get(SETTLING..).unwrap_or_default();
        let worst = settled.windows(STAYS).map(|part| mean(part, received));
        Some(FlowMetrics {
            id: flow.id.clone(),
            sent_rate_bps: sent.map_or(0.0, |spread| spread.mean),
            sent_rate_sd_bps: sent.map_or(0.0, |spread| spread.deviation),
            goodput_bps: goodput.map(|spread| spread.mean),
            goodput_sd_bps: goodput.map(|spread| spread.deviation),
            worst_5s_bps: worst.min_by(f64::total_cmp),
        })
    });
    let periods = static_periods(scenario);
    let at = case.bottlenecks.iter().flat_map(|(link, media)| {
        periods.iter().map(|period| at_bottleneck(scenario, timeline, (link, media), period.clone()))
    });
    Metrics { flows: flows.collect(), periods: at.filter(|period| !period.flows.is_empty()).collect() }
}

/// When a flow begins and ends, in seconds.
fn life(scenario: &Scenario, spec: &FlowSpec) -> (f64, f64) {
    let from = match spec.start {
        Start::At(at) => at.as_seconds(),
        Start::Uniform(_) => 0.0,
    };
    (from, spec.stop.unwrap_or(scenario.end()).as_seconds())
}

/// The static periods, in seconds.
pub(super) fn static_periods(scenario: &Scenario) -> Vec<Range<f64>> {
    let mut moments = vec![0.0, scenario.end().as_seconds()];
    let mut steps_of = |profile: &RateProfile| {
        if let RateProfile::Steps { steps, .. } = profile {
            moments.extend(steps.iter().map(|(at, _)| at.as_seconds()));
        }
    };
    scenario.links().iter().for_each(|link| steps_of(&link.config.rate));
    for flow in scenario.flows() {
        if let FlowKind::Source { departures: Departures::Constant(profile), .. } = &flow.kind {
            steps_of(profile);
        }
    }
    for flow in scenario.flows() {
        moments.extend(<[f64; 2]>::from(life(scenario, flow)));
        if let FlowKind::Media(media) = &flow.kind {
            moments.extend(media.pauses.iter().flat_map(|(from, to)| [from.as_seconds(), to.as_seconds()]));
        }
    }
    moments.sort_by(f64::total_cmp);
    let pairs = moments.iter().zip(moments.iter().skip(1));
    pairs.filter(|(from, to)| *to - *from >= SHORTEST_S).map(|(from, to)| *from..*to).collect()
}

fn at_bottleneck(
    scenario: &Scenario,
    timeline: &Timeline,
    (link, media): (&str, &[&str]),
    period: Range<f64>,
) -> Period {
    let settled = f64::midpoint(period.start, period.end)..period.end;
    let sends_throughout = |spec: &&FlowSpec| {
        let (from, to) = life(scenario, spec);
        let pauses = match &spec.kind {
            FlowKind::Media(media) => &media.pauses[..],
            _ => &[],
        };
        let paused =
            pauses.iter().any(|(from, to)| from.as_seconds() < period.end && to.as_seconds() > period.start);
        from <= period.start && to >= period.end && !paused
    };
    let specs = scenario.flows().iter().filter(|spec| media.contains(&spec.id.as_str()));
    let flows: Vec<(&str, Vec<Interval>)> = specs
        .filter(sends_throughout)
        .map(|spec| (spec.id.as_str(), intervals(timeline, &spec.id)))
        .filter(|(_, intervals)| !intervals.is_empty())
        .collect();
    let capacity = capacity(scenario, link, period.start);
    let own: Vec<&[Interval]> = flows.iter().map(|(_, all)| within(all, settled.clone())).collect();
    let sent: f64 = own.iter().map(|intervals| mean(intervals, sent)).sum();
    Period {
        link: link.to_owned(),
        from_s: period.start,
        to_s: period.end,
        capacity_bps: capacity,
        utilisation_ratio: capacity.filter(|capacity| *capacity > 0.0).map(|capacity| sent / capacity),
        fairness_5s_ratio: fairness(&own, 5 * PER_SECOND),
        fairness_20s_ratio: fairness(&own, 20 * PER_SECOND),
        flows: flows.iter().map(|flow| flow_period(flow, period.clone(), settled.clone())).collect(),
    }
}

fn flow_period((id, all): &(&str, Vec<Interval>), period: Range<f64>, settled: Range<f64>) -> FlowPeriod {
    let own = within(all, settled);
    let rates: Vec<f64> = own.iter().map(|interval| bps(interval.sent_bytes, 1)).collect();
    let spread = Spread::of(rates.iter().copied());
    let reference = spread.map_or(0.0, |spread| spread.mean);
    FlowPeriod {
        id: (*id).to_owned(),
        sent_rate_bps: reference,
        received_rate_bps: mean(own, received),
        variation_ratio: spread
            .filter(|spread| spread.mean > 0.0)
            .map(|spread| spread.deviation / spread.mean),
        convergence_s: convergence(within(all, period), reference),
        swings: swings(&rates, reference),
    }
}

/// When the mean of a second first stays near `reference`, in seconds from the first interval.
fn convergence(intervals: &[Interval], reference: f64) -> Option<f64> {
    let near = |part: &[Interval]| (mean(part, sent) - reference).abs() <= NEAR * reference;
    let seconds: Vec<bool> = intervals.windows(PER_SECOND).map(near).collect();
    let first = seconds.windows(STAYS - PER_SECOND + 1).position(|part| part.iter().all(|near| *near))?;
    Some(first as f64 / PER_SECOND as f64)
}

/// How often the rate goes from one watermark to the other in the time of a swing. Each begins after the one before.
fn swings(rates: &[f64], reference: f64) -> u64 {
    let (low, high) = (LOW * reference, HIGH * reference);
    let (mut count, mut from) = (0, 0);
    while let Some(&here) = rates.get(from) {
        let next = rates.iter().enumerate().skip(from + 1).take(SWING);
        let other = next
            .filter(|&(_, &rate)| (here <= low && rate >= high) || (here >= high && rate <= low))
            .map(|(place, _)| place)
            .next();
        count += u64::from(other.is_some());
        from = other.unwrap_or(from + 1);
    }
    if reference > 0.0 { count } else { 0 }
}

/// The largest ratio of two flows in any window of so many intervals, the windows one after the other; infinite where one gets
/// nothing.
fn fairness(flows: &[&[Interval]], window: usize) -> Option<f64> {
    let length = flows.iter().map(|flow| flow.len()).min().filter(|_| flows.len() > 1)?;
    let ratios = (0..length / window).map(|number| {
        let rates = flows.iter().map(|flow| {
            let part = flow.get(number * window..(number + 1) * window).unwrap_or_default();
            mean(part, received)
        });
        let (least, most) =
            rates.fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
        if least > 0.0 { most / least } else { f64::INFINITY }
    });
    ratios.max_by(f64::total_cmp)
}

/// What a link can carry of media at a moment.
pub(super) fn capacity(scenario: &Scenario, link: &str, at_s: f64) -> Option<f64> {
    let link = scenario.links().iter().find(|other| other.id == link)?;
    let rate = rate_at(&link.config.rate, at_s)?;
    let load = scenario.flows().iter().filter(|flow| flow.to == link.to && life(scenario, flow).0 <= at_s);
    let load: f64 = load
        .filter_map(|flow| match &flow.kind {
            FlowKind::Source { departures: Departures::Constant(profile), .. } => rate_at(profile, at_s),
            _ => None,
        })
        .sum();
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

/// The intervals that lie within a time.
pub(super) fn within(all: &[Interval], time: Range<f64>) -> &[Interval] {
    let place = |seconds: f64| (seconds / INTERVAL.as_seconds()).round().max(0.0) as usize;
    all.get(place(time.start)..place(time.end).min(all.len())).unwrap_or_default()
}

fn sent(interval: &Interval) -> u64 {
    interval.sent_bytes
}

fn received(interval: &Interval) -> u64 {
    interval.received_bytes
}

/// The mean rate over some intervals.
pub(super) fn mean(intervals: &[Interval], of: fn(&Interval) -> u64) -> f64 {
    bps(intervals.iter().map(of).sum(), intervals.len())
}

fn bps(bytes: u64, intervals: usize) -> f64 {
    if intervals == 0 { 0.0 } else { bytes as f64 * 8.0 / (intervals as f64 * INTERVAL.as_seconds()) }
}

/// Mean and standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        (!values.is_empty()).then(|| Self { mean, deviation: variance.sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rates(kbps: &[u64]) -> Vec<Interval> {
        // 25 B in 200 ms are 1 kbit/s.
        let interval =
            |kbps: &u64| Interval { sent_bytes: kbps * 25, received_bytes: kbps * 25, ..Interval::default() };
        kbps.iter().map(interval).collect()
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
        // What never stays has not converged.
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
