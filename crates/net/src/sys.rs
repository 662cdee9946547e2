//! System calls for which no library has a wrapper in the form that the hot path needs.
//!
//! `nix` has `sendmmsg` and `recvmmsg`. But its reused receive headers keep the shortened control length of
//! the previous message, so that later messages lose their timestamps and strides, and its send headers
//! cannot outlive one borrow of the bytes. Here the headers live on the stack of one call: they point only to
//! data that the caller lends for that call, and nothing is allocated. Names and control messages are plain
//! bytes, read and written by safe code.

#![allow(unsafe_code)]

use std::{
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use nix::errno::Errno;
use serde::Serialize;

pub(crate) mod card;
#[cfg(feature = "emulate")]
pub(crate) mod interface;
pub(crate) mod tcp;

/// Maximum number of messages per call.
pub(crate) const MESSAGES_PER_CALL: usize = 64;

/// Bytes of a `sockaddr_in`.
const NAME_V4: usize = 16;
/// Bytes of a `sockaddr_in6`.
const NAME_V6: usize = 28;

/// An address in the kernel's form: a `sockaddr_in` or a `sockaddr_in6`.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Name {
    bytes: [u8; NAME_V6],
    len: u32,
    /// The address of this machine from which to send there; `None`: the system chooses.
    pub(crate) home: Option<IpAddr>,
}

impl Name {
    /// Space for an address that the kernel writes.
    pub(crate) const EMPTY: Self = Self { bytes: [0; NAME_V6], len: 0, home: None };

    /// `address` for a socket of this family: on an IPv6 socket an IPv4 address is mapped.
    pub(crate) fn of(address: SocketAddr, v6_socket: bool) -> Self {
        match address {
            SocketAddr::V4(v4) if v6_socket => {
                Self::of_v6(SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0))
            }
            SocketAddr::V4(v4) => {
                let mut name = Self { len: NAME_V4 as u32, ..Self::EMPTY };
                name.put(0, &(libc::AF_INET as u16).to_ne_bytes());
                name.put(2, &v4.port().to_be_bytes());
                name.put(4, &v4.ip().octets());
                name
            }
            SocketAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    fn of_v6(v6: SocketAddrV6) -> Self {
        let mut name = Self { len: NAME_V6 as u32, ..Self::EMPTY };
        name.put(0, &(libc::AF_INET6 as u16).to_ne_bytes());
        name.put(2, &v6.port().to_be_bytes());
        name.put(4, &v6.flowinfo().to_ne_bytes());
        name.put(8, &v6.ip().octets());
        name.put(24, &v6.scope_id().to_ne_bytes());
        name
    }

    fn put(&mut self, at: usize, field: &[u8]) {
        if let Some(room) = self.bytes.get_mut(at..at + field.len()) {
            room.copy_from_slice(field);
        }
    }

    /// The address, an IPv4-mapped one as IPv4; `None` if the kernel wrote none.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let family = libc::c_int::from(u16::from_ne_bytes(array(&self.bytes, 0)?));
        let port = u16::from_be_bytes(array(&self.bytes, 2)?);
        match (family, self.len as usize) {
            (libc::AF_INET, NAME_V4..) => {
                let octets: [u8; 4] = array(&self.bytes, 4)?;
                Some(SocketAddrV4::new(Ipv4Addr::from(octets), port).into())
            }
            (libc::AF_INET6, NAME_V6..) => {
                let octets: [u8; 16] = array(&self.bytes, 8)?;
                let ip = Ipv6Addr::from(octets);
                if let Some(v4) = ip.to_ipv4_mapped() {
                    return Some(SocketAddrV4::new(v4, port).into());
                }
                let flow = u32::from_ne_bytes(array(&self.bytes, 4)?);
                let scope = u32::from_ne_bytes(array(&self.bytes, 24)?);
                Some(SocketAddrV6::new(ip, port, flow, scope).into())
            }
            _ => None,
        }
    }
}

/// The `N` bytes that begin at `at`.
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Bytes of the header of a control message: length, level, type.
const CONTROL_HEADER: usize = mem::size_of::<usize>() + 8;

/// What is requested for the messages of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendOption {
    /// Each message is split into datagrams of so many bytes.
    Segment(u16),
    /// DSCP and ECN, to an IPv4 address.
    ClassV4(u8),
    /// The same to an IPv6 address.
    ClassV6(u8),
    /// The kernel sends each message at this time, on the clock of `SO_TXTIME`.
    LaunchAt(u64),
}

/// Control messages of one datagram: space for the timestamps of the kernel and of a card, a drop count, a stride, two traffic classes,
/// a TTL and two addresses; or for an error.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Control {
    bytes: [u8; 384],
    len: usize,
}

impl Control {
    /// Space for control messages that the kernel writes.
    pub(crate) const EMPTY: Self = Self { bytes: [0; 384], len: 0 };

    /// The control messages that request `option`, and `home` as the source address.
    fn of(option: Option<SendOption>, home: Option<IpAddr>) -> Self {
        let mut control = Self::EMPTY;
        // `struct in_pktinfo` and `struct in6_pktinfo`: the system chooses the interface.
        match home {
            Some(IpAddr::V4(home)) => {
                let [a, b, c, d] = home.octets();
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &[0, 0, 0, 0, a, b, c, d, 0, 0, 0, 0]);
            }
            Some(IpAddr::V6(home)) => {
                let mut info = [0; 20];
                info.iter_mut().zip(home.octets()).for_each(|(place, byte)| *place = byte);
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        let Some(option) = option else { return control };
        let (level, kind, value): (_, _, &[u8]) = match option {
            SendOption::Segment(segment) => (libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes()),
            SendOption::ClassV4(class) => (libc::IPPROTO_IP, libc::IP_TOS, &i32::from(class).to_ne_bytes()),
            SendOption::ClassV6(class) => {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &i32::from(class).to_ne_bytes())
            }
            SendOption::LaunchAt(nanos) => (libc::SOL_SOCKET, libc::SCM_TXTIME, &nanos.to_ne_bytes()),
        };
        control.push(level, kind, value);
        control
    }

    fn push(&mut self, level: i32, kind: i32, value: &[u8]) {
        let length = CONTROL_HEADER + value.len();
        let mut at = self.len;
        for field in [&length.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), value] {
            if let Some(room) = self.bytes.get_mut(at..at + field.len()) {
                room.copy_from_slice(field);
            }
            at += field.len();
        }
        self.len += length.next_multiple_of(mem::size_of::<usize>());
    }

    /// Control messages as the kernel wrote them.
    #[cfg(test)]
    pub(crate) fn recorded(messages: &[u8]) -> Self {
        let mut control = Self { len: messages.len(), ..Self::EMPTY };
        control.bytes[..messages.len()].copy_from_slice(messages);
        control
    }

    /// Each control message as (level, type, content).
    pub(crate) fn messages(&self) -> impl Iterator<Item = (i32, i32, &[u8])> {
        let mut rest = self.bytes.get(..self.len).unwrap_or(&self.bytes);
        std::iter::from_fn(move || {
            let len = usize::from_ne_bytes(array(rest, 0)?);
            let level = i32::from_ne_bytes(array(rest, mem::size_of::<usize>())?);
            let kind = i32::from_ne_bytes(array(rest, mem::size_of::<usize>() + 4)?);
            let content = rest.get(CONTROL_HEADER..len)?;
            rest = rest.get(len.next_multiple_of(mem::size_of::<usize>())..).unwrap_or(&[]);
            Some((level, kind, content))
        })
    }
}

/// The metadata of one received message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) len: usize,
    pub(crate) name: Name,
    pub(crate) control: Control,
    pub(crate) flags: i32,
}

impl Slot {
    pub(crate) const EMPTY: Self = Self { len: 0, name: Name::EMPTY, control: Control::EMPTY, flags: 0 };
}

fn blank_headers() -> [libc::mmsghdr; MESSAGES_PER_CALL] {
    // SAFETY: `mmsghdr` is integers and pointers; all of them may be zero.
    unsafe { mem::zeroed() }
}

/// Sends up to [`MESSAGES_PER_CALL`] of `messages` without waiting. Returns the number that the kernel
/// accepted.
pub(crate) fn send_messages<'a>(
    fd: BorrowedFd<'_>,
    to: Option<&Name>,
    messages: impl Iterator<Item = &'a [u8]>,
    option: Option<SendOption>,
) -> Result<usize, Errno> {
    let home = to.and_then(|name| name.home);
    let mut control = (option.is_some() || home.is_some()).then(|| Control::of(option, home));
    let mut headers = blank_headers();
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MESSAGES_PER_CALL];
    let mut count: usize = 0;
    for ((header, part), message) in headers.iter_mut().zip(parts.iter_mut()).zip(messages) {
        part.iov_base = message.as_ptr().cast_mut().cast();
        part.iov_len = message.len();
        let header = &mut header.msg_hdr;
        header.msg_iov = part;
        header.msg_iovlen = 1;
        if let Some(name) = to {
            header.msg_name = name.bytes.as_ptr().cast_mut().cast();
            header.msg_namelen = name.len;
        }
        if let Some(control) = &mut control {
            header.msg_control = control.bytes.as_mut_ptr().cast();
            header.msg_controllen = control.len as _;
        }
        count += 1;
    }
    // SAFETY: the first `count` headers are filled in; they point to `parts`, `control`, `to` and the messages, all of
    // which outlive the call. The kernel only reads through those pointers when it sends.
    let sent = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            // musl declares the flags unsigned.
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    Errno::result(sent).map(|sent| sent as usize)
}

/// Reads up to [`MESSAGES_PER_CALL`] queued messages, without waiting for more: one into each `stride` bytes
/// of `bytes`, described by the slot of the same index. Returns their number, at least one.
pub(crate) fn receive_messages(
    fd: BorrowedFd<'_>,
    bytes: &mut [u8],
    stride: usize,
    slots: &mut [Slot],
) -> Result<usize, Errno> {
    receive_flagged(fd, bytes, stride, slots, 0)
}

/// The same, with more flags of recv(2).
pub(crate) fn receive_flagged(
    fd: BorrowedFd<'_>,
    bytes: &mut [u8],
    stride: usize,
    slots: &mut [Slot],
    flags: libc::c_int,
) -> Result<usize, Errno> {
    let mut headers = blank_headers();
    let mut parts = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MESSAGES_PER_CALL];
    let mut count: usize = 0;
    for (((header, part), room), slot) in headers
        .iter_mut()
        .zip(parts.iter_mut())
        .zip(bytes.chunks_exact_mut(stride.max(1)))
        .zip(slots.iter_mut())
    {
        part.iov_base = room.as_mut_ptr().cast();
        part.iov_len = room.len();
        let header = &mut header.msg_hdr;
        header.msg_iov = part;
        header.msg_iovlen = 1;
        header.msg_name = slot.name.bytes.as_mut_ptr().cast();
        header.msg_namelen = NAME_V6 as u32;
        header.msg_control = slot.control.bytes.as_mut_ptr().cast();
        header.msg_controllen = slot.control.bytes.len() as _;
        count += 1;
    }
    // SAFETY: the first `count` headers are filled in; they point to `parts` and, with their true lengths, to separate
    // pieces of `bytes` and `slots`, which are borrowed exclusively and outlive the call. Every bit pattern is a valid byte.
    // A null timeout means none.
    let received = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            (libc::MSG_DONTWAIT | flags) as _,
            std::ptr::null_mut(),
        )
    };
    let received = Errno::result(received)? as usize;
    for (header, slot) in headers.iter().zip(slots.iter_mut()).take(received) {
        slot.len = (header.msg_len as usize).min(stride);
        slot.name.len = header.msg_hdr.msg_namelen;
        slot.control.len = control_len(&header.msg_hdr);
        slot.flags = header.msg_hdr.msg_flags;
    }
    Ok(received)
}

// The C library decides the type of this length.
#[allow(clippy::unnecessary_cast)]
fn control_len(header: &libc::msghdr) -> usize {
    header.msg_controllen as usize
}

/// The receive buffer of a socket, as the kernel accounts for it: its overhead for each message is included, which may be many
/// times the size of a small one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveBuffer {
    /// What it holds, in bytes.
    pub held_bytes: u32,
    /// What it can hold, in bytes.
    pub room_bytes: u32,
    /// Messages that the socket dropped since it was opened: its buffer was full, or a checksum was wrong. A group of datagrams
    /// counts once. It wraps.
    pub dropped_messages: u32,
}

/// The state of a socket's receive buffer.
pub(crate) fn receive_buffer(fd: BorrowedFd<'_>) -> io::Result<ReceiveBuffer> {
    // SK_MEMINFO_VARS in linux/sock_diag.h; SK_MEMINFO_DROPS is the last of them.
    const VARS: usize = 9;
    let mut info = [0_u32; VARS];
    let mut len = mem::size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `info`, which is that long, and `len` itself.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    Errno::result(result)?;
    let [held_bytes, room_bytes, .., dropped_messages] = info;
    if len as usize == mem::size_of_val(&info) {
        Ok(ReceiveBuffer { held_bytes, room_bytes, dropped_messages })
    } else {
        Err(Errno::ENOPROTOOPT.into())
    }
}

/// Has the system refuse what does not fit the path MTU of an IPv4 path, or lets it and every router fragment that: ip(7).
pub(crate) fn forbid_fragments(fd: BorrowedFd<'_>, forbid: bool) -> io::Result<()> {
    let mode = if forbid { libc::IP_PMTUDISC_DO } else { libc::IP_PMTUDISC_DONT };
    set_integer(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, mode)
}

/// Has the flow label of each IPv6 destination be sent: ipv6(7). Since Linux 5.3 a label needs no registration unless a program on the
/// machine holds one exclusively.
pub(crate) fn send_flow_labels(socket: &impl AsFd) -> io::Result<()> {
    set_integer(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1)
}

/// `struct group_source_req` of RFC 3678 §5.1.2.
#[repr(C)]
struct GroupSourceRequest {
    interface: u32,
    group: Storage,
    source: Storage,
}

/// `struct sockaddr_storage`.
#[repr(C)]
struct Storage {
    aligned: [usize; 0],
    bytes: [u8; mem::size_of::<libc::sockaddr_storage>()],
}

impl Storage {
    fn of(ip: IpAddr) -> Self {
        let name = Name::of(SocketAddr::new(ip, 0), false);
        let mut storage = Self { aligned: [], bytes: [0; mem::size_of::<libc::sockaddr_storage>()] };
        storage.bytes.iter_mut().zip(name.bytes).for_each(|(place, byte)| *place = byte);
        storage
    }
}

/// Joins a multicast group for what one source sends; interface 0 is that of the route to the group.
pub(crate) fn join_source_group(
    socket: &impl AsFd,
    group: IpAddr,
    source: IpAddr,
    interface: u32,
) -> io::Result<()> {
    // RFC 3678 §5.1.3; the number is that of linux/in.h, which `libc` does not have for every system.
    const MCAST_JOIN_SOURCE_GROUP: libc::c_int = 46;
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let request = GroupSourceRequest { interface, group: Storage::of(group), source: Storage::of(source) };
    set_option(socket.as_fd(), level, MCAST_JOIN_SOURCE_GROUP, &request)
}

/// Has the kernel timestamp as these flags say: `Documentation/networking/timestamping.rst` of Linux.
pub(crate) fn set_timestamping(fd: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    set_integer(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as libc::c_int)
}

fn set_integer(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    set_option(fd, level, option, &value)
}

fn set_option<T>(fd: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `len` bytes of `value`, which is that long.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            mem::size_of_val(value) as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Dissolves the association of a connected socket, and with it its local address: connect(2).
pub(crate) fn disconnect(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `sockaddr` is integers and characters; all of them may be zero.
    let mut nobody: libc::sockaddr = unsafe { mem::zeroed() };
    nobody.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    let len = mem::size_of_val(&nobody) as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `nobody`, which is that long.
    let result = unsafe { libc::connect(fd.as_raw_fd(), &raw const nobody, len) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Has the system send without fragments, and without regard to what it believes of the path's MTU: ip(7), ipv6(7).
pub(crate) fn probe_path(fd: BorrowedFd<'_>, v6: bool) -> io::Result<()> {
    set_integer(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    if v6 {
        set_integer(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        set_integer(fd, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
    }
    Ok(())
}

/// The MTU of an interface: netdevice(7).
pub(crate) fn interface_mtu(fd: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    // SAFETY: `ifreq` is integers, characters and a union of these and pointers; all of them may be zero.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last character stays 0.
    let room = request.ifr_name.len() - 1;
    for (place, byte) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    // SAFETY: the kernel reads the name of `request`, which ends with 0, and writes its MTU.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    Errno::result(result)?;
    // SAFETY: the call has succeeded, so that the field was written; any bits are an integer.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(io::Error::other)
}

/// The path MTU of a socket that is connected over IPv6: ipv6(7).
pub(crate) fn path_mtu_v6(fd: BorrowedFd<'_>) -> io::Result<libc::c_int> {
    let mut mtu: libc::c_int = 0;
    let mut len = mem::size_of_val(&mtu) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `mtu`, which is that long, and `len` itself.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU,
            (&raw mut mtu).cast(),
            &raw mut len,
        )
    };
    Errno::result(result)?;
    Ok(mtu)
}

/// Requests the real-time class `SCHED_FIFO` at `priority` for the calling thread.
pub(crate) fn ask_realtime(priority: u8) -> io::Result<()> {
    // SAFETY: `sched_param` is integers, which may be zero.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = priority.into();
    // SAFETY: 0 names the calling thread, and the parameters are only read.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Returns the calling thread to the ordinary class.
pub(crate) fn leave_realtime() -> io::Result<()> {
    // SAFETY: `sched_param` is integers, which may be zero, as the ordinary class wants them.
    let parameters: libc::sched_param = unsafe { mem::zeroed() };
    // SAFETY: 0 names the calling thread, and the parameters are only read.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Requests a time slice of `nanos` for the calling thread in its ordinary class. Returns the granted slice.
///
/// A thread with a short slice runs sooner after it wakes and must yield sooner: EEVDF, Linux 6.12. No
/// privilege is needed. See `Documentation/scheduler/sched-eevdf.rst` and `sched_setattr(2)`.
pub(crate) fn ask_slice(nanos: u64) -> io::Result<u64> {
    let mut attributes = thread_attributes()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Err(Errno::EINVAL.into());
    }
    attributes.sched_runtime = nanos;
    // SAFETY: 0 names the calling thread; the attributes are only read, and tell their own size.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    Errno::result(result)?;
    thread_attributes().map(|attributes| attributes.sched_runtime)
}

fn thread_attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: `sched_attr` is integers, which may be zero.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let size = mem::size_of_val(&attributes);
    // SAFETY: 0 names the calling thread; the kernel writes at most `size` bytes into `attributes`, which is that long.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    Errno::result(result)?;
    Ok(attributes)
}

/// The accuracy of the system's clock, as a time service has reported it to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Synchronisation {
    /// A time service keeps the clock synchronised.
    pub synchronised: bool,
    /// The service's estimate of the error, in microseconds. Meaningless if `synchronised` is false.
    pub estimated_error_us: u64,
    /// A bound on the error, in microseconds. The kernel raises it by 500 ppm from one update to the next.
    pub maximum_error_us: u64,
    /// TAI less UTC, in seconds: 37 since 2017. 0 if the kernel does not know it.
    pub tai_offset_s: i32,
}

/// The state of the kernel's clock.
pub(crate) fn clock_discipline() -> io::Result<Synchronisation> {
    // SAFETY: `timex` is integers, which may be zero; with no mode set the call only reads the kernel's state.
    let mut state: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: `state` is a valid `timex` that the kernel may overwrite.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    Errno::result(result)?;
    let synchronised = state.status & libc::STA_UNSYNC == 0 && result != libc::TIME_ERROR;
    Ok(Synchronisation {
        synchronised,
        estimated_error_us: u64::try_from(state.esterror).unwrap_or(0),
        maximum_error_us: u64::try_from(state.maxerror).unwrap_or(0),
        tai_offset_s: state.tai,
    })
}
