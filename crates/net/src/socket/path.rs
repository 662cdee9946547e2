//! The path of a socket's datagrams: where they leave, and what routers and switches read of them.

use std::{
    ffi::CString,
    io,
    net::{IpAddr, SocketAddr},
};

use nix::net::if_::if_nametoindex;
use socket2::{SockAddr, Socket, Type};

use super::SocketError;
use crate::sys;

/// Where a socket's datagrams leave, and what routers and switches read of them beside the traffic class. Default: all is left to the
/// system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathOptions {
    /// Send and receive by this interface alone (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// The source address of a socket that [connects](super::UdpSocket::connected); it must be of this machine.
    pub source: Option<IpAddr>,
    /// The flow label of IPv6 datagrams (RFC 6437), of at most 20 bits.
    pub flow_label: Option<u32>,
    /// The priority of datagrams in this machine's queues (`SO_PRIORITY`), which a VLAN interface maps to the PCP of IEEE 802.1Q.
    pub priority: Option<u8>,
    /// TTL or Hop Limit, also of datagrams to a group.
    pub ttl: Option<u8>,
}

impl PathOptions {
    /// The highest flow label.
    pub const MAX_FLOW_LABEL: u32 = 0xF_FFFF;

    /// Sets what must be set before the socket has an address.
    pub(super) fn apply(&self, socket: &Socket, v6: bool) -> Result<(), SocketError> {
        if let Some(name) = &self.interface {
            let failed = |source| SocketError::Interface { name: name.clone(), source };
            interface_index(name).map_err(failed)?;
            socket.bind_device(Some(name.as_bytes())).map_err(failed)?;
        }
        let failed = |option| move |source| SocketError::Option { option, source };
        if let Some(ttl) = self.ttl {
            let failed = failed("the TTL");
            socket.set_ttl_v4(ttl.into()).map_err(failed)?;
            if v6 {
                socket.set_unicast_hops_v6(ttl.into()).map_err(failed)?;
            }
            // TCP has no groups.
            if socket.r#type().map_err(failed)? == Type::DGRAM {
                socket.set_multicast_ttl_v4(ttl.into()).map_err(failed)?;
                if v6 {
                    socket.set_multicast_hops_v6(ttl.into()).map_err(failed)?;
                }
            }
        }
        if v6 && self.flow_label.is_some() {
            sys::send_flow_labels(socket).map_err(failed("the flow label"))?;
        }
        self.prioritise(socket)
    }

    /// Sets the priority, which the system changes with the traffic class.
    pub(super) fn prioritise(&self, socket: &Socket) -> Result<(), SocketError> {
        let Some(priority) = self.priority else { return Ok(()) };
        let failed = |source| SocketError::Option { option: "the priority", source };
        socket.set_priority(priority.into()).map_err(failed)
    }

    /// `to` as a socket with this path connects to it.
    pub(super) fn name(&self, to: SocketAddr) -> SockAddr {
        let mut to = to;
        if let SocketAddr::V6(v6) = &mut to {
            v6.set_flowinfo(self.flow_info());
        }
        to.into()
    }

    /// The flow label as the kernel takes it.
    pub(super) fn flow_info(&self) -> u32 {
        self.flow_label.map_or(0, |label| (label & Self::MAX_FLOW_LABEL).to_be())
    }
}

/// The index of an interface of this machine.
pub(super) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    if_nametoindex(name.as_c_str()).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SocketConfig, TrafficClass, UdpSocket};

    fn config(path: PathOptions) -> SocketConfig {
        SocketConfig { path, ..SocketConfig::default() }
    }

    #[test]
    fn a_priority_outlives_a_change_of_the_traffic_class() {
        let asked = config(PathOptions { priority: Some(5), ..PathOptions::default() });
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address.parse().unwrap(), &asked) else { continue };
            assert_eq!(socket.socket.priority().unwrap(), 5);
            // Without our doing, class 46 makes it 6.
            socket.set_traffic_class(TrafficClass::new(46, 0).unwrap()).unwrap();
            assert_eq!(socket.socket.priority().unwrap(), 5);
        }
    }

    #[test]
    fn a_connected_socket_has_the_source_that_was_asked_for() {
        let peer = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
        let from = |source: &str| {
            let path = PathOptions { source: Some(source.parse().unwrap()), ..PathOptions::default() };
            UdpSocket::connected(peer.local_addr(), &config(path))
        };
        assert_eq!(from("127.0.0.9").unwrap().local_addr().ip(), IpAddr::from([127, 0, 0, 9]));
        let error = from("192.0.2.77").unwrap_err().to_string();
        assert!(error.starts_with("cannot bind to 192.0.2.77:0: "), "{error}");
    }

    #[test]
    fn an_unknown_interface_is_named() {
        let path = PathOptions { interface: Some("nonsense7".to_owned()), ..PathOptions::default() };
        let error = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &config(path)).unwrap_err().to_string();
        assert!(error.starts_with("cannot use the interface nonsense7: "), "{error}");
    }
}
