//! Values of a scenario that are drawn for each episode.

use std::fmt;

use giusto_sim::random::{self, Random};
use rand::RngExt;

use super::EnvironmentError;
use crate::scenario::{Document, Scenario, Setting};

/// From what a value is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spread {
    /// A number from the first to the second, all equally likely. Both are written with the same unit; two whole numbers without a unit
    /// give whole ones.
    Range(String, String),
    /// One of these values.
    Choices(Vec<String>),
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(low, high) => write!(f, "({low}, {high})"),
            Self::Choices(values) => write!(f, "[{}]", values.join(", ")),
        }
    }
}

/// A scenario some of whose values are drawn.
#[derive(Debug, Clone)]
pub(super) struct Randomised {
    document: Document,
    settings: Vec<Setting>,
    drawn: Vec<(String, Values)>,
}

/// A checked [`Spread`].
#[derive(Debug, Clone)]
enum Values {
    Real { low: f64, high: f64, unit: String },
    Whole { low: i64, high: i64 },
    Choices(Vec<String>),
}

impl Randomised {
    /// A scenario with these settings, and with values at these paths that are drawn. `check` looks at the scenarios with the lowest, the
    /// highest and each chosen value.
    pub(super) fn new(
        document: Document,
        settings: Vec<Setting>,
        spreads: Vec<(String, Spread)>,
        check: impl Fn(&Scenario) -> Result<(), EnvironmentError>,
    ) -> Result<Self, EnvironmentError> {
        let values = |(path, spread): (String, Spread)| match Values::new(&spread) {
            Ok(values) => Ok((path, values)),
            Err(why) => Err(EnvironmentError::Spread { path, spread: spread.to_string(), why }),
        };
        let drawn = spreads.into_iter().map(values).collect::<Result<Vec<_>, _>>()?;
        let own = Self { document, settings, drawn };
        let first: Vec<Setting> = own
            .drawn
            .iter()
            .filter_map(|(path, values)| Some(setting(path, values.ends().next()?)))
            .collect();
        for (place, (path, values)) in own.drawn.iter().enumerate() {
            for value in values.ends() {
                let mut all = first.clone();
                if let Some(changed) = all.get_mut(place) {
                    *changed = setting(path, value);
                }
                check(&own.with(&all)?)?;
            }
        }
        Ok(own)
    }

    /// The values of the episode of this number.
    pub(super) fn values(&self, number: u64) -> Vec<Setting> {
        let mut random = random::stream(number, "environment: values");
        self.drawn.iter().map(|(path, values)| setting(path, values.draw(&mut random))).collect()
    }

    /// The scenario with these values.
    pub(super) fn with(&self, values: &[Setting]) -> Result<Scenario, EnvironmentError> {
        let all: Vec<Setting> = self.settings.iter().chain(values).cloned().collect();
        self.document.scenario(&all).map_err(|error| EnvironmentError::Drawn {
            values: values
                .iter()
                .map(|own| format!("{}={}", own.path, own.value))
                .collect::<Vec<_>>()
                .join(", "),
            error,
        })
    }
}

fn setting(path: &str, value: String) -> Setting {
    Setting { path: path.to_owned(), value }
}

impl Values {
    fn new(spread: &Spread) -> Result<Self, String> {
        let (low, high) = match spread {
            Spread::Choices(values) if values.is_empty() => {
                return Err("no value: name at least one".to_owned());
            }
            Spread::Choices(values) => return Ok(Self::Choices(values.clone())),
            Spread::Range(low, high) => (low, high),
        };
        let order = || format!("{low} is above {high}: give the lower value first");
        if let (Ok(low), Ok(high)) = (low.parse(), high.parse()) {
            return if low <= high { Ok(Self::Whole { low, high }) } else { Err(order()) };
        }
        let ((from, unit), (to, other)) = (number(low)?, number(high)?);
        if unit != other {
            return Err(format!("{low} and {high} have different units: use one unit for both"));
        }
        if from > to {
            return Err(order());
        }
        Ok(Self::Real { low: from, high: to, unit: unit.to_owned() })
    }

    fn draw(&self, random: &mut Random) -> String {
        match self {
            Self::Real { low, high, unit } => real(low + (high - low) * random.random::<f64>(), unit),
            Self::Whole { low, high } => random.random_range(*low..=*high).to_string(),
            Self::Choices(values) => {
                values.get(random.random_range(0..values.len().max(1))).cloned().unwrap_or_default()
            }
        }
    }

    /// The lowest and the highest value, or each of the choices.
    fn ends(&self) -> impl Iterator<Item = String> {
        match self {
            Self::Real { low, high, unit } => vec![real(*low, unit), real(*high, unit)],
            Self::Whole { low, high } => vec![low.to_string(), high.to_string()],
            Self::Choices(values) => values.clone(),
        }
        .into_iter()
    }
}

/// Six decimals are a nanosecond of ms, and a bit of Mbit/s. A share may be smaller.
fn real(value: f64, unit: &str) -> String {
    if unit.is_empty() { value.to_string() } else { format!("{value:.6} {unit}") }
}

/// The number and the unit of a value: `20 ms`, `0.5`.
fn number(text: &str) -> Result<(f64, &str), String> {
    let (number, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let value = number.parse().ok().filter(|value: &f64| value.is_finite());
    let value =
        value.ok_or_else(|| format!("{text} is no number: use a number with its unit, such as 20 ms"))?;
    Ok((value, unit.trim()))
}
