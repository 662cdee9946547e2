//! The end that receives media and reports on it.

use super::{Datagram, MediaEvent};
use crate::{
    control::{FeedbackKind, gcc::ReceiveSideConfig},
    ecn::Ecn,
    rtp::rtcp::Packet,
    units::{DataSize, TimeDelta, Timestamp},
};

/// What a receiver reports, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaReceiverConfig {
    /// Its own source, in what it reports.
    pub ssrc: u32,
    /// Its name (RFC 3550 §6.5.1).
    pub cname: String,
    /// What it tells the sender's controller.
    pub feedback: FeedbackKind,
    /// How it estimates what it may be sent, with [`FeedbackKind::ReceiverEstimate`].
    pub receive_side: ReceiveSideConfig,
    /// How often it sends a receiver report. Default 1 s, as libwebrtc does for video.
    pub report_interval: TimeDelta,
}

/// Receives media.
#[derive(Debug)]
pub struct MediaReceiver {
    config: MediaReceiverConfig,
}

impl MediaReceiver {
    /// Has received nothing.
    pub fn new(config: MediaReceiverConfig) -> Self {
        Self { config }
    }

    /// A datagram of RTP came: its head, with all headers, and its whole size as UDP payload.
    pub fn handle_rtp(&mut self, now: Timestamp, head: &[u8], size: DataSize, ecn: Ecn) {
        let _ = (now, head, size, ecn);
    }

    /// An RTCP packet came.
    pub fn handle_rtcp(&mut self, now: Timestamp, packet: &Packet) {
        let _ = (now, packet);
    }

    /// The deadline of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// The next datagram of reports, if one is due.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let _ = now;
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
