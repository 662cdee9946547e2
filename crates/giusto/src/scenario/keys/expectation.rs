//! Keys of expectations.

use giusto_units::TimeDelta;

use super::prelude::*;
use crate::scenario::expectation::{Expectation, Metric, Subject, Unit};

pub(in crate::scenario) const EXPECT: Group = Group::new("expect", &[OF_PART, BOUNDS]);

keys! { OF_PART {
    "flow", Any(&[Name, List(&Name)]), Said("this or `link`"), "Flows; rates and counts of several are sums";
    "link", Name, Said("this or `flow`"), "Link";
    "stream", Name, Said("whole flow"),
        "Video, or `audio`: for `received-rate` (payload of complete frames), `frames`, `frame-delay-…` and those of repair";
    "metric", Choice(|| Metric::all().map(Metric::name).collect()), Required("received-rate"),
        "[Statistic](statistics.md) of flows or of the link";
    "from", Time(ANY), Said("[start](statistics.md)"), "Start of the measurement";
    "to", Time(ANY), Said("[end](statistics.md)"), "End of the measurement";
    "rate", Rate(ABOVE_0), Unset, "Rate to reach, for `time-to-rate` only";
} }

keys! { BOUNDS {
    "min", BOUND, Said("this, `max` or both"), "Minimum, itself allowed";
    "max", BOUND, Said("this, `min` or both"), "Maximum, itself allowed";
    "name", Text, Said("what is expected"), "Title";
} }
/// In the unit of the metric.
const BOUND: Kind = Any(&[Number(Range { min: f64::NEG_INFINITY, ..ANY }), Time(ANY), Rate(ANY)]);

/// What an expectation is called in messages.
pub(super) fn subject(node: &Node<'_>) -> Option<String> {
    let text_at = |key| node.get_ref().get(key)?.get_ref().as_str();
    ["flow", "link"].into_iter().find_map(|key| Some(format!("of {key} \"{}\"", text_at(key)?)))
}

pub(super) fn expectation(keys: &mut read::Table<'_>) -> Option<Expectation> {
    let flows = keys.with("flow", |node| one_or_many(node, String::read));
    let link = keys.optional("link");
    let stream = keys.optional("stream");
    let of_flows = link.is_none();
    let subject = match (flows, link) {
        (Some(flows), None) if !flows.is_empty() => Some(Subject::Flows(flows)),
        (None, Some(link)) => Some(Subject::Link(link)),
        (Some(_), Some(_)) => {
            keys.wrong("link", "set flow or link, not both");
            None
        }
        _ => {
            keys.wrong("", "flow or link is missing: add flow = \"NAME\" or link = \"NAME\"");
            None
        }
    };
    if !of_flows && stream.is_some() {
        keys.wrong("stream", "stream: links have no streams: remove it");
    }
    let metric = keys.with("metric", |node| {
        let fits = |metric: &Metric| if of_flows { metric.is_of_flows() } else { metric.is_of_links() };
        let known = Metric::all().filter(|metric| subject.is_none() || fits(metric));
        read::choice(node, known.map(|metric| (metric.name(), metric)))
    });
    let [min, max] = bounds(keys, metric.map(Metric::unit));
    let rate = keys.optional("rate");
    let name = keys.optional("name");
    let [from, to] = ["from", "to"].map(|key| keys.optional(key));
    let (subject, metric) = subject.zip(metric)?;
    if metric.is(Metric::TIME_TO_RATE) {
        keys.require("rate", "5 Mbit/s");
    } else if rate.is_some() {
        keys.wrong("rate", "rate: only metric = \"time-to-rate\" has it: remove it");
    }
    Some(Expectation { name, subject, stream, metric, min, max, from, to, rate })
}

/// The bounds in the unit of their metric, if that could be read.
pub(super) fn bounds(keys: &mut read::Table<'_>, unit: Option<Unit>) -> [Option<f64>; 2] {
    ["min", "max"].map(|key| keys.with(key, |node| unit.map_or(Ok(0.0), |unit| bound(node, unit))))
}

fn bound(node: &Node<'_>, unit: Unit) -> Found<f64> {
    match unit {
        // A rate of 0 is a bound like any other.
        Unit::Rate => RateOrZero::read(node).map(|RateOrZero(rate)| rate.as_bps() as f64),
        Unit::Time => TimeDelta::read(node).map(TimeDelta::as_millis),
        Unit::Ratio | Unit::Count(_) => f64::read(node),
    }
}
