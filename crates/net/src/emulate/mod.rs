//! Measuring another program's traffic.
//!
//! A [`StampingRelay`] forwards datagrams between a client and a server on this machine and timestamps each
//! of them.

mod connections;
mod relay;
mod run;
mod shared;

pub use relay::{Observed, RelayConfig, RelayReport, StampingRelay, free_port};
pub use run::DatagramRun;
pub use shared::RelayError;
