//! Connected sockets that get another local address.

use std::{net::SocketAddr, os::fd::AsFd, sync::atomic::Ordering::Relaxed};

use nix::ifaddrs::getifaddrs;

use super::{SocketError, UdpSocket};
use crate::sys;

impl UdpSocket {
    /// The peer to which it is connected; a mapped IPv4 address is given as IPv4.
    pub fn peer(&self) -> Option<SocketAddr> {
        let peer = self.socket.peer_addr().ok()?.as_socket()?;
        match peer.ip().to_canonical() {
            ip if ip == peer.ip() => Some(peer),
            ip => Some(SocketAddr::new(ip, peer.port())),
        }
    }

    /// Whether this machine still has the local address of this socket.
    pub fn has_its_address(&self) -> bool {
        let ours = self.local_addr().ip().to_canonical();
        let has_it = |address: nix::sys::socket::SockaddrStorage| {
            let v4 = address.as_sockaddr_in().is_some_and(|v4| ours == v4.ip());
            v4 || address.as_sockaddr_in6().is_some_and(|v6| ours == v6.ip())
        };
        // Where the system does not say, it is still there.
        getifaddrs().map_or(true, |mut all| all.any(|interface| interface.address.is_some_and(has_it)))
    }

    /// Connects to `peer` from the address and the port that it has.
    pub(crate) fn redirect(&self, peer: SocketAddr) -> Result<(), SocketError> {
        self.connect_to(peer).map_err(|source| SocketError::Connect { address: peer, source })
    }

    /// Connects to `peer` from the address and the port that the system chooses now. What other threads send meanwhile is refused,
    /// which [is passing](super::is_passing).
    ///
    /// # Errors
    ///
    /// [`SocketError::Connect`] if there is no route to it.
    pub fn reconnect(&self, peer: SocketAddr) -> Result<(), SocketError> {
        let failed = |source| SocketError::Connect { address: peer, source };
        sys::disconnect(self.as_fd()).map_err(failed)?;
        self.connect_to(peer).map_err(failed)?;
        // While the address was away, the system refused every group.
        self.sending.refused_segment.store(u32::MAX, Relaxed);
        Ok(())
    }
}
