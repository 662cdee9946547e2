//! What is expected of flows and links.

use giusto_units::{DataRate, Timestamp};

/// A figure and the bounds that it must keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// What it is called; by default what it says.
    pub name: Option<String>,
    /// Of what.
    pub subject: Subject,
    /// Of which of the streams of media flows; by default of the flows as a whole.
    pub stream: Option<String>,
    /// Which figure.
    pub metric: Metric,
    /// The least that it may be, in the unit of the metric.
    pub min: Option<f64>,
    /// The most that it may be, in the unit of the metric.
    pub max: Option<f64>,
    /// From when on is measured; by default from the subject's start, and the warm-up over.
    pub from: Option<Timestamp>,
    /// Until when is measured; by default until the subject's stop.
    pub to: Option<Timestamp>,
    /// The rate that is to be reached, of [`Metric::TimeToRate`].
    pub rate: Option<DataRate>,
}

/// What a figure is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// One or several flows: an id means all of that flow, a numbered one means one of them.
    Flows(Vec<String>),
    /// A link.
    Link(String),
}

/// A figure that can be expected. Rates are in bit/s, delays in ms, shares between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metric {
    /// Of flows: what they sent in all, headers included.
    SentRate,
    /// Of flows: what arrived in all, headers included. Of a stream: the payload of the frames that arrived whole.
    ReceivedRate,
    /// Of flows: packets that they sent.
    SentPackets,
    /// Of flows: packets that arrived.
    ReceivedPackets,
    /// Of flows: the share that was dropped, of the packets sent whose fate is known.
    Loss,
    /// Of flows: the share that arrived with a congestion mark. Of a link: the share that its queue marked.
    Marked,
    /// Of flows: one-way delay.
    Delay(Figure),
    /// Of flows: time in all queues of the way. Of a link: time in its queue.
    QueueDelay(Figure),
    /// Of flows: Jain's index of their received rates, 1 if all are equal (Jain, Chiu and Hawe, "A Quantitative Measure of
    /// Fairness and Discrimination for Resource Allocation in Shared Computer Systems", DEC-TR-301, 1984).
    Fairness,
    /// Of media with several videos: Jain's index of the received rates of the videos, each divided by its priority; of several flows,
    /// of the videos of all.
    StreamFairness,
    /// Of media: the mean over time of the controller's target; of several flows, in all.
    TargetRate,
    /// Of media: how often the target changed.
    Decisions,
    /// Of media: frames that arrived whole.
    Frames,
    /// Of media: from the capture of a frame until it arrived whole.
    FrameDelay(Figure),
    /// Of flows: from the beginning until what arrives first reaches a rate, which must be given: the convergence time of RFC 8868
    /// §3, item 8. Counted in steps of 500 ms from the beginning on, which no warm-up delays; it is the end of the first step
    /// within which as much arrived. Of several flows, in all.
    TimeToRate,
    /// Of a link: transmitted bytes over those that it could have.
    Utilisation,
    /// Of a link: the share of the packets offered that it dropped or lost.
    Dropped,
}

/// A figure of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Figure {
    /// The mean.
    Mean,
    /// Half lie at or below it.
    P50,
    /// 95 % lie at or below it.
    P95,
    /// 99 % lie at or below it.
    P99,
    /// The largest.
    Max,
}

/// In which unit a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// bit/s.
    Rate,
    /// ms.
    Time,
    /// A share, 0 to 1.
    Ratio,
    /// A number of these.
    Count(&'static str),
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 29] = {
        use Figure::{Max, Mean, P50, P95, P99};
        [
            Self::SentRate,
            Self::ReceivedRate,
            Self::SentPackets,
            Self::ReceivedPackets,
            Self::Loss,
            Self::Marked,
            Self::Delay(Mean),
            Self::Delay(P50),
            Self::Delay(P95),
            Self::Delay(P99),
            Self::Delay(Max),
            Self::QueueDelay(Mean),
            Self::QueueDelay(P50),
            Self::QueueDelay(P95),
            Self::QueueDelay(P99),
            Self::QueueDelay(Max),
            Self::Fairness,
            Self::StreamFairness,
            Self::TargetRate,
            Self::Decisions,
            Self::Frames,
            Self::FrameDelay(Mean),
            Self::FrameDelay(P50),
            Self::FrameDelay(P95),
            Self::FrameDelay(P99),
            Self::FrameDelay(Max),
            Self::TimeToRate,
            Self::Utilisation,
            Self::Dropped,
        ]
    };

    /// The name, as in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SentRate => "sent-rate",
            Self::ReceivedRate => "received-rate",
            Self::SentPackets => "sent-packets",
            Self::ReceivedPackets => "received-packets",
            Self::Loss => "loss",
            Self::Marked => "marked",
            Self::Delay(Figure::Mean) => "delay-mean",
            Self::Delay(Figure::P50) => "delay-p50",
            Self::Delay(Figure::P95) => "delay-p95",
            Self::Delay(Figure::P99) => "delay-p99",
            Self::Delay(Figure::Max) => "delay-max",
            Self::QueueDelay(Figure::Mean) => "queue-delay-mean",
            Self::QueueDelay(Figure::P50) => "queue-delay-p50",
            Self::QueueDelay(Figure::P95) => "queue-delay-p95",
            Self::QueueDelay(Figure::P99) => "queue-delay-p99",
            Self::QueueDelay(Figure::Max) => "queue-delay-max",
            Self::Fairness => "fairness",
            Self::StreamFairness => "stream-fairness",
            Self::TargetRate => "target-rate",
            Self::Decisions => "decisions",
            Self::Frames => "frames",
            Self::FrameDelay(Figure::Mean) => "frame-delay-mean",
            Self::FrameDelay(Figure::P50) => "frame-delay-p50",
            Self::FrameDelay(Figure::P95) => "frame-delay-p95",
            Self::FrameDelay(Figure::P99) => "frame-delay-p99",
            Self::FrameDelay(Figure::Max) => "frame-delay-max",
            Self::TimeToRate => "time-to-rate",
            Self::Utilisation => "utilisation",
            Self::Dropped => "dropped",
        }
    }

    /// Whether it applies to flows.
    pub const fn is_of_flows(self) -> bool {
        !matches!(self, Self::Utilisation | Self::Dropped)
    }

    /// Whether it applies to links.
    pub const fn is_of_links(self) -> bool {
        matches!(self, Self::Utilisation | Self::Dropped | Self::Marked | Self::QueueDelay(_))
    }

    /// Whether only media have it.
    pub const fn is_of_media(self) -> bool {
        matches!(
            self,
            Self::StreamFairness | Self::TargetRate | Self::Decisions | Self::Frames | Self::FrameDelay(_)
        )
    }

    /// Whether one stream of a flow has it.
    pub const fn is_of_streams(self) -> bool {
        matches!(self, Self::ReceivedRate | Self::Frames | Self::FrameDelay(_))
    }

    /// Its unit.
    pub const fn unit(self) -> Unit {
        match self {
            Self::SentRate | Self::ReceivedRate | Self::TargetRate => Unit::Rate,
            Self::SentPackets | Self::ReceivedPackets => Unit::Count("packets"),
            Self::Frames => Unit::Count("frames"),
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
    /// What stands in a result.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "bit/s",
            Self::Time => "ms",
            Self::Ratio => "ratio",
            Self::Count(what) => what,
        }
    }

    /// A bound as people write it.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Rate => DataRate::from_bps(value as u64).to_string(),
            Self::Time => format!("{value} ms"),
            Self::Ratio | Self::Count(_) => value.to_string(),
        }
    }
}

impl Expectation {
    /// An expectation without bounds over the whole time of a flow.
    pub fn of_flow(id: impl Into<String>, metric: Metric) -> Self {
        Self::of(Subject::Flows(vec![id.into()]), metric)
    }

    /// An expectation without bounds over the whole time of a link.
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

    /// The same of one stream of the flows: a video by its id, or `audio`.
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

    /// The same over a time of its own.
    #[must_use]
    pub fn during(mut self, from: Timestamp, to: Timestamp) -> Self {
        (self.from, self.to) = (Some(from), Some(to));
        self
    }

    /// The same with the rate that is to be reached, of [`Metric::TimeToRate`].
    #[must_use]
    pub fn reaching(mut self, rate: DataRate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// What is expected, in words: `flow tcp: received-rate`.
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

    /// Within which bounds, in words.
    pub fn bound(&self) -> String {
        let write = |value| self.metric.unit().write(value);
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{} to {}", write(min), write(max)),
            (Some(min), None) => format!("at least {}", write(min)),
            (None, Some(max)) => format!("at most {}", write(max)),
            (None, None) => "any".to_owned(),
        }
    }

    /// Whether `value` keeps the bounds; what could not be measured does not.
    pub fn accepts(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| {
            self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max)
        })
    }
}
