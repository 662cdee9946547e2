//! How does another program's traffic pass through our hands?
//!
//! A [`StampingRelay`] stands between a client and a server on this machine and measures what passes.

mod connections;
mod relay;

pub use relay::{Observed, RelayConfig, RelayError, RelayReport, StampingRelay, free_port};
