#![doc = include_str!("../README.md")]

mod ecn;
pub mod math;
mod quantity;

pub use ecn::Ecn;
pub use quantity::{DataRate, DataSize, NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp, UnitError};
