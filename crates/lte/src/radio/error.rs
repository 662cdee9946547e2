//! Validation of radio configurations.

/// An invalid radio configuration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RadioError {
    /// A value is outside what the model holds for.
    #[error("LTE deployment: {field} must be {range}, found {found}")]
    Range {
        /// The field.
        field: &'static str,
        /// The valid range, with its unit.
        range: &'static str,
        /// The configured value, with its unit.
        found: String,
    },
}
