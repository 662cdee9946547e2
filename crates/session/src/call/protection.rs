//! How the media of a call are protected.

use serde::{Deserialize, Serialize};

/// Bytes that authentication adds to an RTP or RTCP datagram: its number and its MAC, as in SRTCP (RFC 3711 §3.4).
pub const SEAL_TRAILER_BYTES: usize = NUMBER_BYTES + TAG_BYTES;

pub(super) const NUMBER_BYTES: usize = 4;
/// 80 bits (RFC 3711 §5.2).
pub(super) const TAG_BYTES: usize = 10;

/// How the RTP and RTCP of a call are protected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protection {
    /// Each datagram is authenticated: by the shared key, or else by the numbers of the handshake, which only those know who read it.
    /// Default.
    #[default]
    Authenticated,
    /// Not at all.
    Insecure,
    /// Each datagram is encrypted and authenticated by the shared key, as SRTP (RFC 3711, RFC 7714).
    Encrypted,
}

impl std::fmt::Display for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Authenticated => "authenticated",
            Self::Insecure => "insecure",
            Self::Encrypted => "encrypted",
        })
    }
}

impl Protection {
    /// The bytes that it adds to an RTP packet.
    pub const fn overhead_bytes(self) -> usize {
        match self {
            Self::Authenticated => SEAL_TRAILER_BYTES,
            Self::Insecure => 0,
            // The tag of AEAD_AES_128_GCM (RFC 7714 §13.2).
            Self::Encrypted => 16,
        }
    }
}
