#![doc = include_str!("../README.md")]

mod element;
mod engine;
mod plugin;
mod sent;
mod words;

pub use element::GiustoBwe;
