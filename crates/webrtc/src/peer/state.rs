//! What a call has reached, and its counts.

use std::net::SocketAddr;

use giusto_units::{Ecn, TimeDelta};

use crate::ice::StunCounters;

/// The browser must have connected within this time. Chosen by us: a browser gives up after 15 to 30 s.
pub(super) const CONNECT_TIMEOUT: TimeDelta = TimeDelta::from_seconds(30);

/// Why a call ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndReason {
    /// We ended it.
    #[error("ended here")]
    Local,
    /// The browser closed it.
    #[error("the browser ended the call")]
    Browser,
    /// It never connected.
    #[error(
        "the browser did not connect within {CONNECT_TIMEOUT}: is UDP to {address} open? It sent {checks} checks"
    )]
    NotConnected {
        /// The address of our socket.
        address: SocketAddr,
        /// Authenticated checks.
        checks: u64,
    },
    /// Its checks ceased.
    #[error("the browser disappeared: no check of it for 30 s (RFC 7675)")]
    ConsentExpired,
    /// Its host says that nothing listens at its port.
    #[error("the browser disappeared: its host answers that nothing listens at its port any more")]
    Gone,
    /// The connection could not be secured.
    #[error("{0}")]
    Insecure(String),
}

/// What a call has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerState {
    /// Waits for the browser's checks and the DTLS handshake.
    Connecting,
    /// Sends media.
    Connected,
    /// Nothing more is sent, except the queued goodbye.
    Ended(EndReason),
}

/// Counts of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct PeerCounters {
    /// Messages of ICE.
    pub stun: StunCounters,
    /// Datagrams that are none of STUN, DTLS, RTP and RTCP (RFC 7983), or came from an address without an authenticated check.
    pub strange_datagrams: u64,
    /// SRTP and SRTCP packets that were forged, repeated or damaged.
    pub refused_packets: u64,
    /// RTCP datagrams of the browser.
    pub rtcp_datagrams: u64,
    /// Requests of a key frame by the browser.
    pub key_frame_requests: u64,
    /// Frames sent.
    pub frames: u64,
    /// Key frames sent.
    pub key_frames: u64,
    /// Frames skipped because the queue was too old.
    pub skipped_frames: u64,
    /// Frames that the session did not accept.
    pub refused_frames: u64,
    /// UDP datagrams of media, padding and RTCP.
    pub sent_datagrams: u64,
    /// Their bytes, headers of UDP and IP not included.
    pub sent_bytes: u64,
    /// Datagrams of media that were sent again.
    pub retransmitted_datagrams: u64,
    /// Packets that the browser requested, each time counted.
    pub requested_packets: u64,
    /// Requested packets that were not sent again because they would have come too late.
    pub late_repairs: u64,
    /// Padding packets among them.
    pub padding_datagrams: u64,
    /// Changes of the browser's address.
    pub address_changes: u64,
    /// UDP datagrams of the browser's media.
    pub received_datagrams: u64,
    /// Their bytes, headers of UDP and IP not included.
    pub received_bytes: u64,
}

/// A datagram to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Where it goes.
    pub to: SocketAddr,
    /// Its ECN codepoint.
    pub ecn: Ecn,
    /// Whether it is RTP or RTCP; otherwise STUN or DTLS.
    pub is_media: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}
