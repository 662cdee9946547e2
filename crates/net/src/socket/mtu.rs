//! What is needed to find the MTU of a path by probes.

use std::os::fd::AsFd;

use giusto_units::DataSize;
use nix::{
    ifaddrs::getifaddrs,
    sys::socket::{AddressFamily, SockaddrLike},
};

use super::{SocketError, UdpSocket};
use crate::sys;

impl UdpSocket {
    /// Sends each datagram unfragmented and whatever the system believes of the path's MTU (`IP_PMTUDISC_PROBE`, `IPV6_PMTUDISC_PROBE`):
    /// one that exceeds the MTU of the first link is an error, one that exceeds a later link is lost.
    ///
    /// # Errors
    ///
    /// [`SocketError::Option`] with the kernel's error.
    pub fn probe_path(&self) -> Result<(), SocketError> {
        let failed = |source| SocketError::Option { option: "the discovery of the path's MTU", source };
        sys::probe_path(self.as_fd(), self.v6).map_err(failed)
    }

    /// The MTU of the interface by which this connected socket sends, if it can be known.
    pub fn link_mtu(&self) -> Option<DataSize> {
        let name = self.config.path.interface.clone().or_else(|| self.interface_name())?;
        sys::interface_mtu(self.as_fd(), &name).ok().map(|mtu| DataSize::from_bytes(mtu.into()))
    }

    /// The interface that has the local address.
    fn interface_name(&self) -> Option<String> {
        let ours = self.local_addr().ip().to_canonical();
        let has_it = |address: &nix::sys::socket::SockaddrStorage| match address.family() {
            Some(AddressFamily::Inet) => address.as_sockaddr_in().is_some_and(|v4| ours == v4.ip()),
            Some(AddressFamily::Inet6) => address.as_sockaddr_in6().is_some_and(|v6| ours == v6.ip()),
            _ => false,
        };
        let mut all = getifaddrs().ok()?;
        all.find(|interface| interface.address.as_ref().is_some_and(has_it)).map(|found| found.interface_name)
    }
}
