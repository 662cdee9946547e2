#![doc = include_str!("../README.md")]
#![warn(unnameable_types)]

mod face;
mod session;
mod sized;
mod status;
mod types;

pub use face::*;
pub use status::GiustoStatus;
pub use types::*;
