//! Packets to record in the history.

use giusto_units::DataSize;

/// A packet that is sent, as the history records it.
///
/// Set every identifier that the packet carries: transport-wide feedback refers to the transport-wide
/// sequence number, all other messages refer to the RTP source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OutgoingPacket {
    /// Transport-wide sequence number, if the packet carries one (draft-holmer-rmcat-transport-wide-cc-extensions-01 §2).
    pub transport_sequence: Option<u16>,
    /// RTP source and sequence number, if it is an RTP packet.
    pub rtp: Option<RtpId>,
    /// Bytes that count towards the rates: RTP and all headers that the target rate has to cover.
    pub size: DataSize,
    /// [`Probe::cluster`](crate::Probe) of the probe that the packet belongs to, if any.
    pub probe: Option<u32>,
}

impl OutgoingPacket {
    /// A packet of this size: RTP and all headers that the target rate has to cover.
    pub const fn new(size: DataSize) -> Self {
        Self { transport_sequence: None, rtp: None, size, probe: None }
    }
}

giusto_units::setters!(OutgoingPacket {
    /// Sets the transport-wide sequence number.
    with_transport_sequence(transport_sequence: Option<u16>);
    /// Sets the RTP source and sequence number.
    with_rtp(rtp: Option<RtpId>);
    /// Sets the probe that it belongs to: [`Probe::cluster`](crate::Probe::cluster).
    with_probe(probe: Option<u32>);
});

/// Identifies an RTP packet (RFC 3550 §5.1). It has these two parts for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RtpId {
    /// Synchronisation source.
    pub ssrc: u32,
    /// Sequence number.
    pub sequence: u16,
}
