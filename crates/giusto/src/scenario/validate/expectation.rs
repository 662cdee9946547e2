//! Validation of expectations.

use giusto_sim::link::rate::RateProfile;
use giusto_units::Timestamp;

use crate::scenario::{
    error::{KeyError, unknown},
    expectation::{Expectation, Metric, Subject},
    media::{AUDIO_ID, MediaSpec},
    model::{FlowKind, FlowSpec, Scenario},
};

/// Checks that an expectation names something that exists, a metric that it has, and bounds that can be met.
pub(super) fn validate(scenario: &Scenario, expectation: &Expectation) -> Result<(), KeyError> {
    let Expectation { subject, metric, min, max, from, to, rate, .. } = expectation;
    match subject {
        Subject::Flows(ids) => flows(scenario, expectation, ids)
            .map_err(|(key, text)| (key, format!("flow \"{}\": {text}", ids.join(", "))))?,
        Subject::Link(id) => {
            link(scenario, id, *metric).map_err(|(key, text)| (key, format!("link \"{id}\": {text}")))?;
        }
    }
    let say = |key, text: &str| Err((key, format!("{}: {text}", expectation.title())));
    if (*metric == Metric::TimeToRate) != rate.is_some() {
        return say("metric", "time-to-rate needs a rate, and no other metric has one");
    }
    if min.is_none() && max.is_none() {
        return say("metric", "no bounds: add min, max or both");
    }
    if min.zip(*max).is_some_and(|(min, max)| min > max) {
        return say("min", "min is above max: swap them");
    }
    let (from, to) = (from.unwrap_or(Timestamp::ZERO), to.unwrap_or(scenario.end()));
    if to > scenario.end() {
        return say("to", &format!("to must not be after the end of the run, {}", scenario.duration));
    }
    if from >= to {
        return say("from", "from must be before to");
    }
    Ok(())
}

fn flows(scenario: &Scenario, expectation: &Expectation, ids: &[String]) -> Result<(), KeyError> {
    let metric = expectation.metric;
    let find = |id: &String| {
        let is =
            |flow: &&FlowSpec| flow.id == *id || (flow.count > 1 && flow.instances().any(|one| one == *id));
        scenario.flows.iter().find(is)
    };
    let known: Vec<&str> = scenario.flows.iter().map(|flow| flow.id.as_str()).collect();
    let mut videos = 0;
    for id in ids {
        let flow = find(id).ok_or_else(|| ("flow", unknown("flow", id, &known)))?;
        if !metric.is_of_flows() {
            return Err(("metric", format!("{} is a metric of links", metric.name())));
        }
        let (media, kind) = (media(flow), flow.kind.name());
        if metric.is_of_media() && media.is_none() {
            return Err(("metric", format!("{} needs a flow of kind media, found {kind}", metric.name())));
        }
        videos += media.map_or(0, |media| media.videos.len() * flow.count as usize);
        if let Some(id) = &expectation.stream {
            let text = || format!("only flows of kind media have streams, found {kind}: remove stream");
            stream(media.ok_or_else(|| ("stream", text()))?, id, metric)?;
        }
    }
    if metric == Metric::StreamFairness && videos < 2 {
        return Err(("metric", format!("stream-fairness needs at least 2 videos, found {videos}")));
    }
    Ok(())
}

fn media(flow: &FlowSpec) -> Option<&MediaSpec> {
    if let FlowKind::Media(media) = &flow.kind { Some(media) } else { None }
}

fn stream(media: &MediaSpec, id: &str, metric: Metric) -> Result<(), KeyError> {
    let videos = media.videos.iter().map(|video| video.id.as_str());
    let known: Vec<&str> = videos.chain(media.audio.map(|_| AUDIO_ID)).collect();
    if !known.contains(&id) {
        return Err(("stream", unknown("stream", id, &known)));
    }
    if !metric.is_of_streams() {
        let those = Metric::all().filter(|metric| metric.is_of_streams()).map(Metric::name);
        let those = those.collect::<Vec<_>>().join(", ");
        return Err(("metric", format!("{} is not a metric of streams: use one of {those}", metric.name())));
    }
    Ok(())
}

fn link(scenario: &Scenario, id: &str, metric: Metric) -> Result<(), KeyError> {
    let known: Vec<&str> = scenario.links.iter().map(|link| link.id.as_str()).collect();
    let Some(link) = scenario.links.iter().find(|link| link.id == *id) else {
        return Err(("link", unknown("link", id, &known)));
    };
    if !metric.is_of_links() {
        return Err(("metric", format!("{} is a metric of flows", metric.name())));
    }
    if metric == Metric::Utilisation && link.config.rate == RateProfile::Unlimited {
        return Err(("metric", "an unlimited link has no utilisation: set its rate".to_owned()));
    }
    Ok(())
}
