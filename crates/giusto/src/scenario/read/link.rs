//! Links: rate, delay, queue, loss, jitter.

use std::path::Path;

use giusto_sim::link::{
    delay::{DelayProfile, Jitter},
    loss::Loss,
    rate::RateProfile,
};
use giusto_units::Timestamp;

use super::{
    choose,
    fields::{Fields, Findings},
    queue::queue,
};
use crate::scenario::{
    LinkSpec,
    problem::{Problem, unreadable},
    trace,
    tree::{Node, Value},
};

/// A link, and its other direction if it has one.
pub(super) fn read(node: &Node, folder: &Path, findings: &Findings) -> Vec<LinkSpec> {
    let id = node.get("id").and_then(Node::as_text);
    let owner = id.map_or_else(|| "link".to_owned(), |id| format!("link \"{id}\""));
    let fields = Fields::new(node, owner, findings);
    let id = fields.required("id", Fields::text).unwrap_or_default();
    let from = fields.required("from", Fields::text).unwrap_or_default();
    let to = fields.required("to", Fields::text).unwrap_or_default();
    let mut link = LinkSpec::new(id, from, to);
    read_parts(&fields, folder, &mut link);
    let duplex = fields.flag("duplex");
    let reverse = fields.node("reverse").map(|_| {
        let mut reverse = link.reversed();
        match fields.table("reverse") {
            Some(fields) => {
                read_parts(&fields, folder, &mut reverse);
                fields.finish();
            }
            None => {
                if let Some(node) = fields.node("reverse") {
                    fields.complain(node, "reverse", format_args!("a table is wanted, such as {{ rate = \"1 Mbit/s\" }}; for the same as forwards write duplex = true"));
                }
            }
        }
        reverse
    });
    if let (Some(false), Some(_), Some(node)) = (duplex, &reverse, fields.node("duplex")) {
        fields.complain(node, "duplex", format_args!("false, but there is a reverse: leave one of them out"));
    }
    let reverse = reverse.or_else(|| (duplex == Some(true)).then(|| link.reversed()));
    fields.finish();
    std::iter::once(link).chain(reverse).collect()
}

/// What both directions may have of their own.
fn read_parts(fields: &Fields<'_>, folder: &Path, link: &mut LinkSpec) {
    let config = &mut link.config;
    if let Some(rate) = rate_profile(fields, folder) {
        config.rate = rate;
    }
    if let Some(delay) = delay_profile(fields) {
        config.delay = delay;
    }
    if let Some(queue) = queue(fields) {
        link.queue = queue;
    }
    if let Some(loss) = loss(fields) {
        config.loss = loss;
    }
    jitter(fields, &mut config.jitter);
    if let Some(reorder) = fields.flag("reorder") {
        config.reorder = reorder;
    }
    if let Some(duplication) = fields.number("duplication") {
        config.duplication = duplication;
    }
}

/// A rate, steps of rates, or a trace, below the key `rate`.
pub(super) fn rate_profile(fields: &Fields<'_>, folder: &Path) -> Option<RateProfile> {
    let node = fields.node("rate")?;
    if node.as_text() == Some("unlimited") {
        return Some(RateProfile::Unlimited);
    }
    let Some(inner) = fields.table("rate") else { return fields.rate("rate").map(RateProfile::Fixed) };
    // A file that is not there is a matter of the scenario, and what it says a matter of its own.
    let told = |name: &str, read: &dyn Fn(&Path) -> Result<RateProfile, String>| {
        let path = folder.join(name);
        if let Err(error) = std::fs::metadata(&path) {
            fields.complain(node, "rate", format_args!("{}", unreadable(&path, &error)));
            return None;
        }
        read(&path).map_err(|text| fields.findings().push(Problem { place: None, text })).ok()
    };
    let profile = if inner.node("steps").is_some() {
        let steps = steps(&inner, Fields::rate_of);
        let period = inner.time("period");
        steps.map(|steps| RateProfile::Steps { steps, period })
    } else if inner.node("trace").is_some() {
        let (name, period) = (inner.text("trace"), inner.time("period"));
        name.and_then(|name| told(&name, &|path| trace::rates(path, period)))
    } else if inner.node("mahimahi").is_some() {
        inner.text("mahimahi").and_then(|name| told(&name, &trace::mahimahi))
    } else {
        inner.complain_of_all(
            "empty: give steps = [[\"0 s\", \"5 Mbit/s\"]], trace = \"FILE\" or mahimahi = \"FILE\""
                .to_owned(),
        );
        None
    };
    inner.finish();
    profile
}

/// Moments and what holds from each of them on.
fn steps<'a, T>(
    fields: &Fields<'a>,
    read: impl Fn(&Fields<'a>, &Node, &str) -> Option<T>,
) -> Option<Vec<(Timestamp, T)>> {
    let node = fields.node("steps")?;
    let Value::Array(pairs) = &node.value else {
        fields.complain(
            node,
            "steps",
            format_args!("a list is wanted, such as [[\"0 s\", \"5 Mbit/s\"], [\"20 s\", \"1 Mbit/s\"]]"),
        );
        return None;
    };
    let read_pair = |pair: &Node| {
        let [at, value] = pair.elements() else {
            fields.complain(
                pair,
                "steps",
                format_args!("each step is a pair of a time and a value, such as [\"20 s\", \"1 Mbit/s\"]"),
            );
            return None;
        };
        let (at, value) = (fields.time_of(at, "steps"), read(fields, value, "steps"));
        Some((Timestamp::ZERO + at?, value?))
    };
    let read: Vec<Option<_>> = pairs.iter().map(read_pair).collect();
    read.into_iter().collect()
}

fn delay_profile(fields: &Fields<'_>) -> Option<DelayProfile> {
    fields.node("delay")?;
    let Some(inner) = fields.table("delay") else { return fields.time("delay").map(Into::into) };
    let steps = inner.required("steps", |inner, _| steps(inner, Fields::time_of));
    let profile = steps.and_then(|steps| {
        DelayProfile::steps(steps).map_err(|error| inner.complain_of_all(error.to_string())).ok()
    });
    inner.finish();
    profile
}

/// `0.01`, a channel of two states, or a list of packets.
fn loss(fields: &Fields<'_>) -> Option<Loss> {
    fields.node("loss")?;
    let Some(inner) = fields.table("loss") else { return fields.number("loss").map(Loss::Random) };
    let loss = if let Some(node) = inner.node("packets") {
        let number = |node: &Node| match node.value {
            Value::Integer(value) => u64::try_from(value).ok(),
            _ => None,
        };
        let numbers = node.elements().iter().map(number).collect::<Option<_>>();
        if numbers.is_none() || node.elements().is_empty() {
            inner.complain(
                node,
                "packets",
                format_args!("a list of numbers from 0 on is wanted, such as [3, 17]"),
            );
        }
        numbers.map(Loss::List)
    } else {
        inner.required("kind", |inner, key| choose(inner, key, &[("gilbert-elliott", ())]));
        let to_bad = inner.required("to-bad", Fields::number);
        let to_good = inner.required("to-good", Fields::number);
        let (good, bad) = (inner.number("good").unwrap_or(0.0), inner.number("bad").unwrap_or(1.0));
        to_bad.zip(to_good).map(|(to_bad, to_good)| Loss::GilbertElliott { to_bad, to_good, good, bad })
    };
    inner.finish();
    loss
}

/// `"rfc8868"`, `"none"`, or a distribution.
fn jitter(fields: &Fields<'_>, jitter: &mut Option<Jitter>) {
    #[derive(Clone, Copy)]
    enum Kind {
        Gaussian,
        Uniform,
    }
    if fields.node("jitter").is_none() {
        return;
    }
    let Some(inner) = fields.table("jitter") else {
        let named = choose(fields, "jitter", &[("rfc8868", Some(Jitter::RFC8868)), ("none", None)]);
        *jitter = named.unwrap_or(*jitter);
        return;
    };
    let kinds = [("truncated-gaussian", Kind::Gaussian), ("uniform", Kind::Uniform)];
    *jitter = match inner.required("kind", |inner, key| choose(inner, key, &kinds)) {
        Some(Kind::Gaussian) => {
            let bound = inner.number("bound").unwrap_or(3.0);
            inner.required("std", Fields::time).map(|std| Jitter::TruncatedGaussian { std, bound })
        }
        Some(Kind::Uniform) => inner.required("max", Fields::time).map(|max| Jitter::Uniform { max }),
        // Which other keys there may be depends on the kind.
        None => return,
    };
    inner.finish();
}
