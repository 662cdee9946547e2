//! Errors of payload sizes.

use giusto_units::{DataSize, UnitError};

/// Error of payload sizes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// An unknown distribution.
    #[error(
        "\"{0}\": no such payload sizes: write a size, or one of uniform:200-1200, normal:800,200, exp:600, \
         lognormal:600,300, pareto:100,1.5, choice:200*3,1200*1"
    )]
    Kind(String),
    /// The parameters of a distribution are invalid.
    #[error("\"{text}\": {what}, such as {example}")]
    Parameters {
        /// The text.
        text: String,
        /// What is wrong or missing.
        what: &'static str,
        /// A valid example.
        example: &'static str,
    },
    /// A size could not be read.
    #[error(transparent)]
    Size(#[from] UnitError),
    /// The limits exclude all sizes.
    #[error("the smallest payload, {min}, must not be above the largest, {max}")]
    Limits {
        /// The smallest size.
        min: DataSize,
        /// The largest size.
        max: DataSize,
    },
    /// An invalid line of a trace.
    #[error("{file}:{line}: {what}: {fix}")]
    Line {
        /// The name of the file.
        file: String,
        /// The line number, from 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// The fix.
        fix: &'static str,
    },
    /// A frame is cut off.
    #[error(
        "{name}: the frame at offset {offset} lacks {missing} bytes: each frame is a length of 2 bytes, the higher first, and so many \
         bytes (RFC 4571)"
    )]
    Frame {
        /// The name of the file.
        name: String,
        /// Where the frame begins.
        offset: usize,
        /// Bytes that are missing.
        missing: usize,
    },
    /// A file of contents is empty.
    #[error("{name}: no bytes to send: give a file that is not empty")]
    EmptyContent {
        /// The name of the file.
        name: String,
    },
    /// A trace has no line with a size.
    #[error("{file}: no sizes: write one size in bytes per line, or the columns time_s,size_bytes")]
    EmptyTrace {
        /// The name of the file.
        file: String,
    },
}
