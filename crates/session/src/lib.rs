#![doc = include_str!("../README.md")]

pub mod media;
pub mod probe;
