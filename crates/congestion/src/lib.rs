#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | contents |
//! |---|---|
//! | [`controller`] | the interface of a controller |
//! | [`algorithm`] | controllers by name |
//! | [`limits`], [`requirements`] | its configuration and its requirements |
//! | [`feedback`], [`target`] | its input and its output |
//! | [`history`] | converts RTCP messages to feedback |
//! | [`log`] | reports the input and the output of a controller |
//! | [`fixed`] | a constant rate |
//! | [`drain`] | a media rate that drains the sender's queue |
//! | [`bbr`] | BBR version 3 for media |
//! | [`copa`] | Copa |
//! | [`gcc`] | Google Congestion Control, and its parts |
//! | [`nada`] | NADA (RFC 8698) |
//! | [`scream`] | SCReAM in three generations |
//! | [`tempo`] | a controller of our own |
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests compare with tolerances"))]

mod acknowledgement;
pub mod algorithm;
#[cfg(test)]
mod any_order;
pub mod bbr;
#[cfg(test)]
mod closed_loop;
pub mod controller;
pub mod copa;
pub mod drain;
mod entry;
mod extremes;
pub mod feedback;
pub mod fixed;
pub mod gcc;
pub mod history;
pub mod limits;
pub mod log;
pub mod nada;
pub mod requirements;
#[cfg(test)]
mod runtime;
pub mod scream;
#[cfg(test)]
mod shared_queue;
mod table;
pub mod target;
pub mod tempo;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use controller::Controller;
pub use feedback::{Feedback, LossReport, PacketReport, QueueState, SentPacket, StreamState};
pub use fixed::Fixed;
pub use history::{History, OutgoingPacket, RtpId};
pub use limits::{Limits, Options};
pub use requirements::{FeedbackKind, PacerSettings, Requirements, Staleness};
pub use target::{Cause, Decision, Probe, Signal, Target};
