//! Expectations of a scenario: the figures that they need, and whether these are within the bounds.

use std::ops::Range;

use giusto_measure::ErrorHistogram;
use giusto_sim::record::{Check, Distribution, Figures, FlowFigures, Measurement};
use giusto_units::Timestamp;

use crate::{
    run::{
        build::{Built, BuiltFlow},
        media::{self, Stream},
    },
    scenario::{Expectation, FlowKind, FlowSpec, Metric, Scenario, Subject},
    statistics::{FlowWindow, Window},
};

/// The time in which a flow is measured.
pub(crate) fn window_of_flow(scenario: &Scenario, flow: &BuiltFlow) -> Range<Timestamp> {
    flow.start + scenario.warmup()..flow.stop
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

/// Each expectation that the run can meet, with the measurement that it needs.
pub(super) fn ask<'a>(scenario: &'a Scenario, built: &Built) -> Vec<(Asked<'a>, Measurement)> {
    let asked = scenario.expectations().iter().filter(|expectation| expectation.is_within(scenario.end()));
    asked.map(|expectation| Asked::new(scenario, built, expectation)).collect()
}

impl<'a> Asked<'a> {
    fn new(scenario: &'a Scenario, built: &Built, expectation: &'a Expectation) -> (Self, Measurement) {
        match &expectation.subject {
            Subject::Flows(ids) => {
                let mut flows: Vec<&BuiltFlow> = members(scenario, built, ids).collect();
                if expectation.metric.is("goodput") {
                    // Only what is acknowledged or made of frames has a goodput.
                    flows.retain(|flow| flow.backwards.is_some());
                }
                let windows = windows(scenario, expectation, &flows);
                let streams = flows.iter().map(|flow| streams(scenario.flows().get(flow.spec), expectation));
                let asked = Self { expectation, streams: streams.collect() };
                let flows = flows.iter().map(|flow| flow.forwards).zip(windows).collect();
                let metric = expectation.metric;
                let (delays, steps) = (metric.is_of_delays(), metric.is(Metric::TIME_TO_RATE));
                (asked, Measurement::Flows { flows, delays, steps })
            }
            Subject::Link(id) => {
                let whole = window_of_link(scenario);
                let window = expectation.from.unwrap_or(whole.start)..expectation.to.unwrap_or(whole.end);
                let place = scenario.links().iter().position(|link| link.id == *id);
                let delays = expectation.metric.is_of_delays();
                let link = place.and_then(|place| built.links.get(place)).copied().unwrap_or_default();
                (Self { expectation, streams: Vec::new() }, Measurement::Link { link, window, delays })
            }
        }
    }

    /// Whether the expectation is met.
    pub(super) fn check(&self, figures: &Figures) -> Check {
        let expectation = self.expectation;
        let window = self.window(figures);
        let stream = expectation.stream.as_deref();
        let is_empty = window.flows.iter().any(|flow| flow.figures.seconds <= 0.0);
        let value = expectation.metric.value(&expectation.subject, stream, &window).filter(|_| !is_empty);
        Check {
            name: expectation.title(),
            passed: expectation.accepts(value),
            value,
            bound: expectation.bound(),
            unit: expectation.metric.unit().name().to_owned(),
        }
    }

    fn window<'f>(&self, figures: &'f Figures) -> Window<'f> {
        match figures {
            Figures::Link(link) => Window { link: Some(link), ..Window::default() },
            Figures::Flows { flows, delay_ms, queue_delay_ms, frame_delay_ms } => {
                let flows = flows.iter().zip(&self.streams).map(|(flow, asked)| self.flow(flow, asked));
                let flows: Vec<_> = flows.collect();
                let of_stream = || {
                    let mut delays = ErrorHistogram::new();
                    let streams = flows.iter().flat_map(|flow| &flow.streams);
                    streams.for_each(|stream| delays.merge(&stream.frame_delay));
                    Distribution::of(&delays)
                };
                Window {
                    delay_ms: *delay_ms,
                    queue_delay_ms: *queue_delay_ms,
                    frame_delay_ms: self.expectation.stream.as_ref().map_or(*frame_delay_ms, |_| of_stream()),
                    wanted: self.expectation.rate,
                    flows,
                    link: None,
                }
            }
        }
    }

    fn flow<'f>(&self, figures: &'f FlowFigures, asked: &[Stream<'_>]) -> FlowWindow<'f> {
        let known = |stream: &Stream<'_>| figures.streams.get(&stream.ssrc);
        let streams = match self.expectation.stream {
            Some(_) => asked.iter().filter_map(known).collect(),
            None => figures.streams.values().collect(),
        };
        let rate = |stream| figures.rate_bps(known(stream).map_or(0, |stream| stream.bytes));
        let videos = asked.iter().map(|stream| (rate(stream), stream.priority())).collect();
        FlowWindow { figures, streams, videos }
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

/// The window of each flow: the time in which all of them send, since sums and indices are over one time. It may be empty.
fn windows(scenario: &Scenario, expectation: &Expectation, flows: &[&BuiltFlow]) -> Vec<Range<Timestamp>> {
    let mut from = expectation.from;
    if expectation.metric.is(Metric::TIME_TO_RATE) {
        // The time to a rate begins where the flows do, whatever the warm-up.
        from = from.or(flows.iter().map(|flow| flow.start).max());
    }
    // A controller has no target before its flow starts, nor after it stops.
    let is_target = expectation.metric.is("target-rate");
    let own = |flow: &&BuiltFlow| {
        let whole = window_of_flow(scenario, flow);
        let (start, end) = (from.unwrap_or(whole.start), expectation.to.unwrap_or(whole.end));
        if is_target { start.max(flow.start)..end.min(flow.stop) } else { start..end }
    };
    let start = flows.iter().map(|flow| own(flow).start).max();
    let end = flows.iter().map(|flow| own(flow).end).min();
    let common = start.zip(end).map(|(start, end)| start..end).unwrap_or_default();
    vec![common; flows.len()]
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
