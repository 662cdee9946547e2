//! The test packets (RFC 8762 §4.2 and §4.3, with the SSID of RFC 8972 §3).
//!
//! | field | unauthenticated | authenticated |
//! |---|---|---|
//! | Sequence Number | 0 | 0 |
//! | Timestamp | 4 | 16 |
//! | Error Estimate | 12 | 24 |
//! | SSID | 14 | 26 |
//! | Receive Timestamp | 16 | 32 |
//! | Session-Sender Sequence Number | 24 | 48 |
//! | Session-Sender Timestamp | 28 | 64 |
//! | Session-Sender Error Estimate | 36 | 72 |
//! | Session-Sender TTL | 40 | 80 |
//! | HMAC | – | 96 |
//! | length of the packet | 44 | 112 |
//!
//! The packet of a sender has the first four fields and zeros.

use crate::keys::{KeyId, KeyRing};

use super::time::ErrorEstimate;

/// Bytes that the HMAC of an authenticated packet covers: six blocks of 16 (RFC 8762 §4.4).
const AUTHENTICATED_BYTES: usize = 96;

/// Bytes of the HMAC: HMAC-SHA-256 cut to 128 bits (RFC 8762 §4.4).
pub const MAC_BYTES: usize = 16;

/// Whether packets are authenticated (RFC 8762 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Without HMAC; the format of TWAMP Light.
    Unauthenticated,
    /// With HMAC.
    Authenticated,
}

/// The places of the fields.
struct Layout {
    time: usize,
    error: usize,
    ssid: usize,
    received: usize,
    sender_sequence: usize,
    sender_time: usize,
    sender_error: usize,
    ttl: usize,
    length: usize,
}

const PLAIN: Layout = Layout {
    time: 4,
    error: 12,
    ssid: 14,
    received: 16,
    sender_sequence: 24,
    sender_time: 28,
    sender_error: 36,
    ttl: 40,
    length: 44,
};

const SIGNED: Layout = Layout {
    time: 16,
    error: 24,
    ssid: 26,
    received: 32,
    sender_sequence: 48,
    sender_time: 64,
    sender_error: 72,
    ttl: 80,
    length: 112,
};

impl Mode {
    const fn layout(self) -> &'static Layout {
        match self {
            Self::Unauthenticated => &PLAIN,
            Self::Authenticated => &SIGNED,
        }
    }

    /// Length of a base packet, in bytes: 44 or 112.
    pub const fn base_bytes(self) -> usize {
        self.layout().length
    }

    /// The smallest packet of a reflector, in bytes: without HMAC, TWAMP has no zeros at the end (RFC 5357 §4.2.1).
    const fn min_reflected_bytes(self) -> usize {
        match self {
            Self::Unauthenticated => PLAIN.ttl + 1,
            Self::Authenticated => SIGNED.length,
        }
    }
}

/// The packet of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderPacket {
    /// Counts the packets of a session from 0.
    pub sequence: u32,
    /// The time of sending, in the format of `error`.
    pub time: u64,
    /// The clock behind `time`.
    pub error: ErrorEstimate,
    /// The identifier of the session; 0 for none.
    pub ssid: u16,
}

/// The packet of a reflector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReflectedPacket {
    /// Counts the reflected packets of a session from 0, or is a copy of the sender's number (stateless reflector).
    pub sequence: u32,
    /// The time of sending, in the format of `error`.
    pub time: u64,
    /// The clock behind `time` and `received`.
    pub error: ErrorEstimate,
    /// The identifier of the session; 0 for none.
    pub ssid: u16,
    /// The time at which the sender's packet arrived.
    pub received: u64,
    /// A copy of the sender's packet.
    pub sender: SenderPacket,
    /// TTL or Hop Limit of the sender's packet on arrival.
    pub ttl: u8,
}

/// Why a packet is not one of STAMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The packet ends before its fields do.
    #[error("the packet has {found} bytes, expected at least {expected}")]
    TooShort {
        /// The bytes that it has.
        found: usize,
        /// The bytes that it needs.
        expected: usize,
    },
    /// No key of the ring verifies the packet.
    #[error("no key verifies the packet")]
    NotAuthentic,
}

impl SenderPacket {
    /// The smallest packet that has all fields but the SSID: that of TWAMP Light without padding (RFC 5357 §4.1.2).
    const MIN_PLAIN_BYTES: usize = 14;

    /// Reads the packet at the beginning of `bytes`. A packet of TWAMP Light may end before the SSID, which is then 0.
    ///
    /// # Errors
    ///
    /// [`PacketError::TooShort`]. The HMAC is not verified: see [`verify`].
    pub fn read(mode: Mode, bytes: &[u8]) -> Result<Self, PacketError> {
        let expected = match mode {
            Mode::Unauthenticated => Self::MIN_PLAIN_BYTES,
            Mode::Authenticated => SIGNED.length,
        };
        let layout = mode.layout();
        let fields = || {
            Some(Self {
                sequence: u32::from_be_bytes(field(bytes, 0)?),
                time: u64::from_be_bytes(field(bytes, layout.time)?),
                error: ErrorEstimate::from_bits(u16::from_be_bytes(field(bytes, layout.error)?)),
                ssid: field(bytes, layout.ssid).map_or(0, u16::from_be_bytes),
            })
        };
        let found = bytes.len();
        fields().filter(|_| found >= expected).ok_or(PacketError::TooShort { found, expected })
    }

    /// Writes the packet to the beginning of `bytes`, except for its HMAC. Bytes beyond the end of `bytes` are left out.
    pub fn write(&self, mode: Mode, bytes: &mut [u8]) {
        let layout = mode.layout();
        clear(bytes, layout.length);
        put(bytes, 0, &self.sequence.to_be_bytes());
        put(bytes, layout.time, &self.time.to_be_bytes());
        put(bytes, layout.error, &self.error.to_bits().to_be_bytes());
        put(bytes, layout.ssid, &self.ssid.to_be_bytes());
    }
}

impl ReflectedPacket {
    /// Reads the packet at the beginning of `bytes`.
    ///
    /// # Errors
    ///
    /// [`PacketError::TooShort`]. The HMAC is not verified: see [`verify`].
    pub fn read(mode: Mode, bytes: &[u8]) -> Result<Self, PacketError> {
        let (layout, expected, found) = (mode.layout(), mode.min_reflected_bytes(), bytes.len());
        let fields = || {
            Some(Self {
                sequence: u32::from_be_bytes(field(bytes, 0)?),
                time: u64::from_be_bytes(field(bytes, layout.time)?),
                error: ErrorEstimate::from_bits(u16::from_be_bytes(field(bytes, layout.error)?)),
                ssid: u16::from_be_bytes(field(bytes, layout.ssid)?),
                received: u64::from_be_bytes(field(bytes, layout.received)?),
                sender: SenderPacket {
                    sequence: u32::from_be_bytes(field(bytes, layout.sender_sequence)?),
                    time: u64::from_be_bytes(field(bytes, layout.sender_time)?),
                    error: ErrorEstimate::from_bits(u16::from_be_bytes(field(bytes, layout.sender_error)?)),
                    ssid: u16::from_be_bytes(field(bytes, layout.ssid)?),
                },
                ttl: u8::from_be_bytes(field(bytes, layout.ttl)?),
            })
        };
        fields().filter(|_| found >= expected).ok_or(PacketError::TooShort { found, expected })
    }

    /// Writes the packet to the beginning of `bytes`, except for its HMAC. Bytes beyond the end of `bytes` are left out.
    pub fn write(&self, mode: Mode, bytes: &mut [u8]) {
        let layout = mode.layout();
        let Self { sequence, time, error, ssid, .. } = *self;
        SenderPacket { sequence, time, error, ssid }.write(mode, bytes);
        put(bytes, layout.received, &self.received.to_be_bytes());
        put(bytes, layout.sender_sequence, &self.sender.sequence.to_be_bytes());
        put(bytes, layout.sender_time, &self.sender.time.to_be_bytes());
        put(bytes, layout.sender_error, &self.sender.error.to_bits().to_be_bytes());
        put(bytes, layout.ttl, &[self.ttl]);
    }
}

/// Writes the HMAC of the authenticated packet at the beginning of `bytes` (RFC 8762 §4.4). Without such a key, or where `bytes`
/// is too short, nothing is written.
pub fn sign(bytes: &mut [u8], keys: &KeyRing, key: KeyId) {
    let mac = bytes.get(..AUTHENTICATED_BYTES).and_then(|covered| keys.mac(key, &[covered]));
    if let Some(mac) = mac {
        put(bytes, AUTHENTICATED_BYTES, mac.get(..MAC_BYTES).unwrap_or_default());
    }
}

/// The key that verifies the authenticated packet at the beginning of `bytes`. Packets name no key, so each one is tried.
///
/// # Errors
///
/// [`PacketError`] where the packet is too short, or where no key verifies it.
pub fn verify(bytes: &[u8], keys: &KeyRing) -> Result<KeyId, PacketError> {
    let too_short = PacketError::TooShort { found: bytes.len(), expected: SIGNED.length };
    let (covered, rest) = bytes.split_at_checked(AUTHENTICATED_BYTES).ok_or(too_short)?;
    let mac = rest.get(..MAC_BYTES).ok_or(too_short)?;
    keys.ids().find(|&key| keys.verify(key, &[covered], mac)).ok_or(PacketError::NotAuthentic)
}

/// The HMAC of an authenticated packet.
pub(super) fn mac_of(bytes: &[u8]) -> Option<[u8; MAC_BYTES]> {
    field(bytes, AUTHENTICATED_BYTES)
}

/// The `N` bytes from `at` on.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Copies `value` to `at`, as far as there is room.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (byte, value) in bytes.iter_mut().skip(at).zip(value) {
        *byte = *value;
    }
}

fn clear(bytes: &mut [u8], count: usize) {
    bytes.iter_mut().take(count).for_each(|byte| *byte = 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: SenderPacket = SenderPacket {
        sequence: 0x0102_0304,
        time: 0x1112_1314_1516_1718,
        error: ErrorEstimate::from_bits(0x8f84),
        ssid: 0x2122,
    };
    const REFLECTED: ReflectedPacket = ReflectedPacket {
        sequence: 0x3132_3334,
        time: 0x4142_4344_4546_4748,
        error: ErrorEstimate::from_bits(0x0a51),
        ssid: 0x2122,
        received: 0x6162_6364_6566_6768,
        sender: SENDER,
        ttl: 0x3f,
    };

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
    }

    fn zeros(bytes: usize) -> String {
        "00".repeat(bytes)
    }

    #[test]
    fn unauthenticated_packets_have_the_bytes_of_the_figures() {
        // RFC 8972 figures 1 and 2, line by line.
        let mut bytes = [0xff; 44];
        SENDER.write(Mode::Unauthenticated, &mut bytes);
        assert_eq!(hex(&bytes), ["01020304", "1112131415161718", "8f84", "2122", &zeros(28)].concat());
        assert_eq!(
            SenderPacket::read(Mode::Unauthenticated, &bytes[..14]),
            Ok(SenderPacket { ssid: 0, ..SENDER })
        );
        assert!(SenderPacket::read(Mode::Unauthenticated, &bytes[..13]).is_err());
        let mut bytes = [0xff; 44];
        REFLECTED.write(Mode::Unauthenticated, &mut bytes);
        let lines = "31323334 4142434445464748 0a51 2122 6162636465666768 01020304 1112131415161718 8f84 0000 3f 000000";
        assert_eq!(hex(&bytes), lines.replace(' ', ""));
        assert_eq!(ReflectedPacket::read(Mode::Unauthenticated, &bytes), Ok(REFLECTED));
        assert_eq!(ReflectedPacket::read(Mode::Unauthenticated, &bytes[..41]), Ok(REFLECTED), "TWAMP Light");
        assert!(ReflectedPacket::read(Mode::Unauthenticated, &bytes[..40]).is_err());
    }

    #[test]
    fn authenticated_packets_have_the_bytes_of_the_figures() {
        // RFC 8972 figures 3 and 4, line by line.
        let mut bytes = [0; 112];
        SENDER.write(Mode::Authenticated, &mut bytes);
        let lines = ["01020304", &zeros(12), "1112131415161718", "8f84", "2122", &zeros(68), &zeros(16)];
        assert_eq!(hex(&bytes), lines.concat());
        assert_eq!(SenderPacket::read(Mode::Authenticated, &bytes), Ok(SENDER));
        REFLECTED.write(Mode::Authenticated, &mut bytes);
        let head =
            ["31323334", &zeros(12), "4142434445464748", "0a51", "2122", &zeros(4), "6162636465666768"];
        let sender = [&zeros(8)[..], "01020304", &zeros(12), "1112131415161718", "8f84", &zeros(6)];
        assert_eq!(hex(&bytes), [head.concat(), sender.concat(), "3f".to_owned(), zeros(15 + 16)].concat());
        assert_eq!(ReflectedPacket::read(Mode::Authenticated, &bytes), Ok(REFLECTED));
        assert!(SenderPacket::read(Mode::Authenticated, &bytes[..111]).is_err());
        assert!(ReflectedPacket::read(Mode::Authenticated, &bytes[..111]).is_err());
    }

    #[test]
    fn the_mac_is_that_of_another_program() {
        // xxd -r -p <<< HEX | openssl dgst -sha256 -mac HMAC -macopt hexkey:00112233445566778899aabbccddeeff
        // with OpenSSL 3.0, over the first 96 bytes; cut to 16 bytes.
        const OPENSSL: &str = "b24ba296741463330fb90bdc2fbb2dc1";
        let keys =
            KeyRing::parse("5 00112233445566778899aabbccddeeff\n6 ffeeddccbbaa99887766554433221100").unwrap();
        let mut bytes = [0; 112];
        SENDER.write(Mode::Authenticated, &mut bytes);
        sign(&mut bytes, &keys, KeyId(5));
        assert_eq!(hex(&bytes[96..]), OPENSSL);
        assert_eq!(verify(&bytes, &keys), Ok(KeyId(5)));
        let others = KeyRing::parse("5 ffeeddccbbaa99887766554433221100").unwrap();
        assert_eq!(verify(&bytes, &others), Err(PacketError::NotAuthentic));
        assert_eq!(verify(&bytes[..111], &keys), Err(PacketError::TooShort { found: 111, expected: 112 }));
        for at in 0..112 {
            let mut changed = bytes;
            changed[at] ^= 1;
            assert_eq!(verify(&changed, &keys), Err(PacketError::NotAuthentic), "byte {at}");
        }
    }
}
