//! Authentication of sessions: keys for the opening and for each stream, and message numbers.

use crate::{
    keys::{KeyId, KeyRing, MacKey},
    replay::ReplayWindow,
};

use super::wire::{Cookie, Message, Sealed};

/// The purpose of keys that authenticate the messages before a stream's own keys exist: Hello and Challenge.
const OPENING: &[u8] = b"giusto 3 opening";
/// The purposes of a stream's keys.
const TO_RECEIVER: &[u8] = b"giusto 3 to receiver";
const TO_SENDER: &[u8] = b"giusto 3 to sender";

/// The key of the opening messages; `None` without a key of this id.
pub(super) fn opening_key(ring: &KeyRing, id: KeyId) -> Option<MacKey> {
    ring.derive(id, &[OPENING])
}

/// The keys and message numbers of one stream, at one end.
///
/// The keys are derived from the shared key, the sender's nonce and the receiver's cookie: both ends have contributed something
/// fresh, so nothing of another stream verifies here. There is one key for each direction, so nothing can be sent back to its
/// origin.
#[derive(Debug, Clone)]
pub(super) struct StreamKeys {
    pub(super) to_receiver: MacKey,
    pub(super) to_sender: MacKey,
    /// Messages that this end has sent.
    sent: u64,
    heard: ReplayWindow<1>,
}

impl StreamKeys {
    /// `None` without a key of this id.
    pub(super) fn derive(ring: &KeyRing, id: KeyId, nonce: u64, cookie: &Cookie) -> Option<Self> {
        let (nonce, issued) = (nonce.to_be_bytes(), cookie.issued_ns.to_be_bytes());
        let derive = |purpose| ring.derive(id, &[purpose, &nonce, &issued, &cookie.proof]);
        Some(Self {
            to_receiver: derive(TO_RECEIVER)?,
            to_sender: derive(TO_SENDER)?,
            sent: 0,
            heard: ReplayWindow::default(),
        })
    }

    /// The receiver's next message, as a datagram.
    pub(super) fn seal_to_sender(&mut self, message: &Message, padded_to: usize) -> Vec<u8> {
        self.sent += 1;
        message.seal(padded_to, &self.to_sender, self.sent)
    }

    /// The sender's next message, as a datagram.
    pub(super) fn seal_to_receiver(&mut self, message: &Message, padded_to: usize) -> Vec<u8> {
        self.sent += 1;
        message.seal(padded_to, &self.to_receiver, self.sent)
    }

    /// Whether the message is from this stream's sender, and is no copy.
    pub(super) fn admits_to_receiver(&mut self, message: &Sealed<'_>) -> bool {
        message.verify(&self.to_receiver) && self.heard.admits(message.number)
    }

    /// Whether the message is from this stream's receiver, and is no copy.
    pub(super) fn admits_to_sender(&mut self, message: &Sealed<'_>) -> bool {
        message.verify(&self.to_sender) && self.heard.admits(message.number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::probe::wire::{DataHeader, Refusal, StreamToken};

    fn ring() -> KeyRing {
        KeyRing::parse(&format!("1 {}\n2 {}", "11".repeat(32), "22".repeat(32))).unwrap()
    }

    #[test]
    fn keys_differ_by_stream_direction_and_shared_key() {
        let cookie = |byte| Cookie { issued_ns: 1, proof: [byte; 16] };
        let derive = |id, nonce, byte| StreamKeys::derive(&ring(), KeyId(id), nonce, &cookie(byte)).unwrap();
        let mut macs = BTreeSet::new();
        for keys in [derive(1, 1, 1), derive(2, 1, 1), derive(1, 2, 1), derive(1, 1, 2)] {
            for key in [keys.to_receiver, keys.to_sender] {
                assert!(macs.insert(key.mac(&[b"x"])));
            }
        }
        assert!(macs.insert(opening_key(&ring(), KeyId(1)).unwrap().mac(&[b"x"])));
        assert!(StreamKeys::derive(&ring(), KeyId(3), 1, &cookie(1)).is_none());
    }

    #[test]
    fn keys_and_macs_are_those_of_another_implementation() {
        // Computed with Python's hmac and hashlib: hmac(hmac(0x11 × 32, purpose ‖ nonce ‖ issued ‖ proof), …)[:16].
        let cookie = Cookie { issued_ns: 0x0102_0304_0506_0708, proof: [0xAA; 16] };
        let keys = StreamKeys::derive(&ring(), KeyId(1), 0x1122_3344_5566_7788, &cookie).unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let header = DataHeader { token: StreamToken(1), sequence: 2, scheduled_ns: 3, sent_ns: 4 };
        let mut datagram = [0xEE; 100];
        assert!(header.write_sealed(&mut datagram, &keys.to_receiver));
        assert_eq!(hex(&datagram[40..56]), "50371369b150d9984b29b257d05cf0d4");
        assert_eq!(DataHeader::open(&datagram, &keys.to_receiver), Ok(header));
        let hello = Message::Hello { nonce: 5 }.seal(0, &opening_key(&ring(), KeyId(2)).unwrap(), 0);
        assert_eq!(hex(&hello), "67697533000000020000000000000000a025b465c68f97185d146ac9bba9bd930005");
        let refused = Message::Refused { nonce: 5, why: Refusal::Rate }.seal(3, &keys.to_sender, 9);
        assert_eq!(hex(&refused), "6769753300000001000000000000000932e47142e11ce086934d6846e91a4a45040502");
    }
}
