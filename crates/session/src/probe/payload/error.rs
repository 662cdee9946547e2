//! Errors of payload sizes.

use giusto_units::{DataSize, UnitError};

/// Why there are no such payload sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// No distribution has this name.
    #[error(
        "\"{0}\": no such payload sizes: write a size, or one of uniform:200-1200, normal:800,200, exp:600, \
         lognormal:600,300, pareto:100,1.5, choice:200*3,1200*1"
    )]
    Kind(String),
    /// The numbers of a distribution are not those that it needs.
    #[error("\"{text}\": {what}, such as {example}")]
    Parameters {
        /// The text as given.
        text: String,
        /// What is wrong or missing.
        what: &'static str,
        /// A text that would have been taken.
        example: &'static str,
    },
    /// A size could not be read.
    #[error(transparent)]
    Size(#[from] UnitError),
    /// The limits leave no size.
    #[error("the smallest payload, {min}, must not be above the largest, {max}")]
    Limits {
        /// The smallest size.
        min: DataSize,
        /// The largest size.
        max: DataSize,
    },
    /// A line of a trace could not be used.
    #[error("{file}:{line}: {what}: {mend}")]
    Line {
        /// The name of the file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// What would be right.
        mend: &'static str,
    },
    /// A trace has no line with a size.
    #[error("{file}: no sizes: write one size in bytes per line, or the columns time_s,size_bytes")]
    EmptyTrace {
        /// The name of the file.
        file: String,
    },
}
