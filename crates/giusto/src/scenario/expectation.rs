//! Expectations: bounds on results of flows and links.

use giusto_units::{DataRate, Timestamp};

/// Bounds on a metric of flows or of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Name; default: [`title`](Self::title).
    pub name: Option<String>,
    /// Flows or link.
    pub subject: Subject,
    /// Stream of media flows; default: the flows as a whole.
    pub stream: Option<String>,
    /// Metric.
    pub metric: Metric,
    /// Minimum, in the unit of the metric.
    pub min: Option<f64>,
    /// Maximum, in the unit of the metric.
    pub max: Option<f64>,
    /// Start of the measurement; default: the subject's start and the warm-up after it.
    pub from: Option<Timestamp>,
    /// End of the measurement; default: the subject's stop.
    pub to: Option<Timestamp>,
    /// Rate to reach, for [`Metric::TimeToRate`] only.
    pub rate: Option<DataRate>,
}

/// What a metric is measured on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Flows. The id of a flow with a count means all of them, a numbered id one of them.
    Flows(Vec<String>),
    /// A link.
    Link(String),
}

/// A metric of flows or links. Rates are in bit/s, delays in ms, ratios from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metric {
    /// Of flows: total sent rate, headers included.
    SentRate,
    /// Of flows: total received rate, headers included. Of a stream: payload of the complete frames received.
    ReceivedRate,
    /// Of flows: total goodput. Of TCP the bytes delivered to the application in order, of media the payload of the complete frames
    /// received. Not measured if none of the flows has a goodput.
    Goodput,
    /// Of flows: packets sent.
    SentPackets,
    /// Of flows: packets received.
    ReceivedPackets,
    /// Of flows: ratio of packets dropped to packets sent, without those in flight at the end.
    Loss,
    /// Of flows: ratio of packets received with a congestion mark. Of a link: ratio of packets that its queue marked.
    Marked,
    /// Of flows: one-way delay.
    Delay(Figure),
    /// Of flows: queueing delay over the whole route. Of a link: queueing delay in its queue.
    QueueDelay(Figure),
    /// Of flows: Jain's fairness index of their received rates, 1 if all are equal (Jain, Chiu and Hawe, "A Quantitative Measure of
    /// Fairness and Discrimination for Resource Allocation in Shared Computer Systems", DEC-TR-301, 1984).
    Fairness,
    /// Of media flows with at least two videos in all: Jain's fairness index of the received rates of the videos, each divided by its
    /// priority.
    StreamFairness,
    /// Of media flows: time average of the target rate, summed over the flows.
    TargetRate,
    /// Of media flows: number of changes of the target rate.
    Decisions,
    /// Of media flows: complete frames received.
    Frames,
    /// Of media flows: complete frames received with at least one repaired packet.
    RepairedFrames,
    /// Of media flows: frames that became complete after their playout deadline.
    LateFrames,
    /// Of media flows: rate of the packets that repair lost ones, headers included.
    RepairRate,
    /// Of media flows: packets that the receiver requested, each time counted.
    RequestedPackets,
    /// Of media flows: time from the capture of a frame until it is received completely.
    FrameDelay(Figure),
    /// Of flows: time until their total received rate first reaches a given rate, the convergence time of RFC 8868 §3, item 8. It is
    /// the end of the first interval of 500 ms, counted from the start without warm-up, in which that rate was received.
    TimeToRate,
    /// Of a link: ratio of transmitted bytes to its capacity.
    Utilisation,
    /// Of a link: ratio of packets dropped or lost to packets offered.
    Dropped,
}

/// A statistic of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Figure {
    /// Mean.
    Mean,
    /// Median.
    P50,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// Maximum.
    Max,
}

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// bit/s.
    Rate,
    /// ms.
    Time,
    /// A ratio, 0 to 1.
    Ratio,
    /// Number of these.
    Count(&'static str),
}

impl Metric {
    /// All metrics and their names in a file.
    const NAMES: [(Self, &'static str); 34] = [
        (Self::SentRate, "sent-rate"),
        (Self::ReceivedRate, "received-rate"),
        (Self::Goodput, "goodput"),
        (Self::SentPackets, "sent-packets"),
        (Self::ReceivedPackets, "received-packets"),
        (Self::Loss, "loss"),
        (Self::Marked, "marked"),
        (Self::Delay(Figure::Mean), "delay-mean"),
        (Self::Delay(Figure::P50), "delay-p50"),
        (Self::Delay(Figure::P95), "delay-p95"),
        (Self::Delay(Figure::P99), "delay-p99"),
        (Self::Delay(Figure::Max), "delay-max"),
        (Self::QueueDelay(Figure::Mean), "queue-delay-mean"),
        (Self::QueueDelay(Figure::P50), "queue-delay-p50"),
        (Self::QueueDelay(Figure::P95), "queue-delay-p95"),
        (Self::QueueDelay(Figure::P99), "queue-delay-p99"),
        (Self::QueueDelay(Figure::Max), "queue-delay-max"),
        (Self::Fairness, "fairness"),
        (Self::StreamFairness, "stream-fairness"),
        (Self::TargetRate, "target-rate"),
        (Self::Decisions, "decisions"),
        (Self::Frames, "frames"),
        (Self::RepairedFrames, "repaired-frames"),
        (Self::LateFrames, "late-frames"),
        (Self::RepairRate, "repair-rate"),
        (Self::RequestedPackets, "requested-packets"),
        (Self::FrameDelay(Figure::Mean), "frame-delay-mean"),
        (Self::FrameDelay(Figure::P50), "frame-delay-p50"),
        (Self::FrameDelay(Figure::P95), "frame-delay-p95"),
        (Self::FrameDelay(Figure::P99), "frame-delay-p99"),
        (Self::FrameDelay(Figure::Max), "frame-delay-max"),
        (Self::TimeToRate, "time-to-rate"),
        (Self::Utilisation, "utilisation"),
        (Self::Dropped, "dropped"),
    ];

    /// All metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(metric, _)| metric)
    }

    /// Name, as in a file.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(metric, _)| *metric == self).map_or("?", |(_, name)| name)
    }

    /// Whether it applies to flows.
    pub const fn is_of_flows(self) -> bool {
        !matches!(self, Self::Utilisation | Self::Dropped)
    }

    /// Whether it applies to links.
    pub const fn is_of_links(self) -> bool {
        matches!(self, Self::Utilisation | Self::Dropped | Self::Marked | Self::QueueDelay(_))
    }

    /// Whether only media flows have it.
    pub const fn is_of_media(self) -> bool {
        matches!(
            self,
            Self::StreamFairness
                | Self::TargetRate
                | Self::Decisions
                | Self::Frames
                | Self::RepairedFrames
                | Self::LateFrames
                | Self::RepairRate
                | Self::RequestedPackets
                | Self::FrameDelay(_)
        )
    }

    /// Whether a stream of a flow has it.
    pub const fn is_of_streams(self) -> bool {
        matches!(
            self,
            Self::ReceivedRate
                | Self::Frames
                | Self::RepairedFrames
                | Self::LateFrames
                | Self::RepairRate
                | Self::RequestedPackets
                | Self::FrameDelay(_)
        )
    }

    /// Its unit.
    pub const fn unit(self) -> Unit {
        match self {
            Self::SentRate | Self::ReceivedRate | Self::Goodput | Self::TargetRate | Self::RepairRate => {
                Unit::Rate
            }
            Self::SentPackets | Self::ReceivedPackets | Self::RequestedPackets => Unit::Count("packets"),
            Self::Frames | Self::RepairedFrames | Self::LateFrames => Unit::Count("frames"),
            Self::Decisions => Unit::Count("changes"),
            Self::Delay(_) | Self::QueueDelay(_) | Self::FrameDelay(_) | Self::TimeToRate => Unit::Time,
            Self::Loss
            | Self::Marked
            | Self::Fairness
            | Self::StreamFairness
            | Self::Utilisation
            | Self::Dropped => Unit::Ratio,
        }
    }
}

impl Unit {
    /// Name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "bit/s",
            Self::Time => "ms",
            Self::Ratio => "ratio",
            Self::Count(what) => what,
        }
    }

    /// A value with its unit.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Rate => DataRate::from_bps(value as u64).to_string(),
            Self::Time => format!("{value} ms"),
            Self::Ratio | Self::Count(_) => value.to_string(),
        }
    }
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

    fn of(subject: Subject, metric: Metric) -> Self {
        Self {
            name: None,
            subject,
            stream: None,
            metric,
            min: None,
            max: None,
            from: None,
            to: None,
            rate: None,
        }
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

    /// The same with the rate to reach, for [`Metric::TimeToRate`].
    #[must_use]
    pub fn reaching(mut self, rate: DataRate) -> Self {
        self.rate = Some(rate);
        self
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
        accepts((self.min, self.max), value)
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
pub(super) fn accepts((min, max): (Option<f64>, Option<f64>), value: Option<f64>) -> bool {
    value.is_some_and(|value| min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = Metric::all().map(Metric::name).collect();
        assert_eq!(names.len(), Metric::all().count());
        assert!(!names.contains("?"));
        for statistic in [Figure::Mean, Figure::P50, Figure::P95, Figure::P99, Figure::Max] {
            for metric in [Metric::Delay, Metric::QueueDelay, Metric::FrameDelay] {
                assert!(Metric::all().any(|known| known == metric(statistic)), "{statistic:?}");
            }
        }
    }
}
