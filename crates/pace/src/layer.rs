//! The headers of a datagram, and which of them count.

use core::net::IpAddr;

use giusto_units::DataSize;

/// The version of the Internet Protocol, which sets the size of its header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum IpVersion {
    /// IPv4: a header of 20 B (RFC 791 §3.1, without options).
    #[default]
    V4,
    /// IPv6: a header of 40 B (RFC 8200 §3, without extension headers).
    V6,
}

impl IpVersion {
    /// The version of an address.
    #[inline]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The size of its header.
    #[inline]
    pub const fn header(self) -> DataSize {
        DataSize::from_bytes(match self {
            Self::V4 => 20,
            Self::V6 => 40,
        })
    }

    /// Maximum payload of one UDP datagram: 65 535 B minus the headers that the length fields count.
    ///
    /// The UDP length field counts the UDP header (RFC 768); the IPv4 total length counts its own header too (RFC 791 §3.1),
    /// the IPv6 payload length does not (RFC 8200 §3).
    #[inline]
    pub const fn max_payload(self) -> DataSize {
        DataSize::from_bytes(match self {
            Self::V4 => 65_507,
            Self::V6 => 65_527,
        })
    }

    /// The number of IP packets in which a datagram of `payload` crosses a link with an MTU of `mtu`; `None` if the MTU has no room
    /// for a fragment.
    ///
    /// Fragments other than the last hold a multiple of 8 B (RFC 791 §3.2); in IPv6 each has a further header of 8 B (RFC 8200
    /// §4.5).
    ///
    /// # Example
    ///
    /// ```
    /// use giusto_pace::IpVersion;
    ///
    /// assert_eq!(IpVersion::V4.fragments("1472 B".parse()?, "1500 B".parse()?), Some(1));
    /// assert_eq!(IpVersion::V4.fragments("1473 B".parse()?, "1500 B".parse()?), Some(2));
    /// assert_eq!(IpVersion::V6.fragments("4000 B".parse()?, "1280 B".parse()?), Some(4));
    /// # Ok::<(), giusto_units::UnitError>(())
    /// ```
    pub fn fragments(self, payload: DataSize, mtu: DataSize) -> Option<u64> {
        const FRAGMENT_UNIT: u64 = 8;
        const FRAGMENT_HEADER_V6: u64 = 8;
        let udp = payload.as_bytes().saturating_add(HeaderLayer::UDP_HEADER);
        let room = mtu.as_bytes().saturating_sub(self.header().as_bytes());
        if udp <= room {
            return Some(1);
        }
        let room = match self {
            Self::V4 => room,
            Self::V6 => room.saturating_sub(FRAGMENT_HEADER_V6),
        };
        let whole = room / FRAGMENT_UNIT * FRAGMENT_UNIT;
        // The last fragment may use the rest, too.
        let before_last = udp.saturating_sub(room).checked_add(whole.checked_sub(1)?)?.checked_div(whole)?;
        Some(before_last + 1)
    }
}

/// The layer at which a rate is counted: which headers of each datagram count.
///
/// "Constant Bit Rate Streaming - Practical Implementations", Send and Sleep: a practical improvement is "to represent the
/// IP and UDP headers in this calculation", which turns the period of 200 B at 10 kbit/s from 0.16 s into 0.18 s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum HeaderLayer {
    /// The UDP payload alone, as most tools count.
    #[default]
    Payload,
    /// With the UDP header.
    Udp,
    /// With the UDP and IP headers.
    Ip,
    /// With UDP, IP and the Ethernet frame: header and check sequence, padding; without preamble and inter-packet gap.
    Ethernet,
}

impl HeaderLayer {
    /// With UDP, IP and the Ethernet frame: header, check sequence and padding, without preamble and
    /// inter-packet gap.
    const UDP_HEADER: u64 = 8;
    /// IEEE 802.3 §3.1.1: two addresses and a type (14 B) before, a check sequence (4 B) behind.
    const ETHERNET_HEADER_AND_CHECK: u64 = 14 + 4;
    /// IEEE 802.3 §4.4.2, `minFrameSize`: a shorter frame is padded.
    const ETHERNET_MIN_FRAME: u64 = 64;

    /// Header bytes per datagram at this layer, without padding.
    pub const fn overhead(self, ip: IpVersion) -> DataSize {
        let ip_and_udp = ip.header().as_bytes() + Self::UDP_HEADER;
        DataSize::from_bytes(match self {
            Self::Payload => 0,
            Self::Udp => Self::UDP_HEADER,
            Self::Ip => ip_and_udp,
            Self::Ethernet => ip_and_udp + Self::ETHERNET_HEADER_AND_CHECK,
        })
    }

    /// The size of a datagram of `payload` at this layer; an Ethernet frame is at least 64 B.
    pub fn on_wire(self, payload: DataSize, ip: IpVersion) -> DataSize {
        let size = payload + self.overhead(ip);
        match self {
            Self::Ethernet => size.max(DataSize::from_bytes(Self::ETHERNET_MIN_FRAME)),
            Self::Payload | Self::Udp | Self::Ip => size,
        }
    }
}

giusto_units::names!(HeaderLayer as "header layer" {
    Payload = "payload",
    Udp = "udp",
    Ip = "ip",
    Ethernet = "ethernet",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_frames_are_padded_only_on_ethernet() {
        let on_wire =
            |layer: HeaderLayer, payload, ip| layer.on_wire(DataSize::from_bytes(payload), ip).as_bytes();
        assert_eq!(on_wire(HeaderLayer::Ethernet, 1, IpVersion::V4), 64);
        assert_eq!(on_wire(HeaderLayer::Ethernet, 18, IpVersion::V4), 64);
        assert_eq!(on_wire(HeaderLayer::Ethernet, 19, IpVersion::V4), 65);
        assert_eq!(on_wire(HeaderLayer::Ethernet, 1, IpVersion::V6), 67);
        assert_eq!(on_wire(HeaderLayer::Ip, 1, IpVersion::V4), 29);
        assert_eq!(on_wire(HeaderLayer::Ethernet, 1472, IpVersion::V4), 1518);
    }
}
