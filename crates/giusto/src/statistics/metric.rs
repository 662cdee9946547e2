//! Metrics of expectations, from the rows of the tables.

use std::{fmt, sync::LazyLock};

use super::{FLOW, LINK, MEDIA, Measure, Part, REPAIR, STREAM, Statistic, Unit, Window};

/// What a metric is measured on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Flows. The id of a flow with a count means all of them, a numbered id one of them.
    Flows(Vec<String>),
    /// A link.
    Link(String),
}

/// A metric of flows, streams or links: a statistic, or part of a distribution. Rates are in bit/s, delays in ms, ratios from 0 to 1.
#[derive(Clone, Copy)]
pub struct Metric(&'static Known);

/// What is known of a metric.
struct Known {
    name: String,
    unit: Unit,
    part: Part,
    of_flows: Option<Measure>,
    of_streams: Option<Measure>,
    of_links: Option<Measure>,
    needs_media: bool,
}

/// All metrics, in the order of the tables.
static ALL: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let mut all = Vec::new();
    add(&mut all, FLOW, |known, measure| known.of_flows = Some(measure));
    add(&mut all, MEDIA, |known, measure| (known.of_flows, known.needs_media) = (Some(measure), true));
    for table in [STREAM, REPAIR] {
        add(&mut all, table, |known, measure| {
            known.needs_media |= known.of_flows.is_none();
            known.of_streams = Some(measure);
        });
    }
    add(&mut all, LINK, |known, measure| known.of_links = Some(measure));
    all
});

/// Adds the metrics of `table`; `set` notes of what they are.
fn add<T>(all: &mut Vec<Known>, table: &[Statistic<T>], set: fn(&mut Known, Measure)) {
    for row in table {
        let Some((name, measure)) = row.metric else { continue };
        let parts = if matches!(measure, Measure::Delay(_)) { &Part::ALL[..] } else { &[Part::Mean] };
        for &part in parts {
            let name = match measure {
                Measure::Delay(_) => format!("{name}-{}", part.name()),
                Measure::Number(_) | Measure::Recorded => name.to_owned(),
            };
            let known = all.iter().position(|known| known.name == name).unwrap_or_else(|| {
                let (of_flows, of_streams, of_links) = (None, None, None);
                let unit = row.unit();
                all.push(Known { name, unit, part, of_flows, of_streams, of_links, needs_media: false });
                all.len() - 1
            });
            all.get_mut(known).into_iter().for_each(|known| set(known, measure));
        }
    }
}

impl Metric {
    /// The time until flows receive a given rate.
    pub const TIME_TO_RATE: &'static str = "time-to-rate";

    /// All metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(Self)
    }

    /// The metric of this name.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::scenario::{Metric, Unit};
    ///
    /// assert_eq!(Metric::named("queue-delay-p95").map(Metric::unit), Some(Unit::Time));
    /// assert_eq!(Metric::named("queue-delay"), None);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|metric| metric.is(name))
    }

    /// Name, as in a file.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Whether it has this name.
    pub fn is(self, name: &str) -> bool {
        self.0.name == name
    }

    /// Whether it applies to flows.
    pub fn is_of_flows(self) -> bool {
        self.0.of_flows.is_some() || self.is_of_streams()
    }

    /// Whether it applies to links.
    pub fn is_of_links(self) -> bool {
        self.0.of_links.is_some()
    }

    /// Whether only media flows have it.
    pub fn is_of_media(self) -> bool {
        self.0.needs_media
    }

    /// Whether a stream of a flow has it.
    pub fn is_of_streams(self) -> bool {
        self.0.of_streams.is_some()
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        self.0.unit
    }

    /// Whether it is part of a distribution.
    pub(crate) fn is_of_delays(self) -> bool {
        [self.0.of_flows, self.0.of_streams, self.0.of_links]
            .iter()
            .any(|measure| matches!(measure, Some(Measure::Delay(_))))
    }

    /// Its value for `subject`, of which a stream may be named.
    pub(crate) fn value(self, subject: &Subject, stream: Option<&str>, window: &Window<'_>) -> Option<f64> {
        let Known { part, of_flows, of_streams, of_links, .. } = self.0;
        let measure = match subject {
            Subject::Link(_) => of_links,
            // None of the flows has it.
            Subject::Flows(_) if window.flows.is_empty() => return None,
            Subject::Flows(_) if stream.is_some() => of_streams,
            Subject::Flows(_) => {
                if of_flows.is_some() {
                    of_flows
                } else {
                    of_streams
                }
            }
        };
        match (*measure)? {
            Measure::Number(value) => value(window),
            Measure::Delay(value) => Some(part.of(&value(window)?)),
            Measure::Recorded => None,
        }
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0.name)
    }
}

impl Eq for Metric {}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_known_by_its_name_to_all_that_have_it() {
        let of = |name: &str| {
            let metric = Metric::named(name).unwrap();
            (metric.is_of_flows(), metric.is_of_streams(), metric.is_of_links(), metric.is_of_media())
        };
        assert_eq!(of("received-rate"), (true, true, false, false));
        assert_eq!(of("queue-delay-max"), (true, false, true, false));
        assert_eq!(of("utilisation"), (false, false, true, false));
        assert_eq!(of("frame-delay-p50"), (true, true, false, true));
        assert_eq!(of("stream-fairness"), (true, false, false, true));
        assert_eq!(Metric::all().count(), 34);
    }
}
