//! Keys that two ends agree on before a call, such as by DTLS.

use std::net::SocketAddr;

use giusto_units::Timestamp;

use crate::keys::KeyId;

/// The id and the bytes of the key that two ends have agreed on, or why they have none.
pub type ExchangeResult = Result<(KeyId, Vec<u8>), String>;

/// The listening end of a key agreement whose datagrams share the socket of the calls: their first byte is 20 to 63 (RFC 7983 §7).
pub trait KeyExchange: std::fmt::Debug {
    /// Handles a received datagram.
    fn handle_datagram(&mut self, now: Timestamp, from: SocketAddr, bytes: &[u8]);

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout).
    fn handle_timeout(&mut self, now: Timestamp);

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    fn poll_timeout(&self) -> Option<Timestamp>;

    /// The next datagram to send, if any.
    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)>;

    /// The next result, if any.
    fn poll_result(&mut self) -> Option<(SocketAddr, ExchangeResult)>;
}
