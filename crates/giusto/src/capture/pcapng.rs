//! Packet captures in pcapng with times in nanoseconds.
//!
//! Wireshark opens them. The format is that of draft-ietf-opsawg-pcapng-03; the packets are IP packets without a link layer
//! (`LINKTYPE_RAW`). The few fields are written here: the crate `pcap-file` 2.0 does not apply the time resolution that it writes,
//! and its successor is a release candidate.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use giusto_units::{Ecn, Timestamp};

use crate::{
    growing::Growing,
    whole_file::{Content, WriteError},
};

/// The maximum size of a capture.
const MAX_BYTES: u64 = 4_000_000_000;
/// Block types (draft-ietf-opsawg-pcapng-03 §11.1).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// The byte order of the section (§4.1).
const MAGIC: u32 = 0x1a2b_3c4d;
/// IP packets, version 4 or 6 (<https://www.tcpdump.org/linktypes.html>).
const LINKTYPE_RAW: u16 = 101;
/// `if_tsresol` (§4.2): 10 to the power of minus 9 seconds.
const NANOSECONDS: u8 = 9;
/// Protocol number of UDP (RFC 768).
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// Hop limit of the packets. Chosen by us.
const HOPS: u8 = 64;

/// Whether a packet left the host of the capture or arrived there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It arrived.
    Inbound,
    /// It left.
    Outbound,
}

/// A UDP datagram.
#[derive(Debug, Clone, Copy)]
pub struct UdpDatagram<'a> {
    /// From where.
    pub source: SocketAddr,
    /// To where. Of the same family as `source`; otherwise both are written as 0.0.0.0.
    pub destination: SocketAddr,
    /// ECN codepoint of the IP header.
    pub ecn: Ecn,
    /// Its first bytes.
    pub head: &'a [u8],
    /// The bytes after `head`.
    pub payload: &'a [u8],
}

/// A capture under construction. It is readable up to the latest flush, at most a second ago, even if the process is killed.
///
/// # Example
///
/// ```
/// use giusto::capture::{Capture, Direction, UdpDatagram};
/// use giusto_units::{Ecn, Timestamp};
///
/// # let folder = std::env::temp_dir().join(format!("giusto-pcapng-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let mut capture = Capture::create(&folder.join("call.pcapng"), "call", 0)?;
/// let (source, destination) = ("192.0.2.1:5004".parse()?, "198.51.100.1:5004".parse()?);
/// let datagram = UdpDatagram { source, destination, ecn: Ecn::NotEct, head: &[0x80, 96], payload: &[] };
/// capture.packet(Timestamp::from_nanos(1), Direction::Outbound, &datagram);
/// capture.finish()?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Capture {
    file: Growing,
    zero_unix_ns: u64,
    /// Kept to reuse the allocation.
    block: Vec<u8>,
    packet: Vec<u8>,
}

impl Capture {
    /// Begins a capture of at most 4 GB at the interface `interface`. `zero_unix_ns` is the Unix time of
    /// [`Timestamp::ZERO`] in nanoseconds; 0 for a simulation.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn create(path: &Path, interface: &str, zero_unix_ns: u64) -> Result<Self, WriteError> {
        let file = Growing::create(path, Content::CAPTURE, MAX_BYTES)?;
        let mut capture = Self { file, zero_unix_ns, block: Vec::new(), packet: Vec::new() };
        let mut body = Vec::new();
        body.extend(MAGIC.to_le_bytes());
        // Version 1.0, of unknown length.
        body.extend([1, 0, 0, 0]);
        body.extend(u64::MAX.to_le_bytes());
        option(&mut body, 4, concat!("giusto ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(&mut body, 0, &[]);
        capture.block(Timestamp::ZERO, SECTION_HEADER, &body);
        body.clear();
        body.extend(LINKTYPE_RAW.to_le_bytes());
        // Reserved; no limit of the packet length.
        body.extend([0; 6]);
        option(&mut body, 2, interface.as_bytes());
        option(&mut body, 9, &[NANOSECONDS]);
        option(&mut body, 0, &[]);
        capture.block(Timestamp::ZERO, INTERFACE, &body);
        capture.file.end_head()?;
        Ok(capture)
    }

    /// Sets the Unix time of [`Timestamp::ZERO`], in nanoseconds, for the packets that follow.
    pub fn set_zero(&mut self, unix_ns: u64) {
        self.zero_unix_ns = unix_ns;
    }

    /// Adds a packet that was seen at `at`. Datagrams that are too long for IP are cut.
    pub fn packet(&mut self, at: Timestamp, direction: Direction, datagram: &UdpDatagram<'_>) {
        self.commented_packet(at, direction, datagram, None);
    }

    /// As [`packet`](Self::packet), with a comment that Wireshark shows beside the packet.
    pub fn commented_packet(
        &mut self,
        at: Timestamp,
        direction: Direction,
        datagram: &UdpDatagram<'_>,
        comment: Option<&str>,
    ) {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        ip_packet(&mut packet, datagram);
        let at_unix = self.zero_unix_ns.saturating_add(at.as_nanos());
        let mut body = Vec::with_capacity(packet.len() + 40);
        body.extend(0_u32.to_le_bytes());
        body.extend(((at_unix >> 32) as u32).to_le_bytes());
        body.extend((at_unix as u32).to_le_bytes());
        let length = packet.len() as u32;
        body.extend(length.to_le_bytes());
        body.extend(length.to_le_bytes());
        padded(&mut body, &packet);
        // opt_comment (§3.5.1).
        if let Some(comment) = comment {
            option(&mut body, 1, comment.as_bytes());
        }
        // epb_flags (§4.3.1): bits 0 and 1 are the direction.
        let flags: u32 = if direction == Direction::Inbound { 1 } else { 2 };
        option(&mut body, 2, &flags.to_le_bytes());
        option(&mut body, 0, &[]);
        self.block(at, ENHANCED_PACKET, &body);
        self.packet = packet;
    }

    /// Completes the file. Returns its path, and what is to be said about it, if anything.
    ///
    /// # Errors
    ///
    /// [`WriteError`] of the first failure since the beginning.
    pub fn finish(self) -> Result<(PathBuf, Option<String>), WriteError> {
        self.file.finish()
    }

    /// A block (§3.1): type, length, body, length.
    fn block(&mut self, at: Timestamp, kind: u32, body: &[u8]) {
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        self.block.extend(length);
        self.block.extend(body);
        self.block.extend(length);
        self.file.write(at, &self.block);
    }
}

/// Appends an option (§3.5): code, length, padded value.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = value.get(..value.len().min(usize::from(u16::MAX))).unwrap_or_default();
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    padded(body, value);
}

/// Appends bytes and fills to a multiple of four.
fn padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Appends the IP packet of a datagram (RFC 791 §3.1, RFC 8200 §3, RFC 768).
fn ip_packet(packet: &mut Vec<u8>, datagram: &UdpDatagram<'_>) {
    let (from, to) = match (datagram.source.ip(), datagram.destination.ip()) {
        (from @ IpAddr::V4(_), to @ IpAddr::V4(_)) | (from @ IpAddr::V6(_), to @ IpAddr::V6(_)) => (from, to),
        _ => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
    };
    let max = usize::from(u16::MAX) - 40 - UDP_HEADER;
    let head = datagram.head.get(..datagram.head.len().min(max)).unwrap_or_default();
    let payload = datagram.payload.get(..datagram.payload.len().min(max - head.len())).unwrap_or_default();
    let udp_length = (UDP_HEADER + head.len() + payload.len()) as u16;
    // The pseudo-header (RFC 768, RFC 8200 §8.1) has the same sum for both versions apart from the addresses.
    let mut sum = Sum::default();
    for address in [from, to] {
        match address {
            IpAddr::V4(address) => sum.add(&address.octets()),
            IpAddr::V6(address) => sum.add(&address.octets()),
        }
    }
    sum.add(&[0, UDP]);
    sum.add(&udp_length.to_be_bytes());
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let begin = packet.len();
            packet.extend([0x45, datagram.ecn.bits()]);
            packet.extend((20 + udp_length).to_be_bytes());
            // Identification 0, don't fragment.
            packet.extend([0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            let mut own = Sum::default();
            own.add(packet.get(begin..).unwrap_or_default());
            let checksum = own.finish().to_be_bytes();
            if let Some(place) = packet.get_mut(begin + 10..begin + 12) {
                place.copy_from_slice(&checksum);
            }
        }
        (from, to) => {
            packet.extend([0x60, datagram.ecn.bits() << 4, 0, 0]);
            packet.extend(udp_length.to_be_bytes());
            packet.extend([UDP, HOPS]);
            for address in [from, to] {
                if let IpAddr::V6(address) = address {
                    packet.extend(address.octets());
                }
            }
        }
    }
    let mut udp = Vec::with_capacity(UDP_HEADER);
    udp.extend(datagram.source.port().to_be_bytes());
    udp.extend(datagram.destination.port().to_be_bytes());
    udp.extend(udp_length.to_be_bytes());
    sum.add(&udp);
    sum.add(head);
    sum.add(payload);
    // A sum of zero is written as all ones.
    let checksum = match sum.finish() {
        0 => u16::MAX,
        sum => sum,
    };
    packet.extend(udp);
    packet.extend(checksum.to_be_bytes());
    packet.extend(head);
    packet.extend(payload);
}

/// The Internet checksum (RFC 1071) of pieces that follow each other.
#[derive(Debug, Default)]
struct Sum {
    sum: u64,
    /// Whether the pieces so far have an odd length.
    is_odd: bool,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(usize::from(self.is_odd && !bytes.is_empty()));
        self.sum += first.first().map_or(0, |&byte| u64::from(byte));
        // 2^16 counts as 1, so words of 32 bits add up to the same.
        let (words, rest) = rest.as_chunks::<4>();
        self.sum += words.iter().map(|&word| u64::from(u32::from_be_bytes(word))).sum::<u64>();
        for (place, &byte) in rest.iter().enumerate() {
            self.sum += u64::from(byte) << if place % 2 == 0 { 8 } else { 0 };
        }
        self.is_odd ^= bytes.len() % 2 == 1;
    }

    fn finish(&self) -> u16 {
        let mut sum = self.sum;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        let mut packet = Vec::new();
        let datagram = UdpDatagram { source, destination, ecn: Ecn::Ect1, head: &[1], payload };
        ip_packet(&mut packet, &datagram);
        packet
    }

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // RFC 1071 §3: the sum of these words is ddf2.
        let mut sum = Sum::default();
        for part in [[0x00, 0x01, 0xf2].as_slice(), &[0x03, 0xf4, 0xf5, 0xf6], &[0xf7]] {
            sum.add(part);
        }
        assert_eq!(!sum.finish(), 0xddf2);
    }

    #[test]
    fn headers_have_lengths_and_checksums() {
        let v4 = packet("192.0.2.1:5004", "198.51.100.2:6000", &[2, 3]);
        assert_eq!(v4.len(), 20 + 8 + 3);
        assert_eq!((v4[0], v4[1], v4[3], v4[9]), (0x45, 1, 31, 17));
        let mut sum = Sum::default();
        sum.add(&v4[..20]);
        assert_eq!(sum.finish(), 0, "the checksum of the header");
        let v6 = packet("[2001:db8::1]:5004", "[2001:db8::2]:6000", &[2, 3]);
        assert_eq!((v6.len(), v6[0], v6[1], v6[5], v6[6]), (40 + 8 + 3, 0x60, 0x10, 11, 17));
        let mut sum = Sum::default();
        sum.add(&v6[8..]);
        sum.add(&[0]);
        sum.add(&[0, 17, 0, 11]);
        assert_eq!(sum.finish(), 0, "the checksum of the datagram with its pseudo-header");
    }

    #[test]
    fn a_datagram_too_long_for_ip_is_cut() {
        let long = packet("192.0.2.1:5004", "198.51.100.2:6000", &vec![0; 70_000]);
        assert_eq!(long.len(), usize::from(u16::MAX) - 20);
        let mixed = packet("192.0.2.1:5004", "[2001:db8::2]:6000", &[]);
        assert_eq!(mixed[12..20], [0; 8]);
    }
}
