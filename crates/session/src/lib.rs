#![doc = include_str!("../README.md")]

pub mod call;
mod cookie;
mod envelope;
pub mod iperf3;
pub mod keys;
pub mod media;
pub mod probe;
mod replay;
pub mod stamp;
pub mod video;
