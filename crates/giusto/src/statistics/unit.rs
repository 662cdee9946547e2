//! Units of metrics.

use giusto_units::DataRate;

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
