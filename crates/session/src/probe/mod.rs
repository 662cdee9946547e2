//! How do two ends speak to each other?
//!
//! [`Sender`] and [`Receiver`] are the two endpoints, without clock or socket; [`wire`] is what they say.
//!
//! ```text
//!   Sender                                Receiver
//!     | -- Hello (padded) ----------------> |   keeps nothing
//!     | <-- Challenge (cookie) ------------ |   no longer than the Hello
//!     | -- Open (cookie, what will come) -> |   the address is proven: a stream begins
//!     | <-- Accepted (token) -------------- |
//!     | == datagrams, each with the token => |   measured
//!     | -- Ping --> <-- Pong -------------- |   round-trip time, clock offset and drift
//!     | <-- Report ------------------------ |   live figures, as far as the byte budget goes
//!     | -- Finish (own figures) ----------> |
//!     | <-- Report (final) ---------------- |
//! ```
//!
//! Until an address is proven it gets one answer a datagram, shorter than what it sent. Afterwards a stream gets at
//! most as many bytes as came from it.

mod cookie;
mod outgoing;
mod receiver;
mod sender;
mod stream;
pub mod wire;

pub use outgoing::{Content, Filled, Lengths, Outgoing, RTP_CLOCK_HZ};
pub use receiver::{Counters, Inbound, Passive, Receiver, ReceiverConfig, ReceiverEvent, StreamId};
pub use sender::{Sender, SenderConfig, SenderError, SenderEvent};
pub use stream::{Ended, Stream};

use std::net::SocketAddr;

/// A control datagram to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// Its payload.
    pub bytes: Vec<u8>,
}
