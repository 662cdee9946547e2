//! Packet history: converts sent packets and RTCP messages to [`Feedback`](crate::Feedback).
//!
//! A sender that already has RTP and RTCP needs this part to use a controller. [`History`] stores the packets
//! that were sent, finds the packets that an RTCP message reports, and gives the controller the new
//! information of the message.
//!
//! | message | reference | contributes |
//! |---|---|---|
//! | transport-wide feedback (TWCC) | draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1 | arrival times, losses |
//! | congestion control feedback | RFC 8888 §3.1 | arrival times, losses, ECN codepoints |
//! | SCReAM feedback | draft-johansson-rmcat-scream-cc-00 §3 | arrivals, losses, marks, source quench |
//! | REMB | draft-alvestrand-rmcat-remb-03 §2.2 | the receiver's estimate |
//! | sender and receiver reports | RFC 3550 §6.4 | loss ratio, round-trip time |
//!
//! # Example
//!
//! ```
//! use giusto_congestion::{Algorithm, History, Limits, OutgoingPacket};
//! use giusto_units::{DataSize, Timestamp};
//!
//! let mut history = History::new();
//! let mut controller = "gcc:libwebrtc".parse::<Algorithm>()?.build(Limits::default());
//!
//! // For each packet that leaves:
//! let now = Timestamp::ZERO;
//! let packet = OutgoingPacket::new(DataSize::from_bytes(1200)).with_transport_sequence(Some(7));
//! controller.on_sent(now, &history.on_sent(now, packet));
//!
//! // For each RTCP datagram that arrives. This TWCC message reports packet 7 as received.
//! let now = Timestamp::from_nanos(50_000_000);
//! let rtcp = [0x8f, 205, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0, 7, 0, 1, 0, 0, 1, 0, 0x20, 1, 40, 0];
//! if let Some(feedback) = history.on_rtcp(now, &rtcp)? {
//!     assert_eq!(feedback.packets.len(), 1);
//!     controller.on_feedback(now, &feedback);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod numbers;
mod outgoing;
mod packets;
mod scream_draft;
mod source;
#[cfg(test)]
mod tests;

pub use adapter::History;
pub use outgoing::{OutgoingPacket, RtpId};
pub use packets::Reported;
