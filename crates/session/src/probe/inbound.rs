//! Datagrams that a socket received together.

use std::net::SocketAddr;

use giusto_units::Timestamp;

/// Datagrams that came together, as a socket gives them.
#[derive(Debug, Clone, Copy)]
pub struct Inbound<'a> {
    /// The source address.
    pub from: SocketAddr,
    /// One datagram, or several of `segment` bytes each, of which the last may be shorter.
    pub bytes: &'a [u8],
    /// Length of one datagram; that of `bytes` if there is only one.
    pub segment: usize,
    /// When it arrived.
    pub at: Timestamp,
    /// The IP header's traffic class: DSCP and ECN.
    pub tos: Option<u8>,
    /// The socket's own count of datagrams that it had to drop since it was opened.
    pub kernel_dropped: Option<u64>,
    /// Whether it was longer than the buffer.
    pub truncated: bool,
}
