//! Feedback of the SCReAM draft: the received packets among the latest 33, and the arrival time of the
//! highest (draft-johansson-rmcat-scream-cc-00 §3, Figure 1).
//!
//! # What the draft leaves open
//!
//! | field | the draft | here |
//! |---|---|---|
//! | format | to be assigned (§7) | 30: RFC 4585 §6.2 leaves 2 to 30, and IANA assigns from below: 1, 3 to 11, and 15 in use unassigned |
//! | clock of the timestamp | "can be set to a fixed value" (§3) | 90 kHz: [`ReceptionTime`] |
//! | packet of the timestamp | the last received; the sequence number is the highest | the highest for both |
//! | ECN echo | T.B.D. | packets of the source received with CE so far, modulo 256, as AccECN and QUIC count |
//! | Q | T.B.D. | as in the figure; the receiver decides when to set it |
//! | order of the ACK vector | not specified | the highest bit is the packet before the highest, the lowest the one 32 before it |

use alloc::vec::Vec;
use giusto_units::{PeerTimestamp, Timestamp};

use super::{
    error::RtcpError,
    frame::{self, Frame, packet_type},
};
use crate::unwrapper::SequenceUnwrapper;

/// Not assigned (draft-johansson-rmcat-scream-cc-00 §7): the last format that RFC 4585 §6.2 leaves free.
pub(super) const FORMAT: u8 = 30;
/// Figure 1.
const QUENCH_BIT: u8 = 0x80;
/// Ticks of a timestamp per second, and nanoseconds.
const TICKS_PER_SECOND: u64 = 90_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
const WHAT: &str = "SCReAM feedback";

/// Recent arrivals of one source.
///
/// | bits | field |
/// |---|---|
/// | 32 | header: format 30, packet type 205, length 5 |
/// | 32 | source of the feedback |
/// | 32 | source of the media |
/// | 32 | timestamp: arrival time of the highest packet |
/// | 16 | highest sequence number received |
/// | 8 | ECN echo |
/// | 1, 7 | Q, reserved: written as zero, not read |
/// | 32 | ACK vector |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ScreamFeedback {
    /// SSRC of the sender of the feedback.
    pub sender_ssrc: u32,
    /// The reported source.
    pub media_ssrc: u32,
    /// Arrival time of the highest packet.
    pub time: ReceptionTime,
    /// Highest received sequence number.
    pub highest_sequence: u16,
    /// Number of packets received with CE since the first packet of the source, modulo 256.
    pub ecn_echo: u8,
    /// Whether the receiver requests a lower rate (Q).
    pub source_quench: bool,
    /// Bitmap of the 32 packets before the highest: the highest bit is the packet directly before it, the
    /// lowest the one 32 before it.
    pub received: u32,
}

impl ScreamFeedback {
    /// Number of reported packets (§3): the highest and the 32 before it.
    pub const PACKETS: u16 = 33;
    /// Length of the packet.
    pub const BYTES: usize = 24;

    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// None: it always fits.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        frame::write(buffer, packet_type::TRANSPORT_FEEDBACK, FORMAT, |content| {
            content.extend(self.sender_ssrc.to_be_bytes());
            content.extend(self.media_ssrc.to_be_bytes());
            content.extend(self.time.to_bits().to_be_bytes());
            content.extend(self.highest_sequence.to_be_bytes());
            content.extend([self.ecn_echo, if self.source_quench { QUENCH_BIT } else { 0 }]);
            content.extend(self.received.to_be_bytes());
            Ok(())
        })
    }

    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        let mut rest = frame.content();
        let sender_ssrc = frame::take_u32(&mut rest, WHAT)?;
        let media_ssrc = frame::take_u32(&mut rest, WHAT)?;
        let time = ReceptionTime::from_bits(frame::take_u32(&mut rest, WHAT)?);
        let highest_sequence = frame::take(&mut rest, WHAT).map(u16::from_be_bytes)?;
        let [ecn_echo, flags] = frame::take(&mut rest, WHAT)?;
        let received = frame::take_u32(&mut rest, WHAT)?;
        if !rest.is_empty() {
            return Err(RtcpError::Excess { what: WHAT, found: rest.len() });
        }
        let source_quench = flags & QUENCH_BIT != 0;
        Ok(Self { sender_ssrc, media_ssrc, time, highest_sequence, ecn_echo, source_quench, received })
    }

    /// The 33 sequence numbers and whether the packets arrived, the highest first.
    pub fn iter(&self) -> impl Iterator<Item = (u16, bool)> + '_ {
        let before = (1..Self::PACKETS).map(|behind| {
            let bit = 1 << (u32::from(Self::PACKETS) - 1 - u32::from(behind));
            (self.highest_sequence.wrapping_sub(behind), self.received & bit != 0)
        });
        core::iter::once((self.highest_sequence, true)).chain(before)
    }
}

/// A time in ticks of 90 kHz: 32 bits, which wrap after 13 h 15 min.
///
/// draft-johansson-rmcat-scream-cc-00 §3: "typically set to the same time base as the media source", or "a
/// fixed value". 90 kHz is the clock of all video (RFC 3551 §5) and fixed. Messages about audio and video
/// then share one clock, so that their times can be compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ReceptionTime(u32);

impl ReceptionTime {
    /// From the 32 bits as written.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// `time` since the run started, rounded down to 1/90 000 s.
    #[inline]
    pub const fn from_timestamp(time: Timestamp) -> Self {
        Self((time.as_nanos() as u128 * TICKS_PER_SECOND as u128 / NANOS_PER_SECOND as u128) as u32)
    }

    /// The 32 bits to write.
    #[inline]
    pub const fn to_bits(self) -> u32 {
        self.0
    }
}

/// Unwraps reception times, which wrap at 13 h 15 min.
///
/// Each time is interpreted as the one nearest to the previous time.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceptionTimeUnwrapper(SequenceUnwrapper);

impl ReceptionTimeUnwrapper {
    /// The first time is taken without change, below 13 h 15 min.
    #[inline]
    pub const fn new() -> Self {
        Self(SequenceUnwrapper::new())
    }

    /// The time on the clock of the writer minus an unknown multiple of 13 h 15 min, rounded up to a
    /// nanosecond. `None` if it is before zero: written before the first one received, across a wrap.
    #[inline]
    pub fn unwrap(&mut self, time: ReceptionTime) -> Option<PeerTimestamp> {
        let ticks = self.0.unwrap_u32(time.0)?;
        // Rounded up, so that writing it again, which rounds down, gives the same ticks.
        let nanos = (u128::from(ticks) * u128::from(NANOS_PER_SECOND)).div_ceil(u128::from(TICKS_PER_SECOND));
        u64::try_from(nanos).ok().map(PeerTimestamp::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rtcp::{Packet, Packets};

    fn read(bytes: &[u8]) -> Result<Packet, RtcpError> {
        Packets::new(bytes)?.next().expect("one packet")
    }

    /// Figure 1 of the draft by hand: 2 s are 180 000 ticks, which are 0x2bf20; of the packets before 0x0102
    /// the first, the fourth and the last arrived.
    const BYTES: [u8; 24] = [
        0x9e, 205, 0, 5, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x00, 0x02, 0xbf, 0x20, 0x01, 0x02,
        0x07, 0x80, 0x90, 0x00, 0x00, 0x01,
    ];

    fn figure() -> ScreamFeedback {
        ScreamFeedback {
            sender_ssrc: 0x1112_1314,
            media_ssrc: 0x2122_2324,
            time: ReceptionTime::from_timestamp(Timestamp::from_nanos(2_000_000_000)),
            highest_sequence: 0x0102,
            ecn_echo: 7,
            source_quench: true,
            received: 0x9000_0001,
        }
    }

    #[test]
    fn it_has_the_layout_of_the_figure() {
        let mut bytes = Vec::new();
        figure().write(&mut bytes).unwrap();
        assert_eq!((bytes.as_slice(), bytes.len()), (&BYTES[..], ScreamFeedback::BYTES));
        assert_eq!(read(&BYTES), Ok(Packet::ScreamFeedback(figure())));
        let came: Vec<u16> = figure().iter().filter(|(_, came)| *came).map(|(number, _)| number).collect();
        assert_eq!(came, [0x0102, 0x0101, 0x00fe, 0x00e2]);
        let numbers: Vec<u16> = figure().iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, (0x00e2..=0x0102).rev().collect::<Vec<_>>());
    }

    #[test]
    fn reserved_bits_are_ignored_and_other_lengths_rejected() {
        let mut bytes = BYTES;
        bytes[19] = 0x7f;
        let plain = ScreamFeedback { source_quench: false, ..figure() };
        assert_eq!(read(&bytes), Ok(Packet::ScreamFeedback(plain)));
        let mut long = [&BYTES[..], &[0; 4]].concat();
        long[3] = 6;
        assert_eq!(read(&long), Err(RtcpError::Excess { what: WHAT, found: 4 }));
        let mut short = BYTES[..20].to_vec();
        short[3] = 4;
        assert_eq!(read(&short), Err(RtcpError::Truncated { what: WHAT, needed: 4, found: 0 }));
    }

    #[test]
    fn numbers_are_reported_across_their_wrap() {
        let feedback = ScreamFeedback { highest_sequence: 1, received: u32::MAX, ..figure() };
        assert_eq!(feedback.iter().last(), Some((65_505, true)));
    }

    proptest! {
        #[test]
        fn the_clock_is_unwrapped(start in 0_u64..1 << 32, steps in prop::collection::vec(0_u64..1 << 31, 0..50)) {
            let mut unwrapper = ReceptionTimeUnwrapper::new();
            let mut ticks = start;
            for step in std::iter::once(0).chain(steps) {
                ticks += step;
                let read = unwrapper.unwrap(ReceptionTime::from_bits(ticks as u32)).unwrap().as_nanos();
                prop_assert_eq!(read, (ticks * 100_000).div_ceil(9));
                let again = ReceptionTime::from_timestamp(Timestamp::from_nanos(read));
                prop_assert_eq!(again.to_bits(), ticks as u32);
            }
        }
    }
}
