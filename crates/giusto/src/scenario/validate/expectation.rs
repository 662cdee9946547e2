//! Validation of expectations.

use giusto_sim::link::rate::RateProfile;
use giusto_units::Timestamp;

use crate::scenario::{
    error::{KeyError, check, known},
    expectation::{Expectation, Metric, Subject},
    media::{AUDIO_ID, MediaSpec},
    model::{FlowKind, FlowSpec, Scenario},
};

/// Checks that an expectation names something that exists, a metric that it has, and bounds that can be met.
pub(super) fn validate(scenario: &Scenario, expectation: &Expectation) -> Result<(), KeyError> {
    let (result, owner) = match &expectation.subject {
        Subject::Flows(ids) => (flows(scenario, expectation, ids), format!("flow \"{}\"", ids.join(", "))),
        Subject::Link(id) => (link(scenario, id, expectation.metric), format!("link \"{id}\"")),
    };
    result.map_err(|(key, text)| (key, format!("{owner}: {text}")))?;
    bounds(scenario, expectation).map_err(|(key, text)| (key, format!("{}: {text}", expectation.title())))
}

fn bounds(scenario: &Scenario, expectation: &Expectation) -> Result<(), KeyError> {
    let Expectation { metric, min, max, from, to, rate, .. } = expectation;
    let text = format_args!("time-to-rate needs a rate, and no other metric has one");
    check(metric.is(Metric::TIME_TO_RATE) == rate.is_some(), "metric", text)?;
    limits(*min, *max)?;
    let end = format!("the end of the run, {}", scenario.duration);
    let before = if to.is_some() { "to" } else { &end };
    let (from, to) = (from.unwrap_or(Timestamp::ZERO), to.unwrap_or(scenario.end()));
    check(to <= scenario.end(), "to", format_args!("to must not be after {end}"))?;
    check(from < to, "from", format_args!("from must be before {before}"))
}

/// Checks that there are bounds, and that they can be met.
pub(super) fn limits(min: Option<f64>, max: Option<f64>) -> Result<(), KeyError> {
    let text = format_args!("no bounds: add min, max or both");
    check(min.is_some() || max.is_some(), "metric", text)?;
    let text = format_args!("min is above max: swap them");
    check(min.zip(max).is_none_or(|(min, max)| min <= max), "min", text)
}

fn flows(scenario: &Scenario, expectation: &Expectation, ids: &[String]) -> Result<(), KeyError> {
    let (metric, name) = (expectation.metric, expectation.metric.name());
    let is_called = |flow: &FlowSpec, id: &String| {
        flow.id == *id || (flow.count > 1 && flow.instances().any(|one| one == *id))
    };
    let all: Vec<&str> = scenario.flows.iter().map(|flow| flow.id.as_str()).collect();
    let mut videos = 0;
    for id in ids {
        let Some(flow) = scenario.flows.iter().find(|flow| is_called(flow, id)) else {
            return known("flow", id, &all).map_err(|text| ("flow", text));
        };
        check(metric.is_of_flows(), "metric", format_args!("{name} is a metric of links"))?;
        let kind = flow.kind.name();
        if let FlowKind::Media(media) = &flow.kind {
            videos += media.videos.len() * flow.count as usize;
            expectation.stream.as_ref().map_or(Ok(()), |id| stream(media, id, metric))?;
        } else {
            let text = format_args!("{name} needs a flow of kind media, found {kind}");
            check(!metric.is_of_media(), "metric", text)?;
            let text = format_args!("only flows of kind media have streams, found {kind}: remove stream");
            check(expectation.stream.is_none(), "stream", text)?;
        }
    }
    let text = format_args!("stream-fairness needs at least 2 videos, found {videos}");
    check(!metric.is("stream-fairness") || videos >= 2, "metric", text)
}

fn stream(media: &MediaSpec, id: &str, metric: Metric) -> Result<(), KeyError> {
    let videos = media.videos.iter().map(|video| video.id.as_str());
    let all: Vec<&str> = videos.chain(media.audio.map(|_| AUDIO_ID)).collect();
    known("stream", id, &all).map_err(|text| ("stream", text))?;
    let those = Metric::all().filter(|metric| metric.is_of_streams()).map(Metric::name);
    let those = those.collect::<Vec<_>>().join(", ");
    let text = format_args!("{} is not a metric of streams: use one of {those}", metric.name());
    check(metric.is_of_streams(), "metric", text)
}

fn link(scenario: &Scenario, id: &str, metric: Metric) -> Result<(), KeyError> {
    let all: Vec<&str> = scenario.links.iter().map(|link| link.id.as_str()).collect();
    known("link", id, &all).map_err(|text| ("link", text))?;
    check(metric.is_of_links(), "metric", format_args!("{} is a metric of flows", metric.name()))?;
    let unlimited =
        scenario.links.iter().any(|link| link.id == id && link.config.rate == RateProfile::Unlimited);
    let text = format_args!("an unlimited link has no utilisation: set its rate");
    check(!unlimited || !metric.is("utilisation"), "metric", text)
}
