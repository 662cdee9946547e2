//! Statistics of cities.

use giusto_lte::city::{CityFigures, RadioFigures};

use super::{Read, Statistic, Unit, flow::ratio};

type City = Statistic<CityFigures>;
type Radio = Statistic<RadioFigures>;

/// Statistics of the calls of a city, over what was sent within the evaluation.
pub const CALLS: &[City] = &[
    City::new("calls", "calls", Read::Count("calls", |city| Some(city.calls as u64)))
        .defined("Calls evaluated: at least 5 s of them are within the evaluation.")
        .column(0)
        .named("calls"),
    City::new("frame_tail_ms", "frame delay tail", Read::Time(|city| known(city.frame_tail_ms)))
        .defined("95th percentile over calls of the 98th percentile of the delay of video frames, from capture to completion.")
        .column(0)
        .named("frame-tail"),
    City::new("packet_tail_ms", "packet delay tail", Read::Time(|city| known(city.packet_tail_ms)))
        .defined("The same of packets, from departure at the sender to arrival at the receiver.")
        .column(2)
        .named("packet-tail"),
    City::new("packet_median_ms", "packet delay median", Read::Time(|city| known(city.packet_median_ms)))
        .defined("Median over calls of the median delay of packets.")
        .column(1)
        .named("packet-median"),
    City::rate("sent_video_bps", "video sent", |city| known(city.sent_video_bps))
        .defined("Mean over calls of the rate of the video sent: RTP payload.")
        .column(0)
        .named("sent-video-rate"),
    City::rate("received_video_bps", "video received", |city| known(city.received_video_bps))
        .defined("Mean over calls of the rate of the video received: RTP payload.")
        .column(0)
        .named("received-video-rate"),
    City::ratio("skipped_ratio", "frames skipped", |city| known(city.skipped_ratio))
        .defined("Share of the video frames that the senders skipped.")
        .column(0)
        .named("skipped"),
    City::ratio("loss_ratio", "packet loss", |city| known(city.loss_ratio))
        .defined("Mean over calls of the share of packets that did not arrive.")
        .column(0)
        .named("loss"),
];

/// Statistics of the users and file transfers of a city, over the whole run.
pub const USERS: &[City] = &[
    City::new("all_calls", "all calls", Read::Count("calls", |city| Some(city.all_calls)))
        .defined("Calls that have begun.")
        .column(0),
    City::new("uncovered_calls", "outside coverage", Read::Count("calls", |city| Some(city.uncovered_calls)))
        .defined("Calls whose user's wideband SINR at full load was below −7 dB on arrival; they take place nevertheless.")
        .column(0),
    City::ratio("", "outside coverage", |city| ratio(city.uncovered_calls, city.all_calls))
        .defined("Share of the calls whose user was outside coverage on arrival.")
        .named("uncovered"),
    City::new("handovers", "handovers", Read::Count("handovers", |city| Some(city.handovers)))
        .defined("Handovers.")
        .column(0)
        .named("handovers"),
    City::new("files", "files", Read::Count("files", |city| Some(city.files)))
        .defined("File transfers over TCP that have begun, each of a user of its own.")
        .column(1),
    City::new("completed_files", "completed files", Read::Count("files", |city| Some(city.completed_files)))
        .defined("File transfers that were completed.")
        .column(1),
    City::new("abandoned_files", "abandoned files", Read::Count("files", |city| Some(city.abandoned_files)))
        .defined("File transfers that were given up.")
        .column(1),
    City::ratio("", "abandoned files", |city| {
        ratio(city.abandoned_files, city.abandoned_files + city.completed_files)
    })
    .defined("File transfers that were given up over those that ended.")
    .named("abandoned-files"),
    City::new(
        "file_time_s",
        "file time",
        Read::Time(|city| (city.completed_files > 0).then_some(city.file_time_s * 1000.0)),
    )
    .defined("Mean duration of a completed file transfer.")
    .column(1)
    .named("file-time"),
];

/// Statistics of the radio in one direction, over the whole run and all cells.
pub const RADIO: &[Radio] = &[
    Radio::rate("cell_throughput_bps", "cell throughput", |radio| Some(radio.cell_throughput_bps))
        .defined("Mean rate of decoded transport blocks in a cell.")
        .column(0)
        .named("cell-throughput"),
    Radio::ratio("used_ratio", "utilisation", |radio| Some(radio.used_ratio))
        .defined("Share of the resource blocks that was used.")
        .column(0)
        .named("utilisation"),
    Radio::ratio("first_error_ratio", "block error", |radio| Some(radio.first_error_ratio))
        .defined("Share of first transmissions that failed.")
        .column(0)
        .named("block-error"),
    Radio::new("lost_blocks", "lost blocks", Read::Count("blocks", |radio| Some(radio.lost_blocks)))
        .defined("Transport blocks that failed in every transmission.")
        .column(0),
    Radio::new(
        "interference_over_noise_db",
        "interference over noise",
        Read::Decibel(|radio| radio.interference_over_noise_db),
    )
    .defined("Mean interference over noise; of the uplink.")
    .column(0),
];

/// A mean over nothing is not a number.
fn known(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// A metric of a city: a statistic with a name. Rates are in bit/s, times in ms, ratios from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub enum CityMetric {
    /// Of calls, users and file transfers.
    City(&'static City),
    /// Of the radio in one direction.
    Radio(&'static Radio),
}

impl CityMetric {
    /// All metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        let city = CALLS.iter().chain(USERS).map(Self::City);
        city.chain(RADIO.iter().map(Self::Radio)).filter(|metric| !metric.name().is_empty())
    }

    /// The metric of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|metric| metric.name() == name)
    }

    /// Name, as in a file.
    pub fn name(self) -> &'static str {
        let metric = match self {
            Self::City(row) => row.metric,
            Self::Radio(row) => row.metric,
        };
        metric.map_or("", |(name, _)| name)
    }

    /// Whether it is measured in one direction of the radio.
    pub const fn is_of_radio(self) -> bool {
        matches!(self, Self::Radio(_))
    }

    /// Its unit.
    pub const fn unit(self) -> Unit {
        match self {
            Self::City(row) => row.unit(),
            Self::Radio(row) => row.unit(),
        }
    }

    /// Its value.
    pub(crate) fn value(self, city: &CityFigures, radio: Option<&RadioFigures>) -> Option<f64> {
        match self {
            Self::City(row) => row.number(city),
            Self::Radio(row) => row.number(radio?),
        }
    }
}

impl PartialEq for CityMetric {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}
