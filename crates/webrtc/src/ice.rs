//! ICE-lite (RFC 8445 §2.5): the browser checks, we answer.

use std::net::SocketAddr;

use giusto_units::{TimeDelta, Timestamp};
use is::{DefaultSha1HmacProvider, Sha1HmacProvider as _, stun::StunMessage};

/// Without an authenticated check for this long, the browser's consent has expired (RFC 7675 §5.1).
pub const CONSENT_EXPIRY: TimeDelta = TimeDelta::from_seconds(30);
/// The most addresses from which checks are remembered. A browser has one for each interface and relay; chosen by us.
const MAX_ADDRESSES: usize = 16;
/// The longest answer: header, XOR-MAPPED-ADDRESS of IPv6, integrity, fingerprint, with room to spare.
const MAX_ANSWER_BYTES: usize = 256;

/// User name fragment and password (RFC 8839 §5.4).
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user name fragment: 4 to 256 characters.
    pub ufrag: String,
    /// The password: 22 to 256 characters.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("ufrag", &self.ufrag).finish_non_exhaustive()
    }
}

/// Counts of STUN messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct StunCounters {
    /// Authenticated checks, each of which was answered.
    pub checks: u64,
    /// Checks with a wrong user name or password; they are not answered.
    pub refused: u64,
    /// Damaged messages, and messages other than checks; they are not answered.
    pub ignored: u64,
}

/// The ICE agent of a "lite" implementation. It has no clock and no socket.
///
/// Requests that are not authenticated get no answer, so that a forged source address draws no traffic.
#[derive(Debug)]
pub struct IceLite {
    local: Credentials,
    /// The user name of the browser's checks: our fragment, a colon, its fragment (RFC 8445 §7.2.2).
    username: String,
    /// Addresses with authenticated checks; the latest last.
    addresses: Vec<SocketAddr>,
    selected: Option<SocketAddr>,
    checked_at: Option<Timestamp>,
    counters: StunCounters,
}

impl IceLite {
    /// An agent with our credentials and the browser's user name fragment.
    pub fn new(local: Credentials, remote_ufrag: &str) -> Self {
        Self {
            username: format!("{}:{remote_ufrag}", local.ufrag),
            local,
            addresses: Vec::new(),
            selected: None,
            checked_at: None,
            counters: StunCounters::default(),
        }
    }

    /// Handles a STUN message; returns the answer, which goes to `from`.
    pub fn handle(&mut self, now: Timestamp, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let request = StunMessage::parse(bytes).ok().filter(StunMessage::is_binding_request);
        let Some(request) = request else {
            self.counters.ignored += 1;
            return None;
        };
        let password = self.local.password.as_bytes();
        let hmac = |key: &[u8], parts: &[&[u8]]| DefaultSha1HmacProvider.sha1_hmac(key, parts);
        if request.username() != Some(&self.username) || !request.verify(password, hmac) {
            self.counters.refused += 1;
            return None;
        }
        self.counters.checks += 1;
        let answer = if request.ice_controlled().is_some() {
            // A lite agent is always controlled (RFC 8445 §6.1.1).
            StunMessage::binding_role_conflict_reply(request.trans_id())
        } else {
            self.checked_at = self.checked_at.max(Some(now));
            self.addresses.retain(|address| *address != from);
            self.addresses.push(from);
            if self.addresses.len() > MAX_ADDRESSES {
                self.addresses.remove(0);
            }
            if request.use_candidate() {
                self.selected = Some(from);
            }
            StunMessage::binding_reply(request.trans_id(), from)
        };
        let mut buffer = vec![0; MAX_ANSWER_BYTES];
        let length = answer.to_bytes(Some(password), &mut buffer, hmac).ok()?;
        buffer.truncate(length);
        Some(buffer)
    }

    /// Whether an authenticated check came from this address.
    pub fn is_checked(&self, address: SocketAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// The address that the browser has nominated; media go there.
    pub fn selected(&self) -> Option<SocketAddr> {
        self.selected
    }

    /// Where DTLS goes: the nominated address, before that the one of the latest check.
    pub fn target(&self) -> Option<SocketAddr> {
        self.selected.or_else(|| self.addresses.last().copied())
    }

    /// Time at which the browser's consent expires; `None` before the first check.
    pub fn expires_at(&self) -> Option<Timestamp> {
        Some(self.checked_at? + CONSENT_EXPIRY)
    }

    /// Counts of STUN messages.
    pub fn counters(&self) -> StunCounters {
        self.counters
    }
}
