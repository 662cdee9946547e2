//! The extensions behind a base packet (RFC 8972 §4).
//!
//! ```text
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |U|M|I|R R R R R|     Type      |            Length             |
//! ~                             Value                             ~
//! ```

use super::packet::{MAC_BYTES, field, put};
use crate::keys::{KeyId, KeyRing};

/// Bytes of flags, type and length.
pub const TLV_HEADER_BYTES: usize = 4;

/// U: not understood by the reflector.
const UNRECOGNISED: u8 = 0x80;
/// M: malformed.
const MALFORMED: u8 = 0x40;
/// I: the HMAC does not verify the extensions.
const NOT_AUTHENTIC: u8 = 0x20;

/// A reserved type (RFC 8972 §5.1).
const RESERVED: u8 = 0;
const EXTRA_PADDING: u8 = 1;
const CLASS_OF_SERVICE: u8 = 4;
const HMAC: u8 = 8;

/// Bytes of the value of a Class of Service TLV (RFC 8972 §4.4).
const CLASS_BYTES: usize = 4;
/// The first DSCP that only authenticated senders may ask for: from here on it is network control (CS6, RFC 2474 §4.2.2.2).
const NETWORK_CONTROL: u8 = 48;

/// What a packet says of its extensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TlvFlags {
    /// There are extensions, and at least one is flagged as not understood.
    pub unrecognised: bool,
    /// At least one is flagged as malformed.
    pub malformed: bool,
    /// At least one is flagged as not authentic.
    pub not_authentic: bool,
}

/// One extension.
#[derive(Debug, Clone, Copy)]
struct Tlv {
    at: usize,
    flags: u8,
    kind: u8,
    length: usize,
    /// All of it is in the packet.
    complete: bool,
}

/// The extensions in `bytes`; the last may be incomplete.
fn tlvs(bytes: &[u8]) -> impl Iterator<Item = Tlv> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let flags = *bytes.get(at)?;
        let tlv = match field::<TLV_HEADER_BYTES>(bytes, at) {
            Some([flags, kind, high, low]) => {
                let length = usize::from(u16::from_be_bytes([high, low]));
                let complete = bytes.len() - at >= TLV_HEADER_BYTES + length;
                Tlv { at, flags, kind, length, complete }
            }
            None => Tlv { at, flags, kind: RESERVED, length: 0, complete: false },
        };
        at = if tlv.complete { at + TLV_HEADER_BYTES + tlv.length } else { bytes.len() };
        Some(tlv)
    })
}

/// Writes the header of one Extra Padding TLV (RFC 8972 §4.1) that fills `bytes`; its value is left as it is.
///
/// Fewer than four bytes, and what exceeds 65 539 bytes, cannot be such a TLV: `false`, and nothing is written.
pub fn write_padding(bytes: &mut [u8]) -> bool {
    let length = bytes.len().checked_sub(TLV_HEADER_BYTES).and_then(|length| u16::try_from(length).ok());
    let Some(length) = length else { return false };
    let [high, low] = length.to_be_bytes();
    // A sender sets U: a reflector without extensions leaves it.
    put(bytes, 0, &[UNRECOGNISED, EXTRA_PADDING, high, low]);
    true
}

/// The flags in the extensions of a reflected packet.
pub fn flags(bytes: &[u8]) -> TlvFlags {
    let mut all = TlvFlags::default();
    for tlv in tlvs(bytes) {
        all.unrecognised |= tlv.flags & UNRECOGNISED != 0;
        all.malformed |= tlv.flags & MALFORMED != 0;
        all.not_authentic |= tlv.flags & NOT_AUTHENTIC != 0;
    }
    all
}

/// How the extensions are authenticated (RFC 8972 §4.8).
#[derive(Debug, Clone, Copy)]
pub struct Integrity<'a> {
    /// The keys.
    pub keys: &'a KeyRing,
    /// The one that verified the base packet.
    pub key: KeyId,
    /// Sequence number of the received packet, which its HMAC covers.
    pub received_sequence: u32,
    /// Sequence number of the reflected packet.
    pub reflected_sequence: u32,
}

/// What a packet with a Class of Service TLV asks for.
///
/// ```text
/// |   DSCP1   |   DSCP2   |ECN| RP|          Reserved             |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassOfService {
    /// The DSCP of the answer.
    pub dscp: u8,
    /// It is the one that was asked for.
    pub permitted: bool,
}

/// Answers the value of a Class of Service TLV (RFC 8972 §4.4): the DSCP and ECN with which the packet arrived, and whether its
/// answer has the DSCP that it asks for. By our policy that of network control is for authenticated senders alone; others get an
/// answer with the DSCP of their packet.
fn answer_class(value: &mut [u8], arrived: u8, is_authenticated: bool) -> Option<ClassOfService> {
    let asked = value.first()? >> 2;
    let received = arrived >> 2;
    let permitted = asked < NETWORK_CONTROL || is_authenticated;
    let reverse_path = u8::from(!permitted);
    put(value, 0, &[asked << 2 | received >> 4, received << 4 | (arrived & 3) << 2 | reverse_path, 0, 0]);
    Some(ClassOfService { dscp: if permitted { asked } else { received }, permitted })
}

/// Turns the extensions of a received packet into those of the reflected one, which has the same length (RFC 8972 §4).
///
/// Extra Padding and Class of Service are understood, and in authenticated mode the HMAC. `arrived` is the traffic class of the
/// packet; returns what the first Class of Service asks for. Any other type is copied with the flag U. From the first
/// malformed TLV on, which gets the flag M, all is copied. If the HMAC does not verify, or lacks where it must not, every TLV is
/// copied with the flag I. Without `integrity` an HMAC is a type that is not understood.
///
/// Bytes that begin with the reserved type 0 and without the flag U, which every sender of extensions sets, are the packet
/// padding of TWAMP Light: they are copied as they are (RFC 8762 §4.6).
pub fn reflect(bytes: &mut [u8], arrived: u8, integrity: Option<&Integrity<'_>>) -> Option<ClassOfService> {
    if tlvs(bytes).next().is_some_and(|first| first.kind == RESERVED && first.flags & UNRECOGNISED == 0) {
        return None;
    }
    let mut class = None;
    let authentic = integrity.map(|integrity| authentic(bytes, integrity));
    let mut at = 0;
    // An extension is looked at after those before it have been changed: their flags alone, which move nothing.
    while let Some(tlv) = bytes.get(at..).and_then(|rest| tlvs(rest).next()) {
        let (understood, right_length) = match tlv.kind {
            EXTRA_PADDING => (true, true),
            CLASS_OF_SERVICE => (true, tlv.length == CLASS_BYTES),
            HMAC if authentic.is_some() => (true, tlv.length == MAC_BYTES),
            _ => (false, true),
        };
        let malformed = !tlv.complete || !right_length;
        let mut flags = match authentic {
            Some(false) => tlv.flags & UNRECOGNISED | NOT_AUTHENTIC,
            _ if understood => 0,
            _ => UNRECOGNISED,
        };
        if malformed {
            flags |= MALFORMED;
        }
        put(bytes, at, &[flags]);
        if malformed {
            return class;
        }
        if tlv.kind == CLASS_OF_SERVICE && authentic != Some(false) {
            let value = bytes.get_mut(at + TLV_HEADER_BYTES..).unwrap_or_default();
            let answered = answer_class(value, arrived, authentic.is_some());
            class = class.or(answered);
        }
        at += TLV_HEADER_BYTES + tlv.length;
    }
    if let (Some(true), Some(integrity)) = (authentic, integrity) {
        sign(bytes, integrity);
    }
    class
}

/// Whether the HMAC verifies the extensions: it is behind all of them except for Extra Padding, and only a single Extra Padding
/// needs none.
fn authentic(bytes: &[u8], integrity: &Integrity<'_>) -> bool {
    let mut mac_at = None;
    let mut count = 0;
    for tlv in tlvs(bytes) {
        count += 1;
        match (tlv.kind, mac_at) {
            _ if !tlv.complete => return false,
            (EXTRA_PADDING, _) => {}
            (HMAC, None) if tlv.length == MAC_BYTES => mac_at = Some(tlv.at),
            (_, Some(_)) | (HMAC, None) => return false,
            (_, None) => {}
        }
    }
    let Some(at) = mac_at else {
        return count == 0 || (count == 1 && tlvs(bytes).all(|tlv| tlv.kind == EXTRA_PADDING));
    };
    let sequence = integrity.received_sequence.to_be_bytes();
    let (covered, rest) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
    field::<MAC_BYTES>(rest, TLV_HEADER_BYTES)
        .is_some_and(|mac| integrity.keys.verify(integrity.key, &[&sequence, covered], &mac))
}

/// Writes the HMAC of the reflected packet where the received one had its own.
fn sign(bytes: &mut [u8], integrity: &Integrity<'_>) {
    let Some(at) = tlvs(bytes).find(|tlv| tlv.kind == HMAC).map(|tlv| tlv.at) else { return };
    let sequence = integrity.reflected_sequence.to_be_bytes();
    let covered = bytes.get(..at).unwrap_or_default();
    if let Some(mac) = integrity.keys.mac(integrity.key, &[&sequence, covered]) {
        put(bytes, at + TLV_HEADER_BYTES, mac.get(..MAC_BYTES).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys() -> KeyRing {
        KeyRing::parse("1 00112233445566778899aabbccddeeff").unwrap()
    }

    fn reflected(bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        reflect(&mut bytes, 0xb9, None);
        bytes
    }

    fn reflected_with_key(bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let keys = keys();
        let integrity = Integrity { keys: &keys, key: KeyId(1), received_sequence: 7, reflected_sequence: 5 };
        reflect(&mut bytes, 0xb9, Some(&integrity));
        bytes
    }

    /// The HMAC TLV behind `covered`.
    fn mac(sequence: u32, covered: &[u8]) -> Vec<u8> {
        let mac = keys().mac(KeyId(1), &[&sequence.to_be_bytes(), covered]).unwrap();
        [&[0x80, 8, 0, 16], &mac[..16]].concat()
    }

    #[test]
    fn padding_is_understood_and_other_types_are_flagged() {
        let received = [0x80, 1, 0, 2, 9, 9, 0x80, 77, 0, 1, 5, 0x80, 5, 0, 4, 1, 2, 3, 4];
        let expected = [0, 1, 0, 2, 9, 9, 0x80, 77, 0, 1, 5, 0x80, 5, 0, 4, 1, 2, 3, 4];
        assert_eq!(reflected(&received), expected);
        // Flags that the sender set wrongly are corrected, and reserved bits are cleared.
        assert_eq!(reflected(&[0x7f, 77, 0, 0]), [0x80, 77, 0, 0]);
        assert_eq!(reflected(&[0x7f, 1, 0, 0]), [0, 1, 0, 0]);
        // The padding of TWAMP Light is copied.
        for padding in [&[0; 27][..], &[0, 0, 9, 9, 9], &[0]] {
            assert_eq!(reflected(padding), padding);
        }
        // Without a key, an HMAC is not understood.
        assert_eq!(reflected(&[0x80, 8, 0, 1, 9]), [0x80, 8, 0, 1, 9]);
        let all = flags(&expected);
        assert_eq!(all, TlvFlags { unrecognised: true, malformed: false, not_authentic: false });
        assert_eq!(flags(&[0, 1, 0, 2, 9, 9]), TlvFlags::default());
    }

    #[test]
    fn a_class_of_service_is_answered_as_asked_or_as_received() {
        // The packet arrived with DSCP 46 and ECN 1. Bits by hand: DSCP1 (6), DSCP2 (6), ECN (2), RP (2), reserved (16).
        for (asked, answered, dscp, permitted) in [
            // CS1: 001000 101110 01 00.
            ([8 << 2, 0, 0, 0], [0b0010_0010, 0b1110_0100, 0, 0], 8, true),
            // CS6 without a key: 110000 101110 01 01; what the sender set wrongly is overwritten.
            ([48 << 2 | 3, 255, 7, 7], [0b1100_0010, 0b1110_0101, 0, 0], 46, false),
        ] {
            let class = ClassOfService { dscp, permitted };
            let mut bytes = [&[0x80, 4, 0, 4], &asked[..]].concat();
            assert_eq!(reflect(&mut bytes, 46 << 2 | 1, None), Some(class));
            assert_eq!(bytes, [&[0, 4, 0, 4], &answered[..]].concat());
        }
        let tlvs = [0x80, 4, 0, 4, 48 << 2, 0, 0, 0];
        let keys = keys();
        let integrity = Integrity { keys: &keys, key: KeyId(1), received_sequence: 7, reflected_sequence: 5 };
        let mut bytes = [&tlvs[..], &mac(7, &tlvs)].concat();
        let class = reflect(&mut bytes, 0, Some(&integrity));
        assert_eq!(class, Some(ClassOfService { dscp: 48, permitted: true }));
        // What is not authentic, or has another length, asks for nothing and stays as it is.
        let mut bytes = [&tlvs[..], &mac(8, &tlvs)].concat();
        assert_eq!(reflect(&mut bytes, 46 << 2, Some(&integrity)), None);
        assert_eq!(bytes[..8], [0xa0, 4, 0, 4, 48 << 2, 0, 0, 0]);
        let mut bytes = [0x80, 4, 0, 3, 8 << 2, 0, 0];
        assert_eq!(reflect(&mut bytes, 46 << 2, None), None);
        assert_eq!(bytes, [0x40, 4, 0, 3, 8 << 2, 0, 0]);
    }

    #[test]
    fn the_first_malformed_tlv_ends_the_processing() {
        // It announces five bytes and has four, which would be a TLV themselves.
        let received = [0x80, 1, 0, 0, 0x80, 1, 0, 5, 0x80, 77, 0, 0];
        assert_eq!(reflected(&received), [0, 1, 0, 0, 0x40, 1, 0, 5, 0x80, 77, 0, 0]);
        assert_eq!(reflected(&[0x80, 77, 0, 0, 0x80, 1, 0]), [0x80, 77, 0, 0, 0xc0, 1, 0]);
        assert!(flags(&[0x40, 1, 0, 0]).malformed);
    }

    #[test]
    fn an_authentic_hmac_is_answered_with_another() {
        let tlvs = [0x80, 1, 0, 1, 9, 0x80, 77, 0, 0];
        let padding = [0x80, 1, 0, 0];
        let received = [&tlvs[..], &mac(7, &tlvs), &padding].concat();
        let answer = [0, 1, 0, 1, 9, 0x80, 77, 0, 0];
        let mut own_mac = mac(5, &answer);
        own_mac[0] = 0;
        assert_eq!(reflected_with_key(&received), [&answer[..], &own_mac, &[0, 1, 0, 0]].concat());
    }

    #[test]
    fn extensions_that_are_not_authentic_are_flagged() {
        let tlvs = [0x80, 77, 0, 1, 9];
        let wrong_sequence = [&tlvs[..], &mac(8, &tlvs)].concat();
        let in_front = [&mac(7, &[])[..], &tlvs].concat();
        for received in [&tlvs[..], &wrong_sequence, &in_front] {
            let answer = reflected_with_key(received);
            assert_eq!(answer.len(), received.len());
            let changed: Vec<_> = (0..answer.len()).filter(|&at| answer[at] != received[at]).collect();
            let first_bytes: Vec<_> = super::tlvs(received).map(|tlv| tlv.at).collect();
            assert_eq!(changed, first_bytes, "only the flags change");
            assert!(changed.iter().all(|&at| answer[at] == 0xa0), "{answer:02x?}");
        }
        // A single Extra Padding needs no HMAC, two do (RFC 8972 §4.8).
        assert_eq!(reflected_with_key(&[0x80, 1, 0, 0]), [0, 1, 0, 0]);
        assert_eq!(reflected_with_key(&[0x80, 1, 0, 0, 0x80, 1, 0, 0]), [0xa0, 1, 0, 0, 0xa0, 1, 0, 0]);
        // An HMAC of another length is malformed, too.
        assert_eq!(reflected_with_key(&[0x80, 8, 0, 1, 9]), [0xe0, 8, 0, 1, 9]);
    }

    #[test]
    fn padding_fills_its_space() {
        let mut bytes = [7; 10];
        assert!(write_padding(&mut bytes));
        assert_eq!(bytes, [0x80, 1, 0, 6, 7, 7, 7, 7, 7, 7]);
        assert!(!write_padding(&mut [0; 3]));
        assert!(write_padding(&mut vec![0; 65_539]));
        assert!(!write_padding(&mut vec![0; 65_540]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_reflected_at_their_length(bytes: Vec<u8>) {
            prop_assert_eq!(reflected(&bytes).len(), bytes.len());
            let once = reflected_with_key(&bytes);
            prop_assert_eq!(once.len(), bytes.len());
            flags(&once);
        }
    }
}
