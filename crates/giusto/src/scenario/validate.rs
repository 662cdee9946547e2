//! Validation: every error of a scenario, found without building a simulation.

pub(super) mod city;
mod expectation;
mod media;
#[cfg(feature = "monitor")]
pub(super) mod monitor;

use std::collections::BTreeSet;

use giusto_pace::{Strategy, StrategyOptions};
use giusto_sim::{
    link::{LinkError, rate::RateProfile},
    network::Network,
    packet::LinkId,
    traffic::{Pattern, PatternError},
};
use giusto_units::{TimeDelta, Timestamp};

use super::{
    change::{self, Change},
    error::{self, At, Finding, KeyError, check},
    model::{FlowKind, FlowSpec, LinkSpec, MediumSpec, Purpose, REVERSE, Scenario, Start, Transfers},
};

/// The maximum number of flows, all of `count` included: it bounds the memory of a run.
const MAX_FLOWS: u64 = 100_000;

/// The scenario with its changes, or everything that is wrong with it.
pub(super) fn scenario(
    mut scenario: Scenario,
    changes: &[Change],
    purpose: Purpose,
) -> Result<Scenario, Vec<Finding>> {
    let mut found = change::apply(&mut scenario.links, scenario.duration, changes);
    found.extend(findings(&scenario, purpose));
    if found.is_empty() { Ok(scenario) } else { Err(found) }
}

/// Everything that is wrong with `scenario`.
///
/// Routes are checked only where all links and flows are valid, and expectations only where everything else is, of a simulation.
fn findings(scenario: &Scenario, purpose: Purpose) -> Vec<Finding> {
    let Scenario { name, duration, warmup, links, flows, .. } = scenario;
    let (lasts, needs_no_flow) = (*duration > TimeDelta::ZERO, purpose == Purpose::Links);
    let checks = [
        check(
            is_folder_name(name),
            "name",
            format_args!("name {name:?} cannot be the name of a folder: use letters, digits and spaces"),
        ),
        check(lasts, "duration", format_args!("duration must be above 0 s, such as \"60 s\"")),
        check(
            !lasts || warmup < duration,
            "warmup",
            format_args!("warmup must be below the duration, {duration}, found {warmup}"),
        ),
        check(!links.is_empty(), "link", format_args!("no link: add one, as [[link]] with id, from and to")),
        check(
            needs_no_flow || !flows.is_empty(),
            "flow",
            format_args!("no flow: add one, as [[flow]] with id and kind"),
        ),
    ];
    let mut found = Vec::new();
    found.extend(failed(checks).map(|(key, text)| (At::new("", 0, key), text)));
    mediums(scenario, &mut found);
    self::links(links, &mut found);
    self::flows(scenario, &mut found);
    if found.is_empty() {
        routes(scenario, &mut found);
    }
    // Links in real time judge none.
    if found.is_empty() && purpose != Purpose::Links {
        for (index, expectation) in scenario.expectations.iter().enumerate() {
            if purpose == Purpose::Retimed && !expectation.is_within(scenario.end()) {
                continue;
            }
            let checks = [expectation::validate(scenario, expectation)];
            let of = |(key, text)| (At::new("expect", index, key), format!("expect of {text}"));
            found.extend(failed(checks).map(of));
        }
    }
    // In a file, both directions of a link are one.
    let forward: BTreeSet<String> = found.iter().map(|(_, text)| text.clone()).collect();
    found.retain(|(_, text)| !text.contains(REVERSE) || !forward.contains(&text.replace(REVERSE, "")));
    found
}

fn failed<const N: usize>(checks: [Result<(), KeyError>; N]) -> impl Iterator<Item = KeyError> {
    checks.into_iter().filter_map(Result::err)
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
        let LinkSpec { id, from, to, config, queue, .. } = link;
        // In a file, both directions are one link.
        forward += usize::from(!id.ends_with(REVERSE));
        let checks = [
            self::id(id.strip_suffix(REVERSE).unwrap_or(id)).map_err(|text| ("id", text)),
            check(seen.insert(id), "id", format_args!("another link has this id: give each its own")),
            check(from != to, "to", format_args!("it starts and ends at \"{from}\": name two nodes")),
            config.validate().map_err(|error| {
                let text = error.to_string();
                let key = match error {
                    LinkError::Rate(_) => "rate",
                    LinkError::Delay(_) => "jitter",
                    _ if text.starts_with("duplication") => "duplication",
                    _ if text.starts_with("corruption") => "corruption",
                    _ => "loss",
                };
                (key, text)
            }),
            queue.discipline().validate().map_err(|error| ("queue", format!("queue: {error}"))),
        ];
        let at = |key| At::new("link", forward.saturating_sub(1), key);
        found.extend(failed(checks).map(|(key, text)| (at(key), format!("link \"{id}\": {text}"))));
    }
}

/// Checks the media and their use by links.
fn mediums(scenario: &Scenario, found: &mut Vec<Finding>) {
    let known: Vec<&str> = scenario.mediums.iter().map(|medium| medium.id.as_str()).collect();
    for (index, MediumSpec { id, config }) in scenario.mediums.iter().enumerate() {
        let twice = known.iter().take(index).any(|other| other == id);
        let checks = [
            self::id(id).map_err(|text| ("id", text)),
            check(!twice, "id", format_args!("another medium has this id: give each its own")),
            config.validate().map_err(|error| ("kind", error.to_string())),
        ];
        let finding = |(key, text)| (At::new("medium", index, key), format!("medium \"{id}\": {text}"));
        found.extend(failed(checks).map(finding));
    }
    let mut forward = 0_usize;
    for link in &scenario.links {
        forward += usize::from(!link.id.ends_with(REVERSE));
        let Some(medium) = &link.medium else { continue };
        let checks = [
            error::known("medium", &medium.id, &known).map_err(|text| ("medium", text)),
            link.station().map(drop).map_err(|text| ("rate", text)),
        ];
        let at = |key| At::new("link", forward.saturating_sub(1), key);
        let finding = |(key, text)| (at(key), format!("link \"{}\": {text}", link.id));
        found.extend(failed(checks).map(finding));
    }
}

fn flows(scenario: &Scenario, found: &mut Vec<Finding>) {
    let known: Vec<&str> = scenario.links.iter().map(|link| link.id.as_str()).collect();
    let links = |key, ids: &[String]| {
        let mut unknown = ids.iter().filter_map(|id| error::known("link", id, &known).err());
        unknown.next().map_or(Ok(()), |text| Err((key, format!("{key}: {text}"))))
    };
    let mut seen = BTreeSet::new();
    let mut number = 0;
    for (index, flow) in scenario.flows.iter().enumerate() {
        let FlowSpec { id, count, start, stop, via, back, .. } = flow;
        let at = |key| At::new("flow", index, key);
        let of = |text: String| format!("flow \"{id}\": {text}");
        if let FlowKind::Media(media) = &flow.kind
            && let Err((key, element, text)) = media::validate(media)
        {
            found.push((At { element, ..at(key) }, of(text)));
        }
        number += u64::from(*count);
        let is_few = number <= MAX_FLOWS;
        let twice = if is_few { flow.instances().find(|id| !seen.insert(id.clone())) } else { None };
        let latest = match start {
            Start::At(at) => *at,
            Start::Uniform(span) => Timestamp::ZERO + *span,
        };
        let starts = scenario.duration <= TimeDelta::ZERO || latest < scenario.end();
        let checks = [
            kind(flow),
            check(
                is_few,
                "count",
                format_args!("at most {MAX_FLOWS} flows fit into a scenario, found {number} so far"),
            ),
            self::id(id).map_err(|text| ("id", text)),
            twice.map_or(Ok(()), |taken| {
                Err(("id", format!("another flow is called \"{taken}\": give each its own id")))
            }),
            check(*count > 0, "count", format_args!("count: must be at least 1, found 0")),
            check(
                starts,
                "start",
                format_args!("start must be before the end of the run, {}", scenario.duration),
            ),
            check(
                !starts || stop.is_none_or(|stop| stop > latest),
                "stop",
                format_args!("stop must be after start"),
            ),
            links("via", via),
            links("back", back),
        ];
        found.extend(failed(checks).map(|(key, text)| (at(key), of(text))));
        if !is_few {
            return;
        }
    }
}

/// Checks what is particular to a kind of flow; [`media`] is apart.
fn kind(flow: &FlowSpec) -> Result<(), KeyError> {
    match &flow.kind {
        FlowKind::Source { departures, size, .. } => {
            let pattern = Pattern::new(departures.clone(), *size);
            let key = |error: &PatternError| match error {
                PatternError::Unlimited | PatternError::Fast { .. } => "rate",
                PatternError::Period => "on",
                _ => "size",
            };
            pattern.validate().map_err(|error| (key(&error), error.to_string()))
        }
        FlowKind::Paced { strategy, plan, machine, .. } => {
            let takes_time = *strategy != Strategy::Unpaced || machine.send_cost > TimeDelta::ZERO;
            let fix = "set machine = { send-cost = \"10 us\" }";
            let text = format_args!("unpaced would send without end at one moment: {fix}");
            check(takes_time, "strategy", text)?;
            let schedule = strategy.build(plan, StrategyOptions::default());
            schedule.map(drop).map_err(|error| ("strategy", error.to_string()))
        }
        FlowKind::Tcp { settings, transfers } => {
            if let Transfers::Short { sizes: (min, max), starting_on, .. } = transfers {
                let text = format_args!("size runs from {min} B down to {max} B: swap them");
                check(min <= max, "size", text)?;
                let count = flow.count;
                let text = format_args!("starting-on must be at most count, {count}, found {starting_on}");
                check(*starting_on <= count, "starting-on", text)?;
            }
            settings.validate().map_err(|error| (error.setting, error.to_string()))
        }
        FlowKind::Media(_) => Ok(()),
    }
}

/// Checks that every flow has its route, and its reverse route where it needs one, and that its packets take time.
fn routes(scenario: &Scenario, found: &mut Vec<Finding>) {
    let mut network = Network::default();
    for link in &scenario.links {
        let (from, to) = (network.node(&link.from), network.node(&link.to));
        network.add_link(&link.id, from, to);
    }
    for (index, flow) in scenario.flows.iter().enumerate() {
        let FlowSpec { from, to, via, back, .. } = flow;
        let forwards = if via.is_empty() { "from" } else { "via" };
        let mut result = route(&mut network, scenario, from, to, via).map_err(|text| (forwards, text));
        if let Ok(forward) = &mut result
            && flow.kind.is_two_way()
        {
            let fix = "packets of the receiver need a way back: give the link duplex = true or a reverse";
            match route(&mut network, scenario, to, from, back) {
                Ok(reverse) => forward.extend(reverse),
                Err(text) => result = Err(("back", format!("{text}; {fix}"))),
            }
        }
        let of = |key, text| (At::new("flow", index, key), format!("flow \"{}\": {text}", flow.id));
        match result {
            Err((key, text)) => found.push(of(key, format!("no route: {text}"))),
            Ok(links) if has_no_pause(&flow.kind) && takes_no_time(scenario, &links) => {
                let text = "it would send without end at one moment, because its route takes no time";
                found.push(of("kind", format!("{text}: give a link of it a rate or a delay")));
            }
            Ok(_) => {}
        }
    }
}

/// Whether a flow sends as soon as there is an answer, again and again.
fn has_no_pause(kind: &FlowKind) -> bool {
    match kind {
        FlowKind::Tcp { transfers: Transfers::Unlimited, .. } => true,
        FlowKind::Tcp { transfers: Transfers::Short { idle, persistent, .. }, .. } => {
            *idle <= TimeDelta::ZERO && !persistent
        }
        _ => false,
    }
}

/// Whether there is a moment at which a packet crosses all of `links` at once.
fn takes_no_time(scenario: &Scenario, links: &[LinkId]) -> bool {
    let links = || links.iter().filter_map(|id| scenario.links.get(id.0 as usize));
    let is_instant = |link: &LinkSpec| {
        link.config.rate == RateProfile::Unlimited && link.config.jitter.is_none() && link.medium.is_none()
    };
    let has_delay = |link: &LinkSpec, now: Timestamp| {
        let steps = link.config.delay.as_steps();
        let latest = steps.iter().take_while(|(from, _)| *from <= now).last();
        latest.or(steps.first()).is_some_and(|(_, delay)| *delay > TimeDelta::ZERO)
    };
    let changes = links().flat_map(|link| link.config.delay.as_steps()).map(|(from, _)| *from);
    let mut moments = changes.filter(|from| *from < scenario.end());
    links().all(is_instant) && moments.any(|now| links().all(|link| !has_delay(link, now)))
}

fn route(
    network: &mut Network,
    scenario: &Scenario,
    from: &str,
    to: &str,
    via: &[String],
) -> Result<Vec<LinkId>, String> {
    let (start, end) = (network.node(from), network.node(to));
    if via.is_empty() {
        return network.route(start, end).map_err(|error| error.to_string());
    }
    let links = scenario.link_ids(via);
    let route = network.route_via(start, &links).map_err(|error| error.to_string())?;
    let reached = links.last().and_then(|last| network.links().get(last.0 as usize)).map(|ends| ends.to);
    match reached {
        Some(reached) if reached != end => Err(format!(
            "the named links lead to \"{}\", not to \"{to}\": add the missing links",
            network.name(reached)
        )),
        _ => Ok(route),
    }
}
