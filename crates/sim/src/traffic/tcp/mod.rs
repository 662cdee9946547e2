//! Packet-level TCP for competing traffic.
//!
//! A [`Sender`] and a [`Receiver`] are the two ends of a connection. Data and acknowledgements use one flow each.
//!
//! | mechanism | source |
//! |---|---|
//! | handshake, SYN retransmission | RFC 9293 §3.5, RFC 6298 §5.7 |
//! | slow start, congestion avoidance, limited transmit, restart after idle periods | RFC 5681, RFC 3465, RFC 3042 |
//! | initial window of ten segments | RFC 6928 |
//! | `HyStart++` in the first slow start | RFC 9406 |
//! | loss recovery with SACK | RFC 2018, RFC 6675; proportional rate reduction: RFC 9937 |
//! | loss detection by time, tail loss probes | RFC 8985, with duplicate reports of RFC 2883 |
//! | detection of spurious timeouts | RFC 5682; the window is restored as in RFC 4015 §3 |
//! | loss recovery without SACK | RFC 6582, with the heuristic of its §4.1 |
//! | retransmission timeout, timestamps | RFC 6298, RFC 7323 |
//! | delayed acknowledgements | RFC 5681 §4.2 |
//! | classic ECN | RFC 3168 |
//! | accurate ECN, with one counter of 16 bits | RFC 9768 §3.2.2 |
//! | delivery-rate samples | draft-ietf-ccwg-bbr-03 §4.1 |
//! | congestion control | [`NewReno`](control::NewReno), [`Cubic`](control::Cubic), [`Prague`](control::Prague), [`Bbr`](control::Bbr) |
//!
//! Not implemented, with consequences:
//!
//! - **Undoing a spurious fast recovery**: a duplicate report (RFC 2883) widens the reordering window of RACK, but does not
//!   restore the window.
//! - **Proportional rate reduction without SACK, and for ECN marks**: the window is reduced in one step, and the sender
//!   pauses until the data in flight has fallen below it.
//! - **Pacing with NewReno and CUBIC**: the sender transmits whatever the window permits immediately, as Linux without the `fq`
//!   queue. Prague and BBR pace each segment.
//! - **The `HyStart` of Linux**: `HyStart++` replaces it. It does not measure packet trains, and it continues with slower
//!   growth for five rounds where `HyStart` ends slow start immediately.
//! - **Flow control**: the receive window is constant.
//! - **Connection termination**: the last data segment carries the FIN. The receiver sends no FIN, and there is no TIME-WAIT
//!   state. A SYN is retransmitted without limit, at intervals of up to 60 s.
//!
//! # Example
//!
//! ```
//! use giusto_sim::{
//!     packet::FlowId,
//!     traffic::{Agent, tcp},
//! };
//! use giusto_units::Timestamp;
//!
//! let settings = tcp::Settings { mss: 536, ..tcp::Settings::default() };
//! let mut sender = tcp::Sender::new(FlowId(0), settings, tcp::Application::Bytes(100_000))?;
//! let syn = sender.poll_transmit(Timestamp::ZERO).expect("a SYN");
//! assert_eq!(syn.bytes, 60);
//! assert_eq!(sender.poll_timeout(), Some(Timestamp::from_nanos(1_000_000_000)));
//! # Ok::<(), tcp::SettingsError>(())
//! ```

mod application;
pub mod control;
mod delivery;
mod history;
mod news;
mod prr;
mod rack;
mod ranges;
mod receiver;
mod rto;
mod scoreboard;
mod sender;
mod settings;
mod stats;
mod transmission;

#[cfg(test)]
mod tests;

pub use super::segment::{Flags, HEADER_BYTES, SackBlocks, Segment, TIMESTAMPS_BYTES};
pub use application::{Application, ShortFlows};
pub use control::Algorithm;
pub use receiver::{Receiver, ReceiverStats};
pub use rto::{RtoEstimator, RtoFloor};
pub use sender::Sender;
pub use settings::{Settings, SettingsError};
pub use stats::{TcpStats, Transfer};
