//! Large packets of a TUN device: split into those that cross the links, and joined again where they come out together.
//!
//! A sender hands TCP segments and UDP datagrams to the device many at a time, without the checksum of the transport. The link takes
//! them one by one. Those that leave it together are handed to the other device as one large packet again, so that the system does
//! not handle each of them. The checksums of packets that stay on this machine are never computed, unless a program captures them.
//!
//! The header in front of each packet is `struct virtio_net_hdr` of `linux/virtio_net.h`; virtio 1.2 §5.1.6 describes its fields.

use giusto_units::Ecn;

/// Bytes of `struct virtio_net_hdr`.
pub(super) const HEADER_BYTES: usize = 10;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum covers the pseudo header only and is to be completed.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_…`.
const NOT_LARGE: u8 = 0;
const LARGE_TCP_V4: u8 = 1;
const LARGE_TCP_V6: u8 = 4;
const LARGE_UDP: u8 = 5;

/// Protocol numbers, and the places of the checksum in their headers: RFC 9293 §3.1, RFC 768.
const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const UDP_HEADER: usize = 8;
/// Bits of the TCP flags: FIN and PSH belong to the last segment, CWR to the first (RFC 3168 §6.1.2).
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// The longest packet: RFC 791 §3.1.
const MAX_PACKET: usize = 65_535;

/// The header in front of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Offload {
    flags: u8,
    kind: u8,
    header_length: u16,
    segment: u16,
    checksum_start: u16,
    checksum_offset: u16,
}

/// A packet that crosses the links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Piece {
    /// Where the checksum begins and where it is in the transport's header, if it is to be completed.
    checksum: Option<(u16, u16)>,
    /// The large packet that it was a part of, from 1; 0 if of none.
    whole: u64,
    /// Its number in that packet.
    index: u16,
    /// Bytes of its headers.
    header: u16,
    /// Payload of every piece but the last.
    segment: u16,
}

impl Piece {
    /// Whether it may be joined with others.
    pub(super) const fn is_part(&self) -> bool {
        self.whole > 0
    }
}

impl Offload {
    pub(super) fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let [flags, kind, h0, h1, s0, s1, c0, c1, o0, o1] = bytes;
        let word = |low, high| u16::from_ne_bytes([low, high]);
        Self {
            flags,
            kind,
            header_length: word(h0, h1),
            segment: word(s0, s1),
            checksum_start: word(c0, c1),
            checksum_offset: word(o0, o1),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [h0, h1] = self.header_length.to_ne_bytes();
        let [s0, s1] = self.segment.to_ne_bytes();
        let [c0, c1] = self.checksum_start.to_ne_bytes();
        let [o0, o1] = self.checksum_offset.to_ne_bytes();
        [self.flags, self.kind, h0, h1, s0, s1, c0, c1, o0, o1]
    }

    /// The header of a single packet.
    fn of(piece: Piece) -> Self {
        let (checksum_start, checksum_offset) = piece.checksum.unwrap_or_default();
        let flags = if piece.checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
        Self { flags, checksum_start, checksum_offset, ..Self::default() }
    }
}

/// Where the parts of a large packet begin.
#[derive(Debug, Clone, Copy)]
struct Layout {
    v4: bool,
    transport: usize,
    header: usize,
    tcp: bool,
}

impl Layout {
    /// `None` for a packet that is not as its header says.
    fn of(packet: &[u8], offload: Offload) -> Option<Self> {
        let v4 = packet.first()? >> 4 == 4;
        let transport = usize::from(offload.checksum_start);
        let tcp = match offload.kind & 0x7f {
            LARGE_TCP_V4 if v4 => true,
            LARGE_TCP_V6 if !v4 => true,
            LARGE_UDP => false,
            _ => return None,
        };
        let length = if tcp { usize::from(packet.get(transport + 12)? >> 4) * 4 } else { UDP_HEADER };
        let header = transport + length;
        (offload.segment > 0 && header < packet.len() && transport >= 20).then_some(Self {
            v4,
            transport,
            header,
            tcp,
        })
    }

    fn checksum_offset(self) -> u16 {
        if self.tcp { TCP_CHECKSUM } else { UDP_CHECKSUM }
    }

    /// Sets the lengths, the checksum of an IPv4 header, and the transport's checksum as far as it covers the pseudo header.
    fn complete(self, packet: &mut [u8]) {
        let length = packet.len();
        let of_transport = length - self.transport;
        if self.v4 {
            put(packet, 2, length as u16);
            put(packet, 10, 0);
            let header = packet.get(..self.transport).unwrap_or_default();
            let checksum = !fold(sum(header));
            put(packet, 10, checksum);
        } else {
            put(packet, 4, (length - 40) as u16);
        }
        if !self.tcp {
            put(packet, self.transport + 4, of_transport as u16);
        }
        let addresses = packet.get(if self.v4 { 12..20 } else { 8..40 }).unwrap_or_default();
        let protocol = if self.tcp { TCP } else { UDP };
        let pseudo = fold(sum(addresses) + u32::from(protocol) + of_transport as u32);
        put(packet, self.transport + usize::from(self.checksum_offset()), pseudo);
    }
}

/// Passes each packet that crosses the links to `each`: `packet` itself, or the parts of a large packet, which is number `whole`.
/// `room` is space for them.
pub(super) fn split(
    packet: &[u8],
    offload: Offload,
    whole: u64,
    room: &mut Vec<u8>,
    mut each: impl FnMut(&[u8], Piece),
) {
    let checksum =
        (offload.flags & NEEDS_CHECKSUM != 0).then_some((offload.checksum_start, offload.checksum_offset));
    let layout = Layout::of(packet, offload).filter(|_| offload.kind != NOT_LARGE);
    let Some(layout) = layout else {
        return each(packet, Piece { checksum, ..Piece::default() });
    };
    let Some((headers, payload)) = packet.split_at_checked(layout.header) else { return };
    let step = usize::from(offload.segment);
    let pieces = payload.len().div_ceil(step);
    let identification = word(headers, 4);
    let number = double(headers, layout.transport + 4);
    let flags = headers.get(layout.transport + 13).copied().unwrap_or(0);
    for (index, content) in payload.chunks(step).enumerate() {
        room.clear();
        room.extend_from_slice(headers);
        room.extend_from_slice(content);
        if layout.v4 {
            put(room, 4, identification.wrapping_add(index as u16));
        }
        if layout.tcp {
            let number = number.wrapping_add((index * step) as u32);
            put(room, layout.transport + 4, (number >> 16) as u16);
            put(room, layout.transport + 6, number as u16);
            let first = if index > 0 { CWR } else { 0 };
            let last = if index + 1 < pieces { FIN_PSH } else { 0 };
            if let Some(place) = room.get_mut(layout.transport + 13) {
                *place = flags & !first & !last;
            }
        }
        layout.complete(room);
        let piece = Piece {
            checksum: Some((offload.checksum_start, layout.checksum_offset())),
            whole,
            index: index as u16,
            header: layout.header as u16,
            segment: offload.segment,
        };
        each(room, piece);
    }
}

/// Packets that leave together, on their way to one device.
#[derive(Debug, Default)]
pub(super) struct Joined {
    bytes: Vec<u8>,
    first: Piece,
    ecn: Ecn,
    route: usize,
    pieces: u16,
    /// Whether the latest piece was shorter than the others: none can follow.
    ended: bool,
}

impl Joined {
    /// Number of packets in it.
    pub(super) const fn pieces(&self) -> u16 {
        self.pieces
    }

    /// The route of its packets.
    pub(super) const fn route(&self) -> usize {
        self.route
    }

    /// Appends a packet if it follows the others. The ECN bits are those in its header.
    pub(super) fn push(&mut self, route: usize, piece: Piece, ecn: Ecn, packet: &[u8]) -> bool {
        let header = usize::from(piece.header);
        let payload = packet.get(header..).unwrap_or_default();
        if self.pieces == 0 {
            self.bytes.clear();
            self.bytes.extend_from_slice(packet);
            (self.first, self.ecn, self.route) = (piece, ecn, route);
        } else {
            let follows = piece.whole == self.first.whole
                && u32::from(piece.index) == u32::from(self.first.index) + u32::from(self.pieces)
                && (route, ecn) == (self.route, self.ecn);
            if !follows || self.ended || self.bytes.len() + payload.len() > MAX_PACKET {
                return false;
            }
            let (transport, _) = self.first.checksum.unwrap_or_default();
            let flags = usize::from(transport) + 13;
            let last = packet.get(flags).copied().unwrap_or(0) & FIN_PSH;
            if self.is_tcp()
                && let Some(place) = self.bytes.get_mut(flags)
            {
                *place |= last;
            }
            self.bytes.extend_from_slice(payload);
        }
        self.ended = payload.len() < usize::from(piece.segment);
        self.pieces += 1;
        true
    }

    fn is_tcp(&self) -> bool {
        self.first.checksum.is_some_and(|(_, offset)| offset == TCP_CHECKSUM)
    }

    /// The header and the content of what was joined; it is empty afterwards.
    pub(super) fn take(&mut self) -> (Offload, &[u8]) {
        let pieces = std::mem::take(&mut self.pieces);
        let single = Offload::of(self.first);
        if pieces < 2 {
            return (single, &self.bytes);
        }
        let v4 = self.bytes.first().is_some_and(|first| first >> 4 == 4);
        let layout = Layout {
            v4,
            transport: usize::from(single.checksum_start),
            header: usize::from(self.first.header),
            tcp: self.is_tcp(),
        };
        layout.complete(&mut self.bytes);
        let kind = match (layout.tcp, v4) {
            (true, true) => LARGE_TCP_V4,
            (true, false) => LARGE_TCP_V6,
            (false, _) => LARGE_UDP,
        };
        let offload =
            Offload { kind, header_length: self.first.header, segment: self.first.segment, ..single };
        (offload, &self.bytes)
    }
}

/// Changes one bit behind the IP header of a packet, which `random` selects. The checksum is completed before, so that it no longer
/// fits: one changed bit always changes the sum (RFC 1071).
pub(super) fn corrupt(packet: &mut [u8], piece: Piece, random: u32) {
    let transport = match piece.checksum {
        Some((start, offset)) => {
            let start = usize::from(start);
            let checksum = !fold(sum(packet.get(start..).unwrap_or_default()));
            // In UDP, 0 would say that there is none (RFC 768); for both protocols all ones are as good.
            put(packet, start + usize::from(offset), if checksum == 0 { u16::MAX } else { checksum });
            start
        }
        // IPv4 states the length of its header (RFC 791 §3.1), that of IPv6 is 40 bytes (RFC 8200 §3).
        None => match packet.first() {
            Some(first) if first >> 4 == 4 => usize::from(first & 0x0f) * 4,
            _ => 40,
        },
    };
    super::flip(packet.get_mut(transport..).unwrap_or_default(), random);
}

/// The header of a packet that is not joined with others.
pub(super) fn alone(piece: Piece) -> Offload {
    Offload::of(piece)
}

fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_be_bytes(*two))
}

fn double(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four))
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = value.to_be_bytes();
    }
}

/// The sum of the 16-bit words, not folded: RFC 1071 §4.1.
fn sum(bytes: &[u8]) -> u32 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let odd = rest.first().map_or(0, |&last| u32::from(last) << 8);
    pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum::<u32>() + odd
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]
    use super::*;

    const SEGMENT: u16 = 100;

    #[test]
    fn a_corrupted_packet_has_a_wrong_checksum() {
        for (v4, tcp, packet, offload) in large_packets() {
            let transport = if v4 { 20 } else { 40 };
            for (random, (part, piece)) in
                (1_u32..).map(|n| n.wrapping_mul(0x9e37_79b9)).zip(pieces(&packet, offload))
            {
                let mut changed = part.clone();
                corrupt(&mut changed, piece, random);
                let mut intact = part.clone();
                corrupt(&mut intact, piece, random);
                super::super::flip(&mut intact[transport..], random);
                assert_eq!(changed[..transport], part[..transport], "the IP header stays");
                let pseudo = |whole: &[u8]| {
                    let addresses = if v4 { &whole[12..20] } else { &whole[8..40] };
                    sum(addresses) + if tcp { 6 } else { 17 } + (whole.len() - transport) as u32
                };
                let is_right = |part: &[u8]| fold(pseudo(part) + sum(&part[transport..])) == 0xffff;
                assert!(is_right(&intact) && !is_right(&changed));
                let differ: u32 = changed.iter().zip(&intact).map(|(a, b)| (a ^ b).count_ones()).sum();
                assert_eq!(differ, 1);
            }
        }
    }

    /// A large packet of TCP or UDP with this payload, as the kernel makes it.
    fn large(v4: bool, tcp: bool, payload: &[u8]) -> (Vec<u8>, Offload) {
        let transport = if v4 { 20 } else { 40 };
        let header = transport + if tcp { 32 } else { 8 };
        let protocol = if tcp { 6 } else { 17 };
        let mut packet = vec![0; header];
        if v4 {
            packet[..10].copy_from_slice(&[0x45, 0xba, 0, 0, 0xff, 0xfe, 0x40, 0, 64, protocol]);
            packet[12..20].copy_from_slice(&[198, 18, 0, 2, 198, 18, 0, 1]);
        } else {
            packet[..8].copy_from_slice(&[0x6b, 0xa0, 0, 0, 0, 0, protocol, 64]);
            packet[8..40].copy_from_slice(&[7; 32]);
        }
        packet[transport..transport + 4].copy_from_slice(&[0x13, 0x8d, 0x9c, 0x40]);
        if tcp {
            // A sequence number that wraps; header of 32 bytes; FIN, PSH and ACK.
            packet[transport + 4..transport + 8].copy_from_slice(&[0xff, 0xff, 0xff, 0x80]);
            packet[transport + 12..transport + 14].copy_from_slice(&[0x80, 0x19]);
        }
        packet.extend_from_slice(payload);
        let kind = match (tcp, v4) {
            (true, true) => LARGE_TCP_V4,
            (true, false) => LARGE_TCP_V6,
            _ => LARGE_UDP,
        };
        let layout = Layout { v4, transport, header, tcp };
        layout.complete(&mut packet);
        let offload = Offload {
            flags: NEEDS_CHECKSUM,
            kind,
            header_length: header as u16,
            segment: SEGMENT,
            checksum_start: transport as u16,
            checksum_offset: layout.checksum_offset(),
        };
        (packet, offload)
    }

    fn large_packets() -> [(bool, bool, Vec<u8>, Offload); 4] {
        [(true, true), (true, false), (false, true), (false, false)].map(|(v4, tcp)| {
            let (packet, offload) = large(v4, tcp, &payload());
            (v4, tcp, packet, offload)
        })
    }

    fn pieces(packet: &[u8], offload: Offload) -> Vec<(Vec<u8>, Piece)> {
        let mut found = Vec::new();
        split(packet, offload, 9, &mut Vec::new(), |bytes, piece| found.push((bytes.to_vec(), piece)));
        found
    }

    fn payload() -> Vec<u8> {
        (0..450_u32).map(|n| (n * 7) as u8).collect()
    }

    #[test]
    fn every_part_is_a_whole_packet_with_right_checksums() {
        for (v4, tcp, packet, offload) in large_packets() {
            let parts = pieces(&packet, offload);
            assert_eq!(parts.len(), 5);
            let transport = if v4 { 20 } else { 40 };
            let header = usize::from(offload.header_length);
            let mut joined = Vec::new();
            for (index, (part, piece)) in parts.iter().enumerate() {
                let length = if index < 4 { 100 } else { 50 };
                assert_eq!(part.len(), header + length);
                joined.extend_from_slice(&part[header..]);
                if v4 {
                    // RFC 1071: the sum of a right header is all ones.
                    assert_eq!(fold(sum(&part[..20])), 0xffff);
                    assert_eq!(usize::from(word(part, 2)), part.len());
                    assert_eq!(word(part, 4), 0xfffe_u16.wrapping_add(index as u16));
                } else {
                    assert_eq!(usize::from(word(part, 4)), part.len() - 40);
                }
                // The system completes the checksum over what follows; then the sum with the pseudo header is all ones.
                let (start, offset) = piece.checksum.unwrap();
                let mut whole = part.clone();
                let checksum = !fold(sum(&whole[usize::from(start)..]));
                put(&mut whole, usize::from(start + offset), checksum);
                let addresses = if v4 { &whole[12..20] } else { &whole[8..40] };
                let pseudo = sum(addresses) + if tcp { 6 } else { 17 } + (whole.len() - transport) as u32;
                assert_eq!(fold(pseudo + sum(&whole[transport..])), 0xffff, "{v4} {tcp} {index}");
                if tcp {
                    assert_eq!(double(part, transport + 4), 0xffff_ff80_u32.wrapping_add(100 * index as u32));
                    assert_eq!(part[transport + 13], if index < 4 { 0x10 } else { 0x19 });
                } else {
                    assert_eq!(usize::from(word(part, transport + 4)), 8 + length);
                }
            }
            assert_eq!(joined, payload());
        }
    }

    #[test]
    fn parts_that_leave_together_are_the_large_packet_again() {
        for (_, _, packet, offload) in large_packets() {
            let mut joined = Joined::default();
            for (part, piece) in pieces(&packet, offload) {
                assert!(joined.push(0, piece, Ecn::Ect0, &part));
            }
            assert_eq!(joined.pieces(), 5);
            assert_eq!(joined.take(), (offload, &packet[..]));
            assert_eq!(joined.pieces(), 0);
        }
    }

    #[test]
    fn what_does_not_follow_is_not_joined() {
        let (packet, offload) = large(true, true, &payload());
        let parts = pieces(&packet, offload);
        let (first, second) = (&parts[0], &parts[1]);
        let other = Piece { whole: 10, ..second.1 };
        let begin = || {
            let mut joined = Joined::default();
            assert!(joined.push(0, first.1, Ecn::Ect0, &first.0));
            joined
        };
        assert!(begin().push(0, second.1, Ecn::Ect0, &second.0));
        // Another mark, another direction, another large packet, a lost piece between, the same piece again.
        assert!(!begin().push(0, second.1, Ecn::Ce, &second.0));
        assert!(!begin().push(1, second.1, Ecn::Ect0, &second.0));
        assert!(!begin().push(0, other, Ecn::Ect0, &second.0));
        assert!(!begin().push(0, parts[2].1, Ecn::Ect0, &parts[2].0));
        assert!(!begin().push(0, first.1, Ecn::Ect0, &first.0));
        // One alone needs no large header.
        assert_eq!(begin().take().0.kind, NOT_LARGE);
    }

    #[test]
    fn headers_and_damaged_packets_do_no_harm() {
        let (packet, offload) = large(true, true, &payload());
        assert_eq!(Offload::from_bytes(offload.to_bytes()), offload);
        for length in 0..packet.len() {
            let parts = pieces(&packet[..length], offload);
            assert!(!parts.is_empty());
        }
        for kind in 0..=255 {
            for start in [0, 19, 20, 60, 65_535] {
                let strange = Offload { kind, checksum_start: start, segment: 1, ..offload };
                pieces(&packet[..80], strange);
                pieces(&[], strange);
            }
        }
        // A single packet keeps its own checksum.
        let single = Offload { kind: NOT_LARGE, ..offload };
        let whole = Piece { checksum: Some((20, 16)), ..Piece::default() };
        assert_eq!(pieces(&packet, single)[0], (packet.clone(), whole));
    }
}
