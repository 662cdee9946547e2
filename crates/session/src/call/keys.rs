//! Authentication of calls.

use crate::{
    cookie::Cookie,
    keys::{KeyId, KeyRing, MacKey},
    replay::ReplayWindow,
};

use super::messages::{Message, Sealed};

/// Bytes that authentication adds to an RTP or RTCP datagram: its number and its MAC.
pub const SEAL_TRAILER_BYTES: usize = NUMBER_BYTES + MacKey::MAC_BYTES;

const NUMBER_BYTES: usize = 8;

/// The purpose of keys that authenticate the messages before a call has its own keys: Hello, Challenge, Unknown.
const OPENING: &[u8] = b"giusto 3 call opening";
/// The purposes of a call's keys.
const TO_LISTENER: &[u8] = b"giusto 3 call to listener";
const TO_CALLER: &[u8] = b"giusto 3 call to caller";

/// The key of the messages outside calls; `None` without a key of this id.
pub(super) fn opening_key(ring: &KeyRing, id: KeyId) -> Option<MacKey> {
    ring.derive(id, &[OPENING])
}

/// The keys of one call at one end, and the numbers of its datagrams.
///
/// The keys are derived from the shared key, the caller's nonce and the listener's cookie: both ends have contributed something
/// fresh, so nothing of another call verifies here. There is one key for each direction, so nothing can be sent back to its
/// origin.
#[derive(Debug, Clone)]
pub(super) struct CallKeys {
    outgoing: MacKey,
    incoming: MacKey,
    sent: u64,
    /// 1024 numbers: more than a second of 5 Mbit/s.
    heard: ReplayWindow<16>,
}

impl CallKeys {
    /// The keys of the caller; `None` without a key of this id.
    pub(super) fn of_caller(ring: &KeyRing, id: KeyId, nonce: u64, cookie: &Cookie) -> Option<Self> {
        Self::derive(ring, id, nonce, cookie, [TO_LISTENER, TO_CALLER])
    }

    /// The keys of the listener.
    pub(super) fn of_listener(ring: &KeyRing, id: KeyId, nonce: u64, cookie: &Cookie) -> Option<Self> {
        Self::derive(ring, id, nonce, cookie, [TO_CALLER, TO_LISTENER])
    }

    fn derive(
        ring: &KeyRing,
        id: KeyId,
        nonce: u64,
        cookie: &Cookie,
        [outgoing, incoming]: [&[u8]; 2],
    ) -> Option<Self> {
        let (nonce, issued) = (nonce.to_be_bytes(), cookie.issued_ns.to_be_bytes());
        let derive = |purpose| ring.derive(id, &[purpose, &nonce, &issued, &cookie.proof]);
        Some(Self {
            outgoing: derive(outgoing)?,
            incoming: derive(incoming)?,
            sent: 0,
            heard: ReplayWindow::default(),
        })
    }

    /// The next message as a datagram.
    pub(super) fn seal(&mut self, message: &Message) -> Vec<u8> {
        self.sent += 1;
        message.seal(&self.outgoing, self.sent)
    }

    /// Whether the message is from the far end, and is no copy.
    pub(super) fn admits(&mut self, message: &Sealed<'_>) -> bool {
        message.verify(&self.incoming) && self.heard.admits(message.number)
    }

    /// Appends number and MAC to the datagram that begins at `start`.
    pub(super) fn seal_media(&mut self, buffer: &mut Vec<u8>, start: usize) {
        self.sent += 1;
        buffer.extend(self.sent.to_be_bytes());
        let mac = self.outgoing.mac(&[buffer.get(start..).unwrap_or_default()]);
        buffer.extend(mac);
    }

    /// The RTP or RTCP datagram without number and MAC, if it is from the far end and no copy.
    pub(super) fn open_media<'a>(&mut self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        let (covered, mac) = datagram.split_last_chunk()?;
        let (media, number) = covered.split_last_chunk::<NUMBER_BYTES>()?;
        let authentic = self.incoming.verify(&[covered], mac);
        (authentic && self.heard.admits(u64::from_be_bytes(*number))).then_some(media)
    }
}
