//! What hosts answer to datagrams that they cannot deliver.

use std::{
    io::IoSliceMut,
    net::{SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsFd, AsRawFd},
};

use nix::{
    cmsg_space,
    sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg},
};

use super::UdpSocket;

/// `ICMP_DEST_UNREACH` and `ICMP_PORT_UNREACH`: RFC 792.
const PORT_UNREACHABLE_V4: (u8, u8) = (3, 3);
/// The same over IPv6: RFC 4443 §3.1.
const PORT_UNREACHABLE_V6: (u8, u8) = (1, 4);
/// Answers that are taken at once.
const MAX_ANSWERS: usize = 64;

impl UdpSocket {
    /// Takes the answers that have come since the last call, of a socket with
    /// [`report_unreachable`](super::SocketConfig::report_unreachable): bounded work. Passes the address of each datagram to whose
    /// port nothing listens, as its host says. Returns the number of answers, those of routers included: each may have been the error
    /// of one later call that sends or receives, which then did nothing.
    pub fn take_answers(&self, mut on_unreachable: impl FnMut(SocketAddr)) -> usize {
        let mut taken = 0;
        while taken < MAX_ANSWERS {
            let mut payload = [0; 64];
            let mut part = [IoSliceMut::new(&mut payload)];
            let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, [u8; 192]);
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let answer =
                recvmsg::<SockaddrStorage>(self.as_fd().as_raw_fd(), &mut part, Some(&mut control), flags);
            let Ok(answer) = answer else { break };
            taken += 1;
            let says = |message| match message {
                ControlMessageOwned::Ipv4RecvErr(error, _) => {
                    error.ee_origin == libc::SO_EE_ORIGIN_ICMP
                        && (error.ee_type, error.ee_code) == PORT_UNREACHABLE_V4
                }
                ControlMessageOwned::Ipv6RecvErr(error, _) => {
                    let known = [
                        (libc::SO_EE_ORIGIN_ICMP6, PORT_UNREACHABLE_V6),
                        (libc::SO_EE_ORIGIN_ICMP, PORT_UNREACHABLE_V4),
                    ];
                    known.contains(&(error.ee_origin, (error.ee_type, error.ee_code)))
                }
                _ => false,
            };
            let is_unreachable = answer.cmsgs().is_ok_and(|mut all| all.any(says));
            if let Some(to) = answer.address.filter(|_| is_unreachable).and_then(address) {
                on_unreachable(to);
            }
        }
        taken
    }
}

/// A mapped IPv4 address is given as IPv4.
fn address(storage: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|&v4| SocketAddr::V4(SocketAddrV4::from(v4)));
    let v6 = || {
        let v6 = SocketAddrV6::from(*storage.as_sockaddr_in6()?);
        Some(SocketAddr::new(v6.ip().to_canonical(), v6.port()))
    };
    v4.or_else(v6)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::{Clock, ReceiveBatch, SocketConfig, Wait};

    #[test]
    fn an_unreachable_port_is_known_by_its_address() {
        let config = SocketConfig { report_unreachable: true, ..SocketConfig::default() };
        for any in ["0.0.0.0:0", "[::]:0"] {
            let Ok(socket) = UdpSocket::bind(any.parse().unwrap(), &config) else {
                eprintln!("SKIPPED an unreachable port at {any}: the system has no such socket");
                continue;
            };
            let v6 = socket.local_addr().is_ipv6().then_some(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)));
            let hosts = [Some(SocketAddr::from(([127, 0, 0, 1], 0))), v6];
            let mut batch = ReceiveBatch::new(4, 100);
            for host in hosts.into_iter().flatten() {
                // A port that was free a moment ago.
                let free = UdpSocket::bind(host, &SocketConfig::default()).map(|socket| socket.local_addr());
                let Ok(gone) = free else { continue };
                let there = UdpSocket::bind(host, &SocketConfig::default()).unwrap();
                let (clock, mut found) = (Clock::start(), Vec::new());
                while found.is_empty() && clock.now().as_nanos() < 10_000_000_000 {
                    // The error of the one may be that of the other.
                    let _ = socket.send_to(b"to nobody", gone);
                    socket.send_to(b"to somebody", there.local_addr()).unwrap();
                    let _ = socket.recv_batch(&mut batch, Wait::For(std::time::Duration::from_millis(1)));
                    socket.take_answers(|to| found.push(to));
                }
                assert!(!found.is_empty() && found.iter().all(|to| *to == gone), "{gone} {found:?}");
            }
        }
    }
}
