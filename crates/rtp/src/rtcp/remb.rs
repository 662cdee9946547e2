//! The receiver's estimate of the bitrate (draft-alvestrand-rmcat-remb-03 §2.2).

use alloc::vec::Vec;
use giusto_units::DataRate;

use super::{
    error::RtcpError,
    frame::{self, Frame, packet_type},
};

/// The format of messages that the application defines (RFC 4585 §6.4).
pub(super) const FORMAT: u8 = 15;
/// Identifier of this message among the messages of its format (draft-alvestrand-rmcat-remb-03 §2.2).
const IDENTIFIER: [u8; 4] = *b"REMB";
/// Bits of the mantissa (draft-alvestrand-rmcat-remb-03 §2.2).
const MANTISSA_BITS: u32 = 18;
const MAX_SOURCES: usize = 255;
const WHAT: &str = "an estimated maximum bitrate";

/// The bitrate that a receiver estimates for the path, for several sources together.
///
/// | bits | field |
/// |---|---|
/// | 32 | header: format 15, packet type 206, length |
/// | 32 | source of the message |
/// | 32 | zero |
/// | 32 | `REMB` |
/// | 8, 6, 18 | count of sources, exponent, mantissa: mantissa × 2^exponent bit/s |
/// | 32 each | sources |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Remb {
    /// SSRC of the sender of the message.
    pub sender_ssrc: u32,
    /// The estimate. Written with the upper 18 bits of its value, rounded down.
    pub bitrate: DataRate,
    /// The sources to which it applies, at most 255.
    pub sources: Vec<u32>,
}

impl Remb {
    /// `bitrate` as written: rounded down to 18 significant bits.
    pub fn quantised(bitrate: DataRate) -> DataRate {
        let (mantissa, exponent) = split(bitrate);
        DataRate::from_bps(u64::from(mantissa) << exponent)
    }

    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] beyond 255 sources; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        let found = self.sources.len();
        let too_many = RtcpError::TooMany { what: "sources", found, max: MAX_SOURCES };
        let count = u8::try_from(found).map_err(|_| too_many)?;
        let (mantissa, exponent) = split(self.bitrate);
        frame::write(buffer, packet_type::PAYLOAD_FEEDBACK, FORMAT, |content| {
            content.extend(self.sender_ssrc.to_be_bytes());
            content.extend([0; 4]);
            content.extend(IDENTIFIER);
            let bits = u32::from(count) << 24 | u32::from(exponent) << MANTISSA_BITS | mantissa;
            content.extend(bits.to_be_bytes());
            content.extend(self.sources.iter().flat_map(|ssrc| ssrc.to_be_bytes()));
            Ok(())
        })
    }

    /// `None` if it is another message of the same format.
    pub(super) fn read(frame: &Frame<'_>) -> Result<Option<Self>, RtcpError> {
        let mut rest = frame.content();
        let sender_ssrc = frame::take_u32(&mut rest, WHAT)?;
        frame::take_u32(&mut rest, WHAT)?;
        if !rest.starts_with(&IDENTIFIER) {
            return Ok(None);
        }
        frame::take_u32(&mut rest, WHAT)?;
        let bits = frame::take_u32(&mut rest, WHAT)?;
        let (mantissa, exponent) = (bits & ((1 << MANTISSA_BITS) - 1), (bits >> MANTISSA_BITS & 0x3f) as u8);
        let bps = u64::from(mantissa) << exponent;
        if bps >> exponent != u64::from(mantissa) {
            return Err(RtcpError::Bitrate { mantissa, exponent });
        }
        let mut sources = Vec::with_capacity((bits >> 24) as usize);
        for _ in 0..bits >> 24 {
            sources.push(frame::take_u32(&mut rest, WHAT)?);
        }
        if !rest.is_empty() {
            return Err(RtcpError::Excess { what: WHAT, found: rest.len() });
        }
        Ok(Some(Self { sender_ssrc, bitrate: DataRate::from_bps(bps), sources }))
    }
}

/// The upper 18 bits of the rate, and their shift.
fn split(bitrate: DataRate) -> (u32, u8) {
    let bps = bitrate.as_bps();
    let exponent = (u64::BITS - bps.leading_zeros()).saturating_sub(MANTISSA_BITS);
    ((bps >> exponent) as u32, exponent as u8)
}
