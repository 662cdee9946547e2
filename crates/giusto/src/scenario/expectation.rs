//! Expectations: bounds on results of flows and links.

use giusto_units::{DataRate, Timestamp};

pub use crate::statistics::{Metric, Subject, Unit};

giusto_units::defaults! {
    /// Bounds on a metric of flows or of a link.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Expectation {
        /// Name; default: [`title`](Self::title).
        pub name: Option<String> = None,
        /// Flows or link.
        pub subject: Subject = subject,
        /// Stream of media flows; default: the flows as a whole.
        pub stream: Option<String> = None,
        /// Metric.
        pub metric: Metric = metric,
        /// Minimum, in the unit of the metric.
        pub min: Option<f64> = None,
        /// Maximum, in the unit of the metric.
        pub max: Option<f64> = None,
        /// Start of the measurement; default: the subject's start and the warm-up after it.
        pub from: Option<Timestamp> = None,
        /// End of the measurement; default: the subject's stop.
        pub to: Option<Timestamp> = None,
        /// Rate to reach, for the metric [`TIME_TO_RATE`](Metric::TIME_TO_RATE) only.
        pub rate: Option<DataRate> = None,
    }
    fn of(subject: Subject, metric: Metric);
}

impl Expectation {
    /// An expectation without bounds for the whole time of a flow.
    pub fn of_flow(id: impl Into<String>, metric: Metric) -> Self {
        Self::of(Subject::Flows(vec![id.into()]), metric)
    }

    /// An expectation without bounds for the whole run of a link.
    pub fn of_link(id: impl Into<String>, metric: Metric) -> Self {
        Self::of(Subject::Link(id.into()), metric)
    }

    /// The same for one stream of the flows: a video by its id, or `audio`.
    #[must_use]
    pub fn of_stream(mut self, id: impl Into<String>) -> Self {
        self.stream = Some(id.into());
        self
    }

    /// The same with both bounds, in the unit of the metric.
    #[must_use]
    pub fn between(mut self, min: f64, max: f64) -> Self {
        (self.min, self.max) = (Some(min), Some(max));
        self
    }

    /// The same over an interval of the run.
    #[must_use]
    pub fn during(mut self, from: Timestamp, to: Timestamp) -> Self {
        (self.from, self.to) = (Some(from), Some(to));
        self
    }

    /// Whether a run that ends at `end` has the time that it is about.
    pub(crate) fn is_within(&self, end: Timestamp) -> bool {
        self.from.is_none_or(|from| from < end) && self.to.is_none_or(|to| to <= end)
    }

    /// Subject and metric in words: `flow tcp: received-rate`.
    pub fn title(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let subject = match &self.subject {
            Subject::Flows(ids) if ids.len() > 1 => format!("flows {}", ids.join(", ")),
            Subject::Flows(ids) => format!("flow {}", ids.join("")),
            Subject::Link(id) => format!("link {id}"),
        };
        let stream = self.stream.as_ref().map_or_else(String::new, |id| format!(", stream {id}"));
        let seconds = |moment: Timestamp| format!("{} s", moment.as_seconds());
        let time = match (self.from, self.to) {
            (None, None) => String::new(),
            (Some(from), None) => format!(" from {}", seconds(from)),
            (None, Some(to)) => format!(" until {}", seconds(to)),
            (Some(from), Some(to)) => format!(" from {} to {}", seconds(from), seconds(to)),
        };
        let rate = self.rate.map_or_else(String::new, |rate| format!(" of {rate}"));
        format!("{subject}{stream}: {}{rate}{time}", self.metric.name())
    }

    /// The bounds in words.
    pub fn bound(&self) -> String {
        bound(self.metric.unit(), self.min, self.max)
    }

    /// Whether `value` is within the bounds; a missing value is not.
    pub fn accepts(&self, value: Option<f64>) -> bool {
        accepts(self.min, self.max, value)
    }
}

/// Bounds in words.
pub(super) fn bound(unit: Unit, min: Option<f64>, max: Option<f64>) -> String {
    let write = |value| unit.write(value);
    match (min, max) {
        (Some(min), Some(max)) => format!("{} to {}", write(min), write(max)),
        (Some(min), None) => format!("at least {}", write(min)),
        (None, Some(max)) => format!("at most {}", write(max)),
        (None, None) => "any".to_owned(),
    }
}

/// Whether `value` is within a minimum and a maximum; a missing value is not.
pub(super) fn accepts(min: Option<f64>, max: Option<f64>, value: Option<f64>) -> bool {
    value.is_some_and(|value| min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max))
}
