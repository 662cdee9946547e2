//! Congestion-control feedback: arrival times and ECN marks (RFC 8888 §3.1).

use alloc::vec::Vec;
use giusto_units::{Ecn, PeerTimestamp, TimeDelta};

use super::{
    error::RtcpError,
    frame::{self, Frame, packet_type},
};
use crate::ntp::NtpShort;

/// RFC 8888 §3.1, as registered in §6.
pub(super) const FORMAT: u8 = 11;
/// Maximum number of reports per block: a quarter of the sequence numbers (RFC 8888 §3.1).
const MAX_REPORTS: usize = 16_384;
const RECEIVED_BIT: u16 = 0x8000;
const ECN_SHIFT: u32 = 13;
const OFFSET_MASK: u16 = 0x1fff;
/// Offset of an arrival that is too long ago (RFC 8888 §3.1).
const OVER_RANGE: u16 = 0x1ffe;
/// Offset of an arrival time that is not known, or after the report's time (RFC 8888 §3.1).
const UNAVAILABLE: u16 = 0x1fff;
/// Maximum offset (RFC 8888 §3.1).
const LARGEST: u16 = 0x1ffd;
/// Units of an offset per second (RFC 8888 §3.1).
const UNITS_PER_SECOND: u64 = 1024;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The source and the two numbers before a stream's metric blocks.
const STREAM_HEADER_BYTES: usize = 8;
const METRIC_BYTES: usize = 2;
const TIMESTAMP_BYTES: usize = 4;
const WORD_BYTES: usize = 4;
const WHAT: &str = "congestion-control feedback";

/// Congestion-control feedback on the packets of all streams.
///
/// | bits | field |
/// |---|---|
/// | 32 | header: format 11, packet type 205, length |
/// | 32 | source of the feedback |
/// | – | one [`StreamFeedback`] for each stream |
/// | 32 | report timestamp |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CongestionFeedback {
    /// SSRC of the sender of the feedback.
    pub sender_ssrc: u32,
    /// Feedback on each stream.
    pub streams: Vec<StreamFeedback>,
    /// Time of the report, on the clock of its sender's sender reports.
    pub time: NtpShort,
}

/// Feedback on the packets of one stream.
///
/// | bits | field |
/// |---|---|
/// | 32 | source of the stream |
/// | 16, 16 | `begin_seq`, `num_reports` |
/// | 16 each | received (1), ECN (2), arrival time offset (13); all zero for a packet that was not received |
/// | 0 or 16 | zeros up to a whole word |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamFeedback {
    /// The stream.
    pub ssrc: u32,
    /// Sequence number of the first reported packet.
    pub begin_sequence: u16,
    /// One entry per sequence number, at most 16 384; `None` if the packet was not received.
    pub packets: Vec<Option<PacketReception>>,
}

/// Arrival of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PacketReception {
    /// ECN codepoint on arrival.
    pub ecn: Ecn,
    /// Time from the arrival to the report.
    pub offset: ArrivalOffset,
}

impl PacketReception {
    fn from_bits(bits: u16) -> Option<Self> {
        let offset = ArrivalOffset(bits & OFFSET_MASK);
        let ecn = Ecn::from_bits((bits >> ECN_SHIFT) as u8);
        (bits & RECEIVED_BIT != 0).then_some(Self { ecn, offset })
    }

    fn to_bits(self) -> u16 {
        RECEIVED_BIT | u16::from(self.ecn.bits()) << ECN_SHIFT | self.offset.0
    }
}

/// Time from the arrival of a packet to the report: 13 bits of 1/1024 s (RFC 8888 §3.1).
///
/// | value | meaning |
/// |---|---|
/// | 0 to `0x1FFD` | that many 1/1024 s, at most 7.997 s |
/// | `0x1FFE` | longer than that |
/// | `0x1FFF` | unknown, or after the report's time |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ArrivalOffset(u16);

impl ArrivalOffset {
    /// Longer ago than the field can represent.
    pub const OVER_RANGE: Self = Self(OVER_RANGE);
    /// Unknown, or after the report's time.
    pub const UNAVAILABLE: Self = Self(UNAVAILABLE);

    /// From the 13 bits as written; upper bits are ignored.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & OFFSET_MASK)
    }

    /// The time from a packet's arrival to the report, rounded down to 1/1024 s. RFC 8888 does not specify
    /// the rounding; libwebrtc also rounds down. A negative time (arrival after the report) gives
    /// [`UNAVAILABLE`](Self::UNAVAILABLE).
    #[inline]
    pub fn from_delta(before: TimeDelta) -> Self {
        let Ok(nanos) = u64::try_from(before.as_nanos()) else { return Self::UNAVAILABLE };
        let units = u128::from(nanos) * u128::from(UNITS_PER_SECOND) / u128::from(NANOS_PER_SECOND);
        if units > u128::from(LARGEST) { Self::OVER_RANGE } else { Self(units as u16) }
    }

    /// The 13 bits to write.
    #[inline]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// The duration, rounded up to a nanosecond; `None` for the two special values.
    #[inline]
    pub fn to_delta(self) -> Option<TimeDelta> {
        let nanos = (u64::from(self.0) * NANOS_PER_SECOND).div_ceil(UNITS_PER_SECOND);
        (self.0 <= LARGEST).then_some(TimeDelta::from_nanos(nanos as i64))
    }

    /// Arrival time of the packet, on the clock of the report with time `report`.
    #[inline]
    pub fn arrival(self, report: PeerTimestamp) -> Option<PeerTimestamp> {
        let before = self.to_delta()?.as_nanos().unsigned_abs();
        report.as_nanos().checked_sub(before).map(PeerTimestamp::from_nanos)
    }
}

/// Meaning of the field `num_reports`.
///
/// RFC 8888 §3.1 defines the range from `begin_seq` to `begin_seq + num_reports` "inclusive", but also that 0
/// means no reports, which is a contradiction. Erratum 8166 makes it a count, which is what we write. Some
/// senders follow the original text. If the count is even, both forms have the same length and cannot be
/// distinguished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ReportCount {
    /// The number of metric blocks (erratum 8166).
    #[default]
    Exact,
    /// One less than the number of metric blocks, and 0 if there are none (RFC 8888 §3.1 before the erratum).
    Inclusive,
}

impl CongestionFeedback {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] beyond 16 384 packets of a stream, or beyond 262 144 bytes; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        frame::write(buffer, packet_type::TRANSPORT_FEEDBACK, FORMAT, |content| {
            content.extend(self.sender_ssrc.to_be_bytes());
            self.streams.iter().try_for_each(|stream| stream.write(content))?;
            content.extend(self.time.to_bits().to_be_bytes());
            Ok(())
        })
    }

    /// Number of bytes that [`write`](Self::write) appends.
    #[inline]
    pub fn byte_len(&self) -> usize {
        let streams: usize = self.streams.iter().map(StreamFeedback::byte_len).sum();
        frame::HEADER_BYTES + WORD_BYTES + streams + TIMESTAMP_BYTES
    }

    pub(super) fn read(frame: &Frame<'_>, count: ReportCount) -> Result<Self, RtcpError> {
        let mut rest = frame.content();
        let sender_ssrc = frame::take_u32(&mut rest, WHAT)?;
        let (mut blocks, time) = rest.split_last_chunk::<TIMESTAMP_BYTES>().ok_or(RtcpError::Truncated {
            what: WHAT,
            needed: TIMESTAMP_BYTES,
            found: rest.len(),
        })?;
        let mut streams = Vec::new();
        while !blocks.is_empty() {
            streams.push(StreamFeedback::read(&mut blocks, count)?);
        }
        Ok(Self { sender_ssrc, streams, time: NtpShort::from_bits(u32::from_be_bytes(*time)) })
    }
}

impl StreamFeedback {
    /// Sequence numbers and arrivals.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Option<PacketReception>)> + '_ {
        let sequences = (0..=u16::MAX).map(|step| self.begin_sequence.wrapping_add(step));
        sequences.zip(self.packets.iter().copied())
    }

    fn byte_len(&self) -> usize {
        STREAM_HEADER_BYTES + (self.packets.len() * METRIC_BYTES).next_multiple_of(WORD_BYTES)
    }

    fn write(&self, content: &mut Vec<u8>) -> Result<(), RtcpError> {
        let found = self.packets.len();
        if found > MAX_REPORTS {
            return Err(RtcpError::TooMany { what: "packets of a stream", found, max: MAX_REPORTS });
        }
        content.extend(self.ssrc.to_be_bytes());
        content.extend(self.begin_sequence.to_be_bytes());
        content.extend((found as u16).to_be_bytes());
        let bits = |packet: &Option<PacketReception>| packet.map_or(0, PacketReception::to_bits);
        content.extend(self.packets.iter().flat_map(|packet| bits(packet).to_be_bytes()));
        if found % 2 == 1 {
            content.extend([0; METRIC_BYTES]);
        }
        Ok(())
    }

    fn read(rest: &mut &[u8], count: ReportCount) -> Result<Self, RtcpError> {
        let ssrc = frame::take_u32(rest, WHAT)?;
        let begin_sequence = frame::take(rest, WHAT).map(u16::from_be_bytes)?;
        let reports = usize::from(frame::take(rest, WHAT).map(u16::from_be_bytes)?);
        let packets = match count {
            ReportCount::Inclusive if reports > 0 => reports + 1,
            _ => reports,
        };
        if packets > MAX_REPORTS {
            return Err(RtcpError::TooMany { what: "packets of a stream", found: packets, max: MAX_REPORTS });
        }
        let needed = (packets * METRIC_BYTES).next_multiple_of(WORD_BYTES);
        let (metrics, behind) = rest.split_at_checked(needed).ok_or(RtcpError::Truncated {
            what: WHAT,
            needed,
            found: rest.len(),
        })?;
        *rest = behind;
        let packets = metrics.chunks_exact(METRIC_BYTES).take(packets).map(|bits| {
            let bits = bits.first_chunk().expect("chunks are two bytes long");
            PacketReception::from_bits(u16::from_be_bytes(*bits))
        });
        Ok(Self { ssrc, begin_sequence, packets: packets.collect() })
    }
}
