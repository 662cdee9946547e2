//! Transport-wide feedback: arrival times of all packets of a transport
//! (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1).

use alloc::vec::Vec;
use giusto_units::{PeerTimestamp, Timestamp};

use super::{
    error::RtcpError,
    frame::{self, FEEDBACK_HEADER_BYTES, Frame, HEADER_BYTES, packet_type},
    twcc_chunks::{self, CHUNK_BYTES, Status, StatusChunks},
};
use crate::unwrapper::SequenceUnwrapper;

/// draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1.
pub(super) const FORMAT: u8 = 15;
/// Base sequence, status count, reference time and feedback count.
const FIXED_BYTES: usize = 8;
/// Bytes before the chunks, header included.
const BEFORE_CHUNKS_BYTES: usize = FEEDBACK_HEADER_BYTES + FIXED_BYTES;
/// The unit of a delta (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1.5).
const TICK_NANOS: u64 = 250_000;
/// Units of a delta per unit of the reference time, 64 ms (draft-holmer-rmcat-transport-wide-cc-extensions-01
/// §3.1).
pub(super) const TICKS_PER_REFERENCE: i64 = 256;
/// Difference between the 32 bits of an unwrapper and the 24 bits of the reference time.
const FREE_BITS: u32 = 8;
/// Maximum of the status count.
pub(super) const MAX_STATUSES: usize = u16::MAX as usize;
const WHAT: &str = "transport-wide feedback";

/// Arrival times of the packets of a transport.
///
/// | bits | field |
/// |---|---|
/// | 32 | header: format 15, packet type 205, length |
/// | 32, 32 | source of the feedback, source of the media |
/// | 16, 16 | base sequence number, packet status count |
/// | 24, 8 | reference time in 64 ms, feedback packet count |
/// | 16 each | chunks: run length, or a vector of statuses |
/// | 8 or 16 each | deltas in 250 µs: unsigned if the status is 1, signed if it is 2 |
/// | 0 to 24 | zeros up to a whole word |
///
/// | chunk | bits |
/// |---|---|
/// | run length (§3.1.3) | `0`, status (2), run length (13) |
/// | 14 statuses of one bit (§3.1.4) | `10`, received (1) each |
/// | 7 statuses of two bits (§3.1.4) | `11`, status (2) each |
///
/// Feedback without deltas, which [`FeedbackRequest::with_times`](crate::FeedbackRequest::with_times) may
/// request, is rejected as truncated, because the two forms cannot be distinguished.
///
/// The value may be built directly; [`TransportFeedbackEncoder`](super::TransportFeedbackEncoder) builds it
/// from arrival times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransportFeedback {
    /// SSRC of the sender of the feedback.
    pub sender_ssrc: u32,
    /// A media source; any of those that share the transport.
    pub media_ssrc: u32,
    /// Transport-wide sequence number of the first reported packet.
    pub base_sequence: u16,
    /// Time from which arrivals are counted: multiples of 64 ms on the receiver's clock, signed and modulo
    /// 2^24.
    pub reference_time: i32,
    /// Number of the feedback message, modulo 2^8.
    pub feedback_count: u8,
    /// One entry per sequence number, at most 65 535; `None` if the packet was not received.
    pub packets: Vec<Option<ArrivalTicks>>,
}

/// Arrival time of a packet: ticks of 250 µs since the [reference time](TransportFeedback::reference_time).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ArrivalTicks(i32);

impl ArrivalTicks {
    /// From ticks since the reference time.
    #[inline]
    pub const fn new(ticks: i32) -> Self {
        Self(ticks)
    }

    /// Ticks of 250 µs.
    #[inline]
    pub const fn ticks(self) -> i32 {
        self.0
    }
}

/// The tick nearest to a local time, counted since the run started.
pub(super) const fn nearest_tick(time: Timestamp) -> i64 {
    let nanos = time.as_nanos();
    (nanos / TICK_NANOS + if nanos % TICK_NANOS >= TICK_NANOS / 2 { 1 } else { 0 }) as i64
}

/// A reference time limited to the 24 bits that are written, as a signed number.
pub(super) const fn wrapped_reference(reference: i64) -> i32 {
    (reference << (32 + FREE_BITS) >> (32 + FREE_BITS)) as i32
}

impl TransportFeedback {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::Step`] if two consecutive arrivals are 8.2 s or more apart, [`RtcpError::TooMany`] beyond
    /// 65 535 packets; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        let found = self.packets.len();
        let too_many = RtcpError::TooMany { what: "packet statuses", found, max: MAX_STATUSES };
        let count = u16::try_from(found).map_err(|_| too_many)?;
        frame::write(buffer, packet_type::TRANSPORT_FEEDBACK, FORMAT, |content| {
            content.extend(self.sender_ssrc.to_be_bytes());
            content.extend(self.media_ssrc.to_be_bytes());
            content.extend(self.base_sequence.to_be_bytes());
            content.extend(count.to_be_bytes());
            content.extend((self.reference_time as u32).to_be_bytes().into_iter().skip(1));
            content.push(self.feedback_count);
            let mut chunks = StatusChunks::new();
            for status in self.deltas() {
                let status = status?.map_or(Status::Missing, Status::of);
                content.extend(chunks.push(status).into_iter().flat_map(u16::to_be_bytes));
            }
            content.extend(chunks.finish().into_iter().flat_map(u16::to_be_bytes));
            for delta in self.deltas().filter_map(Result::ok).flatten() {
                match u8::try_from(delta) {
                    Ok(small) => content.push(small),
                    Err(_) => content.extend(delta.to_be_bytes()),
                }
            }
            Ok(())
        })
    }

    /// Difference of each arrival to the previous one; of the first to the reference time.
    fn deltas(&self) -> impl Iterator<Item = Result<Option<i16>, RtcpError>> + '_ {
        let mut before = 0;
        self.packets.iter().map(move |packet| {
            let Some(arrival) = packet else { return Ok(None) };
            let ticks = i64::from(arrival.0) - before;
            before = i64::from(arrival.0);
            i16::try_from(ticks).map(Some).map_err(|_| RtcpError::Step { ticks })
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        let mut content = frame.content();
        let sender_ssrc = frame::take_u32(&mut content, WHAT)?;
        let media_ssrc = frame::take_u32(&mut content, WHAT)?;
        let found = content.len();
        let truncated = |needed| RtcpError::Truncated { what: WHAT, needed, found };
        let [b0, b1, c0, c1, r0, r1, r2, feedback_count] =
            frame::take(&mut content, WHAT).map_err(|_| truncated(FIXED_BYTES))?;
        let count = usize::from(u16::from_be_bytes([c0, c1]));
        let (chunks, mut deltas) = twcc_chunks::split(content, count);

        let mut ticks = 0;
        let packets = twcc_chunks::statuses(chunks).take(count).map(|status| {
            let delta = match status.ok_or(RtcpError::ReservedStatus)? {
                Status::Missing => return Ok(None),
                Status::Small => frame::take(&mut deltas, WHAT).map(|[delta]: [u8; 1]| i16::from(delta)),
                Status::Large => frame::take(&mut deltas, WHAT).map(i16::from_be_bytes),
            };
            // 65 535 steps of 16 bits fit 32 bits.
            ticks += i32::from(delta.map_err(|_| truncated(found + 1))?);
            Ok(Some(ArrivalTicks(ticks)))
        });
        let packets = packets.collect::<Result<Vec<_>, _>>()?;
        if packets.len() < count {
            return Err(truncated(found + CHUNK_BYTES));
        }
        Ok(Self {
            sender_ssrc,
            media_ssrc,
            base_sequence: u16::from_be_bytes([b0, b1]),
            reference_time: wrapped_reference(i64::from(u32::from_be_bytes([0, r0, r1, r2]))),
            feedback_count,
            packets,
        })
    }
}

/// Unwraps sequence numbers and times of successive feedback messages to 64 bits.
///
/// Base sequence number and reference time are interpreted as the ones nearest to those of the previous
/// message, so that messages may be lost, late or repeated. A packet that two messages report has the same
/// number and time in both.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransportFeedbackUnwrapper {
    sequence: SequenceUnwrapper,
    reference: SequenceUnwrapper,
}

impl TransportFeedbackUnwrapper {
    /// The first sequence number is taken without change, and the first reference time as unsigned.
    #[inline]
    pub const fn new() -> Self {
        Self { sequence: SequenceUnwrapper::new(), reference: SequenceUnwrapper::new() }
    }

    /// Sequence numbers and arrival times, on the receiver's clock minus an unknown multiple of 12.4 days.
    ///
    /// `None` if numbers or times are before zero: feedback about packets before the first one received,
    /// across a wrap. A single arrival before zero counts as zero.
    pub fn unwrap<'a>(
        &mut self,
        feedback: &'a TransportFeedback,
    ) -> Option<impl Iterator<Item = (u64, Option<PeerTimestamp>)> + use<'a>> {
        // Work on copies, so that rejected feedback changes nothing.
        let mut tried = *self;
        let base = tried.sequence.unwrap_u16(feedback.base_sequence)?;
        let times = tried.times(feedback)?;
        *self = tried;
        Some((base..).zip(times))
    }

    /// Arrival times alone, as in [`unwrap`](Self::unwrap), from the base sequence number on: for a caller that
    /// unwraps the sequence numbers itself and accepts numbers below the first.
    ///
    /// `None` if the times are before zero.
    pub fn times<'a>(
        &mut self,
        feedback: &'a TransportFeedback,
    ) -> Option<impl Iterator<Item = Option<PeerTimestamp>> + use<'a>> {
        let reference =
            self.reference.unwrap_u32((feedback.reference_time as u32) << FREE_BITS)? >> FREE_BITS;
        let first_tick = (reference as i64).saturating_mul(TICKS_PER_REFERENCE);
        Some(feedback.packets.iter().map(move |packet| {
            packet.map(|arrival| {
                let tick = first_tick.saturating_add(i64::from(arrival.0)).max(0).unsigned_abs();
                PeerTimestamp::from_nanos(tick.saturating_mul(TICK_NANOS))
            })
        }))
    }
}

/// Length of a packet with this number of chunks and bytes of deltas.
pub(super) const fn packet_bytes(chunks: usize, delta_bytes: usize) -> usize {
    (BEFORE_CHUNKS_BYTES + chunks * CHUNK_BYTES + delta_bytes).next_multiple_of(HEADER_BYTES)
}

#[cfg(test)]
#[path = "twcc_tests.rs"]
mod tests;
