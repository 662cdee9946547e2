//! IP packets: what a link must know of one, and the ECN bits in it.

use std::hash::{DefaultHasher, Hash, Hasher};

use giusto_units::Ecn;

/// Bytes of an IPv4 header without options (RFC 791 §3.1) and of an IPv6 header (RFC 8200 §3).
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// What a link must know of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpPacket {
    /// ECN codepoint.
    pub ecn: Ecn,
    /// A number of its addresses, protocol and ports: the same for all packets of a connection in one direction. Fragments and
    /// packets with IPv6 extension headers count by addresses and protocol alone.
    pub flow: u32,
}

/// Reads a packet; `None` if it is neither IPv4 nor IPv6, or too short for its header.
pub fn read(packet: &[u8]) -> Option<IpPacket> {
    match packet.first()? >> 4 {
        4 => {
            let header = packet.get(..IPV4_HEADER)?;
            let [first, class, _, _, _, _, fragment, offset, _, protocol, _, _, addresses @ ..] = header
            else {
                return None;
            };
            // More fragments, or an offset: RFC 791 §3.1.
            let is_fragment = fragment & 0x3f != 0 || *offset != 0;
            let ports = packet.get(usize::from(first & 0x0f) * 4..).filter(|_| !is_fragment);
            Some(IpPacket { ecn: Ecn::from_bits(*class), flow: flow(addresses, *protocol, ports) })
        }
        6 => {
            let header = packet.get(..IPV6_HEADER)?;
            let [_, second, _, _, _, _, next, _, addresses @ ..] = header else { return None };
            // The traffic class is four bits of the first byte and four of the second: RFC 8200 §3.
            let ecn = Ecn::from_bits(second >> 4);
            Some(IpPacket { ecn, flow: flow(addresses, *next, packet.get(IPV6_HEADER..)) })
        }
        _ => None,
    }
}

/// TCP, UDP, DCCP, SCTP and UDP-Lite begin with two ports: IANA "Assigned Internet Protocol Numbers".
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

fn flow(addresses: &[u8], protocol: u8, payload: Option<&[u8]>) -> u32 {
    let ports = payload.filter(|_| WITH_PORTS.contains(&protocol)).and_then(|payload| payload.get(..4));
    let mut hasher = DefaultHasher::new();
    (addresses, protocol, ports).hash(&mut hasher);
    hasher.finish() as u32
}

/// The ECN codepoint of a packet that [`read`] accepts.
pub fn ecn(packet: &[u8]) -> Option<Ecn> {
    match packet {
        [first, class, ..] if first >> 4 == 4 => Some(Ecn::from_bits(*class)),
        [first, second, ..] if first >> 4 == 6 => Some(Ecn::from_bits(second >> 4)),
        _ => None,
    }
}

/// Writes the ECN codepoint of a packet, and corrects the checksum of an IPv4 header by the difference (RFC 1624 §3, equation 3).
/// Checksums of the transport do not cover the ECN bits. A packet that [`read`] does not accept stays as it is.
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    match packet {
        [first, class, _, _, _, _, _, _, _, _, high, low, ..] if *first >> 4 == 4 => {
            let before = u16::from_be_bytes([*first, *class]);
            *class = *class & !0b11 | ecn.bits();
            let after = u16::from_be_bytes([*first, *class]);
            let checksum = updated_checksum(u16::from_be_bytes([*high, *low]), before, after);
            [*high, *low] = checksum.to_be_bytes();
        }
        [first, second, ..] if *first >> 4 == 6 => *second = *second & !0b11_0000 | ecn.bits() << 4,
        _ => {}
    }
}

/// `HC' = ~(~HC + ~m + m')` in ones' complement: RFC 1624 §3, equation 3.
fn updated_checksum(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]
    use super::*;

    /// RFC 1071 §4.1, over a header whose checksum field is left out.
    fn checksum(header: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for (place, pair) in header.chunks(2).enumerate() {
            if place != 5 {
                sum += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
            }
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    fn ipv4(class: u8, identification: u16) -> Vec<u8> {
        let mut packet = vec![0x45, class, 0, 28];
        packet.extend(identification.to_be_bytes());
        packet.extend([0x40, 0, 64, 17, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1, 0x13, 0x8d, 0, 9, 0, 8, 0, 0]);
        let checksum = checksum(&packet[..20]).to_be_bytes();
        packet[10..12].copy_from_slice(&checksum);
        packet
    }

    #[test]
    fn a_checksum_is_right_after_every_change_of_the_ecn_bits() {
        for identification in 0..=u16::MAX {
            for (from, to) in [(0b10, Ecn::Ce), (0b01, Ecn::Ce), (0b11, Ecn::NotEct), (0b10, Ecn::Ect0)] {
                let mut packet = ipv4(0xb8 | from, identification);
                set_ecn(&mut packet, to);
                assert_eq!((packet[1], ecn(&packet)), (0xb8 | to.bits(), Some(to)));
                let found = u16::from_be_bytes([packet[10], packet[11]]);
                assert_eq!(found, checksum(&packet[..20]), "{identification}");
            }
        }
    }

    #[test]
    fn the_traffic_class_of_ipv6_keeps_its_dscp() {
        let mut packet = vec![0x6b, 0x8a, 0xbc, 0xde];
        packet.resize(48, 7);
        set_ecn(&mut packet, Ecn::Ce);
        assert_eq!(packet[..4], [0x6b, 0xba, 0xbc, 0xde]);
        assert_eq!(read(&packet).map(|packet| packet.ecn), Some(Ecn::Ce));
    }

    #[test]
    fn flows_differ_by_their_ports_and_fragments_do_not() {
        let of = |packet: &[u8]| read(packet).unwrap();
        let (first, mut other) = (ipv4(1, 5), ipv4(1, 6));
        assert_eq!(of(&first).flow, of(&other).flow);
        assert_eq!(of(&first).ecn, Ecn::Ect1);
        other[21] ^= 1;
        assert_ne!(of(&first).flow, of(&other).flow);
        let fragment = |mut packet: Vec<u8>| {
            packet[6] = 0x20;
            packet
        };
        assert_eq!(of(&fragment(first)).flow, of(&fragment(other)).flow);
    }

    #[test]
    fn short_and_foreign_packets_are_refused() {
        let whole = ipv4(0, 1);
        for length in 0..20 {
            assert_eq!(read(&whole[..length]), None);
            set_ecn(&mut whole[..length].to_vec(), Ecn::Ce);
        }
        assert!(read(&whole[..20]).is_some());
        assert_eq!(read(&[0x65; 39]), None);
        assert_eq!(read(&[0x95; 60]), None);
        // A header length beyond the packet.
        let mut long = whole;
        long[0] = 0x4f;
        assert!(read(&long).is_some());
    }
}
