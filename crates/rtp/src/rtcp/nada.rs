//! Feedback of NADA (RFC 8698 §5.3).
//!
//! The RFC lists the fields and their units, and defines no message. Here it is an application-defined packet (RFC 3550 §6.7) with the
//! name `NADA` and the subtype 0.

use alloc::vec::Vec;
use giusto_units::DataRate;

use super::{
    error::RtcpError,
    frame::{self, Frame, packet_type},
};

/// The name of the packet. RFC 3550 §6.7: chosen by the application.
const NAME: [u8; 4] = *b"NADA";
/// The subtype.
pub(super) const SUBTYPE: u8 = 0;
const MODE_BIT: u16 = 0x8000;
const WHAT: &str = "NADA feedback";

/// Congestion of a path, as its receiver sees it.
///
/// | bits | field |
/// |---|---|
/// | 32 | header: subtype 0, packet type 204, length 4 |
/// | 32 | source of the feedback |
/// | 32 | `NADA` |
/// | 1, 15 | mode; congestion signal in units of 100 µs |
/// | 16 | reserved: written as zero, not read |
/// | 32 | received rate in bit/s |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NadaFeedback {
    /// SSRC of the sender of the feedback.
    pub sender_ssrc: u32,
    /// Whether the rate should change gradually (`rmode` = 1) instead of by an accelerated ramp-up.
    pub gradual: bool,
    /// Aggregate congestion signal in units of 100 µs (`x_curr`). At most [`MAX_SIGNAL`](Self::MAX_SIGNAL): a larger one is written as that.
    pub signal: u16,
    /// Received rate (`r_recv`). Written as at most 2^32 − 1 bit/s.
    pub received: DataRate,
}

impl NadaFeedback {
    /// Maximum signal: 3276.7 ms.
    pub const MAX_SIGNAL: u16 = MODE_BIT - 1;
    /// Length of the packet.
    pub const BYTES: usize = 20;

    /// Appends the packet to `buffer`.
    ///
    /// # Errors
    ///
    /// None: it always fits.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        frame::write(buffer, packet_type::APPLICATION, SUBTYPE, |content| {
            let mode = if self.gradual { MODE_BIT } else { 0 };
            let rate = u32::try_from(self.received.as_bps()).unwrap_or(u32::MAX);
            content.extend(self.sender_ssrc.to_be_bytes());
            content.extend(NAME);
            content.extend((mode | self.signal.min(Self::MAX_SIGNAL)).to_be_bytes());
            content.extend([0; 2]);
            content.extend(rate.to_be_bytes());
            Ok(())
        })
    }

    /// `None` if it is another application-defined packet.
    pub(super) fn read(frame: &Frame<'_>) -> Result<Option<Self>, RtcpError> {
        let mut rest = frame.content();
        let sender_ssrc = frame::take_u32(&mut rest, WHAT)?;
        if !rest.starts_with(&NAME) {
            return Ok(None);
        }
        frame::take_u32(&mut rest, WHAT)?;
        let bits = frame::take(&mut rest, WHAT).map(u16::from_be_bytes)?;
        frame::take::<2>(&mut rest, WHAT)?;
        let rate = frame::take_u32(&mut rest, WHAT)?;
        if !rest.is_empty() {
            return Err(RtcpError::Excess { what: WHAT, found: rest.len() });
        }
        let (gradual, signal) = (bits & MODE_BIT != 0, bits & Self::MAX_SIGNAL);
        Ok(Some(Self { sender_ssrc, gradual, signal, received: DataRate::from_bps(rate.into()) }))
    }
}
