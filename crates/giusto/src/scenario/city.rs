//! Cities: calls in the cells of an LTE network, as data.

use giusto_lte::{city::CityConfig, radio::link::Direction};

use super::{
    expectation::{self, Unit},
    media::MediaSpec,
    model::QueueSpec,
};

/// A city and the calls in it.
#[derive(Debug, Clone, PartialEq)]
pub struct CitySpec {
    /// Cells, users, radio.
    pub config: CityConfig,
    /// The media of each call.
    pub media: MediaSpec,
    /// The queue of each bearer.
    pub queue: QueueSpec,
}

/// A valid scenario of a city: a file with a `[city]` table.
///
/// # Example
///
/// ```
/// use giusto::scenario::Document;
///
/// let text = "[city]\nusers-per-cell = 2.1\nspeed = \"30 km/h\"\n";
/// let document = Document::parse(text, "city.toml")?;
/// assert!(document.is_city());
/// let city = document.city(&[])?;
/// assert_eq!(city.spec.config.users_per_cell, 2.1);
///
/// let message = Document::parse("[city]\nusers-per-cell = 60\n", "city.toml")?.city(&[]).unwrap_err().to_string();
/// assert_eq!(message, "city.toml:2: city: users-per-cell must be 0 to 50, found 60");
/// # Ok::<(), giusto::scenario::ScenarioError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CityScenario {
    /// Name, also of result folders.
    pub name: String,
    /// One sentence on what the scenario shows.
    pub description: String,
    /// The city. Its seed is that of the file.
    pub spec: CitySpec,
    /// Bounds on results.
    pub expectations: Vec<CityExpectation>,
}

/// Bounds on a metric of a city.
#[derive(Debug, Clone, PartialEq)]
pub struct CityExpectation {
    /// Name; default: [`title`](Self::title).
    pub name: Option<String>,
    /// Metric.
    pub metric: CityMetric,
    /// Direction of a metric of the radio; default: that of the media.
    pub direction: Option<Direction>,
    /// Minimum, in the unit of the metric.
    pub min: Option<f64>,
    /// Maximum, in the unit of the metric.
    pub max: Option<f64>,
}

/// A metric of a city. Rates are in bit/s, delays in ms, ratios from 0 to 1. Those of calls are about what was sent in the
/// evaluation, those of files and of the radio about the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CityMetric {
    /// Calls evaluated.
    Calls,
    /// 95th percentile over calls of the 98th percentile of the delay of video frames, from capture.
    FrameTail,
    /// 95th percentile over calls of the 98th percentile of the delay of packets.
    PacketTail,
    /// Median over calls of the median delay of packets.
    PacketMedian,
    /// Mean over calls of the ratio of packets that did not arrive.
    Loss,
    /// Mean over calls of the video rate sent: RTP payload.
    SentVideoRate,
    /// Mean over calls of the video rate received: RTP payload.
    ReceivedVideoRate,
    /// Ratio of video frames that the senders skipped.
    Skipped,
    /// Ratio of calls whose user was outside coverage on arrival.
    Uncovered,
    /// Handovers.
    Handovers,
    /// Mean duration of a completed file transfer.
    FileTime,
    /// Ratio of file transfers given up to those that ended.
    AbandonedFiles,
    /// Of the radio: mean rate of decoded transport blocks in a cell.
    CellThroughput,
    /// Of the radio: ratio of first transmissions that failed.
    BlockError,
    /// Of the radio: ratio of resource blocks used.
    Utilisation,
}

impl CityMetric {
    const NAMES: [(Self, &'static str); 15] = [
        (Self::Calls, "calls"),
        (Self::FrameTail, "frame-tail"),
        (Self::PacketTail, "packet-tail"),
        (Self::PacketMedian, "packet-median"),
        (Self::Loss, "loss"),
        (Self::SentVideoRate, "sent-video-rate"),
        (Self::ReceivedVideoRate, "received-video-rate"),
        (Self::Skipped, "skipped"),
        (Self::Uncovered, "uncovered"),
        (Self::Handovers, "handovers"),
        (Self::FileTime, "file-time"),
        (Self::AbandonedFiles, "abandoned-files"),
        (Self::CellThroughput, "cell-throughput"),
        (Self::BlockError, "block-error"),
        (Self::Utilisation, "utilisation"),
    ];

    /// All metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.into_iter().map(|(metric, _)| metric)
    }

    /// Name, as in a file.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(metric, _)| *metric == self).map_or("?", |(_, name)| name)
    }

    /// Whether it is measured in one direction of the radio.
    pub const fn is_of_radio(self) -> bool {
        matches!(self, Self::CellThroughput | Self::BlockError | Self::Utilisation)
    }

    /// Its unit.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Calls => Unit::Count("calls"),
            Self::Handovers => Unit::Count("handovers"),
            Self::FrameTail | Self::PacketTail | Self::PacketMedian | Self::FileTime => Unit::Time,
            Self::SentVideoRate | Self::ReceivedVideoRate | Self::CellThroughput => Unit::Rate,
            Self::Loss
            | Self::Skipped
            | Self::Uncovered
            | Self::AbandonedFiles
            | Self::BlockError
            | Self::Utilisation => Unit::Ratio,
        }
    }
}

impl CityExpectation {
    /// Metric in words: `city: frame-tail`, `city uplink: block-error`.
    pub fn title(&self) -> String {
        let direction = match self.direction {
            None => "",
            Some(Direction::Downlink) => " downlink",
            Some(Direction::Uplink) => " uplink",
        };
        self.name.clone().unwrap_or_else(|| format!("city{direction}: {}", self.metric.name()))
    }

    /// The bounds in words.
    pub fn bound(&self) -> String {
        expectation::bound(self.metric.unit(), self.min, self.max)
    }

    /// Whether `value` is within the bounds; a missing value is not.
    pub fn accepts(&self, value: Option<f64>) -> bool {
        expectation::accepts((self.min, self.max), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_a_city_has_its_own_name() {
        let names: std::collections::BTreeSet<&str> = CityMetric::all().map(CityMetric::name).collect();
        assert_eq!(names.len(), CityMetric::all().count());
        assert!(!names.contains("?"));
    }
}
