//! Keys of expectations.

use giusto_units::{DataRate, TimeDelta, Timestamp};
use serde::Deserialize;

use super::{
    quantity::{Q, Scalar},
    value::OneOrMany,
};
use crate::scenario::{
    error::{KeyError, unknown},
    expectation::{Expectation, Metric, Subject, Unit},
};

#[derive(Deserialize)]
pub(super) struct ExpectKeys {
    flow: Option<OneOrMany<String>>,
    link: Option<String>,
    stream: Option<String>,
    metric: String,
    min: Option<Scalar>,
    max: Option<Scalar>,
    rate: Option<Q<DataRate>>,
    name: Option<String>,
    from: Option<Q<Timestamp>>,
    to: Option<Q<Timestamp>>,
}

pub(super) fn expectation(keys: ExpectKeys) -> Result<Expectation, KeyError> {
    let subject = match (keys.flow.map(OneOrMany::into_vec), keys.link) {
        (Some(flows), None) if !flows.is_empty() => Subject::Flows(flows),
        (None, Some(link)) => Subject::Link(link),
        (Some(_), Some(_)) => return Err(("link", "set flow or link, not both".to_owned())),
        _ => return Err(("", "flow or link is missing: add flow = \"NAME\" or link = \"NAME\"".to_owned())),
    };
    let of_link = matches!(subject, Subject::Link(_));
    if of_link && keys.stream.is_some() {
        return Err(("stream", "stream: links have no streams: remove it".to_owned()));
    }
    let fits = |metric: &Metric| if of_link { metric.is_of_links() } else { metric.is_of_flows() };
    let fitting: Vec<Metric> = Metric::all().filter(fits).collect();
    let metric = fitting.iter().copied().find(|metric| metric.name() == keys.metric).ok_or_else(|| {
        let known: Vec<&str> = fitting.iter().map(|metric| metric.name()).collect();
        ("metric", format!("metric: {}", unknown("name", &keys.metric, &known)))
    })?;
    let bound = |key, value: Option<Scalar>| {
        let value = value.map(|value| bound(&value, metric.unit())).transpose();
        value.map_err(|text| (key, format!("{key}: {text}")))
    };
    let (min, max) = (bound("min", keys.min)?, bound("max", keys.max)?);
    let rate = keys.rate.map(|rate| rate.0);
    if metric == Metric::TimeToRate && rate.is_none() {
        return Err(("", "rate is missing: add rate = \"5 Mbit/s\"".to_owned()));
    }
    if metric != Metric::TimeToRate && rate.is_some() {
        return Err(("rate", "rate: only metric = \"time-to-rate\" has it: remove it".to_owned()));
    }
    let (from, to) = (keys.from.map(|from| from.0), keys.to.map(|to| to.0));
    Ok(Expectation { name: keys.name, subject, stream: keys.stream, metric, min, max, from, to, rate })
}

/// A bound in the unit of its metric.
fn bound(value: &Scalar, unit: Unit) -> Result<f64, String> {
    match unit {
        // A rate of 0 is a bound like any other.
        Unit::Rate => match value {
            Scalar::Text(text) if text.trim_start().starts_with("0 ") => Ok(0.0),
            _ => value.as_quantity().map(|rate: DataRate| rate.as_bps() as f64),
        },
        Unit::Time => value.as_quantity().map(TimeDelta::as_millis),
        Unit::Ratio | Unit::Count(_) => value.as_number(),
    }
}
