//! A control datagram.

use std::net::SocketAddr;

/// A control datagram to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub to: SocketAddr,
    /// Its payload.
    pub bytes: Vec<u8>,
}
