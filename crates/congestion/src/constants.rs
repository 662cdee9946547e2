//! Constants of algorithms by name: what they are, and how they are set.

use alloc::{borrow::ToOwned, string::String, vec::Vec};
use core::{fmt::Write, ops::RangeInclusive};

use giusto_units::{DataRate, TimeDelta, UnitError, math};

/// A constant of an [`Algorithm`](crate::Algorithm), which [`with_constants`](crate::Algorithm::with_constants) sets.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Constant {
    /// Its name, such as `kappa`.
    pub name: &'static str,
    /// Description in one phrase.
    pub summary: &'static str,
    /// Unit of its numbers: `ms` or `kbit/s`; empty if it has none.
    pub unit: &'static str,
    /// Smallest and largest value.
    pub range: (f64, f64),
    /// Whether it is a whole number.
    pub is_whole: bool,
    /// Its value in the algorithm.
    pub value: f64,
}

/// A constant that cannot be set.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstantError {
    /// The algorithm has no constant of this name.
    #[error("{algorithm} has no constant \"{name}\": {known}")]
    Unknown {
        /// The algorithm.
        algorithm: String,
        /// The name.
        name: String,
        /// Which constants it has.
        known: String,
    },
    /// The value is out of range.
    #[error("{name} must be {range}, found {found}")]
    Range {
        /// The constant.
        name: &'static str,
        /// Its range, with its unit.
        range: String,
        /// The value.
        found: String,
    },
    /// It is set twice.
    #[error("{0} is set twice: leave one out")]
    Twice(&'static str),
    /// The text before the constants names no algorithm.
    #[error("unknown controller \"{name}\": expected one of {known}")]
    Algorithm {
        /// The text.
        name: String,
        /// The names of all.
        known: String,
    },
    /// There is no value after the name.
    #[error("\"{text}\": expected NAME+CONSTANT=VALUE, such as nada+kappa=0.4, found \"{found}\"")]
    NoValue {
        /// All of the text.
        text: String,
        /// The part without a value.
        found: String,
    },
    /// The value is no number.
    #[error("{name}: expected a number, found \"{found}\"")]
    NotANumber {
        /// The constant.
        name: &'static str,
        /// The value.
        found: String,
    },
    /// The value has no unit, or a wrong one.
    #[error("{0}: {1}")]
    Unit(&'static str, UnitError),
}

impl Constant {
    /// The number in its unit that a text such as `0.4` or `450 ms` gives. Whether it is in range is not checked.
    ///
    /// # Errors
    ///
    /// [`ConstantError::NotANumber`], [`ConstantError::Unit`].
    pub fn value_of(&self, text: &str) -> Result<f64, ConstantError> {
        let unit = |error| ConstantError::Unit(self.name, error);
        match self.unit {
            "ms" => Ok(text.parse::<TimeDelta>().map_err(unit)?.as_millis()),
            "kbit/s" => Ok(text.parse::<DataRate>().map_err(unit)?.as_bps() as f64 / 1e3),
            _ => (text.trim().parse())
                .map_err(|_| ConstantError::NotANumber { name: self.name, found: text.to_owned() }),
        }
    }

    /// Its range in words: `2 to 50 ms`.
    pub(crate) fn bounds(&self) -> String {
        let (min, max) = self.range;
        let whole = if self.is_whole { "a whole number, " } else { "" };
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        format!("{whole}{min} to {max}{unit}")
    }

    fn check(&self, value: f64) -> Result<(), ConstantError> {
        let (min, max) = self.range;
        let fits = (min..=max).contains(&value) && (!self.is_whole || math::floor(value) >= value);
        if fits {
            return Ok(());
        }
        Err(ConstantError::Range { name: self.name, range: self.bounds(), found: format!("{value}") })
    }
}

/// A configuration whose constants have names.
pub(crate) trait Tunable {
    /// Shows each constant to `set`, which may change it.
    fn constants(&mut self, set: &mut Setter);
}

/// Declares the configuration of a controller: each field with its default and, where it can be tuned, its kind, name, range and summary.
macro_rules! config {
    (
        $(#[$about:meta])*
        pub struct Config {
            $(#[$of_limits:meta])*
            pub limits: Limits;
            $(
                $(#[$of_field:meta])*
                pub $field:ident: $type:ty = $default:expr $(, $kind:ident $name:literal in $range:expr, $summary:literal)?;
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub struct Config {
            $(#[$of_limits])*
            pub limits: Limits,
            $(
                $(#[$of_field])*
                pub $field: $type,
            )+
        }

        impl Config {
            /// The defaults with these limits.
            pub fn within(limits: Limits) -> Self {
                Self { limits, $($field: $default),+ }
            }
        }

        impl Default for Config {
            fn default() -> Self {
                Self::within(Limits::DEFAULT)
            }
        }

        impl $crate::constants::Tunable for Config {
            fn constants(&mut self, set: &mut $crate::constants::Setter) {
                $($(set.$kind(&mut self.$field, $name, $range, $summary);)?)+
            }
        }
    };
}
pub(crate) use config;

/// Sets constants by name, or lists them.
#[derive(Debug, Default)]
pub(crate) struct Setter {
    wanted: Vec<(&'static str, f64)>,
    /// Each constant, and whether it was set.
    listed: Option<Vec<(Constant, bool)>>,
}

impl Setter {
    /// One that also lists the constants that it is shown.
    pub(crate) fn listing() -> Self {
        Self { listed: Some(Vec::new()), ..Self::default() }
    }

    /// The constants, and whether each was set.
    pub(crate) fn listed(self) -> Vec<(Constant, bool)> {
        self.listed.unwrap_or_default()
    }

    /// Wants these values, except of constants for which there is one.
    pub(crate) fn want(&mut self, values: &[(&'static str, f64)]) {
        for value in values {
            if self.wanted.iter().all(|(name, _)| *name != value.0) {
                self.wanted.push(*value);
            }
        }
    }

    fn set(&mut self, mut constant: Constant) -> Option<f64> {
        let wanted = self.wanted.iter().find(|(name, _)| *name == constant.name).map(|(_, value)| *value);
        if let Some(listed) = &mut self.listed {
            constant.value = wanted.unwrap_or(constant.value);
            listed.push((constant, wanted.is_some()));
        }
        wanted
    }

    pub(crate) fn number(
        &mut self,
        field: &mut f64,
        name: &'static str,
        range: RangeInclusive<f64>,
        summary: &'static str,
    ) {
        let constant = declared(name, range, summary);
        *field = self.set(Constant { value: *field, ..constant }).unwrap_or(*field);
    }

    /// A time; the range is in milliseconds.
    pub(crate) fn time(
        &mut self,
        field: &mut TimeDelta,
        name: &'static str,
        range: RangeInclusive<f64>,
        summary: &'static str,
    ) {
        let constant = declared(name, range, summary);
        if let Some(ms) = self.set(Constant { unit: "ms", value: field.as_millis(), ..constant }) {
            *field = TimeDelta::from_nanos(math::round(ms * 1e6) as i64);
        }
    }

    /// A rate; the range is in kbit/s.
    pub(crate) fn rate(
        &mut self,
        field: &mut DataRate,
        name: &'static str,
        range: RangeInclusive<f64>,
        summary: &'static str,
    ) {
        let constant = declared(name, range, summary);
        let value = field.as_bps() as f64 / 1e3;
        if let Some(kbps) = self.set(Constant { unit: "kbit/s", value, ..constant }) {
            *field = DataRate::from_bps(math::round(kbps * 1e3) as u64);
        }
    }

    /// A whole number.
    pub(crate) fn count<T: Copy + TryInto<u32> + TryFrom<u32>>(
        &mut self,
        field: &mut T,
        name: &'static str,
        range: RangeInclusive<f64>,
        summary: &'static str,
    ) {
        let value = (*field).try_into().map_or(f64::INFINITY, f64::from);
        let constant = declared(name, range, summary);
        if let Some(count) = self.set(Constant { is_whole: true, value, ..constant }) {
            *field = T::try_from(count as u32).unwrap_or(*field);
        }
    }
}

fn declared(name: &'static str, range: RangeInclusive<f64>, summary: &'static str) -> Constant {
    let range = range.into_inner();
    Constant { name, summary, unit: "", range, is_whole: false, value: 0.0 }
}

/// The values with the names of `known`, if each may be set.
pub(crate) fn checked(
    algorithm: &str,
    known: &[Constant],
    values: &[(&str, f64)],
) -> Result<Vec<(&'static str, f64)>, ConstantError> {
    let mut checked: Vec<(&'static str, f64)> = Vec::new();
    for &(name, value) in values {
        let constant = named(algorithm, known, name)?;
        constant.check(value)?;
        if checked.iter().any(|(other, _)| *other == name) {
            return Err(ConstantError::Twice(constant.name));
        }
        checked.push((constant.name, value));
    }
    Ok(checked)
}

/// The constant of this name.
pub(crate) fn named<'a>(
    algorithm: &str,
    known: &'a [Constant],
    name: &str,
) -> Result<&'a Constant, ConstantError> {
    known.iter().find(|constant| constant.name == name).ok_or_else(|| ConstantError::Unknown {
        algorithm: algorithm.to_owned(),
        name: name.to_owned(),
        known: names(known),
    })
}

fn names(known: &[Constant]) -> String {
    if known.is_empty() {
        return "it has none".to_owned();
    }
    let names: Vec<&str> = known.iter().map(|constant| constant.name).collect();
    format!("known are {}", names.join(", "))
}

/// The name of an algorithm with constants: `nada+kappa=0.4+tau=450ms`.
pub(crate) fn name_with(plain: &str, all: &[(Constant, bool)]) -> String {
    let mut text = plain.to_owned();
    for (constant, _) in all.iter().filter(|(_, is_set)| *is_set) {
        // Writing to a text cannot fail.
        let _ = write!(text, "+{}={}{}", constant.name, constant.value, constant.unit);
    }
    text
}
