//! The local identifiers of RTP header extensions (RFC 8285 §4.2).

/// The local identifier of the transport-wide sequence number.
pub const TRANSPORT_SEQUENCE_ID: u8 = 1;
/// The local identifier of abs-send-time.
pub const ABS_SEND_TIME_ID: u8 = 2;
/// The local identifier of the capture time, an NTP timestamp of 64 bits (RFC 6051 §3.3).
pub const CAPTURE_TIME_ID: u8 = 3;

/// The local identifiers of the header extensions that a sender writes; each 1 to 14 (RFC 8285 §4.2).
///
/// With other values, packets are sent without the extension. The default is that of this session; a signalling protocol may
/// negotiate others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtensionIds {
    /// Of the transport-wide sequence number. Default [`TRANSPORT_SEQUENCE_ID`].
    pub transport_sequence: u8,
    /// Of abs-send-time. Default [`ABS_SEND_TIME_ID`].
    pub abs_send_time: u8,
    /// Of the capture time. Default [`CAPTURE_TIME_ID`]. Only packets to a receiver that has no sender report contain it.
    pub capture_time: u8,
    /// Of the dependency descriptor (RTP Payload Format For AV1, Appendix A), which is only read. Default 0: none.
    pub dependency: u8,
}

impl Default for ExtensionIds {
    fn default() -> Self {
        Self {
            transport_sequence: TRANSPORT_SEQUENCE_ID,
            abs_send_time: ABS_SEND_TIME_ID,
            capture_time: CAPTURE_TIME_ID,
            dependency: 0,
        }
    }
}
