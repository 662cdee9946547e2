#![doc = include_str!("../README.md")]

mod cookie;
mod envelope;
pub mod iperf3;
pub mod keys;
pub mod media;
pub mod probe;
mod replay;
pub mod stamp;
