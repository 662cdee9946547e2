//! Departures that the kernel times: `SO_TXTIME` (socket(7)), where the interface has the qdisc fq or etf.

use std::{
    fmt,
    io::{self, Read},
    net::{IpAddr, SocketAddr},
};

use giusto_units::Timestamp;
use nix::{
    net::if_::if_indextoname,
    sys::socket::{setsockopt, sockopt},
    time::ClockId,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::{SendError, UdpSocket};
use crate::{
    clock::{self, Clock},
    sys::SendOption,
};

/// A queueing discipline that sends each datagram at its launch time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pacer {
    /// tc-fq(8), by `CLOCK_MONOTONIC`.
    Fq,
    /// tc-etf(8), by `CLOCK_TAI`. It drops what has no launch time, such as messages that are answered.
    Etf,
}

/// How the kernel times the departures of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    pacer: Pacer,
}

/// Why the kernel cannot time the departures of a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The interface has another qdisc.
    #[error("{interface} has {qdisc}, not fq or etf (tc qdisc replace dev {interface} root fq)")]
    Qdisc {
        /// The interface of the route.
        interface: String,
        /// Its root qdisc.
        qdisc: String,
    },
    /// The kernel does not say which interface or which qdisc it uses.
    #[error("the kernel does not say which qdisc the route to {to} has: {source}")]
    Unknown {
        /// The receiver.
        to: IpAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel has no `SO_TXTIME` (before Linux 4.19), or etf needs a right that the program lacks.
    #[error("the kernel refuses SO_TXTIME ({0}): Linux 4.19 is needed, and CAP_NET_ADMIN for etf")]
    Refused(io::Error),
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.pacer {
            Pacer::Fq => "fq",
            Pacer::Etf => "etf",
        })
    }
}

impl UdpSocket {
    /// Lets the kernel time the departures to `to`, if the interface of the route can.
    ///
    /// # Errors
    ///
    /// [`LaunchError`] gives the reason; then the caller has to time them itself.
    pub fn launch_by_kernel(&self, to: IpAddr) -> Result<Launch, LaunchError> {
        let unknown = |source| LaunchError::Unknown { to, source };
        let index = interface_to(to).map_err(unknown)?;
        let qdiscs = ask(&QDISCS, true).map_err(unknown)?;
        let name = || {
            if_indextoname(index)
                .map_or_else(|_| index.to_string(), |name| name.to_string_lossy().into_owned())
        };
        let pacer =
            pacer_of(&qdiscs, index).map_err(|qdisc| LaunchError::Qdisc { interface: name(), qdisc })?;
        self.launch_by(pacer)
    }

    fn launch_by(&self, pacer: Pacer) -> Result<Launch, LaunchError> {
        let clock = match pacer {
            Pacer::Fq => libc::CLOCK_MONOTONIC,
            Pacer::Etf => libc::CLOCK_TAI,
        };
        setsockopt(self, sockopt::TxTime, &libc::sock_txtime { clockid: clock, flags: 0 })
            .map_err(|errno| LaunchError::Refused(errno.into()))?;
        Ok(Launch { pacer })
    }

    /// As if the route had fq.
    #[cfg(test)]
    pub(crate) fn launch_as_by_fq(&self) -> Launch {
        self.launch_by(Pacer::Fq).unwrap()
    }

    /// Hands over datagrams as [`send_varied`](Self::send_varied) does; the kernel sends them at `at`.
    ///
    /// # Errors
    ///
    /// As [`send_varied`](Self::send_varied).
    pub fn send_launched(
        &self,
        to: Option<SocketAddr>,
        bytes: &[u8],
        lengths: &[usize],
        at: LaunchTime,
    ) -> Result<usize, SendError> {
        self.send_run(to, Some(SendOption::LaunchAt(at.0)), bytes, lengths)
    }
}

/// A launch time on the clock of a [`Launch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchTime(u64);

impl Launch {
    /// The launch time `at`.
    pub fn at(self, clock: Clock, at: Timestamp) -> LaunchTime {
        let monotonic = clock.origin_monotonic_nanos().saturating_add(at.as_nanos());
        LaunchTime(match self.pacer {
            Pacer::Fq => monotonic,
            // Both clocks have one speed; the time may be set between two readings of their distance.
            Pacer::Etf => {
                let now = clock::read(ClockId::CLOCK_MONOTONIC);
                monotonic.wrapping_add(clock::read(ClockId::from_raw(libc::CLOCK_TAI)).wrapping_sub(now))
            }
        })
    }
}

/// `linux/rtnetlink.h`: messages, and attributes of them.
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const TCA_KIND: u16 = 1;
const TC_H_ROOT: u32 = u32::MAX;
/// The lengths of `struct nlmsghdr`, `struct rtmsg` and `struct tcmsg`.
const MESSAGE_HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;
const QDISC_HEADER: usize = 20;

/// A request for all qdiscs.
const QDISCS: ([u8; QDISC_HEADER], u16) = ([0; QDISC_HEADER], RTM_GETQDISC);

/// The interface of the route to `to`.
pub(super) fn interface_to(to: IpAddr) -> io::Result<u32> {
    let (family, address) = match to.to_canonical() {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let mut body = vec![0; ROUTE_HEADER];
    // `rtm_family` and `rtm_dst_len`.
    if let [of_family, length, ..] = &mut body[..] {
        (*of_family, *length) = (family as u8, (address.len() * 8) as u8);
    }
    body.extend(((address.len() + 4) as u16).to_ne_bytes());
    body.extend(RTA_DST.to_ne_bytes());
    body.extend(address);
    let answer = ask(&(body, RTM_GETROUTE), false)?;
    messages(&answer)
        .filter(|(kind, _)| *kind == RTM_NEWROUTE)
        .find_map(|(_, body)| {
            let mut attributes = attributes(body.get(ROUTE_HEADER..)?);
            let (_, content) = attributes.find(|(kind, _)| *kind == RTA_OIF)?;
            Some(u32::from_ne_bytes(content.try_into().ok()?))
        })
        .ok_or_else(|| io::ErrorKind::NetworkUnreachable.into())
}

/// Asks rtnetlink(7); with `dump` for everything of a kind.
fn ask<B: AsRef<[u8]>>(request: &(B, u16), dump: bool) -> io::Result<Vec<u8>> {
    /// More than the kernel writes at once.
    const READ: usize = 65_536;
    let socket =
        Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
    let (body, kind) = (request.0.as_ref(), request.1);
    let flags = libc::NLM_F_REQUEST | if dump { libc::NLM_F_DUMP } else { 0 };
    let mut message = Vec::with_capacity(MESSAGE_HEADER + body.len());
    message.extend(((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    socket.send(&message)?;
    let (mut all, mut piece) = (Vec::new(), vec![0; READ]);
    loop {
        let read = (&socket).read(&mut piece)?;
        let piece = piece.get(..read).unwrap_or_default();
        all.extend_from_slice(piece);
        for (kind, body) in messages(piece) {
            if i32::from(kind) == libc::NLMSG_ERROR {
                let code = body.get(..4).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
                return if code == 0 { Ok(all) } else { Err(io::Error::from_raw_os_error(-code)) };
            }
            if i32::from(kind) == libc::NLMSG_DONE || !dump {
                return Ok(all);
            }
        }
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Each message with its type.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(rest.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(rest.get(4..6)?.try_into().ok()?);
        let body = rest.get(MESSAGE_HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Each attribute with its type.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?);
        let content = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, content))
    })
}

/// What times departures of the interface `index`: its root qdisc, or those of all its queues under mq. Otherwise the names of the
/// qdiscs that do not.
fn pacer_of(answer: &[u8], index: u32) -> Result<Pacer, String> {
    let field = |body: &[u8], at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let mut qdiscs = Vec::new();
    for (kind, body) in messages(answer) {
        if kind == RTM_NEWQDISC && field(body, 4) == Some(index) {
            let name = attributes(body.get(QDISC_HEADER..).unwrap_or_default())
                .find(|(kind, _)| *kind == TCA_KIND)
                .map(|(_, name)| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned());
            qdiscs.push((field(body, 12) == Some(TC_H_ROOT), name.unwrap_or_default()));
        }
    }
    let root = qdiscs.iter().find(|(is_root, _)| *is_root).map(|(_, name)| name.as_str());
    let (names, prefix): (Vec<&str>, _) = match root {
        Some("mq") => {
            (qdiscs.iter().filter(|(is_root, _)| !is_root).map(|(_, name)| name.as_str()).collect(), "mq of ")
        }
        Some(name) => (vec![name], ""),
        None => (vec!["none"], ""),
    };
    match names.first() {
        Some(&"fq") if names.iter().all(|name| *name == "fq") => Ok(Pacer::Fq),
        Some(&"etf") if names.iter().all(|name| *name == "etf") => Ok(Pacer::Etf),
        _ => {
            let other = names.iter().find(|name| !["fq", "etf"].contains(name)).or(names.first());
            Err(format!("{prefix}{}", other.unwrap_or(&"none")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SocketConfig;

    /// The answer of Linux 6.18 to a dump of qdiscs, without their statistics: lo (1) has noqueue, interface 2 tbf, interface 3 mq with
    /// `pfifo_fast` in both queues.
    fn recorded() -> Vec<u8> {
        let message = |index: u8, [handle, parent]: [u32; 2], name: &[u8]| {
            let attribute =
                [&((name.len() + 5) as u16).to_ne_bytes(), &TCA_KIND.to_ne_bytes(), name, &[0]].concat();
            let padded =
                [&attribute[..], &vec![0; attribute.len().next_multiple_of(4) - attribute.len()]].concat();
            let body = [
                &[0, 0, 0, 0, index, 0, 0, 0][..],
                &handle.to_ne_bytes(),
                &parent.to_ne_bytes(),
                &2_u32.to_ne_bytes(),
                &padded,
                // TCA_HW_OFFLOAD.
                &[5, 0, 12, 0, 0, 0, 0, 0],
            ]
            .concat();
            let length = ((body.len() + MESSAGE_HEADER) as u32).to_ne_bytes();
            [&length[..], &RTM_NEWQDISC.to_ne_bytes(), &[2, 0, 0, 0, 0, 0, 0x9e, 0x56, 0, 0], &body].concat()
        };
        [
            message(1, [0, TC_H_ROOT], b"noqueue"),
            message(2, [0x8001_0000, TC_H_ROOT], b"tbf"),
            message(3, [0x8002_0000, TC_H_ROOT], b"mq"),
            message(3, [0, 0x8002_0002], b"pfifo_fast"),
            message(3, [0, 0x8002_0001], b"pfifo_fast"),
        ]
        .concat()
    }

    fn renamed(mut dump: Vec<u8>, from: &[u8], to: &[u8], times: usize) -> Vec<u8> {
        for _ in 0..times {
            let at = dump.windows(from.len()).position(|bytes| bytes == from).expect("the name is there");
            dump[at..at + from.len()].fill(0);
            dump[at..at + to.len()].copy_from_slice(to);
        }
        dump
    }

    #[test]
    fn the_dump_begins_with_the_bytes_that_were_recorded() {
        let recorded = recorded();
        let (lo, _) = recorded.split_at(56);
        let hex = "24000200000000009e560000000000000100000000000000ffffffff020000000c0001006e6f71756575650005000c0000000000";
        let bytes = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let bytes: Vec<u8> = bytes.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        assert_eq!(lo[4..], bytes);
    }

    #[test]
    fn only_fq_and_etf_at_the_root_or_in_all_queues_time_departures() {
        let none = |name: &str| Err(name.to_owned());
        assert_eq!(pacer_of(&recorded(), 1), none("noqueue"));
        assert_eq!(pacer_of(&recorded(), 2), none("tbf"));
        assert_eq!(pacer_of(&recorded(), 3), none("mq of pfifo_fast"));
        assert_eq!(pacer_of(&recorded(), 4), none("none"));
        assert_eq!(pacer_of(&renamed(recorded(), b"tbf", b"fq", 1), 2), Ok(Pacer::Fq));
        assert_eq!(pacer_of(&renamed(recorded(), b"tbf", b"etf", 1), 2), Ok(Pacer::Etf));
        assert_eq!(pacer_of(&renamed(recorded(), b"pfifo_fast", b"fq", 1), 3), none("mq of pfifo_fast"));
        assert_eq!(pacer_of(&renamed(recorded(), b"pfifo_fast", b"fq", 2), 3), Ok(Pacer::Fq));
        for length in 0..recorded().len() {
            // What is cut off is not there.
            assert!(pacer_of(&recorded()[..length], 3).is_err());
        }
    }

    #[test]
    fn loopback_has_no_pacer_and_the_error_says_what_to_do() {
        let socket = UdpSocket::connected(([127, 0, 0, 1], 9).into(), &SocketConfig::default()).unwrap();
        match socket.launch_by_kernel([127, 0, 0, 1].into()) {
            Err(error @ LaunchError::Qdisc { .. }) => {
                let text = error.to_string();
                assert!(text.starts_with("lo has noqueue") && text.contains("tc qdisc replace"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn launch_times_are_on_the_clock_of_the_qdisc() {
        let clock = Clock::start();
        let at = Timestamp::from_nanos(5_000_000);
        let monotonic = Launch { pacer: Pacer::Fq }.at(clock, at).0;
        assert_eq!(monotonic, clock.origin_monotonic_nanos() + 5_000_000);
        let tai = Launch { pacer: Pacer::Etf }.at(clock, at).0;
        let distance =
            clock::read(ClockId::from_raw(libc::CLOCK_TAI)) - clock::read(ClockId::CLOCK_MONOTONIC);
        assert!(tai.abs_diff(monotonic + distance) < 1_000_000, "{tai}");
    }
}
