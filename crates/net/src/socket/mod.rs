//! UDP sockets that send and receive many datagrams per system call.
//!
//! A [`UdpSocket`] is shared by reference: one thread may send while another receives. It blocks only in
//! `poll`, and for a limited time.

mod config;
mod departures;
mod errors;
mod home;
mod launch;
mod lending;
mod mtu;
mod multicast;
mod path;
mod receive;
mod reconnect;
mod send;
mod stamping;
mod stream;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

pub use config::{SocketConfig, TrafficClass};
pub use departures::DepartureLag;
use giusto_units::DataSize;
pub use launch::{Launch, LaunchError, LaunchTime};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
pub use path::PathOptions;
pub use receive::{ReceiveBatch, Received, Wait};
pub use send::{Grouping, MESSAGE_BYTES, SEGMENTS, SendCounters, SendError};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
pub use stream::connect_tcp;
pub(crate) use stream::stream_socket;

use crate::{
    sys::{self, ReceiveBuffer},
    system::{Asked, Granted, Stamper},
};

/// Error of opening a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The socket could not be created.
    #[error("cannot open a socket for {address}: {source}")]
    Open {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The address is in use, not of this machine, or not permitted.
    #[error("cannot bind to {address}: {source}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The address is that of a multicast group.
    #[error(
        "{address} is a multicast group, which is not supported: listen on an address of this machine, send to that of one host"
    )]
    Multicast {
        /// The requested address.
        address: SocketAddr,
    },
    /// The group cannot be joined.
    #[error(
        "cannot join {group}: {source}: is there a route to the group, or an interface to choose with --interface?"
    )]
    Join {
        /// The group.
        group: IpAddr,
        /// The system's error.
        source: io::Error,
    },
    /// There is no route to the address.
    #[error("cannot connect to {address}: {source}{}", fix(address))]
    Connect {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The interface does not exist, or may not be chosen.
    #[error("cannot use the interface {name}: {source}: `ip link` lists those of this machine")]
    Interface {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A required option could not be set.
    #[error("cannot set {option} of a socket: {source}")]
    Option {
        /// The option.
        option: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Why the system does not connect to some addresses at all.
fn fix(address: &SocketAddr) -> &'static str {
    match address {
        SocketAddr::V6(own) if own.ip().is_unicast_link_local() && own.scope_id() == 0 => {
            ": a link-local address needs its interface, as in fe80::1%eth0"
        }
        SocketAddr::V4(own) if own.ip().is_broadcast() => ": broadcast is not supported",
        _ => "",
    }
}

impl SocketError {
    /// Refuses the address of a multicast group.
    ///
    /// # Errors
    ///
    /// [`SocketError::Multicast`] if it is one.
    pub fn refuse_multicast(address: SocketAddr) -> Result<(), Self> {
        if address.ip().to_canonical().is_multicast() { Err(Self::Multicast { address }) } else { Ok(()) }
    }
}

/// Whether a socket goes on after this error of a send or a receive: it concerns one datagram, or an earlier one that the network or
/// a firewall returned, and the next one may pass. A queue was full, the interface or the route is away, a filter refused, a host or a
/// router answered with ICMP.
pub fn is_passing(error: &io::Error) -> bool {
    const PASSING: [i32; 20] = [
        libc::EINTR,
        libc::ENOBUFS,
        libc::ENOMEM,
        // The interface, the address or the route is away.
        libc::ENETDOWN,
        libc::ENODEV,
        libc::EADDRNOTAVAIL,
        // The same of a connected socket, until it is connected again from another address, and meanwhile.
        libc::EINVAL,
        libc::EDESTADDRREQ,
        libc::ENETUNREACH,
        libc::EHOSTUNREACH,
        libc::EHOSTDOWN,
        libc::ENONET,
        // A filter of this machine, or a full table of its connections; `EACCES` also by ICMPv6.
        libc::EPERM,
        libc::EACCES,
        // ICMP (`icmp_err_convert` and `icmpv6_err_convert` of Linux).
        libc::ECONNREFUSED,
        libc::ECONNRESET,
        libc::ENOPROTOOPT,
        libc::EOPNOTSUPP,
        libc::EPROTO,
        libc::EMSGSIZE,
    ];
    error.raw_os_error().is_some_and(|code| PASSING.contains(&code))
}

/// A UDP socket for IPv4, for IPv6, or for both.
///
/// A socket that is bound to `[::]` also receives IPv4. Mapped IPv4 addresses are accepted and reported as IPv4.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    v6: bool,
    local: SocketAddr,
    config: SocketConfig,
    granted: Granted,
    sending: send::Sending,
    forbids_fragments: AtomicBool,
    homes: home::Homes,
    departures: departures::Departures,
    /// Looked for when it is first needed: the socket may be connected until then.
    card: OnceLock<Option<Arc<stamping::Card>>>,
}

impl UdpSocket {
    /// A socket at `address`; port 0 selects a free port.
    ///
    /// [`granted`](Self::granted) lists the options that the kernel lacks; only an unavailable address and a traffic class
    /// that cannot be set are errors.
    ///
    /// # Errors
    ///
    /// [`SocketError`] names the address or the option, and the system's error.
    pub fn bind(address: SocketAddr, config: &SocketConfig) -> Result<Self, SocketError> {
        Self::bind_shared(address, config, false)
    }

    /// `shared`: the port may be that of a socket that permits it at this moment.
    fn bind_shared(address: SocketAddr, config: &SocketConfig, shared: bool) -> Result<Self, SocketError> {
        SocketError::refuse_multicast(address)?;
        let (socket, granted) = Self::unbound(address, config)?;
        if shared {
            share_port(&socket, true)?;
        }
        Self::bound(socket, address, config, granted)
    }

    /// A socket for addresses of the family of `address`, with what is set before it has one.
    fn unbound(address: SocketAddr, config: &SocketConfig) -> Result<(Socket, Granted), SocketError> {
        let v6 = address.is_ipv6();
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .map_err(|source| SocketError::Open { address, source })?;
        if v6 {
            socket
                .set_only_v6(false)
                .map_err(|source| SocketError::Option { option: "dual stack", source })?;
        }
        let granted = configure(&socket, v6, config)?;
        Ok((socket, granted))
    }

    fn bound(
        socket: Socket,
        address: SocketAddr,
        config: &SocketConfig,
        granted: Granted,
    ) -> Result<Self, SocketError> {
        socket.bind(&SockAddr::from(address)).map_err(|source| SocketError::Bind { address, source })?;
        let local = local_address(&socket).map_err(|source| SocketError::Bind { address, source })?;
        let mut socket = Self {
            socket,
            v6: address.is_ipv6(),
            local,
            config: config.clone(),
            granted,
            sending: send::Sending::default(),
            forbids_fragments: AtomicBool::new(false),
            homes: home::Homes::default(),
            departures: departures::Departures::default(),
            card: OnceLock::new(),
        };
        // One that asks has any free port: its answers come to where the system sends from now.
        if address.ip().is_unspecified() && address.port() != 0 {
            socket.look_for_homes(true);
        }
        if config.dont_fragment {
            socket.forbid_fragments(true)?;
        }
        Ok(socket)
    }

    /// A socket at a free port, connected to `peer`: it receives only from `peer`, and gets its "port
    /// unreachable" messages.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind) and [`connect`](Self::connect).
    pub fn connected(peer: SocketAddr, config: &SocketConfig) -> Result<Self, SocketError> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut socket = Self::bind((config.path.source.unwrap_or(any), 0).into(), config)?;
        socket.connect(peer)?;
        Ok(socket)
    }

    /// A socket at the same port, connected to `peer`: the kernel then gives it what comes from there, and this one the rest. What
    /// came from others while it was being connected is in its queue: the caller hands it on. No other program can share the
    /// port.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind) and [`connect`](Self::connect).
    pub fn beside(&self, peer: SocketAddr, config: &SocketConfig) -> Result<Self, SocketError> {
        share_port(&self.socket, true)?;
        // Where the system chooses the address to which the peer has sent, it can also choose again once that is away.
        let is_chosen = |home: IpAddr| Self::connected(peer, config).is_ok_and(|own| own.local.ip() == home);
        let home = self.homes.of(peer).filter(|home| !is_chosen(*home));
        let local = home.map_or(self.local, |home| SocketAddr::new(home, self.local.port()));
        let beside = Self::bind_shared(local, config, true);
        share_port(&self.socket, false)?;
        let mut beside = beside?;
        // It goes on to share, with the next beside the same socket. Against others that one holds the port.
        beside.connect(peer)?;
        Ok(beside)
    }

    /// Sends to `peer`, which may be a multicast group, and receives only from `peer`.
    ///
    /// # Errors
    ///
    /// [`SocketError::Connect`] if there is no route to it.
    pub fn connect(&mut self, peer: SocketAddr) -> Result<(), SocketError> {
        let failed = |source| SocketError::Connect { address: peer, source };
        self.connect_to(peer).map_err(failed)?;
        self.local = local_address(&self.socket).map_err(failed)?;
        self.look_for_homes(false);
        Ok(())
    }

    fn connect_to(&self, peer: SocketAddr) -> io::Result<()> {
        let target = match peer {
            SocketAddr::V4(v4) if self.v6 => (v4.ip().to_ipv6_mapped(), v4.port()).into(),
            _ => peer,
        };
        self.socket.connect(&self.config.path.name(target))
    }

    /// The local address; of a connected socket, the source address of its datagrams.
    pub fn local_addr(&self) -> SocketAddr {
        // That of a connected socket may have changed.
        local_address(&self.socket).unwrap_or(self.local)
    }

    /// What the kernel granted. The fields about the thread are not known to a socket.
    pub fn granted(&self) -> Granted {
        Granted { receive_timestamps: self.arrivals_by(), ..self.granted.clone() }
    }

    /// What timestamps arrivals.
    pub(crate) fn arrivals_by(&self) -> Stamper {
        match self.card().filter(|card| card.receives()) {
            Some(card) => Stamper::Card(Arc::clone(&card.counts)),
            None => self.granted.receive_timestamps.clone(),
        }
    }

    /// The card whose stamps the socket uses.
    fn card(&self) -> Option<&Arc<stamping::Card>> {
        let find = || {
            let peer = || self.socket.peer_addr().ok()?.as_socket();
            let card = stamping::Card::find(self.as_fd(), &self.config, peer())?;
            sys::set_timestamping(self.as_fd(), stamping::flags(Some(&card), false))
                .is_ok()
                .then(|| Arc::new(card))
        };
        self.card.get_or_init(|| self.config.kernel_timestamps.then(find).flatten()).as_ref()
    }

    /// The configuration of the socket.
    pub const fn config(&self) -> &SocketConfig {
        &self.config
    }

    /// Sets DSCP and ECN of the datagrams that are sent from now on.
    ///
    /// # Errors
    ///
    /// [`SocketError::Option`] with the kernel's error.
    pub fn set_traffic_class(&self, class: TrafficClass) -> Result<(), SocketError> {
        class.apply(&self.socket, self.v6)?;
        self.config.path.prioritise(&self.socket)
    }

    /// Forbids fragments of the datagrams that are sent from now on, as [`SocketConfig::dont_fragment`] does; or lets this machine and
    /// routers fragment them (`IP_PMTUDISC_DONT`), for messages that must arrive whatever the MTU of the path is.
    ///
    /// # Errors
    ///
    /// [`SocketError::Option`] with the kernel's error.
    pub fn forbid_fragments(&self, forbid: bool) -> Result<(), SocketError> {
        let failed = |source| SocketError::Option { option: "\"don't fragment\"", source };
        sys::forbid_fragments(self.as_fd(), forbid).map_err(failed)?;
        if self.v6 {
            setsockopt(self, sockopt::Ipv6DontFrag, &forbid).map_err(|errno| failed(errno.into()))?;
        }
        self.forbids_fragments.store(forbid, Relaxed);
        Ok(())
    }

    /// The state of the receive buffer, and what the socket has dropped so far, also where nothing arrived since.
    ///
    /// # Errors
    ///
    /// The kernel's error, if it does not say (before Linux 4.12).
    pub fn receive_buffer(&self) -> io::Result<ReceiveBuffer> {
        sys::receive_buffer(self.socket.as_fd())
    }

    /// Messages that the kernel dropped at this socket since it was opened: see [`ReceiveBuffer::dropped_messages`].
    ///
    /// # Errors
    ///
    /// As [`receive_buffer`](Self::receive_buffer).
    pub fn dropped_messages(&self) -> io::Result<u32> {
        self.receive_buffer().map(|buffer| buffer.dropped_messages)
    }
}

impl UdpSocket {
    /// The MTU of the path to the connected peer, as far as the system knows it: that of the first link, until a router reports a
    /// smaller one. `None` if the socket is not connected.
    pub fn path_mtu(&self) -> Option<DataSize> {
        let v6 = self.v6 && self.socket.peer_addr().ok()?.as_socket_ipv6()?.ip().to_ipv4_mapped().is_none();
        let mtu = if v6 {
            sys::path_mtu_v6(self.as_fd())
        } else {
            getsockopt(self, sockopt::IpMtu).map_err(Into::into)
        };
        mtu.ok().and_then(|mtu| u64::try_from(mtu).ok()).map(DataSize::from_bytes)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether a socket with the same setting may be bound to the same port: checked while that one is bound (`udp_lib_lport_inuse` of
/// Linux).
fn share_port(socket: &Socket, share: bool) -> Result<(), SocketError> {
    let failed = |source| SocketError::Option { option: "the sharing of the port", source };
    socket.set_reuse_address(share).map_err(failed)
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => (v4, v6.port()).into(),
            None => address,
        },
        SocketAddr::V4(_) => address,
    })
}

/// Sets the options of `config`; returns what the kernel granted.
fn configure(socket: &Socket, v6: bool, config: &SocketConfig) -> Result<Granted, SocketError> {
    let mut granted = Granted::of_this_system();
    granted.send_buffer_bytes = config.send_buffer.map(|asked| buffer(socket, asked, Direction::Send));
    granted.receive_buffer_bytes =
        config.receive_buffer.map(|asked| buffer(socket, asked, Direction::Receive));
    if config.kernel_timestamps && setsockopt(socket, sockopt::ReceiveTimestampns, &true).is_ok() {
        granted.receive_timestamps = Stamper::Kernel;
    }
    granted.drop_counts = config.drop_counts && setsockopt(socket, sockopt::RxqOvfl, &1).is_ok();
    granted.receive_offload = config.gro && setsockopt(socket, sockopt::UdpGroSegment, &true).is_ok();
    // A size of 0 changes nothing, and shows whether the kernel supports the option.
    granted.segmentation_offload = setsockopt(socket, sockopt::UdpGsoSegment, &0).is_ok();

    config.traffic_class.apply(socket, v6)?;
    granted.receive_traffic_class = config.receive_traffic_class && socket.set_recv_tos_v4(true).is_ok();
    if v6 {
        granted.receive_traffic_class &= socket.set_recv_tclass_v6(true).is_ok();
    }
    config.path.apply(socket, v6)?;
    if config.report_unreachable {
        // Where the kernel refuses, silence tells.
        let _ = setsockopt(socket, sockopt::Ipv4RecvErr, &true);
        if v6 {
            let _ = setsockopt(socket, sockopt::Ipv6RecvErr, &true);
        }
    }
    if config.receive_ttl {
        // Where the kernel refuses, the TTL of arrivals is unknown.
        let _ = setsockopt(socket, sockopt::Ipv4RecvTtl, &true);
        if v6 {
            let _ = setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true);
        }
    }
    Ok(granted)
}

#[derive(Clone, Copy)]
enum Direction {
    Send,
    Receive,
}

/// Requests a buffer of `asked`, with privilege if the ordinary call grants less.
fn buffer(socket: &Socket, asked: DataSize, direction: Direction) -> Asked<u64> {
    let bytes = usize::try_from(asked.as_bytes()).unwrap_or(usize::MAX).min(i32::MAX as usize / 2);
    // The kernel doubles the requested size for its own overhead, and reports the double.
    let read = || match direction {
        Direction::Send => socket.send_buffer_size(),
        Direction::Receive => socket.recv_buffer_size(),
    };
    let granted = || read().map_or(0, |doubled| doubled as u64 / 2);
    let _ = match direction {
        Direction::Send => socket.set_send_buffer_size(bytes),
        Direction::Receive => socket.set_recv_buffer_size(bytes),
    };
    if granted() < bytes as u64 {
        let _ = match direction {
            Direction::Send => setsockopt(socket, sockopt::SndBufForce, &bytes),
            Direction::Receive => setsockopt(socket, sockopt::RcvBufForce, &bytes),
        };
    }
    Asked { asked: asked.as_bytes(), granted: granted() }
}
