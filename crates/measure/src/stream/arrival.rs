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

    /// The same, with its scheduled send time.
    #[must_use]
    pub fn with_scheduled(mut self, scheduled: impl Into<Option<PeerTimestamp>>) -> Self {
        self.scheduled = scheduled.into();
        self
    }

    /// The same, with its actual send time.
    #[must_use]
    pub fn with_sent(mut self, sent: impl Into<Option<PeerTimestamp>>) -> Self {
        self.sent = sent.into();
        self
    }

    /// The same, with its TOS or traffic-class byte.
    #[must_use]
    pub fn with_tos(mut self, tos: impl Into<Option<u8>>) -> Self {
        self.tos = tos.into();
        self
    }
}
