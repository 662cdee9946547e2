//! Errors of reading and writing RTCP.

/// An error of reading or writing RTCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RtcpError {
    /// The packet is longer than the data.
    #[error("{what} of {needed} bytes does not fit the {found} bytes left")]
    Truncated {
        /// What was read.
        what: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes available.
        found: usize,
    },
    /// The packet is longer than its content.
    #[error("{found} bytes follow the content of {what}")]
    Excess {
        /// What was read.
        what: &'static str,
        /// Bytes after the content.
        found: usize,
    },
    /// The first two bits are not 2.
    #[error("RTCP version 2 was expected, found version {0}")]
    Version(u8),
    /// The padding count is zero, or larger than the packet.
    #[error("padding of {count} bytes does not fit the {available} bytes after the RTCP header")]
    Padding {
        /// Count in the last byte.
        count: u8,
        /// Bytes after the header.
        available: usize,
    },
    /// Padding in a packet that is not the last one (RFC 3550 §6.4.1).
    #[error("only the last packet of a compound may be padded")]
    PaddingWithin,
    /// A status of two bits has the reserved value 3 (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1.1).
    #[error("a packet status has the reserved value 3")]
    ReservedStatus,
    /// The bitrate exceeds 64 bits.
    #[error("a bitrate of {mantissa} × 2^{exponent} bit/s exceeds 64 bits")]
    Bitrate {
        /// 18 bits.
        mantissa: u32,
        /// 6 bits.
        exponent: u8,
    },
    /// The text is not UTF-8 (RFC 3550 §6.5).
    #[error("{0} is not UTF-8")]
    Text(&'static str),
    /// Two consecutive arrivals are further apart than 16 bits of 250 µs can represent.
    #[error("a step of {ticks} × 250 us between two arrivals does not fit 16 bits")]
    Step {
        /// The step.
        ticks: i64,
    },
    /// More elements than a field can count.
    #[error("{found} {what} do not fit: at most {max}")]
    TooMany {
        /// Kind of the elements.
        what: &'static str,
        /// Number of elements.
        found: usize,
        /// Maximum number.
        max: usize,
    },
}
