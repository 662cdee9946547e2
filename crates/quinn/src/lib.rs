#![doc = include_str!("../README.md")]
//!
//! # How it works
//!
//! | quinn | here |
//! |---|---|
//! | names acknowledged packets by departure and size, lost ones by the sum of their sizes | packets are found by these; RFC 9002 §6.1 gives up all packets up to the last lost one |
//! | reports packets one by one, losses and marks afterwards | one feedback for each acknowledgement |
//! | has no arrival times | the time of the acknowledgement stands for arrival: the delay of the way back counts too, unless [`Media::on_arrival`] is called |
//! | paces at 1.25 windows in a smoothed RTT | window = pacing rate × smoothed RTT / 1.25, and at least the media rate × (smoothed RTT + 50 ms) |
//! | bursts of 10 packets | remain |
//! | does not tell what waits in it | bytes written less bytes sent; nothing after it ran out of data |
//! | has no timer and no probes | the application calls [`Media::tick`] and sends [`Media::padding`] |
//! | counts payloads of UDP | 28 bytes of UDP and IPv4 are added |
//!
//! Controllers also get the loss ratio and the RTT of each second, as from receiver reports. `gcc:remb` and `gcc:rmcat-02` have no
//! other input.
#![warn(unnameable_types)]

mod budget;
mod controller;
mod ledger;
mod media;
pub mod priority;
mod probes;
mod state;
#[cfg(test)]
mod testing;
mod waiting;

pub use controller::{Giusto, GiustoConfig};
pub use giusto_congestion::{Algorithm, ConstantError, Decision, Limits, Options, Target};
pub use giusto_units::DataRate;
pub use media::Media;
