//! The stateless cookie that proves an address, and the tokens that name streams.

use std::net::{IpAddr, SocketAddr};

use giusto_units::{TimeDelta, Timestamp};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::wire::{Cookie, StreamToken};

/// Validity of a cookie.
const COOKIE_LIFE: TimeDelta = TimeDelta::from_seconds(30);

/// Makes and checks cookies and tokens with one secret.
///
/// A cookie is HMAC-SHA-256 over (address, port, nonce, time of issue), truncated to 128 bits. Only a host
/// that receives at the address can know it, and the issuer stores nothing. A token is the same over other
/// input, truncated to 64 bits.
pub(super) struct CookieJar {
    keyed: Hmac<Sha256>,
}

impl std::fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieJar")
    }
}

impl CookieJar {
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        Self {
            keyed: Hmac::new_from_slice(secret).expect("an HMAC takes keys of every length (RFC 2104 §2)"),
        }
    }

    /// The cookie for one address and nonce.
    pub(super) fn issue(&self, now: Timestamp, to: SocketAddr, nonce: u64) -> Cookie {
        let issued_ns = now.as_nanos();
        let mut proof = [0; 16];
        for (byte, made) in proof.iter_mut().zip(self.proof(to, nonce, issued_ns).finalize().into_bytes()) {
            *byte = made;
        }
        Cookie { issued_ns, proof }
    }

    /// Whether `cookie` was issued here for this address and nonce and is still valid.
    pub(super) fn verify(&self, now: Timestamp, from: SocketAddr, nonce: u64, cookie: &Cookie) -> bool {
        let age = now - Timestamp::from_nanos(cookie.issued_ns);
        (TimeDelta::ZERO..=COOKIE_LIFE).contains(&age)
            && self.proof(from, nonce, cookie.issued_ns).verify_truncated_left(&cookie.proof).is_ok()
    }

    /// The token of the stream that this address opened with this nonce. Repeated calls return the same
    /// token.
    pub(super) fn token(&self, from: SocketAddr, nonce: u64) -> StreamToken {
        let mut mac = self.keyed.clone();
        mac.update(b"token");
        update_address(&mut mac, from);
        mac.update(&nonce.to_be_bytes());
        let bytes = mac.finalize().into_bytes();
        StreamToken(bytes.iter().take(8).fold(0, |token, &byte| token << 8 | u64::from(byte)))
    }

    fn proof(&self, address: SocketAddr, nonce: u64, issued_ns: u64) -> Hmac<Sha256> {
        let mut mac = self.keyed.clone();
        mac.update(b"cookie");
        update_address(&mut mac, address);
        mac.update(&nonce.to_be_bytes());
        mac.update(&issued_ns.to_be_bytes());
        mac
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
        assert!(jar().verify(issued, here, 42, &cookie));
        assert!(jar().verify(issued + COOKIE_LIFE, here, 42, &cookie));
        assert!(!jar().verify(issued + COOKIE_LIFE + TimeDelta::from_nanos(1), here, 42, &cookie), "too old");
        assert!(!jar().verify(issued - TimeDelta::from_nanos(1), here, 42, &cookie), "from the future");
        assert!(!jar().verify(issued, there, 42, &cookie), "another address");
        assert!(!jar().verify(issued, here, 43, &cookie), "another nonce");
        assert!(!CookieJar::new(&[8; 32]).verify(issued, here, 42, &cookie), "another secret");
        let older = Cookie { issued_ns: cookie.issued_ns + 1, ..cookie };
        assert!(!jar().verify(issued + COOKIE_LIFE, here, 42, &older), "a time that was not issued");
    }

    #[test]
    fn a_token_is_stable_and_unique() {
        let here = SocketAddr::from(([127, 0, 0, 1], 5000));
        assert_eq!(jar().token(here, 1), jar().token(here, 1));
        assert_ne!(jar().token(here, 1), jar().token(here, 2));
        assert_ne!(jar().token(here, 1), CookieJar::new(&[8; 32]).token(here, 1));
    }
}
