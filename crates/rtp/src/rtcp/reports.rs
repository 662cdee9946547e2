//! Sender and receiver reports (RFC 3550 §6.4).

use alloc::vec::Vec;
use giusto_units::TimeDelta;

use super::{
    error::RtcpError,
    frame::{self, Frame, HEADER_BYTES, packet_type, take, take_u32},
};
use crate::ntp::{NtpDelay, NtpShort, NtpTimestamp};

/// Length of a report block (RFC 3550 §6.4.1).
const BLOCK_BYTES: usize = 24;
/// Bytes before the report blocks of a sender report, header included (RFC 3550 §6.4.1).
const SENDER_BYTES: usize = 28;
/// Bytes before the report blocks of a receiver report, header included (RFC 3550 §6.4.2).
const RECEIVER_BYTES: usize = 8;
/// The cumulative number of packets lost is a signed number of 24 bits (RFC 3550 §6.4.1).
const LOST_LIMIT: i32 = 1 << 23;

/// Reception statistics of one stream (RFC 3550 §6.4.1).
///
/// | bits | field |
/// |---|---|
/// | 32 | reported source |
/// | 8, 24 | fraction lost, cumulative number of packets lost |
/// | 32 | extended highest sequence number received |
/// | 32 | interarrival jitter |
/// | 32 | last SR timestamp (LSR) |
/// | 32 | delay since last SR (DLSR) |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ReportBlock {
    /// The reported source.
    pub ssrc: u32,
    /// Packets lost since the last report, divided by packets expected since then, times 256, rounded down.
    pub fraction_lost: u8,
    /// Packets expected minus packets received since the start; negative if there are more duplicates than
    /// losses. Written limited to -2^23 to 2^23 - 1 (RFC 3550 A.3).
    pub cumulative_lost: i32,
    /// Cycles of the sequence number in the upper 16 bits, the highest received number in the lower 16 bits.
    pub highest_sequence: u32,
    /// Jitter estimate of RFC 3550 §6.4.1, in units of the stream's RTP timestamp.
    pub jitter: u32,
    /// Time of the last sender report received; `None` before the first. A time of zero is read as `None`.
    pub last_sender_report: Option<NtpShort>,
    /// Time from that report's arrival to the sending of this one.
    pub delay_since_last: NtpDelay,
}

impl ReportBlock {
    /// The round-trip time when this block arrives at `now`, on the clock of the sender reports.
    ///
    /// `None` if the receiver has not received a sender report. Negative if clock steps or resolution make it
    /// so.
    ///
    /// # Example
    ///
    /// The example of RFC 3550 §6.4.1:
    ///
    /// ```
    /// use giusto_rtp::{NtpDelay, NtpShort, rtcp::ReportBlock};
    /// use giusto_units::TimeDelta;
    ///
    /// let block = ReportBlock {
    ///     last_sender_report: Some(NtpShort::from_bits(0xb705_2000)),
    ///     delay_since_last: NtpDelay::from_bits(0x0005_4000),
    ///     ..ReportBlock::default()
    /// };
    /// let rtt = block.rtt(NtpShort::from_bits(0xb710_8000));
    /// assert_eq!(rtt, Some(TimeDelta::from_millis(6125)));
    /// ```
    #[inline]
    pub fn rtt(&self, now: NtpShort) -> Option<TimeDelta> {
        let sent = self.last_sender_report?.to_bits().wrapping_add(self.delay_since_last.to_bits());
        let units = now.to_bits().wrapping_sub(sent) as i32;
        let magnitude = NtpDelay::from_bits(units.unsigned_abs()).to_delta();
        Some(if units < 0 { -magnitude } else { magnitude })
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, RtcpError> {
        const WHAT: &str = "a report block";
        let ssrc = take_u32(bytes, WHAT)?;
        let [fraction_lost, l0, l1, l2] = take(bytes, WHAT)?;
        let highest_sequence = take_u32(bytes, WHAT)?;
        let jitter = take_u32(bytes, WHAT)?;
        let last = take_u32(bytes, WHAT)?;
        Ok(Self {
            ssrc,
            fraction_lost,
            // The lowest byte is empty: after the shift, the sign of the 24 bits fills the upper byte.
            cumulative_lost: i32::from_be_bytes([l0, l1, l2, 0]) >> 8,
            highest_sequence,
            jitter,
            last_sender_report: (last != 0).then_some(NtpShort::from_bits(last)),
            delay_since_last: NtpDelay::from_bits(take_u32(bytes, WHAT)?),
        })
    }

    fn write(&self, content: &mut Vec<u8>) {
        content.extend(self.ssrc.to_be_bytes());
        let lost = self.cumulative_lost.clamp(-LOST_LIMIT, LOST_LIMIT - 1) as u32 & 0x00ff_ffff;
        content.extend((u32::from(self.fraction_lost) << 24 | lost).to_be_bytes());
        content.extend(self.highest_sequence.to_be_bytes());
        content.extend(self.jitter.to_be_bytes());
        content.extend(self.last_sender_report.unwrap_or_default().to_bits().to_be_bytes());
        content.extend(self.delay_since_last.to_bits().to_be_bytes());
    }
}

/// Sending statistics and reception reports of a sender (RFC 3550 §6.4.1).
///
/// | bits | field |
/// |---|---|
/// | 32 | header: count of blocks, packet type 200, length |
/// | 32 | source of the report |
/// | 64 | NTP timestamp |
/// | 32 | RTP timestamp |
/// | 32 | packets sent |
/// | 32 | payload bytes sent |
/// | 192 each | [`ReportBlock`]s |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SenderReport {
    /// SSRC of the sender of the report.
    pub ssrc: u32,
    /// Time of the report.
    pub time: NtpTimestamp,
    /// The same time in units of the stream's RTP timestamp.
    pub rtp_timestamp: u32,
    /// Packets sent, modulo 2^32.
    pub packets: u32,
    /// Bytes of payload sent, modulo 2^32.
    pub payload_bytes: u32,
    /// Report blocks: at most 31.
    pub blocks: Vec<ReportBlock>,
}

impl SenderReport {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] beyond 31 blocks; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        let count = ("report blocks", self.blocks.len());
        frame::write_counted(buffer, packet_type::SENDER_REPORT, count, |content| {
            content.extend(self.ssrc.to_be_bytes());
            content.extend(self.time.to_bits().to_be_bytes());
            content.extend(self.rtp_timestamp.to_be_bytes());
            content.extend(self.packets.to_be_bytes());
            content.extend(self.payload_bytes.to_be_bytes());
            self.blocks.iter().for_each(|block| block.write(content));
            Ok(())
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        const WHAT: &str = "a sender report";
        check_blocks(frame, WHAT, SENDER_BYTES)?;
        let bytes = &mut frame.content();
        let ssrc = take_u32(bytes, WHAT)?;
        let time = NtpTimestamp::from_bits(u64::from_be_bytes(take(bytes, WHAT)?));
        let rtp_timestamp = take_u32(bytes, WHAT)?;
        let packets = take_u32(bytes, WHAT)?;
        let payload_bytes = take_u32(bytes, WHAT)?;
        let blocks = read_blocks(bytes, frame.count)?;
        Ok(Self { ssrc, time, rtp_timestamp, packets, payload_bytes, blocks })
    }
}

/// Reception reports of a participant that sends no media (RFC 3550 §6.4.2).
///
/// | bits | field |
/// |---|---|
/// | 32 | header: count of blocks, packet type 201, length |
/// | 32 | source of the report |
/// | 192 each | [`ReportBlock`]s |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ReceiverReport {
    /// SSRC of the sender of the report.
    pub ssrc: u32,
    /// Report blocks: at most 31.
    pub blocks: Vec<ReportBlock>,
}

impl ReceiverReport {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] beyond 31 blocks; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        let count = ("report blocks", self.blocks.len());
        frame::write_counted(buffer, packet_type::RECEIVER_REPORT, count, |content| {
            content.extend(self.ssrc.to_be_bytes());
            self.blocks.iter().for_each(|block| block.write(content));
            Ok(())
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        const WHAT: &str = "a receiver report";
        check_blocks(frame, WHAT, RECEIVER_BYTES)?;
        let bytes = &mut frame.content();
        let ssrc = take_u32(bytes, WHAT)?;
        Ok(Self { ssrc, blocks: read_blocks(bytes, frame.count)? })
    }
}

fn read_blocks(bytes: &mut &[u8], count: u8) -> Result<Vec<ReportBlock>, RtcpError> {
    (0..count).map(|_| ReportBlock::read(bytes)).collect()
}

/// The blocks must end before the padding. Profile-specific extensions after them are ignored (RFC 3550
/// §6.4.3).
fn check_blocks(frame: &Frame<'_>, what: &'static str, before: usize) -> Result<(), RtcpError> {
    let needed = before + usize::from(frame.count) * BLOCK_BYTES;
    let found = frame.content().len() + HEADER_BYTES;
    if found < needed { Err(RtcpError::Truncated { what, needed, found }) } else { Ok(()) }
}
