#![doc = include_str!("../README.md")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests compare with tolerances"))]

mod bits;
pub mod call;
mod control;
mod cookie;
mod envelope;
mod handshakes;
mod host;
pub mod iperf3;
pub mod keys;
pub mod media;
pub mod path_mtu;
mod prefixes;
mod printable;
pub mod probe;
mod replay;
mod session;
pub mod stamp;
#[cfg(test)]
mod testing;
mod used;
pub mod video;

pub use control::{is_call_control, is_control};
pub use host::host;
pub use session::Session;
