//! The protocol of iperf3 in UDP mode, as a client and as a server.
//!
//! [`Client`] and [`Server`] are the two ends of the control connection: bytes and times come in, bytes and events go out.
//! [`DataHeader`] is the first part of each datagram, [`Incoming`] measures the datagrams of one stream.
//!
//! ```text
//!   Client                                  Server
//!     | -- cookie, 37 bytes (TCP) ------------> |
//!     | <------------------- PARAM_EXCHANGE --- |
//!     | -- Parameters (length, JSON) ---------> |
//!     | <------------------- CREATE_STREAMS --- |
//!     | -- 4 bytes (UDP), for each stream ----> |
//!     | <------------- 4 bytes (UDP), answer -- |
//!     | <-------- TEST_START, TEST_RUNNING ---- |
//!     | == datagrams, in one or both directions |
//!     | -- TEST_END --------------------------> |
//!     | <----------------- EXCHANGE_RESULTS --- |
//!     | -- Outcome (length, JSON) ------------> |
//!     | <------------ Outcome (length, JSON) -- |
//!     | <------------------ DISPLAY_RESULTS --- |
//!     | -- IPERF_DONE ------------------------> |
//! ```
//!
//! There is no specification. The source is that of iperf3 3.12 and 3.21 (`iperf_api.c`, `iperf_client_api.c`,
//! `iperf_server_api.c`, `iperf_udp.c`); constants name the file.

mod client;
mod control;
mod datagram;
mod error;
mod incoming;
mod messages;
mod reader;
mod server;
mod wire;

pub use client::{Client, ClientError, ClientEvent};
pub use control::Control;
pub use datagram::{DataHeader, HEADER_BYTES, MAX_DATAGRAM_BYTES};
pub use error::ErrorCode;
pub use incoming::{Incoming, IncomingConfig};
pub use messages::{MessageError, Outcome, Parameters, StreamOutcome};
pub use server::{Server, ServerConfig, ServerError, ServerEvent};
pub use wire::{
    COOKIE_BYTES, Cookie, DEFAULT_PORT, Greeting, MAX_STREAMS, State, VERSION, is_greeting, stream_id,
};

#[cfg(test)]
mod tests;
