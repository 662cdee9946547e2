//! Runs over real sockets.
//!
//! A protocol is its messages and its state machine in `giusto-session`, a module here with its [`Client`](live::Client), and a row of
//! the command's table of forms (`crates/cli/src/forms.rs`).
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | what to send, and how to pace it |
//! | [`send`], [`recv`], [`loopback`] | the sending end, the receiving end, or both |
//! | [`stamp`] | STAMP: a session sender and a session reflector |
//! | [`streams`] | streams to and from a giusto receiver, in one direction or both |
//! | [`reverse`] | streams that the listening end sends, because it was asked to |
//! | [`race`] | which of several addresses answers first |
//! | [`peer`] | other programs, measured by the same meter |
//! | [`iperf3`] | iperf3 at the far end |
//! | [`live`] | what a session of any protocol shows while it lasts, and leaves at its end |
//! | [`interval`] | the figures of the intervals of a run |
//! | [`metrics`] | the state of a receiver for Prometheus |
//! | [`result`] | the result of a run, and reasons to doubt it |
//! | [`median`] | the result of several runs |

#[cfg(feature = "system")]
mod announce;
#[cfg(feature = "system")]
mod away;
#[cfg(feature = "system")]
mod departures;
#[cfg(feature = "system")]
mod doubt;
#[cfg(feature = "system")]
mod error;
#[cfg(feature = "system")]
mod granted;
#[cfg(feature = "system")]
pub mod iperf3;
#[cfg(feature = "system")]
pub mod live;
#[cfg(feature = "system")]
pub mod loopback;
pub mod median;
#[cfg(feature = "system")]
pub mod metrics;
#[cfg(feature = "system")]
pub(crate) mod path_mtu;
#[cfg(feature = "system")]
pub mod peer;
#[cfg(feature = "system")]
pub mod plan;
#[cfg(feature = "system")]
pub mod race;
#[cfg(feature = "system")]
pub mod recv;
pub mod result;
#[cfg(feature = "system")]
pub mod reverse;
pub mod script;
#[cfg(feature = "system")]
pub mod send;
#[cfg(feature = "system")]
pub mod stamp;
#[cfg(feature = "system")]
pub mod streams;
#[cfg(feature = "system")]
pub mod tcp;

#[cfg(feature = "system")]
pub use crate::interval;
#[cfg(feature = "system")]
pub use doubt::own_loss;
#[cfg(feature = "system")]
pub use error::RunError;
