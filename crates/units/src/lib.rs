#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]

#[macro_use]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod ecn;
pub mod math;
mod quantity;

pub use ecn::Ecn;
pub use quantity::{DataRate, DataSize, NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp, UnitError};
