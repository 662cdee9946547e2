//! The measurement protocol: a paced stream, and reports from the receiver.
//!
//! [`Sender`] and [`Receiver`] are the two endpoints, without clock or socket; [`wire`] defines the messages.
//! [`Outgoing`] writes the datagrams of a stream, with the sizes of [`payload`] or with the packets of
//! [`voice`].
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
//! Datagrams and Pings of a stream that come from another address are answered there by a `PathProbe` with a cookie; once a `PathProof`
//! returns it, the stream goes on at this address, and counts what has come from there meanwhile.
//!
//! A stream to a multicast group has receivers that do not answer: its [`Announcer`] repeats what comes, and then the end.
//!
//! Until an address is verified, it gets one answer per datagram, which is shorter than the datagram.
//! Afterwards a stream gets at most as many bytes as it has sent.

mod admission;
mod announcer;
mod auth;
mod bursts;
mod clock;
mod counters;
mod far_end;
pub mod g711;
mod greeting;
mod inbound;
mod media_clock;
mod outgoing;
pub mod payload;
mod receiver;
mod reception;
mod reports;
mod sender;
mod stream;
mod transmit;
pub mod voice;
pub mod wire;

pub use crate::handshakes::HandshakeFlood;
pub use crate::prefixes::Prefixes;
pub use admission::StreamLimits;
pub use announcer::Announcer;
pub use clock::LocalClock;
pub use counters::Counters;
pub use far_end::{FarEndReport, FarEndReports};
pub use greeting::Greeting;
pub use inbound::Inbound;
pub use outgoing::{Content, Filled, Lengths, Outgoing, RTP_CLOCK_HZ};
pub use receiver::{Passive, Receiver, ReceiverConfig, ReceiverEvent, ReverseStream, StreamId};
pub use reports::{MediaTiming, SenderReports};
pub use sender::{Sender, SenderConfig, SenderError, SenderEvent};
pub use stream::{Ended, Stream, StreamPath};
pub use transmit::Transmit;
