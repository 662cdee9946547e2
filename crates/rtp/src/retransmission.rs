//! The payload of retransmitted packets (RFC 4588 §4).

/// Bytes of the payload header of a retransmitted packet (RFC 4588 §4).
pub const RTX_HEADER_BYTES: usize = 2;

/// The payload header of a retransmitted packet: the sequence number of the original, OSN (RFC 4588 §4).
///
/// A retransmitted packet has the timestamp, the marker and the header extensions of the original; SSRC, sequence
/// number and payload type are those of the retransmission stream. The payload of the original follows this header.
///
/// # Example
///
/// ```
/// use giusto_rtp::RtxHeader;
///
/// let payload = [0x01, 0x02, b'm', b'e', b'd', b'i', b'a'];
/// let (header, original) = RtxHeader::split(&payload).expect("two bytes at least");
/// assert_eq!((header.original_sequence, original), (0x0102, &b"media"[..]));
/// assert_eq!(header.to_bytes(), [1, 2]);
/// assert_eq!(RtxHeader::split(&[1]), None);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RtxHeader {
    /// The sequence number of the original packet.
    pub original_sequence: u16,
}

impl RtxHeader {
    /// Reads the header at the beginning of `payload`. Returns it and the payload of the original; `None` if there are
    /// fewer than two bytes, as in padding.
    pub fn split(payload: &[u8]) -> Option<(Self, &[u8])> {
        let (&sequence, original) = payload.split_first_chunk::<RTX_HEADER_BYTES>()?;
        Some((Self { original_sequence: u16::from_be_bytes(sequence) }, original))
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; RTX_HEADER_BYTES] {
        self.original_sequence.to_be_bytes()
    }
}
