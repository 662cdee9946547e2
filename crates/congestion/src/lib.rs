#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | this one | the interface of a controller, its input and output, controllers by name, the packet history |
//! | [`log`] | reports the input and the output of a controller |
//! | [`bbr`] | BBR version 3 for media |
//! | [`copa`] | Copa |
//! | [`gcc`] | Google Congestion Control |
//! | [`nada`] | NADA (RFC 8698) |
//! | [`scream`] | SCReAM in three generations |
//! | [`tempo`] | a controller of our own |
//!
//! # Compatibility
//!
//! Types are `#[non_exhaustive]`, so that a field more breaks no program: construct them with `new`, `default` and `with_…`; read and
//! assign their fields.
#![cfg_attr(not(test), no_std)]
#![warn(unnameable_types)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests compare with tolerances"))]

#[macro_use]
extern crate alloc;

mod acknowledgement;
mod algorithm;
#[cfg(test)]
mod any_order;
mod base_delay;
pub mod bbr;
mod clock_jump;
#[cfg(test)]
mod closed_loop;
mod constants;
mod controller;
pub mod copa;
mod decided;
mod drain;
mod entry;
mod extremes;
mod feedback;
mod fixed;
pub mod gcc;
mod history;
#[cfg(test)]
mod imperfect;
#[cfg(feature = "internals")]
pub mod internals;
mod limits;
pub mod log;
pub mod nada;
mod nada_report;
mod reordering;
mod requirements;
#[cfg(test)]
mod runtime;
pub mod scream;
#[cfg(test)]
mod shared_queue;
mod table;
mod target;
pub mod tempo;
#[cfg(test)]
mod testing;
mod words;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use constants::{Constant, ConstantError};
pub use controller::Controller;
pub use drain::QueueDrain;
pub use feedback::{Extension, Feedback, LossReport, PacketReport, QueueState, SentPacket, StreamState};
pub use fixed::Fixed;
pub use history::{History, OutgoingPacket, Reported, RtpId};
pub use limits::{Limits, Options};
pub use requirements::{FeedbackKind, PacerSettings, Requirements, Staleness};
pub use target::{Cause, Decision, Probe, Signal, Target};
