//! Measuring another program's traffic.
//!
//! A [`StampingRelay`] stands between a client and a server on this machine and timestamps each datagram that passes.

mod connections;
mod relay;

pub use relay::{Observed, RelayConfig, RelayError, RelayReport, StampingRelay, free_port};
