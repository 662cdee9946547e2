//! The local identifiers of RTP header extensions (RFC 8285 §4.2).

/// The local identifier of the transport-wide sequence number.
pub const TRANSPORT_SEQUENCE_ID: u8 = 1;
/// The local identifier of abs-send-time.
pub const ABS_SEND_TIME_ID: u8 = 2;
