//! TCP, packet by packet, as competing traffic.
//!
//! A [`Sender`] and a [`Receiver`] are the two ends of one connection slot: data one way, acknowledgements the other, each on a
//! flow of its own.
//!
//! | part | as in |
//! |---|---|
//! | handshake, SYN sent again after a timeout | RFC 9293 §3.5, RFC 6298 §5.7 |
//! | slow start, congestion avoidance, limited transmit, restart after idleness | RFC 5681, RFC 3465, RFC 3042 |
//! | initial window of ten segments | RFC 6928 |
//! | `HyStart++`: the first slow start ends when the round trip rises | RFC 9406 |
//! | loss recovery with SACK | RFC 2018, RFC 6675; proportional rate reduction: RFC 9937 |
//! | loss recovery without | RFC 6582, with the heuristic of its §4.1 |
//! | retransmission timeout, timestamps | RFC 6298, RFC 7323 |
//! | delayed acknowledgements | RFC 5681 §4.2 |
//! | classic ECN | RFC 3168 |
//! | congestion control | [`NewReno`](control::NewReno), [`Cubic`](control::Cubic) |
//!
//! What is left out, and what follows from it:
//!
//! - **RACK and tail loss probes (RFC 8985), F-RTO (RFC 5682), DSACK (RFC 2883)**: a retransmission that is lost, or the tail of a
//!   transfer, waits for the timeout, and a reduction that proves needless is not undone.
//! - **Proportional rate reduction without SACK, and for marks**: there the window shrinks at once, and the sender is silent until
//!   no more than that is under way.
//! - **Pacing**: what the window admits leaves at once, as in Linux without the `fq` queue.
//! - **The `HyStart` of Linux**: `HyStart++` stands for it, which lacks the measurement of packet trains, and goes on more slowly for
//!   five rounds where `HyStart` ends slow start at once.
//! - **Flow control**: the receive window is a constant.
//! - **The end of a connection**: the FIN rides on the last data; there is no FIN from the receiver and no waiting afterwards. A
//!   SYN is repeated for ever, with up to 60 s between.
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
mod prr;
mod receiver;
mod rto;
mod scoreboard;
pub(super) mod segment;
mod sender;
mod settings;
mod transmission;

#[cfg(test)]
mod tests;

pub use application::{Application, ShortFlows};
pub use control::Algorithm;
pub use receiver::{Receiver, ReceiverStats};
pub use rto::{RtoEstimator, RtoFloor};
pub use segment::{Flags, HEADER_BYTES, SackBlocks, Segment, TIMESTAMPS_BYTES};
pub use sender::{Sender, TcpStats, Transfer};
pub use settings::{Settings, SettingsError};
