//! Expectations of a scenario: the figures that they need, and whether these are within the bounds.

use std::ops::Range;

use giusto_measure::ErrorHistogram;
use giusto_sim::record::{
    Check, Distribution, Figures, FlowFigures, LinkFigures, Measurement, StreamFigures,
};
use giusto_units::{DataRate, Timestamp};

use crate::{
    run::{
        build::{Built, BuiltFlow},
        media::{self, Stream},
    },
    scenario::{Expectation, Figure, FlowKind, FlowSpec, Metric, Scenario, Subject},
};

/// The time in which a flow is measured.
pub(crate) fn window_of_flow(scenario: &Scenario, flow: &BuiltFlow) -> Range<Timestamp> {
    flow.start + scenario.warmup()..flow.stop.min(scenario.end())
}

/// The time in which a link is measured.
pub(crate) fn window_of_link(scenario: &Scenario) -> Range<Timestamp> {
    Timestamp::ZERO + scenario.warmup()..scenario.end()
}

/// An expectation and the streams that it is about.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    expectation: &'a Expectation,
    /// Of each flow of the measurement.
    streams: Vec<Vec<Stream<'a>>>,
}

/// Each expectation with the measurement that it needs.
pub(super) fn ask<'a>(scenario: &'a Scenario, built: &Built) -> Vec<(Asked<'a>, Measurement)> {
    scenario.expectations().iter().map(|expectation| Asked::new(scenario, built, expectation)).collect()
}

impl<'a> Asked<'a> {
    fn new(scenario: &'a Scenario, built: &Built, expectation: &'a Expectation) -> (Self, Measurement) {
        match &expectation.subject {
            Subject::Flows(ids) => {
                let mut flows: Vec<&BuiltFlow> = members(scenario, built, ids).collect();
                if expectation.metric == Metric::Goodput {
                    // Only what is acknowledged or made of frames has a goodput.
                    flows.retain(|flow| flow.backwards.is_some());
                }
                let windows = windows(scenario, expectation, &flows);
                let streams = flows.iter().map(|flow| streams(scenario.flows().get(flow.spec), expectation));
                let asked = Self { expectation, streams: streams.collect() };
                let flows = flows.iter().map(|flow| flow.forwards).zip(windows).collect();
                let metric = expectation.metric;
                let delays =
                    matches!(metric, Metric::Delay(_) | Metric::QueueDelay(_) | Metric::FrameDelay(_));
                (asked, Measurement::Flows { flows, delays, steps: metric == Metric::TimeToRate })
            }
            Subject::Link(id) => {
                let whole = window_of_link(scenario);
                let window = expectation.from.unwrap_or(whole.start)..expectation.to.unwrap_or(whole.end);
                let place = scenario.links().iter().position(|link| link.id == *id);
                let delays = matches!(expectation.metric, Metric::QueueDelay(_));
                let link = place.and_then(|place| built.links.get(place)).copied().unwrap_or_default();
                (Self { expectation, streams: Vec::new() }, Measurement::Link { link, window, delays })
            }
        }
    }

    /// Whether the expectation is met.
    pub(super) fn check(&self, figures: &Figures) -> Check {
        let expectation = self.expectation;
        let value = match figures {
            Figures::Link(link) => value_of_link(expectation.metric, link),
            Figures::Flows { flows, .. }
                if expectation.stream.is_some() || expectation.metric == Metric::StreamFairness =>
            {
                value_of_streams(expectation.metric, flows, &self.streams)
            }
            Figures::Flows { flows, .. } if flows.is_empty() => None,
            Figures::Flows { flows, delay_ms, queue_delay_ms, frame_delay_ms } => match expectation.metric {
                Metric::Delay(of) => figure(*delay_ms, of),
                Metric::QueueDelay(of) => figure(*queue_delay_ms, of),
                Metric::FrameDelay(of) => figure(*frame_delay_ms, of),
                Metric::TimeToRate => expectation.rate.and_then(|rate| time_to_rate(flows, rate)),
                metric => value_of_flows(metric, flows),
            },
        };
        Check {
            name: expectation.title(),
            passed: expectation.accepts(value),
            value,
            bound: expectation.bound(),
            unit: expectation.metric.unit().name().to_owned(),
        }
    }
}

/// The flows that `ids` name: all instances of a flow, or one by its number.
fn members<'a>(
    scenario: &'a Scenario,
    built: &'a Built,
    ids: &'a [String],
) -> impl Iterator<Item = &'a BuiltFlow> {
    built.flows.iter().filter(move |flow| {
        let all = scenario.flows().get(flow.spec).is_some_and(|spec| ids.contains(&spec.id));
        all || ids.contains(&flow.name)
    })
}

/// The window of each flow: the time in which all of them send, if there is any, since sums and indices are over one time.
fn windows(scenario: &Scenario, expectation: &Expectation, flows: &[&BuiltFlow]) -> Vec<Range<Timestamp>> {
    let mut from = expectation.from;
    if expectation.metric == Metric::TimeToRate {
        // The time to a rate begins where the flows do, whatever the warm-up.
        from = from.or(flows.iter().map(|flow| flow.start).max());
    }
    let own = |flow: &&BuiltFlow| {
        let whole = window_of_flow(scenario, flow);
        from.unwrap_or(whole.start)..expectation.to.unwrap_or(whole.end)
    };
    let start = flows.iter().map(|flow| own(flow).start).max();
    let end = flows.iter().map(|flow| own(flow).end).min();
    let common = start.zip(end).filter(|(start, end)| start < end).map(|(start, end)| start..end);
    flows.iter().map(|flow| common.clone().unwrap_or_else(|| own(flow))).collect()
}

/// The streams of a flow that `expectation` is about.
fn streams<'a>(spec: Option<&'a FlowSpec>, expectation: &Expectation) -> Vec<Stream<'a>> {
    let Some(FlowKind::Media(spec)) = spec.map(|flow| &flow.kind) else { return Vec::new() };
    let wanted = |stream: &Stream<'_>| match &expectation.stream {
        Some(id) => stream.id == id,
        None => stream.video.is_some(),
    };
    media::streams(spec).filter(wanted).collect()
}

fn figure(distribution: Option<Distribution>, figure: Figure) -> Option<f64> {
    let Distribution { mean, p50, p95, p99, max } = distribution?;
    Some(match figure {
        Figure::Mean => mean,
        Figure::P50 => p50,
        Figure::P95 => p95,
        Figure::P99 => p99,
        Figure::Max => max,
    })
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn value_of_link(metric: Metric, link: &LinkFigures) -> Option<f64> {
    match metric {
        Metric::Utilisation => link.utilisation_ratio,
        Metric::Dropped => ratio(link.dropped_packets, link.packets),
        Metric::Marked => ratio(link.marked_packets, link.packets),
        Metric::QueueDelay(of) => figure(link.queue_delay_ms, of),
        _ => None,
    }
}

/// The value of all flows together, of a metric that is no quantile.
fn value_of_flows(metric: Metric, flows: &[FlowFigures]) -> Option<f64> {
    let received = || flows.iter().map(|flow| flow.rate_bps(flow.received_bytes));
    let sum = |of: fn(&FlowFigures) -> u64| flows.iter().map(of).sum::<u64>();
    match metric {
        Metric::SentRate => Some(flows.iter().map(|flow| flow.rate_bps(flow.sent_bytes)).sum()),
        Metric::ReceivedRate => Some(received().sum()),
        Metric::Goodput => Some(flows.iter().map(|flow| flow.rate_bps(flow.goodput_bytes)).sum()),
        Metric::Fairness => jain(received()),
        // A target that is not known of one flow is not known of all.
        Metric::TargetRate => flows.iter().map(|flow| flow.target_rate_bps).sum(),
        Metric::Decisions => {
            flows.iter().filter_map(|flow| flow.decisions).reduce(|a, b| a + b).map(|all| all as f64)
        }
        Metric::Frames => Some(flows.iter().filter_map(|flow| flow.frames).sum::<u64>() as f64),
        Metric::RepairedFrames => {
            Some(streams_of(flows).map(|one| one.repair.repaired_frames).sum::<u64>() as f64)
        }
        Metric::LateFrames => Some(streams_of(flows).map(|one| one.late_frames).sum::<u64>() as f64),
        Metric::RequestedPackets => {
            Some(streams_of(flows).map(|one| one.repair.requested_packets).sum::<u64>() as f64)
        }
        Metric::RepairRate => {
            let bytes = |flow: &FlowFigures| flow.streams.values().map(|one| one.repair.bytes).sum();
            Some(flows.iter().map(|flow| flow.rate_bps(bytes(flow))).sum())
        }
        Metric::SentPackets => Some(sum(|flow| flow.sent_packets) as f64),
        Metric::ReceivedPackets => Some(sum(|flow| flow.received_packets) as f64),
        Metric::Loss => {
            let lost = sum(|flow| flow.lost_packets);
            ratio(lost, lost + sum(|flow| flow.arrived_packets))
        }
        Metric::Marked => ratio(sum(|flow| flow.marked_packets), sum(|flow| flow.received_packets)),
        _ => None,
    }
}

fn streams_of(flows: &[FlowFigures]) -> impl Iterator<Item = &StreamFigures> {
    flows.iter().flat_map(|flow| flow.streams.values())
}

/// The value of the given streams of each flow.
fn value_of_streams(metric: Metric, flows: &[FlowFigures], streams: &[Vec<Stream<'_>>]) -> Option<f64> {
    let all = || {
        let pairs = flows.iter().zip(streams);
        pairs.flat_map(|(flow, streams)| streams.iter().map(move |stream| (flow, stream)))
    };
    let known = || all().filter_map(|(flow, stream)| flow.streams.get(&stream.ssrc));
    let rate = |(flow, stream): (&FlowFigures, &Stream<'_>)| {
        flow.rate_bps(flow.streams.get(&stream.ssrc).map_or(0, |figures| figures.bytes))
    };
    match metric {
        Metric::ReceivedRate => Some(all().map(rate).sum()),
        Metric::StreamFairness => jain(all().map(|pair| rate(pair) / pair.1.priority())),
        Metric::Frames => Some(known().map(|stream| stream.frames).sum::<u64>() as f64),
        Metric::RepairedFrames => Some(known().map(|one| one.repair.repaired_frames).sum::<u64>() as f64),
        Metric::LateFrames => Some(known().map(|one| one.late_frames).sum::<u64>() as f64),
        Metric::RequestedPackets => Some(known().map(|one| one.repair.requested_packets).sum::<u64>() as f64),
        Metric::RepairRate => {
            let rate = |(flow, stream): (&FlowFigures, &Stream<'_>)| {
                flow.rate_bps(flow.streams.get(&stream.ssrc).map_or(0, |figures| figures.repair.bytes))
            };
            Some(all().map(rate).sum())
        }
        Metric::FrameDelay(of) => {
            let mut delays = ErrorHistogram::new();
            known().for_each(|stream| delays.merge(&stream.frame_delay));
            figure(Distribution::of(&delays), of)
        }
        _ => None,
    }
}

/// When `flows` together first received `rate` for a whole [`FlowFigures::STEP`], in milliseconds from the start of their window.
fn time_to_rate(flows: &[FlowFigures], rate: DataRate) -> Option<f64> {
    let step_s = FlowFigures::STEP.as_seconds();
    let most = flows.iter().map(|flow| flow.step_bytes.len()).max()?;
    let whole = (flows.first()?.seconds / step_s).floor().max(0.0) as usize;
    let wanted = rate.as_bps() as f64 * step_s;
    let received =
        |step: usize| flows.iter().filter_map(|flow| flow.step_bytes.get(step)).sum::<u64>() as f64 * 8.0;
    let first = (0..most.min(whole)).find(|&step| received(step) >= wanted)?;
    Some(FlowFigures::STEP.as_millis() * (first + 1) as f64)
}

/// Jain's index of fairness, `(Σx)² / (n·Σx²)`.
fn jain(rates: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum, squares) = rates.fold((0.0, 0.0, 0.0), |(count, sum, squares), rate| {
        (count + 1.0, sum + rate, squares + rate * rate)
    });
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_reached_at_the_end_of_the_first_full_step() {
        // 500, 750 and 1000 B in steps of half a second: 8, 12 and 16 kbit/s; the last step has 20 kbit/s.
        let mut step_bytes = vec![0; 18];
        step_bytes.splice(..3, [500, 750, 1000]);
        *step_bytes.last_mut().unwrap() = 1250;
        let flow =
            |seconds| FlowFigures { seconds, step_bytes: step_bytes.clone(), ..FlowFigures::default() };
        let when = |rate, seconds| time_to_rate(&[flow(seconds)], DataRate::from_bps(rate));
        assert_eq!(when(8_000, 9.0), Some(500.0));
        assert_eq!(when(8_001, 9.0), Some(1000.0));
        assert_eq!(when(16_000, 9.0), Some(1500.0));
        assert_eq!(when(20_000, 9.0), Some(9000.0));
        // The last step is not over.
        assert_eq!(when(20_000, 8.9), None);
        assert_eq!(when(20_001, 9.0), None);
        // Two of them together get there sooner.
        assert_eq!(time_to_rate(&[flow(9.0), flow(9.0)], DataRate::from_bps(16_000)), Some(500.0));
        assert_eq!(time_to_rate(&[], DataRate::from_bps(1)), None);
    }
}
