//! Measuring another program's traffic.
//!
//! A [`StampingRelay`] stands between a client and a server on this machine and timestamps each datagram that passes.

mod connections;
mod relay;
mod shared;

pub use relay::{Observed, RelayConfig, RelayReport, StampingRelay, free_port};
pub use shared::RelayError;
