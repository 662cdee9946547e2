//! The shell of a network namespace: a TUN device at each end of the links.

use std::{
    fs,
    io::{self, IoSlice},
    net::{Ipv4Addr, Ipv6Addr},
    os::fd::{AsFd, OwnedFd},
};

use giusto_units::Timestamp;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags},
    sys::uio,
    unistd,
};

use super::{
    emulator::{Arrival, Delivery},
    ip,
    live::{Sent, Shell},
    offload::{self, HEADER_BYTES, Joined, Offload, Piece},
};
use crate::{clock::Clock, sys::interface};

/// The most bytes of an IP packet without jumbograms: RFC 791 §3.1, RFC 8200 §3.
const MAX_PACKET: usize = 65_535 + 40;
/// Packets read from a device at a time; the parts of a large packet count.
const BATCH: usize = 64;
/// Packets that wait in a device to be read; a burst while the thread sleeps fits.
const QUEUE_LENGTH: i32 = 4096;

/// A device that cannot be made or configured.
#[derive(Debug, thiserror::Error)]
#[error("TUN device {name}: cannot {step}: {source}")]
pub struct InterfaceError {
    /// The device.
    pub name: String,
    /// What failed.
    pub step: &'static str,
    /// The system's error.
    pub source: io::Error,
}

/// The configuration of a [`TunDevice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunConfig {
    /// IPv4 address and the length of its prefix.
    pub v4: (Ipv4Addr, u8),
    /// IPv6 address and the length of its prefix; `None` for no IPv6.
    pub v6: Option<(Ipv6Addr, u8)>,
    /// The largest packet, in bytes: 1280 or more for IPv6.
    pub mtu: u16,
    /// Whether everything without a better route leaves through it.
    pub default_route: bool,
}

/// A TUN device, which exists as long as this value.
#[derive(Debug)]
pub struct TunDevice {
    file: OwnedFd,
    name: String,
}

impl TunDevice {
    /// Makes a device in the network namespace of the calling thread, and gives it the next free name of `giusto0`, `giusto1`, ….
    /// It is down and has no address.
    ///
    /// # Errors
    ///
    /// [`InterfaceError`] names the step that failed: the kernel has no TUN devices, or a right is missing.
    pub fn create() -> Result<Self, InterfaceError> {
        const PATTERN: &str = "giusto%d";
        let failed = |step| move |source| InterfaceError { name: PATTERN.to_owned(), step, source };
        let file = interface::open_tun().map_err(failed("open /dev/net/tun"))?;
        let name = interface::attach_tun(file.as_fd(), PATTERN).map_err(failed("create it"))?;
        // Without large packets every packet costs more: a matter of performance.
        interface::accept_large_packets(file.as_fd());
        Ok(Self { file, name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number in its name.
    pub fn number(&self) -> u8 {
        let digits = self.name.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.parse().unwrap_or(u8::MAX)
    }

    /// Gives it its addresses and sets it up. Call it in a thread of its namespace.
    ///
    /// It takes part in no multicast and has no link-local address, so that only the programs' packets cross it.
    ///
    /// # Errors
    ///
    /// [`InterfaceError`] names the step that failed.
    pub fn configure(&self, config: &TunConfig) -> Result<(), InterfaceError> {
        let name = &self.name;
        let step = |step, result: io::Result<()>| {
            result.map_err(|source| InterfaceError { name: name.clone(), step, source })
        };
        if config.v6.is_some() {
            // Without them the kernel would send router solicitations. A kernel that lacks a setting does without.
            for (setting, value) in
                [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_ra", "0")]
            {
                let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{setting}"), value);
            }
        }
        step("set its MTU", interface::set_mtu(name, config.mtu.into()))?;
        // A shorter queue is a matter of performance.
        let _ = interface::set_queue_length(name, QUEUE_LENGTH);
        step("set its IPv4 address", interface::set_address_v4(name, config.v4.0, config.v4.1))?;
        step("set it up", interface::set_up(name, false))?;
        if let Some((address, prefix)) = config.v6 {
            step("set its IPv6 address", interface::set_address_v6(name, address, prefix))?;
        }
        if config.default_route {
            step("add the IPv4 default route", interface::add_default_route_v4(name))?;
            if config.v6.is_some() {
                step("add the IPv6 default route", interface::add_default_route_v6(name))?;
            }
        }
        Ok(())
    }

    /// Packets that the kernel dropped because too many waited to be read. Call it in a thread of the device's namespace.
    pub fn dropped_packets(&self) -> Option<u64> {
        Self::dropped_packets_of(&self.name)
    }

    /// The same of the device of this name in the namespace of the calling thread.
    pub fn dropped_packets_of(name: &str) -> Option<u64> {
        // The columns of proc_pid_net(5): eight of received packets, then bytes, packets, errors and drops of those sent.
        const TRANSMIT_DROPS: usize = 11;
        let table = fs::read_to_string("/proc/thread-self/net/dev").ok()?;
        let line = table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().nth(TRANSMIT_DROPS)?.parse().ok()
    }

    /// Sets the loopback interface of the calling thread's namespace up.
    ///
    /// # Errors
    ///
    /// [`InterfaceError`] with the system's error.
    pub fn set_loopback_up() -> Result<(), InterfaceError> {
        let failed = |source| InterfaceError { name: "lo".to_owned(), step: "set it up", source };
        interface::set_up("lo", true).map_err(failed)
    }
}

giusto_units::defaults! {
    /// Two TUN devices at the ends of links: packets of the near one take route 0, those of the far one route 1.
    #[derive(Debug)]
    pub struct TunShell {
        near: TunDevice = near,
        far: TunDevice = far,
        /// Devices that were removed: the near one and the far one.
        gone: [bool; 2] = [false; 2],
        buffer: Box<[u8]> = vec![0; HEADER_BYTES + MAX_PACKET].into(),
        /// Space for a part of a large packet.
        part: Vec<u8> = Vec::new(),
        /// Large packets read so far.
        large: u64 = 0,
        joined: Joined = Joined::default(),
        /// Packets of what was joined that the system did not accept, since the last flush.
        refused: u64 = 0,
        foreign_packets: u64 = 0,
    }
    /// A shell of two devices.
    pub fn new(near: TunDevice, far: TunDevice);
}

impl TunShell {
    /// The device at the far end.
    pub const fn far(&self) -> &TunDevice {
        &self.far
    }

    /// The device at the near end.
    pub const fn near(&self) -> &TunDevice {
        &self.near
    }

    /// Packets that were no IP and did not enter the links.
    pub const fn foreign_packets(&self) -> u64 {
        self.foreign_packets
    }
}

impl Shell for TunShell {
    type Tag = Piece;

    fn descriptors<'a>(&'a self, ready: &mut Vec<PollFd<'a>>) {
        for (device, gone) in [&self.near, &self.far].into_iter().zip(self.gone) {
            // It would be readable for ever.
            if gone {
                continue;
            }
            ready.push(PollFd::new(device.file.as_fd(), PollFlags::POLLIN));
        }
    }

    fn receive(&mut self, clock: Clock, mut arrive: impl FnMut(Timestamp, Arrival<Piece>, &[u8])) -> bool {
        let Self { near, far, gone, buffer, part, large, foreign_packets, .. } = self;
        let mut any = false;
        for ((route, device), gone) in [&*near, &*far].into_iter().enumerate().zip(gone) {
            let mut packets = 0;
            while packets < BATCH {
                let length = match unistd::read(&device.file, buffer) {
                    Ok(length) => length,
                    Err(Errno::EINTR) => continue,
                    Err(Errno::EAGAIN) => break,
                    Err(_) => {
                        *gone = true;
                        break;
                    }
                };
                any = true;
                packets += 1;
                let content = buffer.get(..length).and_then(|read| read.split_first_chunk::<HEADER_BYTES>());
                let known = content.and_then(|(header, content)| Some((header, content, ip::read(content)?)));
                let Some((header, content, packet)) = known else {
                    *foreign_packets += 1;
                    continue;
                };
                let now = clock.now();
                *large += 1;
                packets -= 1;
                offload::split(content, Offload::from_bytes(*header), *large, part, |bytes, tag| {
                    packets += 1;
                    let size = bytes.len() as u32;
                    let arrival = Arrival { route, bytes: size, ecn: packet.ecn, flow: packet.flow, tag };
                    arrive(now, arrival, bytes);
                });
            }
        }
        any
    }

    fn send(&mut self, delivery: &mut Delivery<Piece>) -> Sent {
        if ip::ecn(&delivery.bytes) != Some(delivery.ecn) {
            ip::set_ecn(&mut delivery.bytes, delivery.ecn);
        }
        if delivery.corruption != 0 {
            // It leaves by itself, with a checksum that the system has to verify.
            offload::corrupt(&mut delivery.bytes, delivery.tag, delivery.corruption);
            delivery.tag = Piece::default();
        }
        let Delivery { route, ecn, tag, ref bytes, .. } = *delivery;
        if tag.is_part() && self.joined.push(route, tag, ecn, bytes) {
            return Sent::Held;
        }
        self.send_joined();
        if tag.is_part() && self.joined.push(route, tag, ecn, bytes) {
            return Sent::Held;
        }
        if self.write(route, offload::alone(tag), bytes) { Sent::Accepted } else { Sent::Refused }
    }

    fn flush(&mut self) -> u64 {
        self.send_joined();
        std::mem::take(&mut self.refused)
    }
}

impl TunShell {
    fn send_joined(&mut self) {
        let pieces = self.joined.pieces();
        if pieces == 0 {
            return;
        }
        let route = self.joined.route();
        let mut joined = std::mem::take(&mut self.joined);
        let (header, bytes) = joined.take();
        if !self.write(route, header, bytes) {
            self.refused += u64::from(pieces);
        }
        // Its buffer is used again.
        self.joined = joined;
    }

    /// Whether the system accepted a packet at the end of `route`.
    fn write(&self, route: usize, header: Offload, bytes: &[u8]) -> bool {
        let device = if route == 0 { &self.far } else { &self.near };
        let header = header.to_bytes();
        loop {
            match uio::writev(&device.file, &[IoSlice::new(&header), IoSlice::new(bytes)]) {
                Err(Errno::EINTR) => {}
                // EIO: the interface is down.
                written => return written.is_ok(),
            }
        }
    }
}
