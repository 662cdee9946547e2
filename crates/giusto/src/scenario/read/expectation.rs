//! Expectations: a figure and its bounds.

use super::{
    choose,
    fields::{Fields, Findings},
};
use crate::scenario::{
    Expectation, Metric, Subject,
    expectation::Unit,
    tree::{Node, Value},
};

pub(super) fn read(node: &Node, findings: &Findings) -> Option<Expectation> {
    let subject = ["flow", "link"].into_iter().find_map(|key| Some((key, node.get(key)?.as_text()?)));
    let owner = subject.map_or_else(|| "expect".to_owned(), |(key, id)| format!("expect of {key} \"{id}\""));
    let fields = Fields::new(node, owner, findings);
    let (flows, link) = (fields.texts("flow"), fields.text("link"));
    let subject = match (flows, link) {
        (Some(flows), None) if !flows.is_empty() => Some(Subject::Flows(flows)),
        (None, Some(link)) => Some(Subject::Link(link)),
        (Some(_), Some(_)) => {
            fields.complain_of_all("either flow or link: make two expectations of it".to_owned());
            None
        }
        _ => {
            fields.complain_of_all("of what? Add flow = \"NAME\" or link = \"NAME\"".to_owned());
            None
        }
    };
    let stream = fields.text("stream");
    if let (Some(Subject::Link(_)), Some(node)) = (&subject, fields.node("stream")) {
        fields.complain(node, "stream", format_args!("links know no streams: leave it out"));
    }
    let of_flows = !matches!(subject, Some(Subject::Link(_)));
    let names: Vec<(&'static str, Metric)> = Metric::ALL
        .into_iter()
        .filter(|metric| if of_flows { metric.is_of_flows() } else { metric.is_of_links() })
        .map(|metric| (metric.name(), metric))
        .collect();
    let metric = fields.required("metric", |fields, key| choose(fields, key, &names));
    let bound = |key| metric.and_then(|metric| bound(&fields, key, metric.unit()));
    let (min, max) = (bound("min"), bound("max"));
    let rate = match metric {
        Some(Metric::TimeToRate) => Some(fields.required("rate", Fields::rate)?),
        _ => None,
    };
    if let Some(node) = fields.node("rate")
        && metric.is_some_and(|metric| metric != Metric::TimeToRate)
    {
        fields.complain(
            node,
            "rate",
            format_args!("it goes with metric = \"time-to-rate\" alone: leave it out"),
        );
    }
    // Known even where the metric is not.
    for key in ["min", "max"] {
        fields.node(key);
    }
    let expectation = Expectation {
        name: fields.text("name"),
        from: fields.moment("from"),
        to: fields.moment("to"),
        min,
        max,
        rate,
        stream,
        metric: metric.unwrap_or(Metric::Loss),
        subject: subject.clone().unwrap_or(Subject::Flows(Vec::new())),
    };
    fields.finish();
    metric.and(subject).map(|_| expectation)
}

/// A bound in the unit that its metric has.
fn bound(fields: &Fields<'_>, key: &'static str, unit: Unit) -> Option<f64> {
    let node = fields.node(key)?;
    match unit {
        // A rate of nothing is a bound like any other.
        Unit::Rate => match &node.value {
            Value::Text(text) if text.trim_start().starts_with("0 ") => Some(0.0),
            _ => fields.rate(key).map(|rate| rate.as_bps() as f64),
        },
        Unit::Time => fields.time(key).map(giusto_units::TimeDelta::as_millis),
        Unit::Ratio | Unit::Count(_) => fields.number(key),
    }
}
