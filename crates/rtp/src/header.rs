//! The RTP fixed header (RFC 3550 §5.1) and the position of its extension (§5.3.1).

use alloc::vec::Vec;
use core::ops::Range;

/// The fixed header without CSRC list and extension, in bytes (RFC 3550 §5.1).
pub const RTP_HEADER_BYTES: usize = 12;

/// The version of RTP (RFC 3550 §5.1).
const VERSION: u8 = 2;
const VERSION_SHIFT: u32 = 6;
const PADDING_BIT: u8 = 0x20;
const EXTENSION_BIT: u8 = 0x10;
const CSRC_COUNT_MASK: u8 = 0x0f;
const MARKER_BIT: u8 = 0x80;
const PAYLOAD_TYPE_MASK: u8 = 0x7f;
const CSRC_BYTES: usize = 4;
/// The extension's own header: profile and length (RFC 3550 §5.3.1).
const EXTENSION_HEADER_BYTES: usize = 4;
const WORD_BYTES: usize = 4;
/// Values of the second byte that identify RTCP if RTP and RTCP share a port (RFC 5761 §4).
const RTCP_TYPES: core::ops::RangeInclusive<u8> = 192..=223;

/// Error of reading or writing an RTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RtpError {
    /// The datagram ends within the header, the CSRC list or the extension.
    #[error("an RTP header of {needed} bytes does not fit a datagram of {found} bytes")]
    TooShort {
        /// Bytes needed.
        needed: usize,
        /// Bytes available.
        found: usize,
    },
    /// The first two bits are not 2: STUN, DTLS or other data.
    #[error("RTP version 2 was expected, found version {0}")]
    Version(u8),
    /// The second byte is that of an RTCP packet (RFC 5761 §4).
    #[error("RTCP packet of type {0} where RTP was expected")]
    Rtcp(u8),
    /// The padding count is zero or larger than what follows the header.
    #[error("padding of {count} bytes does not fit the {available} bytes after the RTP header")]
    Padding {
        /// Count in the last byte.
        count: u8,
        /// Bytes after the header.
        available: usize,
    },
    /// The payload type does not fit seven bits, or would be read as RTCP (64 to 95, RFC 5761 §4).
    #[error("RTP payload type must be 0 to 63 or 96 to 127, found {0}")]
    PayloadType(u8),
    /// The buffer is too small.
    #[error("{needed} bytes do not fit a buffer of {found} bytes")]
    BufferTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes in the buffer.
        found: usize,
    },
    /// The extension is longer than its 16-bit count of words permits.
    #[error("an RTP header extension holds at most 262140 bytes, found {0}")]
    ExtensionTooLong(usize),
}

/// Position of the header extension of a packet (RFC 3550 §5.3.1).
///
/// The profile defines its content: `0xBEDE` is the one-byte form of RFC 8285 §4.2, `0x1000` to `0x100F` the
/// two-byte form of §4.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RtpExtension {
    /// The 16 bits "defined by profile".
    pub profile: u16,
    start: usize,
    end: usize,
}

impl RtpExtension {
    /// Position of the content in the datagram, after the extension's four-byte header.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The content in `datagram`, which must be the parsed one; empty if it is shorter than that one.
    pub fn data<'a>(&self, datagram: &'a [u8]) -> &'a [u8] {
        datagram.get(self.range()).unwrap_or_default()
    }
}

/// The fields of an RTP header that a media stream uses (RFC 3550 §5.1).
///
/// Contributing sources are skipped, because there is no mixer.
///
/// # Example
///
/// ```
/// use giusto_rtp::RtpHeader;
///
/// let header = RtpHeader { marker: true, payload_type: 0, sequence: 7, timestamp: 160, ssrc: 1, extension: None };
/// let mut packet = [0; 172];
/// let written = header.write(&mut packet)?;
/// let (parsed, payload) = RtpHeader::parse(&packet)?;
/// assert_eq!((parsed, payload), (header, written..172));
/// # Ok::<(), giusto_rtp::RtpError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RtpHeader {
    /// An event of the profile; for audio the first packet of a talkspurt (RFC 3551 §4.1).
    pub marker: bool,
    /// Payload type: seven bits.
    pub payload_type: u8,
    /// Sequence number: increases by one per packet, modulo 2^16.
    pub sequence: u16,
    /// Sampling time of the first byte of payload, in units of the media clock.
    pub timestamp: u32,
    /// The synchronisation source.
    pub ssrc: u32,
    /// The header extension of a parsed packet. [`write`](Self::write) does not write it.
    pub extension: Option<RtpExtension>,
}

impl RtpHeader {
    /// Reads the header of `datagram`. Returns it and the position of the payload without padding.
    ///
    /// # Errors
    ///
    /// [`RtpError`] if the datagram is not RTP: too short, wrong version, RTCP, or invalid padding.
    pub fn parse(datagram: &[u8]) -> Result<(Self, Range<usize>), RtpError> {
        let short = |needed| RtpError::TooShort { needed, found: datagram.len() };
        let (&flags, &kind) = datagram.first().zip(datagram.get(1)).ok_or_else(|| short(RTP_HEADER_BYTES))?;
        if flags >> VERSION_SHIFT != VERSION {
            return Err(RtpError::Version(flags >> VERSION_SHIFT));
        }
        if RTCP_TYPES.contains(&kind) {
            return Err(RtpError::Rtcp(kind));
        }
        let &[_, _, s0, s1, t0, t1, t2, t3, r0, r1, r2, r3] =
            datagram.first_chunk::<RTP_HEADER_BYTES>().ok_or_else(|| short(RTP_HEADER_BYTES))?;
        let mut offset = RTP_HEADER_BYTES + usize::from(flags & CSRC_COUNT_MASK) * CSRC_BYTES;
        let mut extension = None;
        if flags & EXTENSION_BIT != 0 {
            let start = offset + EXTENSION_HEADER_BYTES;
            let head = datagram.get(offset..).and_then(|rest| rest.first_chunk::<EXTENSION_HEADER_BYTES>());
            let &[p0, p1, l0, l1] = head.ok_or_else(|| short(start))?;
            let end = start + usize::from(u16::from_be_bytes([l0, l1])) * WORD_BYTES;
            extension = Some(RtpExtension { profile: u16::from_be_bytes([p0, p1]), start, end });
            offset = end;
        }
        let available = datagram.len().checked_sub(offset).ok_or_else(|| short(offset))?;
        let header = Self {
            marker: kind & MARKER_BIT != 0,
            payload_type: kind & PAYLOAD_TYPE_MASK,
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([r0, r1, r2, r3]),
            extension,
        };
        Ok((header, offset..datagram.len() - padding(flags, datagram, available)?))
    }

    /// The contributing sources of `datagram` (RFC 3550 §5.1); none if it is too short.
    pub fn contributing_sources(datagram: &[u8]) -> impl Iterator<Item = u32> + '_ {
        let count = datagram.first().map_or(0, |flags| usize::from(flags & CSRC_COUNT_MASK));
        let list = datagram.get(RTP_HEADER_BYTES..RTP_HEADER_BYTES + count * CSRC_BYTES).unwrap_or_default();
        list.chunks_exact(CSRC_BYTES).filter_map(|ssrc| Some(u32::from_be_bytes(*ssrc.first_chunk()?)))
    }

    /// Inserts contributing sources into a written header, after the fixed part, in place of none. Beyond 15 they are left out.
    pub fn insert_sources(head: &mut Vec<u8>, sources: &[u32]) {
        let sources = sources.get(..sources.len().min(usize::from(CSRC_COUNT_MASK))).unwrap_or_default();
        if head.len() < RTP_HEADER_BYTES {
            return;
        }
        if let Some(flags) = head.first_mut() {
            *flags = *flags & !CSRC_COUNT_MASK | sources.len() as u8;
        }
        let bytes = sources.iter().flat_map(|ssrc| ssrc.to_be_bytes());
        head.splice(RTP_HEADER_BYTES..RTP_HEADER_BYTES, bytes);
    }

    /// Writes the fixed header, without CSRC list, extension and padding. Returns its length,
    /// [`RTP_HEADER_BYTES`].
    ///
    /// # Errors
    ///
    /// [`RtpError::PayloadType`] for a payload type that would not be read as RTP,
    /// [`RtpError::BufferTooSmall`].
    pub fn write(&self, buffer: &mut [u8]) -> Result<usize, RtpError> {
        let found = buffer.len();
        if self.payload_type > PAYLOAD_TYPE_MASK || RTCP_TYPES.contains(&(self.payload_type | MARKER_BIT)) {
            return Err(RtpError::PayloadType(self.payload_type));
        }
        let target = buffer
            .first_chunk_mut::<RTP_HEADER_BYTES>()
            .ok_or(RtpError::BufferTooSmall { needed: RTP_HEADER_BYTES, found })?;
        let marker = if self.marker { MARKER_BIT } else { 0 };
        let [s0, s1] = self.sequence.to_be_bytes();
        let [t0, t1, t2, t3] = self.timestamp.to_be_bytes();
        let [r0, r1, r2, r3] = self.ssrc.to_be_bytes();
        *target =
            [VERSION << VERSION_SHIFT, marker | self.payload_type, s0, s1, t0, t1, t2, t3, r0, r1, r2, r3];
        Ok(RTP_HEADER_BYTES)
    }

    /// Writes the fixed header and an extension of `profile` with `data`, padded with zeros to a whole word.
    /// Returns the length of both.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and [`RtpError::ExtensionTooLong`].
    pub fn write_with_extension(
        &self,
        buffer: &mut [u8],
        profile: u16,
        data: &[u8],
    ) -> Result<usize, RtpError> {
        let words = u16::try_from(data.len().div_ceil(WORD_BYTES))
            .map_err(|_| RtpError::ExtensionTooLong(data.len()))?;
        let needed = RTP_HEADER_BYTES + EXTENSION_HEADER_BYTES + usize::from(words) * WORD_BYTES;
        let too_small = RtpError::BufferTooSmall { needed, found: buffer.len() };
        let buffer = buffer.get_mut(..needed).ok_or(too_small)?;
        self.write(buffer)?;
        if let Some(flags) = buffer.first_mut() {
            *flags |= EXTENSION_BIT;
        }
        let (_, extension) = buffer.split_at_mut(RTP_HEADER_BYTES);
        let (head, content) = extension.split_at_mut(EXTENSION_HEADER_BYTES);
        let [p0, p1] = profile.to_be_bytes();
        let [l0, l1] = words.to_be_bytes();
        head.copy_from_slice(&[p0, p1, l0, l1]);
        let (content, rest) = content.split_at_mut(data.len());
        content.copy_from_slice(data);
        rest.fill(0);
        Ok(needed)
    }
}

/// Number of padding bytes at the end of the packet (RFC 3550 §5.1): the last byte counts them, including
/// itself.
fn padding(flags: u8, datagram: &[u8], available: usize) -> Result<usize, RtpError> {
    if flags & PADDING_BIT == 0 {
        return Ok(0);
    }
    let count = if available == 0 { 0 } else { datagram.last().copied().unwrap_or(0) };
    if count == 0 || usize::from(count) > available {
        return Err(RtpError::Padding { count, available });
    }
    Ok(usize::from(count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> RtpHeader {
        RtpHeader {
            marker: true,
            payload_type: 8,
            sequence: 0x0102,
            timestamp: 0x0304_0506,
            ssrc: 0x0708_090a,
            extension: None,
        }
    }

    #[test]
    fn a_header_has_the_layout_of_rfc_3550() {
        let mut buffer = [0xff; 12];
        assert_eq!(header().write(&mut buffer), Ok(12));
        assert_eq!(buffer, [0x80, 0x88, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn csrc_list_extension_and_padding_are_not_payload() {
        let mut packet = vec![0xb2, 0x88, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        packet.extend([0; 8]); // two contributing sources
        packet.extend([0xbe, 0xde, 0, 1, 0x10, 0xaa, 0, 0]);
        packet.extend(*b"payload");
        packet.extend([0, 0, 3]);
        let (parsed, payload) = RtpHeader::parse(&packet).unwrap();
        assert_eq!(&packet[payload], b"payload");
        let extension = parsed.extension.unwrap();
        assert_eq!((extension.profile, extension.range()), (0xbede, 24..28));
        assert_eq!(extension.data(&packet), [0x10, 0xaa, 0, 0]);
        assert_eq!(RtpHeader { extension: None, ..parsed }, header());
    }

    #[test]
    fn inserted_sources_are_read_before_the_extension() {
        let mut head = vec![0; 20];
        header().write_with_extension(&mut head, 0xbede, &[0x10, 0xaa]).unwrap();
        RtpHeader::insert_sources(&mut head, &[5, 6]);
        assert!(RtpHeader::contributing_sources(&head).eq([5, 6]));
        let (parsed, payload) = RtpHeader::parse(&head).unwrap();
        assert_eq!((parsed.extension.unwrap().range(), payload), (24..28, 28..28));
        assert_eq!(RtpHeader::contributing_sources(&head[..19]).count(), 0);
        RtpHeader::insert_sources(&mut head, &[1; 20]);
        assert_eq!(RtpHeader::contributing_sources(&head).count(), 15);
    }

    #[test]
    fn invalid_padding_is_rejected() {
        let mut packet = [0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 2];
        assert_eq!(RtpHeader::parse(&packet).unwrap().1, 12..13);
        packet[14] = 3;
        assert_eq!(RtpHeader::parse(&packet).unwrap().1, 12..12);
        for count in [0, 4, 255] {
            packet[14] = count;
            assert_eq!(RtpHeader::parse(&packet), Err(RtpError::Padding { count, available: 3 }));
        }
        assert_eq!(RtpHeader::parse(&packet[..12]), Err(RtpError::Padding { count: 0, available: 0 }));
    }

    #[test]
    fn data_other_than_rtp_gives_an_error() {
        let mut packet = [0x80; 20];
        packet[1] = 200; // a sender report
        assert_eq!(RtpHeader::parse(&packet), Err(RtpError::Rtcp(200)));
        assert_eq!(RtpHeader::parse(&packet[..8]), Err(RtpError::Rtcp(200)));
        packet[1] = 191;
        assert!(RtpHeader::parse(&packet).is_ok());
        packet[1] = 224;
        assert!(RtpHeader::parse(&packet).is_ok());
        assert_eq!(RtpHeader::parse(&packet[..11]), Err(RtpError::TooShort { needed: 12, found: 11 }));
        packet[0] = 0x8f;
        assert_eq!(RtpHeader::parse(&packet), Err(RtpError::TooShort { needed: 72, found: 20 }));
        packet[0] = 0x00;
        assert_eq!(RtpHeader::parse(&packet), Err(RtpError::Version(0)));
        assert_eq!(RtpHeader::parse(&[]), Err(RtpError::TooShort { needed: 12, found: 0 }));
    }

    #[test]
    fn unreadable_headers_are_not_written() {
        let mut buffer = [0; 12];
        for payload_type in [64, 72, 95, 128, 255] {
            let header = RtpHeader { payload_type, ..header() };
            assert_eq!(header.write(&mut buffer), Err(RtpError::PayloadType(payload_type)));
        }
        let too_small = RtpError::BufferTooSmall { needed: 12, found: 11 };
        assert_eq!(header().write(&mut buffer[..11]), Err(too_small));
        let long = vec![0; 262_141];
        let error = header().write_with_extension(&mut buffer, 0, &long);
        assert_eq!(error, Err(RtpError::ExtensionTooLong(262_141)));
        let too_small = RtpError::BufferTooSmall { needed: 20, found: 12 };
        assert_eq!(header().write_with_extension(&mut buffer, 0, &[1]), Err(too_small));
    }

    proptest! {
        #[test]
        fn a_written_header_is_read_back(
            marker: bool, low in 0_u8..64, high in 96_u8..128, dynamic: bool, sequence: u16, timestamp: u32, ssrc: u32,
            profile: u16, data in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let payload_type = if dynamic { high } else { low };
            let header = RtpHeader { marker, payload_type, sequence, timestamp, ssrc, extension: None };
            let mut buffer = [0xa5; 64];
            let length = header.write(&mut buffer).unwrap();
            prop_assert_eq!(RtpHeader::parse(&buffer), Ok((header, length..64)));

            let length = header.write_with_extension(&mut buffer, profile, &data).unwrap();
            let (parsed, payload) = RtpHeader::parse(&buffer).unwrap();
            let extension = parsed.extension.unwrap();
            prop_assert_eq!(payload, length..64);
            prop_assert_eq!(extension.profile, profile);
            prop_assert_eq!(&extension.data(&buffer)[..data.len()], &data[..]);
            prop_assert!(extension.data(&buffer)[data.len()..].iter().all(|&byte| byte == 0));
            prop_assert_eq!(RtpHeader { extension: None, ..parsed }, header);
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), rtp: bool) {
            if let (true, Some(first)) = (rtp, bytes.first_mut()) {
                *first = *first & 0x3f | 0x80;
            }
            if let Ok((header, payload)) = RtpHeader::parse(&bytes) {
                prop_assert!(payload.start >= RTP_HEADER_BYTES && payload.end <= bytes.len());
                prop_assert!(bytes.get(payload).is_some());
                if let Some(extension) = header.extension {
                    prop_assert!(bytes.get(extension.range()).is_some());
                }
            }
        }
    }
}
