//! Quantiles, as results show them.

use giusto_measure::ErrorHistogram;
use giusto_units::TimeDelta;
use serde::{Deserialize, Serialize};

/// Quantiles of one quantity; the unit is in the name of the field that holds them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The smallest value; `None` for errors, whose smallest value says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Half of all values are at most this.
    pub p50: Option<f64>,
    /// 99 % of all values are at most this.
    pub p99: Option<f64>,
    /// 99.9 % of all values are at most this.
    pub p999: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

impl Quantiles {
    /// The quantiles of an error, in µs.
    pub(crate) fn micros(errors: Option<&giusto_measure::Quantiles>) -> Self {
        let of =
            |pick: fn(&giusto_measure::Quantiles) -> TimeDelta| errors.map(|errors| pick(errors).as_micros());
        Self { min: None, p50: of(|e| e.p50), p99: of(|e| e.p99), p999: of(|e| e.p999), max: of(|e| e.max) }
    }

    /// The smallest value and the quantiles of `values`, in ms.
    pub(crate) fn millis(values: &ErrorHistogram) -> Self {
        let micros = Self::micros(values.quantiles().as_ref());
        let [p50, p99, p999, max] =
            [micros.p50, micros.p99, micros.p999, micros.max].map(|value| value.map(|us| us / 1e3));
        Self { min: values.min().map(TimeDelta::as_millis), p50, p99, p999, max }
    }
}
