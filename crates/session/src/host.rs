//! What counts as one host.

use std::net::{IpAddr, Ipv6Addr};

/// The host of an address: an IPv4 address, or an IPv6 prefix of 64 bits, of which one host may use every address (RFC 4291
/// §2.5.4).
pub fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}
