//! Validation: every error of a scenario, found without building a simulation.

mod expectation;
mod media;

use std::collections::BTreeSet;

use giusto_pace::{Strategy, StrategyOptions};
use giusto_sim::{
    link::{LinkError, queue::QueueError},
    network::Network,
    packet::LinkId,
    traffic::Pattern,
};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    error::{At, Finding, KeyError, unknown},
    model::{FlowKind, FlowSpec, LinkSpec, QueueSpec, REVERSE, Scenario, Start, Transfers},
};

/// The maximum number of flows, all of `count` included: it bounds the memory of a run.
const MAX_FLOWS: u64 = 100_000;

/// Everything that is wrong with `scenario`.
///
/// Routes are checked only where all links and flows are valid, and expectations only where everything else is.
pub(super) fn scenario(scenario: &Scenario) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |key, text: String| found.push((At::new("", 0, key), text));
    let Scenario { name, duration, warmup, .. } = scenario;
    if !is_folder_name(name) {
        say("name", format!("name {name:?} cannot be the name of a folder: use letters, digits and spaces"));
    }
    if *duration <= TimeDelta::ZERO {
        say("duration", "duration must be above 0 s, such as \"60 s\"".to_owned());
    } else if warmup >= duration {
        say("warmup", format!("warmup must be below the duration, {duration}, found {warmup}"));
    }
    if scenario.links.is_empty() {
        say("link", "no link: add one, as [[link]] with id, from and to".to_owned());
    }
    if scenario.flows.is_empty() {
        say("flow", "no flow: add one, as [[flow]] with id and kind".to_owned());
    }
    links(&scenario.links, &mut found);
    flows(scenario, &mut found);
    if found.is_empty() {
        routes(scenario, &mut found);
    }
    if found.is_empty() {
        for (index, expectation) in scenario.expectations.iter().enumerate() {
            if let Err((key, text)) = expectation::validate(scenario, expectation) {
                found.push((At::new("expect", index, key), format!("expect of {text}")));
            }
        }
    }
    found
}

fn is_folder_name(name: &str) -> bool {
    let is_wrong = |c: char| c.is_control() || matches!(c, '/' | '\\');
    !name.contains(is_wrong) && !matches!(name.trim(), "" | "." | "..")
}

/// Ids are used in paths of settings and in tables.
fn id(id: &str) -> Result<(), String> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    if !id.is_empty() && id.chars().all(fits) {
        return Ok(());
    }
    Err(format!("\"{id}\" cannot be an id: use letters, digits, - and _"))
}

fn links(links: &[LinkSpec], found: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    let mut forward = 0_usize;
    for link in links {
        // In a file, both directions are one link.
        forward += usize::from(!link.id.ends_with(REVERSE));
        let mut say = |key, text: String| {
            let at = At::new("link", forward.saturating_sub(1), key);
            found.push((at, format!("link \"{}\": {text}", link.id)));
        };
        if let Err(text) = id(link.id.strip_suffix(REVERSE).unwrap_or(&link.id)) {
            say("id", text);
        } else if !seen.insert(&link.id) {
            say("id", "another link has this id: give each its own".to_owned());
        }
        if link.from == link.to {
            say("to", format!("it starts and ends at \"{}\": name two nodes", link.from));
        }
        if let Err(error) = link.config.validate() {
            let text = error.to_string();
            let key = match error {
                LinkError::Rate(_) => "rate",
                LinkError::Delay(_) => "jitter",
                _ if text.starts_with("duplication") => "duplication",
                _ => "loss",
            };
            say(key, text);
        }
        if let Err(error) = queue(&link.queue) {
            say("queue", format!("queue: {error}"));
        }
    }
}

fn queue(queue: &QueueSpec) -> Result<(), QueueError> {
    match queue {
        QueueSpec::DropTail(_) => Ok(()),
        QueueSpec::CoDel(config) => config.validate(),
        QueueSpec::FqCodel(config) => config.validate(),
        QueueSpec::Pie(config) => config.validate(),
        QueueSpec::Red(config) => config.validate(),
        QueueSpec::DualPi2(config) => config.validate(),
        QueueSpec::StepMark(config) => config.validate(),
    }
}

fn flows(scenario: &Scenario, found: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    let mut number = 0;
    for (index, flow) in scenario.flows.iter().enumerate() {
        let at = |key| At::new("flow", index, key);
        let mut say = |at, text: String| found.push((at, format!("flow \"{}\": {text}", flow.id)));
        if let FlowKind::Media(media) = &flow.kind
            && let Err((key, element, text)) = media::validate(media)
        {
            say(At { element, ..at(key) }, text);
        }
        if let Err((key, text)) = kind(flow) {
            say(at(key), text);
        }
        number += u64::from(flow.count);
        if number > MAX_FLOWS {
            say(at("count"), format!("at most {MAX_FLOWS} flows fit into a scenario, found {number} so far"));
            return;
        }
        if let Err(text) = id(&flow.id) {
            say(at("id"), text);
        } else if let Some(taken) = flow.instances().find(|id| !seen.insert(id.clone())) {
            say(at("id"), format!("another flow is called \"{taken}\": give each its own id"));
        }
        if flow.count == 0 {
            say(at("count"), "count: must be at least 1, found 0".to_owned());
        }
        let latest = match flow.start {
            Start::At(at) => at,
            Start::Uniform(span) => Timestamp::ZERO + span,
        };
        if scenario.duration > TimeDelta::ZERO && latest >= scenario.end() {
            say(at("start"), format!("start must be before the end of the run, {}", scenario.duration));
        } else if flow.stop.is_some_and(|stop| stop <= latest) {
            say(at("stop"), "stop must be after start".to_owned());
        }
        for (key, ids) in [("via", &flow.via), ("back", &flow.back)] {
            if let Some(id) = ids.iter().find(|id| !scenario.links.iter().any(|link| link.id == **id)) {
                let known: Vec<&str> = scenario.links.iter().map(|link| link.id.as_str()).collect();
                say(at(key), format!("{key}: {}", unknown("link", id, &known)));
            }
        }
    }
}

/// Checks what is particular to a kind of flow; [`media`] is apart.
fn kind(flow: &FlowSpec) -> Result<(), KeyError> {
    match &flow.kind {
        FlowKind::Source { departures, size, .. } => {
            let pattern = Pattern::new(departures.clone(), *size);
            pattern.validate().map_err(|error| ("kind", error.to_string()))
        }
        FlowKind::Paced { strategy, plan, machine, .. } => {
            if *strategy == Strategy::Unpaced && machine.send_cost <= TimeDelta::ZERO {
                let text =
                    "unpaced would send without end at one moment: set machine = { send-cost = \"10 us\" }";
                return Err(("strategy", text.to_owned()));
            }
            let schedule = strategy.build(plan, StrategyOptions::default());
            schedule.map(drop).map_err(|error| ("strategy", error.to_string()))
        }
        FlowKind::Tcp { settings, transfers } => {
            if let Transfers::Short { sizes: (min, max), starting_on, .. } = transfers {
                if min > max {
                    return Err(("size", format!("size runs from {min} B down to {max} B: swap them")));
                }
                if *starting_on > flow.count {
                    let count = flow.count;
                    return Err((
                        "starting-on",
                        format!("starting-on must be at most count, {count}, found {starting_on}"),
                    ));
                }
            }
            settings.validate().map_err(|error| (error.setting, error.to_string()))
        }
        FlowKind::Media(_) => Ok(()),
    }
}

/// Checks that every flow has its route, and its reverse route where it needs one.
fn routes(scenario: &Scenario, found: &mut Vec<Finding>) {
    let mut network = Network::default();
    for link in &scenario.links {
        let (from, to) = (network.node(&link.from), network.node(&link.to));
        network.add_link(&link.id, from, to);
    }
    for (index, flow) in scenario.flows.iter().enumerate() {
        let FlowSpec { from, to, via, back, .. } = flow;
        let forwards = if via.is_empty() { "from" } else { "via" };
        let mut result = route(&mut network, scenario, (from, to), via).map_err(|text| (forwards, text));
        if result.is_ok() && flow.kind.is_two_way() {
            let fix = "packets of the receiver need a way back: give the link duplex = true or a reverse";
            let reverse = route(&mut network, scenario, (to, from), back);
            result = reverse.map_err(|text| ("back", format!("{text}; {fix}")));
        }
        if let Err((key, text)) = result {
            found.push((At::new("flow", index, key), format!("flow \"{}\": no route: {text}", flow.id)));
        }
    }
}

fn route(
    network: &mut Network,
    scenario: &Scenario,
    (from, to): (&str, &str),
    via: &[String],
) -> Result<(), String> {
    let (start, end) = (network.node(from), network.node(to));
    if via.is_empty() {
        return network.route(start, end).map(drop).map_err(|error| error.to_string());
    }
    let index = |id: &String| scenario.links.iter().position(|link| link.id == *id).unwrap_or(usize::MAX);
    let links: Vec<LinkId> = via.iter().map(|id| LinkId(index(id) as u32)).collect();
    network.route_via(start, &links).map_err(|error| error.to_string())?;
    let reached = links.last().and_then(|last| network.links().get(last.0 as usize)).map(|ends| ends.to);
    match reached {
        Some(reached) if reached != end => Err(format!(
            "the named links lead to \"{}\", not to \"{to}\": add the missing links",
            network.name(reached)
        )),
        _ => Ok(()),
    }
}
