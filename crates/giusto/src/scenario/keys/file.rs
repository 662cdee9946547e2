//! Keys at the top of a file, and of changes.

use std::ops::Range;

use giusto_units::TimeDelta;

use super::{
    expectation::{EXPECT, expectation, subject},
    flow::{FLOW, flow},
    lesson::{LESSON, lesson},
    link::{LINK, links},
    medium::{MEDIUM, medium},
    parts::{HEAD, each, head},
    prelude::*,
};
use crate::scenario::{
    change::Change,
    error::At,
    model::{Purpose, Scenario},
};

/// A file of links and flows.
pub(crate) const FILE: Group = Group::new("file", &[HEAD, TIMES, PARTS]);

/// The values of a run, without its parts.
pub(crate) const RUN: Group = Group::new("run", &[TIMES, HEAD]);

keys! { TIMES {
    "duration", Time(ABOVE_0), Required("60 s"), "Simulated time; `giusto link` does without";
    "warmup", Time(ANY), Shown("0 s"),
        "Time at the start of each flow and link, below `duration`, that [statistics](statistics.md) leave out; not those of `giusto link`";
} }

keys! { PARTS {
    "link", List(&Table(&LINK)), Required("[]"), "Links";
    "medium", List(&Table(&MEDIUM)), Unset, "Media that links share";
    "flow", List(&Table(&FLOW)), Required("[]"), "Flows; `giusto link` does without";
    "change", List(&Table(&CHANGE)), Unset, "Changes of links during the run";
    "expect", List(&Table(&EXPECT)), Unset, "Expectations";
    "lesson", Table(&LESSON), Unset, "Guided lesson, for `giusto explore`";
} }

pub(super) const CHANGE: Group = Group::new("change", &[CHANGE_KEYS]);
keys! { CHANGE_KEYS {
    "at", Time(ANY), Required("20 s"), "Time of the change, above 0 s and before the end of the run";
    "link", Name, Required("bottleneck"), "Link, or `ID:reverse`; it needs a fixed rate, or steps without `period`";
    "rate", Rate(ANY), Said("unchanged"), "New rate; `\"0\"` is an outage until the next rate, or to the end of the run";
    "delay", Time(ANY), Said("unchanged"), "New delay";
} }

/// Reads a scenario and its changes from a file's `root` table; `stem` is the default of its name.
pub(in crate::scenario) fn scenario(
    root: &Node<'_>,
    stem: &str,
    purpose: Purpose,
    context: Context<'_>,
) -> Found<(Scenario, Vec<Change>)> {
    table(root, &FILE, |keys| {
        let mut scenario = Scenario::empty(stem);
        head(keys, &mut scenario.name, &mut scenario.description, &mut scenario.seed);
        keys.set("duration", &mut scenario.duration);
        // Validation finds out which parts are missing.
        keys.spare(&["link", "flow"]);
        if purpose == Purpose::Links {
            keys.spare(&["link", "flow", "duration"]);
            scenario.duration = keys.optional("duration").unwrap_or(TimeDelta::MAX);
        }
        keys.set("warmup", &mut scenario.warmup);
        let mediums = each(keys, "medium", &MEDIUM, quoted_id, medium);
        let links = each(keys, "link", &LINK, quoted_id, |keys| links(keys, context.traces));
        let links = links.map(|links| links.into_iter().flatten().collect::<Vec<_>>());
        let flows = each(keys, "flow", &FLOW, quoted_id, |keys| flow(keys, context, links.as_deref()));
        let changes = each(keys, "change", &CHANGE, quoted_id, change).unwrap_or_default();
        let expectations = each(keys, "expect", &EXPECT, subject, expectation);
        keys.with("lesson", |node| lesson(node, context.text));
        scenario.mediums = mediums.unwrap_or_default();
        scenario.links = links.unwrap_or_default();
        scenario.flows = flows.into_iter().flatten().flatten().collect();
        scenario.expectations = expectations.into_iter().flatten().flatten().collect();
        (scenario, changes)
    })
}

fn change(keys: &mut read::Table<'_>) -> Change {
    Change {
        at: keys.value("at"),
        link: keys.value("link"),
        rate: keys.optional::<RateOrZero>("rate").map(|RateOrZero(rate)| rate),
        delay: keys.optional("delay"),
    }
}

/// The place of a key, or of the part that could have it.
pub(in crate::scenario) fn span(root: &Node<'_>, at: At) -> Range<usize> {
    let list = root.get_ref().get(at.list);
    let element = list.and_then(|list| list.get_ref().as_array()?.get(at.index));
    let part = element.or(list).unwrap_or(root);
    let Some(value) = part.get_ref().as_table().and_then(|table| table.get(at.key)) else {
        return part.span();
    };
    let element = at.element.and_then(|element| value.get_ref().as_array()?.get(element));
    element.unwrap_or(value).span()
}
