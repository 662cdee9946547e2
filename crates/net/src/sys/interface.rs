//! TUN devices, addresses and routes: tun(4), netdevice(7), and `ioctl`s of IPv6 addresses and routes.

use std::{
    ffi::CString,
    fs::File,
    io,
    net::{Ipv4Addr, Ipv6Addr},
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
};

use libc::{c_char, c_int, c_short, ifreq, in6_ifreq, rtentry, sockaddr, sockaddr_in};
use nix::{
    ioctl_readwrite_bad, ioctl_write_int_bad, ioctl_write_ptr_bad,
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
};

ioctl_readwrite_bad!(tun_set_iff, libc::TUNSETIFF, ifreq);
ioctl_write_int_bad!(tun_set_offload, libc::TUNSETOFFLOAD);
ioctl_readwrite_bad!(get_flags, libc::SIOCGIFFLAGS, ifreq);
ioctl_readwrite_bad!(get_index, libc::SIOCGIFINDEX, ifreq);
ioctl_write_ptr_bad!(set_flags, libc::SIOCSIFFLAGS, ifreq);
ioctl_write_ptr_bad!(set_address, libc::SIOCSIFADDR, ifreq);
ioctl_write_ptr_bad!(set_netmask, libc::SIOCSIFNETMASK, ifreq);
ioctl_write_ptr_bad!(set_mtu_of, libc::SIOCSIFMTU, ifreq);
ioctl_write_ptr_bad!(set_queue_length_of, libc::SIOCSIFTXQLEN, ifreq);
ioctl_write_ptr_bad!(set_address_of_v6, libc::SIOCSIFADDR, in6_ifreq);
ioctl_write_ptr_bad!(add_route, libc::SIOCADDRT, rtentry);
ioctl_write_ptr_bad!(add_route_v6, libc::SIOCADDRT, RouteV6);

/// `struct in6_rtmsg` of `linux/ipv6_route.h`, whose fields the C library's bindings keep private.
#[repr(C)]
pub(crate) struct RouteV6 {
    destination: [u8; 16],
    source: [u8; 16],
    gateway: [u8; 16],
    kind: u32,
    destination_length: u16,
    source_length: u16,
    metric: u32,
    info: libc::c_ulong,
    flags: u32,
    interface: c_int,
}

/// Opens the control device of TUN devices, without blocking.
pub(crate) fn open_tun() -> io::Result<OwnedFd> {
    let file = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    Ok(file.into())
}

/// Makes a TUN device with a `virtio_net_hdr` in front of each packet and without packet information, whose name follows `pattern`, in the network namespace of the calling thread.
/// Returns its name. The device exists as long as `file` is open.
pub(crate) fn attach_tun(file: BorrowedFd<'_>, pattern: &str) -> io::Result<String> {
    let mut request = request(pattern)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as c_short;
    // SAFETY: `request` is a valid `ifreq`, which the kernel reads and overwrites.
    unsafe { tun_set_iff(file.as_raw_fd(), &raw mut request) }?;
    let bytes = request.ifr_name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8);
    String::from_utf8(bytes.collect()).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Lets the system hand over many TCP segments or UDP datagrams as one packet, and checksums that are not complete. Segments with CWR
/// (RFC 3168) still come one by one.
pub(crate) fn accept_large_packets(file: BorrowedFd<'_>) {
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    // UDP: since Linux 6.2.
    for features in [tcp | libc::TUN_F_USO4 | libc::TUN_F_USO6, tcp] {
        // SAFETY: the argument is an integer.
        if unsafe { tun_set_offload(file.as_raw_fd(), features as c_int) }.is_ok() {
            return;
        }
    }
}

/// Sets an interface up. Unless `multicast`, it takes no part in multicast from then on.
pub(crate) fn set_up(name: &str, multicast: bool) -> io::Result<()> {
    let control = control(AddressFamily::Inet)?;
    let mut request = request(name)?;
    // SAFETY: `request` is a valid `ifreq`, which the kernel reads and overwrites.
    unsafe { get_flags(control.as_raw_fd(), &raw mut request) }?;
    // SAFETY: the kernel has just written the flags.
    let flags = c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    let kept = if multicast { flags } else { flags & !libc::IFF_MULTICAST };
    request.ifr_ifru.ifru_flags = (kept | libc::IFF_UP) as c_short;
    // SAFETY: `request` is a valid `ifreq`, which the kernel only reads.
    unsafe { set_flags(control.as_raw_fd(), &raw const request) }?;
    Ok(())
}

/// Sets the MTU of an interface, in bytes.
pub(crate) fn set_mtu(name: &str, mtu: i32) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu = mtu;
    // SAFETY: `request` is a valid `ifreq`, which the kernel only reads.
    unsafe { set_mtu_of(control(AddressFamily::Inet)?.as_raw_fd(), &raw const request) }?;
    Ok(())
}

/// Sets the number of packets that may wait in an interface to be sent.
pub(crate) fn set_queue_length(name: &str, packets: i32) -> io::Result<()> {
    let mut request = request(name)?;
    // The kernel reads the length from the place of the MTU: both are an integer at the start of the union.
    request.ifr_ifru.ifru_mtu = packets;
    // SAFETY: `request` is a valid `ifreq`, which the kernel only reads.
    unsafe { set_queue_length_of(control(AddressFamily::Inet)?.as_raw_fd(), &raw const request) }?;
    Ok(())
}

/// Sets the IPv4 address of an interface, and the length of its prefix.
pub(crate) fn set_address_v4(name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let control = control(AddressFamily::Inet)?;
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    let mut request = request(name)?;
    request.ifr_ifru.ifru_addr = name_v4(address);
    // SAFETY: `request` is a valid `ifreq`, which the kernel only reads.
    unsafe { set_address(control.as_raw_fd(), &raw const request) }?;
    request.ifr_ifru.ifru_netmask = name_v4(mask.into());
    // SAFETY: as above.
    unsafe { set_netmask(control.as_raw_fd(), &raw const request) }?;
    Ok(())
}

/// Adds an IPv6 address to an interface, with the length of its prefix.
pub(crate) fn set_address_v6(name: &str, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
    let request = in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
        ifr6_prefixlen: prefix.into(),
        ifr6_ifindex: index(name)?,
    };
    // SAFETY: `request` is a valid `in6_ifreq`, which the kernel only reads.
    unsafe { set_address_of_v6(control(AddressFamily::Inet6)?.as_raw_fd(), &raw const request) }?;
    Ok(())
}

/// Adds an IPv4 default route through an interface.
pub(crate) fn add_default_route_v4(name: &str) -> io::Result<()> {
    let device = CString::new(name)?;
    // SAFETY: `rtentry` is integers, addresses and pointers, which may be zero.
    let mut route: rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = name_v4(Ipv4Addr::UNSPECIFIED);
    route.rt_genmask = name_v4(Ipv4Addr::UNSPECIFIED);
    route.rt_flags = libc::RTF_UP;
    route.rt_dev = device.as_ptr().cast_mut();
    // SAFETY: `route` is a valid `rtentry`, whose name of the device outlives the call; the kernel only reads both.
    unsafe { add_route(control(AddressFamily::Inet)?.as_raw_fd(), &raw const route) }?;
    Ok(())
}

/// Adds an IPv6 default route through an interface.
pub(crate) fn add_default_route_v6(name: &str) -> io::Result<()> {
    let route = RouteV6 {
        destination: [0; 16],
        source: [0; 16],
        gateway: [0; 16],
        kind: 0,
        destination_length: 0,
        source_length: 0,
        metric: 1,
        info: 0,
        flags: libc::RTF_UP.into(),
        interface: index(name)?,
    };
    // SAFETY: `route` is laid out as `in6_rtmsg`, which the kernel only reads.
    unsafe { add_route_v6(control(AddressFamily::Inet6)?.as_raw_fd(), &raw const route) }?;
    Ok(())
}

/// The index of an interface.
fn index(name: &str) -> io::Result<c_int> {
    let mut request = request(name)?;
    // SAFETY: `request` is a valid `ifreq`, which the kernel reads and overwrites.
    unsafe { get_index(control(AddressFamily::Inet)?.as_raw_fd(), &raw mut request) }?;
    // SAFETY: the kernel has just written the index.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// A socket for requests about interfaces, in the network namespace of the calling thread.
fn control(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?)
}

/// A request about an interface.
fn request(name: &str) -> io::Result<ifreq> {
    // SAFETY: `ifreq` is bytes and a union of integers, addresses and pointers, which may be zero.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as c_char;
    }
    Ok(request)
}

fn name_v4(address: Ipv4Addr) -> sockaddr {
    let name = sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: both have 16 bytes, and every bit pattern of a `sockaddr_in` is a valid `sockaddr`.
    unsafe { std::mem::transmute::<sockaddr_in, sockaddr>(name) }
}
