//! Keys of expectations.

use giusto_units::{DataRate, TimeDelta};

use super::value::{Found, Node, Read, Table, choice, one_or_many};
use crate::scenario::expectation::{Expectation, Metric, Subject, Unit};

pub(super) fn expectation(keys: &mut Table<'_>) -> Option<Expectation> {
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
    let metric = keys.required_with("metric", |node| {
        let fits = |metric: &Metric| if of_flows { metric.is_of_flows() } else { metric.is_of_links() };
        let known = Metric::all().filter(|metric| subject.is_none() || fits(metric));
        choice(node, known.map(|metric| (metric.name(), metric)))
    });
    let [min, max] = ["min", "max"]
        .map(|key| keys.with(key, |node| metric.map_or(Ok(0.0), |metric| bound(node, metric.unit()))));
    let rate = keys.optional("rate");
    let name = keys.optional("name");
    let [from, to] = ["from", "to"].map(|key| keys.optional(key));
    let (subject, metric) = subject.zip(metric)?;
    if metric == Metric::TimeToRate {
        keys.require("rate");
    } else if rate.is_some() {
        keys.wrong("rate", "rate: only metric = \"time-to-rate\" has it: remove it");
    }
    Some(Expectation { name, subject, stream, metric, min, max, from, to, rate })
}

/// A bound in the unit of its metric.
pub(super) fn bound(node: &Node<'_>, unit: Unit) -> Found<f64> {
    match unit {
        // A rate of 0 is a bound like any other.
        Unit::Rate if node.get_ref().as_str().is_some_and(|text| text.trim_start().starts_with("0 ")) => {
            Ok(0.0)
        }
        Unit::Rate => DataRate::read(node).map(|rate| rate.as_bps() as f64),
        Unit::Time => TimeDelta::read(node).map(TimeDelta::as_millis),
        Unit::Ratio | Unit::Count(_) => f64::read(node),
    }
}
