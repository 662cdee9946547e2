//! iperf3 at the far end: giusto as its client or its server, in UDP mode.

mod client;
mod figures;
mod running;
mod server;

pub use client::Iperf3Client;
pub use server::{Iperf3Server, Iperf3ServerConfig, Notice};
