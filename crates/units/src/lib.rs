#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]

#[macro_use]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod data;
mod declare;
mod ecn;
pub mod math;
mod text;
mod time;

pub use data::{DataRate, DataSize};
pub use declare::UnknownName;
pub use ecn::Ecn;
pub use text::UnitError;
pub use time::{NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp};
