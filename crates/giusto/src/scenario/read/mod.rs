//! From the values of a file to the parts of a scenario.

pub(super) mod city;
mod expectation;
mod flow;
pub(super) mod lesson;
mod link;
mod media;
mod medium;
mod quantity;
mod queue;
mod value;

use std::ops::Range;

use giusto_congestion::Algorithm;
use giusto_units::TimeDelta;

pub(super) use self::value::{Found, Node, Problem, id_of};
use self::{
    quantity::RateOrZero,
    value::{Read, Table, elements, quoted_id, table, text_at, wrong},
};
use super::{
    change::Change,
    error::At,
    model::{Purpose, Scenario},
    trace::Traces,
};

/// What the names in a file refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// The text of the file.
    pub(super) text: &'a str,
    /// Where trace files are read from.
    pub(super) traces: &'a Traces,
    /// Controllers besides the built-in ones.
    pub(super) algorithms: &'a [Algorithm],
}

/// Reads a scenario and its changes from a file's `root` table; `stem` is the default of its name.
pub(super) fn scenario(
    root: &Node<'_>,
    (stem, purpose): (&str, Purpose),
    context: Context<'_>,
) -> Found<(Scenario, Vec<Change>)> {
    table(root, |keys| {
        let mut scenario = Scenario::empty(stem);
        keys.set("name", &mut scenario.name);
        keys.set("description", &mut scenario.description);
        keys.set_with("seed", &mut scenario.seed, seed);
        scenario.duration = match purpose {
            Purpose::Simulation => keys.required("duration"),
            Purpose::Links => keys.optional("duration").unwrap_or(TimeDelta::MAX),
        };
        keys.set("warmup", &mut scenario.warmup);
        let mediums = each(keys, "medium", quoted_id, medium::medium);
        let links = each(keys, "link", quoted_id, |keys| link::links(keys, context.traces));
        let links = links.map(|links| links.into_iter().flatten().collect::<Vec<_>>());
        let flows = each(keys, "flow", quoted_id, |keys| flow::flow(keys, context, links.as_deref()));
        let changes = each(keys, "change", quoted_id, change).unwrap_or_default();
        let expectations = each(keys, "expect", subject, expectation::expectation);
        keys.with("lesson", |node| lesson::lesson(node, context.text));
        scenario.mediums = mediums.unwrap_or_default();
        scenario.links = links.unwrap_or_default();
        scenario.flows = flows.into_iter().flatten().flatten().collect();
        scenario.expectations = expectations.into_iter().flatten().flatten().collect();
        (scenario, changes)
    })
}

/// The place of a key, or of the part that could have it.
pub(super) fn span(root: &Node<'_>, at: At) -> Range<usize> {
    let list = root.get_ref().get(at.list);
    let element = list.and_then(|list| list.get_ref().as_array()?.get(at.index));
    let part = element.or(list).unwrap_or(root);
    let Some(value) = part.get_ref().as_table().and_then(|table| table.get(at.key)) else {
        return part.span();
    };
    let element = at.element.and_then(|element| value.get_ref().as_array()?.get(element));
    element.unwrap_or(value).span()
}

fn seed(node: &Node<'_>) -> Found<u64> {
    let seed = match node.get_ref().as_str() {
        Some(text) => text.parse().ok(),
        None => u64::read(node).ok(),
    };
    seed.map_or_else(|| wrong(node, "expected a whole number from 0 to 18446744073709551615"), Ok)
}

fn change(keys: &mut Table<'_>) -> Change {
    Change {
        at: keys.required("at"),
        link: keys.required("link"),
        rate: keys.optional::<RateOrZero>("rate").map(|RateOrZero(rate)| rate),
        delay: keys.optional("delay"),
    }
}

/// What an expectation is called in messages.
fn subject(node: &Node<'_>) -> Option<String> {
    ["flow", "link"].into_iter().find_map(|key| Some(format!("of {key} \"{}\"", text_at(node, key)?)))
}

/// The elements of a list such as `[[link]]`, called by `name`; none if one of them cannot be read.
fn each<'t, T>(
    keys: &mut Table<'t>,
    key: &'static str,
    name: fn(&Node<'_>) -> Option<String>,
    mut read: impl FnMut(&mut Table<'t>) -> T,
) -> Option<Vec<T>> {
    keys.with(key, |node| {
        if node.get_ref().is_array() {
            elements(node, name, |node| table(node, &mut read))
        } else {
            wrong(node, format_args!("there may be several: write [[{key}]]"))
        }
    })
}

#[cfg(test)]
mod tests;
