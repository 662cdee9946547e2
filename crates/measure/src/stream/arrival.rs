//! What is known of an arrived datagram.

use giusto_units::{DataSize, PeerTimestamp, Timestamp};

/// An arrived datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Arrival {
    /// Arrival time, preferably from the kernel. Datagrams that the kernel merged have the same time.
    pub at: Timestamp,
    /// Its sequence number; [`SequenceUnwrapper`](giusto_rtp::SequenceUnwrapper) converts numbers of 16 or 32
    /// bits.
    pub sequence: u64,
    /// The UDP payload.
    pub size: DataSize,
    /// Scheduled send time, if the datagram contains it.
    pub scheduled: Option<PeerTimestamp>,
    /// Actual send time (or, with RTP, the sampling time), if the datagram contains it.
    pub sent: Option<PeerTimestamp>,
    /// The IPv4 TOS or IPv6 traffic-class byte, if the socket provides it.
    pub tos: Option<u8>,
}

impl Arrival {
    /// A datagram without send times and TOS byte.
    pub const fn new(at: Timestamp, sequence: u64, size: DataSize) -> Self {
        Self { at, sequence, size, scheduled: None, sent: None, tos: None }
    }
}

giusto_units::setters!(Arrival {
    /// The same, with its scheduled send time.
    with_scheduled(scheduled: into PeerTimestamp);
    /// The same, with its actual send time.
    with_sent(sent: into PeerTimestamp);
    /// The same, with its TOS or traffic-class byte.
    with_tos(tos: into u8);
});
