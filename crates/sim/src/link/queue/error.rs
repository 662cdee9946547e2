//! Validation of queue configurations.

use giusto_units::{DataRate, DataSize, TimeDelta};

/// An invalid queue configuration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// A value is out of range.
    #[error("{queue}: {field} must be {range}, found {found}")]
    Range {
        /// The queue discipline.
        queue: &'static str,
        /// The configuration field.
        field: &'static str,
        /// The valid range.
        range: &'static str,
        /// The configured value, with its unit.
        found: String,
    },
    /// Two values are in the wrong order.
    #[error(
        "{queue}: {upper} must be above {lower} ({lower_found}), found {upper_found}: raise {upper} or lower {lower}"
    )]
    Order {
        /// The queue discipline.
        queue: &'static str,
        /// The field with the smaller value.
        lower: &'static str,
        /// The configured value of `lower`, with its unit.
        lower_found: String,
        /// The field with the larger value.
        upper: &'static str,
        /// The configured value of `upper`, with its unit.
        upper_found: String,
    },
}

/// Validates configuration fields of the queue discipline that it names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check(pub(super) &'static str);

impl Check {
    fn that(
        self,
        holds: bool,
        field: &'static str,
        range: &'static str,
        found: String,
    ) -> Result<(), QueueError> {
        if holds { Ok(()) } else { Err(QueueError::Range { queue: self.0, field, range, found }) }
    }

    pub(super) fn positive_time(self, field: &'static str, value: TimeDelta) -> Result<(), QueueError> {
        self.that(value > TimeDelta::ZERO, field, "above 0 ns", format!("{} ns", value.as_nanos()))
    }

    pub(super) fn time(self, field: &'static str, value: TimeDelta) -> Result<(), QueueError> {
        self.that(value >= TimeDelta::ZERO, field, "0 ns or more", format!("{} ns", value.as_nanos()))
    }

    pub(super) fn positive_rate(self, field: &'static str, value: DataRate) -> Result<(), QueueError> {
        self.that(value > DataRate::ZERO, field, "above 0 bit/s", format!("{} bit/s", value.as_bps()))
    }

    pub(super) fn positive_size(self, field: &'static str, value: DataSize) -> Result<(), QueueError> {
        self.that(value > DataSize::ZERO, field, "above 0 B", format!("{} B", value.as_bytes()))
    }

    pub(super) fn probability(self, field: &'static str, value: f64) -> Result<(), QueueError> {
        self.that((0.0..=1.0).contains(&value), field, "from 0 to 1", value.to_string())
    }

    /// A fraction above 0 and at most 1.
    pub(super) fn share(self, field: &'static str, value: f64) -> Result<(), QueueError> {
        self.that(value > 0.0 && value <= 1.0, field, "above 0 and at most 1", value.to_string())
    }

    /// A gain in Hz.
    pub(super) fn gain(self, field: &'static str, value: f64) -> Result<(), QueueError> {
        self.that((0.0..=1e9).contains(&value), field, "from 0 to 1e9 Hz", format!("{value} Hz"))
    }

    /// A count or factor; the caller checks the range.
    pub(super) fn number(
        self,
        field: &'static str,
        holds: bool,
        range: &'static str,
        value: f64,
    ) -> Result<(), QueueError> {
        self.that(holds, field, range, value.to_string())
    }
}
