//! From the values of a file to the parts of a scenario.

mod ecn;
mod expectation;
mod flow;
mod link;
mod media;
mod quantity;
mod queue;
mod value;

use std::{ops::Range, path::Path};

use giusto_units::{DataRate, TimeDelta, Timestamp};
use serde::{Deserialize, de::IgnoredAny};
use toml::de::DeValue;

pub(super) use self::value::{Node, Problem, Problems};
use self::{
    quantity::{Q, Scalar},
    value::Value,
};
use super::{
    change::{self, Change},
    error::{At, KeyError},
    model::Scenario,
};

/// Keys at the top of a file.
#[derive(Deserialize)]
struct RootKeys {
    name: Option<String>,
    description: Option<String>,
    seed: Option<Scalar>,
    duration: Q<TimeDelta>,
    warmup: Option<Q<TimeDelta>>,
    #[expect(dead_code, reason = "lists are read one element at a time")]
    link: Option<IgnoredAny>,
    #[expect(dead_code, reason = "lists are read one element at a time")]
    flow: Option<IgnoredAny>,
    #[expect(dead_code, reason = "lists are read one element at a time")]
    change: Option<IgnoredAny>,
    #[expect(dead_code, reason = "lists are read one element at a time")]
    expect: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ChangeKeys {
    at: Q<Timestamp>,
    link: String,
    rate: Option<Q<DataRate>>,
    delay: Option<Q<TimeDelta>>,
}

/// Reads a scenario from a file's `root` table; `stem` is the default of its name, and trace files are read from `folder`.
///
/// What is read, and every problem: it is not validated.
pub(super) fn scenario(root: &Node<'_>, stem: &str, folder: &Path) -> (Scenario, Vec<Problem>) {
    let mut reader = Reader { root, problems: Vec::new() };
    let mut scenario = reader.root(stem);
    let before = reader.problems.len();
    let links = reader.each("link", |keys| link::links(keys, folder));
    scenario.links = links.into_iter().flatten().collect();
    // The ends of flows are not derived from links that could not all be read.
    let links = (reader.problems.len() == before).then_some(scenario.links.as_slice());
    scenario.flows = reader.each("flow", |keys| flow::flow(keys, folder, links));
    let changes: Vec<Change> = reader.each("change", |keys: ChangeKeys| {
        let (rate, delay) = (keys.rate.map(|rate| rate.0), keys.delay.map(|delay| delay.0));
        Ok(Change { at: keys.at.0, link: keys.link, rate, delay })
    });
    scenario.expectations = reader.each("expect", expectation::expectation);
    if reader.problems.is_empty() {
        for (index, (key, text)) in change::apply(&mut scenario.links, scenario.duration, &changes) {
            reader.problems.push(Problem::new(Some(span(root, At::new("change", index, key))), text));
        }
    }
    (scenario, reader.problems)
}

/// The place of a key, or of the part that could have it.
pub(super) fn span(root: &Node<'_>, at: At) -> Range<usize> {
    let list = root.get_ref().get(at.list).and_then(|list| list.get_ref().as_array());
    let part = list.and_then(|list| list.get(at.index)).unwrap_or(root);
    let Some(value) = part.get_ref().as_table().and_then(|table| table.get(at.key)) else {
        return part.span();
    };
    let element = at.element.and_then(|element| value.get_ref().as_array()?.get(element));
    element.unwrap_or(value).span()
}

struct Reader<'t> {
    root: &'t Node<'t>,
    problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    /// The scenario without its lists.
    fn root(&mut self, stem: &str) -> Scenario {
        let mut scenario = Scenario {
            name: stem.to_owned(),
            description: String::new(),
            seed: 1,
            duration: TimeDelta::ZERO,
            warmup: TimeDelta::ZERO,
            links: Vec::new(),
            flows: Vec::new(),
            expectations: Vec::new(),
        };
        match RootKeys::deserialize(Value::from(self.root)) {
            Ok(keys) => {
                scenario.name = keys.name.unwrap_or(scenario.name);
                scenario.description = keys.description.unwrap_or_default();
                scenario.duration = keys.duration.0;
                scenario.warmup = keys.warmup.map_or(TimeDelta::ZERO, |warmup| warmup.0);
                scenario.seed = match keys.seed {
                    None => 1,
                    Some(Scalar::Whole(seed)) => seed,
                    Some(Scalar::Text(text)) if text.parse::<u64>().is_ok() => {
                        text.parse().unwrap_or_default()
                    }
                    Some(_) => {
                        let text = "seed: expected a whole number from 0 to 18446744073709551615";
                        self.problems.push(Problem::new(Some(span(self.root, At::new("", 0, "seed"))), text));
                        1
                    }
                };
            }
            Err(problems) => self.problems.extend(problems.0),
        }
        scenario
    }

    /// Reads every element of a list such as `[[link]]` as `K`, and that by `convert`.
    fn each<K: Deserialize<'t>, T>(
        &mut self,
        list: &'static str,
        convert: impl Fn(K) -> Result<T, KeyError>,
    ) -> Vec<T> {
        let Some(node) = self.root.get_ref().get(list) else { return Vec::new() };
        let DeValue::Array(elements) = node.get_ref() else {
            let text = format!("{list}: there may be several: write [[{list}]]");
            self.problems.push(Problem::new(Some(node.span()), text));
            return Vec::new();
        };
        let mut parts = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let converted = K::deserialize(Value::from(element)).and_then(|keys| {
                convert(keys).map_err(|(key, text)| {
                    let span = span(self.root, At::new(list, index, key));
                    Problems(vec![Problem::new(Some(span), text)])
                })
            });
            match converted {
                Ok(part) => parts.push(part),
                Err(problems) => self.problems.extend(problems.within(&owner(list, index, element)).0),
            }
        }
        parts
    }
}

/// The name of a part in messages: `link "bottleneck"`, `change 2`, `expect of flow "call"`.
fn owner(list: &str, index: usize, element: &Node<'_>) -> String {
    let text = |key| element.get_ref().get(key).and_then(|node| node.get_ref().as_str());
    match list {
        "expect" => {
            let subject = ["flow", "link"].into_iter().find_map(|key| Some((key, text(key)?)));
            subject.map_or_else(
                || format!("expect {}", index + 1),
                |(key, id)| format!("expect of {key} \"{id}\""),
            )
        }
        _ => text("id").map_or_else(|| format!("{list} {}", index + 1), |id| format!("{list} \"{id}\"")),
    }
}
