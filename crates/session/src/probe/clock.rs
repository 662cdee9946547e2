//! Our clock, and what is disclosed of it to the other end.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::wire::{ClockIdentity, Cookie, MachineProof};

/// Our clock. Its values are never sent unmasked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocalClock {
    /// An identifier of this machine since its boot and of the time namespace, which only programs on it can read; `None` if unknown.
    /// Programs with the same value share one monotonic clock.
    pub boot: Option<[u8; 16]>,
    /// The machine's monotonic clock at our time zero.
    pub origin_monotonic_ns: u64,
    /// Unix time at our time zero.
    pub origin_unix_ns: u64,
    /// Error bound that the system reports for its clock, if the clock is synchronised.
    pub synchronised_within_ns: Option<u64>,
}

impl LocalClock {
    /// What every session discloses to the other end.
    pub fn identity(&self) -> ClockIdentity {
        ClockIdentity {
            machine: None,
            origin_unix_ns: self.origin_unix_ns,
            synchronised_within_ns: self.synchronised_within_ns,
        }
    }

    /// What the other end of this session may know; where it is on this machine, it recognises that.
    pub(crate) fn identity_in(&self, nonce: u64, cookie: &Cookie) -> ClockIdentity {
        let machine = self.boot.map(|boot| {
            let (proof, mask) = session_hash(&boot, nonce, cookie);
            MachineProof { proof, masked_origin_ns: self.origin_monotonic_ns.wrapping_add(mask) }
        });
        ClockIdentity { machine, ..self.identity() }
    }

    /// The other end's time zero on the monotonic clock of this machine, if it is on this machine.
    pub(crate) fn origin_of(&self, theirs: &ClockIdentity, nonce: u64, cookie: &Cookie) -> Option<u64> {
        let theirs = theirs.machine?;
        let (proof, mask) = session_hash(&self.boot?, nonce, cookie);
        (proof == theirs.proof).then(|| theirs.masked_origin_ns.wrapping_sub(mask))
    }
}

/// HMAC-SHA-256, under the identifier of the boot, of the session's nonce and cookie: a proof, and a mask for the origin.
fn session_hash(boot: &[u8; 16], nonce: u64, cookie: &Cookie) -> ([u8; 16], u64) {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(boot).expect("an HMAC takes keys of every length (RFC 2104 §2)");
    mac.update(b"giusto 3 machine");
    mac.update(&nonce.to_be_bytes());
    mac.update(&cookie.issued_ns.to_be_bytes());
    mac.update(&cookie.proof);
    let hash: [u8; 32] = mac.finalize().into_bytes().into();
    let (proof, rest) = hash.split_first_chunk().unwrap_or((&[0; 16], &[]));
    let mask = rest.first_chunk().copied().unwrap_or_default();
    (*proof, u64::from_be_bytes(mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_machine_learns_the_origin() {
        let clock = |boot, origin_monotonic_ns| LocalClock {
            boot,
            origin_monotonic_ns,
            origin_unix_ns: 5,
            synchronised_within_ns: None,
        };
        let cookie = |issued_ns| Cookie { issued_ns, proof: [9; 16] };
        let sender = clock(Some([7; 16]), 123_456_789);
        let sent = sender.identity_in(1, &cookie(2));
        assert_eq!(clock(Some([7; 16]), 1).origin_of(&sent, 1, &cookie(2)), Some(123_456_789));
        assert_eq!(clock(Some([8; 16]), 1).origin_of(&sent, 1, &cookie(2)), None, "another machine");
        assert_eq!(clock(None, 1).origin_of(&sent, 1, &cookie(2)), None);
        assert_eq!(clock(Some([7; 16]), 1).origin_of(&sent, 2, &cookie(2)), None, "another session");
        assert_eq!(clock(Some([7; 16]), 1).origin_of(&sent, 1, &cookie(3)), None, "another session");
        assert_eq!(clock(None, 5).identity_in(1, &cookie(2)).machine, None);
    }

    #[test]
    fn neither_boot_nor_uptime_is_visible() {
        let clock = LocalClock {
            boot: Some(*b"0123456789abcdef"),
            origin_monotonic_ns: 0x1122_3344_5566,
            ..LocalClock::default()
        };
        let seen = |nonce| {
            let sent = clock.identity_in(nonce, &Cookie { issued_ns: 1, proof: [0; 16] });
            postcard::to_allocvec(&sent).unwrap()
        };
        // Eight seconds of uptime are 33 bits: nothing of it may stay the same from one session to the next.
        let (first, second) = (seen(1), seen(2));
        assert_ne!(first[1..17], second[1..17]);
        assert_ne!(first[17..25], second[17..25]);
        for bytes in [first, second] {
            assert!(!bytes.windows(4).any(|window| window == b"0123" || window == [0x33, 0x44, 0x55, 0x66]));
        }
    }
}
