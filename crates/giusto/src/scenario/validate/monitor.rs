//! Validation of the files of monitors.

use super::{check, error::known};
use crate::scenario::{
    error::{At, Finding},
    monitor::{MonitorSpec, Pairs, Retention},
};

/// The most series, each a pair of hosts and a stream: it bounds the database and the time of its pages.
const MAX_SERIES: usize = 1000;

/// Sets the pairs, or says everything that is wrong with the file.
pub(in crate::scenario) fn monitor(
    mut spec: MonitorSpec,
    pairs: &Pairs,
) -> Result<MonitorSpec, Vec<Finding>> {
    let mut found = Vec::new();
    ids(&spec, &mut found);
    let names: Vec<&str> = spec.hosts.iter().map(|host| host.id.as_str()).collect();
    let place = |name: &str| names.iter().position(|known| *known == name);
    let mut refuse = |key, element, text: String| {
        found.push((At { element, ..At::new("pairs", 0, key) }, format!("pairs: {text}")));
    };
    let all = 0..names.len();
    let pairs: Vec<(usize, usize)> = match pairs {
        Pairs::Mesh => all
            .clone()
            .flat_map(|from| all.clone().map(move |to| (from, to)))
            .filter(|(a, b)| a != b)
            .collect(),
        Pairs::Star(centre) => {
            if let Err(text) = known("host", centre, &names) {
                refuse("centre", None, format!("centre: {text}"));
            }
            let centre = place(centre).into_iter();
            centre
                .flat_map(|at| {
                    all.clone().filter(move |to| *to != at).flat_map(move |to| [(at, to), (to, at)])
                })
                .collect()
        }
        Pairs::List(pairs) => {
            let mut listed = Vec::new();
            for (index, (from, to)) in pairs.iter().enumerate() {
                for name in [from, to] {
                    if let Err(text) = known("host", name, &names) {
                        refuse("list", Some(index), format!("list: {text}"));
                    }
                }
                let Some(pair) = place(from).zip(place(to)) else { continue };
                if pair.0 == pair.1 {
                    refuse("list", Some(index), format!("list: \"{from}\" to itself: name two hosts"));
                } else if listed.contains(&pair) {
                    refuse(
                        "list",
                        Some(index),
                        format!("list: \"{from}\" to \"{to}\" is there twice: remove one"),
                    );
                } else {
                    listed.push(pair);
                }
            }
            listed
        }
    };
    if let Some(here) = &spec.here
        && let Err(text) = known("host", here, &names)
    {
        found.push((At::new("", 0, "here"), format!("here: {text}")));
    }
    let series = pairs.len() * spec.streams.len();
    if series > MAX_SERIES {
        let text = format!(
            "host: {} pairs with {} streams are {series} series, and at most {MAX_SERIES} fit: name fewer pairs or streams",
            pairs.len(),
            spec.streams.len()
        );
        found.push((At::new("host", usize::MAX, ""), text));
    }
    spec.pairs = pairs;
    if found.is_empty() { Ok(spec) } else { Err(found) }
}

fn ids(spec: &MonitorSpec, found: &mut Vec<Finding>) {
    let hosts = spec.hosts.iter().map(|host| &host.id).enumerate();
    let streams = spec.streams.iter().map(|stream| &stream.id).enumerate();
    for (list, ids) in [("host", hosts.collect::<Vec<_>>()), ("stream", streams.collect())] {
        for (index, id) in &ids {
            let is_taken = ids.iter().take(*index).any(|(_, other)| other == id);
            let checks = [
                super::id(id).map_err(|text| ("id", text)),
                check(!is_taken, "id", format_args!("another {list} has this id: give each its own")),
            ];
            let at = |key| At::new(list, *index, key);
            let failed = checks.into_iter().filter_map(Result::err);
            found.extend(failed.map(|(key, text)| (at(key), format!("{list} \"{id}\": {text}"))));
        }
    }
    if spec.hosts.len() < 2 {
        let text = "host: at least 2 are needed: add [[host]] with id and address";
        found.push((At::new("host", usize::MAX, ""), text.to_owned()));
    }
    if spec.streams.is_empty() {
        let text = "stream: at least 1 is needed: add [[stream]] with id and kind";
        found.push((At::new("stream", usize::MAX, ""), text.to_owned()));
    }
    let Retention { results, hours, days } = spec.retention;
    for (key, value, shorter, below) in [("hours", hours, results, "results"), ("days", days, hours, "hours")]
    {
        if value < shorter {
            let text = format!("retention: {key}: must be at least as long as {below}");
            found.push((At::new("retention", 0, key), text));
        }
    }
}
