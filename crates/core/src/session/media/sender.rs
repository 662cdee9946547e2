//! The end that sends media and adapts it to what is reported.

use super::{Datagram, MediaEvent};
use crate::{
    control::{Controller, FeedbackKind, Target},
    ecn::Ecn,
    media::{packetizer::Packetizer, source::MediaSource},
    rtp::rtcp::Packet,
    session::PacerConfig,
    units::{DataSize, Timestamp},
};

/// How a sender sends.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaSenderConfig {
    /// Its name (RFC 3550 §6.5.1).
    pub cname: String,
    /// What the far end reports to it, which says which header extension its packets carry.
    pub feedback: FeedbackKind,
    /// How its packets are paced.
    pub pacer: PacerConfig,
    /// Header bytes below RTP that count towards the rates: 28 for UDP over IPv4. Default 28.
    pub overhead: DataSize,
    /// The ECN codepoint of its packets.
    pub ecn: Ecn,
}

/// One source of media, with what an RTP packet of it says.
#[derive(Debug)]
pub struct MediaStream {
    /// Its synchronisation source.
    pub ssrc: u32,
    /// Its payload type.
    pub payload_type: u8,
    /// The ticks of its RTP timestamp in a second.
    pub clock_rate: u32,
    /// What makes its frames.
    pub source: Box<dyn MediaSource>,
    /// How they are cut.
    pub packetizer: Packetizer,
    /// Whether its packets wait for the pacer: pictures do, sound does not.
    pub paced: bool,
}

/// Sends media.
#[derive(Debug)]
pub struct MediaSender {
    config: MediaSenderConfig,
    controller: Box<dyn Controller>,
    streams: Vec<MediaStream>,
}

impl MediaSender {
    /// Begins with its first call.
    pub fn new(
        config: MediaSenderConfig,
        controller: Box<dyn Controller>,
        streams: Vec<MediaStream>,
    ) -> Self {
        Self { config, controller, streams }
    }

    /// How much it may send.
    pub fn target(&self) -> Target {
        self.controller.target()
    }

    /// An RTCP packet came.
    pub fn handle_rtcp(&mut self, now: Timestamp, packet: &Packet) {
        let _ = (now, packet);
    }

    /// The deadline of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// Ends the session: nothing more is sent but a BYE.
    pub fn stop(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// The next datagram to send at once, if any.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let _ = (now, &self.config, &self.streams);
        None
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        None
    }

    /// What there is to tell.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        None
    }
}
