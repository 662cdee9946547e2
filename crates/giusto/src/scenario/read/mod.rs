//! From the values of a file to a scenario: what is there, what is missing, what is not known.

mod expectation;
mod fields;
mod flow;
mod link;
mod media;
mod paced;
mod queue;
mod tcp;

use std::path::Path;

use fields::{Fields, Findings};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    Scenario, check,
    problem::{At, Problem, nearest},
    tree::{Node, Value},
};

/// What may stand at the top of a file.
pub(super) const ROOT_KEYS: &[&str] =
    &["name", "description", "seed", "duration", "warmup", "link", "flow", "change", "expect"];

/// A change of a link while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: Timestamp,
    pub(super) link: String,
    pub(super) rate: Option<DataRate>,
    pub(super) delay: Option<TimeDelta>,
}

/// The scenario of a file whose values are `tree`, as far as it can be read, and what is wrong with it.
pub(super) fn scenario(tree: &Node, stem: &str, folder: &Path) -> (Scenario, Vec<Problem>) {
    let findings = Findings::default();
    let root = Fields::new(tree, String::new(), &findings);
    let mut scenario = Scenario {
        name: root.text("name").unwrap_or_else(|| stem.to_owned()),
        description: root.text("description").unwrap_or_default(),
        seed: root.seed("seed").unwrap_or(1),
        duration: root.required("duration", Fields::time).unwrap_or_default(),
        warmup: root.time("warmup").unwrap_or_default(),
        links: Vec::new(),
        flows: Vec::new(),
        expectations: Vec::new(),
    };
    for node in list(&root, "link") {
        scenario.links.extend(link::read(node, folder, &findings));
    }
    for node in list(&root, "flow") {
        scenario.flows.extend(flow::read(node, folder, &scenario.links, &findings));
    }
    let mut changes = Vec::new();
    for (node, index) in list(&root, "change").iter().zip(0..) {
        let fields = Fields::new(node, format!("change {}", index + 1), &findings);
        let at = fields.required("at", Fields::moment);
        let link = fields.required("link", Fields::text);
        let (rate, delay) = (fields.rate("rate"), fields.time("delay"));
        fields.finish();
        if let (Some(at), Some(link)) = (at, link) {
            changes.push((index, Change { at, link, rate, delay }));
        }
    }
    for node in list(&root, "expect") {
        scenario.expectations.extend(expectation::read(node, &findings));
    }
    root.finish();
    let mut problems = findings.take();
    if problems.is_empty() {
        for (place, (index, change)) in changes.iter().enumerate() {
            let index = *index;
            let same = |(_, before): &&(usize, Change)| {
                let both = before.rate.and(change.rate).is_some() || before.delay.and(change.delay).is_some();
                both && (before.at, &before.link) == (change.at, &change.link)
            };
            if let Some((before, _)) = changes.iter().take(place).find(same) {
                problems.push(Problem::at(
                    At::new("change", index, "at").place(tree),
                    format!(
                        "change {}: change {} says the same of this moment: leave one out",
                        index + 1,
                        before + 1
                    ),
                ));
            } else if let Err((key, text)) = check::change(&mut scenario.links, scenario.duration, change) {
                problems.push(Problem::at(
                    At::new("change", index, key).place(tree),
                    format!("change {}: {text}", index + 1),
                ));
            }
        }
    }
    (scenario, problems)
}

/// What a congestion control of TCP is called.
pub(super) fn control_name(algorithm: giusto_sim::traffic::tcp::Algorithm) -> &'static str {
    tcp::CONTROLS.iter().find(|(_, known)| *known == algorithm).map_or("other", |(name, _)| name)
}

/// The tables of a list such as `[[link]]`.
fn list<'a>(root: &Fields<'a>, key: &'static str) -> &'a [Node] {
    match root.node(key) {
        Some(Node { value: Value::Array(nodes), .. }) => nodes,
        Some(node) => {
            root.complain(node, key, format_args!("there may be several: write [[{key}]]"));
            &[]
        }
        None => &[],
    }
}

/// One of `names`, or a complaint that lists them.
fn choose<T: Copy>(fields: &Fields<'_>, key: &'static str, names: &[(&'static str, T)]) -> Option<T> {
    choose_of(fields, fields.node(key)?, key, names)
}

/// The same of a value that is called `key`.
fn choose_of<T: Copy>(fields: &Fields<'_>, node: &Node, key: &str, names: &[(&'static str, T)]) -> Option<T> {
    let word = fields.text_of(node, key)?;
    let found = names.iter().find(|(name, _)| *name == word).map(|&(_, value)| value);
    if found.is_none() {
        let known: Vec<&str> = names.iter().map(|&(name, _)| name).collect();
        let hint =
            nearest(&word, &known).map_or_else(String::new, |near| format!("did you mean \"{near}\"? "));
        fields.complain(
            node,
            key,
            format_args!("\"{word}\" is not known: {hint}use one of {}", known.join(", ")),
        );
    }
    found
}
