//! Sockets that receive what is sent to a multicast group.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use socket2::Socket;

use super::{SocketConfig, SocketError, UdpSocket, path::interface_index, share_port};
use crate::sys;

impl UdpSocket {
    /// A socket that receives what is sent to the group and port of `group`: of any source (ASM), or of `sources` alone (SSM, RFC
    /// 4607). Other sockets of this machine can receive the same.
    ///
    /// The group is joined at the interface of [`PathOptions::interface`](super::PathOptions::interface), or where the system has the
    /// route to the group.
    ///
    /// # Errors
    ///
    /// [`SocketError::Join`], or as [`bind`](Self::bind).
    pub fn join(group: SocketAddr, sources: &[IpAddr], config: &SocketConfig) -> Result<Self, SocketError> {
        let failed = |source| SocketError::Join { group: group.ip(), source };
        let interface = match &config.path.interface {
            Some(name) => {
                let failed = |source| SocketError::Interface { name: name.clone(), source };
                interface_index(name).map_err(failed)?
            }
            None => 0,
        };
        let mut address = group;
        if let SocketAddr::V6(v6) = &mut address
            && v6.scope_id() == 0
        {
            v6.set_scope_id(interface);
        }
        let (socket, granted) = Self::unbound(address, config)?;
        share_port(&socket, true)?;
        // Without this, a socket gets what any program of this machine has joined, by Linux's default. Systems that lack it are rare.
        let _ = match group {
            SocketAddr::V4(_) => socket.set_multicast_all_v4(false),
            SocketAddr::V6(_) => socket.set_multicast_all_v6(false),
        };
        let socket = Self::bound(socket, address, config, granted)?;
        socket.add(group.ip(), sources, interface).map_err(failed)?;
        Ok(socket)
    }

    fn add(&self, group: IpAddr, sources: &[IpAddr], interface: u32) -> io::Result<()> {
        if sources.is_empty() {
            return join_any_source(&self.socket, group, interface);
        }
        sources.iter().try_for_each(|source| sys::join_source_group(&self.socket, group, *source, interface))
    }
}

fn join_any_source(socket: &Socket, group: IpAddr, interface: u32) -> io::Result<()> {
    match group {
        IpAddr::V4(group) => {
            socket.join_multicast_v4_n(&group, &socket2::InterfaceIndexOrAddress::Index(interface))
        }
        IpAddr::V6(group) => socket.join_multicast_v6(&group, interface),
    }
}
