//! SRTP against published vectors.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use dimpl::SrtpProfile;
use giusto_webrtc::srtp::{MasterKeys, Srtp};

/// The master key and the master salt of RFC 3711 §B.3.
const KEY: &str = "e1f97a0d3e018be0d64fa32c06de4139";
const SALT: &str = "0ec675ad498afeebb6960b3aabe6";

/// The packets of `srtp_validate` in libsrtp's `test/srtp_driver.c`, under these keys with `AES_CM_128_HMAC_SHA1_80`.
const RTP: &str = "800f1234decafbadcafebabeabababababababababababababababab";
const SRTP: &str = "800f1234decafbadcafebabe4e55dc4ce79978d88ca4d215949d2402b78d6acc99ea179b8dbb";
const RTCP: &str = "81c8000bcafebabeabababababababababababababababab";
const SRTCP: &str = "81c8000bcafebabe7128035be487b9bdbef89041f977a5a880000001993e08cd54d6c1230798";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// An end whose keys of both directions are those.
fn end() -> Srtp {
    let material = bytes(&[KEY, KEY, SALT, SALT].concat());
    Srtp::new(&MasterKeys::split(&material, SrtpProfile::AES128_CM_SHA1_80, true).unwrap()).unwrap()
}

#[test]
fn keys_packets_and_tags_are_those_of_rfc_3711() {
    for (clear, protected) in [(RTP, SRTP), (RTCP, SRTCP)].map(|(a, b)| (bytes(a), bytes(b))) {
        assert_eq!(end().protect(&clear).unwrap(), protected);
        let mut far_end = end();
        assert_eq!(far_end.unprotect(&protected).unwrap(), clear);
        assert!(far_end.unprotect(&protected).is_err(), "a copy");
        for bit in 0..protected.len() * 8 {
            let mut changed = protected.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(end().unprotect(&changed).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn the_cipher_of_a_call_has_one_key_for_each_direction() {
    let cipher = |outgoing, incoming| giusto_webrtc::srtp::cipher(&[outgoing; 32], &[incoming; 32]).unwrap();
    for clear in [RTP, RTCP].map(bytes) {
        let (mut caller, mut listener) = (cipher(1, 2), cipher(2, 1));
        let protected = caller.protect(&clear).unwrap();
        assert_ne!(protected[12..28], [0xab; 16], "it is encrypted");
        assert_eq!(caller.open(&protected), None, "sent back");
        assert_eq!(cipher(2, 3).open(&protected), None, "another key");
        assert_eq!(listener.open(&protected).unwrap(), clear);
        assert_eq!(listener.open(&protected), None, "a copy");
    }
    // RTCP that says it is not encrypted, with the flag behind it (RFC 7714 §9.2).
    let forged = [bytes(RTCP), vec![0; 16], vec![0, 0, 0, 9]].concat();
    assert_eq!(cipher(2, 1).open(&forged), None);
}
