//! Datagrams that a socket received in one call.

use std::net::SocketAddr;

use giusto_units::Timestamp;

/// Datagrams of one receive call.
#[derive(Debug, Clone, Copy)]
pub struct Inbound<'a> {
    /// The source address.
    pub from: SocketAddr,
    /// One datagram, or several of `segment` bytes each; the last one may be shorter.
    pub bytes: &'a [u8],
    /// Length of one datagram; that of `bytes` if there is only one.
    pub segment: usize,
    /// Arrival time.
    pub at: Timestamp,
    /// The IP header's traffic class: DSCP and ECN.
    pub tos: Option<u8>,
    /// The socket's count of datagrams that it dropped since it was opened.
    pub kernel_dropped: Option<u64>,
    /// Whether the datagram was longer than the buffer.
    pub truncated: bool,
}
