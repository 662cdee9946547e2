//! Control messages as datagrams: prefix, checksum or authentication, padding.
//!
//! The layout is documented in [`probe::wire`](crate::probe::wire); the kind, the fourth byte, tells the protocols apart.

use serde::{Serialize, de::DeserializeOwned};

use crate::keys::{KeyId, MacKey};

/// The first bytes of each datagram of ours. The first is outside the ranges of STUN, ZRTP, DTLS, TURN and RTP (RFC 7983 §7).
pub(crate) const MAGIC: [u8; 3] = *b"giu";

/// Maximum size of a control message that is sent, padding included, but for probes of the path's MTU.
pub const MAX_MESSAGE_BYTES: usize = 1200;

/// The same of a datagram that arrives: probes of the path's MTU are padded to their size.
const MAX_PROBE_BYTES: usize = 65_507;

/// Fields that were added at the end of a message which is not padded take so many zeros where they are unknown.
const NEW_FIELDS_BYTES: usize = 1;

/// The bytes of a control message before the encoded message.
pub(crate) const CONTROL_HEADER_BYTES: usize = 8;

/// The same of an authenticated one: kind, id of the key, number, MAC.
pub(crate) const SEALED_CONTROL_HEADER_BYTES: usize = 32;

/// Error of parsing a giusto datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// It does not begin with the giusto prefix.
    #[error("not a giusto datagram")]
    Foreign,
    /// It begins with the prefix but is truncated or invalid.
    #[error("a truncated or garbled giusto datagram")]
    Malformed,
    /// Its bytes do not match their checksum.
    #[error("a corrupted giusto datagram: its bytes do not match their checksum")]
    Corrupt,
    /// It has a wire version that this program does not support.
    #[error("giusto wire version {0}; this program uses version 3: use the same release at both ends")]
    Version(u8),
    /// It carries no authentication, or one that does not verify.
    #[error("a giusto datagram that is not authenticated")]
    Unauthenticated,
}

/// `message` as a datagram of this kind, of at least `padded_to` bytes.
pub(crate) fn encode(kind: u8, message: &impl Serialize, padded_to: usize) -> Vec<u8> {
    let [m0, m1, m2] = MAGIC;
    // Encoding into a growing vector fails only for types of unknown length, of which a message has none.
    let mut bytes = postcard::to_extend(message, vec![m0, m1, m2, kind, 0, 0, 0, 0]).unwrap_or_default();
    if bytes.len() < padded_to {
        bytes.resize(padded_to, 0);
    }
    if let Some((header, body)) = bytes.split_first_chunk_mut::<CONTROL_HEADER_BYTES>()
        && let Some(checksum) = header.last_chunk_mut::<4>()
    {
        *checksum = crc32c::crc32c(body).to_be_bytes();
    }
    bytes
}

/// `message` as an authenticated datagram of this kind: padded to `padded_to` bytes, to which the authentication is added. The
/// number must be new under the key; it is 0 before there is a session.
pub(crate) fn seal(
    kind: u8,
    message: &impl Serialize,
    padded_to: usize,
    key: &MacKey,
    number: u64,
) -> Vec<u8> {
    let [m0, m1, m2] = MAGIC;
    let mut bytes = vec![m0, m1, m2, kind];
    bytes.extend(key.id().0.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    bytes.extend([0; MacKey::MAC_BYTES]);
    // As in `encode`.
    let mut bytes = postcard::to_extend(message, bytes).unwrap_or_default();
    let seal_bytes = SEALED_CONTROL_HEADER_BYTES - CONTROL_HEADER_BYTES;
    bytes.resize(bytes.len().max(padded_to + seal_bytes), 0);
    if let Some((head, rest)) = bytes.split_first_chunk_mut::<16>()
        && let Some((mac, body)) = rest.split_first_chunk_mut()
    {
        *mac = key.mac(&[head, body]);
    }
    bytes
}

/// Reads a message from a datagram without authentication, whose kind has been checked; padding is ignored.
///
/// # Errors
///
/// [`WireError`] if it is too long, damaged or no such message.
pub(crate) fn decode<M: DeserializeOwned>(datagram: &[u8]) -> Result<M, WireError> {
    if datagram.len() > MAX_PROBE_BYTES {
        return Err(WireError::Malformed);
    }
    let (_, checked) = datagram.split_first_chunk::<4>().ok_or(WireError::Malformed)?;
    let (checksum, body) = checked.split_first_chunk().ok_or(WireError::Malformed)?;
    if crc32c::crc32c(body) != u32::from_be_bytes(*checksum) {
        return Err(WireError::Corrupt);
    }
    message(body)
}

fn message<M: DeserializeOwned>(body: &[u8]) -> Result<M, WireError> {
    let read = |body: &[u8]| postcard::take_from_bytes(body).map(|(message, _padding)| message);
    match read(body) {
        // An older end does not know the last fields, and pads only requests.
        Err(postcard::Error::DeserializeUnexpectedEnd) if body.len() <= MAX_MESSAGE_BYTES => {
            read(&[body, &[0; NEW_FIELDS_BYTES]].concat())
        }
        outcome => outcome,
    }
    .map_err(|_| WireError::Malformed)
}

/// A control message of this kind with authentication that has not been verified yet.
#[derive(Debug, Clone, Copy)]
pub struct Sealed<'a, const KIND: u8> {
    /// The shared key that the MAC's key was derived from.
    pub id: KeyId,
    /// The number of the message among those of its sender in this session, from 1; 0 before there is a session.
    pub number: u64,
    /// Kind, id and number, as they are in the datagram.
    head: &'a [u8; 16],
    mac: &'a [u8; MacKey::MAC_BYTES],
    /// The encoded message, and padding.
    body: &'a [u8],
}

impl<'a, const KIND: u8> Sealed<'a, KIND> {
    /// Reads the parts of a datagram of this kind.
    ///
    /// # Errors
    ///
    /// [`WireError`] if it is not one, or too short or too long.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, WireError> {
        if datagram.len() > MAX_PROBE_BYTES {
            return Err(WireError::Malformed);
        }
        let (head, rest) = datagram.split_first_chunk::<16>().ok_or(WireError::Malformed)?;
        let (mac, body) = rest.split_first_chunk().ok_or(WireError::Malformed)?;
        let [m0, m1, m2, kind, id @ .., _, _, _, _, _, _, _, _] = head;
        if [*m0, *m1, *m2] != MAGIC || *kind != KIND {
            return Err(WireError::Malformed);
        }
        let (_, number) = head.split_last_chunk().ok_or(WireError::Malformed)?;
        let number = u64::from_be_bytes(*number);
        Ok(Self { id: KeyId(u32::from_be_bytes(*id)), number, head, mac, body })
    }

    /// Whether the authentication is by `key`.
    pub fn verify(&self, key: &MacKey) -> bool {
        self.id == key.id() && key.verify(&[self.head, self.body], self.mac)
    }

    /// The message. Its content is not authentic until [`verify`](Self::verify) has returned true.
    ///
    /// # Errors
    ///
    /// [`WireError`] if it is no message of the protocol.
    pub fn message<M: DeserializeOwned>(&self) -> Result<M, WireError> {
        message(self.body)
    }
}
