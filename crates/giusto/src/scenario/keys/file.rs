//! Keys at the top of a file, and of changes.

use std::ops::Range;

use giusto_units::TimeDelta;

use super::{
    city::{CITY, CITY_EXPECT},
    expectation::{EXPECT, expectation, subject},
    flow::{FLOW, flow},
    lesson::{LESSON, lesson},
    link::{LINK, links},
    medium::{MEDIUM, medium},
    prelude::*,
};
use crate::scenario::{
    change::Change,
    error::At,
    model::{Purpose, Scenario},
};

/// A file of links and flows.
pub(crate) const FILE: Group = Group::new("file", &[HEAD, TIMES, PARTS]);
/// A file of a city.
pub(crate) const CITY_FILE: Group = Group::new("city-file", &[HEAD, CITY_PARTS]);

/// The values of a run, without its parts.
pub(crate) const RUN: Group = Group::new("run", &[TIMES, HEAD]);

keys! { HEAD {
    "name", Text, Said("name of the file"), "Title, also of result folders";
    "description", Text, Said("empty"), "What it shows, in one sentence";
    "seed", Any(&[Whole(ANY), Text]), Shown("1"), "Random seed; above 2^63 a string";
} }

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

keys! { CITY_PARTS {
    "city", Table(&CITY), Required("{ case = 1 }"), "Cells, users and their calls";
    "expect", List(&Table(&CITY_EXPECT)), Unset, "Expectations";
} }

pub(super) const CHANGE: Group = Group::new("change", &[CHANGE_KEYS]);
keys! { CHANGE_KEYS {
    "at", Time(ANY), Required("20 s"), "Time of the change, above 0 s and before the end of the run";
    "link", Name, Required("bottleneck"), "Link, or `ID:reverse`; it needs a fixed rate, or steps without `period`";
    "rate", Rate(ANY), Said("unchanged"), "New rate; `\"0\"` is an outage";
    "delay", Time(ANY), Said("unchanged"), "New delay";
} }

/// Reads a scenario and its changes from a file's `root` table; `stem` is the default of its name.
pub(in crate::scenario) fn scenario(
    root: &Node<'_>,
    (stem, purpose): (&str, Purpose),
    context: Context<'_>,
) -> Found<(Scenario, Vec<Change>)> {
    table(root, &FILE, |keys| {
        let mut scenario = Scenario::empty(stem);
        head(keys, (&mut scenario.name, &mut scenario.description, &mut scenario.seed));
        keys.set("duration", &mut scenario.duration);
        // Validation finds out which parts are missing.
        keys.spare(&["link", "flow"]);
        if purpose == Purpose::Links {
            keys.spare(&["link", "flow", "duration"]);
            scenario.duration = keys.optional("duration").unwrap_or(TimeDelta::MAX);
        }
        keys.set("warmup", &mut scenario.warmup);
        let mediums = each(keys, ("medium", &MEDIUM), quoted_id, medium);
        let links = each(keys, ("link", &LINK), quoted_id, |keys| links(keys, context.traces));
        let links = links.map(|links| links.into_iter().flatten().collect::<Vec<_>>());
        let flows = each(keys, ("flow", &FLOW), quoted_id, |keys| flow(keys, context, links.as_deref()));
        let changes = each(keys, ("change", &CHANGE), quoted_id, change).unwrap_or_default();
        let expectations = each(keys, ("expect", &EXPECT), subject, expectation);
        keys.with("lesson", |node| lesson(node, context.text));
        scenario.mediums = mediums.unwrap_or_default();
        scenario.links = links.unwrap_or_default();
        scenario.flows = flows.into_iter().flatten().flatten().collect();
        scenario.expectations = expectations.into_iter().flatten().flatten().collect();
        (scenario, changes)
    })
}

/// What files of both kinds begin with: name, description, seed.
pub(super) fn head(
    keys: &mut read::Table<'_>,
    (name, description, seed): (&mut String, &mut String, &mut u64),
) {
    keys.set("name", name);
    keys.set("description", description);
    keys.set_with("seed", seed, |node| match node.get_ref().as_str().map(str::parse) {
        Some(Ok(seed)) => Ok(seed),
        Some(Err(_)) => wrong(node, "expected a whole number from 0 to 18446744073709551615"),
        None => u64::read(node),
    });
}

fn change(keys: &mut read::Table<'_>) -> Change {
    Change {
        at: keys.value("at"),
        link: keys.value("link"),
        rate: keys.optional::<RateOrZero>("rate").map(|RateOrZero(rate)| rate),
        delay: keys.optional("delay"),
    }
}

/// The elements of a list such as `[[link]]`, called by `name`; none if one of them cannot be read.
pub(super) fn each<'t, T>(
    keys: &mut read::Table<'t>,
    (key, group): (&'static str, &'static Group),
    name: fn(&Node<'_>) -> Option<String>,
    mut read: impl FnMut(&mut read::Table<'t>) -> T,
) -> Option<Vec<T>> {
    keys.with(key, |node| {
        if node.get_ref().is_array() {
            elements(node, name, |node| table(node, group, &mut read))
        } else {
            wrong(node, format_args!("there may be several: write [[{key}]]"))
        }
    })
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
