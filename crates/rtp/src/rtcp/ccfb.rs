//! What arrived, when, and with which mark: congestion-control feedback (RFC 8888 §3.1).

use giusto_units::{Ecn, PeerTimestamp, TimeDelta};

use super::{
    error::RtcpError,
    frame::{self, Frame, packet_type},
};
use crate::ntp::NtpShort;

/// RFC 8888 §3.1, as registered in §6.
pub(super) const FORMAT: u8 = 11;
/// A quarter of the sequence numbers: the most that one block may report on (RFC 8888 §3.1).
const MOST_REPORTS: usize = 16_384;
const RECEIVED_BIT: u16 = 0x8000;
const ECN_SHIFT: u32 = 13;
const OFFSET_MASK: u16 = 0x1fff;
/// An offset that is too large to be told (RFC 8888 §3.1).
const OVER_RANGE: u16 = 0x1ffe;
/// An offset that is not known, or before the report's time (RFC 8888 §3.1).
const UNAVAILABLE: u16 = 0x1fff;
/// The largest offset that is told (RFC 8888 §3.1).
const LARGEST: u16 = 0x1ffd;
/// Units of an offset in a second (RFC 8888 §3.1).
const UNITS_PER_SECOND: u64 = 1024;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The source and the two numbers before the metric blocks of a stream.
const STREAM_HEADER_BYTES: usize = 8;
const METRIC_BYTES: usize = 2;
const TIMESTAMP_BYTES: usize = 4;
const WORD_BYTES: usize = 4;
const WHAT: &str = "congestion-control feedback";

/// What a receiver knows of the packets of all its streams up to one moment.
///
/// | bits | field |
/// |---|---|
/// | 32 | header: format 11, packet type 205, length |
/// | 32 | source of the feedback |
/// | – | one [`StreamFeedback`] for each stream |
/// | 32 | report timestamp: the moment that the feedback tells of |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CongestionFeedback {
    /// Who sends it.
    pub sender_ssrc: u32,
    /// What arrived.
    pub streams: Vec<StreamFeedback>,
    /// The moment that it tells of, on the clock of its sender's reports.
    pub time: NtpShort,
}

/// What a receiver knows of the packets of one stream.
///
/// | bits | field |
/// |---|---|
/// | 32 | source of the stream |
/// | 16, 16 | `begin_seq`, `num_reports` |
/// | 16 each | received (1), ECN (2), arrival time offset (13); all zero for a packet that was not received |
/// | 0 or 16 | zeros up to a whole word |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamFeedback {
    /// The stream.
    pub ssrc: u32,
    /// The sequence number of the first packet that is told of.
    pub begin_sequence: u16,
    /// One for each sequence number, `None` where the packet was not received: at most 16 384.
    pub packets: Vec<Option<PacketReception>>,
}

/// How one packet arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketReception {
    /// The codepoint that it arrived with.
    pub ecn: Ecn,
    /// How long before the report's time it arrived.
    pub offset: ArrivalOffset,
}

impl PacketReception {
    /// Takes note of another copy: the first one's time stays, a mark on any of them counts (RFC 8888 §3.1).
    #[inline]
    pub fn add_duplicate(&mut self, ecn: Ecn) {
        if ecn == Ecn::Ce {
            self.ecn = Ecn::Ce;
        }
    }

    fn from_bits(bits: u16) -> Option<Self> {
        let offset = ArrivalOffset(bits & OFFSET_MASK);
        let ecn = Ecn::from_bits((bits >> ECN_SHIFT) as u8);
        (bits & RECEIVED_BIT != 0).then_some(Self { ecn, offset })
    }

    fn to_bits(self) -> u16 {
        RECEIVED_BIT | u16::from(self.ecn.bits()) << ECN_SHIFT | self.offset.0
    }
}

/// How long before the report's time a packet arrived: 13 bits of 1/1024 s (RFC 8888 §3.1).
///
/// | value | meaning |
/// |---|---|
/// | 0 to `0x1FFD` | that many 1/1024 s, at most 7.997 s |
/// | `0x1FFE` | longer than that |
/// | `0x1FFF` | not known, or after the report's time |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrivalOffset(u16);

impl ArrivalOffset {
    /// Longer ago than can be told.
    pub const OVER_RANGE: Self = Self(OVER_RANGE);
    /// Not known, or after the report's time.
    pub const UNAVAILABLE: Self = Self(UNAVAILABLE);

    /// The 13 bits as they are written; upper bits are left out.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & OFFSET_MASK)
    }

    /// The time from a packet's arrival to the report, rounded down to 1/1024 s. RFC 8888 leaves the rounding open; libwebrtc
    /// rounds down too. A packet from after the report, of a time below zero, is [`UNAVAILABLE`](Self::UNAVAILABLE).
    #[inline]
    pub fn from_delta(before: TimeDelta) -> Self {
        let Ok(nanos) = u64::try_from(before.as_nanos()) else { return Self::UNAVAILABLE };
        let units = u128::from(nanos) * u128::from(UNITS_PER_SECOND) / u128::from(NANOS_PER_SECOND);
        if units > u128::from(LARGEST) { Self::OVER_RANGE } else { Self(units as u16) }
    }

    /// The 13 bits as they are written.
    #[inline]
    pub const fn to_bits(self) -> u16 {
        self.0
    }

    /// The span, rounded up to a nanosecond; `None` for the two values that are none.
    #[inline]
    pub fn to_delta(self) -> Option<TimeDelta> {
        let nanos = (u64::from(self.0) * NANOS_PER_SECOND).div_ceil(UNITS_PER_SECOND);
        (self.0 <= LARGEST).then_some(TimeDelta::from_nanos(nanos as i64))
    }

    /// When the packet arrived, on the clock of the report that was made at `report`.
    #[inline]
    pub fn arrival(self, report: PeerTimestamp) -> Option<PeerTimestamp> {
        let before = self.to_delta()?.as_nanos().unsigned_abs();
        report.as_nanos().checked_sub(before).map(PeerTimestamp::from_nanos)
    }
}

/// What the field `num_reports` counts.
///
/// RFC 8888 §3.1 speaks of sequence numbers from `begin_seq` to `begin_seq + num_reports` "inclusive", and of a value of 0
/// that means none, which contradict each other. Erratum 8166 makes it a count, and a count is what we write. Some senders
/// were written to the old words; both forms are of the same length where the count is even, so they cannot be told apart by
/// looking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReportCount {
    /// The number of metric blocks (erratum 8166).
    #[default]
    Exact,
    /// One less than the number of metric blocks, and 0 where there is none (RFC 8888 §3.1 before the erratum).
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

    /// How many bytes [`write`](Self::write) appends.
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
    /// Sequence numbers and how their packets arrived.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Option<PacketReception>)> + '_ {
        let sequences = (0..=u16::MAX).map(|step| self.begin_sequence.wrapping_add(step));
        sequences.zip(self.packets.iter().copied())
    }

    fn byte_len(&self) -> usize {
        STREAM_HEADER_BYTES + (self.packets.len() * METRIC_BYTES).next_multiple_of(WORD_BYTES)
    }

    fn write(&self, content: &mut Vec<u8>) -> Result<(), RtcpError> {
        let found = self.packets.len();
        if found > MOST_REPORTS {
            return Err(RtcpError::TooMany { what: "packets of a stream", found, most: MOST_REPORTS });
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
        if packets > MOST_REPORTS {
            return Err(RtcpError::TooMany {
                what: "packets of a stream",
                found: packets,
                most: MOST_REPORTS,
            });
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
