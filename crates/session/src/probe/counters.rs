//! Counts of datagrams that belong to no stream.

/// Counts of received datagrams that belong to no stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Not ours.
    pub foreign: u64,
    /// Begins as ours, but cut off or garbled, or longer than the buffer.
    pub malformed: u64,
    /// Measured datagrams whose header does not match its checksum.
    pub corrupt: u64,
    /// Of another version of our format.
    pub other_version: u64,
    /// With a token or a cookie that was not given to its address.
    pub forged: u64,
    /// For a stream that has ended.
    pub late: u64,
    /// Streams that were refused.
    pub refused: u64,
}
