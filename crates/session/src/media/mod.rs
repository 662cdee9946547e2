//! How do two ends of a media session speak to each other?
//!
//! A [`MediaEndpoint`] sends media, receives media, or both, over one transport (RTP and RTCP share it, RFC 5761). It has no
//! clock and no socket: datagrams and times go in, datagrams and events come out.
//!
//! ```text
//!   MediaSender                                                      MediaReceiver
//!     source -> packetizer -> queue -+
//!     source -> packetizer -> queue -+-> scheduler -> pacer == RTP ====> when did each packet arrive?
//!     sound  -> packetizer -------------------------------> == RTP ====>
//!       ^ rate  ^ skip          ^ discard               ^ window              |
//!       +-------+---------------+-------- controller <--+-- RTCP feedback ----+    transport-wide, RFC 8888, REMB, or SCReAM's
//!     | -- SR, SDES ----------------------------------------------------> |   every second
//!     | <------------------------------------------------------------ RR - |   every second
//!     | -- BYE ---------------------------------------------------------> |   ends the reports
//! ```
//!
//! # Several streams
//!
//! A sender is the framework of Figure 2 of draft-johansson-rmcat-scream-cc-00, whatever its controller:
//!
//! | in the figure | here |
//! |---|---|
//! | rate control (1), one for each source | the controller's own for each stream, where it has that; otherwise its target is divided by [priority](MediaStream::priority), and what one stream cannot use goes to the others |
//! | queue of RTP packets (2), one for each source | the same; the controller hears (4) what all of them hold, how old the oldest packet of all is, and both of each stream |
//! | frames are skipped (3) | [`MediaStream::skip_after`]: a frame that is due is not encoded while the stream's oldest packet is older |
//! | old frames are discarded (§3.3) | [`MediaStream::discard_after`]: with the first packet that is too old goes all that waits of its stream, and a key frame follows. Only what leaves gets a sequence number, so nothing looks lost |
//! | priority order or round robin (5) | both: weighted round robin by credit, as RFC 8298 §4.1.2.8 has it. Weights are priorities |
//! | transmission scheduler, congestion window (6, 8) | one [pacer](giusto_pace::media::Pacer) with the one window |
//! | sound may pass the window | [`MediaStream::paced`] is false: it waits for nothing, and counts as sent, as in flight, and as owed to the pacer |
//!
//! A stream that pauses leaves its part to the others; what waits of it still leaves. What became of each stream say
//! [`MediaSender::figures`], [`MediaEvent::Skipped`] and [`MediaEvent::Discarded`].
//!
//! # What is on the wire
//!
//! RTP headers and RTCP are real bytes. What is in the media is not: a [`Datagram`] has a head that is read, and a rest of
//! which only the size counts.
//!
//! | extension (RFC 8285) | id | sent with |
//! |---|---|---|
//! | transport-wide sequence number | [`TRANSPORT_SEQUENCE_ID`] | [`FeedbackKind::TransportWide`](giusto_congestion::FeedbackKind) |
//! | abs-send-time | [`ABS_SEND_TIME_ID`] | [`FeedbackKind::ReceiverEstimate`](giusto_congestion::FeedbackKind) |

mod config;
mod endpoint;
mod event;
mod queue;
mod receiver;
mod reports;
mod scheduler;
#[cfg(test)]
mod scream_draft_tests;
mod sender;
mod share;
mod stream;
mod streams;
#[cfg(test)]
mod tests;

pub use config::{MediaSenderConfig, PADDING_SSRC, PADDING_TYPE, pacer_config};
pub use endpoint::MediaEndpoint;
pub use event::{FrameArrival, MediaEvent};
pub use receiver::{Framing, MediaReceiver, MediaReceiverConfig, PayloadFormat, SourceFigures};
pub use sender::MediaSender;
pub use stream::MediaStream;
pub use streams::StreamFigures;

use giusto_units::{DataSize, Ecn};

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
