//! What is wrong with the configuration of a queue.

use giusto_units::{DataSize, TimeDelta};

/// Why a queue cannot be built as configured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// A value lies outside its range.
    #[error("{law}: {field} must be {range}, found {found}")]
    Range {
        /// The law.
        law: &'static str,
        /// The field of its configuration.
        field: &'static str,
        /// What would have been taken.
        range: &'static str,
        /// The value as given, with its unit.
        found: String,
    },
    /// Two values that have to follow each other do not.
    #[error(
        "{law}: {upper} must be above {lower}, which is {lower_found}; found {upper_found}: raise it, or lower the other"
    )]
    Order {
        /// The law.
        law: &'static str,
        /// The field that has to be below.
        lower: &'static str,
        /// Its value as given.
        lower_found: String,
        /// The field that has to be above.
        upper: &'static str,
        /// Its value as given.
        upper_found: String,
    },
}

/// Checks the fields of one law's configuration.
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
        if holds { Ok(()) } else { Err(QueueError::Range { law: self.0, field, range, found }) }
    }

    /// A time above zero.
    pub(super) fn positive_time(self, field: &'static str, value: TimeDelta) -> Result<(), QueueError> {
        self.that(value > TimeDelta::ZERO, field, "above 0 ns", format!("{} ns", value.as_nanos()))
    }

    /// A time of zero or more.
    pub(super) fn time(self, field: &'static str, value: TimeDelta) -> Result<(), QueueError> {
        self.that(value >= TimeDelta::ZERO, field, "0 ns or more", format!("{} ns", value.as_nanos()))
    }

    /// A size above zero.
    pub(super) fn positive_size(self, field: &'static str, value: DataSize) -> Result<(), QueueError> {
        self.that(value > DataSize::ZERO, field, "above 0 B", format!("{} B", value.as_bytes()))
    }

    /// A probability, both ends included.
    pub(super) fn probability(self, field: &'static str, value: f64) -> Result<(), QueueError> {
        self.that((0.0..=1.0).contains(&value), field, "from 0 to 1", value.to_string())
    }

    /// A share above nothing, and at most the whole.
    pub(super) fn share(self, field: &'static str, value: f64) -> Result<(), QueueError> {
        self.that(value > 0.0 && value <= 1.0, field, "above 0 and at most 1", value.to_string())
    }

    /// A gain in Hz.
    pub(super) fn gain(self, field: &'static str, value: f64) -> Result<(), QueueError> {
        self.that((0.0..=1e9).contains(&value), field, "from 0 to 1e9 Hz", format!("{value} Hz"))
    }

    /// A count or factor within bounds.
    pub(super) fn number(
        self,
        field: &'static str,
        (holds, range): (bool, &'static str),
        value: f64,
    ) -> Result<(), QueueError> {
        self.that(holds, field, range, value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_law_the_field_the_value_and_the_mend() {
        let error = Check("CoDel").positive_time("target", TimeDelta::from_nanos(-3)).unwrap_err();
        assert_eq!(error.to_string(), "CoDel: target must be above 0 ns, found -3 ns");
        let error = Check("PIE").probability("mark_threshold", f64::NAN).unwrap_err();
        assert_eq!(error.to_string(), "PIE: mark_threshold must be from 0 to 1, found NaN");
        assert!(Check("RED").share("weight", 1.0).is_ok() && Check("RED").share("weight", 0.0).is_err());
    }
}
