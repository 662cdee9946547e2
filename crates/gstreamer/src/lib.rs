#![doc = include_str!("../README.md")]

mod element;
mod engine;
mod plugin;
mod sent;

pub use element::GiustoBwe;
