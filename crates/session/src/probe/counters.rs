//! Counts of datagrams that belong to no stream.

/// Counts of received datagrams that belong to no stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Not of our format.
    pub foreign: u64,
    /// Of our format, but truncated, invalid, or longer than the buffer.
    pub malformed: u64,
    /// Measured datagrams whose header does not match its checksum.
    pub corrupt: u64,
    /// Of another version of our format.
    pub other_version: u64,
    /// With a token or cookie that was not issued to its address.
    pub forged: u64,
    /// For a stream that has ended.
    pub late: u64,
    /// Rejected streams.
    pub refused: u64,
}
