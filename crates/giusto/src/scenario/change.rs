//! Changes of links during a run.

use giusto_sim::link::{delay::DelayProfile, rate::RateProfile};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    error::{At, Finding, KeyError, check, known},
    model::LinkSpec,
};

/// A new rate or delay of a link, from a moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: Timestamp,
    pub(super) link: String,
    pub(super) rate: Option<DataRate>,
    pub(super) delay: Option<TimeDelta>,
}

/// Adds `changes` to the rates and delays of `links`; returns the errors.
pub(super) fn apply(links: &mut [LinkSpec], duration: TimeDelta, changes: &[Change]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let same = |before: &Change| {
            let both = before.rate.and(change.rate).is_some() || before.delay.and(change.delay).is_some();
            both && (before.at, &before.link) == (change.at, &change.link)
        };
        let result = match changes.iter().take(index).position(same) {
            Some(before) => {
                let before = before + 1;
                Err(("at", format!("change {before} changes the same link at the same time: remove one")))
            }
            None => apply_one(links, duration, change),
        };
        let finding = |(key, text)| (At::new("change", index, key), format!("change {}: {text}", index + 1));
        found.extend(result.err().map(finding));
    }
    for link in links {
        outage(link, changes);
    }
    found
}

/// Lets the outage that is the last change of `link` last as long as the run: a link's own rates have to end above zero.
fn outage(link: &mut LinkSpec, changes: &[Change]) {
    let RateProfile::Steps { steps, period: None } = &mut link.config.rate else { return };
    let Some(&(from, DataRate::ZERO)) = steps.last() else { return };
    let is_this = |change: &Change| change.link == link.id && change.at == from && change.rate.is_some();
    let before = steps.iter().rev().find(|(_, rate)| *rate > DataRate::ZERO);
    // No run is longer, and `giusto link` goes on after `duration`.
    let never = Timestamp::ZERO + TimeDelta::MAX;
    if let Some(&(_, before)) = before.filter(|_| changes.iter().any(is_this)) {
        steps.push((never, before));
    }
}

fn apply_one(links: &mut [LinkSpec], duration: TimeDelta, change: &Change) -> Result<(), KeyError> {
    let Change { at, link: id, rate, delay } = change;
    let all: Vec<&str> = links.iter().map(|link| link.id.as_str()).collect();
    known("link", id, &all).map_err(|text| ("link", text))?;
    let in_time = *at < Timestamp::ZERO + duration;
    check(in_time, "at", format_args!("it must be before the end of the run, {duration}"))?;
    let text = format_args!("it must be after 0 s: set the first value in the link itself");
    check(*at > Timestamp::ZERO, "at", text)?;
    check(rate.is_some() || delay.is_some(), "at", format_args!("nothing changes: add rate or delay"))?;
    let Some(link) = links.iter_mut().find(|link| link.id == *id) else { return Ok(()) };
    if let Some(rate) = rate {
        let steps = match &link.config.rate {
            RateProfile::Fixed(rate) => vec![(Timestamp::ZERO, *rate)],
            RateProfile::Steps { steps, period: None } => steps.clone(),
            RateProfile::Unlimited => {
                return Err(("rate", format!("link \"{id}\" is unlimited: set its first rate in the link")));
            }
            _ => {
                let fix = "change a fixed rate, or steps without a period";
                return Err((
                    "rate",
                    format!("the rate of link \"{id}\" repeats or is a token bucket: {fix}"),
                ));
            }
        };
        link.config.rate = RateProfile::Steps { steps: with_step(steps, *at, *rate), period: None };
    }
    if let Some(delay) = delay {
        let steps = with_step(link.config.delay.as_steps().to_vec(), *at, *delay);
        link.config.delay = DelayProfile::steps(steps).map_err(|error| ("delay", error.to_string()))?;
    }
    Ok(())
}

/// Inserts a step in order, or replaces the step at the same moment. Before it all stays as it was: the first value applies from 0 s on.
fn with_step<T: Copy>(mut steps: Vec<(Timestamp, T)>, at: Timestamp, value: T) -> Vec<(Timestamp, T)> {
    if let Some(&(_, first)) = steps.first().filter(|(moment, _)| *moment >= at) {
        steps.insert(0, (Timestamp::ZERO, first));
    }
    let place = steps.partition_point(|(moment, _)| *moment < at);
    match steps.get_mut(place).filter(|(moment, _)| *moment == at) {
        Some(step) => step.1 = value,
        None => steps.insert(place, (at, value)),
    }
    steps
}
