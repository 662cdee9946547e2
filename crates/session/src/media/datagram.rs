//! A datagram to be sent.

use giusto_units::{DataSize, Ecn};
use smallvec::SmallVec;

use super::payload::Payload;

/// Bytes of a datagram. An RTP header with its extensions needs no memory of its own.
pub type DatagramHead = SmallVec<[u8; 24]>;

/// A datagram to be sent: an RTP packet, or compound RTCP.
///
/// Its bytes are `head` followed by `payload`: [`write_to`](Self::write_to) writes them for a socket. A
/// simulation can use the two parts as they are, so that a payload of zeros is never written to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// The RTP header with its extensions, or all of the RTCP.
    pub head: DatagramHead,
    /// The RTP payload; empty for RTCP.
    pub payload: Payload,
    /// Its ECN codepoint.
    pub ecn: Ecn,
}

impl Datagram {
    /// Compound RTCP. It is never sent as ECN-capable.
    pub(super) fn rtcp(head: Vec<u8>) -> Self {
        Self { head: head.into(), payload: Payload::default(), ecn: Ecn::NotEct }
    }

    /// The size of the UDP payload.
    pub fn size(&self) -> DataSize {
        DataSize::from_bytes(self.head.len() as u64) + self.payload.size()
    }

    /// Appends its bytes to `buffer`.
    pub fn write_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(&self.head);
        self.payload.write_to(buffer);
    }

    /// Its bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.head.len() + self.payload.len());
        self.write_to(&mut bytes);
        bytes
    }
}
