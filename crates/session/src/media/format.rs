//! Payload types, and how frames are divided into packets.

use super::payload_header::PayloadHeader;

/// The meaning of a payload type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadFormat {
    /// The payload type.
    pub payload_type: u8,
    /// Ticks of its RTP timestamp per second; `None`: determined from two sender reports.
    pub clock_rate: Option<u32>,
    /// How its frames are divided into packets.
    pub framing: Framing,
    /// What precedes each packet's part of a frame; it is removed.
    pub header: PayloadHeader,
}

impl PayloadFormat {
    /// Video, with the 90 kHz clock of all formats of RFC 3551 §5.
    pub const fn video(payload_type: u8) -> Self {
        Self { payload_type, clock_rate: Some(90_000), framing: Framing::Marker, header: PayloadHeader::None }
    }

    /// The same with a payload header.
    #[must_use]
    pub const fn with_header(self, header: PayloadHeader) -> Self {
        Self { header, ..self }
    }

    /// Audio with one packet per frame.
    pub const fn audio(payload_type: u8, clock_rate: u32) -> Self {
        Self {
            payload_type,
            clock_rate: Some(clock_rate),
            framing: Framing::Packet,
            header: PayloadHeader::None,
        }
    }

    /// Retransmissions (RFC 4588) of packets of the payload type `of`.
    pub const fn rtx(payload_type: u8, of: u8) -> Self {
        Self {
            payload_type,
            clock_rate: None,
            framing: Framing::Retransmission { of },
            header: PayloadHeader::None,
        }
    }

    /// Parity of other packets (RFC 8627).
    pub const fn parity(payload_type: u8) -> Self {
        Self { payload_type, clock_rate: None, framing: Framing::Parity, header: PayloadHeader::None }
    }

    /// Padding, which replaces media on the path.
    pub const fn padding(payload_type: u8) -> Self {
        Self { payload_type, clock_rate: None, framing: Framing::None, header: PayloadHeader::None }
    }
}

/// How frames are divided into packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// All packets of one timestamp, up to the one with the marker (RFC 3551 §5): video. Default.
    #[default]
    Marker,
    /// Each packet is a frame: audio.
    Packet,
    /// There are no frames: padding.
    None,
    /// Packets of another stream, sent again (RFC 4588).
    Retransmission {
        /// The payload type of the original packets.
        of: u8,
    },
    /// Parity of packets of other streams (RFC 8627).
    Parity,
}
