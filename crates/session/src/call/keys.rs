//! Authentication and encryption of calls.

use std::borrow::Cow;

use crate::{
    cookie::{Cookie, StreamToken},
    keys::{KeyId, KeyRing, MacKey},
    replay::ReplayWindow,
};

use super::{
    messages::{Message, Sealed},
    protection::{NUMBER_BYTES, Protection, TAG_BYTES},
};

/// The purpose of keys that authenticate the messages before a call has its own keys: Hello, Challenge, Unknown.
const OPENING: &[u8] = b"giusto 3 call opening";
/// The purposes of a call's keys.
const TO_LISTENER: &[u8] = b"giusto 3 call to listener";
const TO_CALLER: &[u8] = b"giusto 3 call to caller";
/// The purposes of the keys of its media.
const MEDIA_TO_LISTENER: &[u8] = b"giusto 3 call media to listener";
const MEDIA_TO_CALLER: &[u8] = b"giusto 3 call media to caller";
/// The same of media that are encrypted.
const SRTP_TO_LISTENER: &[u8] = b"giusto 3 call SRTP to listener";
const SRTP_TO_CALLER: &[u8] = b"giusto 3 call SRTP to caller";

/// Encrypts and decrypts the media of one call at one end.
pub trait MediaCipher: std::fmt::Debug {
    /// The RTP or RTCP datagram as it is sent; `None` if it cannot be.
    fn protect(&mut self, datagram: &[u8]) -> Option<Vec<u8>>;

    /// The received datagram decrypted; `None` if it is forged, changed or a copy.
    fn open(&mut self, datagram: &[u8]) -> Option<Vec<u8>>;
}

/// Makes the cipher of a call from secrets: of what this end sends, and of what it receives.
pub type MakeCipher = fn(&[u8; 32], &[u8; 32]) -> Option<Box<dyn MediaCipher>>;

/// The key of the messages outside calls; `None` without a key of this id.
pub(super) fn opening_key(ring: &KeyRing, id: KeyId) -> Option<MacKey> {
    ring.derive(id, &[OPENING])
}

/// The keys of one call's messages at one end, and the numbers of its messages.
///
/// The keys are derived from the shared key, the caller's nonce and the listener's cookie: both ends have contributed something
/// fresh, so nothing of another call verifies here. There is one key for each direction, so nothing can be sent back to its
/// origin.
#[derive(Clone)]
pub(super) struct CallKeys {
    outgoing: MacKey,
    incoming: MacKey,
    sent: u64,
    heard: ReplayWindow<16>,
    media: MediaKeys,
    srtp: [[u8; 32]; 2],
}

impl CallKeys {
    /// The keys of the caller; `None` without a key of this id.
    pub(super) fn of_caller(ring: &KeyRing, id: KeyId, nonce: u64, cookie: &Cookie) -> Option<Self> {
        Self::derive(ring, id, nonce, cookie, true)
    }

    /// The keys of the listener.
    pub(super) fn of_listener(ring: &KeyRing, id: KeyId, nonce: u64, cookie: &Cookie) -> Option<Self> {
        Self::derive(ring, id, nonce, cookie, false)
    }

    fn derive(ring: &KeyRing, id: KeyId, nonce: u64, cookie: &Cookie, is_caller: bool) -> Option<Self> {
        let (nonce, issued) = (nonce.to_be_bytes(), cookie.issued_ns.to_be_bytes());
        let derive = |purpose: &'static [u8]| ring.derive(id, &[purpose, &nonce, &issued, &cookie.proof]);
        let [outgoing, incoming] = directed(TO_LISTENER, TO_CALLER, is_caller);
        let secret = |purpose: &'static [u8]| ring.mac(id, &[purpose, &nonce, &issued, &cookie.proof]);
        let [to_them, to_us] = directed(SRTP_TO_LISTENER, SRTP_TO_CALLER, is_caller);
        Some(Self {
            outgoing: derive(outgoing)?,
            incoming: derive(incoming)?,
            srtp: [secret(to_them)?, secret(to_us)?],
            sent: 0,
            heard: ReplayWindow::default(),
            media: MediaKeys::new(is_caller, derive)?,
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
}

impl std::fmt::Debug for CallKeys {
    /// Never the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallKeys").field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// What protects the media of one call at one end.
#[derive(Debug)]
pub(super) enum Guard {
    /// Nothing.
    Insecure,
    Mac(Box<MediaKeys>),
    Srtp(Box<dyn MediaCipher>),
}

impl Guard {
    /// The guard of a call; `None` if it must be encrypted, and there are no keys or no cipher.
    pub(super) fn new(
        protection: Protection,
        keys: Option<&CallKeys>,
        cipher: Option<MakeCipher>,
        of_handshake: impl FnOnce() -> Option<MediaKeys>,
    ) -> Option<Self> {
        Some(match (protection, keys) {
            (Protection::Insecure, _) => Self::Insecure,
            (Protection::Authenticated, Some(keys)) => Self::Mac(Box::new(keys.media.clone())),
            (Protection::Authenticated, None) => Self::Mac(Box::new(of_handshake()?)),
            (Protection::Encrypted, keys) => {
                let [outgoing, incoming] = &keys?.srtp;
                Self::Srtp(cipher?(outgoing, incoming)?)
            }
        })
    }

    /// Protects the datagram that begins at `start`, the last of the buffer; false if it cannot be sent.
    pub(super) fn protect(&mut self, buffer: &mut Vec<u8>, start: usize) -> bool {
        match self {
            Self::Insecure => true,
            Self::Mac(keys) => {
                keys.seal(buffer, start);
                true
            }
            Self::Srtp(cipher) => {
                let protected = cipher.protect(buffer.get(start..).unwrap_or_default());
                buffer.truncate(start);
                buffer.extend(protected.iter().flatten());
                protected.is_some()
            }
        }
    }

    /// The RTP or RTCP datagram without its protection.
    pub(super) fn open<'a>(&mut self, datagram: &'a [u8]) -> Result<Cow<'a, [u8]>, Unopened> {
        match self {
            Self::Insecure => Ok(Cow::Borrowed(datagram)),
            Self::Mac(keys) => keys.open(datagram).map(Cow::Borrowed),
            // It decrypts nothing twice, and does not say which are copies.
            Self::Srtp(cipher) => cipher.open(datagram).map(Cow::Owned).ok_or(Unopened::Forged),
        }
    }
}

/// Why a datagram of media is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unopened {
    /// It is not from the far end, or too old to know.
    Forged,
    /// It is from the far end and was taken before.
    Copy,
}

/// The purposes of what one end sends and receives.
fn directed(to_listener: &'static [u8], to_caller: &'static [u8], is_caller: bool) -> [&'static [u8]; 2] {
    if is_caller { [to_listener, to_caller] } else { [to_caller, to_listener] }
}

/// The keys of one call's media at one end, and the numbers of its datagrams.
///
/// Each datagram is followed by the lower 32 bits of its number, and by a MAC over all bytes before and the upper 32 bits, which both
/// ends know (as the rollover counter of RFC 3711 §4.2).
#[derive(Debug, Clone)]
pub(super) struct MediaKeys {
    outgoing: MacKey,
    incoming: MacKey,
    sent: u64,
    /// 1024 numbers: more than a second of 5 Mbit/s.
    heard: ReplayWindow<16>,
}

impl MediaKeys {
    fn new(is_caller: bool, derive: impl Fn(&'static [u8]) -> Option<MacKey>) -> Option<Self> {
        let [outgoing, incoming] = directed(MEDIA_TO_LISTENER, MEDIA_TO_CALLER, is_caller);
        Some(Self {
            outgoing: derive(outgoing)?,
            incoming: derive(incoming)?,
            sent: 0,
            heard: ReplayWindow::default(),
        })
    }

    /// The keys of a call between ends that share none, from what only those see who see its handshake: 64 random bits of the caller,
    /// and 128 and 64 of the listener.
    pub(super) fn of_handshake(
        is_caller: bool,
        nonce: u64,
        cookie: &Cookie,
        token: StreamToken,
    ) -> Option<Self> {
        let [nonce, issued, token] = [nonce, cookie.issued_ns, token.0].map(u64::to_be_bytes);
        let secret = [&nonce[..], &issued, &cookie.proof, &token].concat();
        Self::new(is_caller, |purpose| MacKey::derived(KeyId(0), &secret, purpose))
    }

    /// Appends number and MAC to the datagram that begins at `start`.
    pub(super) fn seal(&mut self, buffer: &mut Vec<u8>, start: usize) {
        self.sent += 1;
        let [upper, lower] = halves(self.sent);
        buffer.extend(lower);
        let mac = self.outgoing.mac(&[buffer.get(start..).unwrap_or_default(), &upper]);
        buffer.extend(mac.iter().take(TAG_BYTES));
    }

    /// The RTP or RTCP datagram without number and MAC, if it is from the far end and no copy.
    pub(super) fn open<'a>(&mut self, datagram: &'a [u8]) -> Result<&'a [u8], Unopened> {
        let (number, media) = self.authentic(datagram).ok_or(Unopened::Forged)?;
        if self.heard.has(number) {
            return Err(Unopened::Copy);
        }
        if self.heard.admits(number) { Ok(media) } else { Err(Unopened::Forged) }
    }

    /// The number and the content of a datagram from the far end.
    fn authentic<'a>(&self, datagram: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let (covered, tag) = datagram.split_last_chunk::<TAG_BYTES>()?;
        let (media, lower) = covered.split_last_chunk::<NUMBER_BYTES>()?;
        // The number with these lower bits that is nearest to the highest so far.
        let highest = self.heard.highest();
        let ahead = u32::from_be_bytes(*lower).wrapping_sub(highest as u32) as i32;
        let number = highest.checked_add_signed(ahead.into())?;
        let [upper, _] = halves(number);
        self.incoming.verify(&[covered, &upper], tag).then_some((number, media))
    }
}

/// The upper and the lower 32 bits.
fn halves(number: u64) -> [[u8; NUMBER_BYTES]; 2] {
    [(number >> 32) as u32, number as u32].map(u32::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::{super::protection::SEAL_TRAILER_BYTES, *};

    const COOKIE: Cookie = Cookie { issued_ns: 5, proof: [3; 16] };

    fn keys(is_caller: bool) -> MediaKeys {
        MediaKeys::of_handshake(is_caller, 1, &COOKIE, StreamToken(2)).unwrap()
    }

    #[test]
    fn a_datagram_is_opened_once_and_only_with_the_same_handshake() {
        let mut sealed = vec![9, 9];
        sealed.extend([0x80; 24]);
        keys(true).seal(&mut sealed, 2);
        let sealed = &sealed[2..];
        assert_eq!(sealed.len(), 24 + SEAL_TRAILER_BYTES);
        let mut listener = keys(false);
        assert_eq!(listener.open(sealed), Ok(&[0x80; 24][..]));
        assert_eq!(listener.open(sealed), Err(Unopened::Copy));
        assert_eq!(keys(true).open(sealed), Err(Unopened::Forged), "sent back");
        for (nonce, proof, token) in [(2, 3, 2), (1, 4, 2), (1, 3, 3)] {
            let cookie = Cookie { proof: [proof; 16], ..COOKIE };
            let mut other = MediaKeys::of_handshake(false, nonce, &cookie, StreamToken(token)).unwrap();
            assert_eq!(other.open(sealed), Err(Unopened::Forged));
        }
        for length in 0..sealed.len() {
            assert_eq!(keys(false).open(&sealed[..length]), Err(Unopened::Forged));
        }
    }

    #[test]
    fn numbers_go_on_where_their_lower_half_ends() {
        let (mut caller, mut listener) = (keys(true), keys(false));
        // A loss of 2^31 - 1 datagrams is survived, and so is the end of the lower half.
        for sent in [0, (1 << 31) - 2, u64::from(u32::MAX) - 2, u64::from(u32::MAX), 1 << 32] {
            caller.sent = sent;
            let mut sealed = vec![0x80; 12];
            caller.seal(&mut sealed, 0);
            assert!(listener.open(&sealed).is_ok(), "{sent}");
            assert_eq!(listener.open(&sealed), Err(Unopened::Copy), "{sent}");
        }
        caller.sent = u64::from(u32::MAX);
        let mut late = vec![0x80; 12];
        caller.seal(&mut late, 0);
        assert_eq!(listener.open(&late), Err(Unopened::Copy));
        caller.sent = u64::from(u32::MAX) - 2000;
        let mut late = vec![0x80; 12];
        caller.seal(&mut late, 0);
        assert_eq!(
            listener.open(&late),
            Err(Unopened::Forged),
            "too late to know whether it was there before"
        );
    }
}
