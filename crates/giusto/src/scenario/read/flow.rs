//! Flows: what sends, from where to where, and when.

use std::path::Path;

use giusto_sim::traffic::{Departures, Periods};
use giusto_units::{Ecn, Timestamp};

use super::{
    choose,
    fields::{Fields, Findings},
    link::rate_profile,
    media::media,
    paced::paced,
    tcp,
};
use crate::scenario::{FlowKind, FlowSpec, LinkSpec, REVERSE, Start, tree::Node};

#[derive(Debug, Clone, Copy)]
enum Kind {
    Cbr,
    OnOff,
    Poisson,
    Pareto,
    Tcp,
    ShortFlows,
    Paced,
    Media,
}

const KINDS: &[(&str, Kind)] = &[
    ("cbr", Kind::Cbr),
    ("on-off", Kind::OnOff),
    ("poisson", Kind::Poisson),
    ("pareto", Kind::Pareto),
    ("tcp", Kind::Tcp),
    ("short-flows", Kind::ShortFlows),
    ("paced", Kind::Paced),
    ("media", Kind::Media),
];

/// A flow; `links` are those before it in the file, which may tell where it begins and ends.
pub(super) fn read(node: &Node, folder: &Path, links: &[LinkSpec], findings: &Findings) -> Option<FlowSpec> {
    let id = node.get("id").and_then(Node::as_text);
    let owner = id.map_or_else(|| "flow".to_owned(), |id| format!("flow \"{id}\""));
    let fields = Fields::new(node, owner, findings);
    let id = fields.required("id", Fields::text);
    let via = fields.texts("via").unwrap_or_default();
    let back = fields.texts("back").unwrap_or_default();
    let (from, to) = (fields.text("from"), fields.text("to"));
    let ends = ends(&fields, (from, to), &via, links);
    let count = fields.count("count", 1).unwrap_or(1);
    let start = start(&fields);
    let stop = fields.moment("stop");
    let Some(kind) = fields.required("kind", |fields, key| choose(fields, key, KINDS)) else {
        // Which other keys there may be depends on the kind.
        return None;
    };
    let kind = kind_of(&fields, folder, kind);
    fields.finish();
    Some(FlowSpec { via, back, count, start: start?, stop, ..FlowSpec::new(id?, kind?, ends?) })
}

/// Where a flow begins and ends: as it says, or as its way does, or as the only link there is.
fn ends(
    fields: &Fields<'_>,
    (from, to): (Option<String>, Option<String>),
    via: &[String],
    links: &[LinkSpec],
) -> Option<(String, String)> {
    let named = |id: &String| links.iter().find(|link| link.id == *id);
    let forwards = || links.iter().filter(|link| !link.id.ends_with(REVERSE));
    let only = forwards().next().filter(|_| forwards().count() == 1);
    let first = via.first().and_then(named).or(only.filter(|_| via.is_empty()));
    let last = via.last().and_then(named).or(only.filter(|_| via.is_empty()));
    let from = from.or_else(|| first.map(|link| link.from.clone()));
    let to = to.or_else(|| last.map(|link| link.to.clone()));
    let unknown = via.iter().find(|id| named(id).is_none());
    if let (Some(id), Some(node)) = (unknown, fields.node("via")) {
        let known: Vec<&str> = links.iter().map(|link| link.id.as_str()).collect();
        fields.complain(
            node,
            "via",
            format_args!("no link is called \"{id}\": known are {}", known.join(", ")),
        );
    } else if from.is_none() || to.is_none() {
        fields.complain_of_all("no route: give from and to, the nodes where it begins and ends".to_owned());
    }
    from.zip(to)
}

fn start(fields: &Fields<'_>) -> Option<Start> {
    if fields.node("start").is_none() {
        return Some(Start::At(Timestamp::ZERO));
    }
    let Some(inner) = fields.table("start") else { return fields.moment("start").map(Start::At) };
    let span = inner.required("uniform", Fields::time);
    inner.finish();
    span.map(Start::Uniform)
}

/// What sends: place for each kind.
fn kind_of(fields: &Fields<'_>, folder: &Path, kind: Kind) -> Option<FlowKind> {
    let source = |departures: Option<Departures>| {
        let size = fields.required("size", Fields::size);
        let ecn = ecn(fields);
        Some(FlowKind::Source { departures: departures?, size: size?, ecn: ecn? })
    };
    match kind {
        Kind::Tcp => Some(tcp::bulk(fields)),
        Kind::ShortFlows => tcp::short_flows(fields),
        Kind::Paced => paced(fields),
        Kind::Media => media(fields),
        Kind::Cbr => {
            let rate = fields.required("rate", |fields, _| rate_profile(fields, folder));
            source(rate.map(Departures::Constant))
        }
        Kind::Poisson => source(fields.required("rate", Fields::rate).map(Departures::Poisson)),
        Kind::OnOff => source(on_off(fields, periods)),
        Kind::Pareto => {
            let shape = fields.number("shape").unwrap_or(1.5);
            source(on_off(fields, |fields, key| fields.time(key).map(|mean| Periods::Pareto { mean, shape })))
        }
    }
}

fn on_off(
    fields: &Fields<'_>,
    periods: impl Fn(&Fields<'_>, &'static str) -> Option<Periods>,
) -> Option<Departures> {
    let rate = fields.required("rate", Fields::rate);
    let (on, off) = (fields.required("on", &periods), fields.required("off", &periods));
    Some(Departures::OnOff { rate: rate?, on: on?, off: off? })
}

/// A time, or a mean of drawn times.
fn periods(fields: &Fields<'_>, key: &'static str) -> Option<Periods> {
    fields.node(key)?;
    let Some(inner) = fields.table(key) else { return fields.time(key).map(Periods::Fixed) };
    let periods = if inner.node("pareto").is_some() {
        let shape = inner.number("shape").unwrap_or(1.5);
        inner.time("pareto").map(|mean| Periods::Pareto { mean, shape })
    } else {
        inner.required("exponential", Fields::time).map(|mean| Periods::Exponential { mean })
    };
    inner.finish();
    periods
}

pub(super) fn ecn(fields: &Fields<'_>) -> Option<Ecn> {
    if fields.node("ecn").is_none() {
        return Some(Ecn::NotEct);
    }
    choose(fields, "ecn", &[("off", Ecn::NotEct), ("ect0", Ecn::Ect0), ("ect1", Ecn::Ect1)])
}
