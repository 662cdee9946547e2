use proptest::prelude::*;

use super::*;
use crate::RtpHeader;

/// The masks of `flexfec_header_reader_writer_unittest.cc` of libwebrtc, with the k bits inverted: there, as in older drafts, 1 ends
/// the mask. The packets are those of the masks without k bits, from the most significant bit on.
#[test]
fn masks_have_the_layout_of_rfc_8627() {
    let cases: [(&[u8], &[u8]); 5] = [
        (&[0x08, 0x81], &[0x11, 0x02]),
        (&[0x04, 0x41], &[0x08, 0x82]),
        (&[0xc8, 0x81, 0x02, 0x11, 0x00, 0x21], &[0x91, 0x02, 0x08, 0x44, 0x00, 0x84]),
        (&[0xd7, 0x82, 0x04, 0x33, 0x00, 0x51], &[0xaf, 0x04, 0x10, 0xcc, 0x01, 0x44]),
        (
            &[0xb2, 0x84, 0x85, 0x23, 0x00, 0x55, 0xa3, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x35],
            &[0x65, 0x08, 0x14, 0x8c, 0x01, 0x56, 0x8c, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0xd4],
        ),
    ];
    for (masks, packed) in cases {
        let mut bytes = vec![0x0a, 0x60, 1, 2, 3, 4, 5, 6, 0xff, 0xfe];
        bytes.extend(masks);
        let (header, length) = FecHeader::read(&bytes, 1).unwrap();
        assert_eq!((length, header.byte_len()), (bytes.len(), bytes.len()));
        assert_eq!((header.flags, header.length, header.timestamp), ([0x0a, 0x60], 0x0102, 0x0304_0506));
        let bit = |place: usize| packed[place / 8] >> (7 - place % 8) & 1 == 1;
        let expected: Vec<u16> = (0..packed.len() * 8)
            .filter(|&place| bit(place))
            .map(|place| 0xfffe_u16.wrapping_add(place as u16))
            .collect();
        assert_eq!(header.protected[0].numbers().collect::<Vec<_>>(), expected);
        let mut again = Vec::new();
        header.write(&mut again).unwrap();
        assert_eq!(again, bytes);
        for length in 0..bytes.len() {
            assert!(matches!(FecHeader::read(&bytes[..length], 1), Err(FecError::Truncated { .. })));
        }
    }
}

/// The 4 × 3 block of RFC 8627 Figure 16, from packet 1 on.
#[test]
fn rows_and_columns_are_those_of_rfc_8627() {
    let numbers = |base, columns, rows| Protected::Grid { base, columns, rows }.numbers().collect::<Vec<_>>();
    assert_eq!(numbers(5, 4, 0), [5, 6, 7, 8]);
    assert_eq!(numbers(9, 4, 1), [9, 10, 11, 12]);
    assert_eq!(numbers(2, 4, 3), [2, 6, 10]);
    assert_eq!(numbers(65_534, 2, 2), [65_534, 0]);
    let mut bytes = vec![0x40, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 3];
    let (header, _) = FecHeader::read(&bytes, 1).unwrap();
    assert_eq!(header.protected, [Protected::Grid { base: 2, columns: 4, rows: 3 }]);
    let mut again = Vec::new();
    header.write(&mut again).unwrap();
    assert_eq!(again, bytes);
    bytes[10] = 0;
    assert_eq!(FecHeader::read(&bytes, 1), Err(FecError::NoColumns));
    bytes[0] = 0x80;
    assert_eq!(FecHeader::read(&bytes, 1), Err(FecError::Variant));
    let mixed = vec![Protected::Grid { base: 0, columns: 1, rows: 0 }, Protected::Mask { base: 0, mask: 1 }];
    let header = FecHeader { protected: mixed, ..FecHeader::default() };
    assert_eq!((header.write(&mut again), again.len()), (Err(FecError::Mixed), 12));
}

/// By hand: two packets, one with a marker and one byte longer.
#[test]
fn parity_is_the_exclusive_or_of_each_field() {
    let first = [0x90, 0xe0, 0, 1, 0, 0, 0, 0x10, 9, 9, 9, 9, 0xf0, 0x0f];
    let second = [0x80, 0x61, 0, 2, 0, 0, 0, 0x31, 9, 9, 9, 9, 0xff, 1, 2];
    let mut parity = Parity::default();
    parity.add(&[&first], 0).unwrap();
    parity.add(&[&second[..13], &second[13..]], 0).unwrap();
    let header = parity.header(Vec::new());
    assert_eq!((header.flags, header.length, header.timestamp), ([0x10, 0x81], 1, 0x21));
    assert_eq!((parity.payload(), parity.zeros()), (&[0x0f, 0x0e, 2][..], 0));
    assert_eq!(parity.add(&[&first[..11]], 0), Err(FecError::Length(11)));
    assert_eq!(parity.add(&[&first], 65_534), Err(FecError::Length(65_548)));
    // A repair packet that is shorter than the packet that it claims to recover.
    assert_eq!(Parity::of_repair(&FecHeader { length: 9, ..header }, &[0; 8], 0).recover(1, 9), None);
}

fn packet() -> impl Strategy<Value = (Vec<u8>, usize)> {
    let fields = (any::<(bool, u32)>(), 96_u8..128, prop::collection::vec(any::<u8>(), 0..40), 0_usize..30);
    fields.prop_map(|((marker, timestamp), payload_type, payload, zeros)| {
        let header = RtpHeader { marker, payload_type, timestamp, ssrc: 9, ..RtpHeader::default() };
        let mut packet = vec![0; 12];
        header.write(&mut packet).unwrap();
        packet.extend(payload);
        (packet, zeros)
    })
}

proptest! {
    /// Each single packet of a set is recovered from the parity and the others, whether zeros are in memory or not.
    #[test]
    fn any_missing_packet_is_recovered(
        packets in prop::collection::vec(packet(), 1..20), base: u16, steps in prop::collection::vec(1_u16..6, 20), missing: prop::sample::Index,
    ) {
        let numbers: Vec<u16> =
            steps.iter().scan(base, |number, step| { *number = number.wrapping_add(*step); Some(*number) }).take(packets.len()).collect();
        let mut parity = Parity::default();
        let mut packets = packets;
        for ((packet, zeros), number) in packets.iter_mut().zip(&numbers) {
            packet[2..4].copy_from_slice(&number.to_be_bytes());
            parity.add(&[packet], *zeros).unwrap();
        }
        let protected = Protected::of_numbers(numbers[0], numbers.iter().copied()).unwrap();
        let header = parity.header(vec![protected]);
        let mut repair = Vec::new();
        header.write(&mut repair).unwrap();
        repair.extend(parity.payload());
        repair.resize(repair.len() + parity.zeros(), 0);
        let (read, length) = FecHeader::read(&repair, 1).unwrap();
        prop_assert_eq!(&read, &header);
        prop_assert!(read.protected[0].numbers().eq(numbers.iter().copied()));

        let missing = missing.index(packets.len());
        let mut rest = Parity::of_repair(&read, &repair[length..], 0);
        for (place, (packet, zeros)) in packets.iter().enumerate() {
            if place != missing {
                rest.add(&[packet], *zeros).unwrap();
            }
        }
        let (mut recovered, zeros) = rest.recover(numbers[missing], 9).unwrap();
        recovered.resize(recovered.len() + zeros, 0);
        let (mut expected, zeros) = packets[missing].clone();
        expected.resize(expected.len() + zeros, 0);
        prop_assert_eq!(recovered, expected);
    }
}
