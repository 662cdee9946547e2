//! The four-byte header of each RTCP packet (RFC 3550 §6.4.1), and the packet's length.

use super::error::RtcpError;
use alloc::vec::Vec;

/// Length of a packet header (RFC 3550 §6.4.1).
pub(super) const HEADER_BYTES: usize = 4;
/// Length of a header with the two sources of a feedback message (RFC 4585 §6.1).
pub(super) const FEEDBACK_HEADER_BYTES: usize = 12;

/// The supported packet types.
pub(super) mod packet_type {
    pub(in super::super) const SENDER_REPORT: u8 = 200;
    pub(in super::super) const RECEIVER_REPORT: u8 = 201;
    pub(in super::super) const SOURCE_DESCRIPTION: u8 = 202;
    pub(in super::super) const BYE: u8 = 203;
    /// RFC 3550 §6.7.
    pub(in super::super) const APPLICATION: u8 = 204;
    /// Feedback about the transport (RFC 4585 §6.1).
    pub(in super::super) const TRANSPORT_FEEDBACK: u8 = 205;
    /// Feedback about the payload (RFC 4585 §6.1).
    pub(in super::super) const PAYLOAD_FEEDBACK: u8 = 206;
    /// RFC 3611 §2.
    pub(in super::super) const EXTENDED_REPORT: u8 = 207;
}

const VERSION: u8 = 2;
const VERSION_SHIFT: u32 = 6;
const PADDING_BIT: u8 = 0x20;
const COUNT_MASK: u8 = 0x1f;
/// Maximum of a five-bit count.
pub(super) const MAX_COUNT: usize = 31;
const WORD_BYTES: usize = 4;

/// A packet of a datagram with a valid frame. The content has not been parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// The count, or the format of a feedback message.
    pub(super) count: u8,
    pub(super) packet_type: u8,
    /// Header, content and padding.
    pub(super) packet: &'a [u8],
    padding: usize,
}

impl<'a> Frame<'a> {
    /// Takes the first packet from `bytes`. Returns it and the rest.
    pub(super) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), RtcpError> {
        let short = |needed| RtcpError::Truncated { what: "an RTCP packet", needed, found: bytes.len() };
        let &[flags, packet_type, l0, l1] =
            bytes.first_chunk::<HEADER_BYTES>().ok_or_else(|| short(HEADER_BYTES))?;
        if flags >> VERSION_SHIFT != VERSION {
            return Err(RtcpError::Version(flags >> VERSION_SHIFT));
        }
        let length = (usize::from(u16::from_be_bytes([l0, l1])) + 1) * WORD_BYTES;
        let (packet, rest) = bytes.split_at_checked(length).ok_or_else(|| short(length))?;
        let padding = if flags & PADDING_BIT == 0 { 0 } else { padding(packet)? };
        if padding > 0 && !rest.is_empty() {
            return Err(RtcpError::PaddingWithin);
        }
        Ok((Self { count: flags & COUNT_MASK, packet_type, packet, padding }, rest))
    }

    /// The content between header and padding.
    pub(super) fn content(&self) -> &'a [u8] {
        self.packet.get(HEADER_BYTES..self.packet.len() - self.padding).unwrap_or_default()
    }
}

/// The last byte of a padded packet counts the padding bytes, including itself (RFC 3550 §6.4.1).
fn padding(packet: &[u8]) -> Result<usize, RtcpError> {
    let available = packet.len() - HEADER_BYTES;
    let count = if available == 0 { 0 } else { packet.last().copied().unwrap_or(0) };
    if count == 0 || usize::from(count) > available {
        return Err(RtcpError::Padding { count, available });
    }
    Ok(usize::from(count))
}

/// Appends a packet. `content` appends its content; zeros fill the last word. On error nothing is appended.
pub(super) fn write(
    buffer: &mut Vec<u8>,
    packet_type: u8,
    count: u8,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), RtcpError>,
) -> Result<(), RtcpError> {
    let start = buffer.len();
    buffer.extend([VERSION << VERSION_SHIFT | (count & COUNT_MASK), packet_type, 0, 0]);
    let written = content(buffer).and_then(|()| {
        let words = (buffer.len() - start).div_ceil(WORD_BYTES);
        let length = u16::try_from(words - 1).map_err(|_| RtcpError::TooMany {
            what: "words of a packet",
            found: words,
            max: usize::from(u16::MAX) + 1,
        })?;
        buffer.resize(start + words * WORD_BYTES, 0);
        let place = buffer.get_mut(start + 2..start + HEADER_BYTES).expect("the header was appended above");
        place.copy_from_slice(&length.to_be_bytes());
        Ok(())
    });
    if written.is_err() {
        buffer.truncate(start);
    }
    written
}

/// As [`write`], for packets whose count field is the number of `what`.
pub(super) fn write_counted(
    buffer: &mut Vec<u8>,
    packet_type: u8,
    (what, found): (&'static str, usize),
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), RtcpError>,
) -> Result<(), RtcpError> {
    match u8::try_from(found) {
        Ok(count) if found <= MAX_COUNT => write(buffer, packet_type, count, content),
        _ => Err(RtcpError::TooMany { what, found, max: MAX_COUNT }),
    }
}

/// Takes `N` bytes from the front of `bytes`.
pub(super) fn take<const N: usize>(bytes: &mut &[u8], what: &'static str) -> Result<[u8; N], RtcpError> {
    let found = bytes.len();
    let (taken, rest) = bytes.split_first_chunk().ok_or(RtcpError::Truncated { what, needed: N, found })?;
    *bytes = rest;
    Ok(*taken)
}

/// Takes 32 bits from the front of `bytes`.
pub(super) fn take_u32(bytes: &mut &[u8], what: &'static str) -> Result<u32, RtcpError> {
    take(bytes, what).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_packet_may_be_padded() {
        let mut packet = [0xa1, 207, 0, 2, 9, 9, 9, 9, 0, 0, 0, 4];
        let (frame, rest) = Frame::split(&packet).unwrap();
        assert_eq!((frame.count, frame.packet_type, frame.content()), (1, 207, &[9_u8; 4][..]));
        assert!(rest.is_empty());
        for count in [0, 9, 255] {
            packet[11] = count;
            assert_eq!(Frame::split(&packet), Err(RtcpError::Padding { count, available: 8 }));
        }
        packet[11] = 8;
        assert_eq!(Frame::split(&packet).unwrap().0.content(), []);
        let two = [packet, packet].concat();
        assert_eq!(Frame::split(&two), Err(RtcpError::PaddingWithin));
        let empty = [0xa0, 207, 0, 0];
        assert_eq!(Frame::split(&empty), Err(RtcpError::Padding { count: 0, available: 0 }));
    }

    #[test]
    fn a_failed_write_appends_nothing() {
        let mut buffer = vec![7];
        let long = write(&mut buffer, 207, 0, |content| {
            content.resize(1 + 4 * 65_536 + 1, 0);
            Ok(())
        });
        let max = 65_536;
        assert_eq!(long, Err(RtcpError::TooMany { what: "words of a packet", found: 65_537, max }));
        assert_eq!(buffer, [7]);
        write(&mut buffer, 207, 3, |content| {
            content.push(1);
            Ok(())
        })
        .unwrap();
        assert_eq!(buffer, [7, 0x83, 207, 0, 1, 1, 0, 0, 0]);
    }
}
