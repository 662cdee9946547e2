//! Whether the parts of a scenario fit together.

use std::collections::BTreeSet;

use giusto_sim::link::{LinkError, delay::DelayProfile, rate::RateProfile};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    AUDIO_ID, Expectation, FlowKind, FlowSpec, LinkSpec, Metric, REVERSE, Scenario, Start, Subject,
    Transfers,
    problem::{At, Finding, nearest},
    read::Change,
};
use crate::run::build;

/// The most flows that a scenario may have, each of `count` told apart: more would be a slip of the finger, and fill the memory.
const MAX_FLOWS: u64 = 100_000;

/// All that does not fit.
pub(super) fn scenario(scenario: &Scenario) -> Vec<Finding> {
    let mut found = Vec::new();
    if !names_a_folder(&scenario.name) {
        let text = format!(
            "name {:?} cannot be that of a folder: use letters, digits, spaces and what else a file name may have",
            scenario.name
        );
        found.push((At::new("", 0, "name"), text));
    }
    if scenario.duration <= TimeDelta::ZERO {
        found.push((
            At::new("", 0, "duration"),
            "duration must be above 0 s: write, for example, \"60 s\"".to_owned(),
        ));
    } else if scenario.warmup >= scenario.duration {
        let (warmup, duration) = (scenario.warmup, scenario.duration);
        let text =
            format!("warmup \"{warmup}\" leaves nothing of the duration \"{duration}\": make it shorter");
        found.push((At::new("", 0, "warmup"), text));
    }
    if scenario.links.is_empty() {
        found.push((At::new("", 0, "link"), "no link: add one, as [[link]] with id, from and to".to_owned()));
    }
    if scenario.flows.is_empty() {
        found.push((At::new("", 0, "flow"), "no flow: add one, as [[flow]] with id and kind".to_owned()));
    }
    links(&scenario.links, &mut found);
    flows(scenario, &mut found);
    if found.is_empty() {
        // Queues, routes and sources say themselves what they cannot be.
        if let Err(error) = build::simulation(scenario, scenario.seed) {
            found.push(error);
        }
    }
    if found.is_empty() {
        for (expectation, index) in scenario.expectations.iter().zip(0..) {
            if let Err((key, text)) = expect(scenario, expectation) {
                found.push((At::new("expect", index, key), format!("expect of {text}")));
            }
        }
    }
    found
}

/// Whether results can be kept in a folder of this name, and a table be headed by it.
fn names_a_folder(name: &str) -> bool {
    let apart = |c: char| c.is_control() || matches!(c, '/' | '\\');
    !name.contains(apart) && !matches!(name.trim(), "" | "." | "..")
}

/// The number of a link in its file, which knows the two directions as one.
pub(crate) fn number_in_file(links: &[LinkSpec], index: usize) -> usize {
    let upto = links.get(..=index).unwrap_or(links);
    upto.iter().filter(|link| !link.id.ends_with(REVERSE)).count().saturating_sub(1)
}

fn links(links: &[LinkSpec], found: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    for (index, link) in links.iter().enumerate() {
        let mut say = |key, what: String| {
            let at = At::new("link", number_in_file(links, index), key);
            found.push((at, format!("link \"{}\": {what}", link.id)));
        };
        if let Err(what) = named(link.id.strip_suffix(REVERSE).unwrap_or(&link.id)) {
            say("id", what);
        } else if !seen.insert(&link.id) {
            say("id", "there is another link of this id: give each its own".to_owned());
        }
        if link.from == link.to {
            say("to", format!("it begins and ends at \"{}\": name two nodes", link.from));
        }
        // All but the queue, which is made where it is needed.
        match check_config(link) {
            Err(error @ LinkError::Rate(_)) => say("rate", error.to_string()),
            Err(error @ LinkError::Delay(_)) => say("jitter", error.to_string()),
            Err(error) => {
                let key = if error.to_string().starts_with("duplication") { "duplication" } else { "loss" };
                say(key, error.to_string());
            }
            Ok(()) => {}
        }
    }
}

fn check_config(link: &LinkSpec) -> Result<(), LinkError> {
    use giusto_sim::{
        link::{
            Link,
            queue::{DropTail, Limit},
        },
        packet::LinkId,
    };
    Link::new(LinkId(0), &link.config, Box::new(DropTail::new(Limit::Unlimited)), (0, &link.id)).map(drop)
}

fn flows(scenario: &Scenario, found: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    let mut number = 0;
    for (index, flow) in scenario.flows.iter().enumerate() {
        if let FlowKind::Media(media) = &flow.kind
            && let Err((key, video, what)) = media.check()
        {
            let at = At::new("flow", index, key).element(video);
            found.push((at, format!("flow \"{}\": {what}", flow.id)));
        }
        let mut say = |key, what: String| {
            found.push((At::new("flow", index, key), format!("flow \"{}\": {what}", flow.id)));
        };
        number += u64::from(flow.count);
        if number > MAX_FLOWS {
            say("count", format!("{number} flows so far, and at most {MAX_FLOWS} fit in: give fewer"));
            return;
        }
        if let Err(what) = named(&flow.id) {
            say("id", what);
        } else if let Some(taken) = flow.instances().find(|id| !seen.insert(id.clone())) {
            say("id", format!("there is another flow \"{taken}\": give each its own id"));
        }
        if flow.count == 0 {
            say("count", "a count is 1 or more: leave the flow out".to_owned());
        }
        if let FlowKind::Tcp {
            transfers: Transfers::Short { sizes: (least, most), starting_on, .. }, ..
        } = &flow.kind
        {
            if least > most {
                say("size", format!("size runs from {least} B down to {most} B: exchange them"));
            }
            if *starting_on > flow.count {
                let count = flow.count;
                say(
                    "starting-on",
                    format!("starting-on is {starting_on}, but there are {count}: lower it, or raise count"),
                );
            }
        }
        let end = scenario.end();
        let latest = match flow.start {
            Start::At(at) => at,
            Start::Uniform(span) => Timestamp::ZERO + span,
        };
        if latest >= end {
            say(
                "start",
                format!(
                    "it begins after the end of the run (\"{}\"): let it begin earlier",
                    scenario.duration
                ),
            );
        } else if flow.stop.is_some_and(|stop| stop <= latest) {
            say("stop", "it stops before it starts: let it stop later".to_owned());
        }
        for (key, ids) in [("via", &flow.via), ("back", &flow.back)] {
            if let Some(id) = ids.iter().find(|id| !scenario.links.iter().any(|link| link.id == **id)) {
                let known: Vec<&str> = scenario.links.iter().map(|link| link.id.as_str()).collect();
                say(key, unknown("link", id, &known));
            }
        }
    }
}

/// Whether `id` can stand in a path and a table.
pub(super) fn named(id: &str) -> Result<(), String> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    if !id.is_empty() && id.chars().all(fits) {
        return Ok(());
    }
    Err(format!("\"{id}\" is no id: use letters, digits, - and _"))
}

fn unknown(what: &str, id: &str, known: &[&str]) -> String {
    let hint = nearest(id, known).map_or_else(String::new, |near| format!("did you mean \"{near}\"? "));
    format!("no {what} is called \"{id}\": {hint}known are {}", known.join(", "))
}

/// Whether an expectation is of something, and can be met.
fn expect(scenario: &Scenario, expectation: &Expectation) -> Result<(), (&'static str, String)> {
    let Expectation { subject, metric, min, max, from, to, .. } = expectation;
    let metric = *metric;
    match subject {
        Subject::Flows(ids) => {
            let mut known: Vec<String> = scenario.flows.iter().map(|flow| flow.id.clone()).collect();
            known.extend(scenario.flows.iter().filter(|flow| flow.count > 1).flat_map(FlowSpec::instances));
            if let Some(id) = ids.iter().find(|id| !known.contains(id)) {
                let known: Vec<&str> = scenario.flows.iter().map(|flow| flow.id.as_str()).collect();
                return Err(("flow", format!("flow \"{id}\": {}", unknown("flow", id, &known))));
            }
            if !metric.is_of_flows() {
                return Err((
                    "metric",
                    format!("flow \"{}\": {} is of links", ids.join(", "), metric.name()),
                ));
            }
            let named = |id: &String| {
                let mut flows = scenario.flows.iter();
                flows
                    .find(|flow| flow.id == *id || (flow.count > 1 && flow.instances().any(|one| one == *id)))
            };
            let adapts = |flow: &FlowSpec| matches!(flow.kind, FlowKind::Media(_));
            if metric.is_of_media()
                && let Some(flow) = ids.iter().filter_map(named).find(|flow| !adapts(flow))
            {
                let (name, kind) = (metric.name(), flow.kind.name());
                let text = format!("flow \"{}\": {name} is of kind media, and this is {kind}", flow.id);
                return Err(("metric", text));
            }
            let flows: Vec<&FlowSpec> = ids.iter().filter_map(named).collect();
            if let Some(stream) = &expectation.stream {
                for flow in &flows {
                    stream_of(flow, stream, metric)
                        .map_err(|(key, text)| (key, format!("flow \"{}\": {text}", flow.id)))?;
                }
            }
            let videos = |flow: &&FlowSpec| match &flow.kind {
                FlowKind::Media(media) => media.videos.len() * flow.count as usize,
                _ => 0,
            };
            if metric == Metric::StreamFairness && flows.iter().map(videos).sum::<usize>() < 2 {
                let text = "stream-fairness is between videos, and there are not two: name flows with more";
                return Err(("metric", format!("flow \"{}\": {text}", ids.join(", "))));
            }
        }
        Subject::Link(id) => {
            let known: Vec<&str> = scenario.links.iter().map(|link| link.id.as_str()).collect();
            let Some(link) = scenario.links.iter().find(|link| link.id == *id) else {
                return Err(("link", format!("link \"{id}\": {}", unknown("link", id, &known))));
            };
            if !metric.is_of_links() {
                return Err(("metric", format!("link \"{id}\": {} is of flows", metric.name())));
            }
            if metric == Metric::Utilisation && link.config.rate == RateProfile::Unlimited {
                return Err((
                    "metric",
                    format!("link \"{id}\": it has no rate, so it is never used up: give it one"),
                ));
            }
        }
    }
    let say = |key, what: &str| Err((key, format!("{}: {what}", expectation.title())));
    if (metric == Metric::TimeToRate) != expectation.rate.is_some() {
        return say("metric", "a rate that is to be reached goes with time-to-rate, and only with it");
    }
    if min.is_none() && max.is_none() {
        return say("metric", "no bounds: give min, max or better both");
    }
    if min.zip(*max).is_some_and(|(min, max)| min > max) {
        return say("min", "min lies above max: exchange them");
    }
    let (from, to) = (from.unwrap_or(Timestamp::ZERO), to.unwrap_or(scenario.end()));
    if to > scenario.end() {
        return say("to", "it ends after the run does: let it end earlier");
    }
    if from >= to {
        return say("from", "it begins after it ends: let it begin earlier");
    }
    Ok(())
}

/// Whether a flow has this stream, and the stream this metric.
fn stream_of(flow: &FlowSpec, stream: &str, metric: Metric) -> Result<(), (&'static str, String)> {
    let FlowKind::Media(media) = &flow.kind else {
        let kind = flow.kind.name();
        return Err(("stream", format!("streams are of kind media, and this is {kind}: leave stream out")));
    };
    let videos = media.videos.iter().map(|video| video.id.as_str());
    let known: Vec<&str> = videos.chain(media.audio.map(|_| AUDIO_ID)).collect();
    if !known.contains(&stream) {
        return Err(("stream", unknown("stream", stream, &known)));
    }
    if !metric.is_of_streams() {
        let those = Metric::ALL.into_iter().filter(|metric| metric.is_of_streams()).map(Metric::name);
        let those = those.collect::<Vec<_>>().join(", ");
        return Err(("metric", format!("{} is not known of a stream: use one of {those}", metric.name())));
    }
    Ok(())
}

/// Puts a change into the steps of its link; what cannot be is told with the key that says it.
pub(super) fn change(
    links: &mut [LinkSpec],
    duration: TimeDelta,
    change: &Change,
) -> Result<(), (&'static str, String)> {
    let Change { at, link: id, rate, delay } = change;
    let Some(link) = links.iter().position(|link| link.id == *id) else {
        let known: Vec<&str> = links.iter().map(|link| link.id.as_str()).collect();
        return Err(("link", unknown("link", id, &known)));
    };
    let Some(link) = links.get_mut(link) else { return Ok(()) };
    if *at >= Timestamp::ZERO + duration {
        return Err((
            "at",
            format!("it comes after the end of the run (\"{duration}\"): let it come earlier"),
        ));
    }
    if *at == Timestamp::ZERO {
        return Err(("at", "it comes at the start: let it come later, or let the link begin so".to_owned()));
    }
    if rate.is_none() && delay.is_none() {
        return Err(("at", "nothing changes: give a rate or a delay".to_owned()));
    }
    if let Some(rate) = rate {
        let steps =
            rate_steps(&link.config.rate).map_err(|what| ("rate", format!("link \"{id}\" {what}")))?;
        link.config.rate = RateProfile::Steps { steps: with_step(steps, *at, *rate), period: None };
    }
    if let Some(delay) = delay {
        let steps = with_step(link.config.delay.as_steps().to_vec(), *at, *delay);
        link.config.delay = DelayProfile::steps(steps).map_err(|error| ("delay", error.to_string()))?;
    }
    Ok(())
}

fn rate_steps(rate: &RateProfile) -> Result<Vec<(Timestamp, DataRate)>, &'static str> {
    match rate {
        RateProfile::Fixed(rate) => Ok(vec![(Timestamp::ZERO, *rate)]),
        RateProfile::Steps { steps, period: None } => Ok(steps.clone()),
        RateProfile::Unlimited => Err("has no rate that could change: give it one to begin with"),
        _ => Err("repeats its rates: change a fixed rate, or steps without a period"),
    }
}

/// The steps with one more; one of the same moment is replaced.
fn with_step<T>(mut steps: Vec<(Timestamp, T)>, at: Timestamp, value: T) -> Vec<(Timestamp, T)> {
    let place = steps.partition_point(|(moment, _)| *moment < at);
    match steps.get_mut(place).filter(|(moment, _)| *moment == at) {
        Some(step) => step.1 = value,
        None => steps.insert(place, (at, value)),
    }
    steps
}
