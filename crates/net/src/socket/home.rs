//! The addresses of this machine to which others send. A socket of all addresses answers each from the one to which it has sent, not
//! from that which the system prefers (RFC 1122 §4.1.3.5).

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Mutex, PoisonError},
};

use nix::sys::socket::{setsockopt, sockopt};

use super::UdpSocket;
use crate::sys::Slot;

/// The most peers that are remembered twice: those of late, and those before.
const MAX_PEERS: usize = 8192;

/// By peer, the address of this machine to which it has sent.
#[derive(Debug, Default)]
pub(super) struct Homes(Option<Mutex<[HashMap<SocketAddr, IpAddr>; 2]>>);

impl Homes {
    /// The address for datagrams to `peer`, if it is known.
    pub(super) fn of(&self, peer: SocketAddr) -> Option<IpAddr> {
        let [recent, former] = &*self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        recent.get(&peer).or_else(|| former.get(&peer)).copied()
    }

    /// Takes note of messages that have arrived.
    pub(super) fn note<'a>(&self, slots: impl Iterator<Item = &'a Slot>) {
        let Some(homes) = &self.0 else { return };
        let mut homes = homes.lock().unwrap_or_else(PoisonError::into_inner);
        let [recent, former] = &mut *homes;
        let mut last = None;
        for slot in slots {
            let Some(from) = slot.name.address() else { continue };
            let home = slot.control.messages().find_map(|(level, kind, content)| home(level, kind, content));
            let Some(home) = home.filter(|home| home.is_ipv4() == from.is_ipv4()) else { continue };
            if last.replace((from, home)) == Some((from, home)) {
                continue;
            }
            if recent.insert(from, home).is_none() && recent.len() > MAX_PEERS {
                *former = std::mem::take(recent);
            }
        }
    }
}

/// The address of `struct in_pktinfo` from which to answer, or that of `struct in6_pktinfo`. A link-local one needs its interface, by
/// which the system finds it.
fn home(level: i32, kind: i32, content: &[u8]) -> Option<IpAddr> {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let octets: [u8; 4] = *content.get(4..)?.first_chunk()?;
            Some(Ipv4Addr::from(octets).into())
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let octets: [u8; 16] = *content.first_chunk()?;
            let ip = Ipv6Addr::from(octets);
            let is_own = !ip.is_multicast() && !ip.is_unicast_link_local() && ip.to_ipv4_mapped().is_none();
            is_own.then_some(ip.into())
        }
        _ => None,
    }
}

impl UdpSocket {
    /// Asks the kernel for the address to which each message was sent, or no longer. Where it refuses, it chooses the address of answers.
    pub(super) fn look_for_homes(&mut self, look: bool) {
        let v4 = setsockopt(&self.socket, sockopt::Ipv4PacketInfo, &look);
        let v6 = if self.v6 { setsockopt(&self.socket, sockopt::Ipv6RecvPacketInfo, &look) } else { v4 };
        self.homes = Homes((look && (v4.is_ok() || v6.is_ok())).then(Mutex::default));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]
    use std::time::Duration;

    use super::*;
    use crate::{Grouping, ReceiveBatch, SocketConfig, TrafficClass, Wait};

    #[test]
    fn an_answer_comes_from_the_address_that_was_asked() {
        let config = SocketConfig::default();
        for any in ["0.0.0.0", "[::]"] {
            let free = UdpSocket::bind(([127, 0, 0, 117], 0).into(), &config).unwrap().local_addr().port();
            let server = UdpSocket::bind(format!("{any}:{free}").parse().unwrap(), &config).unwrap();
            // The system prefers 127.0.0.1.
            let asked = SocketAddr::from(([127, 0, 0, 117], server.local_addr().port()));
            let client = UdpSocket::connected(asked, &config).unwrap();
            client.send(b"a").unwrap();
            let mut batch = ReceiveBatch::new(8, 100);
            let mut receive = |socket: &UdpSocket| {
                socket.recv_batch(&mut batch, Wait::For(Duration::from_secs(5))).unwrap();
                batch.iter().map(|received| (received.from, received.bytes.to_vec())).next()
            };
            let (from, _) = receive(&server).unwrap();
            let class = TrafficClass::new(46, 1).unwrap();
            server.send_to(b"b", from).unwrap();
            assert_eq!(receive(&client), Some((asked, b"b".to_vec())), "{any}");
            server.send_classed(Some(from), b"c", class).unwrap();
            assert_eq!(receive(&client), Some((asked, b"c".to_vec())), "{any}");
            server.send_segments(Some(from), b"dd", 1, Grouping::Offload).unwrap();
            assert_eq!(receive(&client), Some((asked, b"d".to_vec())), "{any}");
            let beside = server.beside(from, &config).unwrap();
            assert_eq!(beside.local_addr(), asked, "{any}");
            // An address that is away: the system chooses.
            let other = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &config).unwrap();
            let away = Ipv4Addr::new(192, 0, 2, 1).into();
            server.homes.0.as_ref().unwrap().lock().unwrap()[0].insert(other.local_addr(), away);
            server.send_to(b"e", other.local_addr()).unwrap();
            assert_eq!(receive(&other).unwrap().1, b"e");
            // A socket of one peer or of one address needs none of this.
            assert!(client.homes.0.is_none() && beside.homes.0.is_none());
        }
    }

    #[test]
    fn spoofed_peers_take_a_limited_space() {
        let homes = Homes(Some(Mutex::default()));
        let v4 = [0, 0, 0, 0, 192, 0, 2, 1, 192, 0, 2, 255];
        for number in 0..3 * MAX_PEERS as u32 {
            let from = SocketAddr::from((Ipv4Addr::from(number), 9));
            let control = crate::socket::stamping::tests::message(libc::IPPROTO_IP, libc::IP_PKTINFO, &v4);
            let control = crate::sys::Control::recorded(&control);
            let name = crate::sys::Name::of(from, false);
            homes.note(std::iter::once(&Slot { name, control, ..Slot::EMPTY }));
            assert_eq!(homes.of(from), Some(Ipv4Addr::new(192, 0, 2, 1).into()));
        }
        let held: usize = homes.0.unwrap().into_inner().unwrap().iter().map(HashMap::len).sum();
        assert!((MAX_PEERS..=2 * MAX_PEERS + 1).contains(&held), "{held}");
        // What cannot be a source: a group, a link-local address without its interface, and what the IPv4 message says better.
        for ip in ["ff02::1", "fe80::1", "::ffff:192.0.2.1"] {
            let ip: Ipv6Addr = ip.parse().unwrap();
            assert_eq!(home(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &ip.octets()), None, "{ip}");
        }
    }
}
