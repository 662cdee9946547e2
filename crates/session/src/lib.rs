#![doc = include_str!("../README.md")]

pub mod iperf3;
pub mod keys;
pub mod media;
pub mod probe;
pub mod stamp;
