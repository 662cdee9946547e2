//! The stateless cookie that proves an address, and the tokens that name streams and calls.

use std::net::{IpAddr, SocketAddr};

use giusto_units::{TimeDelta, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Proof that its holder receives at the address to which it was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookie {
    /// Time of issue on the issuer's clock.
    pub issued_ns: u64,
    /// The proof itself.
    pub proof: [u8; 16],
}

/// Identifies a stream or a call; known only to its two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamToken(pub u64);

/// How long a cookie proves an address.
pub(crate) const COOKIE_LIFE: TimeDelta = TimeDelta::from_seconds(30);

/// How long a key is in use. Longer than a cookie lives: the key before is all that is kept.
const KEY_LIFE: TimeDelta = TimeDelta::from_seconds(60);

/// Makes and checks cookies and tokens.
///
/// A cookie is HMAC-SHA-256 over (address, port, nonce, time of issue), cut to 128 bit: only who receives at the address can
/// know it, and the issuer keeps nothing. A token is the same over other input, cut to 64 bit.
///
/// Each minute the key is replaced by an HMAC of itself, so that who learns a key cannot make the cookies or tokens of earlier
/// ones.
pub(crate) struct CookieJar {
    key: Key,
    before: Option<Key>,
    replace_at: Option<Timestamp>,
}

#[derive(Clone)]
struct Key {
    keyed: Hmac<Sha256>,
    since_ns: u64,
}

impl std::fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieJar")
    }
}

impl Key {
    fn new(secret: &[u8], since_ns: u64) -> Self {
        let keyed = Hmac::new_from_slice(secret).expect("an HMAC takes keys of every length (RFC 2104 §2)");
        Self { keyed, since_ns }
    }

    fn hash(&self, label: &[u8], address: SocketAddr, nonce: u64, issued_ns: u64) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        mac.update(label);
        update_address(&mut mac, address);
        mac.update(&nonce.to_be_bytes());
        mac.update(&issued_ns.to_be_bytes());
        mac
    }
}

impl CookieJar {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self { key: Key::new(secret, 0), before: None, replace_at: None }
    }

    /// The cookie for one address and nonce.
    pub(crate) fn issue(&mut self, now: Timestamp, to: SocketAddr, nonce: u64) -> Cookie {
        self.rotate(now);
        let issued_ns = now.as_nanos();
        let hash = self.key.hash(b"cookie", to, nonce, issued_ns).finalize().into_bytes();
        Cookie { issued_ns, proof: std::array::from_fn(|place| hash.get(place).copied().unwrap_or(0)) }
    }

    /// The token of the stream that this cookie opens, the same however often it is shown, and another one for a `sealed` request,
    /// so that a forged one without authentication does not use up the cookie; `None` where the cookie was not issued
    /// here for this address and nonce, or too long ago.
    pub(crate) fn verify(
        &mut self,
        now: Timestamp,
        from: SocketAddr,
        nonce: u64,
        cookie: &Cookie,
        sealed: bool,
    ) -> Option<StreamToken> {
        self.rotate(now);
        let age = now - Timestamp::from_nanos(cookie.issued_ns);
        if !(TimeDelta::ZERO..=COOKIE_LIFE).contains(&age) {
            return None;
        }
        let current = Some(&self.key).filter(|key| key.since_ns <= cookie.issued_ns);
        let key = current.or(self.before.as_ref())?;
        let hash = |label: &[u8]| key.hash(label, from, nonce, cookie.issued_ns);
        hash(b"cookie").verify_truncated_left(&cookie.proof).ok()?;
        let token = hash(if sealed { b"sealed token" } else { b"token" }).finalize().into_bytes();
        Some(StreamToken(token.iter().take(8).fold(0, |token, &byte| token << 8 | u64::from(byte))))
    }

    fn rotate(&mut self, now: Timestamp) {
        let replace_at = *self.replace_at.get_or_insert(now + KEY_LIFE);
        if now >= replace_at {
            let mut next = self.key.keyed.clone();
            next.update(b"next key");
            let next = Key::new(&next.finalize().into_bytes(), now.as_nanos());
            self.before = Some(std::mem::replace(&mut self.key, next));
            self.replace_at = Some(now + KEY_LIFE);
        }
    }
}

fn update_address(mac: &mut Hmac<Sha256>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => mac.update(&ip.octets()),
        IpAddr::V6(ip) => mac.update(&ip.octets()),
    }
    mac.update(&address.port().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar() -> CookieJar {
        CookieJar::new(&[7; 32])
    }

    #[test]
    fn a_cookie_is_valid_for_one_address_and_nonce_for_30_s() {
        let (here, there) =
            (SocketAddr::from(([127, 0, 0, 1], 5000)), SocketAddr::from(([127, 0, 0, 1], 5001)));
        let issued = Timestamp::from_nanos(5_000_000_000);
        let cookie = jar().issue(issued, here, 42);
        let is_valid = |mut jar: CookieJar, now, from, nonce, cookie: &Cookie| {
            jar.verify(now, from, nonce, cookie, false).is_some()
        };
        assert!(is_valid(jar(), issued, here, 42, &cookie));
        assert!(is_valid(jar(), issued + COOKIE_LIFE, here, 42, &cookie));
        let nano = TimeDelta::from_nanos(1);
        assert!(!is_valid(jar(), issued + COOKIE_LIFE + nano, here, 42, &cookie), "too old");
        assert!(!is_valid(jar(), issued - nano, here, 42, &cookie), "from the future");
        assert!(!is_valid(jar(), issued, there, 42, &cookie), "another address");
        assert!(!is_valid(jar(), issued, here, 43, &cookie), "another nonce");
        assert!(!is_valid(CookieJar::new(&[8; 32]), issued, here, 42, &cookie), "another secret");
        let older = Cookie { issued_ns: cookie.issued_ns + 1, ..cookie };
        assert!(!is_valid(jar(), issued + COOKIE_LIFE, here, 42, &older), "a time that was not issued");
    }

    #[test]
    fn a_token_belongs_to_one_cookie() {
        let here = SocketAddr::from(([127, 0, 0, 1], 5000));
        let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let mut jar = jar();
        let mut token = |issued, nonce, shown, sealed| {
            let cookie = jar.issue(at(issued), here, nonce);
            jar.verify(at(shown), here, nonce, &cookie, sealed)
        };
        let first = token(5, 1, 5, false);
        assert!(first.is_some());
        assert_eq!(token(5, 1, 6, false), first);
        assert_ne!(token(6, 1, 6, false), first, "the same nonce, asked later");
        assert_ne!(token(5, 2, 5, false), first);
        assert_ne!(token(5, 1, 6, true), first, "asked with authentication");
    }

    #[test]
    fn a_new_key_ends_no_young_cookie() {
        let here = SocketAddr::from(([127, 0, 0, 1], 5000));
        let mut jar = jar();
        let first_key = jar.key.keyed.clone();
        for second in 0..300_u64 {
            let issued = Timestamp::from_nanos(second * 1_000_000_000);
            let cookie = jar.issue(issued, here, 1);
            let mut later = CookieJar { key: jar.key.clone(), before: jar.before.clone(), ..jar };
            for age in [0, 15, 30] {
                let shown = issued + TimeDelta::from_seconds(age);
                assert!(later.verify(shown, here, 1, &cookie, false).is_some(), "{second} s, {age} s");
            }
        }
        assert_ne!(jar.key.keyed.finalize().into_bytes(), first_key.finalize().into_bytes());
    }
}
