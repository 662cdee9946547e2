//! The header of a datagram.

use giusto_units::{NANOS_PER_SECOND, Timestamp};

/// The space that a header takes, with a counter of 32 or 64 bits: the shortest datagram of a stream (`MIN_UDP_BLOCKSIZE` in
/// `iperf.h`).
pub const HEADER_BYTES: usize = 16;
/// The longest datagram: 65 535 less the headers of UDP and IPv4 (`MAX_UDP_BLOCKSIZE` in `iperf.h`).
pub const MAX_DATAGRAM_BYTES: u64 = 65_507;

/// The first bytes of each datagram, big-endian: seconds and microseconds of the time of sending, 32 bits each, and a sequence
/// number from 1 on, of 32 bits, or of 64 with `udp_counters_64bit` (`iperf_udp_send` in `iperf_udp.c`).
///
/// # Example
///
/// ```
/// use giusto_session::iperf3::DataHeader;
///
/// let header = DataHeader { sent_ns: 7_000_003_000, sequence: 1 };
/// let mut datagram = [0; 16];
/// header.write(&mut datagram, true);
/// assert_eq!(datagram, [0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1]);
/// assert_eq!(DataHeader::parse(&datagram, true), Some(header));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// The sender's time, in nanoseconds; whole microseconds are transmitted. iperf3 sends `CLOCK_MONOTONIC`.
    pub sent_ns: u64,
    /// The number of the datagram, from 1 on.
    pub sequence: u64,
}

impl DataHeader {
    /// A header for a datagram that is sent at `now`.
    pub const fn at(now: Timestamp, sequence: u64) -> Self {
        Self { sent_ns: now.as_nanos(), sequence }
    }

    /// Writes it to the start of `datagram`, if it has [`HEADER_BYTES`]; `wide`: with a counter of 64 bits.
    #[inline]
    pub fn write(&self, datagram: &mut [u8], wide: bool) {
        let Some(place) = datagram.first_chunk_mut::<HEADER_BYTES>() else { return };
        let seconds = (self.sent_ns / NANOS_PER_SECOND) as u32;
        let micros = (self.sent_ns % NANOS_PER_SECOND / 1_000) as u32;
        let times = u64::from(seconds) << 32 | u64::from(micros);
        // A short counter leaves the last four bytes as they are.
        let [.., l0, l1, l2, l3] = *place;
        let rest = u32::from_be_bytes([l0, l1, l2, l3]);
        let counter =
            if wide { self.sequence } else { u64::from(self.sequence as u32) << 32 | u64::from(rest) };
        *place = (u128::from(times) << 64 | u128::from(counter)).to_be_bytes();
    }

    /// Reads it; `None` where the datagram is too short to be part of a stream.
    #[inline]
    pub fn parse(datagram: &[u8], wide: bool) -> Option<Self> {
        let all = u128::from_be_bytes(*datagram.first_chunk::<HEADER_BYTES>()?);
        let (times, counter) = ((all >> 64) as u64, all as u64);
        let (seconds, micros) = (times >> 32, times & u64::from(u32::MAX));
        let sent_ns = seconds * NANOS_PER_SECOND + micros * 1_000;
        Some(Self { sent_ns, sequence: if wide { counter } else { counter >> 32 } })
    }
}
