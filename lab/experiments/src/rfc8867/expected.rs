//! What is expected of a run: the expectations of the scenario files, and those that need more than one figure or another run.

use std::borrow::Cow;

use super::{Run, metrics::Period};
use crate::item::Item;
use giusto::{
    scenario::Expectation,
    view::format::{UNKNOWN, short},
};

/// The minimum of the media (RFC 8867 §4.3).
const MINIMUM_BPS: f64 = 150_000.0;
/// The maximum of a media flow: 1.5 Mbit/s with headers and audio.
const MEDIA_MAX_BPS: f64 = 1.61e6;

/// An expectation of a case.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) what: Cow<'static, str>,
    pub(super) unit: &'static str,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) value: Value,
}

/// How the value of an expectation is obtained.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// It is that of the scenario's expectation with this number.
    Check(usize),
    Of(fn(&Run) -> Option<f64>),
    /// It compares the run with the run of another case.
    Against(fn(&Run, &Run) -> Option<f64>),
    /// As `Of`; it is shown and not judged, because no scenario can express the condition.
    Unjudged(fn(&Run) -> Option<f64>),
}

/// RFC 8868 §3, item 7: two flows of equal priority differ by a factor of at most 3, over 5 s.
pub(super) const FAIR_OVER_5S: Expected =
    expected("fairness over 5 s", "ratio", [Some(1.0), Some(3.0)], Value::Of(fairness_5s));
/// The same over 20 s.
pub(super) const FAIR_OVER_20S: Expected =
    expected("fairness over 20 s", "ratio", [Some(1.0), Some(3.0)], Value::Of(fairness_20s));
/// RFC 8868 §3, item 9.
pub(super) const STEADY: Expected = expected("oscillation", "swings", [None, Some(0.0)], Value::Of(swings));
/// §5.3: the goodput of the forward media over that of the reference.
pub(super) const AS_THE_REFERENCE: Expected = expected(
    "goodput forwards against the reference",
    "ratio",
    [Some(0.8), Some(1.25)],
    Value::Against(|run, reference| ratio(first_goodput(run)?, first_goodput(reference)?)),
);
/// §5.7: the worst 5 s of a media flow.
pub(super) const NOT_STARVED: Expected =
    expected("worst 5 s of a flow", "bit/s", [Some(MINIMUM_BPS), None], Value::Of(worst_5s));
/// §6.1: twice the rate of the other flows.
pub(super) const PRIORITY: Expected =
    expected("rate of s1 over that of the others", "ratio", [Some(2.0), None], Value::Unjudged(priority));
/// §6.2: the goodput over that without marks.
pub(super) const MARKED_GOODPUT: Expected = expected(
    "goodput against that without marks",
    "ratio",
    [Some(0.9), None],
    Value::Against(|run, unmarked| ratio(goodput(run), goodput(unmarked))),
);
/// §6.2: the queueing delay over that without marks.
pub(super) const MARKED_DELAY: Expected = expected(
    "delay in queues against that without marks",
    "ratio",
    [None, Some(1.0)],
    Value::Against(|run, unmarked| ratio(queue_delay(run)?, queue_delay(unmarked)?)),
);
/// Of held-out variants, without TCP: the settled media rate over the capacity or the maximum of the media.
pub(super) const USED: Expected =
    expected("utilisation", "ratio", [Some(0.75), Some(1.05)], Value::Of(utilisation));

const fn expected(
    what: &'static str,
    unit: &'static str,
    [min, max]: [Option<f64>; 2],
    value: Value,
) -> Expected {
    Expected { what: Cow::Borrowed(what), unit, min, max, value }
}

fn fairness_5s(run: &Run) -> Option<f64> {
    run.metrics.periods.iter().filter_map(|period| period.fairness_5s_ratio).max_by(f64::total_cmp)
}

fn fairness_20s(run: &Run) -> Option<f64> {
    run.metrics.periods.iter().filter_map(|period| period.fairness_20s_ratio).max_by(f64::total_cmp)
}

#[expect(clippy::unnecessary_wraps, reason = "one of several figures that may be unknown")]
fn swings(run: &Run) -> Option<f64> {
    let flows = run.metrics.periods.iter().flat_map(|period| &period.flows);
    Some(flows.map(|flow| flow.swings).sum::<u64>() as f64)
}

fn first_goodput(run: &Run) -> Option<f64> {
    run.metrics.flows.first()?.goodput_bps
}

fn worst_5s(run: &Run) -> Option<f64> {
    let media = run.metrics.flows.iter().filter(|flow| flow.goodput_bps.is_some());
    media.filter_map(|flow| flow.worst_5s_bps).min_by(f64::total_cmp)
}

fn priority(run: &Run) -> Option<f64> {
    let (first, others) = run.metrics.periods.last()?.flows.split_first()?;
    let sum: f64 = others.iter().map(|flow| flow.received_rate_bps).sum();
    ratio(first.received_rate_bps, sum / others.len().max(1) as f64)
}

/// The goodput of all media flows.
fn goodput(run: &Run) -> f64 {
    run.metrics.flows.iter().filter_map(|flow| flow.goodput_bps).sum()
}

/// The 95th percentile of the media flow with the largest.
fn queue_delay(run: &Run) -> Option<f64> {
    let media = run.result.flows.iter().filter(|flow| flow.kind == "media");
    media.filter_map(|flow| Some(flow.queue_delay_ms?.p95)).max_by(f64::total_cmp)
}

/// That of the period with the smallest.
fn utilisation(run: &Run) -> Option<f64> {
    let used = |period: &Period| {
        let available = period.capacity_bps?.min(period.flows.len() as f64 * MEDIA_MAX_BPS);
        ratio(period.flows.iter().map(|flow| flow.sent_rate_bps).sum(), available)
    };
    run.metrics.periods.iter().filter_map(used).min_by(f64::total_cmp)
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

impl Expected {
    /// The expectation of a scenario with this number.
    pub(super) fn of_scenario((number, expectation): (usize, Expectation)) -> Self {
        Self {
            what: expectation.title().into(),
            unit: expectation.metric.unit().name(),
            min: expectation.min,
            max: expectation.max,
            value: Value::Check(number),
        }
    }

    /// The bounds in words.
    pub(super) fn bound(&self) -> String {
        let bounds = match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{} to {}", self.number(min), self.number(max)),
            (Some(min), None) => format!("at least {}", self.number(min)),
            (None, Some(max)) => format!("at most {}", self.number(max)),
            (None, None) => return UNKNOWN.to_owned(),
        };
        let unit = match self.unit {
            "bit/s" => "Mbit/s",
            "ratio" if self.is_small() => "%",
            "ratio" => "",
            unit => unit,
        };
        format!("{bounds} {unit}").trim_end().to_owned()
    }

    /// Whether it is a ratio so small that it is shown as a percentage.
    fn is_small(&self) -> bool {
        self.max.is_some_and(|max| max <= 0.1)
    }

    /// A value without its unit.
    fn number(&self, value: f64) -> String {
        match self.unit {
            _ if !value.is_finite() => "∞".to_owned(),
            "bit/s" => format!("{:.3}", value / 1e6),
            "ratio" if self.is_small() => format!("{:.2}", value * 100.0),
            "ratio" => format!("{value:.2}"),
            "swings" => format!("{value:.0}"),
            _ => short(value),
        }
    }

    /// The median for a table, and a value out of bounds where the median is within them.
    pub(super) fn found(&self, item: &Item) -> String {
        let Some(ours) = item.ours else { return UNKNOWN.to_owned() };
        let wrong =
            [item.ours_low, item.ours_high].into_iter().flatten().find(|&end| !self.accepts(Some(end)));
        match wrong.filter(|_| item.comparable && self.accepts(item.ours)) {
            Some(wrong) => format!("{}, once {}", self.number(ours), self.number(wrong)),
            None => self.number(ours),
        }
    }

    pub(super) fn accepts(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| {
            self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
        })
    }

    pub(super) const fn is_judged(&self) -> bool {
        !matches!(self.value, Value::Unjudged(_))
    }

    /// Whether the bounds hold for changed rates and delays: those of rates do not.
    pub(super) fn is_relative(&self) -> bool {
        self.unit != "bit/s"
    }
}
