//! What network cards can do about time, and their clocks: ioctl(2) of interfaces and of `/dev/ptp`.

use std::{
    fs::File,
    io, mem,
    os::fd::{AsRawFd, BorrowedFd},
};

use nix::errno::Errno;

use super::array;

/// `linux/net_tstamp.h`.
pub(crate) const FILTER_NONE: i32 = 0;
pub(crate) const FILTER_ALL: i32 = 1;
pub(crate) const TRANSMIT_OFF: i32 = 0;
pub(crate) const TRANSMIT_ON: i32 = 1;

/// `linux/ethtool.h` and `linux/sockios.h`.
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const SIOCETHTOOL: u64 = 0x8946;
const SIOCSHWTSTAMP: u64 = 0x89b0;
const SIOCGHWTSTAMP: u64 = 0x89b1;

/// `PTP_SYS_OFFSET_PRECISE`, `PTP_SYS_OFFSET_EXTENDED` and `PTP_SYS_OFFSET` of `linux/ptp_clock.h`.
const PRECISE: u64 = 0xc040_3d08;
const EXTENDED: u64 = 0xc4c0_3d09;
const ORDINARY: u64 = 0x4340_3d05;
/// Readings in one call; the one that took the shortest time counts.
const READINGS: u32 = 5;

/// What an interface can do: `struct ethtool_ts_info`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// `SOF_TIMESTAMPING_…`.
    pub(crate) flags: u32,
    /// The number of its clock in `/dev/ptp`; negative without one.
    pub(crate) clock: i32,
    /// A bit for each `HWTSTAMP_TX_…`.
    pub(crate) transmit: u32,
    /// A bit for each `HWTSTAMP_FILTER_…`.
    pub(crate) receive: u32,
}

impl Abilities {
    /// From the answer of the kernel.
    fn read(answer: &[u8; 44]) -> Option<Self> {
        Some(Self {
            flags: u32::from_ne_bytes(array(answer, 4)?),
            clock: i32::from_ne_bytes(array(answer, 8)?),
            transmit: u32::from_ne_bytes(array(answer, 12)?),
            receive: u32::from_ne_bytes(array(answer, 28)?),
        })
    }
}

/// What an interface is set to: `struct hwtstamp_config` without its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    /// `HWTSTAMP_TX_…`.
    pub(crate) transmit: i32,
    /// `HWTSTAMP_FILTER_…`.
    pub(crate) receive: i32,
}

/// What the interface can do.
pub(crate) fn abilities(socket: BorrowedFd<'_>, interface: &str) -> io::Result<Abilities> {
    let mut answer = [0; 44];
    if let Some((command, _)) = answer.split_first_chunk_mut() {
        *command = ETHTOOL_GET_TS_INFO.to_ne_bytes();
    }
    ask_interface(socket, interface, SIOCETHTOOL, &mut answer)?;
    Abilities::read(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// What the interface is set to.
pub(crate) fn setting(socket: BorrowedFd<'_>, interface: &str) -> io::Result<Setting> {
    exchange_setting(socket, interface, SIOCGHWTSTAMP, Setting { transmit: 0, receive: 0 })
}

/// Sets the interface, which needs `CAP_NET_ADMIN`; returns what it is then set to.
pub(crate) fn set(socket: BorrowedFd<'_>, interface: &str, setting: Setting) -> io::Result<Setting> {
    exchange_setting(socket, interface, SIOCSHWTSTAMP, setting)
}

fn exchange_setting(
    socket: BorrowedFd<'_>,
    interface: &str,
    request: u64,
    setting: Setting,
) -> io::Result<Setting> {
    let [flags, transmit, receive] = [0, setting.transmit, setting.receive].map(i32::to_ne_bytes);
    let mut bytes = [0; 12];
    for (place, byte) in bytes.iter_mut().zip([flags, transmit, receive].concat()) {
        *place = byte;
    }
    ask_interface(socket, interface, request, &mut bytes)?;
    let field = |at| array(&bytes, at).map_or(0, i32::from_ne_bytes);
    Ok(Setting { transmit: field(4), receive: field(8) })
}

/// Hands `data`, which is as long as the request demands, to the interface.
fn ask_interface<const N: usize>(
    socket: BorrowedFd<'_>,
    interface: &str,
    request: u64,
    data: &mut [u8; N],
) -> io::Result<()> {
    /// The structures are integers of four bytes.
    #[repr(C, align(8))]
    struct Aligned<const N: usize>([u8; N]);
    let mut aligned = Aligned(*data);
    // SAFETY: `ifreq` is integers, characters and a union of these and pointers; all of them may be zero.
    let mut message: libc::ifreq = unsafe { mem::zeroed() };
    // The last character stays 0.
    let room = message.ifr_name.len() - 1;
    for (place, byte) in message.ifr_name.iter_mut().take(room).zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    message.ifr_ifru.ifru_data = (&raw mut aligned.0).cast();
    // SAFETY: the kernel reads the name, which ends with 0, and reads and writes the structure of the request at the pointer, which
    // has its length and outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut message) };
    Errno::result(result)?;
    *data = aligned.0;
    Ok(())
}

/// One reading of a card's clock beside the system's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The card's time, in nanoseconds.
    pub(crate) card: u64,
    /// `CLOCK_REALTIME` at that moment, in nanoseconds.
    pub(crate) system: u64,
    /// The time within which both were read, in nanoseconds; 0 where the card itself compares them.
    pub(crate) width: u64,
}

/// Reads the clock of a card, by the best way that its driver knows.
pub(crate) fn read_clock(clock: &File) -> io::Result<Reading> {
    let mut precise = Block([0; 64]);
    let mut extended = Block([0; 16 + 25 * 3 * 16]);
    let mut ordinary = Block([0; 16 + 51 * 16]);
    extended.ask_for_readings();
    ordinary.ask_for_readings();
    let reading = if ask_clock(clock, PRECISE, &mut precise).is_ok() {
        read_precise(&precise.0)
    } else if ask_clock(clock, EXTENDED, &mut extended).is_ok() {
        read_extended(&extended.0)
    } else {
        ask_clock(clock, ORDINARY, &mut ordinary)?;
        read_ordinary(&ordinary.0)
    };
    reading.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[repr(C, align(8))]
struct Block<const N: usize>([u8; N]);

impl<const N: usize> Block<N> {
    /// The first field of two of the structures.
    fn ask_for_readings(&mut self) {
        if let Some((readings, _)) = self.0.split_first_chunk_mut() {
            *readings = READINGS.to_ne_bytes();
        }
    }
}

fn ask_clock<const N: usize>(clock: &File, request: u64, block: &mut Block<N>) -> io::Result<()> {
    // SAFETY: the kernel reads and writes the structure of the request, whose length is part of its number and that of `block`.
    let result = unsafe { libc::ioctl(clock.as_raw_fd(), request as _, &raw mut block.0) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// `struct ptp_clock_time` at `at`.
fn time(bytes: &[u8], at: usize) -> Option<u64> {
    let seconds = u64::try_from(i64::from_ne_bytes(array(bytes, at)?)).ok()?;
    let nanos = u32::from_ne_bytes(array(bytes, at + 8)?);
    seconds.checked_mul(giusto_units::NANOS_PER_SECOND)?.checked_add(nanos.into())
}

/// `struct ptp_sys_offset_precise`: the card's time and the system's, of one moment.
fn read_precise(bytes: &[u8; 64]) -> Option<Reading> {
    Some(Reading { card: time(bytes, 0)?, system: time(bytes, 16)?, width: 0 })
}

/// `struct ptp_sys_offset_extended`: each time of the card between two of the system.
fn read_extended(bytes: &[u8]) -> Option<Reading> {
    let readings = u32::from_ne_bytes(array(bytes, 0)?).min(25) as usize;
    let at = |reading: usize, which: usize| time(bytes, 16 + (3 * reading + which) * 16);
    shortest((0..readings).map_while(|reading| Some([at(reading, 0)?, at(reading, 1)?, at(reading, 2)?])))
}

/// `struct ptp_sys_offset`: times of the system and of the card in turn, beginning and ending with the system's.
fn read_ordinary(bytes: &[u8]) -> Option<Reading> {
    let readings = u32::from_ne_bytes(array(bytes, 0)?).min(25) as usize;
    let at = |reading: usize, which: usize| time(bytes, 16 + (2 * reading + which) * 16);
    shortest((0..readings).map_while(|reading| Some([at(reading, 0)?, at(reading, 1)?, at(reading, 2)?])))
}

/// The reading whose two times of the system are closest.
fn shortest(readings: impl Iterator<Item = [u64; 3]>) -> Option<Reading> {
    let readings = readings.filter_map(|[before, card, after]| {
        let width = after.checked_sub(before)?;
        Some(Reading { card, system: before + width / 2, width })
    });
    readings.min_by_key(|reading| reading.width)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::{SocketConfig, UdpSocket};

    /// Writes times in ns, of the card where `of_card` says so by their place: it is 37 s ahead.
    fn put(bytes: &mut [u8], of_card: fn(usize) -> bool, times: &[u32]) {
        for (place, (bytes, nanos)) in bytes.chunks_mut(16).zip(times).enumerate() {
            let seconds = if of_card(place) { 37_i64 } else { 0 };
            bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
            bytes[8..12].copy_from_slice(&nanos.to_ne_bytes());
        }
    }

    #[test]
    fn each_way_of_reading_a_clock_gives_the_same_reading() {
        let mut precise = [0; 64];
        put(&mut precise, |place| place == 0, &[500, 700, 9]);
        assert_eq!(read_precise(&precise), Some(Reading { card: 37_000_000_500, system: 700, width: 0 }));

        // The second reading took the shortest time.
        let found = Some(Reading { card: 37_000_003_050, system: 3_020, width: 40 });
        let mut extended = [0; 16 + 25 * 3 * 16];
        extended[0] = 3;
        put(
            &mut extended[16..],
            |place| place % 3 == 1,
            &[1_000, 1_050, 1_100, 3_000, 3_050, 3_040, 5_000, 5_050, 5_090],
        );
        assert_eq!(read_extended(&extended), found);
        let mut ordinary = [0; 16 + 51 * 16];
        ordinary[0] = 2;
        put(&mut ordinary[16..], |place| place % 2 == 1, &[1_000, 1_050, 3_000, 3_050, 3_040]);
        assert_eq!(read_ordinary(&ordinary), found);
        for length in [0, 10, 16, 40] {
            assert_eq!(read_ordinary(&ordinary[..length]), None);
            assert_eq!(read_extended(&extended[..length]), None);
        }
        // A clock that was set back in between.
        ordinary[0] = 1;
        put(&mut ordinary[16..], |place| place % 2 == 1, &[1_000, 5, 999]);
        assert_eq!(read_ordinary(&ordinary), None);
    }

    #[test]
    fn abilities_are_read_from_the_answer_of_the_kernel() {
        // As igb answers: ETHTOOL_GET_TS_INFO, 0x7f, clock 1, off and on, none and all.
        let fields = [0x41_u32, 0x7f, 1, 3, 0, 0, 0, 3, 0, 0, 0];
        let bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_ne_bytes()).collect();
        let found = Abilities::read(bytes.as_slice().try_into().unwrap());
        assert_eq!(found, Some(Abilities { flags: 0x7f, clock: 1, transmit: 3, receive: 3 }));
    }

    #[test]
    fn loopback_has_stamps_of_the_kernel_and_no_clock() {
        let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
        match abilities(socket.as_fd(), "lo") {
            Ok(found) => {
                let software = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
                assert_eq!((found.flags & software, found.clock), (software, -1), "{found:?}");
            }
            Err(error) => eprintln!("SKIPPED the abilities of loopback: {error}"),
        }
        assert!(abilities(socket.as_fd(), "no-such-one").is_err());
        assert!(setting(socket.as_fd(), "lo").is_err());
    }
}
