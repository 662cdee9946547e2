//! The local identifiers of RTP header extensions (RFC 8285 §4.2), and the names of encodings.

use std::fmt;

/// The local identifier of the transport-wide sequence number.
pub const TRANSPORT_SEQUENCE_ID: u8 = 1;
/// The local identifier of abs-send-time.
pub const ABS_SEND_TIME_ID: u8 = 2;
/// The local identifier of the capture time, an NTP timestamp of 64 bits (RFC 6051 §3.3).
pub const CAPTURE_TIME_ID: u8 = 3;

giusto_units::defaults! {
    /// The local identifiers of the header extensions that a sender writes; each 1 to 14 (RFC 8285 §4.2).
    ///
    /// With other values, packets are sent without the extension. The default is that of this session; a signalling protocol may
    /// negotiate others.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ExtensionIds {
        /// Of the transport-wide sequence number. Default [`TRANSPORT_SEQUENCE_ID`].
        pub transport_sequence: u8 = TRANSPORT_SEQUENCE_ID,
        /// Of abs-send-time. Default [`ABS_SEND_TIME_ID`].
        pub abs_send_time: u8 = ABS_SEND_TIME_ID,
        /// Of the capture time. Default [`CAPTURE_TIME_ID`]. Only packets to a receiver that has no sender report contain it.
        pub capture_time: u8 = CAPTURE_TIME_ID,
        /// Of the dependency descriptor (RTP Payload Format For AV1, Appendix A), which is only read. Default 0: none.
        pub dependency: u8 = 0,
        /// Of the name of an encoding ([`StreamId`]), which is only read. Default 0: none.
        pub stream_id: u8 = 0,
        /// Of the name of the encoding that a retransmission repeats (RFC 8852 §3.2), which is only read. Default 0: none.
        pub repaired_stream_id: u8 = 0,
    }
}

/// The name of one of several encodings of a source (`RtpStreamId`, RFC 8852 §3.1): 1 to 16 letters, digits, `-` and `_` (RFC 8851 §10).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StreamId {
    bytes: [u8; 16],
    length: u8,
}

impl StreamId {
    /// A name; `None` if it is empty, too long for a header of one byte (RFC 8285 §4.2), or has other characters.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_session::media::StreamId;
    ///
    /// assert_eq!(StreamId::new("hi").map(|name| name.to_string()), Some("hi".to_owned()));
    /// assert_eq!(StreamId::new("no name"), None);
    /// ```
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if text.is_empty() || !text.bytes().all(is_plain) {
            return None;
        }
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { bytes, length: text.len() as u8 })
    }

    /// The name in an element of a header extension.
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        Self::new(str::from_utf8(data).ok()?)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.as_str())
    }
}

impl serde::Serialize for StreamId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
