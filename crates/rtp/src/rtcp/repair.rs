//! Requests of a receiver: for lost packets (RFC 4585 §6.2.1), and for a key frame (RFC 4585 §6.3.1, RFC 5104 §4.3.1).

use super::{
    error::RtcpError,
    frame::{self, Frame, packet_type},
};
use alloc::vec::Vec;

/// Format of a generic NACK among the feedback about the transport (RFC 4585 §6.2).
pub(super) const NACK_FORMAT: u8 = 1;
/// Format of a picture loss indication among the feedback about the payload (RFC 4585 §6.3).
pub(super) const PLI_FORMAT: u8 = 1;
/// Format of a full intra request among the feedback about the payload (RFC 5104 §4.3).
pub(super) const FIR_FORMAT: u8 = 4;
/// Number of packets that the bitmask of an entry covers (RFC 4585 §6.2.1).
const MASK_BITS: u16 = 16;
const NACK: &str = "a generic NACK";
const PLI: &str = "a picture loss indication";
const FIR: &str = "a full intra request";

/// Packets of one stream that a receiver requests again (generic NACK, RFC 4585 §6.2.1).
///
/// | bits | field |
/// |---|---|
/// | 32 | header: format 1, packet type 205, length |
/// | 32, 32 | source of the message, source of the media |
/// | 32 each | [`NackEntry`], at least one |
///
/// # Example
///
/// ```
/// use giusto_rtp::rtcp::{Nack, NackEntry};
///
/// let nack = Nack::of_numbers(1, 2, [65_535, 0, 16, 40]);
/// let entry = |packet_id, following| NackEntry { packet_id, following };
/// // The mask covers the 16 numbers after the first.
/// assert_eq!(nack.entries, [entry(65_535, 1), entry(16, 0), entry(40, 0)]);
/// assert!(nack.numbers().eq([65_535, 0, 16, 40]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Nack {
    /// SSRC of the sender of the message.
    pub sender_ssrc: u32,
    /// SSRC of the media.
    pub media_ssrc: u32,
    /// The lost packets.
    pub entries: Vec<NackEntry>,
}

/// A lost packet, and which of the next 16 are lost too (RFC 4585 §6.2.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NackEntry {
    /// Sequence number of a lost packet: PID.
    pub packet_id: u16,
    /// Bit `i`, counted from the lowest as 0, is set if packet `packet_id + i + 1` is lost: BLP.
    pub following: u16,
}

impl NackEntry {
    /// The sequence numbers, in order.
    pub fn numbers(self) -> impl Iterator<Item = u16> {
        let following = (0..MASK_BITS).filter(move |bit| self.following >> bit & 1 == 1);
        let following = following.map(move |bit| self.packet_id.wrapping_add(bit + 1));
        core::iter::once(self.packet_id).chain(following)
    }
}

impl Nack {
    /// A request for these packets, whose numbers are in order modulo 2^16, in as few entries as possible.
    pub fn of_numbers(sender_ssrc: u32, media_ssrc: u32, numbers: impl IntoIterator<Item = u16>) -> Self {
        let mut entries: Vec<NackEntry> = Vec::new();
        for number in numbers {
            let behind = entries.last().map(|last| number.wrapping_sub(last.packet_id));
            match (behind, entries.last_mut()) {
                (Some(0), _) => {}
                (Some(bit @ 1..=MASK_BITS), Some(last)) => last.following |= 1 << (bit - 1),
                _ => entries.push(NackEntry { packet_id: number, following: 0 }),
            }
        }
        Self { sender_ssrc, media_ssrc, entries }
    }

    /// The sequence numbers of the lost packets, in the order of the entries.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + '_ {
        self.entries.iter().flat_map(|entry| entry.numbers())
    }

    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] for more entries than a packet can hold; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        frame::write(buffer, packet_type::TRANSPORT_FEEDBACK, NACK_FORMAT, |content| {
            content.extend(self.sender_ssrc.to_be_bytes());
            content.extend(self.media_ssrc.to_be_bytes());
            for entry in &self.entries {
                content.extend(entry.packet_id.to_be_bytes());
                content.extend(entry.following.to_be_bytes());
            }
            Ok(())
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        let mut rest = frame.content();
        let (sender_ssrc, media_ssrc) =
            (frame::take_u32(&mut rest, NACK)?, frame::take_u32(&mut rest, NACK)?);
        let mut entries = Vec::with_capacity(rest.len() / 4);
        while !rest.is_empty() {
            let [p0, p1, b0, b1] = frame::take(&mut rest, NACK)?;
            let (packet_id, following) = (u16::from_be_bytes([p0, p1]), u16::from_be_bytes([b0, b1]));
            entries.push(NackEntry { packet_id, following });
        }
        Ok(Self { sender_ssrc, media_ssrc, entries })
    }
}

/// The receiver cannot decode a video stream, and requests a key frame (RFC 4585 §6.3.1).
///
/// | bits | field |
/// |---|---|
/// | 32 | header: format 1, packet type 206, length 2 |
/// | 32, 32 | source of the message, source of the media |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PictureLoss {
    /// SSRC of the sender of the message.
    pub sender_ssrc: u32,
    /// SSRC of the media.
    pub media_ssrc: u32,
}

impl PictureLoss {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// None: the size is fixed.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        frame::write(buffer, packet_type::PAYLOAD_FEEDBACK, PLI_FORMAT, |content| {
            content.extend(self.sender_ssrc.to_be_bytes());
            content.extend(self.media_ssrc.to_be_bytes());
            Ok(())
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        let mut rest = frame.content();
        let (sender_ssrc, media_ssrc) = (frame::take_u32(&mut rest, PLI)?, frame::take_u32(&mut rest, PLI)?);
        if !rest.is_empty() {
            return Err(RtcpError::Excess { what: PLI, found: rest.len() });
        }
        Ok(Self { sender_ssrc, media_ssrc })
    }
}

/// A command to send a key frame (FIR, RFC 5104 §4.3.1).
///
/// | bits | field |
/// |---|---|
/// | 32 | header: format 4, packet type 206, length |
/// | 32, 32 | source of the message, zero |
/// | 64 each | [`IntraRequest`]: source of the media (32), sequence number (8), reserved (24) |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FullIntra {
    /// SSRC of the sender of the message.
    pub sender_ssrc: u32,
    /// One entry for each stream.
    pub requests: Vec<IntraRequest>,
}

/// A stream whose next frame should be a key frame (RFC 5104 §4.3.1.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct IntraRequest {
    /// SSRC of the media.
    pub ssrc: u32,
    /// Increases by one with each new command, modulo 256; a repetition has the same number.
    pub sequence: u8,
}

impl FullIntra {
    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] for more entries than a packet can hold; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        frame::write(buffer, packet_type::PAYLOAD_FEEDBACK, FIR_FORMAT, |content| {
            content.extend(self.sender_ssrc.to_be_bytes());
            content.extend([0; 4]);
            for request in &self.requests {
                content.extend(request.ssrc.to_be_bytes());
                content.extend([request.sequence, 0, 0, 0]);
            }
            Ok(())
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        let mut rest = frame.content();
        let sender_ssrc = frame::take_u32(&mut rest, FIR)?;
        frame::take_u32(&mut rest, FIR)?;
        let mut requests = Vec::with_capacity(rest.len() / 8);
        while !rest.is_empty() {
            let ssrc = frame::take_u32(&mut rest, FIR)?;
            let [sequence, _, _, _] = frame::take(&mut rest, FIR)?;
            requests.push(IntraRequest { ssrc, sequence });
        }
        Ok(Self { sender_ssrc, requests })
    }
}
