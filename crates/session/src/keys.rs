//! Shared keys of two ends, and the messages they authenticate.

use std::{collections::BTreeMap, fmt};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Names a key, so that both ends can go over to another one while the old one is still accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

/// The shared keys: one to sign with, all of them to verify with.
#[derive(Clone)]
pub struct KeyRing {
    signing: KeyId,
    keys: BTreeMap<KeyId, Hmac<Sha256>>,
}

/// Error of reading a key file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A line is not a key.
    #[error(
        "line {line}: expected an id and a key of {} to {} bytes in hexadecimal digits, such as \
             \"1 {}\"",
        KeyRing::MIN_KEY_BYTES,
        KeyRing::MAX_KEY_BYTES,
        "00112233445566778899aabbccddeeff"
    )]
    Line {
        /// The number of the line, from 1.
        line: usize,
    },
    /// Two keys have the same id.
    #[error("line {line}: a second key with the id {}: give each key its own id", id.0)]
    Duplicate {
        /// The number of the line, from 1.
        line: usize,
        /// The id.
        id: KeyId,
    },
    /// There is no key.
    #[error("no key in it: expected a line \"ID KEY\", such as one of `echo 1 $(openssl rand -hex 32)`")]
    Empty,
}

impl KeyRing {
    /// The shortest key: half the output of the hash, the least that RFC 2104 §3 and NIST SP 800-107 §5.3.4 advise.
    pub const MIN_KEY_BYTES: usize = 16;
    /// The longest key: the block of the hash. Longer ones are no stronger (RFC 2104 §3).
    pub const MAX_KEY_BYTES: usize = 64;

    /// Reads a key file: a line for each key, its id (0 to 4294967295) and its bytes in hexadecimal digits, separated by spaces.
    /// Empty lines and what follows a `#` are skipped. The first key signs; each of them verifies.
    ///
    /// # Errors
    ///
    /// [`KeyError`] names the line. It never contains a part of a key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut signing = None;
        let mut keys = BTreeMap::new();
        for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text)) {
            let text = text.split_once('#').map_or(text, |(before, _)| before).trim();
            if text.is_empty() {
                continue;
            }
            let (id, key) = key_line(text).ok_or(KeyError::Line { line })?;
            if keys.insert(id, key).is_some() {
                return Err(KeyError::Duplicate { line, id });
            }
            signing.get_or_insert(id);
        }
        Ok(Self { signing: signing.ok_or(KeyError::Empty)?, keys })
    }

    /// A ring with this key, which signs.
    pub fn with_key(id: KeyId, key: &[u8]) -> Self {
        let mut ring = Self { signing: id, keys: BTreeMap::new() };
        ring.insert(id, key);
        ring
    }

    /// Adds a key, which verifies.
    #[expect(clippy::missing_panics_doc, reason = "no key is invalid")]
    pub fn insert(&mut self, id: KeyId, key: &[u8]) {
        self.keys
            .insert(id, Hmac::new_from_slice(key).expect("an HMAC takes keys of every length (RFC 2104 §2)"));
    }

    /// Removes a key.
    pub fn remove(&mut self, id: KeyId) {
        self.keys.remove(&id);
    }

    /// The key to sign with.
    pub fn signing(&self) -> KeyId {
        self.signing
    }

    /// HMAC-SHA-256 (RFC 2104, FIPS 180-4) over `parts`, one after the other; `None` without a key of this id.
    pub fn mac(&self, id: KeyId, parts: &[&[u8]]) -> Option<[u8; 32]> {
        Some(self.keyed(id, parts)?.finalize().into_bytes().into())
    }

    /// Whether `mac` is the beginning of that of `parts` under the key `id`; in constant time. An empty one never is.
    pub fn verify(&self, id: KeyId, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.keyed(id, parts).is_some_and(|keyed| keyed.verify_truncated_left(mac).is_ok())
    }

    /// The key for one purpose: HMAC-SHA-256 of `purpose` under the key `id`, as a key; `None` without a key of this id.
    pub fn derive(&self, id: KeyId, purpose: &[&[u8]]) -> Option<MacKey> {
        let keyed = Hmac::new_from_slice(&self.mac(id, purpose)?).ok()?;
        Some(MacKey { id, keyed })
    }

    /// The ids of all keys.
    pub fn ids(&self) -> impl Iterator<Item = KeyId> {
        self.keys.keys().copied()
    }

    fn keyed(&self, id: KeyId, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut mac = self.keys.get(&id)?.clone();
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }
}

/// A key that was derived from a shared one for a single purpose, with its HMAC's state computed beforehand.
#[derive(Clone)]
pub struct MacKey {
    id: KeyId,
    keyed: Hmac<Sha256>,
}

impl MacKey {
    /// Bytes of a MAC: HMAC-SHA-256 cut to 128 bits, as in RFC 4868 §2.6 and RFC 8762 §4.1.2.
    pub const MAC_BYTES: usize = 16;

    /// The key for one purpose that is derived from `secret`.
    pub(crate) fn derived(id: KeyId, secret: &[u8], purpose: &[u8]) -> Option<Self> {
        let mut of_secret = Hmac::<Sha256>::new_from_slice(secret).ok()?;
        of_secret.update(purpose);
        let keyed = Hmac::new_from_slice(&of_secret.finalize().into_bytes()).ok()?;
        Some(Self { id, keyed })
    }

    /// The shared key that it was derived from.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The MAC of `parts`, one after the other.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; Self::MAC_BYTES] {
        let whole = self.keyed(parts).finalize().into_bytes();
        whole.first_chunk().copied().unwrap_or_default()
    }

    /// Whether `mac` is the beginning of that of `parts`; in constant time. An empty one never is.
    pub fn verify(&self, parts: &[&[u8]], mac: &[u8]) -> bool {
        self.keyed(parts).verify_truncated_left(mac).is_ok()
    }

    fn keyed(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        for part in parts {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for MacKey {
    /// The id, never the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MacKey").field(&self.id).finish()
    }
}

impl fmt::Debug for KeyRing {
    /// The ids, never the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.keys()).finish()
    }
}

fn key_line(text: &str) -> Option<(KeyId, Hmac<Sha256>)> {
    let (id, digits) = text.split_once(char::is_whitespace)?;
    let digits = digits.trim().as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let key: Vec<u8> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect::<Option<_>>()?;
    if !(KeyRing::MIN_KEY_BYTES..=KeyRing::MAX_KEY_BYTES).contains(&key.len()) {
        return None;
    }
    Some((KeyId(id.parse().ok()?), Hmac::new_from_slice(&key).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_those_of_rfc_4231() {
        // RFC 4231 §4.2: a key of 20 bytes 0x0b.
        let ring = KeyRing::parse(&format!("7 {}", "0b".repeat(20))).unwrap();
        let mac = ring.mac(KeyId(7), &[b"Hi ", b"There"]).unwrap();
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(mac.map(|byte| format!("{byte:02x}")).concat(), expected);
        assert!(ring.verify(KeyId(7), &[b"Hi There"], &mac[..16]));
        assert!(!ring.verify(KeyId(7), &[b"Hi there"], &mac[..16]));
        assert!(!ring.verify(KeyId(8), &[b"Hi There"], &mac[..16]));
        assert!(!ring.verify(KeyId(7), &[b"Hi There"], &[]));
    }

    #[test]
    fn the_first_key_signs_and_all_verify() {
        let text = format!("# rotated in May\n\n2 {}  # new\n 1\t{}\n", "AB".repeat(32), "cd".repeat(16));
        let ring = KeyRing::parse(&text).unwrap();
        assert_eq!(ring.signing(), KeyId(2));
        assert_eq!(ring.ids().collect::<Vec<_>>(), [KeyId(1), KeyId(2)]);
        assert_eq!(format!("{ring:?}"), "[KeyId(1), KeyId(2)]");
    }

    #[test]
    fn errors_name_the_line_and_hide_the_key() {
        let key = "ab".repeat(16);
        for (text, error) in [
            (String::new(), KeyError::Empty),
            ("# no key\n".to_owned(), KeyError::Empty),
            (key.clone(), KeyError::Line { line: 1 }),
            (format!("1 {key}\n\n1 {key}"), KeyError::Duplicate { line: 3, id: KeyId(1) }),
            (format!("1 {}", &key[2..]), KeyError::Line { line: 1 }),
            (format!("1 {key}a"), KeyError::Line { line: 1 }),
            (format!("1 {}zz", &key[2..]), KeyError::Line { line: 1 }),
            (format!("1 {}", "ab".repeat(65)), KeyError::Line { line: 1 }),
            (format!("4294967296 {key}"), KeyError::Line { line: 1 }),
            (format!("1 {key} {key}"), KeyError::Line { line: 1 }),
            (format!("1 {}é", &key[2..]), KeyError::Line { line: 1 }),
        ] {
            assert_eq!(KeyRing::parse(&text).unwrap_err(), error, "{text}");
            assert!(!error.to_string().contains(&key));
        }
    }
}
