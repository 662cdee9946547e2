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
    /// Without the authentication that is required here, or with a wrong one.
    pub unauthenticated: u64,
    /// RTP of another synchronisation source than that of its address's stream.
    pub other_source: u64,
    /// RTP that no announcement precedes, before a second datagram in sequence confirmed the stream.
    pub probation: u64,
    /// Of a stream to a multicast group, before its announcement came.
    pub unannounced: u64,
    /// From an address that is not allowed, or denied.
    pub denied: u64,
    /// For a stream that has ended.
    pub late: u64,
    /// Rejected streams.
    pub refused: u64,
    /// Requests to open streams that were not answered: there were too many while streams were measured.
    pub unanswered_handshakes: u64,
}

impl Counters {
    /// Why datagrams belong to no stream: the name of the reason, the datagrams in words, and how many there were. Rejected streams
    /// are none.
    pub const fn reasons(&self) -> [(&'static str, &'static str, u64); 12] {
        [
            ("foreign", "foreign", self.foreign),
            ("malformed", "malformed", self.malformed),
            ("corrupt", "corrupt", self.corrupt),
            ("other_version", "of another version", self.other_version),
            ("forged", "forged", self.forged),
            ("unauthenticated", "not authenticated", self.unauthenticated),
            ("other_source", "of another RTP source", self.other_source),
            ("probation", "of RTP not confirmed yet", self.probation),
            ("unannounced", "of streams not announced yet", self.unannounced),
            ("denied", "from addresses not allowed", self.denied),
            ("late", "late", self.late),
            ("unanswered_handshakes", "of too many handshakes", self.unanswered_handshakes),
        ]
    }
}
