//! How do two ends of a media session speak to each other?
//!
//! A [`MediaEndpoint`] sends media, receives media, or both, over one transport (RTP and RTCP share it, RFC 5761). It has no
//! clock and no socket: datagrams and times go in, datagrams and events come out.
//!
//! ```text
//!   MediaSender                                          MediaReceiver
//!     source -> packetizer -> queue -> pacer == RTP ====> when did each packet arrive?
//!                                        ^                     |
//!                  target <- controller <+---- RTCP feedback --+    transport-wide, RFC 8888, REMB, or SCReAM's
//!     | -- SR, SDES ------------------------------------> |   every second
//!     | <----------------------------------------- RR --- |   every second
//!     | -- BYE -----------------------------------------> |   ends the reports
//! ```
//!
//! # What is on the wire
//!
//! RTP headers and RTCP are real bytes. What is in the media is not: a [`Datagram`] has a head that is read, and a rest of
//! which only the size counts.
//!
//! | extension (RFC 8285) | id | sent with |
//! |---|---|---|
//! | transport-wide sequence number | [`TRANSPORT_SEQUENCE_ID`] | [`FeedbackKind::TransportWide`](crate::control::FeedbackKind) |
//! | abs-send-time | [`ABS_SEND_TIME_ID`] | [`FeedbackKind::ReceiverEstimate`](crate::control::FeedbackKind) |

mod acknowledged;
mod endpoint;
mod history;
mod queue;
mod receiver;
mod sender;
mod share;
mod stream;
#[cfg(test)]
mod tests;

pub use endpoint::MediaEndpoint;
pub use receiver::{Framing, MediaReceiver, MediaReceiverConfig, PayloadFormat, SourceFigures};
pub use sender::{MediaSender, MediaSenderConfig, PADDING_SSRC, PADDING_TYPE};
pub use stream::MediaStream;

use crate::{
    control::Decision,
    ecn::Ecn,
    units::{DataSize, TimeDelta, Timestamp},
};

/// The local identifier of the transport-wide sequence number (RFC 8285 §4.2).
pub const TRANSPORT_SEQUENCE_ID: u8 = 1;
/// The local identifier of abs-send-time.
pub const ABS_SEND_TIME_ID: u8 = 2;

/// A datagram, as far as anybody reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// What is read: an RTP header with its extensions, or RTCP.
    pub head: Vec<u8>,
    /// How much content follows that nobody reads.
    pub rest: DataSize,
    /// Its ECN codepoint.
    pub ecn: Ecn,
}

impl Datagram {
    /// The whole UDP payload.
    pub fn size(&self) -> DataSize {
        DataSize::from_bytes(self.head.len() as u64) + self.rest
    }
}

/// What an endpoint has to tell.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum MediaEvent {
    /// The controller has decided.
    Decided(Decision),
    /// A frame has arrived whole.
    Frame(FrameArrival),
    /// The far end has ended this source.
    Ended {
        /// Which.
        ssrc: u32,
    },
}

/// A frame that arrived whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameArrival {
    /// Of which source.
    pub ssrc: u32,
    /// Its RTP timestamp.
    pub media_timestamp: u32,
    /// When the last of its packets arrived.
    pub at: Timestamp,
    /// From its capture until then, by the clocks of both ends (the sender's is in its reports, RFC 3550 §6.4.1); `None` before
    /// the first report. Where the clocks are not in step, only its changes mean something.
    pub delay: Option<TimeDelta>,
    /// How many packets it came in.
    pub packets: u64,
    /// Its size, without the headers of RTP.
    pub size: DataSize,
}
