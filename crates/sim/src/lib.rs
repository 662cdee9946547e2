#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`simulation`] | agents, links and flows in a run |
//! | [`engine`] | event queue |
//! | [`network`] | topology and routes |
//! | [`packet`] | packet metadata and identifiers |
//! | [`link`] | rate, queue, loss, delay |
//! | [`medium`] | Wi-Fi: a medium that links share |
//! | [`traffic`] | sources, sinks, TCP, media endpoints |
//! | [`machine`] | coarse clocks and sleeps, processors shared with other threads |
//! | [`random`] | random number streams |
//! | [`trace`] | trace events |
//! | [`record`] | the record of a run: statistics and time series |
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests compare with tolerances"))]

pub mod engine;
pub mod link;
pub mod machine;
pub mod medium;
pub mod network;
pub mod packet;
pub mod random;
pub mod record;
pub mod simulation;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod traffic;
