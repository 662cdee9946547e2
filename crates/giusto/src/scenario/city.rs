//! Cities: calls in the cells of an LTE network, as data.

use giusto_lte::{city::CityConfig, radio::link::Direction};

use super::{expectation, media::MediaSpec, model::QueueSpec};

pub use crate::statistics::CityMetric;

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
/// assert_eq!(message, "city.toml:2: city: users-per-cell: must be 0 to 50, found 60: the default is 4");
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
        expectation::accepts(self.min, self.max, value)
    }
}
