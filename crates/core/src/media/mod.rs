//! What is in a datagram?

pub mod g711;
pub mod payload;
pub mod voice;
